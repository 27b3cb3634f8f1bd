#include "ops/compress_kv.h"

#include <math.h>
#include <string.h>

/* Index of a slot's channel in the rings: position q of sequence seq, channel c of width w. */
static int64_t ring_at(const hd_compress_kv_args *a, int32_t seq, int32_t q, int64_t c)
{
    int64_t const w = a->overlap ? 2 * (int64_t)a->d : a->d;
    return ((int64_t)seq * a->cap + q % a->cap) * w + c;
}

/* Every token's row into both rings. */
static void store(const hd_compress_kv_args *a)
{
    int64_t const w = a->overlap ? 2 * (int64_t)a->d : a->d;
    for (int32_t t = 0; t < a->t; t++) {
        int64_t const at = ring_at(a, a->seq[t], a->pos[t], 0);
        memcpy(a->kv + at, a->x_kv + t * w, (size_t)w * sizeof *a->kv);
        memcpy(a->gate + at, a->x_gate + t * w, (size_t)w * sizeof *a->gate);
    }
}

static double slot_score(const hd_compress_kv_args *a, int32_t seq, int32_t q, int64_t c)
{
    int64_t const w = a->overlap ? 2 * (int64_t)a->d : a->d;
    return (double)a->gate[ring_at(a, seq, q, c)] + a->ape[q % a->r * w + c];
}

/* Softmax pooling of channel c over the group that ends at position p: the previous group's
 * tokens through the first half of the channels, the group's own through the second. */
static double pool_channel(const hd_compress_kv_args *a, int32_t seq, int32_t p, int32_t c)
{
    int32_t const group = p - a->r + 1;
    int32_t const first = a->overlap && group >= a->r ? group - a->r : group;
    double        largest = -INFINITY, sum = 0, pooled = 0;
    for (int32_t q = first; q <= p; q++) {
        int64_t const channel = a->overlap && q >= group ? (int64_t)a->d + c : c;
        double const  z = slot_score(a, seq, q, channel);
        if (z > largest) largest = z;
    }
    for (int32_t q = first; q <= p; q++) {
        int64_t const channel = a->overlap && q >= group ? (int64_t)a->d + c : c;
        double const  e = exp(slot_score(a, seq, q, channel) - largest);
        sum += e;
        pooled += e * a->kv[ring_at(a, seq, q, channel)];
    }
    return pooled / sum;
}

bool hd_compress_kv_ref_supports(const void *args)
{
    (void)args;
    return true;
}

hd_status hd_compress_kv_ref(const void *args, hd_stream *stream)
{
    const hd_compress_kv_args *const a = args;
    (void)stream;
    store(a);
    for (int32_t t = 0; t < a->t; t++)
        for (int32_t c = 0; c < a->d; c++)
            a->y[(int64_t)t * a->d + c] = (a->pos[t] + 1) % a->r == 0
                                              ? (float)pool_channel(a, a->seq[t], a->pos[t], c)
                                              : 0.0f;
    return HD_OK;
}
