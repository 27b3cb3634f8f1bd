/* Times kernels of the table at the shapes of DeepSeek-V4-Flash, as bytes over seconds against
 * what this machine reads (a GPU: copies) in the same run, and as operations over seconds.
 *
 *   bench_kernels [--isa FAMILIES] [--op NAME] [--tokens T] [--context N] [--threads N] [--bf16 1]
 *
 * --bf16: activations have been rounded to bf16, which some kernels make use of.
 *
 * Operands come from describe(), so a new kernel needs no line here.  Each call takes the next of
 * several sets of operands, together larger than any cache.  On a GPU the calls are recorded as
 * a graph; the time is the median of seven runs.  On the host each run is followed by reading
 * memory with the same threads, and the share of it is the median of the runs' own, because
 * other work on the machine slows both. */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/device.h"
#include "base/team.h"
#include "kv/row.h"
#include "ops/attn_sparse.h"
#include "ops/gemm.h"
#include "ops/grouped_gemm.h"
#include "ops/hc_post.h"
#include "ops/hc_pre.h"
#include "ops/index_score.h"
#include "ops/rmsnorm.h"
#include "ops/router.h"
#include "ops/topk.h"

#define POOL_BYTES ((size_t)512 << 20)
#define MAX_SETS   32
#define RUNS       7

typedef struct bench_options {
    uint32_t    isa;
    const char *op;
    int32_t     tokens, context, threads;
    bool        has_bf16_x;
} bench_options;

/* Where kernels run. */
#define READ_BYTES ((size_t)256 << 20)
typedef struct place_to_run {
    hd_device *device; /* NULL: the host                           */
    double     limit;  /* bytes a second that the GPU copies       */
    hd_team   *team;   /* of the host                              */
    hd_stream *stream; /* its stream                               */
    char      *memory; /* [READ_BYTES] of the host, to be read     */
} place_to_run;

typedef union any_args {
    hd_rmsnorm_args      rmsnorm;
    hd_gemm_args         gemm;
    hd_grouped_gemm_args grouped;
    hd_router_args       router;
    hd_hc_pre_args       hc_pre;
    hd_hc_post_args      hc_post;
    hd_index_score_args  index_score;
    hd_topk_args         topk;
    hd_attn_sparse_args  attn;
} any_args;

typedef struct bench_case {
    const char  *label;
    const hd_op *op;
    any_args     args;
} bench_case;

/* ---- shapes of Flash ---- */

enum { D = 4096, HEADS = 64, HEAD = 512, EXPERTS = 256, USED = 6, INNER = 2048, STREAMS = 4 };

static bench_case gemm(const char *label, const hd_op *op, int32_t t, int32_t n, int32_t k,
                       int32_t g)
{
    return (bench_case){label, op, {.gemm = {.t = t, .n = n, .k = k, .g = g, .w_scale = 1}}};
}

static bench_case experts(const char *label, const hd_op *op, int32_t t, int32_t xs, int32_t n,
                          int32_t k)
{
    hd_grouped_gemm_args const a = {.t = t, .s = USED, .xs = xs, .n = n, .k = k, .e = EXPERTS};
    return (bench_case){label, op, {.grouped = a}};
}

/* The same of activations that are codes too. */
static bench_case coded(bench_case c)
{
    if (strncmp(c.op->name, "gemm", 4) == 0)
        c.args.gemm.has_codes = true;
    else
        c.args.grouped.has_codes = true;
    return c;
}

static bench_case attention(const char *label, int32_t t, int32_t context, int32_t group, int32_t k)
{
    hd_row_layout const       row = {HD_ROW_FP8, HEAD, 64, 64};
    int32_t const             rows = group ? context / group : 1;
    hd_attn_sparse_args const a = {.t = t,
                                   .h = HEADS,
                                   .d = HEAD,
                                   .n_seq = t,
                                   .win_cap = 256,
                                   .row_cap = rows > 0 ? rows : 1,
                                   .window = 128,
                                   .group = group,
                                   .k = k,
                                   .scale = 0.044f,
                                   .win_layout = row,
                                   .row_layout = row};
    return (bench_case){label, &hd_op_attn_sparse, {.attn = a}};
}

static int32_t list_cases(const bench_options *o, bench_case *out)
{
    int32_t const       t = o->tokens, rows = o->context / 4;
    hd_row_layout const index = {HD_ROW_MXFP4, 128, 0, 64};
    int32_t             n = 0;
    out[n++] = (bench_case){
        "norm", &hd_op_rmsnorm, {.rmsnorm = {.t = t, .d = D, .eps = 1e-6f, .has_w = true}}};
    out[n++] = (bench_case){
        "hc_pre",
        &hd_op_hc_pre,
        {.hc_pre = {.t = t, .m = STREAMS, .d = D, .iters = 20, .eps = 1e-6f, .hc_eps = 1e-6f}}};
    out[n++] = (bench_case){"hc_post", &hd_op_hc_post, {.hc_post = {.t = t, .m = STREAMS, .d = D}}};
    out[n++] = gemm("square", &hd_op_gemm_nvfp4, t, D, D, 1);
    out[n++] = coded(gemm("square", &hd_op_gemm_nvfp4, t, D, D, 1));
    out[n++] = gemm("square", &hd_op_gemm_mxfp4, t, D, D, 1);
    out[n++] = gemm("square", &hd_op_gemm_fp8, t, D, D, 1);
    out[n++] = gemm("square", &hd_op_gemm_bf16, t, D, D, 1);
    out[n++] = gemm("q_a", &hd_op_gemm_fp8, t, 1024, D, 1);
    out[n++] = gemm("q_a", &hd_op_gemm_nvfp4, t, 1024, D, 1);
    out[n++] = gemm("q_b", &hd_op_gemm_fp8, t, HEADS * HEAD, 1024, 1);
    out[n++] = gemm("q_b", &hd_op_gemm_nvfp4, t, HEADS * HEAD, 1024, 1);
    out[n++] = gemm("o_a", &hd_op_gemm_nvfp4, t, 1024, HEADS * HEAD / 8, 8);
    out[n++] = gemm("o_b", &hd_op_gemm_nvfp4, t, D, 8192, 1);
    out[n++] = gemm("gate", &hd_op_gemm_bf16, t, EXPERTS, D, 1);
    out[n++] = gemm("large", &hd_op_gemm_nvfp4, t, 16384, 7168, 1);
    out[n++] = gemm("large", &hd_op_gemm_mxfp4, t, 16384, 7168, 1);
    out[n++] =
        (bench_case){"router",
                     &hd_op_router,
                     {.router = {.t = t, .s = USED, .e = EXPERTS, .vocab = 1, .scale = 1.5f}}};
    out[n++] = experts("w1", &hd_op_grouped_gemm_nvfp4, t, 1, INNER, D);
    out[n++] = experts("w2", &hd_op_grouped_gemm_nvfp4, t, USED, D, INNER);
    out[n++] = coded(experts("w1", &hd_op_grouped_gemm_nvfp4, t, USED, INNER, D));
    out[n++] = coded(experts("w2", &hd_op_grouped_gemm_nvfp4, t, USED, D, INNER));
    out[n++] = experts("w1", &hd_op_grouped_gemm_mxfp4, t, 1, INNER, D);
    out[n++] = experts("w2", &hd_op_grouped_gemm_mxfp4, t, USED, D, INNER);
    out[n++] = (bench_case){"index_score",
                            &hd_op_index_score,
                            {.index_score = {.t = t,
                                             .h = 64,
                                             .d = 128,
                                             .n_seq = t,
                                             .cap = rows,
                                             .group = 4,
                                             .scale = 0.01f,
                                             .layout = index}}};
    out[n++] =
        (bench_case){"topk", &hd_op_topk, {.topk = {.t = t, .n = rows, .k = 512, .group = 4}}};
    out[n++] = attention("attn csa", t, o->context, 4, 512);
    out[n++] = attention("attn hca", t, o->context, 128, 0);
    out[n++] = attention("attn window", t, o->context, 0, 0);
    return n;
}
#define MAX_CASES 32

/* ---- operands ---- */

static uint32_t next_random(uint64_t *s)
{
    *s = *s * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*s >> 33);
}

static bool is_named(const hd_operand *o, const char *name) { return strcmp(o->name, name) == 0; }

/* Valid values of any operand: scales around one, positions at the end of the context, experts
 * spread, list entries rising. */
static void fill(const hd_operand *o, const bench_options *b, void *data, uint64_t *rng)
{
    int64_t const n = hd_operand_count(o), cols = hd_operand_cols(o);
    for (int64_t i = 0; i < n; i++) {
        uint32_t const r = next_random(rng);
        if (o->dtype == HD_F32)
            ((float *)data)[i] = b->has_bf16_x && is_named(o, "x")
                                     ? (float)(r % 255) / 128 - 1.0f
                                     : (float)r / (float)(1u << 30) - 1.0f;
        else if (o->dtype == HD_BF16)
            ((uint16_t *)data)[i] = (uint16_t)(0x3F00 | (r & 0x80FF));
        else if (o->dtype == HD_U8)
            ((uint8_t *)data)[i] =
                (uint8_t)(is_named(o, "sf")                            ? 0x30 + r % 16
                          : is_named(o, "w") || is_named(o, "x_codes") ? r
                                                                       : 0x30 + r % 8);
        else if (is_named(o, "pos"))
            ((int32_t *)data)[i] = b->context - 1;
        else if (is_named(o, "seq"))
            ((int32_t *)data)[i] = (int32_t)i;
        else if (is_named(o, "ids") && cols == USED)
            ((int32_t *)data)[i] =
                (int32_t)((r % (EXPERTS / USED)) * USED + (uint32_t)(i % USED)) % EXPERTS;
        else
            ((int32_t *)data)[i] = (int32_t)(i % cols);
    }
}

typedef struct operand_set {
    any_args args;
    size_t   bytes; /* that a call reads and writes, lists counted by use */
} operand_set;

static void fail(const char *what, const hd_error *err)
{
    fprintf(stderr, "bench_kernels: %s%s%s\n", what, err ? ": " : "", err ? err->message : "");
    exit(1);
}

static void *place(hd_device *d, const void *host, size_t bytes)
{
    hd_error    err = {0};
    void *const p = hd_device_alloc(d, bytes);
    if (!p) fail("no memory for operands", NULL);
    if (hd_device_write(d, p, host, bytes, &err) != HD_OK || hd_device_sync(d, &err) != HD_OK)
        fail("copying", &err);
    return p;
}

/* One operand; of a list every member, made once and shared, since slots pick among them. */
static void *make_operand(hd_device *d, const hd_operand *o, const bench_options *b, uint64_t *rng)
{
    size_t const bytes = (size_t)hd_operand_count(o) * hd_dtype_bytes(o->dtype);
    void *const  host = hd_memory_alloc(bytes);
    if (!host) fail("no memory", NULL);
    fill(o, b, host, rng);
    void *pointer = NULL;
    if (o->list == 0)
        pointer = place(d, host, bytes);
    else {
        void **const members = hd_memory_alloc((size_t)o->list * sizeof *members);
        for (int32_t i = 0; i < o->list; i++) members[i] = place(d, host, bytes);
        pointer = place(d, members, (size_t)o->list * sizeof *members);
        hd_memory_free(members);
    }
    hd_memory_free(host);
    return pointer;
}

/* Experts that random slots hit, of e: what a call reads of a list. */
static double distinct(const bench_case *c)
{
    double const slots = (double)c->args.grouped.t * c->args.grouped.s, e = c->args.grouped.e;
    return c->args.grouped.t == 1 ? slots : e * (1 - pow(1 - 1 / e, slots));
}

/* Rows of a pool that attention reads of one token, by the operand's name. */
static double pool_share(const bench_case *c, const hd_operand *o)
{
    const hd_attn_sparse_args *const a = &c->args.attn;
    if (c->op != &hd_op_attn_sparse) return 1;
    if (is_named(o, "win")) return (double)a->window / a->win_cap;
    if (is_named(o, "rows") && a->k) return fmin(1, (double)a->k / a->row_cap);
    return 1;
}

static operand_set make_set(hd_device *d, const bench_case *c, const bench_options *b,
                            uint64_t *rng)
{
    operand_set   s = {.args = c->args};
    hd_operand    o[HD_MAX_OPERANDS];
    int32_t const n = c->op->describe(&c->args, o);
    for (int32_t i = 0; i < n; i++) {
        double const bytes = (double)hd_operand_count(&o[i]) * (double)hd_dtype_bytes(o[i].dtype);
        void *const  p = make_operand(d, &o[i], b, rng);
        memcpy((char *)&s.args + o[i].slot, &p, sizeof p);
        s.bytes += (size_t)(bytes * (o[i].list ? distinct(c) : pool_share(c, &o[i])));
    }
    return s;
}

/* ---- time ---- */

static double now(void)
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

static void run_sets(hd_stream *stream, const hd_kernel *k, const operand_set *sets, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (k->run(&sets[i].args, stream) != HD_OK) fail(k->name, NULL);
}

static double median(double *v)
{
    qsort(v, RUNS, sizeof *v, compare);
    return v[RUNS / 2];
}

/* Median seconds of one call on a GPU. */
static double time_on_gpu(hd_device *d, const hd_kernel *k, const operand_set *sets, int32_t n)
{
    hd_error         err = {0};
    hd_graph        *graph = NULL;
    hd_timer        *timer = NULL;
    double           seconds[RUNS];
    hd_stream *const stream = hd_device_stream(d);
    run_sets(stream, k, sets, n);
    if (hd_device_sync(d, &err) != HD_OK || hd_timer_open(&timer, d, &err) != HD_OK ||
        hd_device_capture_begin(d, &err) != HD_OK)
        fail(k->name, &err);
    run_sets(stream, k, sets, n);
    if (hd_device_capture_end(d, &graph, &err) != HD_OK) fail(k->name, &err);
    for (int32_t i = 0; i < RUNS; i++)
        if (hd_timer_start(timer, &err) != HD_OK || hd_graph_launch(d, graph, &err) != HD_OK ||
            hd_timer_stop(timer, &seconds[i], &err) != HD_OK)
            fail(k->name, &err);
    hd_graph_free(graph);
    hd_timer_close(timer);
    return median(seconds) / n;
}

/* Reads lines [begin, end) of 64 bytes, in a way that is not left out. */
static void read_lines(const void *memory, int64_t begin, int64_t end)
{
    static atomic_int seen;
    uint64_t          sum[8] = {0};
    for (const uint64_t *p = (const uint64_t *)memory + begin * 8;
         p < (const uint64_t *)memory + end * 8; p += 8)
        for (int i = 0; i < 8; i++) sum[i] |= p[i];
    for (int i = 0; i < 8; i++)
        if (sum[i] == 1) atomic_fetch_add(&seen, 1);
}

/* Bytes a second that the team reads, now. */
static double read_bandwidth(const place_to_run *p)
{
    hd_work const w = {READ_BYTES / 64, 1, 16};
    double const  start = now();
    hd_team_run(p->stream, &w, read_lines, p->memory);
    return (double)READ_BYTES / (now() - start);
}

/* Median seconds of one call on the host; *limit becomes the bandwidth that gives the median
 * share. */
static double time_on_host(const place_to_run *p, const hd_kernel *k, const operand_set *sets,
                           int32_t n, double *limit)
{
    double seconds[RUNS], product[RUNS];
    run_sets(p->stream, k, sets, n);
    for (int32_t i = 0; i < RUNS; i++) {
        double const start = now();
        run_sets(p->stream, k, sets, n);
        seconds[i] = (now() - start) / n;
        product[i] = read_bandwidth(p) * seconds[i];
    }
    double const s = median(seconds);
    *limit = median(product) / s;
    return s;
}

/* Bytes read and written a second by a large copy on a GPU. */
static double copy_bandwidth(hd_device *d)
{
    hd_error     err = {0};
    size_t const bytes = (size_t)2 << 30;
    char *const a = hd_device_alloc(d, bytes), *const b = hd_device_alloc(d, bytes);
    hd_copy const c = {HD_COPY_WITHIN, b, a, bytes / 64, bytes / 64, bytes / 64, 64};
    double        seconds[RUNS];
    if (!a || !b) fail("no memory for a copy", NULL);
    for (int32_t i = 0; i < RUNS; i++) {
        double const start = now();
        if (hd_device_copy(d, &c, &err) != HD_OK) fail("copying", &err);
        seconds[i] = now() - start;
    }
    hd_device_free(d, a);
    hd_device_free(d, b);
    return 2 * (double)bytes / median(seconds);
}

static void free_set(hd_device *d, const bench_case *c, operand_set *s)
{
    hd_operand    o[HD_MAX_OPERANDS];
    int32_t const n = c->op->describe(&c->args, o);
    for (int32_t i = 0; i < n; i++) {
        void **const members =
            o[i].list ? hd_memory_alloc((size_t)o[i].list * sizeof *members) : NULL;
        void *const p = hd_operand_pointer(&s->args, &o[i]);
        if (members) hd_device_read(d, members, p, (size_t)o[i].list * sizeof *members, NULL);
        for (int32_t m = 0; members && m < o[i].list; m++) hd_device_free(d, members[m]);
        hd_memory_free(members);
        hd_device_free(d, p);
    }
}

/* Multiplications and additions of a call; 0 where they are not what it is for. */
static double operations(const bench_case *c)
{
    const hd_gemm_args *const         g = &c->args.gemm;
    const hd_grouped_gemm_args *const e = &c->args.grouped;
    if (strncmp(c->op->name, "gemm", 4) == 0) return 2.0 * g->t * g->g * g->n * g->k;
    if (strncmp(c->op->name, "grouped", 7) == 0) return 2.0 * e->t * e->s * e->n * e->k;
    return 0;
}

/* Sets of operands that a run goes through; lists of experts are far larger than a cache. */
static size_t count_sets(const hd_kernel *k, size_t bytes)
{
    size_t const most = k->isa == HD_ISA_REF ? 4 : MAX_SETS;
    size_t const n = strncmp(k->op->name, "grouped", 7) == 0 ? 1 : POOL_BYTES / (bytes + 1) + 1;
    return n < most ? n : most;
}

static void bench(const place_to_run *p, const bench_case *c, const bench_options *b)
{
    static operand_set     sets[MAX_SETS];
    hd_kernel_choice const families = hd_kernel_choice_of(b->isa);
    const hd_kernel *const k = hd_kernel_select(&families, c->op, &c->args);
    uint64_t               rng = 1;
    double                 limit = p->limit;
    if (!k) {
        printf("%-12s %-22s no kernel takes this shape\n", c->label, c->op->name);
        return;
    }
    sets[0] = make_set(p->device, c, b, &rng);
    size_t const n = count_sets(k, sets[0].bytes);
    for (size_t i = 1; i < n; i++) sets[i] = make_set(p->device, c, b, &rng);
    double const s = p->device ? time_on_gpu(p->device, k, sets, (int32_t)n)
                               : time_on_host(p, k, sets, (int32_t)n, &limit);
    double const rate = (double)sets[0].bytes / s;
    printf("%-12s %-28s t %3d %10.1f KB %9.2f us %8.1f GB/s %5.1f%%", c->label, k->name, b->tokens,
           (double)sets[0].bytes / 1024, s * 1e6, rate * 1e-9, 100 * rate / limit);
    if (operations(c) > 0) printf(" %8.1f GFLOP/s", operations(c) / s * 1e-9);
    printf("\n");
    fflush(stdout);
    for (size_t i = 0; i < n; i++) free_set(p->device, c, &sets[i]);
}

static void do_nothing(const void *ctx, int64_t begin, int64_t end)
{
    (void)ctx;
    (void)begin;
    (void)end;
}

/* Seconds that handing work to awake threads and waiting for them takes. */
static double time_fork(const place_to_run *p, int32_t threads)
{
    hd_work const w = {threads, 1, 1 << 30};
    double        seconds[RUNS];
    for (int32_t i = 0; i < RUNS; i++) {
        double const start = now();
        for (int32_t r = 0; r < 1000; r++) hd_team_run(p->stream, &w, do_nothing, NULL);
        seconds[i] = (now() - start) / 1000;
    }
    return median(seconds);
}

static void open_host(place_to_run *p, int32_t threads)
{
    hd_error err = {0};
    double   seconds[RUNS];
    p->memory = hd_memory_alloc(READ_BYTES);
    if (!p->memory) fail("no memory to read", NULL);
    memset(p->memory, 2, READ_BYTES);
    if (hd_team_open(&p->team, threads, &err) != HD_OK) fail("starting threads", &err);
    p->stream = hd_team_stream(p->team);
    for (int32_t i = 0; i < RUNS; i++) seconds[i] = 1 / read_bandwidth(p);
    printf("host, %d threads: reads %.1f GB/s, hands work over in %.2f us\n", threads,
           1e-9 / median(seconds), time_fork(p, threads) * 1e6);
}

static void open_gpu(place_to_run *p)
{
    hd_error err = {0};
    if (hd_device_open(&p->device, &err) != HD_OK) fail("opening the GPU", &err);
    p->limit = copy_bandwidth(p->device);
    printf("%s: copies %.1f GB/s (bytes read and written)\n", hd_device_name(p->device),
           p->limit * 1e-9);
}

static void read_options(bench_options *o, int argc, char **argv)
{
    hd_error err = {0};
    for (int i = 1; i < argc; i += 2) {
        const char *const value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--isa") == 0) {
            if (hd_isa_parse(&o->isa, value, &err) != HD_OK) fail("--isa", &err);
        } else if (strcmp(argv[i], "--op") == 0)
            o->op = value;
        else if (strcmp(argv[i], "--tokens") == 0 && atoi(value) > 0)
            o->tokens = atoi(value);
        else if (strcmp(argv[i], "--context") == 0 && atoi(value) >= 512)
            o->context = atoi(value);
        else if (strcmp(argv[i], "--threads") == 0 && atoi(value) > 0)
            o->threads = atoi(value);
        else if (strcmp(argv[i], "--bf16") == 0 && atoi(value) == 1)
            o->has_bf16_x = true;
        else
            fail("usage: bench_kernels [--isa FAMILIES] [--op NAME] [--tokens T] [--context N >= "
                 "512] [--threads N] [--bf16 1]",
                 NULL);
    }
}

int main(int argc, char **argv)
{
    bench_options o = {
        .isa = hd_cpu_isa(), .tokens = 1, .context = 32768, .threads = hd_cpu_count()};
    bench_case   cases[MAX_CASES];
    place_to_run p = {0};
    read_options(&o, argc, argv);
    if (o.isa & HD_ISA_DEVICE)
        open_gpu(&p);
    else
        open_host(&p, o.threads);
    int32_t const n = list_cases(&o, cases);
    for (int32_t i = 0; i < n; i++)
        if (!o.op || strcmp(o.op, cases[i].op->name) == 0) bench(&p, &cases[i], &o);
    hd_team_close(p.team);
    hd_memory_free(p.memory);
    hd_device_close(p.device);
    return 0;
}
