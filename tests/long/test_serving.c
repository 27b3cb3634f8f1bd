/* 20,000 requests of all kinds through one batch, a third of them leaving early: each ends once,
 * those that stay have the bits that they had the first time, and no memory is lost on the way.
 *
 *     make build/tests/long/test_serving && build/tests/long/test_serving [REQUESTS]
 *
 * Takes many minutes, so it is not among the tests that always run. */
#include <stdio.h>
#include <unistd.h>

#include "../support/batch_run.h"

#define N_KINDS  97
#define N_FLYING 24 /* requests in the batch at a time */

static int32_t n_requests = 20000;

static int64_t resident_bytes(void)
{
    long        pages = 0, all = 0;
    FILE *const f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%ld %ld", &all, &pages) != 2) fail_msg("no /proc/self/statm");
    fclose(f);
    return pages * sysconf(_SC_PAGESIZE);
}

typedef struct flight {
    heard    h;
    int32_t  i;
    uint64_t ticket;
    bool     leaves, is_used;
} flight;

static void start(hd_batch *b, flight *f, int32_t i)
{
    int32_t       prompt[MADE_PROMPT];
    hd_logit_bias bias;
    hd_request    r;
    *f = (flight){.i = i, .leaves = i % 3 == 1, .is_used = true};
    make_request(&r, i % N_KINDS, prompt, &bias, b->engine->model.config->n_vocab);
    r.is_kept = i % 2 == 0;
    r.user = &f->h;
    if (f->leaves && i % 2) f->h.leave_at = 1 + i % 4;
    f->ticket = submit(b, &r);
}

static void check_end(const flight *f, uint64_t first[N_KINDS])
{
    if (f->h.n_ends != 1) fail_msg("request %d ended %d times", f->i, f->h.n_ends);
    if (f->leaves) return;
    expect_ok(&f->h, f->i);
    uint64_t *const wanted = &first[f->i % N_KINDS];
    if (*wanted && *wanted != f->h.digest) fail_msg("request %d: other bits than before", f->i);
    *wanted = f->h.digest;
}

static void test_many(void **state)
{
    static flight    flights[N_FLYING];
    static uint64_t  first[N_KINDS];
    hd_engine *const e = open_engine((hd_options){.n_sessions = 12, .chunk = 64});
    hd_batch *const  b = open_batch(e, (hd_batch_options){.ram_bytes = 24 << 20});
    int64_t          before = 0, most = 0;
    int32_t          n_started = 0, n_ended = 0;
    (void)state;
    while (n_ended < n_requests) {
        for (int32_t k = 0; k < N_FLYING; k++) {
            flight *const f = &flights[k];
            if (!f->is_used && n_started < n_requests) start(b, f, n_started++);
            if (f->is_used && f->leaves && f->i % 5 == 0) hd_batch_cancel(b, f->ticket);
        }
        step(b);
        for (int32_t k = 0; k < N_FLYING; k++)
            if (flights[k].is_used && flights[k].h.n_ends) {
                check_end(&flights[k], first);
                flights[k].is_used = false;
                if (++n_ended == n_requests / 10) before = resident_bytes();
                if (n_ended % (n_requests / 10) == 0) {
                    int64_t const now = resident_bytes();
                    most = now > most ? now : most;
                    print_message("%d requests: %.1f MiB\n", n_ended, (double)now / (1 << 20));
                }
            }
    }
    assert_true(most < before + before / 20);
    hd_batch_close(b);
    hd_engine_close(e);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_many)};
    if (argc > 1) n_requests = atoi(argv[1]);
    if (n_requests < 100) n_requests = 100;
    return cmocka_run_group_tests_name("serving", tests, NULL, NULL);
}
