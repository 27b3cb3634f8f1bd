#ifndef HD_MODEL_PLAN_ORDER_H
#define HD_MODEL_PLAN_ORDER_H

#include "model/plan.h"

/* Which steps of a plan must wait for which: what a list of steps says only by its order.
 *
 * A step waits for those that wrote what it reads or writes, and for those that read what it
 * writes; memory that is used again for something else counts, because operands are compared as
 * the bytes that they are.  Waits that follow from others are left out.  Read from the
 * descriptions of the ops, which name all that a kernel touches. */

HD_BEGIN_C

typedef struct hd_plan_order {
    int32_t  n;
    int32_t *first;  /* [n + 1] owned: step i waits for the steps after[first[i] .. first[i + 1]) */
    int32_t *after;  /* owned */
    bool    *is_end; /* [n] owned: no step waits for it */
} hd_plan_order;

/* returns  HD_ERR_MEMORY
 * owns     *out is freed by hd_plan_order_free, also after a failure */
hd_status hd_plan_order_make(hd_plan_order *out, const hd_plan *p, hd_error *err);
void      hd_plan_order_free(hd_plan_order *o);

/* Records a bound plan as one graph of an accelerator, in which steps wait for no more than they
 * must, so that what does not depend on each other runs side by side.  Kernels run once before:
 * what is loaded on first use must not be part of the record.
 * returns  what a kernel or the device returns
 * owns     *out is the caller's */
hd_status hd_plan_record(const hd_plan *p, hd_device *d, hd_graph **out, hd_error *err);

HD_END_C
#endif
