#include "model/parts.h"
#include "ops/add_streams.h"
#include "ops/embed.h"
#include "ops/rmsnorm.h"

/* Joins what the last layer knows of token t with the embedding of token t + 1:
 * streams[i] = e_proj RMSNorm(e) + h_proj RMSNorm(streams[i]), each stream normed alone. */
static float *add_join(const hd_site *s, const hd_mtp_weights *w)
{
    const hd_config *const c = s->m->config;
    const hd_matrix *const table = &s->m->weights->embed;
    int32_t const          d = c->d_model, rows = s->t * c->hc_mult;
    float *const           e = hd_plan_room(s->p, s->t, d);
    float *const           h = hd_plan_room(s->p, rows, d);
    HD_ADD(s->p, "embed", embed, .table = table->w, .id = s->b->next, .y = e, .t = s->t, .m = 1,
           .d = d, .vocab = c->n_vocab, .is_f32 = table->format == HD_FMT_F32);
    hd_add_norm(s, "enorm", e, w->enorm, s->t, d);
    float *const x =
        HD_LINEAR(s, "e_proj", .w = &w->e_proj, .x = e, .t = s->t, .input = HD_INPUT_ROUNDED);
    HD_ADD(s->p, "hnorm", rmsnorm, .x = s->b->streams, .w = w->hnorm, .y = h, .t = rows, .d = d,
           .eps = c->rms_eps, .has_w = true);
    float *const streams =
        HD_LINEAR(s, "h_proj", .w = &w->h_proj, .x = h, .t = rows, .input = HD_INPUT_ROUNDED);
    HD_ADD(s->p, "join", add_streams, .x = x, .s = streams, .t = s->t, .m = c->hc_mult, .d = d);
    return streams;
}

void hd_model_plan_mtp(hd_plan *p, const hd_model *m, const hd_pass *b, int32_t t)
{
    const hd_mtp_weights *const w = &m->weights->mtp;
    size_t const                mark = hd_arena_mark(p->act);
    hd_pass                     inner = *b;
    hd_site                     s = {p, m, b, &w->block, &m->caches[m->config->n_layers], t};
    p->layer = HD_LAYER_MTP;
    inner.streams = add_join(&s, w);
    s.b = &inner;
    hd_add_block(&s);
    hd_add_head(&s, &(hd_head){&w->hc_head, w->norm, inner.streams, t});
    p->layer = HD_LAYER_NONE;
    hd_arena_release(p->act, mark);
}
