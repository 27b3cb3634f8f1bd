#ifndef HD_DOCTOR_OPERAND_MIRROR_H
#define HD_DOCTOR_OPERAND_MIRROR_H

#include "model/plan.h"

/* Inputs of a step that runs on an accelerator, copied to where the host can read them.  Of a list
 * of matrices only those come over that the step's `ids` name. */

HD_BEGIN_C

/* What hd_mirror_inputs takes of its room at most. */
size_t hd_mirror_bytes(const hd_step *step, const bool is_left[HD_MAX_OPERANDS]);
/* Copies all operands but those that are left out, and points `args` to the copies.
 * args     a copy of the step's, whose pointers are the host's for operands left out that are ids
 * room     memory of the host
 * returns  HD_ERR_DEVICE; HD_ERR_NUMERIC for an id that names no member of a list */
hd_status hd_mirror_inputs(hd_device *d, const hd_step *step, const bool is_left[HD_MAX_OPERANDS],
                           hd_arena *room, void *args, hd_error *err);

/* Sets the pointer that args hold for an operand. */
void hd_operand_point(void *args, const hd_operand *o, const void *to);

HD_END_C
#endif
