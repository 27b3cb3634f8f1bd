/* A recording of a pass is the pass: 1,000 tokens are drawn twice side by side, by the recorded
 * steps and by the list of steps one by one, while memory is sealed, and every logit has the same
 * bits.
 *
 *     make CUDA=1 build/cuda/tests/long/test_recorded_steps
 *     build/cuda/tests/long/test_recorded_steps [MODEL [FAMILY]]     families as --isa has them
 *
 * Only an accelerator records, so it is not among the tests that always run: without one both
 * sides run the list, which says little. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../support/golden.h"
#include "base/cpu.h"

#define N_STEPS 1000

static const char *model = "models/demo", *family = "sm90";

static hd_status go_on(void *user, const hd_step *step, hd_error *err)
{
    (void)step;
    (void)err;
    ++*(int64_t *)user;
    return HD_OK;
}

static int32_t find_largest(const float *logits, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

/* The steps one by one: who looks on after each cannot have them recorded. */
static void run_list(hd_session *s, int32_t token, int32_t pos, int64_t *n_steps)
{
    hd_error          err = {0};
    hd_pass_run const run = {.tokens = &token,
                             .n = 1,
                             .seq = s->seq,
                             .pos = pos,
                             .rows = HD_LOGITS_LAST,
                             .after = go_on,
                             .user = n_steps};
    if (hd_engine_run(s->engine, &run, &err) != HD_OK) fail_msg("%s", err.message);
}

static void recorded_steps_give_the_same_bits(void **state)
{
    hd_error    err = {0};
    hd_engine  *e = NULL;
    hd_session *graphed = NULL, *listed = NULL;
    int32_t     token = 2;
    int64_t     n_steps = 0;
    hd_options  o = {.model = model, .max_tokens = N_STEPS + 8, .n_sessions = 2};
    (void)state;
    assert_int_equal(hd_isa_parse(&o.isa, family, &err), HD_OK);
    if (hd_engine_open(&e, &o, &err) != HD_OK) fail_msg("%s", err.message);
    size_t const bytes = (size_t)e->model.config->n_vocab * sizeof(float);
    assert_int_equal(hd_session_open(&graphed, e, &err), HD_OK);
    assert_int_equal(hd_session_open(&listed, e, &err), HD_OK);
    hd_memory_seal();
    for (int32_t pos = 0; pos < N_STEPS; pos++) {
        const float *logits = NULL;
        assert_int_equal(hd_session_eval(graphed, &token, 1, &err), HD_OK);
        assert_int_equal(hd_session_logits(graphed, &logits, &err), HD_OK);
        run_list(listed, token, pos, &n_steps);
        if (memcmp(e->logits, logits, bytes) != 0) fail_msg("step %d: other bits", pos);
        token = find_largest(logits, e->model.config->n_vocab);
        if (pos % 7 == 6)
            token = pos * 37 % 2000 + 3; /* an answer that ended would repeat itself */
    }
    hd_memory_unseal();
    printf("%d tokens of %s on %s, %d steps each\n", N_STEPS, model, family,
           (int)(n_steps / N_STEPS));
    hd_session_close(graphed);
    hd_session_close(listed);
    hd_engine_close(e);
}

int main(int argc, char **argv)
{
    if (argc > 1) model = argv[1];
    if (argc > 2) family = argv[2];
    const struct CMUnitTest tests[] = {cmocka_unit_test(recorded_steps_give_the_same_bits)};
    return cmocka_run_group_tests_name("recorded steps", tests, NULL, NULL);
}
