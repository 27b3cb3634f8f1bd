#include "ops/compress_kv.h"

#include <math.h>

#include "ops/op_errors.h"

static int32_t describe(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    const hd_compress_kv_args *const a = args;
    int32_t                          n = 0;
    int64_t const                    w = a->overlap ? 2 * (int64_t)a->d : a->d;
    int64_t const                    row_bytes = w * (int64_t)sizeof(float);
    out[n++] = HD_OPERAND(compress_kv, x_kv, HD_IN, HD_F32, a->t, w);
    out[n++] = HD_OPERAND(compress_kv, x_gate, HD_IN, HD_F32, a->t, w);
    out[n++] = HD_OPERAND(compress_kv, ape, HD_IN, HD_F32, a->r, w);
    out[n++] = HD_OPERAND(compress_kv, pos, HD_IN, HD_I32, a->t);
    out[n++] = HD_OPERAND(compress_kv, seq, HD_IN, HD_I32, a->t);
    out[n++] = HD_OPERAND(compress_kv, kv, HD_INOUT, HD_U8, a->n_seq, a->cap, row_bytes);
    out[n++] = HD_OPERAND(compress_kv, gate, HD_INOUT, HD_U8, a->n_seq, a->cap, row_bytes);
    out[n++] = HD_OPERAND(compress_kv, y, HD_OUT, HD_F32, a->t, a->d);
    return n;
}

static const char *breaks(const void *args)
{
    const hd_compress_kv_args *const a = args;
    if (a->r < 1 || a->n_seq < 1) return "r, n_seq >= 1";
    if (a->cap < (a->overlap ? 2 * (int64_t)a->r : a->r)) return "cap >= r, 2r with overlap";
    return NULL;
}

static int32_t first_slot(const hd_compress_kv_args *a, int32_t p)
{
    int32_t const first = p + 1 - (a->overlap ? 2 * a->r : a->r);
    return first > 0 ? first : 0;
}

/* Largest |v| that channel c of token i may draw from. */
static double largest_slot(const hd_compress_kv_args *a, const float *v, int64_t i, int32_t c)
{
    int64_t const w = a->overlap ? 2 * (int64_t)a->d : a->d;
    double        largest = 0;
    for (int32_t q = first_slot(a, a->pos[i]); q <= a->pos[i]; q++) {
        bool const         is_own = q > a->pos[i] - a->r;
        const float *const row = v + ((int64_t)a->seq[i] * a->cap + q % a->cap) * w;
        largest = fmax(largest, fabs((double)row[a->overlap && is_own ? a->d + c : c]));
    }
    return largest;
}

/* Largest |ape| of channel c. */
static double largest_ape(const hd_compress_kv_args *a, int32_t c)
{
    int64_t const w = a->overlap ? 2 * (int64_t)a->d : a->d;
    double        largest = 0;
    for (int32_t j = 0; j < a->r; j++) {
        const float *const row = a->ape + j * w;
        largest = fmax(largest, fabs((double)row[c]));
        if (a->overlap) largest = fmax(largest, fabs((double)row[a->d + c]));
    }
    return largest;
}

/* The logit is rounded once, exp adds a few roundings, and so do the sums over r or 2r slots.  The
 * slots are in the rings when the reference is done. */
static void allow(const hd_op_runs *r, const hd_operand *o, int64_t row, double *allowed)
{
    const hd_compress_kv_args *const a = r->ref;
    bool const                       ends_group = (a->pos[row] + 1) % a->r == 0;
    (void)o;
    for (int32_t c = 0; c < a->d; c++) {
        allowed[c] = 0; /* rows of other tokens are 0 */
        if (!ends_group) continue;
        double const z = largest_slot(a, a->gate, row, c) + largest_ape(a, c);
        allowed[c] = (2 * z + a->r + 32) * HD_ROUNDOFF * largest_slot(a, a->kv, row, c);
    }
}

const hd_op hd_op_compress_kv = {
    "compress_kv", sizeof(hd_compress_kv_args), describe, breaks, allow, NULL};
