/* Routed experts beside oneDNN in bf16: both in one process, taking turns.
 * usage: onednn_experts [TOKENS [THREADS [ROUNDS [EXPERTS]]]]     default: 256, 2, 9, 256
 *
 * Each expert is 2048 x 4096 and has 6 * TOKENS / EXPERTS tokens.  oneDNN multiplies one expert
 * after the other by a matmul whose weights lie as it wants them; ours take all at once.  All read
 * the same pool, whose bytes are harmless weights in every format and in every order.  Columns:
 * GFLOP/s by the clock and by processor time (of all threads, times threads), medians of the
 * rounds, and the median ratio to oneDNN in the same round, by processor time. */
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/team.h"
#include "ops/grouped_gemm.h"

#define N          2048
#define K          4096
#define SLOTS      6
#define MAX_ROUNDS 99
#define MAX_NAMES  8

#include "rounds.h"

static int        tokens = 256, threads = 2, rounds = 9, experts = 256;
static hd_stream *stream;

static unsigned char *pool;
static float         *x, *y;
static int32_t       *ids;

typedef struct contestant {
    const char *name;
    void (*run)(struct contestant *c);
    const hd_kernel     *kernel;
    hd_grouped_gemm_args args;
    double               seconds[MAX_ROUNDS], cpu[MAX_ROUNDS];
} contestant;

static contestant all[MAX_NAMES];
static int        n_all;

static void fail(const char *what)
{
    fprintf(stderr, "onednn_experts: %s\n", what);
    exit(1);
}

static void *take(size_t bytes)
{
    void *const p = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (!p) fail("no memory");
    return p;
}

/* Bytes that are harmless as codes, as scales and as halves of bf16. */
static void fill(unsigned char *to, size_t bytes)
{
    unsigned long long r = 1;
    for (size_t i = 0; i < bytes; i++) {
        r = r * 6364136223846793005ULL + 1442695040888963407ULL;
        to[i] = (unsigned char)(0x30 + (r >> 60));
    }
}

static void make_operands(void)
{
    size_t const slots = (size_t)tokens * SLOTS;
    pool = take((size_t)experts * N * K * 2);
    x = take((size_t)tokens * K * sizeof *x);
    y = take(slots * N * sizeof *y);
    ids = take(slots * sizeof *ids);
    fill(pool, (size_t)experts * N * K * 2);
    for (int i = 0; i < tokens * K; i++) x[i] = (float)(i % 17 + 1) / 16;
    for (size_t i = 0; i < slots; i++) ids[i] = (int32_t)(i % (size_t)experts);
}

/* ---- oneDNN ---- */

static dnnl_primitive_t matmul;
static dnnl_stream_t    queue;
static dnnl_memory_t    from, weights, to;
static size_t           weight_bytes;

static void check(dnnl_status_t s)
{
    if (s != dnnl_success) fail("oneDNN failed");
}

static void open_onednn(void)
{
    dnnl_dims_t const     a = {(int64_t)tokens * SLOTS / experts, K}, b = {K, N}, c = {a[0], N};
    dnnl_memory_desc_t    md[3];
    dnnl_matmul_desc_t    desc;
    dnnl_primitive_desc_t pd;
    dnnl_engine_t         engine;
    check(dnnl_memory_desc_init_by_tag(&md[0], 2, a, dnnl_bf16, dnnl_ab));
    check(dnnl_memory_desc_init_by_tag(&md[1], 2, b, dnnl_bf16, dnnl_format_tag_any));
    check(dnnl_memory_desc_init_by_tag(&md[2], 2, c, dnnl_f32, dnnl_ab));
    check(dnnl_engine_create(&engine, dnnl_cpu, 0));
    check(dnnl_stream_create(&queue, engine, dnnl_stream_default_flags));
    check(dnnl_matmul_desc_init(&desc, &md[0], &md[1], NULL, &md[2]));
    check(dnnl_primitive_desc_create(&pd, &desc, NULL, engine, NULL));
    check(dnnl_primitive_create(&matmul, pd));
    const dnnl_memory_desc_t *const packed =
        dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
    const char *name = "";
    dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name);
    printf("oneDNN: %s\n", name);
    weight_bytes = dnnl_memory_desc_get_size(packed);
    if (weight_bytes > (size_t)N * K * 2) fail("packed weights are larger than plain ones");
    check(dnnl_memory_create(&from, &md[0], engine, pool)); /* any harmless numbers */
    check(dnnl_memory_create(&weights, packed, engine, pool));
    check(dnnl_memory_create(&to, &md[2], engine, y));
}

static void run_onednn(contestant *c)
{
    dnnl_exec_arg_t const args[] = {
        {DNNL_ARG_SRC, from}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, to}};
    (void)c;
    for (int e = 0; e < experts; e++) {
        check(dnnl_memory_set_data_handle(weights, pool + (size_t)e * weight_bytes));
        check(dnnl_primitive_execute(matmul, queue, 3, args));
    }
    check(dnnl_stream_wait(queue));
}

/* ---- ours ---- */

static void run_ours(contestant *c)
{
    if (c->kernel->run(&c->args, stream) != HD_OK) fail("a kernel failed");
}

/* Codes and scales of an expert lie one behind the other in the pool. */
static void list_weights(hd_grouped_gemm_args *a, double bytes)
{
    const void **const w = take((size_t)experts * sizeof *w);
    const void **const sf = take((size_t)experts * sizeof *sf);
    float *const       scale = take((size_t)experts * sizeof *scale);
    for (int e = 0; e < experts; e++) {
        w[e] = pool + (size_t)((double)e * bytes * N * K);
        sf[e] = (const char *)w[e] + (size_t)N * K / 2;
        scale[e] = 1;
    }
    a->w = w;
    a->sf = sf;
    a->w_scale = scale;
}

static void add_ours(const char *name, const hd_op *op, double bytes, bool has_codes)
{
    contestant *const      c = &all[n_all++];
    hd_kernel_choice const choice = hd_kernel_choice_of(hd_cpu_isa());
    *c = (contestant){.name = name, .run = run_ours};
    c->args = (hd_grouped_gemm_args){
        .x = x, .ids = ids, .y = y, .t = tokens, .s = SLOTS, .xs = 1, .n = N, .k = K, .e = experts};
    list_weights(&c->args, bytes);
    if (has_codes) {
        float *const scale = take((size_t)tokens * sizeof *scale);
        for (int i = 0; i < tokens; i++) scale[i] = 1;
        c->args.has_codes = true;
        c->args.x_codes = pool;
        c->args.x_sf = pool + (size_t)tokens * K / 2;
        c->args.x_scale = scale;
    }
    c->kernel = hd_kernel_select(&choice, op, &c->args);
    if (!c->kernel) fail("no kernel");
}

/* ---- the table ---- */

static void measure(void)
{
    for (int r = -1; r < rounds; r++)
        for (contestant *c = all; c < all + n_all; c++) {
            double const start = clock_of(CLOCK_MONOTONIC);
            double const cpu = clock_of(CLOCK_PROCESS_CPUTIME_ID);
            c->run(c);
            if (r < 0) continue;
            c->seconds[r] = clock_of(CLOCK_MONOTONIC) - start;
            c->cpu[r] = clock_of(CLOCK_PROCESS_CPUTIME_ID) - cpu;
        }
}

static void print(void)
{
    double const work = 2e-9 * tokens * SLOTS * N * K;
    printf("%d tokens, %d of %d experts each, 2048 x 4096, %d thread%s, %d rounds\n", tokens, SLOTS,
           experts, threads, threads == 1 ? "" : "s", rounds);
    printf("%-16s %9s %9s %9s\n", "", "GFLOP/s", "cpu", "x oneDNN");
    for (contestant *c = all; c < all + n_all; c++) {
        double ratio[MAX_ROUNDS];
        for (int r = 0; r < rounds; r++) ratio[r] = all[0].cpu[r] / c->cpu[r];
        printf("%-16s %9.1f %9.1f %9.2f\n", c->name, work / median(c->seconds, rounds),
               work / median(c->cpu, rounds) * threads, median(ratio, rounds));
    }
}

int main(int argc, char **argv)
{
    hd_error err = {0};
    hd_team *team = NULL;
    if (argc > 1) tokens = atoi(argv[1]);
    if (argc > 2) threads = atoi(argv[2]);
    if (argc > 3) rounds = atoi(argv[3]);
    if (argc > 4) experts = atoi(argv[4]);
    if (tokens < 1 || threads < 1 || rounds < 1 || rounds > MAX_ROUNDS || experts < SLOTS ||
        tokens * SLOTS % experts)
        fail("wrong arguments");
    if (hd_team_open(&team, threads, NULL, &err) != HD_OK) fail(err.message);
    stream = hd_team_stream(team);
    make_operands();
    open_onednn();
    all[n_all++] = (contestant){.name = "oneDNN bf16", .run = run_onednn};
    add_ours("hadal w4a4", &hd_op_grouped_gemm_nvfp4, 0.5625, true);
    add_ours("hadal nvfp4", &hd_op_grouped_gemm_nvfp4, 0.5625, false);
    add_ours("hadal mxfp4", &hd_op_grouped_gemm_mxfp4, 0.53125, false);
    add_ours("hadal bf16", &hd_op_grouped_gemm_bf16, 2, false);
    measure();
    print();
    hd_team_close(team);
    return 0;
}
