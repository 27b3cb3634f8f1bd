#include "bench/bench_place.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cpu.h"
#include "ops/x86/peak.h"

#define LEAST_READ  ((size_t)256 << 20)
#define READ_RUN    ((size_t)8 << 20) /* read by one run of the team: about what a product reads */
#define READ_AHEAD  4096
#define DEVICE_POOL ((size_t)512 << 20)
#define COPY_BYTES  ((size_t)2 << 30)
#define HANDOVERS   1000
#define PEAK_ROUNDS 200000 /* of a thread: some milliseconds */

double hd_bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int compare(const void *a, const void *b)
{
    double const x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double hd_bench_median(double *v, int32_t n)
{
    qsort(v, (size_t)n, sizeof *v, compare);
    return v[n / 2];
}

/* ---- memory ---- */

hd_status hd_bench_put(hd_bench_place *p, const void *host, size_t bytes, void **out, hd_error *err)
{
    void *const to = hd_device_alloc(p->device, bytes);
    *out = to;
    if (!to) HD_FAIL(err, HD_ERR_MEMORY, "no room for an operand of %zu bytes", bytes);
    hd_buffer_add(&p->blocks, &to, sizeof to);
    if (p->blocks.failed) {
        hd_device_free(p->device, to);
        HD_FAIL(err, HD_ERR_MEMORY, "no room for the list of operands");
    }
    if (!host) return HD_OK;
    HD_TRY(hd_device_write(p->device, to, host, bytes, err));
    return hd_device_sync(p->device, err);
}

void hd_bench_place_clear(hd_bench_place *p)
{
    for (size_t i = 0; i + sizeof(void *) <= p->blocks.used; i += sizeof(void *)) {
        void *block;
        memcpy(&block, p->blocks.data + i, sizeof block);
        hd_device_free(p->device, block);
    }
    hd_buffer_free(&p->blocks);
}

/* ---- what the machine can do ---- */

/* A quarter of a gigabyte, or twice the last cache: what is read again is not there any more. */
static size_t choose_read_bytes(void)
{
    long const   cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    size_t const twice = cache > 0 ? 2 * (size_t)cache : 0;
    return ((twice > LEAST_READ ? twice : LEAST_READ) + READ_RUN - 1) / READ_RUN * READ_RUN;
}

/* Reads lines [begin, end) of 64 bytes, in a way that is not left out.  Fetched a page ahead,
 * because the processor's own fetching ends with each: that is worth half as much again. */
static void read_lines(const void *memory, int64_t begin, int64_t end)
{
    static atomic_int     seen;
    uint64_t              sum[8] = {0};
    const uint64_t *const words = memory;
    for (const uint64_t *w = words + begin * 8; w < words + end * 8; w += 8) {
        __builtin_prefetch(w + READ_AHEAD / sizeof *w);
        for (int i = 0; i < 8; i++) sum[i] |= w[i];
    }
    for (int i = 0; i < 8; i++)
        if (sum[i] == 1) atomic_fetch_add(&seen, 1);
}

double hd_bench_read_rate(const hd_bench_place *p)
{
    hd_work const w = {READ_RUN / 64, 1, 16};
    double const  start = hd_bench_now();
    for (size_t at = 0; at < p->pool_bytes; at += READ_RUN)
        hd_team_run(p->stream, &w, read_lines, p->memory + at);
    return (double)p->pool_bytes / (hd_bench_now() - start);
}

static void multiply_add(const void *ctx, int64_t begin, int64_t end)
{
    const hd_bench_place *const p = ctx;
    for (int64_t i = begin; i < end; i++)
        if (p->isa & HD_ISA_AVX512)
            hd_peak_avx512(PEAK_ROUNDS);
        else
            hd_peak_avx2(PEAK_ROUNDS);
}

/* f32 operations a second of all threads; 0 where no vectors were asked for. */
static double peak_rate(const hd_bench_place *p, int32_t threads)
{
    hd_work const work = {threads, 1, INT64_C(1) << 40};
    double        rates[HD_BENCH_RUNS];
    int64_t const each = p->isa & HD_ISA_AVX512 ? HD_PEAK_AVX512 : HD_PEAK_AVX2;
    if (!(p->isa & (HD_ISA_AVX2 | HD_ISA_AVX512))) return 0;
    for (int32_t i = 0; i < HD_BENCH_RUNS; i++) {
        double const start = hd_bench_now();
        hd_team_run(p->stream, &work, multiply_add, p);
        rates[i] = (double)(each * PEAK_ROUNDS * threads) / (hd_bench_now() - start);
    }
    return hd_bench_median(rates, HD_BENCH_RUNS);
}

static void do_nothing(const void *ctx, int64_t begin, int64_t end)
{
    (void)ctx;
    (void)begin;
    (void)end;
}

static double time_handover(const hd_bench_place *p, int32_t threads)
{
    hd_work const w = {threads, 1, 1 << 30};
    double        seconds[HD_BENCH_RUNS];
    for (int32_t i = 0; i < HD_BENCH_RUNS; i++) {
        double const start = hd_bench_now();
        for (int32_t r = 0; r < HANDOVERS; r++) hd_team_run(p->stream, &w, do_nothing, NULL);
        seconds[i] = (hd_bench_now() - start) / HANDOVERS;
    }
    return hd_bench_median(seconds, HD_BENCH_RUNS);
}

static hd_status open_host(hd_bench_place *p, const hd_bench_options *o, hd_bench_machine *m,
                           hd_error *err)
{
    double rates[HD_BENCH_RUNS];
    HD_TRY(hd_topology_open(&p->topology, err));
    int32_t const threads =
        o->threads ? o->threads : hd_topology_threads(p->topology, hd_cpu_quota_read());
    p->pool_bytes = choose_read_bytes();
    p->memory = hd_memory_alloc(p->pool_bytes);
    if (!p->memory) HD_FAIL(err, HD_ERR_MEMORY, "no room for %zu bytes to read", p->pool_bytes);
    memset(p->memory, 2, p->pool_bytes); /* or all pages would be the one of zeros */
    HD_TRY(hd_team_open(&p->team, threads, o->is_unpinned ? NULL : p->topology, err));
    p->stream = hd_team_stream(p->team);
    for (int32_t i = 0; i < HD_BENCH_RUNS; i++) rates[i] = hd_bench_read_rate(p);
    m->threads = threads;
    m->read = hd_bench_median(rates, HD_BENCH_RUNS);
    m->peak = peak_rate(p, threads);
    m->handover_us = time_handover(p, threads) * 1e6;
    return HD_OK;
}

/* Bytes read and written a second by a large copy. */
static hd_status time_copies(hd_bench_place *p, double *rate, hd_error *err)
{
    void  *a = NULL, *b = NULL;
    double seconds[HD_BENCH_RUNS];
    HD_TRY(hd_bench_put(p, NULL, COPY_BYTES, &a, err));
    HD_TRY(hd_bench_put(p, NULL, COPY_BYTES, &b, err));
    size_t const  row = COPY_BYTES / 64;
    hd_copy const c = {HD_COPY_WITHIN, b, a, row, row, row, 64};
    for (int32_t i = 0; i < HD_BENCH_RUNS; i++) {
        double const start = hd_bench_now();
        HD_TRY(hd_device_copy(p->device, &c, err));
        seconds[i] = hd_bench_now() - start;
    }
    *rate = 2 * (double)COPY_BYTES / hd_bench_median(seconds, HD_BENCH_RUNS);
    hd_bench_place_clear(p);
    return HD_OK;
}

hd_status hd_bench_place_open(hd_bench_place *p, const hd_bench_options *o, hd_bench_machine *m,
                              hd_error *err)
{
    *p = (hd_bench_place){.isa = o->isa ? o->isa : hd_cpu_isa(), .pool_bytes = DEVICE_POOL};
    hd_isa_print(p->isa, m->kernels, sizeof m->kernels);
    if (p->isa & HD_ISA_DEVICE) {
        HD_TRY(hd_device_open(&p->device, err));
        p->stream = hd_device_stream(p->device);
        HD_TRY(time_copies(p, &m->read, err));
    } else
        HD_TRY(open_host(p, o, m, err));
    snprintf(m->name, sizeof m->name, "%s", hd_device_name(p->device));
    return HD_OK;
}

void hd_bench_place_close(hd_bench_place *p)
{
    hd_bench_place_clear(p);
    hd_team_close(p->team);
    hd_topology_close(p->topology);
    hd_memory_free(p->memory);
    hd_device_close(p->device);
    *p = (hd_bench_place){0};
}

/* ---- measuring ---- */

static hd_status measure_on_host(const hd_bench_place *p, const hd_bench_call *call,
                                 hd_bench_time *out, hd_error *err)
{
    double seconds[HD_BENCH_RUNS], share[HD_BENCH_RUNS];
    HD_TRY(call->run(call->ctx, p->stream, err));
    for (int32_t i = 0; i < HD_BENCH_RUNS; i++) {
        double const start = hd_bench_now();
        HD_TRY(call->run(call->ctx, p->stream, err));
        seconds[i] = hd_bench_now() - start;
        share[i] = call->bytes / seconds[i] / hd_bench_read_rate(p);
    }
    out->seconds = hd_bench_median(seconds, HD_BENCH_RUNS);
    out->read_share = hd_bench_median(share, HD_BENCH_RUNS);
    return HD_OK;
}

hd_status hd_bench_replay(const hd_bench_place *p, hd_graph *graph, double *seconds, hd_error *err)
{
    hd_timer *timer = NULL;
    double    runs[HD_BENCH_RUNS];
    hd_status s = hd_timer_open(&timer, p->device, err);
    for (int32_t i = 0; s == HD_OK && i < HD_BENCH_RUNS; i++) {
        s = hd_timer_start(timer, err);
        if (s == HD_OK) s = hd_graph_launch(p->device, graph, err);
        if (s == HD_OK) s = hd_timer_stop(timer, &runs[i], err);
    }
    hd_timer_close(timer);
    if (s == HD_OK) *seconds = hd_bench_median(runs, HD_BENCH_RUNS);
    return s;
}

static hd_status measure_on_device(const hd_bench_place *p, const hd_bench_machine *m,
                                   const hd_bench_call *call, hd_bench_time *out, hd_error *err)
{
    hd_graph *graph = NULL;
    HD_TRY(call->run(call->ctx, p->stream, err)); /* what is loaded on first use is loaded */
    HD_TRY(hd_device_sync(p->device, err));
    HD_TRY(hd_device_capture_begin(p->device, err));
    hd_status const ran = call->run(call->ctx, p->stream, err);
    hd_status       s = hd_device_capture_end(p->device, &graph, ran ? NULL : err);
    if (ran != HD_OK) s = ran;
    if (s == HD_OK) s = hd_bench_replay(p, graph, &out->seconds, err);
    hd_graph_free(graph);
    if (s == HD_OK) out->read_share = call->bytes / out->seconds / m->read;
    return s;
}

hd_status hd_bench_measure(const hd_bench_place *p, const hd_bench_machine *m,
                           const hd_bench_call *call, hd_bench_time *out, hd_error *err)
{
    return p->device ? measure_on_device(p, m, call, out, err) : measure_on_host(p, call, out, err);
}
