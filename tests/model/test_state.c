/* Sessions as state: forked, taken back, saved and restored ones continue with the bits of one
 * run; a file that is not what was saved is refused and changes nothing. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../support/fail_each.h"
#include "../support/golden.h"
#include "base/digest.h"
#include "base/file.h"

#define LONGEST 520
#define NEXT    5 /* tokens that must have equal bits after each change of state */

#define OFFICIAL "tests/models/tiny512-official"
#define DEMO     "models/demo"

static char folder[] = "/tmp/hadal-state-XXXXXX";
static char path[sizeof folder + 16];

static int32_t token_at(int32_t i) { return (int32_t)((uint32_t)i * 2654435761u >> 21) % 2000 + 3; }

static void fill_tokens(int32_t *tokens)
{
    for (int32_t i = 0; i < LONGEST; i++) tokens[i] = token_at(i);
}

static hd_engine *open_with(hd_options o)
{
    hd_error   err = {0};
    hd_engine *e = NULL;
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

static void eval(hd_session *s, int32_t n)
{
    int32_t  tokens[LONGEST];
    hd_error err = {0};
    fill_tokens(tokens);
    expect_ok(hd_session_eval(s, tokens + s->length, n, &err), &err);
}

static size_t logit_bytes(const hd_session *s)
{
    return (size_t)s->engine->model.config->n_vocab * sizeof(float);
}

/* ---- the run that all others are compared with ---- */

typedef struct reference {
    char  *logits; /* [LONGEST] rows after each token; owned */
    size_t bytes;  /* of a row */
} reference;

static void check_logits(const reference *r, const hd_session *s, const char *how)
{
    if (memcmp(s->logits, r->logits + (size_t)(s->length - 1) * r->bytes, r->bytes) != 0)
        fail_msg("%s: logits after %d tokens differ", how, s->length);
}

static void check_next(const reference *r, hd_session *s, const char *how)
{
    for (int32_t i = 0; i < NEXT && s->length < LONGEST; i++) {
        eval(s, 1);
        check_logits(r, s, how);
    }
}

static bool is_looked_at(int32_t n)
{
    return n <= 10 || (n >= 126 && n <= 130) || (n >= 252 && n <= 260) || (n >= 511 && n <= 514);
}

/* ---- forks, files and going back, in every format ---- */

typedef struct state_case {
    const char *name, *model;
    hd_act      act;
    hd_kv       kv;
} state_case;
static const state_case cases[] = {
    {"f32", DEMO, HD_ACT_EXACT, HD_KV_F32},
    {"bf16", DEMO, HD_ACT_EXACT, HD_KV_BF16},
    {"fp8", DEMO, HD_ACT_EXACT, HD_KV_FP8},
    {"nvfp4", DEMO, HD_ACT_NVFP4, HD_KV_NVFP4},
};
#define N_CASES (int32_t)(sizeof cases / sizeof cases[0])

static const char *file_of(int32_t n)
{
    static char name[sizeof path + 8];
    snprintf(name, sizeof name, "%s.%d", path, n);
    return name;
}

/* The state after n tokens goes on in another engine, and in a fork in this one. */
static void check_copies(const reference *r, int32_t n, hd_session *fork, hd_session *other)
{
    hd_error    err = {0};
    hd_session *s = &fork->engine->sessions[0];
    int32_t     tokens[LONGEST];
    fill_tokens(tokens);
    expect_ok(hd_session_restore(other, file_of(n), &err), &err);
    expect_ok(hd_session_restore(s, file_of(n), &err), &err);
    expect_ok(hd_session_fork(fork, s, &err), &err);
    unlink(file_of(n));
    assert_int_equal(fork->length, n);
    assert_int_equal(other->length, n);
    assert_memory_equal(hd_session_tokens(other), tokens, (size_t)n * sizeof *tokens);
    check_logits(r, fork, "fork");
    check_logits(r, other, "restored");
    check_next(r, fork, "fork");
    check_next(r, other, "restored");
}

static void expect_refused(hd_session *s, int32_t n, hd_status want, const char *message)
{
    hd_error err = {0};
    assert_int_equal(hd_session_rewind(s, n, &err), want);
    assert_string_equal(err.message, message);
}

/* From 520 tokens to 512, to 256, and on from there again. */
static void check_rewind(const reference *r, hd_session *s, const char *how)
{
    hd_error err = {0};
    expect_refused(s, 500, HD_ERR_INVALID,
                   "cannot go back to 500 tokens: wanted 0, 520 or a multiple of 256");
    expect_refused(s, 521, HD_ERR_INVALID, "cannot go back to 521 tokens, there are 520");
    expect_refused(s, -256, HD_ERR_INVALID, "cannot go back to -256 tokens, there are 520");
    expect_ok(hd_session_rewind(s, LONGEST, &err), &err);
    check_logits(r, s, how);
    for (int32_t n = 512; n > 0; n -= 256) {
        expect_ok(hd_session_rewind(s, n, &err), &err);
        assert_int_equal(s->length, n);
        assert_int_equal(hd_session_logits(s, &(const float *){NULL}, NULL), HD_ERR_INVALID);
        check_next(r, s, how);
    }
    expect_refused(s, 512, HD_ERR_INVALID, "cannot go back to 512 tokens, there are 261");
    expect_ok(hd_session_rewind(s, 0, &err), &err);
    check_next(r, s, how);
}

/* A fork has the marks of what it was made from, and what one of them does is not the other's
 * concern. */
static void check_forked_marks(const reference *r, hd_session *s, hd_session *fork)
{
    hd_error err = {0};
    expect_ok(hd_session_fork(fork, s, &err), &err);
    check_rewind(r, s, "back");
    expect_ok(hd_session_rewind(fork, 256, &err), &err);
    check_next(r, fork, "back in a fork");
    if (s->engine->options.kv != HD_KV_FP8) return; /* one format will do */
    eval(fork, 512 - fork->length);
    check_logits(r, fork, "on in a fork");
}

/* One run, token by token, that leaves a file at each length that is looked at. */
static void run_reference(reference *r, hd_session *s)
{
    hd_error err = {0};
    for (int32_t n = 1; n <= LONGEST; n++) {
        eval(s, 1);
        memcpy(r->logits + (size_t)(n - 1) * r->bytes, s->logits, r->bytes);
        if (is_looked_at(n)) expect_ok(hd_session_save(s, file_of(n), &err), &err);
    }
}

static void test_state(void **state)
{
    const state_case *const c = *state;
    hd_options              o = {.model = c->model,
                                 .act = c->act,
                                 .kv = c->kv,
                                 .max_tokens = LONGEST,
                                 .chunk = 100,
                                 .n_sessions = 2};
    hd_engine *const        e = open_with(o);
    o.chunk = 3, o.max_tokens = LONGEST + 100, o.n_sessions = 1;
    hd_engine *const  wide = open_with(o);
    hd_session *const s = open_session(e), *const fork = open_session(e);
    hd_session *const other = open_session(wide);
    reference         r = {.bytes = logit_bytes(s)};
    r.logits = hd_memory_alloc(LONGEST * r.bytes);
    assert_non_null(r.logits);
    hd_memory_seal();
    run_reference(&r, s);
    check_forked_marks(&r, s, fork);
    for (int32_t n = 1; n <= LONGEST; n++)
        if (is_looked_at(n)) check_copies(&r, n, fork, other);
    hd_memory_unseal();
    hd_memory_free(r.logits);
    hd_engine_close(wide);
    hd_engine_close(e);
}

/* ---- marks ---- */

/* Room for one: 256 gives way when the next edge is crossed, here by the same pass. */
static void keeps_the_last_edges(void **state)
{
    (void)state;
    int32_t          tokens[513] = {0};
    hd_error         err = {0};
    hd_engine *const e =
        open_with((hd_options){.model = DEMO, .max_tokens = 513, .chunk = 513, .marks = 1});
    hd_session *const s = open_session(e);
    expect_ok(hd_session_eval(s, tokens, 513, &err), &err);
    expect_refused(s, 256, HD_ERR_LIMIT, "no state is kept at 256 tokens; kept are: 512");
    expect_ok(hd_session_rewind(s, 512, &err), &err);
    expect_refused(s, 256, HD_ERR_LIMIT, "no state is kept at 256 tokens; kept are: 512");
    hd_engine_close(e);
}

static void keeps_no_edge_without_marks(void **state)
{
    (void)state;
    int32_t           tokens[257] = {0};
    hd_engine *const  e = open_with((hd_options){.model = DEMO, .max_tokens = 300, .marks = -1});
    hd_session *const s = open_session(e);
    assert_int_equal(hd_session_eval(s, tokens, 257, NULL), HD_OK);
    expect_refused(s, 256, HD_ERR_LIMIT, "no state is kept at 256 tokens; kept are: none");
    hd_engine_close(e);
}

/* ---- the end of the context ---- */

static void fills_the_context_exactly(void **state)
{
    (void)state;
    int32_t           tokens[131] = {0};
    hd_error          err = {0};
    hd_engine *const  e = open_with((hd_options){.model = DEMO, .max_tokens = 130, .chunk = 64});
    hd_session *const s = open_session(e);
    assert_int_equal(hd_session_eval(s, tokens, 131, &err), HD_ERR_LIMIT);
    assert_string_equal(err.message, "131 tokens after 0 do not fit a context of 130");
    expect_ok(hd_session_eval(s, tokens, 130, &err), &err);
    assert_int_equal(hd_session_eval(s, tokens, 1, &err), HD_ERR_LIMIT);
    assert_int_equal(s->length, 130);
    expect_ok(hd_session_save(s, path, &err), &err);
    expect_ok(hd_session_restore(s, path, &err), &err);
    hd_engine_close(e);
}

/* ---- files that are not what was saved ---- */

#define SAVED 130

typedef struct saved {
    hd_engine  *e;
    hd_session *s; /* of SAVED tokens */
    char       *file;
    size_t      bytes;
    hd_pool     pool;
} saved;

static saved make_saved(void)
{
    hd_options const o = {
        .model = DEMO, .act = HD_ACT_EXACT, .kv = HD_KV_FP8, .max_tokens = 256, .chunk = 64};
    hd_error err = {0};
    saved    v = {.e = open_with(o)};
    v.s = open_session(v.e);
    eval(v.s, SAVED);
    expect_ok(hd_session_save(v.s, path, &err), &err);
    expect_ok(hd_file_read(&v.file, &v.bytes, path, 1 << 26, &v.pool, &err), &err);
    return v;
}

static void free_saved(saved *v)
{
    hd_engine_close(v->e);
    hd_pool_free(&v->pool);
}

/* Refused with one message, and the session is as it was. */
static void expect_broken(const saved *v, const char *data, size_t bytes, hd_status want)
{
    hd_error       err = {0};
    uint8_t *const exact = bytes ? malloc(bytes) : NULL; /* so that reading past it is seen */
    if (bytes) memcpy(exact, data, bytes);
    hd_status const status = hd_session_parse(v->s, exact, bytes, "x", &err);
    free(exact);
    if (status == HD_OK) fail_msg("a broken file of %zu bytes was taken", bytes);
    if (want != HD_OK) assert_int_equal(status, want);
    assert_true(strncmp(err.message, "x: ", 3) == 0);
    assert_int_equal(v->s->length, SAVED);
    assert_true(v->s->has_logits);
}

static void refuses_every_changed_byte(void **state)
{
    (void)state;
    saved v = make_saved();
    for (size_t at = 0; at < v.bytes; at += at < 80 ? 1 : v.bytes / 211)
        for (int bit = 0; bit < 8; bit += at < 80 ? 1 : 5) {
            v.file[at] = (char)(v.file[at] ^ (1 << bit));
            expect_broken(&v, v.file, v.bytes, HD_OK);
            v.file[at] = (char)(v.file[at] ^ (1 << bit));
        }
    assert_int_equal(hd_session_parse(v.s, (const uint8_t *)v.file, v.bytes, "x", NULL), HD_OK);
    free_saved(&v);
}

static void refuses_every_length(void **state)
{
    (void)state;
    saved v = make_saved();
    for (size_t i = 0; i < 50; i++) expect_broken(&v, v.file, v.bytes * i / 50, HD_ERR_FORMAT);
    for (size_t i = 0; i <= 64; i++) expect_broken(&v, v.file, i, HD_ERR_FORMAT);
    expect_broken(&v, v.file, v.bytes - 1, HD_ERR_FORMAT);
    char *const longer = hd_pool_alloc(&v.pool, v.bytes + 1);
    memcpy(longer, v.file, v.bytes);
    expect_broken(&v, longer, v.bytes + 1, HD_ERR_FORMAT);
    hd_error err = {0};
    expect_ok(hd_session_eval(v.s, &(int32_t){7}, 1, &err), &err); /* still usable */
    free_saved(&v);
}

/* Header fields that lie although the checksum is right. */
static void put_field(saved *v, size_t at, int32_t value)
{
    memcpy(v->file + at, &value, sizeof value);
    uint64_t d = hd_digest_add(HD_DIGEST_START, v->file, 56);
    d = hd_digest_add(d, v->file + 64, v->bytes - 64);
    memcpy(v->file + 56, &d, sizeof d);
}

static void refuses_fields_that_lie(void **state)
{
    static const struct {
        size_t    at;
        int32_t   value;
        hd_status status;
    } lies[] = {
        {8, 2, HD_ERR_UNSUPPORTED},
        {8, 0, HD_ERR_UNSUPPORTED},
        {12, 72, HD_ERR_FORMAT},
        {16, 1, HD_ERR_INVALID},
        {24, HD_ACT_NVFP4, HD_ERR_INVALID},
        {28, HD_KV_F32, HD_ERR_INVALID},
        {28, -1, HD_ERR_INVALID},
        {32, -1, HD_ERR_FORMAT},
        {32, INT32_MIN, HD_ERR_FORMAT},
        {32, INT32_MAX, HD_ERR_LIMIT},
        {32, 257, HD_ERR_LIMIT},
        {32, SAVED - 1, HD_ERR_FORMAT},
        {32, 0, HD_ERR_FORMAT},
        {36, 2047, HD_ERR_FORMAT},
        {40, 0, HD_ERR_FORMAT},
        {40, 3, HD_ERR_INVALID},
        {40, 5, HD_ERR_FORMAT},
        {44, 1, HD_ERR_FORMAT},
        {48, 1, HD_ERR_FORMAT},
        {64, -1, HD_ERR_FORMAT},
        {64, 2048, HD_ERR_FORMAT},
    };
    (void)state;
    saved v = make_saved();
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        int32_t was;
        memcpy(&was, v.file + lies[i].at, sizeof was);
        put_field(&v, lies[i].at, lies[i].value);
        expect_broken(&v, v.file, v.bytes, lies[i].status);
        put_field(&v, lies[i].at, was);
    }
    assert_int_equal(hd_session_parse(v.s, (const uint8_t *)v.file, v.bytes, "x", NULL), HD_OK);
    free_saved(&v);
}

static void expect_message(hd_session *s, hd_status want, const char *part)
{
    hd_error err = {0};
    assert_int_equal(hd_session_restore(s, path, &err), want);
    if (!strstr(err.message, part)) fail_msg("'%s' does not say '%s'", err.message, part);
    assert_int_equal(s->length, 0);
}

static void refuses_other_models_and_options(void **state)
{
    (void)state;
    saved      v = make_saved();
    hd_options o = {.model = OFFICIAL, .act = HD_ACT_EXACT, .kv = HD_KV_FP8, .max_tokens = 256};
    hd_engine *e = open_with(o);
    expect_message(open_session(e), HD_ERR_INVALID, "session of another model");
    hd_engine_close(e);
    o.model = DEMO, o.act = HD_ACT_NVFP4;
    e = open_with(o);
    expect_message(open_session(e), HD_ERR_INVALID,
                   "session with activations exact, the engine's are nvfp4");
    hd_engine_close(e);
    o.act = HD_ACT_EXACT, o.kv = HD_KV_NVFP4;
    e = open_with(o);
    expect_message(open_session(e), HD_ERR_INVALID,
                   "session with fp8 KV rows, the engine's are nvfp4");
    hd_engine_close(e);
    o.kv = HD_KV_FP8, o.max_tokens = SAVED - 1;
    e = open_with(o);
    expect_message(open_session(e), HD_ERR_LIMIT, "session of 130 tokens, the context is 129");
    hd_engine_close(e);
    free_saved(&v);
}

static void reports_what_the_system_refuses(void **state)
{
    (void)state;
    saved    v = make_saved();
    hd_error err = {0};
    unlink(path);
    assert_int_equal(hd_session_restore(v.s, path, &err), HD_ERR_IO);
    assert_int_equal(hd_session_restore(v.s, folder, &err), HD_ERR_IO);
    assert_int_equal(hd_session_save(v.s, folder, &err), HD_ERR_IO);
    assert_int_equal(hd_session_save(v.s, "/tmp/hadal-no-such-folder/x", &err), HD_ERR_IO);
    assert_int_equal(v.s->length, SAVED);
    free_saved(&v);
}

static hd_status save_it(void *saved_one, hd_error *err)
{
    return hd_session_save(((saved *)saved_one)->s, path, err);
}

static hd_status load_it(void *saved_one, hd_error *err)
{
    return hd_session_restore(((saved *)saved_one)->s, path, err);
}

/* The session stays as it was, and so does the file. */
static void check_unchanged(void *saved_one, const hd_error *err)
{
    const saved *const v = saved_one;
    hd_pool            pool = {0};
    hd_error           read_err = {0};
    char              *file = NULL;
    size_t             bytes = 0;
    if (!strstr(err->message, "Input/output error")) fail_msg("%s", err->message);
    assert_int_equal(v->s->length, SAVED);
    expect_ok(hd_file_read(&file, &bytes, path, 1 << 26, &pool, &read_err), &read_err);
    assert_int_equal(bytes, v->bytes);
    assert_memory_equal(file, v->file, bytes);
    hd_pool_free(&pool);
}

static int32_t fail_each_file(saved *v, hd_status (*call)(void *, hd_error *))
{
    return fail_each(&(fail_each_call){hd_file_fail_at, HD_ERR_IO, call, check_unchanged, v});
}

static int32_t count_files(void)
{
    int32_t    n = 0;
    DIR *const dir = opendir(folder);
    assert_non_null(dir);
    while (readdir(dir)) n++;
    closedir(dir);
    return n - 2;
}

static void survives_failing_files(void **state)
{
    (void)state;
    saved v = make_saved();
    assert_in_range(fail_each_file(&v, save_it), 10, 10000);
    assert_in_range(fail_each_file(&v, load_it), 3, 10);
    assert_int_equal(count_files(), 1); /* no temporary is left */
    free_saved(&v);
}

static void forks_within_one_engine_only(void **state)
{
    (void)state;
    hd_options const o = {.model = DEMO, .max_tokens = 16};
    hd_engine *const a = open_with(o), *const b = open_with(o);
    hd_session *const s = open_session(a), *const t = open_session(b);
    assert_int_equal(hd_session_fork(s, t, NULL), HD_ERR_INVALID);
    assert_int_equal(hd_session_fork(s, s, NULL), HD_OK);
    hd_engine_close(a);
    hd_engine_close(b);
}

static int make_folder(void **state)
{
    (void)state;
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

int main(void)
{
    const struct CMUnitTest plain[] = {
        cmocka_unit_test(keeps_the_last_edges),
        cmocka_unit_test(keeps_no_edge_without_marks),
        cmocka_unit_test(fills_the_context_exactly),
        cmocka_unit_test(refuses_every_changed_byte),
        cmocka_unit_test(refuses_every_length),
        cmocka_unit_test(refuses_fields_that_lie),
        cmocka_unit_test(refuses_other_models_and_options),
        cmocka_unit_test(reports_what_the_system_refuses),
        cmocka_unit_test(survives_failing_files),
        cmocka_unit_test(forks_within_one_engine_only),
    };
    enum { N_PLAIN = sizeof plain / sizeof plain[0] };
    struct CMUnitTest tests[N_PLAIN + N_CASES];
    memcpy(tests, plain, sizeof plain);
    for (int32_t i = 0; i < N_CASES; i++)
        tests[N_PLAIN + i] = (struct CMUnitTest){cases[i].name, test_state, NULL, NULL,
                                                 (void *)(uintptr_t)&cases[i]};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
