#include "doctor/selftest.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_write.h"
#include "doctor/kernel_check.h"
#include "engine/engine.h"

#define FEWEST_TOKENS 4
#define USUAL_TOKENS  264 /* a page and a few */
#define MOST_TOKENS   600 /* to reach the indexer's choice, not more */
#define KERNEL_CHUNK  48  /* tokens of a pass that kernels are checked in */
#define N_ALONE       3   /* passes of a single token behind those        */
#define MAX_EDGES     64
#define PAGE          256 /* tokens; as hd_session_rewind has it */

typedef struct selftest {
    hd_engine                 *e;
    const hd_selftest_options *opt;
    hd_buffer                 *out;
    int32_t                   *tokens; /* [n] */
    int32_t                    n, vocab;
    int32_t                    edges[MAX_EDGES]; /* lengths, rising, the last is n */
    int32_t                    n_edges, n_unreached;
    bool                       is_exact; /* passes of any size give the same bits */
    float                     *at_edges; /* [n_edges, vocab] logits, token by token */
    int32_t                    n_passed, n_failed;
    hd_session                *a, *b;
    hd_pool                    pool;
} selftest;

/* ---- lines of the table ---- */

static void add_line(selftest *t, const char *name, int64_t n, double worst, const char *fault)
{
    bool const ok = fault[0] == '\0';
    t->n_passed += ok;
    t->n_failed += !ok;
    if (t->opt->is_json) {
        hd_json_write_open(t->out, NULL, '{');
        hd_json_write_text(t->out, "check", name);
        hd_json_write_count(t->out, "n", n);
        hd_json_write_number(t->out, "worst", worst);
        hd_json_write_flag(t->out, "ok", ok);
        hd_json_write_text(t->out, "fault", fault);
        hd_buffer_text(t->out, "}");
        return;
    }
    hd_buffer_printf(t->out, "%-32s %8" PRId64 " %12.3g  %s\n", name, n, worst, ok ? "ok" : fault);
}

/* ---- what is read ---- */

static int32_t token_at(int32_t i, int32_t vocab)
{
    return (int32_t)(((uint64_t)(uint32_t)i * 2654435761u >> 8) % (uint64_t)vocab);
}

static int compare_ints(const void *a, const void *b)
{
    return (*(const int32_t *)a > *(const int32_t *)b) -
           (*(const int32_t *)a < *(const int32_t *)b);
}

/* Adds the lengths around `at`. */
static void add_edge(selftest *t, int32_t at)
{
    for (int32_t n = at - 1; n <= at + 1; n++) {
        if (n < 1 || t->n_edges == MAX_EDGES - 1) continue;
        if (n <= t->n)
            t->edges[t->n_edges++] = n;
        else
            t->n_unreached++;
    }
}

static void list_edges(selftest *t)
{
    const hd_config *const c = t->e->model.config;
    bool                   has[2] = {false, false}; /* ratios 4, 128 */
    for (int32_t l = 0; l < c->n_layers; l++) {
        has[0] = has[0] || c->ratios[l] == 4;
        has[1] = has[1] || c->ratios[l] == 128;
    }
    add_edge(t, 2);
    add_edge(t, c->window);
    if (has[0]) add_edge(t, 4);
    if (has[0]) add_edge(t, 8);
    if (has[1]) add_edge(t, 128);
    add_edge(t, PAGE);
    add_edge(t, t->e->options.chunk);
    /* One group fewer than the indexer may choose, as many, one more. */
    if (has[0]) add_edge(t, 4 * c->index_topk);
    if (has[0]) add_edge(t, 4 * (c->index_topk + 1));
    t->edges[t->n_edges++] = t->n;
    qsort(t->edges, (size_t)t->n_edges, sizeof t->edges[0], compare_ints);
    int32_t used = 0;
    for (int32_t i = 0; i < t->n_edges; i++)
        if (used == 0 || t->edges[used - 1] != t->edges[i]) t->edges[used++] = t->edges[i];
    t->n_edges = used;
}

int32_t hd_selftest_tokens(const hd_engine *e)
{
    const hd_config *const c = e->model.config;
    int32_t                n = 4 * (c->index_topk + 1) + 2;
    if (n < USUAL_TOKENS || n > MOST_TOKENS) n = USUAL_TOKENS;
    return n < c->max_positions ? n : c->max_positions;
}

static hd_status prepare(selftest *t, hd_error *err)
{
    t->vocab = t->e->model.config->n_vocab;
    t->n = t->e->options.max_tokens;
    if (t->n < FEWEST_TOKENS || t->e->options.n_sessions < 2)
        HD_FAIL(err, HD_ERR_INVALID, "a self-test wants a context of %d tokens and two sessions",
                FEWEST_TOKENS);
    list_edges(t);
    t->tokens = hd_pool_alloc(&t->pool, (size_t)t->n * sizeof *t->tokens);
    t->at_edges = hd_pool_alloc(&t->pool, (size_t)t->n_edges * (size_t)t->vocab * sizeof(float));
    if (!t->tokens || !t->at_edges) HD_FAIL(err, HD_ERR_MEMORY, "no memory for a self-test");
    for (int32_t i = 0; i < t->n; i++) t->tokens[i] = token_at(i, t->vocab);
    return HD_OK;
}

/* ---- kernels ---- */

static hd_status check_pass(selftest *t, hd_kernel_check *c, const hd_pass_run *run, hd_error *err)
{
    hd_pass_run    with = *run;
    const hd_plan *plan = NULL;
    with.after = hd_kernel_check_step;
    with.user = c;
    HD_TRY(hd_engine_plan(t->e, &with, &plan, err));
    HD_TRY(hd_kernel_check_begin(c, plan, err));
    return hd_engine_run(t->e, &with, err);
}

/* Chunks, then single tokens; behind the last chunk the MTP block too. */
static hd_status check_passes(selftest *t, hd_kernel_check *c, hd_error *err)
{
    int32_t const most = t->e->options.chunk < KERNEL_CHUNK ? t->e->options.chunk : KERNEL_CHUNK;
    int32_t const alone = t->n > N_ALONE ? t->n - N_ALONE : 0;
    for (int32_t at = 0, n; at < t->n; at += n) {
        n = at >= alone ? 1 : alone - at < most ? alone - at : most;
        hd_pass_run run = {.tokens = t->tokens + at, .n = n, .pos = at, .rows = HD_LOGITS_LAST};
        HD_TRY(check_pass(t, c, &run, err));
        if (!t->e->options.has_mtp || at + n != alone) continue;
        run.is_mtp = true;
        run.next = run.tokens + 1;
        HD_TRY(check_pass(t, c, &run, err));
    }
    return HD_OK;
}

static void add_kernels(selftest *t, const hd_kernel_check *c)
{
    for (int32_t i = 0; i < c->n; i++) {
        const hd_kernel_result *const r = &c->results[i];
        if (r->steps > 0) add_line(t, r->kernel->name, r->steps, r->worst, r->fault);
    }
}

static hd_status check_kernels(selftest *t, hd_error *err)
{
    hd_kernel_check c;
    hd_status       s =
        hd_kernel_check_open(&c, hd_kernels, hd_n_kernels, t->e->options.isa, t->e->device, err);
    pthread_mutex_lock(&t->e->lock);
    if (s == HD_OK) s = check_passes(t, &c, err);
    pthread_mutex_unlock(&t->e->lock);
    if (s == HD_OK) add_kernels(t, &c);
    hd_kernel_check_close(&c);
    return s;
}

/* ---- bits of logits ---- */

static void say(char fault[256], const char *fmt, ...) HD_PRINTF(2, 3);
static void say(char fault[256], const char *fmt, ...)
{
    va_list ap;
    if (fault[0]) return; /* the first one stands */
    va_start(ap, fmt);
    vsnprintf(fault, 256, fmt, ap);
    va_end(ap);
}

/* Compares the logits of a session with those at edge i; notes the first that differs. */
static hd_status compare_logits(const selftest *t, hd_session *s, int32_t i, char fault[256],
                                hd_error *err)
{
    const float       *got = NULL;
    const float *const want = t->at_edges + (int64_t)i * t->vocab;
    HD_TRY(hd_session_logits(s, &got, err));
    for (int32_t v = 0; v < t->vocab; v++) {
        if (!isfinite(got[v]))
            say(fault, "length %d: logit %d is %f", t->edges[i], v, (double)got[v]);
        if (memcmp(&got[v], &want[v], sizeof got[v]) != 0)
            say(fault, "length %d: logit %d is %.9g, %s it is %.9g", t->edges[i], v, (double)got[v],
                t->is_exact ? "token by token" : "at first", (double)want[v]);
    }
    return HD_OK;
}

/* Whether passes of one token and of n run the same kernels. */
static hd_status compare_kernels(selftest *t, int32_t n, bool *is_same, hd_error *err)
{
    /* Of all rows: to leave some out is a step more. */
    hd_pass_run const run = {.tokens = t->tokens, .n = n, .rows = HD_LOGITS_ALL};
    hd_pass_run       one = run;
    const hd_plan    *a = NULL, *b = NULL;
    one.n = 1;
    HD_TRY(hd_engine_plan(t->e, &one, &a, err));
    HD_TRY(hd_engine_plan(t->e, &run, &b, err));
    *is_same = a->n == b->n;
    for (int32_t i = 0; *is_same && i < a->n; i++)
        *is_same = a->steps[i].kernel == b->steps[i].kernel;
    return HD_OK;
}

/* Kernels of the host agree.  Of an accelerator those for many rows may differ from those for
 * few. */
static hd_status find_exactness(selftest *t, hd_error *err)
{
    int32_t const most = t->e->options.chunk < t->n ? t->e->options.chunk : t->n;
    hd_status     s = HD_OK;
    t->is_exact = true;
    if (!t->e->device) return HD_OK;
    pthread_mutex_lock(&t->e->lock);
    for (int32_t n = 2; s == HD_OK && t->is_exact && n <= most; n++)
        s = compare_kernels(t, n, &t->is_exact, err);
    pthread_mutex_unlock(&t->e->lock);
    return s;
}

/* Every logit at every edge, one token a pass: what all else is held against. */
static hd_status read_singly(selftest *t, hd_error *err)
{
    hd_session_reset(t->a);
    for (int32_t i = 0, edge = 0; i < t->n; i++) {
        const float *logits = NULL;
        HD_TRY(hd_session_eval(t->a, t->tokens + i, 1, err));
        if (i + 1 != t->edges[edge]) continue;
        HD_TRY(hd_session_logits(t->a, &logits, err));
        memcpy(t->at_edges + (int64_t)edge++ * t->vocab, logits, (size_t)t->vocab * sizeof *logits);
    }
    return HD_OK;
}

static hd_status read_at_once(selftest *t, hd_session *s, int32_t n, hd_error *err)
{
    hd_session_reset(s);
    return hd_session_eval(s, t->tokens, n, err);
}

/* What a session has read is what others are held against. */
static hd_status keep_logits(selftest *t, hd_session *s, hd_error *err)
{
    const float *logits = NULL;
    HD_TRY(hd_session_logits(s, &logits, err));
    memcpy(t->at_edges + (int64_t)(t->n_edges - 1) * t->vocab, logits,
           (size_t)t->vocab * sizeof *logits);
    return HD_OK;
}

static hd_status check_prefill(selftest *t, hd_error *err)
{
    char fault[256] = "";
    for (int32_t i = 0; i < t->n_edges; i++) {
        HD_TRY(read_at_once(t, t->b, t->edges[i], err));
        HD_TRY(compare_logits(t, t->b, i, fault, err));
    }
    add_line(t, "prefill is decode", t->n_edges, 0, fault);
    return HD_OK;
}

static hd_status check_repeated(selftest *t, hd_error *err)
{
    char fault[256] = "";
    for (int i = 0; i < 2; i++) {
        HD_TRY(read_at_once(t, i ? t->a : t->b, t->n, err));
        HD_TRY(compare_logits(t, i ? t->a : t->b, t->n_edges - 1, fault, err));
    }
    add_line(t, "the same tokens twice", 2, 0, fault);
    return HD_OK;
}

static hd_status read_in_pieces(selftest *t, hd_session *s, int32_t from, int32_t size,
                                hd_error *err)
{
    for (int32_t at = from; at < t->n; at += size)
        HD_TRY(hd_session_eval(s, t->tokens + at, t->n - at < size ? t->n - at : size, err));
    return HD_OK;
}

static hd_status check_pieces(selftest *t, hd_error *err)
{
    static const int32_t sizes[] = {3, 5, 31, 130};
    char                 fault[256] = "";
    int32_t const        n = sizeof sizes / sizeof sizes[0];
    for (int32_t i = 0; i < n; i++) {
        hd_session_reset(t->b);
        HD_TRY(read_in_pieces(t, t->b, 0, sizes[i], err));
        HD_TRY(compare_logits(t, t->b, t->n_edges - 1, fault, err));
    }
    add_line(t, "pieces of any size", n, 0, fault);
    return HD_OK;
}

/* Another sequence is read in between; then the second half is read from a fork. */
static hd_status check_neighbour(selftest *t, hd_error *err)
{
    char          fault[256] = "";
    int32_t const half = t->n / 2;
    HD_TRY(read_at_once(t, t->a, half, err));
    hd_session_reset(t->b);
    HD_TRY(hd_session_eval(t->b, t->tokens + half, t->n - half, err));
    HD_TRY(read_in_pieces(t, t->a, half, 17, err));
    HD_TRY(compare_logits(t, t->a, t->n_edges - 1, fault, err));
    add_line(t, "beside another sequence", 1, 0, fault);
    fault[0] = '\0';
    HD_TRY(read_at_once(t, t->a, half, err));
    HD_TRY(hd_session_fork(t->b, t->a, err));
    HD_TRY(read_in_pieces(t, t->b, half, 17, err));
    HD_TRY(compare_logits(t, t->b, t->n_edges - 1, fault, err));
    add_line(t, "in a fork", 1, 0, fault);
    return HD_OK;
}

static hd_status check_context(selftest *t, hd_error *err)
{
    char fault[256] = "";
    HD_TRY(read_at_once(t, t->b, t->n, err));
    if (hd_session_eval(t->b, t->tokens, 1, NULL) != HD_ERR_LIMIT)
        say(fault, "a token behind the end of the context was not refused");
    HD_TRY(compare_logits(t, t->b, t->n_edges - 1, fault, err));
    add_line(t, "end of the context", 1, 0, fault);
    return HD_OK;
}

/* Passes are held against passes of the same sizes. */
static hd_status check_alike(selftest *t, hd_error *err)
{
    HD_TRY(read_at_once(t, t->a, t->n, err));
    HD_TRY(keep_logits(t, t->a, err));
    HD_TRY(check_repeated(t, err));
    HD_TRY(check_context(t, err));
    HD_TRY(read_at_once(t, t->a, t->n / 2, err));
    HD_TRY(read_in_pieces(t, t->a, t->n / 2, 17, err));
    HD_TRY(keep_logits(t, t->a, err));
    return check_neighbour(t, err);
}

static hd_status check_sessions(selftest *t, hd_error *err)
{
    HD_TRY(find_exactness(t, err));
    if (!t->is_exact) return check_alike(t, err);
    HD_TRY(read_singly(t, err));
    HD_TRY(check_repeated(t, err));
    HD_TRY(check_prefill(t, err));
    HD_TRY(check_pieces(t, err));
    HD_TRY(check_neighbour(t, err));
    return check_context(t, err);
}

/* ---- the whole ---- */

static void print_head(const selftest *t)
{
    if (t->opt->is_json)
        hd_buffer_printf(t->out, "{\"tokens\":%d,\"checks\":[", t->n);
    else
        hd_buffer_printf(t->out, "%-32s %8s %12s  verdict\n", "check", "n", "of limit");
}

static void print_end(const selftest *t)
{
    if (t->opt->is_json) {
        hd_buffer_text(t->out, "]");
        hd_json_write_count(t->out, "unreached", t->n_unreached);
        hd_json_write_flag(t->out, "exact", t->is_exact);
        hd_json_write_count(t->out, "passed", t->n_passed);
        hd_json_write_count(t->out, "failed", t->n_failed);
        hd_buffer_text(t->out, "}\n");
        return;
    }
    if (!t->is_exact)
        hd_buffer_text(t->out, "\npasses of many tokens run other kernels than those of few, so "
                               "they need not have the same bits: not held against each other\n");
    if (t->n_unreached)
        hd_buffer_printf(t->out, "\n%d lengths around an edge are beyond %d tokens: not tried\n",
                         t->n_unreached, t->n);
    hd_buffer_printf(t->out, "\n%d checks passed, %d failed\n", t->n_passed, t->n_failed);
}

static hd_status test(selftest *t, hd_error *err)
{
    HD_TRY(prepare(t, err));
    print_head(t);
    HD_TRY(check_kernels(t, err));
    HD_TRY(hd_session_open(&t->a, t->e, err));
    HD_TRY(hd_session_open(&t->b, t->e, err));
    HD_TRY(check_sessions(t, err));
    print_end(t);
    if (t->out->failed) HD_FAIL(err, HD_ERR_MEMORY, "no memory for the report");
    return HD_OK;
}

hd_status hd_selftest(hd_engine *e, const hd_selftest_options *opt, hd_buffer *out,
                      int32_t *n_failed, hd_error *err)
{
    selftest        t = {.e = e, .opt = opt, .out = out};
    hd_status const s = test(&t, err);
    if (t.a) hd_session_close(t.a);
    if (t.b) hd_session_close(t.b);
    hd_pool_free(&t.pool);
    *n_failed = t.n_failed;
    return s;
}
