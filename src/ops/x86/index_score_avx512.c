#include "ops/index_score.h"

#include <immintrin.h>
#include <stdalign.h>

#include "base/team.h"
#include "ops/x86/read_row_avx2.h"

/* Heads stand in lanes, so that no sum is ever taken across them but that of a row's score; a
 * token's queries are turned once for all rows of a part.  Four keys share what is read of the
 * queries. */
#define LANES   16
#define VECTORS 4 /* of heads at a time; with four keys, sums and queries take 20 registers */
#define HEADS   (LANES * VECTORS)
#define KEYS    4
#define MAX_D   256

typedef struct queries {
    alignas(64) float q[MAX_D][HEADS];
    alignas(64) float weight[HEADS];
    __mmask16 is_head[VECTORS];
    int32_t   d, n_vectors;
} queries;

typedef struct key_rows {
    alignas(64) float buffer[KEYS][MAX_D];
    const float *key[KEYS];
} key_rows;

/* Heads [h, h + HEADS) of token t, as many as there are; the others have zeros. */
static void turn_queries(const hd_index_score_args *a, int32_t t, int32_t h, queries *s)
{
    int32_t const      n = a->h - h < HEADS ? a->h - h : HEADS;
    int64_t const      first = (int64_t)t * a->h + h;
    const float *const q = a->q + first * a->d;
    s->d = a->d;
    s->n_vectors = (n + LANES - 1) / LANES;
    for (int32_t c = 0; c < a->d; c++)
        for (int32_t i = 0; i < s->n_vectors * LANES; i++)
            s->q[c][i] = i < n ? q[(int64_t)i * a->d + c] : 0;
    for (int32_t i = 0; i < HEADS; i++) s->weight[i] = i < n ? a->wgt[first + i] : 0;
    for (int32_t v = 0; v < VECTORS; v++) {
        int32_t const left = n - v * LANES;
        s->is_head[v] = (__mmask16)(left >= LANES ? 0xffff : left > 0 ? (1 << left) - 1 : 0);
    }
}

/* What is not above 0 does not count, whatever its weight; NaN does. */
static inline float weigh(const queries *s, const __m512 *dot, const int n_vectors)
{
    __m512 score = _mm512_setzero_ps();
#pragma GCC unroll 4
    for (int v = 0; v < n_vectors; v++) {
        __mmask16 const counts =
            _mm512_mask_cmp_ps_mask(s->is_head[v], dot[v], _mm512_setzero_ps(), _CMP_NLE_UQ);
        __m512 const weight = _mm512_load_ps(s->weight + v * LANES);
        score = _mm512_add_ps(score, _mm512_maskz_mul_ps(counts, dot[v], weight));
    }
    return _mm512_reduce_add_ps(score);
}

static inline __attribute__((always_inline)) void
multiply(const queries *s, const float *const key[KEYS], float score[KEYS], const int n_vectors)
{
    __m512 sum[KEYS][VECTORS];
#pragma GCC unroll 4
    for (int k = 0; k < KEYS; k++)
#pragma GCC unroll 4
        for (int v = 0; v < n_vectors; v++) sum[k][v] = _mm512_setzero_ps();
    for (int32_t c = 0; c < s->d; c++) {
        __m512 q[VECTORS];
#pragma GCC unroll 4
        for (int v = 0; v < n_vectors; v++) q[v] = _mm512_load_ps(s->q[c] + v * LANES);
#pragma GCC unroll 4
        for (int k = 0; k < KEYS; k++) {
            __m512 const x = _mm512_set1_ps(key[k][c]);
#pragma GCC unroll 4
            for (int v = 0; v < n_vectors; v++) sum[k][v] = _mm512_fmadd_ps(q[v], x, sum[k][v]);
        }
    }
#pragma GCC unroll 4
    for (int k = 0; k < KEYS; k++) score[k] = weigh(s, sum[k], n_vectors);
}

static void multiply_keys(const queries *s, const float *const key[KEYS], float score[KEYS])
{
    switch (s->n_vectors) {
    case 1: multiply(s, key, score, 1); break;
    case 2: multiply(s, key, score, 2); break;
    case 3: multiply(s, key, score, 3); break;
    default: multiply(s, key, score, 4); break;
    }
}

/* Adds to the scores of rows [begin, end) of token t what some of its heads give. */
static void add_scores(const hd_index_score_args *a, const queries *s, int32_t t, int32_t begin,
                       int32_t end)
{
    float *const out = a->score + (int64_t)t * a->cap;
    for (int32_t r = begin; r < end; r += KEYS) {
        key_rows  x;
        float     score[KEYS];
        int const n = end - r < KEYS ? end - r : KEYS;
        for (int k = 0; k < KEYS; k++) {
            int64_t const row = hd_row_of(&a->layout, a->seq[t], a->cap, r + (k < n ? k : n - 1));
            x.key[k] = read_row(&a->layout, a->keys, row, x.buffer[k]);
        }
        multiply_keys(s, x.key, score);
        for (int k = 0; k < n; k++) out[r + k] += score[k] * a->scale;
    }
}

/* Rows [begin, end) of the scores of all tokens together. */
static void run_rows(const void *args, int64_t begin, int64_t end)
{
    const hd_index_score_args *const a = args;
    for (int64_t at = begin, next; at < end; at = next) {
        int32_t const t = (int32_t)(at / a->cap), first = (int32_t)(at % a->cap);
        int32_t const seen = (a->pos[t] + 1) / a->group;
        queries       s;
        next = at - first + a->cap < end ? at - first + a->cap : end;
        int32_t const behind = first + (int32_t)(next - at), last = seen < behind ? seen : behind;
        memset(a->score + at, 0, (size_t)(next - at) * sizeof *a->score);
        for (int32_t h = 0; first < last && h < a->h; h += HEADS) {
            turn_queries(a, t, h, &s);
            add_scores(a, &s, t, first, last);
        }
    }
}

bool hd_index_score_avx512_supports(const void *args)
{
    const hd_index_score_args *const a = args;
    return hd_row_is_valid(&a->layout) && a->layout.d == a->d && a->d <= MAX_D;
}

hd_status hd_index_score_avx512(const void *args, hd_stream *stream)
{
    const hd_index_score_args *const a = args;
    hd_work const                    work = {(int64_t)a->t * a->cap, 16, (int64_t)a->h * a->d};
    hd_team_run(stream, &work, run_rows, a);
    return HD_OK;
}
