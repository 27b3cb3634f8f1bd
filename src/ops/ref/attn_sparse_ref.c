#include "ops/attn_sparse.h"

#include <math.h>
#include <string.h>

/* Heads that share one decoding of a key; what fits the stack. */
#define HEADS 8

/* The keys of one token in order: the window, then the compressed rows. */
typedef struct key_list {
    const int32_t *ids; /* NULL: all rows */
    int32_t        seq, first, n_win, n_rows;
} key_list;

/* Sums of HEADS heads, relative to the largest logit so far. */
typedef struct softmax {
    double largest[HEADS], sum[HEADS], acc[HEADS][HD_ROW_MAX];
} softmax;

static key_list list_keys(const hd_attn_sparse_args *a, int32_t t)
{
    int32_t const p = a->pos[t];
    key_list      l = {.seq = a->seq[t], .first = p + 1 > a->window ? p + 1 - a->window : 0};
    l.n_win = p + 1 - l.first;
    if (a->group <= 0) return l;
    l.ids = a->k > 0 ? a->ids + (int64_t)t * a->k : NULL;
    l.n_rows = l.ids ? a->k : (p + 1) / a->group;
    return l;
}

/* Key j of the list, decoded to buffer where its format asks for it; NULL: an unused place. */
static const float *read_key(const hd_attn_sparse_args *a, const key_list *l, int32_t j,
                             float *buffer)
{
    if (j < l->n_win) {
        int32_t const row = (l->first + j) % a->win_cap;
        return hd_row_read(&a->win_layout, a->win,
                           hd_row_of(&a->win_layout, l->seq, a->win_cap, row), buffer);
    }
    int32_t const row = l->ids ? l->ids[j - l->n_win] : j - l->n_win;
    if (row < 0) return NULL;
    return hd_row_read(&a->row_layout, a->rows, hd_row_of(&a->row_layout, l->seq, a->row_cap, row),
                       buffer);
}

static double logit(const hd_attn_sparse_args *a, const float *q, const float *key)
{
    double lane[4] = {0};
    for (int32_t c = 0; c < a->d; c++) lane[c & 3] += (double)q[c] * key[c];
    return (lane[0] + lane[1] + lane[2] + lane[3]) * a->scale;
}

/* Sums are rescaled whenever a larger logit appears. */
static void add_key(const hd_attn_sparse_args *a, softmax *s, int32_t i, double z, const float *key)
{
    double *const acc = s->acc[i];
    double const  shrink = z > s->largest[i] ? exp(s->largest[i] - z) : 1;
    if (z > s->largest[i]) s->largest[i] = z;
    double const e = exp(z - s->largest[i]);
    s->sum[i] = s->sum[i] * shrink + e;
    for (int32_t c = 0; c < a->d; c++) acc[c] = acc[c] * shrink + e * key[c];
}

/* Turns the tail of a head back by the position of token t. */
static void turn_back(const hd_attn_sparse_args *a, int32_t t, double *head)
{
    double *const tail = head + (a->d - a->dr);
    for (int32_t i = 0; i < a->dr / 2; i++) {
        double const angle = (double)((float)a->pos[t] * a->freq[i]), c = cos(angle),
                     s = sin(angle), even = tail[2 * i], odd = tail[2 * i + 1];
        tail[2 * i] = even * c + odd * s;
        tail[2 * i + 1] = odd * c - even * s;
    }
}

/* Heads h .. h+n-1 of one token in one pass over the keys. */
static void attend(const hd_attn_sparse_args *a, int32_t t, int32_t h, int32_t n)
{
    int64_t const      at = ((int64_t)t * a->h + h) * a->d;
    const float *const q = a->q + at;
    float *const       y = a->y + at;
    key_list const     l = list_keys(a, t);
    softmax            s;
    float              buffer[HD_ROW_MAX];
    for (int32_t i = 0; i < n; i++) {
        s.largest[i] = a->sink[h + i];
        s.sum[i] = 1;
        memset(s.acc[i], 0, (size_t)a->d * sizeof(double));
    }
    for (int32_t j = 0; j < l.n_win + l.n_rows; j++) {
        const float *const key = read_key(a, &l, j, buffer);
        for (int32_t i = 0; key && i < n; i++)
            add_key(a, &s, i, logit(a, q + (int64_t)i * a->d, key), key);
    }
    for (int32_t i = 0; i < n; i++) {
        for (int32_t c = 0; c < a->d; c++) s.acc[i][c] /= s.sum[i];
        turn_back(a, t, s.acc[i]);
        for (int32_t c = 0; c < a->d; c++) y[(int64_t)i * a->d + c] = (float)s.acc[i][c];
    }
}

bool hd_attn_sparse_ref_supports(const void *args)
{
    const hd_attn_sparse_args *const a = args;
    if (!hd_row_is_valid(&a->win_layout) || a->win_layout.d != a->d || a->d > HD_ROW_MAX)
        return false;
    return a->group <= 0 || (hd_row_is_valid(&a->row_layout) && a->row_layout.d == a->d);
}

hd_status hd_attn_sparse_ref(const void *args, hd_stream *stream)
{
    const hd_attn_sparse_args *const a = args;
    (void)stream;
    for (int32_t t = 0; t < a->t; t++)
        for (int32_t h = 0; h < a->h; h += HEADS)
            attend(a, t, h, a->h - h < HEADS ? a->h - h : HEADS);
    return HD_OK;
}
