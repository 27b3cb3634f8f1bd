#ifndef HD_DOCTOR_SUBSET_H
#define HD_DOCTOR_SUBSET_H

#include "base/status.h"

/* Delta debugging: of many things that together make something fail, the few that suffice. */

HD_BEGIN_C

#define HD_MAX_SUBSET 64
typedef uint64_t hd_subset; /* bit i: thing i is in */

/* Whether the things in `set` fail together. */
typedef hd_status hd_subset_fn(void *user, hd_subset set, bool *fails, hd_error *err);

int32_t hd_subset_count(hd_subset s);

/* Makes *set, which fails, as small as halving makes it: it still fails, and no longer when any
 * one thing is taken out.  One thing that fails alone is found in some 2 log2(n) tries, several
 * that fail only together in at most n * n or so.
 * returns  what fn returns, and *set then fails all the same */
hd_status hd_subset_minimize(hd_subset *set, hd_subset_fn *fn, void *user, hd_error *err);

HD_END_C
#endif
