#ifndef HD_BASE_TOPOLOGY_H
#define HD_BASE_TOPOLOGY_H

#include "base/status.h"

/* The processors and memory nodes that this process may use, by the calling thread's affinity and
 * its container's cpuset, as hwloc finds them; where threads of a team run; where memory that all
 * of them read lies.  What the system refuses (containers forbid much) is left as it was: all of
 * it is about speed. */

HD_BEGIN_C

typedef struct hd_topology hd_topology;

/* owns     *out is the caller's, closed by hd_topology_close (NULL is fine)
 * returns  HD_ERR_MEMORY, HD_ERR_UNSUPPORTED when the system tells nothing */
hd_status hd_topology_open(hd_topology **out, hd_error *err);
void      hd_topology_close(hd_topology *t);

/* A machine in hwloc's words, "node:2 core:4 pu:2", of which the processors `cpus` ("0-3,8"; NULL:
 * all) may be used.  Threads and memory cannot be bound to it; for tests. */
hd_status hd_topology_open_described(hd_topology **out, const char *machine, const char *cpus,
                                     hd_error *err);

int32_t hd_topology_cores(const hd_topology *t);
int32_t hd_topology_nodes(const hd_topology *t); /* that those cores are near to */

/* How many threads a team has unless it is told: one a core, as two that share a core wait for the
 * same units, and no more than `quota` processors (hd_cpu_quota; 0: none). */
int32_t hd_topology_threads(const hd_topology *t, int32_t quota);

/* The processors where thread `i` of `n` runs, "2" or "0-3,8", to out [cap]; "" where the system
 * decides.  Nodes take turns.
 *   as many threads as cores or more   each has its own core; when all cores have one, the other
 *                                      processors of the cores follow
 *   fewer                              each stays at its node, if there are several: whoever left
 *                                      cores free may run something else there
 *   more than processors               the system decides: threads have to give way to others */
void hd_topology_place(const hd_topology *t, int32_t n, int32_t i, char *out, size_t cap);
/* Moves the calling thread there, and what it reads from files first then goes to all nodes in
 * turn: pages of mapped weights stay where they were read in.  Whether the system let it. */
bool hd_topology_bind(const hd_topology *t, int32_t n, int32_t i);

/* With several nodes: pages that the calling thread reads from files or touches first go to all
 * nodes in turn, until hd_topology_gather. */
void hd_topology_spread(const hd_topology *t);
void hd_topology_gather(const hd_topology *t);
/* With several nodes: pages of this memory go to all nodes in turn, whoever touches them first. */
void hd_topology_spread_memory(const hd_topology *t, void *p, size_t bytes);

HD_END_C
#endif
