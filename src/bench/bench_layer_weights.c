#include "bench/bench_layer_weights.h"

#include <string.h>

#include "quant/fp8.h"
#include "quant/tiles.h"

/* Experts with memory of their own: as many as fit OWN_BYTES, but LEAST_OWN at least; the rest are
 * these again, so that a layer fits a small machine and yet is far larger than a cache. */
#define LEAST_OWN   48
#define OWN_BYTES   ((size_t)640 << 20) /* of each of three matrices */
#define MAX_EXPERTS 384
#define VOCAB       1024 /* the embedding is not the layer's */
#define PATTERN     4100 /* bytes that weights repeat: no row's width is a multiple of it */

const hd_bench_family hd_bench_families[] = {
    {"nvfp4", HD_ACT_NVFP4, HD_FMT_NVFP4, HD_FMT_NVFP4},
    {"official", HD_ACT_OFFICIAL, HD_FMT_FP8, HD_FMT_MXFP4},
    {"bf16", HD_ACT_EXACT, HD_FMT_BF16, HD_FMT_BF16},
};
const int32_t hd_bench_n_families = sizeof hd_bench_families / sizeof hd_bench_families[0];

static hd_config flash_config(void)
{
    return (hd_config){.d_model = 4096,
                       .n_vocab = VOCAB,
                       .n_heads = 64,
                       .head_dim = 512,
                       .rope_dim = 64,
                       .q_rank = 1024,
                       .o_groups = 8,
                       .o_rank = 1024,
                       .n_experts = 256,
                       .n_experts_used = 6,
                       .d_expert = 2048,
                       .index_heads = 64,
                       .index_dim = 128,
                       .index_topk = 512,
                       .window = 128,
                       .hc_mult = 4,
                       .hc_iters = 20,
                       .max_positions = 1 << 20,
                       .rms_eps = 1e-6f,
                       .hc_eps = 1e-6f,
                       .routed_scale = 1.5f,
                       .swiglu_limit = 10,
                       .scoring = HD_SCORING_SQRTSOFTPLUS,
                       .rope_theta = 10000,
                       .compress_theta = 160000,
                       .yarn = {16, 65536, 32, 1}};
}

static hd_config pro_config(void)
{
    hd_config c = flash_config();
    c.d_model = 7168;
    c.n_heads = 128;
    c.q_rank = 1536;
    c.o_groups = 16;
    c.n_experts = 384;
    c.d_expert = 3072;
    c.routed_scale = 2.5f;
    c.index_topk = 1024;
    return c;
}

/* ---- making matrices; the first failure is kept and the rest does nothing ---- */

typedef struct maker {
    hd_bench_place *p;
    hd_status       status;
    hd_error       *err;
    uint64_t        rng;
    bool            has_tiles; /* what Hopper's kernels for four-bit weights take */
} maker;

/* Runs of `bytes` whose values are taken from a pattern over and over: what is there is copied
 * behind itself, where it is used. */
static void *put_pattern(maker *m, const uint8_t *pattern, size_t bytes)
{
    void  *to = NULL;
    size_t there = bytes < PATTERN ? bytes : PATTERN;
    if (m->status == HD_OK) m->status = hd_bench_put(m->p, NULL, bytes, &to, m->err);
    if (m->status == HD_OK) m->status = hd_device_write(m->p->device, to, pattern, there, m->err);
    while (m->status == HD_OK && there < bytes) {
        size_t const  n = bytes - there < there ? bytes - there : there;
        hd_copy const more = {HD_COPY_WITHIN, (char *)to + there, to, n, n, n, 1};
        m->status = hd_device_copy(m->p->device, &more, m->err);
        there += n;
    }
    return to;
}

static uint32_t next_random(maker *m)
{
    m->rng = m->rng * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(m->rng >> 33);
}

/* Small floats of both signs, f32 or bf16. */
static const void *put_floats(maker *m, int64_t n, bool is_bf16)
{
    uint8_t pattern[PATTERN];
    for (size_t i = 0; i < PATTERN / 4; i++) {
        float const v = (float)next_random(m) / (float)(1U << 30) - 1;
        float const small = v / 64;
        memcpy(pattern + 4 * i, &small, sizeof small);
    }
    for (size_t i = 0; is_bf16 && i < PATTERN / 2; i++) {
        uint16_t const b = (uint16_t)(0x3C00 | (next_random(m) & 0x80FF));
        memcpy(pattern + 2 * i, &b, sizeof b);
    }
    return put_pattern(m, pattern, (size_t)n * (is_bf16 ? sizeof(uint16_t) : sizeof(float)));
}

/* Scales of roundings: a negative one would ask for one of each row, as no checkpoint does. */
static const float *put_input_scales(maker *m, int64_t n)
{
    float pattern[PATTERN / sizeof(float)];
    for (size_t i = 0; i < PATTERN / sizeof(float); i++)
        pattern[i] = (float)(1 + next_random(m) % 16) / 1024;
    return put_pattern(m, (const uint8_t *)pattern, (size_t)n * sizeof(float));
}

/* The format in which an engine would place a matrix of n rows. */
static hd_format placed_format(const maker *m, hd_format f, int32_t n, int32_t k)
{
    return m->has_tiles && hd_tiles_fit(f, n, k) ? hd_format_in_tiles(f) : f;
}

/* Codes of any value but NaN, or scales near `base`. */
static const void *put_codes(maker *m, size_t bytes, uint8_t base, uint8_t spread)
{
    uint8_t pattern[PATTERN];
    for (size_t i = 0; i < PATTERN; i++) pattern[i] = (uint8_t)(base + next_random(m) % spread);
    return put_pattern(m, pattern, bytes);
}

static const void *put_weights(maker *m, hd_format f, int32_t n, int32_t k)
{
    size_t const bytes = hd_matrix_w_bytes(f, n, k);
    if (f == HD_FMT_F32 || f == HD_FMT_BF16) return put_floats(m, (int64_t)n * k, f == HD_FMT_BF16);
    return f == HD_FMT_FP8 ? put_codes(m, bytes, 0x20, 32) : put_codes(m, bytes, 0, 255);
}

static const void *put_scales(maker *m, hd_format f, int32_t n, int32_t k)
{
    size_t const bytes = hd_matrix_sf_bytes(f, n, k);
    if (bytes == 0) return NULL;
    if (f == HD_FMT_FP8) return put_floats(m, (int64_t)(bytes / sizeof(float)), false);
    return f == HD_FMT_NVFP4 ? put_codes(m, bytes, 0x18, 16) : put_codes(m, bytes, 118, 4);
}

/* `groups` matrices of n rows in all. */
static hd_matrix make_groups(maker *m, hd_format f, int32_t n, int32_t k, int32_t groups)
{
    hd_matrix out = {.n = n, .k = k, .scale = 1, .input_scale = 0.01f};
    out.format = placed_format(m, f, n / groups, k);
    out.w = put_weights(m, f, n, k);
    out.sf = put_scales(m, f, n, k);
    out.input_scale_at = put_input_scales(m, 1);
    return out;
}

static hd_matrix make_matrix(maker *m, hd_format f, int32_t n, int32_t k)
{
    return make_groups(m, f, n, k, 1);
}

/* Pointers to n matrices of each of several projections, n_own of them over and over. */
static const void *const *put_list(maker *m, const void *const *own, int32_t n_own, int32_t n,
                                   int32_t projections)
{
    const void **const all = hd_memory_alloc((size_t)(n * projections) * sizeof *all);
    void              *to = NULL;
    if (!all && m->status == HD_OK) m->status = HD_ERR_MEMORY;
    for (int32_t i = 0; all && i < n * projections; i++)
        all[i] = own[i / n * n_own + i % n % n_own];
    n *= projections;
    if (m->status == HD_OK)
        m->status = hd_bench_put(m->p, all, (size_t)n * sizeof *all, &to, m->err);
    hd_memory_free(all);
    return to;
}

static int32_t count_own(hd_format f, int32_t e, int32_t n, int32_t k)
{
    size_t const each = hd_matrix_w_bytes(f, n, k) + hd_matrix_sf_bytes(f, n, k);
    size_t const fit = OWN_BYTES / each, most = fit < LEAST_OWN ? LEAST_OWN : fit;
    return most < (size_t)e ? (int32_t)most : e;
}

/* `projections` of experts, each of which has e matrices [n, k]. */
static hd_experts make_experts(maker *m, const hd_experts *each, int32_t projections)
{
    const void     *w[2 * MAX_EXPERTS], *sf[2 * MAX_EXPERTS];
    hd_format const f = each->format;
    int32_t const   n = each->n, k = each->k, n_own = count_own(f, each->e, n, k);
    hd_experts      out = *each;
    out.format = placed_format(m, f, n, k);
    out.e *= projections;
    for (int32_t i = 0; i < projections * n_own; i++) {
        w[i] = put_weights(m, f, n, k);
        sf[i] = put_scales(m, f, n, k);
    }
    out.w = put_list(m, w, n_own, each->e, projections);
    if (hd_matrix_sf_bytes(f, n, k)) out.sf = put_list(m, sf, n_own, each->e, projections);
    out.scale = put_floats(m, out.e, false);
    out.input_scale = put_input_scales(m, out.e);
    return out;
}

static hd_hc_weights make_hc(maker *m, const hd_config *c)
{
    int32_t const n = (2 + c->hc_mult) * c->hc_mult;
    return (hd_hc_weights){put_floats(m, (int64_t)n * c->hc_mult * c->d_model, false),
                           put_floats(m, n, false), put_floats(m, 3, false)};
}

static hd_compressor_weights make_compressor(maker *m, const hd_config *c, int32_t ratio,
                                             int32_t head)
{
    int32_t const width = ratio == 4 ? 2 * head : head;
    return (hd_compressor_weights){make_matrix(m, HD_FMT_BF16, width, c->d_model),
                                   make_matrix(m, HD_FMT_BF16, width, c->d_model),
                                   put_floats(m, (int64_t)ratio * width, false),
                                   put_floats(m, head, false)};
}

static void make_attention(maker *m, const hd_config *c, const hd_bench_family *f,
                           hd_layer_weights *l)
{
    int32_t const width = c->n_heads * c->head_dim;
    l->wq_a = make_matrix(m, f->attention, c->q_rank, c->d_model);
    l->wq_b = make_matrix(m, f->attention, width, c->q_rank);
    l->wkv = make_matrix(m, f->attention, c->head_dim, c->d_model);
    l->wo_a =
        make_groups(m, f->attention, c->o_groups * c->o_rank, width / c->o_groups, c->o_groups);
    l->wo_b = make_matrix(m, f->attention, c->d_model, c->o_groups * c->o_rank);
    l->q_norm = put_floats(m, c->q_rank, false);
    l->kv_norm = put_floats(m, c->head_dim, false);
    l->sink = put_floats(m, c->n_heads, false);
    if (l->ratio) l->compressor = make_compressor(m, c, l->ratio, c->head_dim);
    if (l->ratio != 4) return;
    l->indexer.wq_b = make_matrix(m, f->attention, c->index_heads * c->index_dim, c->q_rank);
    l->indexer.weights_proj = make_matrix(m, HD_FMT_BF16, c->index_heads, c->d_model);
    l->indexer.compressor = make_compressor(m, c, 4, c->index_dim);
}

/* The experts of each token: those of neighbours are others, and so are those of another layer, so
 * that a pass reads as many as it can. */
static const int32_t *put_routes(maker *m, const hd_config *c, int32_t layer)
{
    int32_t const  k = c->n_experts_used;
    size_t const   bytes = (size_t)(c->n_vocab * k) * sizeof(int32_t);
    int32_t *const ids = hd_memory_alloc(bytes);
    void          *to = NULL;
    if (!ids && m->status == HD_OK) m->status = HD_ERR_MEMORY;
    for (int32_t i = 0; ids && i < c->n_vocab * k; i++)
        ids[i] = (i + layer * c->n_experts / HD_BENCH_LAYERS) % c->n_experts;
    if (m->status == HD_OK) m->status = hd_bench_put(m->p, ids, bytes, &to, m->err);
    hd_memory_free(ids);
    return to;
}

static void make_experts_of(maker *m, const hd_config *c, const hd_bench_family *f,
                            hd_layer_weights *l)
{
    hd_experts const up = {
        .format = f->experts, .e = c->n_experts, .n = c->d_expert, .k = c->d_model};
    hd_experts const down = {
        .format = f->experts, .e = c->n_experts, .n = c->d_model, .k = c->d_expert};
    l->w1_w3 = make_experts(m, &up, 2);
    l->w2 = make_experts(m, &down, 1);
}

static void make_ffn(maker *m, const hd_config *c, const hd_bench_family *f, hd_layer_weights *l)
{
    l->gate = make_matrix(m, HD_FMT_BF16, c->n_experts, c->d_model);
    l->gate_bias = put_floats(m, c->n_experts, false);
    l->shared_w1 = make_matrix(m, f->attention, c->d_expert, c->d_model);
    l->shared_w3 = make_matrix(m, f->attention, c->d_expert, c->d_model);
    l->shared_w2 = make_matrix(m, f->attention, c->d_model, c->d_expert);
}

static void make_layer(maker *m, const hd_config *c, const hd_bench_family *f, hd_layer_weights *l)
{
    l->hc_attn = make_hc(m, c);
    l->hc_ffn = make_hc(m, c);
    l->attn_norm = put_floats(m, c->d_model, false);
    l->ffn_norm = put_floats(m, c->d_model, false);
    make_attention(m, c, f, l);
    make_ffn(m, c, f, l);
}

/* ---- the model around it ---- */

/* Bytes near 0x38 are small normal numbers in every format of rows, and as scales; zeros are not:
 * a scale of 0 is 2^-127, which a processor multiplies a hundred times as slowly. */
static hd_status fill_caches(maker *make, hd_arena *a)
{
    size_t const bytes = a->peak;
    *a = (hd_arena){.base = (char *)(uintptr_t)put_codes(make, bytes, 0x38, 8), .cap = bytes};
    return make->status;
}

static hd_status bind_tables(hd_bench_layer_model *m, maker *make)
{
    hd_bench_place *const p = make->p;
    hd_error *const       err = make->err;
    hd_arena              host = {0};
    hd_model_bind_tables(&m->model, &host);
    void *const at = hd_memory_alloc(host.peak);
    if (!at) HD_FAIL(err, HD_ERR_MEMORY, "no room for tables of %zu bytes", host.peak);
    host = (hd_arena){.base = at, .cap = host.peak};
    hd_model_bind_tables(&m->model, &host);
    void     *tables = NULL;
    hd_status s = hd_bench_put(p, at, host.cap, &tables, err);
    m->tables = (hd_arena){.base = tables, .cap = host.cap};
    if (s == HD_OK) {
        m->model.freq = (float *)(void *)((char *)tables + ((char *)m->model.freq - (char *)at));
        m->model.freq_yarn =
            (float *)(void *)((char *)tables + ((char *)m->model.freq_yarn - (char *)at));
    }
    hd_memory_free(at);
    return s;
}

hd_status hd_bench_layer_set_context(hd_bench_layer_model *m, hd_bench_place *p, int32_t context,
                                     hd_error *err)
{
    maker make = {.p = p, .err = err, .rng = 1};
    m->model.shape.max_tokens = context;
    HD_TRY(hd_cache_check(&m->model.shape, err));
    m->kv = (hd_arena){0};
    hd_model_bind_caches(&m->model, &m->kv);
    HD_TRY(fill_caches(&make, &m->kv));
    hd_model_bind_caches(&m->model, &m->kv);
    return HD_OK;
}

/* Layers have the same experts, of which they use others: together they are far larger than a
 * cache. */
static void make_layers(maker *make, hd_bench_layer_model *m, const hd_bench_family *f,
                        int32_t ratio)
{
    const hd_config *const c = &m->config;
    for (int32_t i = 0; i < c->n_layers; i++) {
        hd_layer_weights *const l = &m->layers[i];
        m->config.ratios[i] = ratio;
        l->ratio = ratio;
        make_layer(make, c, f, l);
        l->tid2eid = put_routes(make, c, i);
        if (i == 0)
            make_experts_of(make, c, f, l);
        else {
            l->w1_w3 = m->layers[0].w1_w3;
            l->w2 = m->layers[0].w2;
        }
    }
}

hd_status hd_bench_layer_make(hd_bench_layer_model *m, hd_bench_place *p, const hd_bench_options *o,
                              const hd_bench_family *f, int32_t ratio, hd_error *err)
{
    maker make = {.p = p, .err = err, .rng = 1, .has_tiles = (p->isa & HD_ISA_SM90) != 0};
    *m = (hd_bench_layer_model){.config = o->is_pro ? pro_config() : flash_config()};
    const hd_config *const c = &m->config;
    m->config.n_layers = p->device ? HD_BENCH_LAYERS : 1;
    make_layers(&make, m, f, ratio);
    m->weights = (hd_weights){.config = c, .layers = m->layers};
    m->weights.embed = make_matrix(&make, HD_FMT_BF16, c->n_vocab, c->d_model);
    HD_TRY(make.status);
    m->model = (hd_model){.config = c, .weights = &m->weights, .act = f->act, .caches = m->caches};
    m->model.shape = (hd_cache_shape){.n_seq = 1,
                                      .chunk = o->tokens,
                                      .window = c->window,
                                      .head_dim = c->head_dim,
                                      .rope_dim = c->rope_dim,
                                      .index_dim = c->index_dim,
                                      .kv = o->kv ? o->kv : HD_KV_FP8,
                                      .device = p->device};
    HD_TRY(bind_tables(m, &make));
    return hd_bench_layer_set_context(m, p, o->context, err);
}
