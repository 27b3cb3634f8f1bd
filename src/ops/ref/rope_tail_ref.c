#include "ops/rope_tail.h"

#include <math.h>

static void rotate(float pair[2], double angle)
{
    double const c = cos(angle), s = sin(angle), even = pair[0], odd = pair[1];
    pair[0] = (float)(even * c - odd * s);
    pair[1] = (float)(even * s + odd * c);
}

bool hd_rope_tail_ref_supports(const void *args)
{
    (void)args;
    return true;
}

hd_status hd_rope_tail_ref(const void *args, hd_stream *stream)
{
    const hd_rope_tail_args *const a = args;
    (void)stream;
    for (int32_t t = 0; t < a->t; t++) {
        float const position = (float)(a->pos[t] - a->pos[t] % a->group);
        for (int32_t h = 0; h < a->h; h++) {
            float *const tail = a->x + ((int64_t)t * a->h + h) * a->d + (a->d - a->dr);
            for (int32_t i = 0; i < a->dr / 2; i++)
                rotate(tail + 2 * i, (double)(position * a->freq[i]) * a->sign);
        }
    }
    return HD_OK;
}
