#ifndef HD_DOCTOR_TRACE_H
#define HD_DOCTOR_TRACE_H

#include "base/status.h"

/* Runs tokens once and writes every step's outputs to a file that numpy and torch open. */

HD_BEGIN_C

typedef struct hd_trace_result {
    int32_t n_steps, n_tensors; /* run; written                              */
    int32_t greedy;             /* most likely next token, -1 when logits are not finite */
    int64_t bytes;              /* of the file's tensors                     */
} hd_trace_result;

typedef struct hd_trace_options {
    const char *path;  /* written whole or not at all */
    const char *steps; /* a glob of step names and of `logits`, `streams`; NULL: all */
} hd_trace_options;

/* Traces n tokens in one pass from an empty sequence, and the MTP block behind it where the
 * engine has it bound (its input for the last token is the greedy next one).
 *
 * The file holds f32 tensors `logits` [t, vocab], `streams` [layer, t, m, d] after each layer,
 * `mtp.<label>.<operand>` or `<label>.<operand>` in the order of the plan; ids and counts are I32.
 * Its metadata has the `ids`, the options in force (`model`, `act`, `kv`) and the kernel of each
 * step (`kernel.<label>`).
 *
 * e        opened with a chunk and a context of at least n tokens; no open session
 * returns  HD_ERR_INVALID for ids outside the vocabulary, too many, or a glob that fits nothing;
 *          HD_ERR_IO, HD_ERR_MEMORY                                                          */
hd_status hd_trace(hd_engine *e, const int32_t *ids, int32_t n, const hd_trace_options *opt,
                   hd_trace_result *out, hd_error *err);

HD_END_C
#endif
