#ifndef HD_DOCTOR_SELFTEST_H
#define HD_DOCTOR_SELFTEST_H

#include "base/memory.h"

/* Proves on the machine at hand that a model computes what its references compute, and the same
 * every time.  Reads nothing but the model. */

HD_BEGIN_C

/* A context in which a self-test of this model crosses windows, groups, pages and, within 600
 * tokens, the indexer's choice. */
int32_t hd_selftest_tokens(const hd_engine *e);

typedef struct hd_selftest_options {
    bool is_json;
} hd_selftest_options;

/* Runs all checks and writes a table.
 *
 *   kernels       each that could take a step of this model, on the inputs of real passes:
 *                 against the reference, and the same bits again
 *   repeated      the same tokens twice give the same bits of logits
 *   prefill       at each edge of window, group, page, chunk and choice of rows: read at once and
 *                 token by token, the logits have the same bits
 *   pieces        so they do read in pieces of other sizes
 *   neighbour     and beside another sequence, and in a fork
 *   context       one token more than the context is refused
 *
 * On an accelerator whose kernels for many rows are others than those for few, passes are held
 * against passes of the same sizes only: no prefill, no pieces.
 *
 * e         opened with a context of 4 tokens or more, which are read, and two sessions, none open
 * n_failed  checks that failed; a check that is out of reach is said and counts as neither
 * returns   HD_ERR_INVALID for another engine, HD_ERR_MEMORY, what a pass returns              */
hd_status hd_selftest(hd_engine *e, const hd_selftest_options *opt, hd_buffer *out,
                      int32_t *n_failed, hd_error *err);

HD_END_C
#endif
