#ifndef HD_GRAMMAR_STATE_SETS_H
#define HD_GRAMMAR_STATE_SETS_H

#include "base/memory.h"

HD_BEGIN_C

/* Numbers runs of uint32_t, the same run by the same number: 0, 1, ... */
typedef struct hd_state_sets {
    hd_buffer values; /* uint32_t: all runs one after the other */
    hd_buffer starts; /* size_t: where each begins in values; one more than there are runs */
    uint32_t *slots;  /* [n_slots] owned: number + 1 by hash; 0: free */
    uint32_t  n, n_slots;
} hd_state_sets;

#define HD_NO_SET UINT32_MAX

/* Zero-initialise before use.  returns  the number; HD_NO_SET when memory is short */
uint32_t        hd_state_sets_put(hd_state_sets *s, const uint32_t *values, size_t n);
const uint32_t *hd_state_sets_get(const hd_state_sets *s, uint32_t number, size_t *n);
void            hd_state_sets_free(hd_state_sets *s);

HD_END_C
#endif
