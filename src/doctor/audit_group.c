#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/audit_parts.h"
#include "weights/tensor_take.h"

/* An expert whose input is said to be so many times smaller than its neighbours' saw too little
 * of the calibration text: what is larger would be cut. */
#define SMALL_INPUT 1000.0

/* From this ratio on a pair of scales is told by name. */
#define LARGE_RATIO 4.0

/* MXFP4 blocks this many powers of two apart fit one NVFP4 tensor exactly: E4M3 has the powers
 * 2^-9 .. 2^8. */
#define EXACT_SPAN 17

/* ---- experts of one projection ---- */

/* "layers.3.ffn.experts." and "w1" of "layers.3.ffn.experts.7.w1"; false for other names. */
static bool split_expert(const char *name, size_t *prefix, const char **projection)
{
    static const char mark[] = ".experts.";
    const char *const at = strstr(name, mark);
    if (!at) return false;
    const char *const number = at + sizeof mark - 1;
    size_t const      digits = strspn(number, "0123456789");
    *prefix = (size_t)(number - name);
    *projection = number + digits + 1;
    return digits > 0 && number[digits] == '.';
}

bool hd_audit_same_projection(const char *a, const char *b)
{
    size_t      pa, pb;
    const char *qa, *qb;
    return split_expert(a, &pa, &qa) && split_expert(b, &pb, &qb) && pa == pb &&
           memcmp(a, b, pa) == 0 && strcmp(qa, qb) == 0;
}

static bool is_gate_or_up(const char *projection)
{
    return strcmp(projection, "w1") == 0 || strcmp(projection, "w3") == 0;
}

bool hd_audit_same_product(const char *a, const char *b)
{
    size_t      pa, pb;
    const char *qa, *qb;
    return split_expert(a, &pa, &qa) && split_expert(b, &pb, &qb) && pa == pb &&
           memcmp(a, b, pa) == 0 &&
           (strcmp(qa, qb) == 0 || (is_gate_or_up(qa) && is_gate_or_up(qb)));
}

/* Items [begin, end) of the model: the experts of one projection or product, in the order of the
 * walk. */
typedef struct expert_run {
    hd_audit      *a;
    hd_audit_item *items;
    int64_t        n;
} expert_run;

static void tell(const expert_run *r, const hd_audit_item *it, hd_severity s, const char *kind,
                 const char *what)
{
    hd_finding_head const head = {s, kind, it->what.name, hd_audit_file(&r->a->model, it->what.w)};
    hd_findings_add(&r->a->findings, &head, "matrix %s in %s %s", it->what.name, head.file, what);
}

static void judge_formats(const expert_run *r)
{
    int64_t n[HD_N_FORMATS] = {0};
    int     most = 0;
    char    what[96];
    for (int64_t i = 0; i < r->n; i++) n[r->items[i].what.format]++;
    for (int f = 0; f < HD_N_FORMATS; f++)
        if (n[f] > n[most]) most = f;
    for (int64_t i = 0; i < r->n; i++) {
        hd_format const f = r->items[i].what.format;
        if ((int)f == most) continue;
        snprintf(what, sizeof what, "is %s, %" PRId64 " beside it are %s", hd_format_name(f),
                 n[most], hd_format_name((hd_format)most));
        tell(r, &r->items[i], HD_ERROR, "mixed-experts", what);
    }
}

/* All experts have an input scale, or none has. */
static void judge_presence(const expert_run *r)
{
    int64_t with = 0;
    char    what[96];
    for (int64_t i = 0; i < r->n; i++) with += r->items[i].what.input_scale != NULL;
    if (with == 0 || with == r->n) return;
    bool const is_odd = 2 * with < r->n; /* those that have one are the odd ones */
    for (int64_t i = 0; i < r->n; i++) {
        if ((r->items[i].what.input_scale != NULL) != is_odd) continue;
        snprintf(what, sizeof what,
                 "%s its input_scale, %" PRId64 " of %" PRId64 " experts have one",
                 is_odd ? "has" : "lacks", with, r->n);
        tell(r, &r->items[i], HD_ERROR, "input-scale", what);
    }
}

static int compare_doubles(const void *x, const void *y)
{
    double const a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

/* NaN when no input scale can be used or there is no memory to sort them. */
static double median_input(const expert_run *r)
{
    double *const list = hd_memory_alloc((size_t)r->n * sizeof *list);
    int64_t       n = 0;
    for (int64_t i = 0; list && i < r->n; i++) {
        double const x = r->items[i].scan.input_scale;
        if (hd_take_is_scale((float)x)) list[n++] = x;
    }
    if (n > 0) qsort(list, (size_t)n, sizeof *list, compare_doubles);
    double const median = n > 0 ? list[n / 2] : NAN;
    hd_memory_free(list);
    return median;
}

static void judge_inputs(const expert_run *r)
{
    double const median = median_input(r);
    char         what[128];
    for (int64_t i = 0; i < r->n; i++) {
        double const x = r->items[i].scan.input_scale;
        if (!hd_take_is_scale((float)x) || !(x * SMALL_INPUT < median)) continue;
        snprintf(what, sizeof what,
                 "has input_scale %g, its neighbours' median is %g: inputs would be cut", x,
                 median);
        tell(r, &r->items[i], HD_WARNING, "input-scale", what);
    }
}

typedef bool is_same_fn(const char *a, const char *b);

static expert_run find_run(hd_audit *a, int64_t begin, is_same_fn *is_same)
{
    hd_audit_item *const items = a->model.items;
    int64_t              end = begin + 1;
    while (end < a->model.used && is_same(items[begin].what.name, items[end].what.name)) end++;
    return (expert_run){a, items + begin, end - begin};
}

static bool is_worth_judging(const expert_run *r)
{
    return r->n > 1 && r->items[0].what.format != HD_FMT_NONE;
}

static void judge_experts(hd_audit *a)
{
    for (int64_t begin = 0; begin < a->model.used;) {
        expert_run const r = find_run(a, begin, hd_audit_same_product);
        if (is_worth_judging(&r)) judge_formats(&r);
        begin += r.n;
    }
    for (int64_t begin = 0; begin < a->model.used;) {
        expert_run const r = find_run(a, begin, hd_audit_same_projection);
        begin += r.n;
        if (!is_worth_judging(&r)) continue;
        judge_presence(&r);
        judge_inputs(&r);
    }
}

/* ---- pairs that other programs fuse ---- */

typedef struct fused_pair {
    const char *first, *second; /* ends of names */
    const char *kind, *what;
} fused_pair;

/* The other matrix of a pair whose first one `it` is. */
static const hd_audit_item *find_second(const hd_audit *a, const hd_audit_item *it,
                                        const fused_pair *p)
{
    char         name[HD_NAME_MAX];
    size_t const n = strlen(it->what.name), m = strlen(p->first);
    if (n <= m || strcmp(it->what.name + n - m, p->first) != 0) return NULL;
    int const length =
        snprintf(name, sizeof name, "%.*s%s", (int)(n - m), it->what.name, p->second);
    return length > 0 && (size_t)length < sizeof name ? hd_audit_find(&a->model, name) : NULL;
}

static double ratio_of(const hd_audit_item *x, const hd_audit_item *y)
{
    double const a = x->scan.tensor_scale, b = y->scan.tensor_scale;
    if (!hd_take_is_scale((float)a) || !hd_take_is_scale((float)b)) return 1;
    return a > b ? a / b : b / a;
}

static void judge_pairs(hd_audit *a, const fused_pair *p)
{
    int64_t              n = 0, differ = 0;
    double               worst = 1;
    const hd_audit_item *where = NULL;
    for (int64_t i = 0; i < a->model.used; i++) {
        const hd_audit_item *const it = &a->model.items[i], *const second = find_second(a, it, p);
        if (!second || !it->what.tensor_scale || !second->what.tensor_scale) continue;
        double const          ratio = ratio_of(it, second);
        hd_finding_head const head = {HD_NOTE, p->kind, it->what.name, NULL};
        n++;
        differ += ratio > 1;
        if (ratio >= LARGE_RATIO)
            hd_findings_add(&a->findings, &head, "scales of %s and %s are %.4g times apart",
                            it->what.name, second->what.name, ratio);
        if (ratio <= worst) continue;
        worst = ratio;
        where = it;
    }
    if (!where) return;
    hd_finding_head const head = {HD_NOTE, p->kind, where->what.name, NULL};
    hd_findings_add(&a->findings, &head,
                    "scales of %s differ in %" PRId64 " of %" PRId64 " pairs, at most %.4g times, "
                    "in %s: a program that keeps one of the two is wrong there",
                    p->what, differ, n, worst, where->what.name);
}

/* ---- MXFP4 in NVFP4 ---- */

static bool is_power_of_two(double x)
{
    int exponent;
    return x > 0 && isfinite(x) && frexp(x, &exponent) == 0.5;
}

static int span_of(const hd_scan *s)
{
    return s->scale_max > 0 ? ilogb(s->scale_max) - ilogb(s->scale_min) : 0;
}

static void judge_exactness(hd_audit *a)
{
    int64_t               nvfp4 = 0, exact = 0, mxfp4 = 0, fit = 0;
    hd_finding_head const head = {HD_NOTE, "exact", NULL, NULL};
    for (int64_t i = 0; i < a->model.used; i++) {
        const hd_audit_item *const it = &a->model.items[i];
        bool const                 is_mxfp4 = it->what.format == HD_FMT_MXFP4;
        bool const                 has_fit = span_of(&it->scan) <= EXACT_SPAN;
        nvfp4 += it->what.format == HD_FMT_NVFP4;
        exact += it->what.format == HD_FMT_NVFP4 && it->scan.uneven.n == 0 &&
                 is_power_of_two(it->scan.tensor_scale);
        mxfp4 += is_mxfp4;
        fit += is_mxfp4 && has_fit;
        hd_finding_head const one = {HD_NOTE, "exact", it->what.name, NULL};
        if (is_mxfp4 && !has_fit)
            hd_findings_add(&a->findings, &one,
                            "matrix %s: scales span 2^%d, more than 2^%d: NVFP4 cannot hold it "
                            "exactly",
                            it->what.name, span_of(&it->scan), EXACT_SPAN);
    }
    if (nvfp4 > 0)
        hd_findings_add(&a->findings, &head,
                        "%" PRId64 " of %" PRId64 " NVFP4 matrices have powers of two for all "
                        "scales: %s",
                        exact, nvfp4,
                        exact ? "an exact cast of MXFP4" : "quantized from other values");
    if (mxfp4 > 0)
        hd_findings_add(&a->findings, &head,
                        "%" PRId64 " of %" PRId64 " MXFP4 matrices can become NVFP4 exactly", fit,
                        mxfp4);
}

/* ---- siblings in several files ---- */

static bool is_torn(const hd_scanned *m)
{
    const hd_tensor *const others[] = {m->scale, m->tensor_scale, m->input_scale};
    for (int i = 0; i < 3; i++)
        if (others[i] && others[i]->shard != m->w->shard) return true;
    return false;
}

static void judge_files(hd_audit *a)
{
    const hd_scanned *first = NULL;
    int64_t           n = 0;
    for (int64_t i = 0; i < a->model.used; i++) {
        const hd_scanned *const m = &a->model.items[i].what;
        if (!is_torn(m)) continue;
        if (!n++) first = m;
    }
    if (n == 0) return;
    hd_finding_head const head = {HD_NOTE, "torn", first->name, hd_audit_file(&a->model, first->w)};
    hd_findings_add(&a->findings, &head,
                    "the scales of %" PRId64
                    " matri%s are in other files than the weights, the first is %s",
                    n, n == 1 ? "x" : "ces", first->name);
}

static void judge_activations(hd_audit *a)
{
    int64_t nvfp4 = 0, without = 0;
    for (int64_t i = 0; i < a->model.used; i++) {
        const hd_scanned *const m = &a->model.items[i].what;
        nvfp4 += m->format == HD_FMT_NVFP4;
        without += m->format == HD_FMT_NVFP4 && !m->input_scale;
    }
    if (without == 0) return;
    hd_finding_head const head = {HD_NOTE, "input-scale", NULL, NULL};
    hd_findings_add(&a->findings, &head,
                    "%" PRId64 " of %" PRId64 " NVFP4 matrices have no input_scale: their inputs "
                    "stay as they are, or are scaled as they come",
                    without, nvfp4);
}

void hd_audit_judge_groups(hd_audit *a)
{
    static const fused_pair pairs[] = {{".w1", ".w3", "gate-up", "gate and up"},
                                       {".wq_a", ".wkv", "q-kv", "wq_a and wkv"}};
    judge_experts(a);
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) judge_pairs(a, &pairs[i]);
    judge_exactness(a);
    judge_files(a);
    judge_activations(a);
}
