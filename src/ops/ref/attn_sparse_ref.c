#include "ops/attn_sparse.h"

#include <math.h>

/* The keys of one token in order: the window, then the compressed rows. */
typedef struct key_list {
    const float   *win, *rows; /* parts of the token's sequence */
    const int32_t *ids;        /* NULL: all rows */
    int32_t        first, n_win, n_rows;
} key_list;

static key_list list_keys(const hd_attn_sparse_args *a, int32_t t)
{
    int32_t const p = a->pos[t];
    key_list      l = {.win = a->win + (int64_t)a->seq[t] * a->win_cap * a->d};
    l.first = p + 1 > a->window ? p + 1 - a->window : 0;
    l.n_win = p + 1 - l.first;
    if (a->group <= 0) return l;
    l.rows = a->rows + (int64_t)a->seq[t] * a->row_cap * a->d;
    l.ids = a->k > 0 ? a->ids + (int64_t)t * a->k : NULL;
    l.n_rows = l.ids ? a->k : (p + 1) / a->group;
    return l;
}

/* Key j of the list; NULL for an unused place. */
static const float *key_at(const hd_attn_sparse_args *a, const key_list *l, int32_t j)
{
    if (j < l->n_win) return l->win + (int64_t)((l->first + j) % a->win_cap) * a->d;
    int32_t const row = l->ids ? l->ids[j - l->n_win] : j - l->n_win;
    return row < 0 ? NULL : l->rows + (int64_t)row * a->d;
}

static double logit(const hd_attn_sparse_args *a, const float *q, const float *key)
{
    double lane[4] = {0};
    for (int32_t c = 0; c < a->d; c++) lane[c & 3] += (double)q[c] * key[c];
    return (lane[0] + lane[1] + lane[2] + lane[3]) * a->scale;
}

/* One pass over the keys: sums are rescaled whenever a larger logit appears. */
static void attend(const hd_attn_sparse_args *a, int32_t t, int32_t h)
{
    const float *const q = a->q + ((int64_t)t * a->h + h) * a->d;
    float *const       y = a->y + ((int64_t)t * a->h + h) * a->d;
    key_list const     l = list_keys(a, t);
    double             largest = a->sink[h], sum = 1, acc[HD_ATTN_MAX_DIM] = {0};
    for (int32_t j = 0; j < l.n_win + l.n_rows; j++) {
        const float *const key = key_at(a, &l, j);
        if (!key) continue;
        double const z = logit(a, q, key);
        double const shrink = z > largest ? exp(largest - z) : 1;
        if (z > largest) largest = z;
        double const e = exp(z - largest);
        sum = sum * shrink + e;
        for (int32_t c = 0; c < a->d; c++) acc[c] = acc[c] * shrink + e * key[c];
    }
    for (int32_t c = 0; c < a->d; c++) y[c] = (float)(acc[c] / sum);
}

bool hd_attn_sparse_ref_supports(const void *args)
{
    (void)args;
    return true;
}

hd_status hd_attn_sparse_ref(const void *args, hd_stream *stream)
{
    const hd_attn_sparse_args *const a = args;
    (void)stream;
    for (int32_t t = 0; t < a->t; t++)
        for (int32_t h = 0; h < a->h; h++) attend(a, t, h);
    return HD_OK;
}
