/* Time and its medians, for programs in which several take turns, at most MAX_ROUNDS of them: the
 * program says how many before it includes this. */
#ifndef HD_BENCH_PEERS_ROUNDS_H
#define HD_BENCH_PEERS_ROUNDS_H

#include <stdlib.h>
#include <string.h>
#include <time.h>

static double clock_of(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int compare(const void *a, const void *b)
{
    double const p = *(const double *)a, q = *(const double *)b;
    return p < q ? -1 : p > q;
}

/* Of v [n], which stays as it is; n <= MAX_ROUNDS. */
static double median(const double *v, int n)
{
    double sorted[MAX_ROUNDS];
    memcpy(sorted, v, sizeof *v * (size_t)n);
    qsort(sorted, (size_t)n, sizeof *sorted, compare);
    return sorted[n / 2];
}

#endif
