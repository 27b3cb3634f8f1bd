#include "ops/index_score.h"

static int32_t describe(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    const hd_index_score_args *const a = args;
    int32_t                          n = 0;
    out[n++] = HD_OPERAND(index_score, q, HD_IN, HD_F32, a->t, a->h, a->d);
    out[n++] = HD_OPERAND(index_score, wgt, HD_IN, HD_F32, a->t, a->h);
    out[n++] = HD_OPERAND(index_score, keys, HD_IN, HD_U8, a->n_seq,
                          hd_row_pages(&a->layout, a->cap), hd_row_page_bytes(&a->layout));
    out[n++] = HD_OPERAND(index_score, pos, HD_IN, HD_I32, a->t);
    out[n++] = HD_OPERAND(index_score, seq, HD_IN, HD_I32, a->t);
    out[n++] = HD_OPERAND(index_score, score, HD_OUT, HD_F32, a->t, a->cap);
    return n;
}

static const char *breaks(const void *args)
{
    const hd_index_score_args *const a = args;
    if (!hd_row_is_valid(&a->layout) || a->layout.d != a->d) return "layout valid and d wide";
    if (a->group < 1 || a->n_seq < 1) return "group, n_seq >= 1";
    return NULL;
}

const hd_op hd_op_index_score = {"index_score", sizeof(hd_index_score_args), describe, breaks};
