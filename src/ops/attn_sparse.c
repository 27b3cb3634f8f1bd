#include "ops/attn_sparse.h"

#include <math.h>

#include "ops/op_errors.h"

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
    if (a->dr > 0) out[n++] = HD_OPERAND(attn_sparse, freq, HD_IN, HD_F32, a->dr / 2);
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
    if (a->dr % 2 || a->dr > a->d) return "dr even, dr <= d";
    return NULL;
}

/* Key j of token i: of the window, then of the compressed rows; NULL: an unused place. */
static const float *read_key(const hd_attn_sparse_args *a, int64_t i, int32_t j, float *buffer)
{
    int32_t const p = a->pos[i], first = p + 1 > a->window ? p + 1 - a->window : 0;
    int32_t const n_win = p + 1 - first;
    if (j < n_win) {
        int32_t const at = (first + j) % a->win_cap;
        return hd_row_read(&a->win_layout, a->win,
                           hd_row_of(&a->win_layout, a->seq[i], a->win_cap, at), buffer);
    }
    int32_t const at = a->k > 0 ? a->ids[i * a->k + j - n_win] : j - n_win;
    if (at < 0) return NULL;
    return hd_row_read(&a->row_layout, a->rows,
                       hd_row_of(&a->row_layout, a->seq[i], a->row_cap, at), buffer);
}

static int32_t count_keys(const hd_attn_sparse_args *a, int64_t i)
{
    int32_t const p = a->pos[i], n_win = p + 1 > a->window ? a->window : p + 1;
    if (a->group == 0) return n_win;
    return n_win + (a->k > 0 ? a->k : (p + 1) / a->group);
}

/* A logit is off by the error of its dot product, a weight by twice that, and the output by
 * that share of the largest key element, and by the roundings of the two sums.  Turned back, the
 * errors of a pair may meet in one element, and so may its values, which a few roundings make. */
static void allow(const hd_op_runs *r, const hd_operand *o, int64_t row, double *allowed)
{
    const hd_attn_sparse_args *const a = r->in;
    int64_t const                    i = row / a->h;
    int32_t const                    n = count_keys(a, i);
    double                           largest = 0, logit = 0;
    for (int32_t j = 0; j < n; j++) {
        float              buffer[HD_ROW_MAX];
        const float *const k = read_key(a, i, j, buffer);
        double             dot = 0;
        for (int32_t c = 0; k && c < a->d; c++) {
            dot += fabs((double)k[c] * a->q[row * a->d + c]);
            largest = fmax(largest, fabs((double)k[c]));
        }
        logit = fmax(logit, dot * a->scale);
    }
    logit += fabs((double)a->sink[row % a->h]);
    double const share = 2 * hd_sum_error(a->d) * logit + hd_sum_error(n + 16);
    for (int64_t c = 0; c < hd_operand_cols(o); c++)
        allowed[c] =
            c < a->d - a->dr ? share * largest : M_SQRT2 * (share + 8 * HD_ROUNDOFF) * largest;
}

const hd_op hd_op_attn_sparse = {
    "attn_sparse", sizeof(hd_attn_sparse_args), describe, breaks, allow, NULL};
