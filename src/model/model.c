#include "model/model.h"

#include <math.h>

#include "model/parts.h"
#include "ops/embed.h"

hd_act hd_model_default_act(const hd_weights *w)
{
    if (w->n_nvfp4_experts)
        return w->layers[0].w1_w3.input_scale[0] > 0 ? HD_ACT_NVFP4 : HD_ACT_EXACT;
    if (w->n_matrices[HD_FMT_MXFP4] || w->n_matrices[HD_FMT_FP8]) return HD_ACT_OFFICIAL;
    return HD_ACT_EXACT;
}

/* ---- RoPE frequencies: f32 steps in the order of the released code ---- */

static void compute_frequencies(float *freq, int32_t dr, double base)
{
    for (int32_t i = 0; i < dr / 2; i++)
        freq[i] = 1.0f / powf((float)base, (float)(2 * i) / (float)dr);
}

/* The dimension at which a rotation turns n times over the positions of the base model. */
static double yarn_dimension(const hd_yarn *y, int32_t dr, double base, double n)
{
    return dr * log(y->orig / (2 * M_PI * n)) / (2 * log(base));
}

static void stretch_frequencies(float *freq, int32_t dr, double base, const hd_yarn *y)
{
    double const lo = fmax(floor(yarn_dimension(y, dr, base, y->beta_fast)), 0);
    double const hi = fmin(ceil(yarn_dimension(y, dr, base, y->beta_slow)), dr - 1);
    float const  span = hi > lo ? (float)(hi - lo) : 0.001f;
    for (int32_t i = 0; i < dr / 2; i++) {
        float const ramp = fminf(fmaxf(((float)i - (float)lo) / span, 0), 1);
        float const keep = 1 - ramp;
        freq[i] = freq[i] / (float)y->factor * (1 - keep) + freq[i] * keep;
    }
}

void hd_model_bind_tables(hd_model *m, hd_arena *arena)
{
    const hd_config *const c = m->config;
    size_t const           bytes = (size_t)(c->rope_dim / 2) * sizeof(float);
    m->freq = hd_arena_alloc(arena, bytes);
    m->freq_yarn = hd_arena_alloc(arena, bytes);
    if (!m->freq || !m->freq_yarn) return;
    compute_frequencies(m->freq, c->rope_dim, c->rope_theta);
    compute_frequencies(m->freq_yarn, c->rope_dim, c->compress_theta);
    if (c->yarn.factor != 1)
        stretch_frequencies(m->freq_yarn, c->rope_dim, c->compress_theta, &c->yarn);
}

/* ---- memory ---- */

static int32_t mtp_ratio(const hd_model *m)
{
    return m->weights->has_mtp ? m->weights->mtp.block.ratio : 0;
}

void hd_model_bind_caches(hd_model *m, hd_arena *arena)
{
    int32_t const n = m->config->n_layers;
    for (int32_t l = 0; l < n; l++)
        hd_cache_bind(&m->caches[l], &m->shape, m->weights->layers[l].ratio, arena);
    hd_cache_bind(&m->caches[n], &m->shape, mtp_ratio(m), arena);
}

static int64_t edge_bytes(const hd_model *m)
{
    int64_t bytes = 0;
    for (int32_t l = 0; l <= m->config->n_layers; l++)
        bytes += hd_cache_edge_bytes(&m->shape, m->caches[l].ratio);
    return bytes;
}

double hd_model_token_bytes(const hd_model *m) { return (double)edge_bytes(m) / HD_CACHE_EDGE; }

int64_t hd_model_rows_bytes(const hd_model *m, int32_t n)
{
    return ((int64_t)n + HD_CACHE_EDGE - 1) / HD_CACHE_EDGE * edge_bytes(m);
}

void hd_model_bind_pass(hd_pass *b, const hd_model *m, int32_t t, hd_arena *arena)
{
    const hd_config *const c = m->config;
    size_t const           ids = (size_t)t * sizeof(int32_t);
    size_t const streams = (size_t)t * (size_t)c->hc_mult * (size_t)c->d_model * sizeof(float);
    b->token = hd_arena_alloc(arena, ids);
    b->pos = hd_arena_alloc(arena, ids);
    b->seq = hd_arena_alloc(arena, ids);
    b->next = hd_arena_alloc(arena, ids);
    b->wanted = hd_arena_alloc(arena, ids);
    b->streams = hd_arena_alloc(arena, streams);
    b->logits = hd_arena_alloc(arena, (size_t)t * (size_t)c->n_vocab * sizeof(float));
    b->asks = hd_arena_alloc(arena, (size_t)t * sizeof(hd_sample_ask));
    b->drawn = hd_arena_alloc(arena, 2 * ids);
    b->logprob = b->drawn ? (float *)(void *)(b->drawn + t) : NULL;
}

/* ---- what comes of logits ---- */

hd_status hd_model_draw(const hd_model *m, const hd_pass *b, int32_t t, const hd_kernel_choice *c,
                        hd_stream *stream, hd_error *err)
{
    hd_sample_args const   a = {.logits = b->logits,
                                .asks = b->asks,
                                .ids = b->drawn,
                                .logprob = b->logprob,
                                .t = t,
                                .n = m->config->n_vocab};
    const hd_kernel *const k = hd_kernel_select(c, &hd_op_sample, &a);
    if (!k) HD_FAIL(err, HD_ERR_UNSUPPORTED, "no kernel draws %d tokens of %d ids", a.t, a.n);
    hd_status const s = k->run(&a, stream);
    if (s != HD_OK) HD_FAIL(err, s, "%s failed: %s", k->name, hd_status_name(s));
    return HD_OK;
}

/* ---- plans ---- */

#define STEPS_PER_LAYER 80
#define STEPS_AROUND    16

int32_t hd_model_max_steps(const hd_model *m)
{
    return (m->config->n_layers + 1) * STEPS_PER_LAYER + STEPS_AROUND;
}

void hd_add_block(const hd_site *s)
{
    size_t const   mark = hd_arena_mark(s->p->act);
    hd_mixed const a = hd_add_hc_pre(s, "hc_attn_pre", &s->w->hc_attn,
                                     (hd_norm){.label = "attn_norm",
                                               .w = s->w->attn_norm,
                                               .readers = {&s->w->wq_a, &s->w->wkv}});
    hd_add_hc_post(s, "hc_attn_post", &a, hd_add_attention(s, &a.in));
    hd_arena_release(s->p->act, mark);
    hd_mixed const f = hd_add_hc_pre(s, "hc_ffn_pre", &s->w->hc_ffn,
                                     (hd_norm){.label = "ffn_norm",
                                               .w = s->w->ffn_norm,
                                               .readers = {&s->w->shared_w1, &s->w->shared_w3}});
    hd_add_hc_post(s, "hc_ffn_post", &f, hd_add_moe(s, &f.in));
    hd_arena_release(s->p->act, mark);
}

/* The streams of the rows that are wanted, side by side: a table of f32 rows, looked up. */
static const float *add_wanted(const hd_site *s, int32_t n)
{
    int32_t const width = s->m->config->hc_mult * s->m->config->d_model;
    float *const  y = hd_plan_room(s->p, n, width);
    HD_ADD(s->p, "head_rows", embed, .table = s->b->streams, .id = s->b->wanted, .y = y, .t = n,
           .m = 1, .d = width, .vocab = s->t, .is_f32 = true);
    return y;
}

void hd_model_plan(hd_plan *p, const hd_model *m, const hd_pass *b, int32_t t, int32_t n_wanted)
{
    const hd_config *const  c = m->config;
    const hd_weights *const w = m->weights;
    hd_site                 s = {.p = p, .m = m, .b = b, .t = t};
    HD_ADD(p, "embed", embed, .table = w->embed.w, .id = b->token, .y = b->streams, .t = t,
           .m = c->hc_mult, .d = c->d_model, .vocab = c->n_vocab,
           .is_f32 = w->embed.format == HD_FMT_F32);
    for (int32_t l = 0; l < c->n_layers; l++) {
        p->layer = l;
        s.w = &w->layers[l];
        s.cache = &m->caches[l];
        hd_add_block(&s);
    }
    p->layer = HD_LAYER_NONE;
    if (n_wanted == 0) return;
    size_t const       mark = hd_arena_mark(p->act);
    const float *const streams = n_wanted < t ? add_wanted(&s, n_wanted) : b->streams;
    hd_add_head(&s, &(hd_head){&w->hc_head, w->norm, streams, n_wanted});
    hd_arena_release(p->act, mark);
}
