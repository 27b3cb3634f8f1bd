#ifndef HD_SUPPORT_FAIL_EACH_H
#define HD_SUPPORT_FAIL_EACH_H

#include "base/status.h"

/* A call that is to survive the failure of each of its operations: allocations
 * (hd_memory_fail_at) or operations on files (hd_file_fail_at). */
typedef struct fail_each_call {
    void (*fail_at)(int64_t n);
    hd_status code; /* what the call returns when one fails */
    hd_status (*call)(void *user, hd_error *err);
    void (*check)(void *user, const hd_error *err); /* after each failure; NULL: none */
    void *user;
} fail_each_call;

/* Makes operation 1, 2, ... of the call fail until it succeeds.  A failure must give the code and
 * one line.  Returns how many operations there were. */
int32_t fail_each(const fail_each_call *c);

#endif
