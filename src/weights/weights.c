#include "weights/weights.h"

#include <stdio.h>
#include <string.h>

#include "weights/survey.h"
#include "weights/tensor_take.h"

/* Where the tensors of one block are: "layers.3." and the sizes that its shapes follow. */
typedef struct block {
    hd_taker        *taker;
    const hd_config *c;
    const char      *prefix;
    bool             is_hash;
} block;

static const char *name_in(const block *b, char out[HD_NAME_MAX], const char *leaf)
{
    snprintf(out, HD_NAME_MAX, "%s%s", b->prefix, leaf);
    return out;
}

static hd_status take_vector(const block *b, const char *leaf, int64_t n, const float **out)
{
    char name[HD_NAME_MAX];
    return hd_take_f32(b->taker, name_in(b, name, leaf), 0, n, out);
}

static hd_status take_table(const block *b, const char *leaf, int64_t rows, int64_t cols,
                            const float **out)
{
    char name[HD_NAME_MAX];
    return hd_take_f32(b->taker, name_in(b, name, leaf), rows, cols, out);
}

static hd_status take_matrix(const block *b, const char *leaf, int32_t n, int32_t k, hd_matrix *out)
{
    char name[HD_NAME_MAX];
    return hd_take_matrix(b->taker, name_in(b, name, leaf), n, k, out);
}

/* outputs: (2 + m) * m with three scales around a block, m with one at the head. */
static hd_status take_hc(const block *b, const char *leaf, int32_t outputs, int32_t scales,
                         hd_hc_weights *out)
{
    char name[64];
    snprintf(name, sizeof name, "%s_fn", leaf);
    HD_TRY(take_table(b, name, outputs, (int64_t)b->c->hc_mult * b->c->d_model, &out->fn));
    snprintf(name, sizeof name, "%s_base", leaf);
    HD_TRY(take_vector(b, name, outputs, &out->base));
    snprintf(name, sizeof name, "%s_scale", leaf);
    return take_vector(b, name, scales, &out->scale);
}

static hd_status take_compressor(const block *b, const char *leaf, int32_t ratio, int32_t head,
                                 hd_compressor_weights *out)
{
    char          name[64];
    int32_t const width = ratio == 4 ? 2 * head : head;
    snprintf(name, sizeof name, "%s.wkv", leaf);
    HD_TRY(take_matrix(b, name, width, b->c->d_model, &out->wkv));
    snprintf(name, sizeof name, "%s.wgate", leaf);
    HD_TRY(take_matrix(b, name, width, b->c->d_model, &out->wgate));
    snprintf(name, sizeof name, "%s.ape", leaf);
    HD_TRY(take_table(b, name, ratio, width, &out->ape));
    snprintf(name, sizeof name, "%s.norm.weight", leaf);
    return take_vector(b, name, head, &out->norm);
}

static hd_status take_indexer(const block *b, hd_indexer_weights *out)
{
    const hd_config *const c = b->c;
    HD_TRY(
        take_matrix(b, "attn.indexer.wq_b", c->index_heads * c->index_dim, c->q_rank, &out->wq_b));
    HD_TRY(take_matrix(b, "attn.indexer.weights_proj", c->index_heads, c->d_model,
                       &out->weights_proj));
    return take_compressor(b, "attn.indexer.compressor", 4, c->index_dim, &out->compressor);
}

static hd_status take_attention(const block *b, hd_layer_weights *l)
{
    const hd_config *const c = b->c;
    int32_t const          heads = c->n_heads * c->head_dim, outs = c->o_groups * c->o_rank;
    HD_TRY(take_vector(b, "attn_norm.weight", c->d_model, &l->attn_norm));
    HD_TRY(take_matrix(b, "attn.wq_a", c->q_rank, c->d_model, &l->wq_a));
    HD_TRY(take_vector(b, "attn.q_norm.weight", c->q_rank, &l->q_norm));
    HD_TRY(take_matrix(b, "attn.wq_b", heads, c->q_rank, &l->wq_b));
    HD_TRY(take_matrix(b, "attn.wkv", c->head_dim, c->d_model, &l->wkv));
    HD_TRY(take_vector(b, "attn.kv_norm.weight", c->head_dim, &l->kv_norm));
    HD_TRY(take_vector(b, "attn.attn_sink", c->n_heads, &l->sink));
    HD_TRY(take_matrix(b, "attn.wo_a", outs, heads / c->o_groups, &l->wo_a));
    HD_TRY(take_matrix(b, "attn.wo_b", c->d_model, outs, &l->wo_b));
    if (l->ratio > 0)
        HD_TRY(take_compressor(b, "attn.compressor", l->ratio, c->head_dim, &l->compressor));
    return l->ratio == 4 ? take_indexer(b, &l->indexer) : HD_OK;
}

/* ---- routed experts ---- */

/* The experts of one projection share format and shape, and all or none know the range of
 * their input: one that does not would be the one that breaks.  `first` is that of expert 0. */
static hd_status check_expert(const block *b, const hd_matrix *first, int32_t e, const hd_matrix *m,
                              const char *projection)
{
    hd_error *const err = b->taker->err;
    if (b->taker->survey) return HD_OK; /* it sees which one differs from all */
    if (m->format != first->format)
        HD_FAIL(err, HD_ERR_UNSUPPORTED, "%sffn.experts.%d.%s is %s, expert 0 is %s", b->prefix, e,
                projection, hd_format_name(m->format), hd_format_name(first->format));
    if ((m->input_scale > 0) != (first->input_scale > 0))
        HD_FAIL(err, HD_ERR_FORMAT, "%sffn.experts.%d.%s %s input_scale, expert 0 %s", b->prefix, e,
                projection, m->input_scale > 0 ? "has an" : "lacks its",
                m->input_scale > 0 ? "has none" : "has one");
    return HD_OK;
}

/* The list of a hd_experts while it is filled. */
typedef struct expert_list {
    const void **w, **sf;
    float       *scale, *input;
} expert_list;

static hd_status make_list(const block *b, int32_t n, expert_list *l)
{
    hd_pool *const pool = &b->taker->weights->pool;
    size_t const   e = (size_t)n;
    l->w = hd_pool_alloc(pool, e * sizeof *l->w);
    l->sf = hd_pool_alloc(pool, e * sizeof *l->sf);
    l->scale = hd_pool_alloc(pool, e * sizeof *l->scale);
    l->input = hd_pool_alloc(pool, e * sizeof *l->input);
    if (!l->w || !l->sf || !l->scale || !l->input)
        HD_FAIL(b->taker->err, HD_ERR_MEMORY, "no memory for the experts of %s", b->prefix);
    return HD_OK;
}

/* The matrices [n, k] of all experts, to the list from `at` on; *first is that of expert 0. */
static hd_status take_projection(const block *b, const char *projection, const hd_experts *x,
                                 const expert_list *l, int32_t at, hd_matrix *first)
{
    for (int32_t i = 0; i < b->c->n_experts; i++) {
        char      name[HD_NAME_MAX];
        hd_matrix m;
        snprintf(name, sizeof name, "%sffn.experts.%d.%s", b->prefix, i, projection);
        HD_TRY(hd_take_expert(b->taker, name, x->n, x->k, &m));
        l->w[at + i] = m.w;
        l->sf[at + i] = m.sf;
        l->scale[at + i] = m.scale;
        l->input[at + i] = m.input_scale;
        if (i == 0) *first = m;
        HD_TRY(check_expert(b, first, i, &m, projection));
    }
    if (first->format == HD_FMT_NVFP4) b->taker->weights->n_nvfp4_experts += b->c->n_experts;
    hd_log_progress(b->taker->log, "loading weights", ++b->taker->n_projections,
                    b->taker->most_projections);
    return HD_OK;
}

/* Projections that one product multiplies are of one format; `second` may be NULL. */
static hd_status take_experts(const block *b, const char *first, const char *second,
                              hd_experts *out)
{
    hd_matrix   one = {0}, two = {0};
    expert_list l;
    out->e = (second ? 2 : 1) * b->c->n_experts;
    HD_TRY(make_list(b, out->e, &l));
    HD_TRY(take_projection(b, first, out, &l, 0, &one));
    if (second) HD_TRY(take_projection(b, second, out, &l, b->c->n_experts, &two));
    if (second && two.format != one.format && !b->taker->survey)
        HD_FAIL(b->taker->err, HD_ERR_UNSUPPORTED, "%sffn.experts.0.%s is %s, its %s is %s",
                b->prefix, second, hd_format_name(two.format), first, hd_format_name(one.format));
    out->format = one.format;
    out->w = l.w;
    out->sf = l.sf[0] ? l.sf : NULL;
    out->scale = l.scale;
    out->input_scale = l.input;
    return HD_OK;
}

static hd_status take_router(const block *b, hd_layer_weights *l)
{
    const hd_config *const c = b->c;
    char                   name[HD_NAME_MAX];
    HD_TRY(take_matrix(b, "ffn.gate", c->n_experts, c->d_model, &l->gate));
    if (!b->is_hash) return take_vector(b, "ffn.gate.bias", c->n_experts, &l->gate_bias);
    return hd_take_i32(b->taker, name_in(b, name, "ffn.gate.tid2eid"), c->n_vocab,
                       c->n_experts_used, c->n_experts, &l->tid2eid);
}

static hd_status take_ffn(const block *b, hd_layer_weights *l)
{
    int32_t const d = b->c->d_model, inner = b->c->d_expert;
    HD_TRY(take_vector(b, "ffn_norm.weight", d, &l->ffn_norm));
    HD_TRY(take_router(b, l));
    HD_TRY(take_matrix(b, "ffn.shared_experts.w1", inner, d, &l->shared_w1));
    HD_TRY(take_matrix(b, "ffn.shared_experts.w3", inner, d, &l->shared_w3));
    HD_TRY(take_matrix(b, "ffn.shared_experts.w2", d, inner, &l->shared_w2));
    l->w1_w3 = (hd_experts){.n = inner, .k = d};
    l->w2 = (hd_experts){.n = d, .k = inner};
    HD_TRY(take_experts(b, "w1", "w3", &l->w1_w3));
    return take_experts(b, "w2", NULL, &l->w2);
}

static hd_status take_block(const block *b, int32_t ratio, hd_layer_weights *l)
{
    int32_t const m = b->c->hc_mult;
    l->ratio = ratio > 1 ? ratio : 0;
    HD_TRY(take_hc(b, "hc_attn", (2 + m) * m, 3, &l->hc_attn));
    HD_TRY(take_attention(b, l));
    HD_TRY(take_hc(b, "hc_ffn", (2 + m) * m, 3, &l->hc_ffn));
    return take_ffn(b, l);
}

/* ---- the whole model ---- */

static hd_status take_globals(hd_taker *k, const hd_config *c, hd_weights *w)
{
    block const b = {k, c, "", false};
    HD_TRY(take_matrix(&b, "embed", c->n_vocab, c->d_model, &w->embed));
    if (!k->survey && w->embed.format != HD_FMT_BF16 && w->embed.format != HD_FMT_F32)
        HD_FAIL(k->err, HD_ERR_UNSUPPORTED, "embed.weight is %s, wanted BF16, F32 or F16",
                hd_format_name(w->embed.format));
    /* Published configs claim tied embeddings wrongly, so a head that is there is used. */
    if (c->tie_embeddings && !hd_take_peek(k, "head", "weight"))
        w->head = w->embed;
    else
        HD_TRY(take_matrix(&b, "head", c->n_vocab, c->d_model, &w->head));
    HD_TRY(take_vector(&b, "norm.weight", c->d_model, &w->norm));
    return take_hc(&b, "hc_head", c->hc_mult, 1, &w->hc_head);
}

static hd_status take_mtp(hd_taker *k, const hd_config *c, hd_mtp_weights *m)
{
    block const   b = {k, c, "mtp.0.", false};
    int32_t const d = c->d_model;
    HD_TRY(take_matrix(&b, "e_proj", d, d, &m->e_proj));
    HD_TRY(take_matrix(&b, "h_proj", d, d, &m->h_proj));
    HD_TRY(take_vector(&b, "enorm.weight", d, &m->enorm));
    HD_TRY(take_vector(&b, "hnorm.weight", d, &m->hnorm));
    HD_TRY(take_vector(&b, "norm.weight", d, &m->norm));
    HD_TRY(take_hc(&b, "hc_head", c->hc_mult, 1, &m->hc_head));
    return take_block(&b, c->n_mtp > 0 ? c->ratios[c->n_layers] : 0, &m->block);
}

static bool has_prefix(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

static bool has_suffix(const char *name, const char *suffix)
{
    size_t const n = strlen(name), s = strlen(suffix);
    return n >= s && strcmp(name + n - s, suffix) == 0;
}

/* Known tensors that the forward pass has no use for, and what to say about them once. */
typedef enum aside { ASIDE_NO, ASIDE_KV_SCALE, ASIDE_MTP_COPY, ASIDE_DSPARK, ASIDE_N } aside;

static aside is_aside(const hd_weights *w, const char *name)
{
    if (has_suffix(name, ".k_proj.k_scale") || has_suffix(name, ".v_proj.v_scale"))
        return ASIDE_KV_SCALE;
    if (!has_prefix(name, "mtp.")) return ASIDE_NO;
    if (w->has_dspark) return ASIDE_DSPARK;
    if (strcmp(name, "mtp.0.head.weight") == 0 || strcmp(name, "mtp.0.emb.tok_emb.weight") == 0)
        return ASIDE_MTP_COPY;
    return ASIDE_NO;
}

static void report_aside(const hd_log *log, const int32_t n[ASIDE_N])
{
    static const char *const what[ASIDE_N] = {
        [ASIDE_KV_SCALE] = "scales of an FP8 KV cache left aside: no such modules exist",
        [ASIDE_MTP_COPY] = "copies of embedding or head in the MTP block left aside",
        [ASIDE_DSPARK] = "tensors of a DSpark drafter left aside: the main model runs, "
                         "speculation is off",
    };
    for (int i = ASIDE_NO + 1; i < ASIDE_N; i++)
        if (n[i]) hd_log_print(log, HD_LOG_INFO, "%d %s", n[i], what[i]);
}

static hd_status fail_extra(const hd_taker *k, const hd_tensor *t)
{
    char found[128];
    HD_FAIL(k->err, HD_ERR_FORMAT, "tensor %s in %s is unexpected: found %s, wanted none",
            t->st.name, hd_checkpoint_file_name(k->ck, t->shard),
            hd_st_tensor_print(&t->st, found, sizeof found));
}

/* Every tensor was ticked or is known to be left aside; the first other one is an error. */
static hd_status check_leftovers(hd_taker *k)
{
    int32_t n[ASIDE_N] = {0};
    for (int32_t i = 0; i < hd_checkpoint_count(k->ck); i++) {
        hd_tensor *const t = hd_checkpoint_at(k->ck, i);
        if (t->ticked) continue;
        aside const why = is_aside(k->weights, t->name);
        if (why == ASIDE_NO) return fail_extra(k, t);
        t->ticked++;
        n[why]++;
    }
    report_aside(k->log, n);
    return HD_OK;
}

static hd_status take_layers(hd_taker *k, const hd_config *c, hd_weights *w)
{
    w->layers = hd_pool_alloc(&w->pool, (size_t)c->n_layers * sizeof *w->layers);
    if (!w->layers) HD_FAIL(k->err, HD_ERR_MEMORY, "no memory for %d layers", c->n_layers);
    for (int32_t l = 0; l < c->n_layers; l++) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "layers.%d.", l);
        block const b = {k, c, prefix, l < c->n_hash_layers};
        HD_TRY(take_block(&b, c->ratios[l], &w->layers[l]));
    }
    return HD_OK;
}

/* What tells a DSpark drafter from an MTP block; it sits in the last of a few stages. */
static bool has_markov_head(const hd_taker *k)
{
    for (int32_t stage = 0; stage < HD_MAX_MTP; stage++) {
        char name[64];
        snprintf(name, sizeof name, "mtp.%d.markov_head.markov_w1", stage);
        if (hd_take_peek(k, name, "weight")) return true;
    }
    return false;
}

static void describe_family(hd_weights *w)
{
    size_t used = 0;
    for (int f = HD_N_FORMATS - 1; f > HD_FMT_NONE; f--) {
        if (!w->n_matrices[f]) continue;
        int const n = snprintf(w->family + used, sizeof w->family - used, "%s%s x %d",
                               used ? ", " : "", hd_format_name((hd_format)f), w->n_matrices[f]);
        if (n > 0) used += (size_t)n;
    }
}

static hd_status take_model(hd_taker *k, hd_weights *w)
{
    const hd_config *const c = w->config;
    HD_TRY(take_globals(k, c, w));
    HD_TRY(take_layers(k, c, w));
    return w->has_mtp ? take_mtp(k, c, &w->mtp) : HD_OK;
}

static void detect_drafter(const hd_taker *k, hd_weights *w)
{
    w->has_mtp = hd_take_peek(k, "mtp.0.enorm", "weight") != NULL;
    w->has_dspark = !w->has_mtp && has_markov_head(k);
}

static hd_status load(hd_taker *k, hd_weights *w)
{
    const hd_config *const c = w->config;
    detect_drafter(k, w);
    HD_TRY(take_model(k, w));
    hd_log_progress(k->log, "loading weights", k->most_projections, k->most_projections);
    HD_TRY(hd_take_check_inputs(k));
    HD_TRY(check_leftovers(k));
    if (c->n_mtp > 0 && !w->has_mtp && !w->has_dspark)
        hd_log_print(k->log, HD_LOG_INFO, "config.json promises an MTP block that is not there");
    describe_family(w);
    return HD_OK;
}

hd_status hd_weights_load(hd_weights **out, hd_checkpoint *ck, bool is_trusted, const hd_log *log,
                          hd_error *err)
{
    hd_weights *const w = hd_memory_alloc(sizeof *w);
    if (!w) HD_FAIL(err, HD_ERR_MEMORY, "no memory for the table of weights");
    w->config = hd_checkpoint_config(ck);
    hd_taker        k = {.ck = ck,
                         .weights = w,
                         .log = log,
                         .err = err,
                         .is_trusted = is_trusted,
                         .most_projections = 3 * (w->config->n_layers + 1)};
    hd_status const s = load(&k, w);
    if (s != HD_OK) {
        hd_weights_close(w);
        return s;
    }
    *out = w;
    return HD_OK;
}

/* ---- surveys ---- */

/* Length of `name` without ".weight" or ".weight_packed"; 0 when it has neither. */
static size_t stem_of(const char *name)
{
    static const char *const suffixes[] = {".weight", ".weight_packed"};
    size_t const             n = strlen(name);
    for (int i = 0; i < 2; i++) {
        size_t const m = strlen(suffixes[i]);
        if (n > m && strcmp(name + n - m, suffixes[i]) == 0) return n - m;
    }
    return 0;
}

/* The matrix of a tensor that the model does not want, in its own shape. */
static hd_status take_unwanted(hd_taker *k, hd_tensor *t)
{
    char          name[HD_NAME_MAX];
    hd_matrix     m;
    size_t const  n = stem_of(t->name);
    int64_t const codes = t->st.dtype == HD_ST_U8 || t->st.dtype == HD_ST_I8 ? 2 : 1;
    if (t->ticked || n == 0 || n >= sizeof name || t->st.rank != 2) return HD_OK;
    if (t->st.shape[0] > INT32_MAX || t->st.shape[1] > INT32_MAX / codes) return HD_OK;
    memcpy(name, t->name, n);
    name[n] = '\0';
    return hd_take_matrix(k, name, (int32_t)t->st.shape[0], (int32_t)(t->st.shape[1] * codes), &m);
}

/* What the model has no use for is told, then looked at like the rest: matrices first, so that
 * their scales do not come as tensors of their own. */
static hd_status survey_leftovers(hd_taker *k, hd_survey_result *out)
{
    int32_t const n = hd_checkpoint_count(k->ck);
    for (int32_t i = 0; i < n && k->weights->config->n_layers > 0; i++) {
        const hd_tensor *const t = hd_checkpoint_at(k->ck, i);
        if (t->ticked) continue;
        bool const     is_extra = is_aside(k->weights, t->name) == ASIDE_NO;
        hd_fault const f = {HD_FAULT_EXTRA, t->st.name, hd_checkpoint_file_name(k->ck, t->shard),
                            k->err->message};
        out->n_aside += !is_extra;
        if (is_extra && fail_extra(k, t) != HD_OK) k->survey->fault(k->survey->user, &f);
    }
    k->is_wanted = false;
    for (int32_t i = 0; i < n; i++) HD_TRY(take_unwanted(k, hd_checkpoint_at(k->ck, i)));
    for (int32_t i = 0; i < n; i++) {
        hd_tensor *const t = hd_checkpoint_at(k->ck, i);
        if (!t->ticked++) k->survey->values(k->survey->user, t, 0);
    }
    return HD_OK;
}

hd_status hd_weights_survey(hd_checkpoint *ck, const hd_survey *survey, hd_survey_result *out,
                            hd_error *err)
{
    hd_error   told = {0}; /* of the fault at hand */
    hd_weights w = {.config = hd_checkpoint_config(ck)};
    hd_taker   k = {.ck = ck, .weights = &w, .err = &told, .survey = survey, .is_wanted = true};
    *out = (hd_survey_result){0};
    detect_drafter(&k, &w);
    hd_status s = w.config->n_layers > 0 ? take_model(&k, &w) : HD_OK;
    describe_family(&w);
    memcpy(out->n_matrices, w.n_matrices, sizeof out->n_matrices);
    memcpy(out->family, w.family, sizeof out->family);
    if (s == HD_OK) s = survey_leftovers(&k, out);
    out->has_mtp = w.has_mtp;
    out->has_dspark = w.has_dspark;
    hd_pool_free(&w.pool);
    if (s != HD_OK && err) *err = told;
    return s;
}

void hd_weights_close(hd_weights *w)
{
    if (!w) return;
    hd_pool_free(&w->pool);
    hd_memory_free(w);
}
