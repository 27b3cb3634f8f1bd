#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/quantize_parts.h"
#include "quant/fp4.h"

/* ---- which matrices ---- */

static bool has_ending(const char *name, const char *ending)
{
    size_t const n = strlen(name), e = strlen(ending);
    return n >= e && strcmp(name + n - e, ending) == 0;
}

static bool is_main_expert(const char *name)
{
    return strncmp(name, "layers.", 7) == 0 && strstr(name, ".ffn.experts.") != NULL;
}

/* Embedding, head and router decide which tokens and experts there are; every quantizer of these
 * models leaves them. */
static bool is_linear(const char *name)
{
    return strcmp(name, "embed") != 0 && strcmp(name, "head") != 0 &&
           !has_ending(name, ".ffn.gate");
}

static bool is_kept(const hd_quantize *q, const char *name)
{
    for (int32_t i = 0; i < q->opt.n_keep; i++)
        if (fnmatch(q->opt.keep[i], name, 0) == 0) return true;
    return false;
}

static bool is_target(const hd_quantize *q, const hd_scanned *m)
{
    bool const fits = q->opt.to == HD_TO_NVFP4 ? is_linear(m->name) : is_main_expert(m->name);
    return m->is_wanted && m->format != HD_FMT_NONE && fits && !is_kept(q, m->name);
}

/* A folder that is NVFP4 altogether has no words for FP8 and MXFP4 in it, and scales that divide
 * and scales that multiply do not go together. */
static hd_status check_rest(const hd_quantize *q, const hd_scanned *m, hd_error *err)
{
    bool const is_foreign = m->format == HD_FMT_FP8 || m->format == HD_FMT_MXFP4;
    if (m->is_divisor)
        HD_FAIL(err, HD_ERR_UNSUPPORTED, "matrix %s is NVFP4 of compressed-tensors already",
                m->name);
    if (q->opt.to == HD_TO_NVFP4 && is_foreign)
        HD_FAIL(err, HD_ERR_UNSUPPORTED,
                "matrix %s is %s and would stay so, which the config of an all-NVFP4 folder cannot "
                "say",
                m->name, hd_format_name(m->format));
    return HD_OK;
}

static hd_status check_target(const hd_scanned *m, hd_error *err)
{
    if (m->k % HD_NVFP4_BLOCK)
        HD_FAIL(err, HD_ERR_UNSUPPORTED,
                "matrix %s: %d columns are not whole blocks of 16; it can be kept as it is",
                m->name, m->k);
    return HD_OK;
}

static void own(const hd_quantize *q, const hd_tensor *t, int32_t conversion)
{
    if (t) q->owner[t - hd_checkpoint_at(q->source.ck, 0)] = conversion;
}

static hd_status add_matrix(hd_quantize *q, const hd_scanned *m, hd_error *err)
{
    bool const is_new = is_target(q, m) && m->format != HD_FMT_NVFP4;
    if (!is_new) return check_rest(q, m, err);
    HD_TRY(check_target(m, err));
    int32_t const i = q->n_conversions++;
    q->conversions[i] = (hd_conversion){.from = m, .partner = -1, .input_amax = -1};
    own(q, m->w, i);
    own(q, m->scale, i);
    own(q, m->input_scale, i);
    return HD_OK;
}

/* ---- what shares a scale ----
 * Engines stack these pairs into one matrix, and many keep one scale of the two. */

static const struct {
    const char *first, *second; /* ends of names */
} pairs[] = {
    {".w1", ".w3"},
    {".attn.wq_a", ".attn.wkv"},
    {".compressor.wkv", ".compressor.wgate"},
};

static int32_t find_second(const hd_quantize *q, const char *name, size_t pair)
{
    char         other[HD_NAME_MAX];
    size_t const n = strlen(name) - strlen(pairs[pair].first);
    int const    length = snprintf(other, sizeof other, "%.*s%s", (int)n, name, pairs[pair].second);
    return length > 0 && (size_t)length < sizeof other ? hd_name_map_find(&q->by_name, other) : -1;
}

static void find_partners(hd_quantize *q)
{
    for (int32_t i = 0; i < q->n_conversions; i++)
        for (size_t p = 0; p < sizeof pairs / sizeof pairs[0]; p++) {
            const hd_scanned *const m = q->conversions[i].from;
            if (!has_ending(m->name, pairs[p].first)) continue;
            int32_t const j = find_second(q, m->name, p);
            if (j < 0 || q->conversions[j].from->format != m->format) continue;
            q->conversions[i].partner = j;
            q->conversions[j].partner = i;
        }
}

static hd_status name_conversions(hd_quantize *q, hd_error *err)
{
    int32_t twins[2];
    HD_TRY(hd_name_map_open(&q->by_name, q->n_conversions, &q->pool, err));
    for (int32_t i = 0; i < q->n_conversions; i++)
        hd_name_map_add(&q->by_name, q->conversions[i].from->name, i);
    (void)hd_name_map_sort(&q->by_name, twins); /* names of the walk are different */
    return HD_OK;
}

/* Engines want input scales of all NVFP4 matrices or of none. */
static hd_status check_inputs(const hd_quantize *q, hd_error *err)
{
    for (int64_t i = 0; i < q->source.used; i++) {
        const hd_scanned *const m = &q->source.items[i].what;
        bool const              has = m->input_scale != NULL;
        if (m->format != HD_FMT_NVFP4 || has == (q->opt.engine != NULL)) continue;
        HD_FAIL(err, HD_ERR_INVALID, "matrix %s is NVFP4 already and has %s input_scale: %s",
                m->name, has ? "an" : "no",
                has ? "the others need calibration" : "with calibration the others would have one");
    }
    return HD_OK;
}

static bool becomes_nvfp4(const hd_quantize *q, const hd_scanned *m)
{
    return m->format == HD_FMT_NVFP4 || hd_name_map_find(&q->by_name, m->name) >= 0;
}

/* No engine takes experts of two formats in one product; the audit would say so in the end. */
static hd_status check_experts(const hd_quantize *q, hd_error *err)
{
    const hd_audit_item *const items = q->source.items;
    for (int64_t i = 1; i < q->source.used; i++) {
        const hd_scanned *const a = &items[i - 1].what, *const b = &items[i].what;
        if (!hd_audit_same_product(a->name, b->name)) continue;
        if (becomes_nvfp4(q, a) == becomes_nvfp4(q, b)) continue;
        HD_FAIL(err, HD_ERR_INVALID, "of the experts %s and %s only one would be NVFP4", a->name,
                b->name);
    }
    return HD_OK;
}

/* A config that describes what stays in the words of another quantizer cannot be added to. */
static hd_status check_words(const hd_quantize *q, hd_error *err)
{
    const char *const method = hd_checkpoint_config(q->source.ck)->quant.method;
    bool const is_known = !*method || strcmp(method, "fp8") == 0 || strcmp(method, "modelopt") == 0;
    if (q->opt.to == HD_TO_NVFP4_EXPERTS && !is_known)
        HD_FAIL(err, HD_ERR_UNSUPPORTED,
                "config.json says quant_method \"%s\": wanted fp8, modelopt or none", method);
    return HD_OK;
}

static hd_status choose(hd_quantize *q, hd_error *err)
{
    for (int64_t i = 0; i < q->source.used; i++)
        HD_TRY(add_matrix(q, &q->source.items[i].what, err));
    if (q->n_conversions == 0)
        HD_FAIL(err, HD_ERR_INVALID, "%s: nothing to convert (%s)", q->opt.source,
                q->source.survey.family);
    HD_TRY(check_words(q, err));
    HD_TRY(check_inputs(q, err));
    HD_TRY(name_conversions(q, err));
    HD_TRY(check_experts(q, err));
    find_partners(q);
    return HD_OK;
}

hd_status hd_quantize_plan(hd_quantize *q, hd_error *err)
{
    size_t const n = (size_t)hd_checkpoint_count(q->source.ck);
    q->owner = hd_pool_alloc(&q->pool, n * sizeof *q->owner);
    q->conversions = hd_pool_alloc(&q->pool, (size_t)q->source.used * sizeof *q->conversions);
    if (!q->owner || !q->conversions)
        HD_FAIL(err, HD_ERR_MEMORY, "no memory for the plan of %zu tensors", n);
    for (size_t i = 0; i < n; i++) q->owner[i] = -1;
    HD_TRY(choose(q, err));
    for (size_t i = 0; i < n; i++) {
        if (q->owner[i] >= 0) continue;
        q->n_kept++;
        q->kept_bytes += (int64_t)hd_checkpoint_at(q->source.ck, (int32_t)i)->st.bytes;
    }
    return HD_OK;
}

/* ---- a shard ---- */

hd_status hd_quantize_name(const hd_quantize *q, char out[HD_NAME_MAX], const char *official,
                           hd_error *err)
{
    bool const fits = q->opt.to == HD_TO_NVFP4
                          ? hd_name_hugging_face(out, HD_NAME_MAX, official)
                          : snprintf(out, HD_NAME_MAX, "%s", official) < HD_NAME_MAX;
    if (!fits) HD_FAIL(err, HD_ERR_LIMIT, "tensor name %.100s... is too long", official);
    return HD_OK;
}

/* A tensor, and whose it is. */
typedef struct planned {
    hd_st_tensor st;
    int32_t      job, part;
} planned;

typedef struct planner {
    const hd_quantize *q;
    hd_shard_plan     *out;
    planned           *list; /* [cap] of out->pool */
    int32_t            used;
    hd_error          *err;
} planner;

static hd_status no_memory(const planner *p)
{
    HD_FAIL(p->err, HD_ERR_MEMORY, "no memory for the plan of %s", p->out->name);
}

static hd_status add_tensor(planner *p, const char *official, const char *suffix,
                            const planned *what)
{
    char      full[HD_NAME_MAX], name[HD_NAME_MAX];
    int const n = snprintf(full, sizeof full, "%s%s", official, suffix);
    if (n < 0 || n >= HD_NAME_MAX)
        HD_FAIL(p->err, HD_ERR_LIMIT, "tensor name %.100s... is too long", official);
    HD_TRY(hd_quantize_name(p->q, name, full, p->err));
    planned *const at = &p->list[p->used++];
    *at = *what;
    at->st.name = hd_pool_copy(&p->out->pool, name, strlen(name));
    return at->st.name ? HD_OK : no_memory(p);
}

static hd_status add_copy(planner *p, const hd_tensor *t)
{
    int32_t const job = p->out->n_jobs++;
    p->out->jobs[job] = (hd_shard_job){.copy = t};
    planned what = {.st = t->st, .job = job};
    return add_tensor(p, t->name, "", &what);
}

static hd_status add_conversion(planner *p, const hd_conversion *c)
{
    const hd_scanned *const m = c->from;
    int32_t const           job = p->out->n_jobs++;
    planned const           parts[HD_N_PARTS] = {
                  {{.dtype = HD_ST_U8, .rank = 2, .shape = {m->n, m->k / 2}}, job, HD_PART_CODES},
                  {{.dtype = HD_ST_F8_E4M3, .rank = 2, .shape = {m->n, m->k / HD_NVFP4_BLOCK}},
                   job,
                   HD_PART_SCALES},
                  {{.dtype = HD_ST_F32}, job, HD_PART_TENSOR_SCALE},
                  {{.dtype = HD_ST_F32}, job, HD_PART_INPUT_SCALE}};
    static const char *const suffixes[HD_N_PARTS] = {".weight", ".weight_scale", ".weight_scale_2",
                                                     ".input_scale"};
    p->out->jobs[job] = (hd_shard_job){.conversion = c};
    for (int i = 0; i < HD_N_PARTS; i++)
        if (i != HD_PART_INPUT_SCALE || p->q->opt.engine)
            HD_TRY(add_tensor(p, m->name, suffixes[i], &parts[i]));
    return HD_OK;
}

/* Wide elements first, as the common writers sort them: then all are aligned. */
static int compare_planned(const void *x, const void *y)
{
    const planned *const a = x, *const b = y;
    int32_t const wide_a = hd_st_dtype_bits(a->st.dtype), wide_b = hd_st_dtype_bits(b->st.dtype);
    return wide_a != wide_b ? (wide_a > wide_b ? -1 : 1) : strcmp(a->st.name, b->st.name);
}

static hd_status settle(planner *p)
{
    hd_shard_plan *const out = p->out;
    qsort(p->list, (size_t)p->used, sizeof *p->list, compare_planned);
    out->n_tensors = p->used;
    out->tensors = hd_pool_alloc(&out->pool, (size_t)p->used * sizeof *out->tensors);
    if (!out->tensors) return no_memory(p);
    for (int32_t i = 0; i < p->used; i++) {
        size_t bytes = 0;
        out->tensors[i] = p->list[i].st;
        out->jobs[p->list[i].job].slots[p->list[i].part] = i;
        if (!hd_st_tensor_bytes(out->tensors[i].dtype, out->tensors[i].rank, out->tensors[i].shape,
                                &bytes))
            HD_FAIL(p->err, HD_ERR_LIMIT, "tensor %s is too large", out->tensors[i].name);
        out->bytes += (int64_t)bytes;
    }
    return HD_OK;
}

/* Tensors come shard by shard: [*first, *first + *n) are those of one. */
static void find_range(const hd_checkpoint *ck, int32_t shard, int32_t *first, int32_t *n)
{
    int32_t const count = hd_checkpoint_count(ck);
    int32_t       i = 0;
    while (i < count && hd_checkpoint_at(ck, i)->shard < shard) i++;
    *first = i;
    while (i < count && hd_checkpoint_at(ck, i)->shard == shard) i++;
    *n = i - *first;
}

hd_status hd_shard_plan_make(const hd_quantize *q, int32_t shard, hd_shard_plan *out, hd_error *err)
{
    const hd_checkpoint *const ck = q->source.ck;
    int32_t                    first, n;
    *out = (hd_shard_plan){.name = hd_checkpoint_file_name(ck, shard)};
    planner p = {.q = q, .out = out, .err = err};
    find_range(ck, shard, &first, &n);
    p.list = hd_pool_alloc(&out->pool, (size_t)n * HD_N_PARTS * sizeof *p.list);
    out->jobs = hd_pool_alloc(&out->pool, (size_t)n * sizeof *out->jobs);
    if (!p.list || !out->jobs) return no_memory(&p);
    for (int32_t i = first; i < first + n; i++) {
        const hd_tensor *const t = hd_checkpoint_at(ck, i);
        int32_t const          c = q->owner[i];
        if (c < 0)
            HD_TRY(add_copy(&p, t));
        else if (q->conversions[c].from->w == t) /* its scales may lie elsewhere */
            HD_TRY(add_conversion(&p, &q->conversions[c]));
    }
    return settle(&p);
}

void hd_shard_plan_free(hd_shard_plan *p)
{
    hd_pool_free(&p->pool);
    *p = (hd_shard_plan){0};
}
