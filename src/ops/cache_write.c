#include "ops/cache_write.h"

static int32_t describe(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    const hd_cache_write_args *const a = args;
    int32_t                          n = 0;
    out[n++] = HD_OPERAND(cache_write, x, HD_IN, HD_F32, a->t, a->d);
    out[n++] = HD_OPERAND(cache_write, pos, HD_IN, HD_I32, a->t);
    out[n++] = HD_OPERAND(cache_write, seq, HD_IN, HD_I32, a->t);
    out[n++] = HD_OPERAND(cache_write, pool, HD_INOUT, HD_U8, a->n_seq,
                          hd_row_pages(&a->layout, a->cap), hd_row_page_bytes(&a->layout));
    return n;
}

static const char *breaks(const void *args)
{
    const hd_cache_write_args *const a = args;
    if (!hd_row_is_valid(&a->layout) || a->layout.d != a->d) return "layout valid and d wide";
    if (a->group < 1 || a->cap < 1 || a->n_seq < 1) return "group, cap, n_seq >= 1";
    return NULL;
}

const hd_op hd_op_cache_write = {"cache_write", sizeof(hd_cache_write_args), describe, breaks, NULL,
                                 NULL};
