#ifndef HD_DOCTOR_PASS_WALK_H
#define HD_DOCTOR_PASS_WALK_H

#include "engine/engine.h"

/* Runs tokens once and shows every step to whoever looks: what traces and comparisons share. */

HD_BEGIN_C

/* What looks; each function may be NULL, and a failure of one ends the walk with its status. */
typedef struct hd_pass_walk {
    const int32_t *ids; /* [n] */
    int32_t        n;
    hd_step_fn    *on_step;
    /* After the main pass and after the MTP block; logits [n, n_vocab] are the host's. */
    hd_status (*on_logits)(void *user, bool is_mtp, const float *logits, hd_error *err);
    void *user;
} hd_pass_walk;

/* HD_ERR_INVALID for ids outside the vocabulary, none, or more than the engine takes in a pass. */
hd_status hd_pass_walk_check(const hd_engine *e, const int32_t *ids, int32_t n, hd_error *err);
/* Runs n checked tokens in one pass from an empty sequence, and the MTP block behind it where the
 * engine has it bound: its input for the last token is the greedy next one.  Holds the engine's
 * lock; no session may be open.
 * greedy   most likely next token, -1 when its logits are not finite                       */
hd_status hd_pass_walk_run(hd_engine *e, const hd_pass_walk *w, int32_t *greedy, hd_error *err);
/* The plan of one of the two passes, as hd_engine_plan. */
hd_status hd_pass_walk_plan(hd_engine *e, const hd_pass_walk *w, bool is_mtp, const hd_plan **out,
                            hd_error *err);

/* ---- what a step left ---- */

/* Where the host can read an operand (not a list): its own memory, or `room`, into which it is
 * copied from an accelerator; room [hd_operand_bytes] may be NULL where there is none. */
hd_status hd_operand_fetch(hd_engine *e, const hd_step *step, const hd_operand *o, void *room,
                           const void **out, hd_error *err);
size_t    hd_operand_bytes(const hd_operand *o);
/* Bytes of the largest operand that a plan's steps write. */
size_t hd_plan_largest_output(const hd_plan *p);

HD_END_C
#endif
