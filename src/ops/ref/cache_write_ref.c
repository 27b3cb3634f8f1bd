#include "ops/cache_write.h"

#include <string.h>

bool hd_cache_write_ref_supports(const void *args)
{
    (void)args;
    return true;
}

hd_status hd_cache_write_ref(const void *args, hd_stream *stream)
{
    const hd_cache_write_args *const a = args;
    (void)stream;
    for (int32_t t = 0; t < a->t; t++) {
        if ((a->pos[t] + 1) % a->group != 0) continue;
        int64_t const row = (int64_t)a->seq[t] * a->cap + a->pos[t] / a->group % a->cap;
        memcpy(a->pool + row * a->d, a->x + (int64_t)t * a->d, (size_t)a->d * sizeof(float));
    }
    return HD_OK;
}
