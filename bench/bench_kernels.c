/* Times kernels of the table at the shapes of DeepSeek-V4-Flash, as bytes over seconds against
 * what this machine copies.
 *
 *   bench_kernels [--isa FAMILIES] [--op NAME] [--tokens T] [--context N] [--bf16 1]
 *
 * --bf16: activations have been rounded to bf16, which some kernels make use of.
 *
 * Operands come from describe(), so a new kernel needs no line here.  Each call takes the next of
 * several sets of operands, together larger than any cache.  On a GPU the calls are recorded as
 * a graph; the time is the median of seven runs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/device.h"
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
    int32_t     tokens, context;
    bool        has_bf16_x;
} bench_options;

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
            ((uint8_t *)data)[i] = (uint8_t)(is_named(o, "sf")  ? 0x30 + r % 16
                                             : is_named(o, "w") ? r
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

static void run_sets(hd_device *d, const hd_kernel *k, const operand_set *sets, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (k->run(&sets[i].args, hd_device_stream(d)) != HD_OK) fail(k->name, NULL);
}

/* Median seconds of one call. */
static double time_kernel(hd_device *d, const hd_kernel *k, const operand_set *sets, int32_t n)
{
    hd_error  err = {0};
    hd_graph *graph = NULL;
    hd_timer *timer = NULL;
    double    seconds[RUNS];
    run_sets(d, k, sets, n);
    if (hd_device_sync(d, &err) != HD_OK) fail(k->name, &err);
    if (d && (hd_timer_open(&timer, d, &err) != HD_OK || hd_device_capture_begin(d, &err) != HD_OK))
        fail(k->name, &err);
    if (d) run_sets(d, k, sets, n);
    if (d && hd_device_capture_end(d, &graph, &err) != HD_OK) fail(k->name, &err);
    for (int32_t i = 0; i < RUNS; i++) {
        double const start = now();
        if (!d)
            run_sets(d, k, sets, n);
        else if (hd_timer_start(timer, &err) != HD_OK || hd_graph_launch(d, graph, &err) != HD_OK ||
                 hd_timer_stop(timer, &seconds[i], &err) != HD_OK)
            fail(k->name, &err);
        if (!d) seconds[i] = now() - start;
    }
    hd_graph_free(graph);
    hd_timer_close(timer);
    qsort(seconds, RUNS, sizeof *seconds, compare);
    return seconds[RUNS / 2] / n;
}

/* Bytes read and written a second by a large copy: this machine's own limit. */
static double copy_bandwidth(hd_device *d)
{
    hd_error     err = {0};
    size_t const bytes = d ? (size_t)2 << 30 : (size_t)256 << 20;
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
    qsort(seconds, RUNS, sizeof *seconds, compare);
    return 2 * (double)bytes / seconds[RUNS / 2];
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

static void bench(hd_device *d, const bench_case *c, const bench_options *b, double limit)
{
    static operand_set     sets[MAX_SETS];
    const hd_kernel *const k = hd_kernel_select(c->op, &c->args, b->isa);
    uint64_t               rng = 1;
    if (!k) {
        printf("%-12s %-22s no kernel takes this shape\n", c->label, c->op->name);
        return;
    }
    sets[0] = make_set(d, c, b, &rng);
    bool const is_listed =
        strncmp(c->op->name, "grouped", 7) == 0; /* already far larger than a cache */
    size_t n = is_listed ? 1 : POOL_BYTES / (sets[0].bytes + 1) + 1;
    if (n > MAX_SETS) n = MAX_SETS;
    if (!d && n > 4) n = 4;
    for (size_t i = 1; i < n; i++) sets[i] = make_set(d, c, b, &rng);
    double const s = time_kernel(d, k, sets, (int32_t)n), rate = (double)sets[0].bytes / s;
    printf("%-12s %-28s t %3d %10.1f KB %9.2f us %8.1f GB/s %5.1f%%\n", c->label, k->name,
           b->tokens, (double)sets[0].bytes / 1024, s * 1e6, rate * 1e-9, 100 * rate / limit);
    fflush(stdout);
    for (size_t i = 0; i < n; i++) free_set(d, c, &sets[i]);
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
        else if (strcmp(argv[i], "--bf16") == 0 && atoi(value) == 1)
            o->has_bf16_x = true;
        else
            fail("usage: bench_kernels [--isa FAMILIES] [--op NAME] [--tokens T] [--context N >= "
                 "512] [--bf16 1]",
                 NULL);
    }
}

int main(int argc, char **argv)
{
    bench_options o = {.isa = hd_cpu_isa(), .tokens = 1, .context = 32768};
    bench_case    cases[MAX_CASES];
    hd_device    *d = NULL;
    hd_error      err = {0};
    read_options(&o, argc, argv);
    if ((o.isa & HD_ISA_DEVICE) && hd_device_open(&d, &err) != HD_OK) fail("opening the GPU", &err);
    double const limit = copy_bandwidth(d);
    printf("%s: copies %.1f GB/s (bytes read and written)\n", hd_device_name(d), limit * 1e-9);
    int32_t const n = list_cases(&o, cases);
    for (int32_t i = 0; i < n; i++)
        if (!o.op || strcmp(o.op, cases[i].op->name) == 0) bench(d, &cases[i], &o, limit);
    hd_device_close(d);
    return 0;
}
