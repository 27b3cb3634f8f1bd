#include "model/parts.h"
#include "ops/hc_head.h"
#include "ops/hc_post.h"
#include "ops/hc_pre.h"

/* mHC: the residual is m streams; each block reads a mixture of them and its output is
 * spread over them again. */

hd_mixed hd_add_hc_pre(const hd_site *s, const char *label, const hd_hc_weights *w, hd_norm norm)
{
    const hd_config *const c = s->m->config;
    int32_t const          m = c->hc_mult, d = c->d_model;
    hd_mixed mixed = {.post = hd_plan_room(s->p, s->t, m), .comb = hd_plan_room(s->p, s->t, m * m)};
    norm.x = hd_plan_room(s->p, s->t, d);
    norm.d = d;
    HD_ADD(s->p, label, hc_pre, .s = s->b->streams, .fn = w->fn, .base = w->base, .scale = w->scale,
           .x = norm.x, .post = mixed.post, .comb = mixed.comb, .t = s->t, .m = m, .d = d,
           .iters = c->hc_iters, .eps = c->rms_eps, .hc_eps = c->hc_eps);
    mixed.in = hd_add_norm_for(s, &norm);
    return mixed;
}

void hd_add_hc_post(const hd_site *s, const char *label, const hd_mixed *mixed, const float *y)
{
    HD_ADD(s->p, label, hc_post, .y = y, .post = mixed->post, .comb = mixed->comb,
           .s = s->b->streams, .t = s->t, .m = s->m->config->hc_mult, .d = s->m->config->d_model);
}

void hd_add_head(const hd_site *s, const hd_head *h)
{
    const hd_config *const c = s->m->config;
    int32_t const          m = c->hc_mult, d = c->d_model;
    float *const           x = hd_plan_room(s->p, h->n, d);
    HD_ADD(s->p, "hc_head", hc_head, .s = h->streams, .fn = h->hc->fn, .base = h->hc->base,
           .scale = h->hc->scale, .x = x, .t = h->n, .m = m, .d = d, .eps = c->rms_eps,
           .hc_eps = c->hc_eps);
    hd_add_norm(s, "norm", x, h->norm, h->n, d);
    HD_LINEAR(s, "head", .w = &s->m->weights->head, .x = x, .y = s->b->logits, .t = h->n);
}
