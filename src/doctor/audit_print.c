#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_write.h"
#include "doctor/audit_parts.h"
#include "quant/fp4.h"
#include "quant/fp8.h"
#include "weights/tensor_take.h"

#define N_WORST  20 /* differences          */
#define NAME_CAP 160

/* ---- kinds of tensors ---- */

typedef struct range {
    double least, most;
    bool   is_any;
} range;

/* Tensors whose names differ in numbers only, of one format and shape. */
typedef struct group {
    char    name[NAME_CAP], shape[64];
    int64_t n;
    range   tensor_scale, block_scale, amax, input_amax;
    int64_t blocks, saturated, zero, denormal;
} group;

typedef struct groups {
    group  *list; /* [used] of hd_memory */
    int32_t used, cap, last;
    bool    failed;
} groups;

static void widen(range *r, double x)
{
    if (!isfinite(x) || x <= 0) return;
    r->least = r->is_any ? fmin(r->least, x) : x;
    r->most = r->is_any ? fmax(r->most, x) : x;
    r->is_any = true;
}

static void print_shape(const hd_scanned *m, char *out, size_t cap)
{
    if (m->format == HD_FMT_NONE)
        hd_st_tensor_print(&m->w->st, out, cap);
    else
        snprintf(out, cap, "%s [%d, %d]", hd_format_name(m->format), m->n, m->k);
}

static bool make_room(groups *g)
{
    if (g->used < g->cap) return true;
    int32_t const cap = g->cap ? 2 * g->cap : 64;
    group *const  list = hd_memory_alloc((size_t)cap * sizeof *list);
    if (!list) {
        g->failed = true;
        return false;
    }
    if (g->used) memcpy(list, g->list, (size_t)g->used * sizeof *list);
    hd_memory_free(g->list);
    g->list = list;
    g->cap = cap;
    return true;
}

static group *find_group(groups *g, const char *name, const char *shape)
{
    for (int32_t i = 0; i < g->used; i++) { /* neighbours are mostly alike */
        group *const at = &g->list[(g->last + i) % g->used];
        if (strcmp(at->name, name) != 0 || strcmp(at->shape, shape) != 0) continue;
        g->last = (g->last + i) % g->used;
        return at;
    }
    if (!make_room(g)) return NULL;
    group *const at = &g->list[g->last = g->used++];
    snprintf(at->name, sizeof at->name, "%s", name);
    snprintf(at->shape, sizeof at->shape, "%s", shape);
    return at;
}

static void add_to_groups(groups *g, const hd_audit_item *it)
{
    char           name[NAME_CAP], shape[64];
    const hd_scan *s = &it->scan;
    hd_audit_pattern(it->what.name, name, sizeof name);
    print_shape(&it->what, shape, sizeof shape);
    group *const at = find_group(g, name, shape);
    if (!at) return;
    at->n++;
    widen(&at->tensor_scale, s->tensor_scale);
    widen(&at->block_scale, s->scale_min);
    widen(&at->block_scale, s->scale_max);
    widen(&at->amax, s->amax);
    widen(&at->input_amax, s->input_scale * HD_E2M1_MAX * HD_E4M3_MAX);
    at->blocks += s->blocks;
    at->saturated += s->saturated.n;
    at->zero += s->zero;
    at->denormal += s->denormal.n;
}

static groups group_items(const hd_audit *a)
{
    groups g = {0};
    for (int64_t i = 0; i < a->model.used && !g.failed; i++) add_to_groups(&g, &a->model.items[i]);
    return g;
}

static const char *drafter_word(const hd_survey_result *s)
{
    return s->has_mtp ? "mtp" : s->has_dspark ? "dspark" : "none";
}

/* ---- text ---- */

static void print_range(hd_buffer *out, const range *r, int width)
{
    char text[48] = "";
    if (r->is_any && r->least == r->most)
        snprintf(text, sizeof text, "%.3g", r->least);
    else if (r->is_any)
        snprintf(text, sizeof text, "%.3g .. %.3g", r->least, r->most);
    hd_buffer_printf(out, "  %-*s", width, text);
}

static void print_groups(const groups *g, hd_buffer *out)
{
    hd_buffer_printf(out, "\n%-44s %-22s %6s  %-20s  %-20s  %-20s  %s\n", "tensors", "format", "n",
                     "tensor scale", "block scales", "largest value", "largest input");
    for (int32_t i = 0; i < g->used; i++) {
        const group *const at = &g->list[i];
        hd_buffer_printf(out, "%-44s %-22s %6" PRId64, at->name, at->shape, at->n);
        print_range(out, &at->tensor_scale, 20);
        print_range(out, &at->block_scale, 20);
        print_range(out, &at->amax, 20);
        print_range(out, &at->input_amax, 0);
        while (out->used > 0 && out->data[out->used - 1] == ' ') out->used--;
        hd_buffer_text(out, "\n");
    }
}

typedef struct worst_list {
    const hd_audit_item **list; /* [n] of hd_memory, worst first */
    int64_t               n;
} worst_list;

/* NaN is the worst. */
static int compare_errors(const void *x, const void *y)
{
    const hd_audit_item *const a = *(const hd_audit_item *const *)x;
    const hd_audit_item *const b = *(const hd_audit_item *const *)y;
    double const               e = a->difference.error, f = b->difference.error;
    if (isnan(e) || isnan(f)) return isnan(f) - isnan(e);
    if (e != f) return e < f ? 1 : -1;
    return a < b ? -1 : a > b; /* as in the walk */
}

static worst_list list_worst(const hd_audit *a)
{
    worst_list w = {.list = hd_memory_alloc((size_t)a->model.used * sizeof *w.list)};
    for (int64_t i = 0; w.list && i < a->model.used; i++)
        if (a->model.items[i].difference.is_known) w.list[w.n++] = &a->model.items[i];
    if (w.n > 1) qsort(w.list, (size_t)w.n, sizeof *w.list, compare_errors);
    return w;
}

static void print_worst(const hd_audit *a, bool is_whole, hd_buffer *out)
{
    worst_list const w = list_worst(a);
    hd_buffer_printf(out, "\n%-44s %14s %12s %12s\n", "against the other, worst first",
                     "relative error", "cosine", "norm ratio");
    for (int64_t i = 0; i < w.n && (is_whole || i < N_WORST); i++) {
        const hd_difference *const d = &w.list[i]->difference;
        hd_buffer_printf(out, "%-44s %14.6g %12.8f %12.8f\n", w.list[i]->what.name, d->error,
                         d->cosine, d->ratio);
    }
    if (!is_whole && w.n > N_WORST)
        hd_buffer_printf(out, "and %" PRId64 " more, less far away\n", w.n - N_WORST);
    hd_memory_free(w.list);
}

/* Those of one severity and kind, in the order found. */
static void print_kind(const hd_audit *a, hd_severity s, const hd_finding_kind *kind, bool is_whole,
                       hd_buffer *out)
{
    const hd_findings *const f = &a->findings;
    int64_t                  n = 0;
    for (int64_t i = 0; i < f->used; i++) {
        const hd_finding *const x = &f->list[i];
        if (x->severity != s || x->kind != kind->name) continue;
        if (is_whole || n < HD_AUDIT_SHOWN)
            hd_buffer_printf(out, "%-8s %-15s %s\n", hd_severity_name(s), x->kind, x->message);
        n++;
    }
    if (!is_whole && n > HD_AUDIT_SHOWN)
        hd_buffer_printf(out, "%-8s %-15s ... and %" PRId64 " more like these\n",
                         hd_severity_name(s), kind->name, n - HD_AUDIT_SHOWN);
}

static void print_findings(const hd_audit *a, bool is_whole, hd_buffer *out)
{
    const hd_findings *const f = &a->findings;
    if (f->used) hd_buffer_text(out, "\n");
    for (int s = HD_ERROR; s >= HD_NOTE; s--)
        for (int32_t i = 0; i < f->n_kinds; i++)
            print_kind(a, (hd_severity)s, &f->kinds[i], is_whole, out);
    for (int32_t i = 0; i < f->n_kinds; i++)
        if (f->kinds[i].n > f->kinds[i].kept)
            hd_buffer_printf(out,
                             "%" PRId64 " findings of kind %s were counted, %" PRId64 " kept\n",
                             f->kinds[i].n, f->kinds[i].name, f->kinds[i].kept);
}

static void print_count(hd_buffer *out, int64_t n, const char *word, const char *end)
{
    hd_buffer_printf(out, "%" PRId64 " %s%s%s", n, word, n == 1 ? "" : "s", end);
}

void hd_audit_print(const hd_audit *a, bool is_whole, hd_buffer *out)
{
    const hd_audit_side *const m = &a->model;
    groups                     g = group_items(a);
    hd_buffer_printf(out, "%s: ", hd_checkpoint_folder(m->ck));
    print_count(out, hd_checkpoint_count(m->ck), "tensor", ", ");
    hd_buffer_printf(out, "%" PRId64 " bytes, ", hd_checkpoint_bytes(m->ck));
    print_count(out, hd_checkpoint_shards(m->ck), "shard", "; ");
    hd_buffer_printf(out, "%s; drafter: %s\n", *m->survey.family ? m->survey.family : "no model",
                     drafter_word(&m->survey));
    print_groups(&g, out);
    if (a->has_other) print_worst(a, is_whole, out);
    print_findings(a, is_whole, out);
    hd_buffer_text(out, "\n");
    print_count(out, hd_audit_count(a, HD_ERROR), "error", ", ");
    print_count(out, hd_audit_count(a, HD_WARNING), "warning", ", ");
    print_count(out, hd_audit_count(a, HD_NOTE), "note", "\n");
    out->failed = out->failed || g.failed;
    hd_memory_free(g.list);
}

/* ---- JSON ---- */

static void write_finding(hd_buffer *out, const hd_finding *f)
{
    hd_json_write_open(out, NULL, '{');
    hd_json_write_text(out, "severity", hd_severity_name(f->severity));
    hd_json_write_text(out, "kind", f->kind);
    hd_json_write_text(out, "tensor", f->tensor);
    hd_json_write_text(out, "file", f->file);
    hd_json_write_text(out, "message", f->message);
    hd_buffer_text(out, "}");
}

static void write_range(hd_buffer *out, const char *key, const range *r)
{
    if (!r->is_any) {
        hd_json_write_text(out, key, NULL);
        return;
    }
    hd_json_write_open(out, key, '[');
    hd_json_write_number(out, NULL, r->least);
    hd_json_write_number(out, NULL, r->most);
    hd_buffer_text(out, "]");
}

static void write_group(hd_buffer *out, const group *g)
{
    hd_json_write_open(out, NULL, '{');
    hd_json_write_text(out, "tensors", g->name);
    hd_json_write_text(out, "format", g->shape);
    hd_json_write_count(out, "n", g->n);
    write_range(out, "tensor_scale", &g->tensor_scale);
    write_range(out, "block_scales", &g->block_scale);
    write_range(out, "amax", &g->amax);
    write_range(out, "input_amax", &g->input_amax);
    hd_json_write_count(out, "blocks", g->blocks);
    hd_json_write_count(out, "zero", g->zero);
    hd_json_write_count(out, "denormal", g->denormal);
    hd_json_write_count(out, "saturated", g->saturated);
    hd_buffer_text(out, "}");
}

static void write_blocks(hd_buffer *out, const hd_scan *s)
{
    hd_json_write_count(out, "blocks", s->blocks);
    hd_json_write_count(out, "zero", s->zero);
    hd_json_write_count(out, "denormal", s->denormal.n);
    hd_json_write_count(out, "saturated", s->saturated.n);
    hd_json_write_count(out, "nan", s->nan.n);
    hd_json_write_count(out, "negative", s->negative.n);
    hd_json_write_number(out, "scale_min", s->scale_min);
    hd_json_write_number(out, "scale_max", s->scale_max);
}

static void write_item(hd_buffer *out, const hd_audit *a, const hd_audit_item *it)
{
    char           shape[128];
    const hd_scan *s = &it->scan;
    print_shape(&it->what, shape, sizeof shape);
    hd_json_write_open(out, NULL, '{');
    hd_json_write_text(out, "name", it->what.name);
    hd_json_write_text(out, "file", hd_audit_file(&a->model, it->what.w));
    hd_json_write_text(out, "format", shape);
    hd_json_write_number(out, "amax", s->amax);
    hd_json_write_count(out, "not_finite", s->broken.n);
    if (s->blocks > 0) write_blocks(out, s);
    if (it->what.tensor_scale) hd_json_write_number(out, "tensor_scale", s->tensor_scale);
    if (it->what.input_scale)
        hd_json_write_number(out, "input_amax", s->input_scale * HD_E2M1_MAX * HD_E4M3_MAX);
    hd_buffer_text(out, "}");
}

static void write_differences(hd_buffer *out, const hd_audit *a)
{
    worst_list const w = list_worst(a);
    hd_json_write_open(out, "against", '[');
    for (int64_t i = 0; i < w.n; i++) {
        const hd_difference *const d = &w.list[i]->difference;
        hd_json_write_open(out, NULL, '{');
        hd_json_write_text(out, "name", w.list[i]->what.name);
        hd_json_write_number(out, "error", d->error);
        hd_json_write_number(out, "cosine", d->cosine);
        hd_json_write_number(out, "ratio", d->ratio);
        hd_buffer_text(out, "}");
    }
    hd_buffer_text(out, "]");
    hd_memory_free(w.list);
}

static void write_summary(hd_buffer *out, const hd_audit *a)
{
    const hd_audit_side *const m = &a->model;
    hd_json_write_text(out, "model", hd_checkpoint_folder(m->ck));
    hd_json_write_count(out, "tensors", hd_checkpoint_count(m->ck));
    hd_json_write_count(out, "bytes", hd_checkpoint_bytes(m->ck));
    hd_json_write_count(out, "shards", hd_checkpoint_shards(m->ck));
    hd_json_write_text(out, "family", m->survey.family);
    hd_json_write_text(out, "drafter", drafter_word(&m->survey));
    hd_json_write_count(out, "errors", hd_audit_count(a, HD_ERROR));
    hd_json_write_count(out, "warnings", hd_audit_count(a, HD_WARNING));
    hd_json_write_count(out, "notes", hd_audit_count(a, HD_NOTE));
}

void hd_audit_print_json(const hd_audit *a, bool is_whole, hd_buffer *out)
{
    groups g = group_items(a);
    hd_json_write_open(out, NULL, '{');
    write_summary(out, a);
    hd_json_write_open(out, "findings", '[');
    for (int64_t i = 0; i < a->findings.used; i++) write_finding(out, &a->findings.list[i]);
    hd_buffer_text(out, "]");
    hd_json_write_open(out, "groups", '[');
    for (int32_t i = 0; i < g.used; i++) write_group(out, &g.list[i]);
    hd_buffer_text(out, "]");
    if (a->has_other) write_differences(out, a);
    if (is_whole) hd_json_write_open(out, "items", '[');
    for (int64_t i = 0; is_whole && i < a->model.used; i++) write_item(out, a, &a->model.items[i]);
    hd_buffer_text(out, is_whole ? "]}\n" : "}\n");
    out->failed = out->failed || g.failed;
    hd_memory_free(g.list);
}
