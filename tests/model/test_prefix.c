/* Kept prefixes: what goes on from one has the bits of a cold run, at every length; turns of an
 * agent cost their new tokens; room is bounded; files are whole, or as if they were not there. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/batch_run.h"
#include "../support/fail_each.h"
#include "base/file.h"
#include "engine/prefix_disk.h"

#define LONGEST 700

static int32_t token_at(int32_t i) { return (int32_t)((uint32_t)i * 2654435761u >> 21) % 2000 + 3; }

/* `n` tokens of a common text, then `own` that tell `who` from others. */
static int32_t make_prompt(int32_t *out, int32_t n, int32_t own, int32_t who)
{
    for (int32_t i = 0; i < n; i++) out[i] = token_at(i);
    for (int32_t i = 0; i < own; i++) out[n + i] = token_at(5000 + 100 * who + i);
    return n + own;
}

static hd_request request_of(const int32_t *prompt, int32_t n, heard *h)
{
    return (hd_request){.prompt = prompt,
                        .n_prompt = n,
                        .generate = {.max_new = 6, .is_raw = true, .ignore_eos = true, .n_top = 5},
                        .is_kept = true,
                        .on_event = hear_answer,
                        .user = h};
}

static heard ask(hd_batch *b, const int32_t *prompt, int32_t n)
{
    heard            h = {0};
    hd_request const r = request_of(prompt, n, &h);
    submit(b, &r);
    run(b);
    expect_ok(&h, n);
    return h;
}

/* The same without anything kept. */
static heard ask_cold(hd_engine *e, const int32_t *prompt, int32_t n)
{
    hd_batch *const b = open_batch(e, (hd_batch_options){.ram_bytes = -1});
    heard const     h = ask(b, prompt, n);
    assert_int_equal(h.end.n_cached, 0);
    hd_batch_close(b);
    return h;
}

static hd_batch_stats stats_of(const hd_batch *b)
{
    hd_batch_stats s;
    hd_batch_stats_get(b, &s);
    return s;
}

/* ---- equal bits ---- */

typedef struct prefix_case {
    const char *name, *model;
    hd_act      act;
    hd_kv       kv;
} prefix_case;
static const prefix_case cases[] = {
    {"f32", DEMO, HD_ACT_NVFP4, HD_KV_F32},
    {"bf16", DEMO, HD_ACT_EXACT, HD_KV_BF16},
    {"fp8", DEMO, HD_ACT_OFFICIAL, HD_KV_FP8},
    {"nvfp4", DEMO, HD_ACT_NVFP4, HD_KV_NVFP4},
    {"official", OFFICIAL, HD_ACT_OFFICIAL, HD_KV_F32},
};

/* Lengths around groups, windows and pages, and some that are nothing. */
static const int32_t cuts[] = {17,  18,  19,  20,  63,  66,  126, 127, 128, 129, 130,
                               131, 132, 133, 200, 255, 256, 257, 258, 260, 261, 384,
                               385, 386, 391, 437, 511, 512, 513, 514, 516, 517, 601};
#define N_CUTS ((int32_t)(sizeof cuts / sizeof cuts[0]))

/* One batch for all, so that states are kept of what went on from states, share pages and stand
 * beside each other. */
static void test_equal_bits(void **state)
{
    const prefix_case *const c = *state;
    hd_options const o = {.model = c->model, .act = c->act, .kv = c->kv, .max_tokens = LONGEST};
    hd_engine *const e = open_engine(o), *const other = open_engine(o);
    hd_batch *const b = open_batch(e, (hd_batch_options){0});
    int32_t const   step = c == cases ? 1 : 7; /* all lengths once, some in every format */
    int32_t         prompt[LONGEST];
    for (int32_t i = 0; i < N_CUTS; i += step) {
        ask(b, prompt, make_prompt(prompt, cuts[i], 0, 0));
        int32_t const n = make_prompt(prompt, cuts[i], 9, i);
        heard const   cold = ask_cold(other, prompt, n);
        heard const   warm = ask(b, prompt, n);
        expect_same(&cold, &warm, cuts[i], c->name);
        assert_int_equal(warm.end.n_cached, cuts[i] - 1);
        heard const again = ask(b, prompt, n);
        expect_same(&cold, &again, cuts[i], c->name);
        assert_int_equal(again.end.n_cached, n - 1);
    }
    hd_batch_close(b);
    hd_engine_close(e);
    hd_engine_close(other);
}

/* An answer is gone on from, and so is a prompt whose answer is taken back. */
static void test_turns(void **state)
{
    hd_engine *const e = open_engine((hd_options){.max_tokens = LONGEST});
    hd_batch *const  b = open_batch(e, (hd_batch_options){0});
    int32_t          prompt[LONGEST];
    int32_t          n = make_prompt(prompt, 300, 0, 0);
    (void)state;
    heard const first = ask(b, prompt, n);
    memcpy(prompt + n, first.ids, 6 * sizeof *prompt);
    for (int32_t i = 0; i < 11; i++) prompt[n + 6 + i] = token_at(9000 + i);
    heard const next = ask(b, prompt, n + 17);
    assert_int_equal(next.end.n_cached, n + 5); /* the last token drawn was never read */
    hd_engine *const other = open_engine((hd_options){.max_tokens = LONGEST});
    heard const      cold = ask_cold(other, prompt, n + 17);
    expect_same(&cold, &next, 0, "next turn");
    hd_engine_close(other);
    prompt[n] = 5;
    assert_int_equal(ask(b, prompt, n + 17).end.n_cached, n - 1);
    hd_batch_close(b);
    hd_engine_close(e);
}

/* One place for all: X, then another prompt there, then X again. */
static void test_another_between(void **state)
{
    hd_engine *const e = open_engine((hd_options){.max_tokens = LONGEST});
    hd_batch *const  b = open_batch(e, (hd_batch_options){0});
    int32_t          x[LONGEST], y[LONGEST];
    int32_t const    n = make_prompt(x, 600, 30, 1), m = make_prompt(y, 0, 400, 2);
    (void)state;
    heard const cold = ask(b, x, n);
    assert_int_equal(ask(b, y, m).end.n_cached, 0);
    heard const warm = ask(b, x, n);
    expect_same(&cold, &warm, 0, "another between");
    assert_int_equal(warm.end.n_cached, n - 1);
    hd_batch_close(b);
    hd_engine_close(e);
}

/* ---- chats ---- */

#define N_CHATS 8
#define N_SAID  5

typedef struct chat {
    int32_t  tokens[LONGEST];
    int32_t  n;
    uint64_t digests[N_SAID];
} chat;

/* What the user of chat `who` says next. */
static void say(chat *c, int32_t who, int32_t turn)
{
    for (int32_t i = 0; i < 30 + who; i++)
        c->tokens[c->n++] = token_at(1000 * (who + 1) + 40 * turn + i);
}

static void hear_turn(chat *c, int32_t turn, const heard *h)
{
    expect_ok(h, turn);
    c->digests[turn] = h->digest;
    memcpy(c->tokens + c->n, h->ids, (size_t)h->n_tokens * sizeof *h->ids);
    c->n += h->n_tokens;
}

/* Eight chats of five turns in two places, all at once, are what they are one at a time. */
static void test_interleaved_chats(void **state)
{
    static chat      alone[N_CHATS], together[N_CHATS];
    hd_engine *const e = open_engine((hd_options){.max_tokens = LONGEST, .n_sessions = 2});
    (void)state;
    hd_batch *b = open_batch(e, (hd_batch_options){.ram_bytes = -1});
    for (int32_t who = 0; who < N_CHATS; who++)
        for (int32_t turn = 0; turn < N_SAID; turn++) {
            say(&alone[who], who, turn);
            heard const h = ask(b, alone[who].tokens, alone[who].n);
            hear_turn(&alone[who], turn, &h);
        }
    hd_batch_close(b);
    b = open_batch(e, (hd_batch_options){0});
    for (int32_t turn = 0; turn < N_SAID; turn++) {
        heard h[N_CHATS] = {0};
        for (int32_t who = 0; who < N_CHATS; who++) {
            say(&together[who], who, turn);
            hd_request const r = request_of(together[who].tokens, together[who].n, &h[who]);
            submit(b, &r);
        }
        run(b);
        for (int32_t who = 0; who < N_CHATS; who++) {
            int32_t const before = together[who].n - 30 - who - 1;
            hear_turn(&together[who], turn, &h[who]);
            assert_int_equal(h[who].end.n_cached, turn ? before : 0);
        }
    }
    hd_batch_close(b);
    assert_memory_equal(alone, together, sizeof alone);
    hd_engine_close(e);
}

/* ---- arriving together ---- */

/* The same prompt eight times: one reads it, the others their last token; all have equal bits. */
static void test_together(void **state)
{
    hd_engine *const e = open_engine((hd_options){.max_tokens = LONGEST, .n_sessions = 4});
    hd_batch *const  b = open_batch(e, (hd_batch_options){.chunk = 32});
    heard            h[8] = {0};
    int32_t          prompt[LONGEST];
    int32_t const    n = make_prompt(prompt, 520, 0, 0);
    (void)state;
    for (int i = 0; i < 8; i++) {
        hd_request const r = request_of(prompt, n, &h[i]);
        submit(b, &r);
    }
    run(b);
    for (int i = 0; i < 8; i++) {
        expect_same(&h[0], &h[i], i, "together");
        assert_int_equal(h[i].end.n_cached, i ? n - 1 : 0);
    }
    hd_batch_close(b);
    hd_engine_close(e);
}

/* A shared beginning is read once; a short one is not worth waiting for; when the one that reads it
 * leaves, the next one does. */
static void test_shared_beginning(void **state)
{
    hd_engine *const e = open_engine((hd_options){.max_tokens = LONGEST, .n_sessions = 4});
    hd_batch *const  b = open_batch(e, (hd_batch_options){.chunk = 32});
    heard            h[4] = {0};
    int32_t          prompt[LONGEST];
    uint64_t         first = 0;
    (void)state;
    for (int i = 0; i < 4; i++) {
        int32_t const    n = make_prompt(prompt, i == 3 ? 100 : 300, 40, i);
        hd_request const r = request_of(prompt, n, &h[i]);
        uint64_t const   t = submit(b, &r);
        if (i == 0) first = t;
    }
    step(b);
    assert_int_equal(b->running[1]->state, HD_JOB_HELD);
    assert_int_equal(b->running[2]->state, HD_JOB_HELD);
    assert_int_not_equal(b->running[3]->state, HD_JOB_HELD);
    hd_batch_cancel(b, first);
    run(b);
    assert_int_equal(h[0].end.error.code, HD_ERR_CANCELLED);
    assert_int_equal(h[1].end.n_cached, 0);
    assert_int_equal(h[2].end.n_cached, 300);
    assert_int_equal(h[3].end.n_cached, 0);
    hd_batch_close(b);
    hd_engine_close(e);
}

/* ---- room ---- */

/* Bytes that one prompt of 40 tokens and its answer take. */
static int64_t bytes_of_one(hd_engine *e)
{
    hd_batch *const b = open_batch(e, (hd_batch_options){0});
    int32_t         prompt[LONGEST];
    ask(b, prompt, make_prompt(prompt, 0, 40, 0));
    int64_t const bytes = stats_of(b).kept_bytes;
    assert_int_equal(stats_of(b).kept_states, 2);
    hd_batch_close(b);
    return bytes;
}

static int32_t cached_of(hd_batch *b, int32_t who)
{
    int32_t prompt[LONGEST];
    return ask(b, prompt, make_prompt(prompt, 0, 40, who)).end.n_cached;
}

static void test_room(void **state)
{
    hd_engine *const e = open_engine((hd_options){.max_tokens = LONGEST});
    int64_t const    one = bytes_of_one(e);
    hd_batch *const  b = open_batch(e, (hd_batch_options){.ram_bytes = 2 * one});
    (void)state;
    assert_int_equal(cached_of(b, 1), 0);
    assert_int_equal(cached_of(b, 2), 0);
    assert_int_equal(cached_of(b, 1), 39); /* used now, so 2 gives way */
    assert_int_equal(cached_of(b, 3), 0);
    assert_int_equal(cached_of(b, 1), 39);
    assert_int_equal(cached_of(b, 2), 0);
    assert_true(stats_of(b).n_evicted >= 2);
    assert_true(stats_of(b).kept_bytes <= 2 * one);
    hd_batch_close(b);
    hd_batch *const none = open_batch(e, (hd_batch_options){.ram_bytes = one / 3});
    assert_int_equal(cached_of(none, 1), 0);
    assert_int_equal(cached_of(none, 1), 0);
    assert_int_equal(stats_of(none).kept_bytes, 0);
    hd_batch_close(none);
    hd_engine_close(e);
}

/* Two chats that share a beginning, in turn, while another gives way: neither loses it. */
static void test_alternating(void **state)
{
    hd_engine *const e = open_engine((hd_options){.max_tokens = LONGEST, .n_sessions = 2});
    hd_batch *const  b = open_batch(e, (hd_batch_options){0});
    int32_t          prompt[LONGEST];
    (void)state;
    for (int32_t turn = 0; turn < 4; turn++)
        for (int32_t who = 1; who < 3; who++) {
            int32_t const n = make_prompt(prompt, 500, 20 * (turn + 1), who);
            int32_t const cached = ask(b, prompt, n).end.n_cached;
            assert_true(cached >= (turn > 0 ? 500 + 20 * turn - 1 : who > 1 ? 256 : 0));
        }
    hd_batch_close(b);
    hd_engine_close(e);
}

/* Without leave nothing is kept; what is kept serves all. */
static void test_asked_not_to(void **state)
{
    hd_engine *const e = open_engine((hd_options){.max_tokens = LONGEST});
    hd_batch *const  b = open_batch(e, (hd_batch_options){0});
    heard            h[3] = {0};
    int32_t          prompt[LONGEST];
    int32_t const    n = make_prompt(prompt, 0, 60, 1);
    (void)state;
    for (int i = 0; i < 3; i++) {
        hd_request r = request_of(prompt, n, &h[i]);
        r.is_kept = i == 1;
        submit(b, &r);
        run(b);
        assert_int_equal(stats_of(b).kept_states, i ? 2 : 0);
    }
    assert_int_equal(h[1].end.n_cached, 0);
    assert_int_equal(h[2].end.n_cached, n - 1);
    hd_batch_close(b);
    hd_engine_close(e);
}

/* With each allocation failing in turn there is an answer, and it has its bits. */
static void test_failing_allocations(void **state)
{
    hd_engine *const e = open_engine((hd_options){.max_tokens = LONGEST});
    int32_t          prompt[LONGEST];
    int32_t const    n = make_prompt(prompt, 270, 9, 1);
    heard const      cold = ask_cold(e, prompt, n);
    (void)state;
    for (int64_t at = 1; at < 12; at++) {
        hd_batch *const  b = open_batch(e, (hd_batch_options){0});
        heard            h = {0};
        hd_request const r = request_of(prompt, n, &h);
        submit(b, &r);
        hd_memory_fail_at(at);
        run(b);
        hd_memory_fail_at(0);
        expect_same(&cold, &h, (int32_t)at, "short of memory");
        heard const warm = ask(b, prompt, n);
        expect_same(&cold, &warm, (int32_t)at, "after it");
        hd_batch_close(b);
    }
    hd_engine_close(e);
}

/* ---- the folder ---- */

static char folder[64];

static void make_folder(void)
{
    strcpy(folder, "/tmp/hadal-prefix-XXXXXX");
    assert_non_null(mkdtemp(folder));
}

/* Calls fn for each file of the folder that ends so; returns how many. */
static int for_files(const char *ending, void (*fn)(const char *path))
{
    DIR *const           d = opendir(folder);
    const struct dirent *e;
    char                 path[512];
    int                  n = 0;
    while ((e = readdir(d))) {
        size_t const length = strlen(e->d_name), tail = strlen(ending);
        if (e->d_name[0] == '.' || length < tail || strcmp(e->d_name + length - tail, ending) != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (fn) fn(path);
        n++;
    }
    closedir(d);
    return n;
}

static void remove_path(const char *path) { unlink(path); }

static void remove_folder(void)
{
    for_files("", remove_path);
    assert_int_equal(rmdir(folder), 0);
}

static hd_batch *open_folder(hd_engine *e, int64_t disk_bytes)
{
    return open_batch(e, (hd_batch_options){.folder = folder, .disk_bytes = disk_bytes});
}

static hd_engine *open_kept(void) { return open_engine((hd_options){.max_tokens = LONGEST}); }

/* Behind a restart, a prompt and what comes behind it go on with the bits of a cold run. */
static void test_restart(void **state)
{
    hd_engine    *e = open_kept();
    int32_t       prompt[LONGEST];
    int32_t const n = make_prompt(prompt, 600, 9, 1);
    heard const   cold = ask_cold(e, prompt, n);
    (void)state;
    make_folder();
    hd_batch *b = open_folder(e, 0);
    ask(b, prompt, make_prompt(prompt, 600, 0, 0));
    hd_batch_close(b);
    hd_engine_close(e);
    e = open_kept();
    b = open_folder(e, 0);
    assert_true(stats_of(b).disk_states >= 3);
    assert_int_equal(stats_of(b).kept_states, 0);
    heard warm = ask(b, prompt, make_prompt(prompt, 600, 9, 1));
    expect_same(&cold, &warm, 0, "restarted");
    assert_int_equal(warm.end.n_cached, 599);
    assert_int_equal(stats_of(b).n_damaged, 0);
    warm = ask(b, prompt, n); /* from memory now */
    expect_same(&cold, &warm, 0, "restarted, again");
    assert_int_equal(warm.end.n_cached, n - 1);
    hd_batch_close(b);
    hd_engine_close(e);
    remove_folder();
}

static void test_one_process(void **state)
{
    hd_engine *const e = open_engine((hd_options){.n_sessions = 1});
    hd_engine *const other = open_engine((hd_options){.n_sessions = 1});
    hd_batch        *b = NULL;
    hd_error         err = {0};
    (void)state;
    make_folder();
    hd_batch_options const o = {.folder = folder};
    hd_batch *const        first = open_batch(e, o);
    assert_int_equal(hd_batch_open(&b, other, &o, &err), HD_ERR_INVALID);
    assert_non_null(strstr(err.message, "another process is at work there"));
    hd_batch_close(first);
    hd_batch_close(open_batch(other, o));
    hd_batch_options const no_ram = {.folder = folder, .ram_bytes = -1};
    assert_int_equal(hd_batch_open(&b, e, &no_ram, &err), HD_ERR_INVALID);
    hd_engine_close(e);
    hd_engine_close(other);
    remove_folder();
}

/* Where a bit is to be flipped, from the end when it is negative; or the file to be cut there. */
static long spoil_at;
static bool spoil_cuts;

static void spoil(const char *path)
{
    FILE *const f = fopen(path, "r+b");
    struct stat st;
    assert_non_null(f);
    assert_int_equal(fstat(fileno(f), &st), 0);
    long const at = spoil_at < 0 ? (long)st.st_size + spoil_at : spoil_at;
    if (at < (long)st.st_size && spoil_cuts) assert_int_equal(ftruncate(fileno(f), at), 0);
    if (at < (long)st.st_size && !spoil_cuts) {
        fseek(f, at, SEEK_SET);
        int const byte = fgetc(f);
        fseek(f, at, SEEK_SET);
        fputc(byte ^ 4, f);
    }
    fclose(f);
}

/* A bit of every file, wherever it is flipped, and files that were cut: found, and read anew. */
static void test_damage(void **state)
{
    static const struct {
        long at;
        bool cuts;
    } all[] = {{0, 0},   {9, 0},   {13, 0},  {17, 0},  {40, 0},    {80, 0},   {97, 0},
               {100, 0}, {104, 0}, {113, 0}, {121, 0}, {130, 0},   {137, 0},  {1500, 0},
               {-1, 0},  {-1, 1},  {0, 1},   {60, 1},  {-2000, 1}, {-2000, 0}};
    hd_engine *const e = open_kept();
    int32_t          prompt[LONGEST];
    int32_t const    n = make_prompt(prompt, 270, 9, 1);
    heard const      cold = ask_cold(e, prompt, n);
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        make_folder();
        hd_batch *b = open_folder(e, 0);
        ask(b, prompt, make_prompt(prompt, 270, 0, 0));
        hd_batch_close(b);
        spoil_at = all[i].at;
        spoil_cuts = all[i].cuts;
        assert_true(for_files(".kept", spoil) >= 3);
        b = open_folder(e, 0);
        heard const h = ask(b, prompt, make_prompt(prompt, 270, 9, 1));
        expect_same(&cold, &h, (int32_t)i, "damaged");
        assert_int_equal(h.end.n_cached, 0);
        hd_batch_close(b);
        int32_t mended = 0;
        for (int32_t k = 0; k < 4 && mended < n - 1; k++) { /* pages that nobody had read yet */
            b = open_folder(e, 0);
            heard const again = ask(b, prompt, n);
            expect_same(&cold, &again, (int32_t)i, "mended");
            mended = again.end.n_cached;
            hd_batch_close(b);
        }
        assert_int_equal(mended, n - 1);
        remove_folder();
    }
    hd_engine_close(e);
}

/* The folder stays within its bytes; what was used last is still there. */
static void test_bounded_folder(void **state)
{
    hd_engine *const e = open_kept();
    (void)state;
    make_folder();
    hd_batch *b = open_folder(e, 0);
    cached_of(b, 0);
    hd_batch_close(b);
    b = open_folder(e, 0);
    int64_t const one = b->prefix->counts.disk_bytes;
    hd_batch_close(b);
    remove_folder();
    make_folder();
    b = open_folder(e, 3 * one);
    for (int32_t i = 0; i < 9; i++) {
        cached_of(b, i);
        assert_true(b->prefix->counts.disk_bytes <= 3 * one);
    }
    hd_batch_close(b);
    b = open_folder(e, 2 * one); /* less: the rest goes when room is needed */
    assert_int_equal(cached_of(b, 8), 39);
    cached_of(b, 20);
    assert_int_equal(cached_of(b, 20), 39);
    hd_prefix_disk_settle(b->prefix, true);
    assert_true(b->prefix->counts.disk_bytes <= 2 * one);
    assert_true(stats_of(b).n_evicted > 0);
    hd_batch_close(b);
    hd_engine_close(e);
    remove_folder();
}

/* Makes a file what a program before this one wrote: the version is part of its name, too. */
static void make_older(const char *path)
{
    FILE *const    f = fopen(path, "r+b");
    char           name[4096];
    hd_kept_header h;
    snprintf(name, sizeof name, "%s", path);
    char *const first = strrchr(name, '/') + 1;
    assert_non_null(f);
    assert_int_equal(fread(&h, sizeof h, 1, f), 1);
    if (h.version != 1) { /* else the folder shows its new name, too */
        h.version = 1;
        rewind(f);
        assert_int_equal(fwrite(&h, sizeof h, 1, f), 1);
        *first = *first == '0' ? '1' : '0';
        assert_int_equal(rename(path, name), 0);
    }
    fclose(f);
}

/* What another model, another format or another version kept is not used, not removed without
 * need, and first to go. */
static void check_foreign(hd_kv kv, bool is_older)
{
    hd_engine *e = open_engine((hd_options){.max_tokens = LONGEST, .kv = kv});
    make_folder();
    hd_batch *b = open_folder(e, 0);
    cached_of(b, 1);
    hd_batch_close(b);
    hd_engine_close(e);
    int const foreign = for_files(".kept", NULL);
    if (is_older) for_files(".kept", make_older);
    e = open_kept();
    b = open_folder(e, 0);
    assert_int_equal(cached_of(b, 1), 0);
    assert_int_equal(cached_of(b, 1), 39);
    hd_prefix_disk_settle(b->prefix, true);
    int64_t const both = b->prefix->counts.disk_bytes;
    hd_batch_close(b);
    assert_int_equal(for_files(".kept", NULL), 2 * foreign);
    b = open_folder(e, both);
    assert_int_equal(b->prefix->counts.disk_bytes, both);
    assert_int_equal(cached_of(b, 1), 39);
    cached_of(b, 2);
    assert_int_equal(cached_of(b, 1), 39);
    assert_int_equal(stats_of(b).n_damaged, 0);
    hd_batch_close(b);
    hd_engine_close(e);
    remove_folder();
}

static void test_foreign(void **state)
{
    (void)state;
    check_foreign(HD_KV_FP8, false);
    check_foreign(HD_KV_DEFAULT, true);
}

/* Each operation on files failing in turn: an answer all the same, with its bits. */
static void test_failing_files(void **state)
{
    hd_engine *const e = open_kept();
    int32_t          prompt[LONGEST];
    int32_t const    n = make_prompt(prompt, 262, 9, 1);
    heard const      cold = ask_cold(e, prompt, n);
    (void)state;
    for (int64_t at = 1; at < 40; at += at < 12 ? 1 : 5) {
        make_folder();
        hd_batch *b = open_folder(e, 0);
        hd_file_fail_at(at);
        ask(b, prompt, make_prompt(prompt, 262, 0, 0));
        hd_prefix_disk_settle(b->prefix, true);
        hd_file_fail_at(0);
        hd_batch_close(b);
        b = NULL;
        hd_file_fail_at(at);
        hd_batch_options const o = {.folder = folder};
        hd_error               err = {0};
        hd_status const        s = hd_batch_open(&b, e, &o, &err);
        assert_true(s == HD_OK || (s == HD_ERR_IO && err.message[0]));
        if (s != HD_OK) b = open_folder(e, 0);
        heard const h = ask(b, prompt, make_prompt(prompt, 262, 9, 1));
        hd_file_fail_at(0);
        expect_same(&cold, &h, (int32_t)at, "failing files");
        hd_batch_close(b);
        remove_folder();
    }
    hd_engine_close(e);
}

/* A process that asks until it is killed. */
static void keep_until_killed(void)
{
    hd_engine *const e = open_kept();
    hd_batch *const  b = open_folder(e, 0);
    int32_t          prompt[LONGEST];
    for (int32_t i = 0;; i++) ask(b, prompt, make_prompt(prompt, 300, 30, i % 40));
}

static void test_killed(void **state)
{
    hd_engine *const e = open_kept();
    int32_t          prompt[LONGEST];
    (void)state;
    make_folder();
    for (int32_t i = 0; i < 4; i++) {
        pid_t const child = fork();
        if (child == 0) {
            keep_until_killed();
            _exit(1);
        }
        struct timespec const pause = {.tv_nsec = 5000000};
        for (int k = 0; k < 4000 && for_files(".kept", NULL) < 3 * (i + 1); k++)
            nanosleep(&pause, NULL);
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, NULL, 0), child);
        hd_batch *const b = open_folder(e, 0);
        assert_int_equal(for_files(".part", NULL), 0);
        assert_true(b->prefix->counts.disk_states > 0);
        int32_t const n = make_prompt(prompt, 300, 30, 0);
        heard const   warm = ask(b, prompt, n);
        assert_int_equal(stats_of(b).n_damaged, 0);
        assert_true(warm.end.n_cached > 0);
        hd_batch_close(b);
        heard const cold = ask_cold(e, prompt, n);
        expect_same(&cold, &warm, i, "killed");
    }
    hd_engine_close(e);
    remove_folder();
}

int main(int argc, char **argv)
{
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    struct CMUnitTest tests[64];
    size_t            n = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        tests[n++] = (struct CMUnitTest){cases[i].name, test_equal_bits, NULL, NULL,
                                         (void *)(uintptr_t)&cases[i]};
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_turns);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_another_between);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_interleaved_chats);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_together);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_shared_beginning);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_room);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_alternating);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_asked_not_to);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_failing_allocations);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_restart);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_one_process);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_damage);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_bounded_folder);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_foreign);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_failing_files);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_killed);
    return _cmocka_run_group_tests("prefix", tests, n, NULL, NULL);
}
