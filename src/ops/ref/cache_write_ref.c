#include "ops/cache_write.h"

bool hd_cache_write_ref_supports(const void *args)
{
    const hd_cache_write_args *const a = args;
    return hd_row_is_valid(&a->layout) && a->layout.d == a->d;
}

hd_status hd_cache_write_ref(const void *args, hd_stream *stream)
{
    const hd_cache_write_args *const a = args;
    (void)stream;
    for (int32_t t = 0; t < a->t; t++) {
        if ((a->pos[t] + 1) % a->group != 0) continue;
        int64_t const row = hd_row_of(&a->layout, a->seq[t], a->cap, a->pos[t] / a->group % a->cap);
        hd_row_write(&a->layout, a->pool, row, a->x + (int64_t)t * a->d);
    }
    return HD_OK;
}
