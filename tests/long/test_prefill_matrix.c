/* Prefill is decode, at every length around which something changes: whatever the chunks, and
 * after each fork, restore and rewind, the saved session has the bytes that decoding token by
 * token gives: tokens, logits, rings and compressed rows.
 *
 *     make build/tests/long/test_prefill_matrix && build/tests/long/test_prefill_matrix [CASE]
 *
 * Takes minutes, so it is not among the tests that always run; those look at fewer lengths. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../support/golden.h"
#include "base/file.h"

#define LONGEST   514
#define RANDOM    128 /* most tokens of a random chunk */
#define N_RANDOM  24  /* runs */
#define MAX_BYTES ((size_t)1 << 26)

typedef struct matrix_case {
    const char *name;
    hd_act      act;
    hd_kv       kv;
} matrix_case;
static const matrix_case cases[] = {{"f32", HD_ACT_EXACT, HD_KV_F32},
                                    {"bf16", HD_ACT_EXACT, HD_KV_BF16},
                                    {"fp8", HD_ACT_OFFICIAL, HD_KV_FP8},
                                    {"nvfp4", HD_ACT_NVFP4, HD_KV_NVFP4},
                                    {"f32 nvfp4", HD_ACT_NVFP4, HD_KV_F32}};
#define N_CASES ((int32_t)(sizeof cases / sizeof cases[0]))

typedef struct snapshot {
    char   *data; /* owned by its pool */
    size_t  bytes;
    hd_pool pool;
} snapshot;

typedef struct matrix {
    const matrix_case *c;
    snapshot           at[LONGEST + 2]; /* what decoding leaves after so many tokens */
    int64_t            n_compared, n_bytes, n_tokens;
} matrix;

static char folder[64], path[80];

/* Also the one after, on which states must go on. */
static bool is_looked_at(int32_t n) { return (n >= 1 && n <= 261) || (n >= 511 && n <= 515); }

static int32_t token_at(int32_t i) { return (int32_t)((uint32_t)i * 2654435761u >> 21) % 2000 + 3; }

static hd_engine *open_chunks(const matrix *m, int32_t chunk)
{
    hd_error         err = {0};
    hd_engine       *e = NULL;
    hd_options const o = {.model = "models/demo",
                          .act = m->c->act,
                          .kv = m->c->kv,
                          .max_tokens = LONGEST + 1,
                          .chunk = chunk,
                          .n_sessions = 2};
    if (hd_engine_open(&e, &o, &err) != HD_OK) fail_msg("%s", err.message);
    return e;
}

static hd_session *open_session(hd_engine *e)
{
    hd_session *s = NULL;
    assert_int_equal(hd_session_open(&s, e, NULL), HD_OK);
    return s;
}

static void expect_ok(hd_status status, const hd_error *err)
{
    if (status != HD_OK) fail_msg("%s", err->message);
}

static void eval(matrix *m, hd_session *s, int32_t n)
{
    int32_t  tokens[LONGEST + 1];
    hd_error err = {0};
    for (int32_t i = 0; i < n; i++) tokens[i] = token_at(s->length + i);
    expect_ok(hd_session_eval(s, tokens, n, &err), &err);
    m->n_tokens += n;
}

static snapshot take_snapshot(const hd_session *s)
{
    hd_error err = {0};
    snapshot shot = {0};
    expect_ok(hd_session_save(s, path, &err), &err);
    expect_ok(hd_file_read(&shot.data, &shot.bytes, path, MAX_BYTES, &shot.pool, &err), &err);
    return shot;
}

static void compare(matrix *m, const hd_session *s, const char *how, int32_t detail)
{
    const snapshot *const want = &m->at[s->length];
    snapshot              got = take_snapshot(s);
    size_t                at = 0;
    if (got.bytes != want->bytes)
        fail_msg("%s %d: %zu bytes after %d tokens, wanted %zu", how, detail, got.bytes, s->length,
                 want->bytes);
    while (at < got.bytes && got.data[at] == want->data[at]) at++;
    if (at < got.bytes)
        fail_msg("%s %d: byte %zu of %zu after %d tokens differs", how, detail, at, got.bytes,
                 s->length);
    hd_pool_free(&got.pool);
    m->n_compared++;
    m->n_bytes += (int64_t)want->bytes;
}

static void decode(matrix *m)
{
    hd_engine *const  e = open_chunks(m, 1);
    hd_session *const s = open_session(e);
    while (s->length <= LONGEST) {
        eval(m, s, 1);
        if (is_looked_at(s->length)) m->at[s->length] = take_snapshot(s);
    }
    hd_engine_close(e);
}

/* ---- chunks ---- */

/* Every length in chunks of this size; whole chunks before the last are shared. */
static void check_chunks(matrix *m, int32_t chunk)
{
    hd_error          err = {0};
    hd_engine *const  e = open_chunks(m, chunk);
    hd_session *const base = open_session(e), *const s = open_session(e);
    for (int32_t n = 1; n <= LONGEST; n++) {
        if (!is_looked_at(n)) continue;
        while (base->length + chunk < n) eval(m, base, chunk);
        expect_ok(hd_session_fork(s, base, &err), &err);
        eval(m, s, n - s->length);
        compare(m, s, "chunks of", chunk);
    }
    hd_engine_close(e);
}

static int32_t draw(uint32_t *seed, int32_t most)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (int32_t)((*seed >> 8) % (uint32_t)most) + 1;
}

static void check_random_chunks(matrix *m)
{
    uint32_t          seed = 1;
    hd_engine *const  e = open_chunks(m, RANDOM);
    hd_session *const s = open_session(e);
    for (int32_t run = 0; run < N_RANDOM; run++) {
        int32_t const most = run % 2 ? RANDOM : 12;
        hd_session_reset(s);
        while (s->length < LONGEST) {
            int32_t const step = draw(&seed, most), left = LONGEST - s->length;
            eval(m, s, step < left ? step : left);
            if (is_looked_at(s->length)) compare(m, s, "random chunks, run", run);
        }
    }
    hd_engine_close(e);
}

/* ---- changes of state ---- */

static void write_file(const snapshot *shot)
{
    FILE *const f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(shot->data, 1, shot->bytes, f), shot->bytes);
    assert_int_equal(fclose(f), 0);
}

/* At every length: restored, forked, and both one token further. */
static void check_copies(matrix *m)
{
    hd_error          err = {0};
    hd_engine *const  e = open_chunks(m, 7);
    hd_session *const s = open_session(e), *const fork = open_session(e);
    for (int32_t n = 1; n <= LONGEST; n++) {
        if (!is_looked_at(n) || !is_looked_at(n + 1)) continue;
        write_file(&m->at[n]);
        expect_ok(hd_session_restore(s, path, &err), &err);
        compare(m, s, "restored at", n);
        expect_ok(hd_session_fork(fork, s, &err), &err);
        compare(m, fork, "forked at", n);
        eval(m, s, 1);
        compare(m, s, "on from a file of", n);
        eval(m, fork, 1);
        compare(m, fork, "on from a fork at", n);
    }
    hd_engine_close(e);
}

static void check_edges(matrix *m, hd_session *s, int32_t n)
{
    hd_error err = {0};
    int32_t  edge = (n - 1) / HD_CACHE_EDGE * HD_CACHE_EDGE;
    for (; edge > 0; edge -= HD_CACHE_EDGE) {
        expect_ok(hd_session_rewind(s, edge, &err), &err);
        eval(m, s, n - edge);
        compare(m, s, "back and on from", edge);
    }
}

/* From every length behind an edge, and some before, to each edge that is kept and to the
 * beginning, and forward again in one call. */
static void check_rewinds(matrix *m)
{
    hd_error          err = {0};
    hd_engine *const  e = open_chunks(m, RANDOM);
    hd_session *const s = open_session(e);
    for (int32_t n = 1; n <= LONGEST; n++) {
        if (!is_looked_at(n) || (n < 255 && n % 16 != 1)) continue;
        expect_ok(hd_session_rewind(s, 0, &err), &err);
        eval(m, s, n);
        expect_ok(hd_session_rewind(s, n, &err), &err);
        compare(m, s, "from 0 to", n);
        check_edges(m, s, n);
    }
    hd_engine_close(e);
}

static void test_matrix(void **state)
{
    static const int32_t chunks[] = {1, 2, 3, 7, 64, 128};
    static matrix        m;
    m = (matrix){.c = *state};
    decode(&m);
    for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++) check_chunks(&m, chunks[i]);
    check_random_chunks(&m);
    check_copies(&m);
    check_rewinds(&m);
    for (int32_t n = 0; n <= LONGEST + 1; n++) hd_pool_free(&m.at[n].pool);
    print_message("%s: %lld states of %.1f MB together equal, %lld tokens evaluated\n", m.c->name,
                  (long long)m.n_compared, (double)m.n_bytes / 1e6, (long long)m.n_tokens);
}

/* In memory where the system has a folder for that: each save waits for its disk. */
static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "%s/hadal-matrix-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof path, "%s/session", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[N_CASES];
    for (int32_t i = 0; i < N_CASES; i++)
        tests[i] = (struct CMUnitTest){cases[i].name, test_matrix, NULL, NULL,
                                       (void *)(uintptr_t)&cases[i]};
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
