/* Few tokens by one matrix beside ggml's CPU backend, llama.cpp's or ik_llama.cpp's: both in one
 * process, taking turns.
 * usage: ggml_gemv [TOKENS [THREADS [ROUNDS [ISA]]]]     default: 1, 2, 30, all
 *
 * In every round each contestant multiplies the next eight matrices, 4096 x 4096, of one pool that
 * is three times as large as the last cache; a read of as many bytes comes first.  It is the same
 * memory for all (but for weights that ggml moves), because a virtual machine reads some of its
 * memory at half the speed of other, and the bytes are harmless weights in every format. Columns:
 * GB/s of weights by the clock and by processor time (of all threads, times threads), and the share
 * of the read, each the median of the rounds; shares are of a round's own read, by processor time.
 * ggml rounds activations to eight bits, which the products named f32 do not. */
#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/team.h"
#include "ops/gemm.h"

#define N          4096
#define TURN       8 /* matrices multiplied at a time */
#define MAX_ROUNDS 1000
#define MAX_NAMES  16
#define MAX_TURNS  64

static int        tokens = 1, threads = 2, rounds = 30;
static uint32_t   isa;
static hd_stream *stream;
static float     *x, *y;

static unsigned char *pool;
static size_t         pool_bytes, cursor; /* behind what was taken last */

/* Who takes turns: bytes of a matrix, and what multiplies those of turn i. */
typedef struct contestant {
    const char *name;
    size_t      bytes;
    int         turns;
    void (*run)(struct contestant *c, int i);
    /* ours */
    const hd_op *op;
    hd_gemm_args args;
    /* ggml's */
    struct ggml_cgraph *graph[MAX_TURNS];
    ggml_backend_t      backend;
    double              seconds[MAX_ROUNDS], cpu[MAX_ROUNDS];
} contestant;

static contestant all[MAX_NAMES];
static int        n_all;

static void fail(const char *what)
{
    fprintf(stderr, "ggml_gemv: %s\n", what);
    exit(1);
}

/* Bytes that are harmless as codes and as scales of any of the formats: E4M3, E8M0 or f16. */
static void fill(unsigned char *to, size_t bytes)
{
    unsigned long long r = 1;
    for (size_t i = 0; i < bytes; i++) {
        r = r * 6364136223846793005ULL + 1442695040888963407ULL;
        to[i] = (unsigned char)(0x30 + (r >> 60));
    }
}

static void make_pool(void)
{
    long const cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    pool_bytes = 3 * (cache > 192 << 20 ? (size_t)cache : (size_t)192 << 20);
    pool = aligned_alloc(4096, pool_bytes / 4096 * 4096);
    if (!pool) fail("no memory");
    fill(pool, pool_bytes / 4096 * 4096);
}

/* The turn whose matrices lie behind those that were used last. */
static int next_turn(const contestant *c)
{
    size_t const each = c->bytes * TURN, turn = (cursor + each - 1) / each;
    size_t const taken = turn < (size_t)c->turns ? turn : 0;
    cursor = (taken + 1) * each;
    return (int)taken;
}

static contestant *add(const char *name, size_t bytes, void (*run)(contestant *, int))
{
    contestant *const c = &all[n_all++];
    c->name = name;
    c->bytes = bytes;
    c->turns = (int)(pool_bytes / (bytes * TURN));
    if (c->turns > MAX_TURNS) c->turns = MAX_TURNS;
    c->run = run;
    return c;
}

/* ---- the read ---- */

static void read_lines(const void *memory, int64_t begin, int64_t end)
{
    static volatile uint64_t seen;
    const uint64_t          *w = (const uint64_t *)memory + begin * 8;
    uint64_t                 sum[8] = {0};
    for (; w < (const uint64_t *)memory + end * 8; w += 8) {
        __builtin_prefetch(w + 512);
        for (int i = 0; i < 8; i++) sum[i] |= w[i];
    }
    for (int i = 0; i < 8; i++) seen |= sum[i];
}

static void run_read(contestant *c, int turn)
{
    hd_work const w = {(int64_t)(c->bytes / 64), 1, 16};
    for (int i = 0; i < TURN; i++)
        hd_team_run(stream, &w, read_lines, pool + (size_t)(turn * TURN + i) * c->bytes);
}

/* ---- ours ---- */

static void run_ours(contestant *c, int turn)
{
    hd_kernel_choice const choice = hd_kernel_choice_of(isa);
    const hd_kernel *const k = hd_kernel_select(&choice, c->op, &c->args);
    if (!k) fail("no kernel");
    for (int i = 0; i < TURN; i++) {
        hd_gemm_args a = c->args;
        a.w = pool + (size_t)(turn * TURN + i) * c->bytes;
        if (c->op != &hd_op_gemm_fp8)
            a.sf = (const char *)a.w + (size_t)N * N / 2;
        else
            a.sf = x; /* one for 128 x 128 */
        if (k->run(&a, stream) != HD_OK) fail("a kernel failed");
    }
}

static void add_ours(const char *name, const hd_op *op, double bytes, bool has_codes)
{
    contestant *const c = add(name, (size_t)(bytes * N * N), run_ours);
    c->op = op;
    c->args = (hd_gemm_args){.x = x, .y = y, .t = tokens, .n = N, .k = N, .g = 1, .w_scale = 1};
    if (!has_codes) return;
    unsigned char *const codes = malloc((size_t)tokens * N);
    float *const         scale = malloc((size_t)tokens * sizeof *scale);
    if (!codes || !scale) fail("no memory");
    fill(codes, (size_t)tokens * N);
    for (int i = 0; i < tokens; i++) scale[i] = 1;
    c->args.has_codes = true;
    c->args.x_codes = codes;
    c->args.x_sf = codes + (size_t)tokens * N / 2;
    c->args.x_scale = scale;
}

/* ---- ggml's ---- */

typedef struct kind {
    const char    *name;
    enum ggml_type type;
    bool           is_repacked;
} kind;
#include "rounds.h"
#include GGML_KINDS /* kinds[], find_repack: which ggml this is */

static void run_ggml(contestant *c, int turn)
{
    if (ggml_backend_graph_compute(c->backend, c->graph[turn]) != GGML_STATUS_SUCCESS)
        fail("ggml_backend_graph_compute");
}

/* Weights lie in the pool, or where `kind` puts them, moved for kernels of its own. */
static void add_ggml(const char *name, enum ggml_type type, ggml_backend_buffer_type_t kind)
{
    contestant *const          c = add(name, ggml_row_size(type, N) * N, run_ggml);
    int const                  n = c->turns * TURN;
    size_t const               meta = ggml_tensor_overhead() * (size_t)(n + 1) + 1024;
    struct ggml_context *const weights = ggml_init((struct ggml_init_params){meta, NULL, true});
    struct ggml_context *const work = ggml_init((struct ggml_init_params){
        (ggml_tensor_overhead() + (size_t)N * 8 * (size_t)tokens) * (size_t)(n + 1) +
            ggml_graph_overhead() * (size_t)c->turns,
        NULL, false});
    if (!weights || !work) fail("ggml_init");
    struct ggml_tensor *w[MAX_TURNS * TURN];
    for (int i = 0; i < n; i++) w[i] = ggml_new_tensor_2d(weights, type, N, N);
    if (kind && !ggml_backend_alloc_ctx_tensors_from_buft(weights, kind))
        fail("no memory for ggml");
    struct ggml_tensor *const in = ggml_new_tensor_2d(work, GGML_TYPE_F32, N, tokens);
    memcpy(in->data, x, (size_t)N * (size_t)tokens * sizeof *x);
    for (int i = 0; i < n; i++) {
        if (kind)
            ggml_backend_tensor_set(w[i], pool, 0, c->bytes);
        else
            w[i]->data = pool + (size_t)i * c->bytes;
        if (i % TURN == 0) c->graph[i / TURN] = ggml_new_graph(work);
        ggml_build_forward_expand(c->graph[i / TURN], ggml_mul_mat(work, w[i], in));
    }
    c->backend = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(c->backend, threads);
}

/* ---- the table ---- */

static void measure(void)
{
    for (int r = -1; r < rounds; r++)
        for (contestant *c = all; c < all + n_all; c++) {
            double const start = clock_of(CLOCK_MONOTONIC),
                         cpu = clock_of(CLOCK_PROCESS_CPUTIME_ID);
            c->run(c, next_turn(c));
            if (r < 0) continue;
            c->seconds[r] = clock_of(CLOCK_MONOTONIC) - start;
            c->cpu[r] = clock_of(CLOCK_PROCESS_CPUTIME_ID) - cpu;
        }
}

static void print(void)
{
    printf("%d token%s, 4096 x 4096, %d thread%s, %d rounds\n", tokens, tokens == 1 ? "" : "s",
           threads, threads == 1 ? "" : "s", rounds);
    printf("%-24s %8s %8s %8s\n", "", "GB/s", "cpu GB/s", "% read");
    for (contestant *c = all; c < all + n_all; c++) {
        double       share[MAX_ROUNDS];
        double const bytes = (double)c->bytes * TURN * 1e-9;
        for (int r = 0; r < rounds; r++)
            share[r] =
                100 * bytes / c->cpu[r] * all[0].cpu[r] / ((double)all[0].bytes * TURN * 1e-9);
        printf("%-24s %8.2f %8.2f %8.1f\n", c->name, bytes / median(c->seconds, rounds),
               bytes / median(c->cpu, rounds) * threads, median(share, rounds));
    }
}

int main(int argc, char **argv)
{
    hd_error err = {0};
    if (argc > 1) tokens = atoi(argv[1]);
    if (argc > 2) threads = atoi(argv[2]);
    if (argc > 3) rounds = atoi(argv[3]);
    isa = hd_cpu_isa();
    if (tokens < 1 || threads < 1 || rounds < 1 || rounds > MAX_ROUNDS ||
        (argc > 4 && hd_isa_parse(&isa, argv[4], &err) != HD_OK))
        fail("wrong arguments");
    hd_team *team = NULL;
    if (hd_team_open(&team, threads, NULL, &err) != HD_OK) fail(err.message);
    stream = hd_team_stream(team);
    x = malloc((size_t)tokens * N * sizeof *x);
    y = malloc((size_t)tokens * N * sizeof *y);
    if (!x || !y) fail("no memory");
    for (int i = 0; i < tokens * N; i++) x[i] = (float)(i % 17 + 1) / 16;
    make_pool();
    add("read", (size_t)N * N / 2, run_read);
    add_ours("hadal nvfp4 w4a4", &hd_op_gemm_nvfp4, 0.5625, true);
    add_ours("hadal nvfp4 f32", &hd_op_gemm_nvfp4, 0.5625, false);
    add_ours("hadal mxfp4 f32", &hd_op_gemm_mxfp4, 0.53125, false);
    add_ours("hadal fp8 f32", &hd_op_gemm_fp8, 1, false);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (!kinds[i].is_repacked || find_repack())
            add_ggml(kinds[i].name, kinds[i].type, kinds[i].is_repacked ? find_repack() : NULL);
    measure();
    print();
    hd_team_close(team);
    return 0;
}
