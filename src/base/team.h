#ifndef HD_BASE_TEAM_H
#define HD_BASE_TEAM_H

#include "base/device.h"
#include "base/topology.h"

/* The threads that share the work of a kernel on the host.  They are started once; between two
 * calls they spin for a moment, because the next kernel comes soon, and then sleep.  Which thread
 * does which part is left to chance, so a kernel splits work into parts that do not depend on
 * each other, never a sum: its results are then the same for any number of threads. */

HD_BEGIN_C

typedef struct hd_team hd_team;

#define HD_MAX_THREADS 1024

/* Starts n_threads - 1 threads; the one that calls hd_team_run is the last.
 * pin      where threads run (hd_topology_place), borrowed until the team is closed; place 0 is
 *          left for the thread that calls, which is the program's own and stays where it may run.
 *          NULL: the system decides
 * owns     *out is the caller's, closed by hd_team_close (NULL is fine)
 * returns  HD_ERR_MEMORY, HD_ERR_LIMIT when the system refuses to start one */
hd_status hd_team_open(hd_team **out, int32_t n_threads, const hd_topology *pin, hd_error *err);
void      hd_team_close(hd_team *t);

/* What kernels are handed: on the host a stream is a team.  NULL: the calling thread alone. */
hd_stream *hd_team_stream(hd_team *t);

/* `n` items, each worth about `cost` multiplications, or as many elements moved; items are cut
 * apart at multiples of `step` only. */
typedef struct hd_work {
    int64_t n, step, cost;
} hd_work;

/* Does the items [begin, end). */
typedef void hd_work_fn(const void *ctx, int64_t begin, int64_t end);

/* Calls fn over all items, each exactly once, and returns when all are done.  Work that is not
 * worth waking a thread for is done by the caller in one call.  One run at a time; fn does not
 * run the team again, and has 512 KiB of stack. */
void hd_team_run(hd_stream *stream, const hd_work *w, hd_work_fn *fn, const void *ctx);

/* Cost that a part has at least; for tests that want small work split too. */
void hd_team_set_grain(hd_team *t, int64_t cost);

HD_END_C
#endif
