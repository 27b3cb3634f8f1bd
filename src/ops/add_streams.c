#include "ops/add_streams.h"

static int32_t describe(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    const hd_add_streams_args *const a = args;
    int32_t                          n = 0;
    out[n++] = HD_OPERAND(add_streams, x, HD_IN, HD_F32, a->t, a->d);
    out[n++] = HD_OPERAND(add_streams, s, HD_INOUT, HD_F32, a->t, a->m, a->d);
    return n;
}

const hd_op hd_op_add_streams = {"add_streams", sizeof(hd_add_streams_args), describe, NULL, NULL,
                                 NULL};
