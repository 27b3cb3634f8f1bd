#include "ops/index_score.h"

#include <math.h>

#include "ops/op_errors.h"

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

static double score_magnitude(const hd_index_score_args *a, int64_t t, int32_t r)
{
    float              buffer[HD_ROW_MAX];
    int64_t const      row = hd_row_of(&a->layout, a->seq[t], a->cap, r);
    const float *const key = hd_row_read(&a->layout, a->keys, row, buffer);
    double             sum = 0;
    for (int32_t h = 0; h < a->h; h++) {
        const float *const q = a->q + (t * a->h + h) * a->d;
        double             dot = 0;
        for (int32_t c = 0; c < a->d; c++) dot += fabs((double)q[c] * key[c]);
        sum += fabs((double)a->wgt[t * a->h + h] * a->scale) * dot;
    }
    return sum;
}

static void allow(const hd_op_runs *r, const hd_operand *o, int64_t row, double *allowed)
{
    const hd_index_score_args *const a = r->in;
    int32_t const                    visible = (a->pos[row] + 1) / a->group;
    (void)o;
    for (int32_t i = 0; i < a->cap; i++)
        allowed[i] = i < visible ? hd_sum_error(a->d + 8 * a->h) * score_magnitude(a, row, i) : 0;
}

const hd_op hd_op_index_score = {
    "index_score", sizeof(hd_index_score_args), describe, breaks, allow, NULL};
