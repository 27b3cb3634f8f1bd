#include "ops/embed.h"

static int32_t describe(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    const hd_embed_args *const a = args;
    int32_t                    n = 0;
    out[n++] = HD_OPERAND(embed, table, HD_IN, a->is_f32 ? HD_F32 : HD_BF16, a->vocab, a->d);
    out[n++] = HD_OPERAND(embed, id, HD_IN, HD_I32, a->t);
    out[n++] = HD_OPERAND(embed, y, HD_OUT, HD_F32, a->t, a->m, a->d);
    return n;
}

const hd_op hd_op_embed = {"embed", sizeof(hd_embed_args), describe, NULL, NULL, NULL};
