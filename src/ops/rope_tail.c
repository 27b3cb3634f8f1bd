#include "ops/rope_tail.h"

#include <math.h>

#include "ops/op_errors.h"

static int32_t describe(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    const hd_rope_tail_args *const a = args;
    int32_t                        n = 0;
    out[n++] = HD_OPERAND(rope_tail, x, HD_INOUT, HD_F32, a->t, a->h, a->d);
    out[n++] = HD_OPERAND(rope_tail, freq, HD_IN, HD_F32, a->dr / 2);
    out[n++] = HD_OPERAND(rope_tail, pos, HD_IN, HD_I32, a->t);
    return n;
}

static const char *breaks(const void *args)
{
    const hd_rope_tail_args *const a = args;
    if (a->dr % 2 || a->dr > a->d) return "dr even, dr <= d";
    if (a->group < 1) return "group >= 1";
    return NULL;
}

/* A rotation keeps the length of a pair; elements before the tail stay as they are. */
static void allow(const hd_op_runs *r, const hd_operand *o, int64_t row, double *allowed)
{
    const hd_rope_tail_args *const a = r->ref;
    const float *const             x = a->x + row * a->d;
    int32_t const                  first = a->d - a->dr;
    (void)o;
    for (int32_t i = 0; i < first; i++) allowed[i] = 0;
    for (int32_t i = first; i < a->d; i += 2)
        allowed[i] = allowed[i + 1] = 8 * HD_ROUNDOFF * hypot((double)x[i], (double)x[i + 1]);
}

const hd_op hd_op_rope_tail = {"rope_tail", sizeof(hd_rope_tail_args), describe, breaks, allow,
                               NULL};
