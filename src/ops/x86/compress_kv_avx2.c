#include "ops/compress_kv.h"

#include <math.h>

#include "base/team.h"
#include "ops/x86/vectors_avx2.h"

/* The slots of one group: tokens first .. last, those before `own` through the first channels. */
typedef struct slots {
    const float *kv, *gate; /* the sequence's rings */
    int32_t      first, own, last;
    int64_t      width;
} slots;

/* Where channel c of position q is in a row. */
static inline int64_t channel_at(const hd_compress_kv_args *a, const slots *s, int32_t q, int32_t c)
{
    return (a->overlap && q >= s->own ? a->d : 0) + c;
}

static inline __m256 score(const hd_compress_kv_args *a, const slots *s, int32_t q, int32_t c)
{
    int64_t const at = channel_at(a, s, q, c);
    return _mm256_add_ps(load_first(s->gate + q % a->cap * s->width + at, a->d - c),
                         load_first(a->ape + q % a->r * s->width + at, a->d - c));
}

/* Eight channels, or those that are left. */
static inline void pool_channels(const hd_compress_kv_args *a, const slots *s, int32_t c, float *y)
{
    __m256 largest = _mm256_set1_ps(-INFINITY), sum = _mm256_setzero_ps(), pooled = sum;
    for (int32_t q = s->first; q <= s->last; q++)
        largest = _mm256_max_ps(score(a, s, q, c), largest); /* NaN does not count here */
    for (int32_t q = s->first; q <= s->last; q++) {
        __m256 const       e = exp_of(_mm256_sub_ps(score(a, s, q, c), largest));
        const float *const kv = s->kv + q % a->cap * s->width + channel_at(a, s, q, c);
        sum = _mm256_add_ps(sum, e);
        pooled = _mm256_fmadd_ps(e, load_first(kv, a->d - c), pooled);
    }
    store_first(y + c, a->d - c, _mm256_div_ps(pooled, sum));
}

/* Rows into both rings. */
static void store_tokens(const void *args, int64_t begin, int64_t end)
{
    const hd_compress_kv_args *const a = args;
    int64_t const                    w = a->overlap ? 2 * (int64_t)a->d : a->d;
    for (int64_t t = begin; t < end; t++) {
        int64_t const at = ((int64_t)a->seq[t] * a->cap + a->pos[t] % a->cap) * w;
        memcpy(a->kv + at, a->x_kv + t * w, (size_t)w * sizeof *a->kv);
        memcpy(a->gate + at, a->x_gate + t * w, (size_t)w * sizeof *a->gate);
    }
}

static void run_tokens(const void *args, int64_t begin, int64_t end)
{
    const hd_compress_kv_args *const a = args;
    for (int64_t t = begin; t < end; t++) {
        float *const  y = a->y + t * a->d;
        int32_t const p = a->pos[t];
        if ((p + 1) % a->r != 0) {
            memset(y, 0, (size_t)a->d * sizeof *y);
            continue;
        }
        slots s = {.own = p - a->r + 1, .last = p, .width = a->overlap ? 2 * (int64_t)a->d : a->d};
        s.first = a->overlap && s.own >= a->r ? s.own - a->r : s.own;
        s.kv = a->kv + (int64_t)a->seq[t] * a->cap * s.width;
        s.gate = a->gate + (int64_t)a->seq[t] * a->cap * s.width;
        for (int32_t c = 0; c < a->d; c += 8) pool_channels(a, &s, c, y);
    }
}

bool hd_compress_kv_avx2_supports(const void *args)
{
    (void)args;
    return true;
}

hd_status hd_compress_kv_avx2(const void *args, hd_stream *stream)
{
    const hd_compress_kv_args *const a = args;
    /* One token in r has r slots to pool. */
    hd_work const work = {a->t, 1, (int64_t)a->d * 8};
    hd_team_run(stream, &work, store_tokens, a);
    hd_team_run(stream, &work, run_tokens, a);
    return HD_OK;
}
