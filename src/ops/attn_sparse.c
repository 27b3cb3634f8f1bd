#include "ops/attn_sparse.h"

static int32_t describe(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    const hd_attn_sparse_args *const a = args;
    int32_t                          n = 0;
    out[n++] = HD_OPERAND(attn_sparse, q, HD_IN, HD_F32, a->t, a->h, a->d);
    out[n++] =
        HD_OPERAND(attn_sparse, win, HD_IN, HD_U8, a->n_seq,
                   hd_row_pages(&a->win_layout, a->win_cap), hd_row_page_bytes(&a->win_layout));
    if (a->group > 0)
        out[n++] =
            HD_OPERAND(attn_sparse, rows, HD_IN, HD_U8, a->n_seq,
                       hd_row_pages(&a->row_layout, a->row_cap), hd_row_page_bytes(&a->row_layout));
    if (a->k > 0) out[n++] = HD_OPERAND(attn_sparse, ids, HD_IN, HD_I32, a->t, a->k);
    out[n++] = HD_OPERAND(attn_sparse, sink, HD_IN, HD_F32, a->h);
    out[n++] = HD_OPERAND(attn_sparse, pos, HD_IN, HD_I32, a->t);
    out[n++] = HD_OPERAND(attn_sparse, seq, HD_IN, HD_I32, a->t);
    out[n++] = HD_OPERAND(attn_sparse, y, HD_OUT, HD_F32, a->t, a->h, a->d);
    return n;
}

static const char *breaks(const void *args)
{
    const hd_attn_sparse_args *const a = args;
    if (a->n_seq < 1 || a->window < 1 || a->win_cap < a->window) return "win_cap >= window";
    if (!hd_row_is_valid(&a->win_layout) || a->win_layout.d != a->d || a->d > HD_ROW_MAX)
        return "win_layout valid and d wide, d <= 1024";
    if (a->group > 0 && (!hd_row_is_valid(&a->row_layout) || a->row_layout.d != a->d))
        return "row_layout valid and d wide";
    return NULL;
}

const hd_op hd_op_attn_sparse = {"attn_sparse", sizeof(hd_attn_sparse_args), describe, breaks};
