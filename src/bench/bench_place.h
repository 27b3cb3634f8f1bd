#ifndef HD_BENCH_BENCH_PLACE_H
#define HD_BENCH_BENCH_PLACE_H

#include "base/team.h"
#include "bench/bench.h"

/* Where measured work runs, its memory, and clocks. */

HD_BEGIN_C

#define HD_BENCH_RUNS 7 /* of which the median counts */

typedef struct hd_bench_place {
    hd_device   *device;     /* owned; NULL: the host            */
    hd_topology *topology;   /* owned; of the host               */
    hd_team     *team;       /* owned; of the host               */
    hd_stream   *stream;     /* the one of either                */
    char        *memory;     /* owned; of the host, pool_bytes to be read */
    size_t       pool_bytes; /* far more than any cache keeps */
    hd_buffer    blocks;     /* pointers to memory of operands, owned */
    uint32_t     isa;
} hd_bench_place;

/* Opens it and measures what the machine can do.
 * owns  *p is closed by hd_bench_place_close, also after a failure */
hd_status hd_bench_place_open(hd_bench_place *p, const hd_bench_options *o,
                              hd_bench_machine *machine, hd_error *err);
void      hd_bench_place_close(hd_bench_place *p);

/* Room where kernels run, filled with `bytes` from `host` unless that is NULL; it lives until
 * hd_bench_place_clear. */
hd_status hd_bench_put(hd_bench_place *p, const void *host, size_t bytes, void **out,
                       hd_error *err);
void      hd_bench_place_clear(hd_bench_place *p);

double hd_bench_now(void);                    /* seconds */
double hd_bench_median(double *v, int32_t n); /* sorts v */
/* Bytes a second that the team reads from memory, now; behind it no cache holds anything else. */
double hd_bench_read_rate(const hd_bench_place *p);

/* Something that is done over and over. */
typedef struct hd_bench_call {
    hd_status (*run)(void *ctx, hd_stream *stream, hd_error *err);
    void  *ctx;
    double bytes; /* of one call */
} hd_bench_call;
typedef struct hd_bench_time {
    double seconds;    /* median of one call */
    double read_share; /* median of each run's own, against a read of memory right behind it; on a
                          GPU against its copy */
} hd_bench_time;
/* Median seconds of a recording, by the device's own clock. */
hd_status hd_bench_replay(const hd_bench_place *p, hd_graph *graph, double *seconds, hd_error *err);
hd_status hd_bench_measure(const hd_bench_place *p, const hd_bench_machine *machine,
                           const hd_bench_call *call, hd_bench_time *out, hd_error *err);

HD_END_C
#endif
