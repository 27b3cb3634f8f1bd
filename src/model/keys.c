#include "model/parts.h"
#include "ops/quant_fp8.h"
#include "ops/quant_mxfp4.h"

/* Elements that the released code rounds with one scale. */
#define ROW_BLOCK 64

/* Whether storing a row rounds it. */
static bool is_coded(const hd_cache_pool *p)
{
    return p->layout.format != HD_ROW_F32 && p->layout.format != HD_ROW_BF16;
}

hd_head_rows_args hd_head_rows_of(const hd_site *s, float *x, int32_t h, int32_t d)
{
    const hd_config *const c = s->m->config;
    return (hd_head_rows_args){.x = x,
                               .freq = hd_site_freq(s),
                               .pos = s->b->pos,
                               .t = s->t,
                               .h = h,
                               .d = d,
                               .dr = c->rope_dim,
                               .group = 1,
                               .eps = c->rms_eps};
}

bool hd_index_is_transformed(const hd_site *s)
{
    return s->m->act == HD_ACT_OFFICIAL || is_coded(&s->cache->index_rows);
}

static void set_store(const hd_site *s, const hd_keys *k, hd_head_rows_args *a)
{
    a->seq = s->b->seq;
    a->pool = k->pool->data;
    a->n_seq = s->m->shape.n_seq;
    a->cap = k->pool->cap;
    a->layout = k->pool->layout;
    a->has_pool = true;
}

/* Rounds keys as the released code does and stores them as they are then. */
static void add_rounded(const hd_site *s, const hd_keys *k)
{
    int32_t const     d = k->pool->layout.d;
    hd_head_rows_args a = {
        .x = k->x, .pos = s->b->pos, .t = s->t, .h = 1, .d = d, .group = k->group};
    if (k->is_index)
        HD_ADD(s->p, k->round_label, quant_mxfp4, .x = k->x, .y = k->x, .t = s->t, .k = d);
    else
        HD_ADD(s->p, k->round_label, quant_fp8, .x = k->x, .y = k->x, .t = s->t, .k = d,
               .block = ROW_BLOCK, .tail = s->m->config->rope_dim);
    set_store(s, k, &a);
    hd_plan_add(s->p, k->store_label, &hd_op_head_rows, &a);
}

void hd_add_keys(const hd_site *s, const hd_keys *k)
{
    bool const        is_rounded = s->m->act == HD_ACT_OFFICIAL && !is_coded(k->pool);
    hd_head_rows_args a = hd_head_rows_of(s, k->x, 1, k->pool->layout.d);
    a.w = k->norm;
    a.has_norm = a.has_w = true;
    a.group = k->group;
    a.has_hadamard = k->is_index && hd_index_is_transformed(s);
    if (!is_rounded) set_store(s, k, &a);
    hd_plan_add(s->p, k->label, &hd_op_head_rows, &a);
    if (is_rounded) add_rounded(s, k);
}
