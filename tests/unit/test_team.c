#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/team.h"

#define MAX_ITEMS 1000

/* How often each item was done, and whether all cuts were at whole steps. */
typedef struct count {
    atomic_int done[MAX_ITEMS];
    int64_t    n, step;
    atomic_int n_wrong;
} count;

static void count_items(const void *ctx, int64_t begin, int64_t end)
{
    count *const c = (count *)(uintptr_t)ctx;
    if (begin % c->step || (end % c->step && end != c->n) || begin >= end) c->n_wrong++;
    for (int64_t i = begin; i < end; i++) c->done[i]++;
}

static hd_team *open_team(int32_t n)
{
    hd_error err = {0};
    hd_team *t = NULL;
    assert_int_equal(hd_team_open(&t, n, NULL, &err), HD_OK);
    hd_team_set_grain(t, 1);
    return t;
}

static void check_run(hd_stream *s, int64_t n, int64_t step)
{
    static count  c;
    hd_work const w = {.n = n, .step = step, .cost = 1};
    memset(&c, 0, sizeof c);
    c.n = n;
    c.step = step;
    hd_team_run(s, &w, count_items, &c);
    for (int64_t i = 0; i < MAX_ITEMS; i++) assert_int_equal(c.done[i], i < n);
    assert_int_equal(c.n_wrong, 0);
}

static void does_each_item_once(void **state)
{
    (void)state;
    check_run(NULL, 100, 8);
    for (int32_t n = 1; n <= 7; n++) {
        hd_team *const t = open_team(n);
        for (int64_t items = 0; items < MAX_ITEMS; items += items < 20 ? 1 : 97)
            for (int64_t step = 1; step < 40; step += 13) check_run(hd_team_stream(t), items, step);
        hd_team_close(t);
    }
}

/* Between runs the threads are awake, about to sleep, or asleep. */
static void wakes_again(void **state)
{
    (void)state;
    hd_team *const t = open_team(3);
    for (int i = 0; i < 2000; i++) {
        check_run(hd_team_stream(t), 64, 1);
        if (i % 100 == 0) usleep((useconds_t)(i % 700) * 10);
    }
    hd_team_close(t);
}

static void add_up(const void *ctx, int64_t begin, int64_t end)
{
    int64_t *const sums = (int64_t *)(uintptr_t)ctx;
    for (int64_t i = begin; i < end; i++) sums[i] += i; /* plain memory: a race would be seen */
}

static void sees_what_others_wrote(void **state)
{
    int64_t       sums[256] = {0};
    hd_work const w = {.n = 256, .step = 1, .cost = 1};
    (void)state;
    hd_team *const t = open_team(4);
    for (int i = 0; i < 3000; i++) hd_team_run(hd_team_stream(t), &w, add_up, sums);
    for (int64_t i = 0; i < 256; i++) assert_int_equal(sums[i], 3000 * i);
    hd_team_close(t);
}

static void small_work_stays_with_the_caller(void **state)
{
    static count  c;
    hd_work const w = {.n = 100, .step = 1, .cost = 1};
    hd_error      err = {0};
    hd_team      *t = NULL;
    (void)state;
    memset(&c, 0, sizeof c);
    c.n = 100;
    c.step = 100; /* any cut is wrong */
    assert_int_equal(hd_team_open(&t, 4, NULL, &err), HD_OK);
    hd_team_run(hd_team_stream(t), &w, count_items, &c);
    assert_int_equal(c.n_wrong, 0);
    hd_team_close(t);
}

static void allocates_when_opened_only(void **state)
{
    (void)state;
    hd_team *const t = open_team(2);
    hd_memory_seal();
    check_run(hd_team_stream(t), 500, 1);
    hd_memory_unseal();
    hd_team_close(t);
}

static void refuses_what_it_cannot_start(void **state)
{
    hd_error err = {0};
    hd_team *t = NULL;
    (void)state;
    assert_int_equal(hd_team_open(&t, 0, NULL, &err), HD_ERR_INVALID);
    assert_string_equal(err.message, "0 threads: wanted 1 .. 1024");
    assert_int_equal(hd_team_open(&t, HD_MAX_THREADS + 1, NULL, &err), HD_ERR_INVALID);
    hd_memory_fail_at(1);
    assert_int_equal(hd_team_open(&t, 2, NULL, &err), HD_ERR_MEMORY);
    hd_memory_fail_at(0);
    assert_null(t);
    hd_team_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(does_each_item_once),
        cmocka_unit_test(wakes_again),
        cmocka_unit_test(sees_what_others_wrote),
        cmocka_unit_test(small_work_stays_with_the_caller),
        cmocka_unit_test(allocates_when_opened_only),
        cmocka_unit_test(refuses_what_it_cannot_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
