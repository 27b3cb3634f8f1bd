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
#include "../support/fake_grammar.h"
#include "base/file.h"

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
static const int32_t cuts[] = {17,  18,  19,  20,  63,  66,  126, 127, 128, 129, 130, 131,
                               132, 133, 200, 255, 256, 257, 258, 260, 261, 384, 385, 386,
                               391, 437, 511, 512, 513, 514, 516, 517, 601};
#define N_CUTS ((int32_t)(sizeof cuts / sizeof cuts[0]))

static void test_equal_bits(void **state)
{
    const prefix_case *const c = *state;
    hd_engine *const         e = open_engine(
                (hd_options){.model = c->model, .act = c->act, .kv = c->kv, .max_tokens = LONGEST});
    static heard cold[N_CUTS];
    int32_t      prompt[LONGEST];
    for (int32_t i = 0; i < N_CUTS; i++)
        cold[i] = ask_cold(e, prompt, make_prompt(prompt, cuts[i], 9, i));
    for (int32_t i = 0; i < N_CUTS; i++) {
        hd_batch *const b = open_batch(e, (hd_batch_options){0});
        ask(b, prompt, make_prompt(prompt, cuts[i], 0, 0));
        heard const warm = ask(b, prompt, make_prompt(prompt, cuts[i], 9, i));
        expect_same(&cold[i], &warm, cuts[i], c->name);
        assert_int_equal(warm.end.n_cached, cuts[i] - 1);
        heard const again = ask(b, prompt, make_prompt(prompt, cuts[i], 9, i));
        expect_same(&cold[i], &again, cuts[i], c->name);
        assert_int_equal(again.end.n_cached, cuts[i] + 8);
        assert_int_equal(stats_of(b).cached_tokens, 2 * cuts[i] + 7);
        hd_batch_close(b);
    }
    hd_engine_close(e);
}

/* All lengths kept by one batch, so that states share pages and stand beside each other. */
static void test_many_in_one(void **state)
{
    hd_engine *const e = open_engine((hd_options){.max_tokens = LONGEST, .n_sessions = 4});
    hd_batch *const  b = open_batch(e, (hd_batch_options){0});
    int32_t          prompt[LONGEST];
    (void)state;
    for (int32_t i = 0; i < N_CUTS; i += 2) ask(b, prompt, make_prompt(prompt, cuts[i], 3, 900 + i));
    for (int32_t i = 1; i < N_CUTS; i += 2) {
        int32_t const n = make_prompt(prompt, cuts[i], 9, i);
        heard const   cold = ask(b, prompt, n);
        heard const   warm = ask(b, prompt, n);
        expect_same(&cold, &warm, cuts[i], "in one");
        assert_int_equal(warm.end.n_cached, n - 1);
    }
    hd_batch_close(b);
    hd_engine_close(e);
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
    heard const cold = ask_cold(open_engine((hd_options){.max_tokens = LONGEST}), prompt, n + 17);
    expect_same(&cold, &next, 0, "next turn");
    prompt[n] = 5;
    assert_int_equal(ask(b, prompt, n + 17).end.n_cached, n - 1);
    hd_batch_close(b);
    hd_engine_close(e);
}

int main(void)
{
    struct CMUnitTest tests[64];
    size_t            n = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        tests[n++] = (struct CMUnitTest){cases[i].name, test_equal_bits, NULL, NULL,
                                         (void *)(uintptr_t)&cases[i]};
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_many_in_one);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_turns);
    return _cmocka_run_group_tests("prefix", tests, n, NULL, NULL);
}
