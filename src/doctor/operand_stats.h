#ifndef HD_DOCTOR_OPERAND_STATS_H
#define HD_DOCTOR_OPERAND_STATS_H

#include "model/plan.h"

HD_BEGIN_C

/* The values of one operand at a glance. */
typedef struct hd_operand_stats {
    int64_t count;
    int64_t bad, first_bad; /* NaN or infinite values and the index of the first  */
    double  min, max, rms;  /* of the others; 0 when there are none               */
    int64_t sum;            /* of whole numbers                                   */
} hd_operand_stats;

/* Whether values of this dtype say something: bytes are codes that only their op reads. */
bool hd_operand_has_values(const hd_operand *o);
/* data [count of o], in the host's memory */
hd_operand_stats hd_operand_stats_take(const hd_operand *o, const void *data);
/* "[3, 128]"; at most cap bytes with the NUL.  Returns out. */
char *hd_operand_print_shape(const hd_operand *o, char *out, size_t cap);

HD_END_C
#endif
