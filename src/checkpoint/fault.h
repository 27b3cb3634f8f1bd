#ifndef HD_CHECKPOINT_FAULT_H
#define HD_CHECKPOINT_FAULT_H

#include "base/status.h"

/* A loader stops at the first thing that is wrong with a checkpoint; a survey walks the same
 * code, is told of every fault, and goes on without what was bad. */

HD_BEGIN_C

typedef enum hd_fault_kind {
    HD_FAULT_CONFIG,    /* config.json cannot be read                               */
    HD_FAULT_INDEX,     /* the index cannot be read, or names what is not there     */
    HD_FAULT_SHARD,     /* a file cannot be read                                    */
    HD_FAULT_NAME,      /* a name no loader can take                                */
    HD_FAULT_DUPLICATE, /* one tensor in two places                                 */
    HD_FAULT_MISSING,   /* a tensor that the model needs                            */
    HD_FAULT_SHAPE,     /* its dtype or shape is not what the model needs           */
    HD_FAULT_SIBLINGS,  /* tensors of one matrix that make no format                */
    HD_FAULT_EXTRA      /* a tensor that the model has no use for                   */
} hd_fault_kind;
#define HD_N_FAULT_KINDS 9

typedef struct hd_fault {
    hd_fault_kind kind;
    const char   *tensor;  /* as the file calls it, or officially when it is missing; or NULL */
    const char   *file;    /* in the folder, or NULL                                         */
    const char   *message; /* what a loader would have said                                  */
} hd_fault;

/* The strings are borrowed until it returns. */
typedef void hd_fault_fn(void *user, const hd_fault *f);

HD_END_C
#endif
