#include "ops/attn_sparse.h"

#include <stdalign.h>

#include "base/team.h"
#include "ops/x86/read_row_avx2.h"
#include "ops/x86/turn_avx2.h"

/* Up to HEADS heads of a token go over the keys together, a tile of keys at a time: a key is
 * decoded once, its products with all heads are made in registers, and the sums behind the
 * softmax are made for a whole tile before they join the older ones.  A head's numbers do not
 * depend on which heads share the tile. */
#define HEADS 16 /* a multiple of 4 */
#define TILE  32 /* a multiple of 8 */

typedef struct workspace {
    alignas(32) float q[HEADS][HD_ROW_MAX];   /* filled up with zeros to width */
    alignas(32) float acc[HEADS][HD_ROW_MAX]; /* sums relative to the largest logit so far */
    alignas(32) float decoded[TILE][HD_ROW_MAX];
    alignas(32) float z[HEADS][TILE]; /* logits, then weights */
    const float *key[TILE];           /* the last one repeated up to a pair */
    float        largest[HEADS], shrink[HEADS];
    double       sum[HEADS];
    int32_t      width; /* d filled up to whole vectors */
} workspace;

/* The keys of one token in order: the window, then the compressed rows. */
typedef struct key_list {
    const int32_t *ids; /* NULL: all rows */
    int32_t        seq, first, n_win, n_rows;
} key_list;

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

/* Key j of the list as whole vectors; NULL: an unused place. */
static const float *read_key(const hd_attn_sparse_args *a, const key_list *l, int32_t j,
                             float *buffer)
{
    bool const                 is_win = j < l->n_win;
    const hd_row_layout *const layout = is_win ? &a->win_layout : &a->row_layout;
    int32_t const              place = j - l->n_win;
    int32_t const row = is_win ? (l->first + j) % a->win_cap : l->ids ? l->ids[place] : place;
    if (row < 0) return NULL;
    int64_t const      at = hd_row_of(layout, l->seq, is_win ? a->win_cap : a->row_cap, row);
    const float *const key = read_row(layout, is_win ? a->win : a->rows, at, buffer);
    if (key == buffer || a->d % 8 == 0) return key;
    memcpy(buffer, key, (size_t)a->d * sizeof *key);
    return buffer;
}

/* Reads up to TILE keys from place *j on; returns how many, 0 at the end. */
static int32_t read_tile(const hd_attn_sparse_args *a, const key_list *l, int32_t *j, workspace *s)
{
    int32_t n = 0;
    for (; *j < l->n_win + l->n_rows && n < TILE; ++*j) {
        s->key[n] = read_key(a, l, *j, s->decoded[n]);
        for (int32_t c = a->d; c < s->width && s->key[n] == s->decoded[n]; c++)
            s->decoded[n][c] = 0;
        n += s->key[n] != NULL;
    }
    if (n % 2) s->key[n] = s->key[n - 1];
    return n;
}

/* Logits of heads i .. i+3 and keys j, j+1. */
static inline void multiply_block(workspace *s, int32_t i, int32_t j, float scale)
{
    __m256 sum[8];
    float  out[8];
    for (int k = 0; k < 8; k++) sum[k] = _mm256_setzero_ps();
    for (int32_t c = 0; c < s->width; c += 8) {
        __m256 const a = _mm256_loadu_ps(s->key[j] + c), b = _mm256_loadu_ps(s->key[j + 1] + c);
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            __m256 const q = _mm256_load_ps(s->q[i + k] + c);
            sum[k] = _mm256_fmadd_ps(q, a, sum[k]);
            sum[4 + k] = _mm256_fmadd_ps(q, b, sum[4 + k]);
        }
    }
    _mm256_storeu_ps(out, _mm256_mul_ps(add_lanes_of_8(sum), _mm256_set1_ps(scale)));
    for (int k = 0; k < 4; k++) {
        s->z[i + k][j] = out[k];
        s->z[i + k][j + 1] = out[4 + k];
    }
}

/* Logits of head i become weights relative to the largest; older sums will shrink to match. */
static void weigh(workspace *s, int32_t i, int32_t n)
{
    float *const z = s->z[i];
    float const  before = s->largest[i];
    double       sum = 0;
    for (int32_t j = 0; j < n; j++)
        if (z[j] > s->largest[i]) s->largest[i] = z[j];
    __m256 const largest = _mm256_set1_ps(s->largest[i]);
    for (int32_t j = 0; j < n; j += 8)
        _mm256_store_ps(z + j, exp_of(_mm256_sub_ps(_mm256_load_ps(z + j), largest)));
    for (int32_t j = 0; j < n; j++) sum += z[j];
    s->shrink[i] = 1;
    if (s->largest[i] > before)
        s->shrink[i] = _mm256_cvtss_f32(exp_of(_mm256_set1_ps(before - s->largest[i])));
    s->sum[i] = s->sum[i] * s->shrink[i] + sum;
}

/* Adds the weighted keys of a tile to the sums of heads i .. i+3, columns c .. c+15. */
static inline void add_block(workspace *s, int32_t i, int32_t c, int32_t n)
{
    __m256 sum[4][2];
    for (int k = 0; k < 4; k++) sum[k][0] = sum[k][1] = _mm256_setzero_ps();
    for (int32_t j = 0; j < n; j++) {
        __m256 const a = _mm256_loadu_ps(s->key[j] + c), b = _mm256_loadu_ps(s->key[j] + c + 8);
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            __m256 const w = _mm256_broadcast_ss(&s->z[i + k][j]);
            sum[k][0] = _mm256_fmadd_ps(w, a, sum[k][0]);
            sum[k][1] = _mm256_fmadd_ps(w, b, sum[k][1]);
        }
    }
    for (int k = 0; k < 4; k++) {
        float *const to = s->acc[i + k] + c;
        __m256 const shrink = _mm256_set1_ps(s->shrink[i + k]);
        _mm256_store_ps(to, _mm256_fmadd_ps(_mm256_load_ps(to), shrink, sum[k][0]));
        _mm256_store_ps(to + 8, _mm256_fmadd_ps(_mm256_load_ps(to + 8), shrink, sum[k][1]));
    }
}

/* The last vector of a row that is an odd number of them. */
static void add_last(workspace *s, int32_t i, int32_t c, int32_t n)
{
    __m256 sum = _mm256_setzero_ps();
    for (int32_t j = 0; j < n; j++)
        sum =
            _mm256_fmadd_ps(_mm256_broadcast_ss(&s->z[i][j]), _mm256_loadu_ps(s->key[j] + c), sum);
    __m256 const old = _mm256_load_ps(s->acc[i] + c);
    _mm256_store_ps(s->acc[i] + c, _mm256_fmadd_ps(old, _mm256_set1_ps(s->shrink[i]), sum));
}

static void add_tile(const hd_attn_sparse_args *a, workspace *s, int32_t heads, int32_t n)
{
    for (int32_t i = 0; i < heads; i += 4)
        for (int32_t j = 0; j < n; j += 2) multiply_block(s, i, j, a->scale);
    for (int32_t i = 0; i < heads; i++) weigh(s, i, n);
    for (int32_t i = 0; i < heads; i += 4) {
        int32_t c = 0;
        for (; c + 16 <= s->width; c += 16) add_block(s, i, c, n);
        for (int32_t k = 0; k < 4 && c < s->width; k++) add_last(s, i + k, c, n);
    }
}

/* Turns the tails of the sums of n heads back by the position of token t. */
static void turn_back(const hd_attn_sparse_args *a, workspace *s, int32_t t, int32_t n)
{
    turn by;
    make_turn((float)a->pos[t], a->freq, a->dr, -1, &by);
    for (int32_t i = 0; i < n; i++) apply_turn(&by, s->acc[i] + (a->d - a->dr), a->dr);
}

/* Heads h .. h+n-1 of token t. */
static void attend(const hd_attn_sparse_args *a, int32_t t, int32_t h, int32_t n)
{
    int64_t const  at = ((int64_t)t * a->h + h) * a->d;
    key_list const l = list_keys(a, t);
    int32_t const  heads = (n + 3) / 4 * 4;
    workspace      s;
    s.width = (a->d + 7) / 8 * 8;
    memset(s.z, 0, sizeof s.z);
    for (int32_t i = 0; i < heads; i++) {
        for (int32_t c = 0; c < s.width; c += 8) {
            __m256 const zero = _mm256_setzero_ps();
            __m256 const q = i < n ? load_first(a->q + at + (int64_t)i * a->d + c, a->d - c) : zero;
            _mm256_store_ps(s.q[i] + c, q);
            _mm256_store_ps(s.acc[i] + c, zero);
        }
        s.largest[i] = i < n ? a->sink[h + i] : 0;
        s.sum[i] = 1;
    }
    for (int32_t j = 0, keys; (keys = read_tile(a, &l, &j, &s)) > 0;) add_tile(a, &s, heads, keys);
    if (a->dr > 0) turn_back(a, &s, t, n);
    for (int32_t i = 0; i < n; i++) {
        __m256 const share = _mm256_set1_ps((float)(1 / s.sum[i]));
        for (int32_t c = 0; c < a->d; c += 8)
            store_first(a->y + at + (int64_t)i * a->d + c, a->d - c,
                        _mm256_mul_ps(_mm256_load_ps(s.acc[i] + c), share));
    }
}

/* Heads [begin, end) of all tokens together. */
static void run_heads(const void *args, int64_t begin, int64_t end)
{
    const hd_attn_sparse_args *const a = args;
    for (int64_t at = begin, n; at < end; at += n) {
        int32_t const t = (int32_t)(at / a->h), h = (int32_t)(at % a->h);
        n = a->h - h < HEADS ? a->h - h : HEADS;
        if (n > end - at) n = end - at;
        attend(a, t, h, (int32_t)n);
    }
}

bool hd_attn_sparse_avx2_supports(const void *args)
{
    const hd_attn_sparse_args *const a = args;
    if (!hd_row_is_valid(&a->win_layout) || a->win_layout.d != a->d || a->d > HD_ROW_MAX)
        return false;
    return a->group <= 0 || (hd_row_is_valid(&a->row_layout) && a->row_layout.d == a->d);
}

hd_status hd_attn_sparse_avx2(const void *args, hd_stream *stream)
{
    const hd_attn_sparse_args *const a = args;
    int64_t const                    rows = a->group <= 0 ? 0 : a->k > 0 ? a->k : a->row_cap;
    hd_work const work = {(int64_t)a->t * a->h, 4, 2 * (a->window + rows) * a->d};
    hd_team_run(stream, &work, run_heads, a);
    return HD_OK;
}
