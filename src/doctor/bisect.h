#ifndef HD_DOCTOR_BISECT_H
#define HD_DOCTOR_BISECT_H

#include "base/memory.h"

/* Two settings of one model whose logits are not the same: which of their differences, or which
 * of them together, make it so.  A difference is the mode of activations, the format of cache
 * rows, or one op that other kernels run. */

HD_BEGIN_C

struct hd_kernel;

typedef struct hd_bisect_options {
    hd_options              good, bad; /* act, kv and isa count; all else is good's */
    const int32_t          *ids;       /* [n] one pass of them is a trial */
    int32_t                 n;
    double                  tolerance; /* relative error of a row of logits that counts as none */
    const struct hd_kernel *kernels;   /* [n_kernels] as hd_kernels; NULL: those */
    int32_t                 n_kernels;
} hd_bisect_options;

typedef struct hd_bisect hd_bisect;

/* Halves the differences until none can be left out, then goes on with the rest, while that differs
 * too.  One engine is open at a time.
 * owns     *out is the caller's: hd_bisect_close (NULL is fine)
 * returns  HD_ERR_INVALID when the settings are the same or their kernels run in different places;
 *          HD_ERR_NUMERIC when the good logits are not finite, or not the same twice; what opening
 *          and a pass return */
hd_status hd_bisect_run(hd_bisect **out, const hd_bisect_options *opt, hd_error *err);
void      hd_bisect_close(hd_bisect *b);
bool      hd_bisect_differs(const hd_bisect *b);

void hd_bisect_print(const hd_bisect *b, hd_buffer *out);
void hd_bisect_print_json(const hd_bisect *b, hd_buffer *out);

HD_END_C
#endif
