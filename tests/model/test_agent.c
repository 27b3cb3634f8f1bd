/* Turns of an agent: each costs what is new in it and no more, with the bits of a cold run, whether
 * reasoning is sent back, dropped, or dropped by the template; also from a folder.
 *
 *     build/tests/model/test_agent [CASE [print]]     prints what each turn cost */
#include "../support/agent.h"

#include <stdio.h>

#include "../support/batch_run.h"

#define LONGEST  4096
#define N_TURNS  40
#define MOST_NEW 40

static bool is_printed;

typedef struct transcript {
    int32_t tokens[N_TURNS][LONGEST]; /* read in each turn: prompt, then answer */
    int32_t n[N_TURNS], n_turns;
} transcript;

/* Tokens of a prompt that no turn before has read. */
static int32_t new_tokens(const transcript *t, const int32_t *ids, int32_t n)
{
    int32_t most = 0;
    for (int32_t i = 0; i < t->n_turns; i++) {
        int32_t k = 0;
        while (k < n - 1 && k < t->n[i] && t->tokens[i][k] == ids[k]) k++;
        if (k > most) most = k;
    }
    return n - most;
}

typedef struct turn {
    agent *a;
    heard  h;
} turn;

static bool hear_turn(void *user, const hd_answer_event *e)
{
    turn *const t = user;
    if (e->parse) agent_hear(t->a, e->parse);
    return hear_answer(&t->h, e);
}

static hd_request request_of(const int32_t *ids, int32_t n, hd_parse_start start, turn *t)
{
    return (hd_request){
        .prompt = ids,
        .n_prompt = n,
        .generate = {.start = start, .has_tools = t->a->has_tools, .max_new = MOST_NEW, .n_top = 3},
        .is_kept = true,
        .on_event = hear_turn,
        .user = t};
}

typedef struct agent_case {
    const char *name;
    bool        has_tools, keeps_reasoning;
    hd_think    think;
    int32_t     n_turns;
    int32_t     slack;    /* tokens that a turn may cost beyond what is new in it */
    bool        restarts; /* the batch is closed behind each turn, and goes on from its folder */
} agent_case;
/* Where an answer is rendered otherwise than it was drawn, what stands behind the place is read
 * again, and what stands before it within the answer. */
static const agent_case cases[] = {
    {"tools", true, true, HD_THINK_OFF, N_TURNS, 0, false},
    {"tools and reasoning", true, true, HD_THINK_HIGH, 12, MOST_NEW, false},
    {"reasoning not sent back", true, false, HD_THINK_HIGH, 12, 1, false},
    {"reasoning dropped by the template", false, true, HD_THINK_HIGH, 12, 0, false},
    {"restarted", true, true, HD_THINK_OFF, 12, 0, true},
};

static const char *question(int32_t i)
{
    static const char *const all[] = {"What is the weather in Paris?",
                                      "What is the capital of France?", "Count to 16.",
                                      "What is the weather in Beijing?", "What is 9 + 5?"};
    return all[i % 5];
}

/* Every few turns, so that it does not take minutes. */
static void compare_with_cold(hd_engine *cold, const hd_request *warm, const heard *h, agent *a)
{
    agent           deaf = {.has_tools = a->has_tools};
    turn            now = {.a = &deaf};
    hd_request      r = *warm;
    hd_batch *const b = open_batch(cold, (hd_batch_options){.ram_bytes = -1});
    r.user = &now;
    submit(b, &r);
    run(b);
    expect_same(&now.h, h, r.n_prompt, "cold");
    hd_batch_close(b);
    agent_close(&deaf);
}

/* One turn, and what it read; the answer's last token is drawn and not read. */
static bool take_turn(hd_batch *b, hd_engine *cold, agent *a, transcript *t, int32_t slack)
{
    int32_t *const ids = t->tokens[t->n_turns];
    turn           now = {.a = a};
    hd_parse_start start;
    hd_error       err = {0};
    int32_t        n;
    if (agent_render(a, b->engine->tokenizer, ids, LONGEST, &n, &start, &err) != HD_OK)
        fail_msg("%s", err.message);
    int32_t const    ideal = new_tokens(t, ids, n);
    hd_request const r = request_of(ids, n, start, &now);
    submit(b, &r);
    run(b);
    expect_ok(&now.h, t->n_turns);
    if (n - now.h.end.n_cached > ideal + slack && t->n_turns > 0)
        fail_msg("turn %d: %d of %d tokens are new, %d were read", t->n_turns, ideal, n,
                 n - now.h.end.n_cached);
    if (is_printed)
        print_message("turn %2d: prompt %4d, new %3d, read %3d\n", t->n_turns + 1, n, ideal,
                      n - now.h.end.n_cached);
    if (t->n_turns % 5 == 1) compare_with_cold(cold, &r, &now.h, a);
    int32_t const n_read = now.h.end.n_new - 1;
    memcpy(ids + n, now.h.ids, (size_t)n_read * sizeof *ids);
    t->n[t->n_turns++] = n + n_read;
    return agent_take(a);
}

static void test_turns(void **state)
{
    const agent_case *const c = *state;
    char                    folder[] = "/tmp/hadal-agent-XXXXXX", command[64];
    hd_engine *const        e = open_engine((hd_options){.max_tokens = LONGEST});
    hd_engine *const        cold = open_engine((hd_options){.max_tokens = LONGEST});
    transcript *const       t = calloc(1, sizeof *t);
    agent                   a;
    hd_engine_info          info;
    assert_non_null(mkdtemp(folder));
    hd_batch_options const o = {.folder = c->restarts ? folder : NULL};
    hd_batch              *b = open_batch(e, o);
    hd_engine_info_get(e, &info);
    agent_open(&a, c->has_tools, c->keeps_reasoning, c->think, info.dialect);
    for (int32_t i = 0, has_called = 0; i < c->n_turns; i++) {
        if (!has_called) agent_ask(&a, question(i));
        has_called = take_turn(b, cold, &a, t, c->slack);
        if (!c->restarts) continue;
        hd_batch_close(b);
        b = open_batch(e, o);
    }
    agent_close(&a);
    free(t);
    hd_batch_close(b);
    hd_engine_close(e);
    hd_engine_close(cold);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[8];
    size_t            n = 0;
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    is_printed = argc > 2;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        tests[n++] = (struct CMUnitTest){cases[i].name, test_turns, NULL, NULL,
                                         (void *)(uintptr_t)&cases[i]};
    return _cmocka_run_group_tests("agent", tests, n, NULL, NULL);
}
