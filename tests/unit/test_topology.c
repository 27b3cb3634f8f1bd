#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../support/fail_each.h"
#include "base/memory.h"
#include "base/team.h"

/* Machines that nobody has here are described in hwloc's words. */

static hd_topology *open_described(const char *machine, const char *cpus)
{
    hd_error     err = {0};
    hd_topology *t = NULL;
    assert_int_equal(hd_topology_open_described(&t, machine, cpus, &err), HD_OK);
    return t;
}

/* Where `n` threads go, with spaces between; "" where the system decides for all. */
static void check_places(const hd_topology *t, int32_t n, const char *want)
{
    char   all[512] = "";
    size_t used = 0;
    for (int32_t i = 0; i < n; i++) {
        char place[64];
        hd_topology_place(t, n, i, place, sizeof place);
        if (*place)
            used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", used ? " " : "", place);
    }
    assert_string_equal(all, want);
}

static void check_counts(const hd_topology *t, int32_t cores, int32_t nodes)
{
    assert_int_equal(hd_topology_cores(t), cores);
    assert_int_equal(hd_topology_nodes(t), nodes);
}

static void pins_one_thread_a_core(void **state)
{
    (void)state;
    hd_topology *const t = open_described("node:1 core:4 pu:2", NULL);
    check_counts(t, 4, 1);
    check_places(t, 4, "0-1 2-3 4-5 6-7");
    /* whoever leaves cores free may run something else there */
    check_places(t, 3, "");
    check_places(t, 1, "");
    /* second processors of cores come when all cores have a thread */
    check_places(t, 6, "0 2 4 6 1 3");
    check_places(t, 8, "0 2 4 6 1 3 5 7");
    check_places(t, 9, "");
    hd_topology_close(t);
}

static void lets_nodes_take_turns(void **state)
{
    (void)state;
    hd_topology *const t = open_described("node:2 core:3 pu:2", NULL);
    check_counts(t, 6, 2);
    check_places(t, 6, "0-1 6-7 2-3 8-9 4-5 10-11");
    check_places(t, 3, "0-5 6-11 0-5");
    check_places(t, 8, "0 6 2 8 4 10 1 7");
    hd_topology_close(t);
    hd_topology *const u = open_described("package:2 node:2 core:2 pu:1", NULL);
    check_counts(u, 8, 4);
    check_places(u, 8, "0 2 4 6 1 3 5 7");
    hd_topology_close(u);
}

/* A cpuset may leave any processors out: of a core, whole cores, a node. */
static void keeps_within_what_is_allowed(void **state)
{
    (void)state;
    hd_topology *t = open_described("node:2 core:4 pu:2", "0-1,3,5,8-9");
    check_counts(t, 4, 2);
    check_places(t, 4, "0-1 8-9 3 5");
    check_places(t, 6, "0 8 3 5 1 9");
    check_places(t, 7, "");
    check_places(t, 2, "0-1,3,5 8-9");
    hd_topology_close(t);
    t = open_described("node:2 core:4 pu:2", "10-15");
    check_counts(t, 3, 1);
    check_places(t, 3, "10-11 12-13 14-15");
    check_places(t, 2, "");
    hd_topology_close(t);
}

static void counts_processors_where_cores_are_unknown(void **state)
{
    (void)state;
    hd_topology *const t = open_described("node:2 pu:2", NULL);
    check_counts(t, 4, 2);
    check_places(t, 4, "0 2 1 3");
    hd_topology_close(t);
}

static void has_no_more_threads_than_a_quota_is_worth(void **state)
{
    (void)state;
    hd_topology *const t = open_described("node:2 core:4 pu:2", NULL);
    assert_int_equal(hd_topology_threads(t, 0), 8);
    assert_int_equal(hd_topology_threads(t, 3), 3);
    assert_int_equal(hd_topology_threads(t, 8), 8);
    assert_int_equal(hd_topology_threads(t, 16), 8);
    hd_topology_close(t);
}

static void refuses_what_is_no_machine(void **state)
{
    hd_error     err = {0};
    hd_topology *t = NULL;
    (void)state;
    assert_int_equal(hd_topology_open_described(&t, "node:x", NULL, &err), HD_ERR_INVALID);
    assert_string_equal(err.message, "hwloc knows no machine 'node:x'");
    assert_int_equal(hd_topology_open_described(&t, "core:2 pu:1", "7", &err), HD_ERR_UNSUPPORTED);
    assert_null(t);
    hd_topology_close(NULL);
}

static hd_status open_and_close(void *user, hd_error *err)
{
    hd_topology *t = NULL;
    (void)user;
    hd_status const s = hd_topology_open(&t, err);
    hd_topology_close(t);
    return s;
}

static void survives_a_lack_of_memory(void **state)
{
    fail_each_call const c = {hd_memory_fail_at, HD_ERR_MEMORY, open_and_close, NULL, NULL};
    (void)state;
    assert_int_equal(fail_each(&c), 2);
}

/* ---- this machine ---- */

static void heeds_affinity(void **state)
{
    cpu_set_t all, one;
    hd_error  err = {0};
    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    size_t first = 0;
    while (!CPU_ISSET(first, &all)) first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    hd_topology    *t = NULL;
    hd_status const s = hd_topology_open(&t, &err);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    assert_int_equal(s, HD_OK);
    check_counts(t, 1, 1);
    hd_topology_close(t);
}

typedef struct seat {
    const hd_topology *t;
    int32_t            n, i;
    bool               is_bound, is_kept;
    cpu_set_t          set; /* where the thread may run then */
} seat;

static void *take_seat(void *ctx)
{
    seat *const s = ctx;
    s->is_bound = hd_topology_bind(s->t, s->n, s->i);
    s->is_kept = sched_getaffinity(0, sizeof s->set, &s->set) == 0;
    return NULL;
}

/* The first processor of a list such as "4-5". */
static size_t first_of(const char *list)
{
    size_t n = 0;
    assert_int_equal(sscanf(list, "%zu", &n), 1);
    return n;
}

static void moves_threads_to_their_places(void **state)
{
    hd_error     err = {0};
    hd_topology *t = NULL;
    (void)state;
    assert_int_equal(hd_topology_open(&t, &err), HD_OK);
    int32_t const n = hd_topology_cores(t);
    assert_in_range(n, 1, sysconf(_SC_NPROCESSORS_ONLN));
    for (int32_t i = 0; i < n; i++) {
        seat      s = {.t = t, .n = n, .i = i};
        pthread_t thread;
        char      place[64];
        hd_topology_place(t, n, i, place, sizeof place);
        assert_int_equal(pthread_create(&thread, NULL, take_seat, &s), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        if (!s.is_bound) continue; /* a container may forbid it */
        assert_true(s.is_kept);
        assert_true(CPU_ISSET(first_of(place), &s.set));
        if (n > 1) assert_true(CPU_COUNT(&s.set) < sysconf(_SC_NPROCESSORS_ONLN));
    }
    hd_topology_close(t);
}

static void note_place(const void *ctx, int64_t begin, int64_t end)
{
    pthread_t *const seen = (pthread_t *)(uintptr_t)ctx;
    for (int64_t i = begin; i < end; i++) seen[i] = pthread_self();
    usleep(200); /* so that the others come, too */
}

/* The thread that calls stays where it may run, and memory comes back as it was. */
static void leaves_the_caller_alone(void **state)
{
    cpu_set_t     before, after;
    pthread_t     seen[64];
    hd_error      err = {0};
    hd_work const w = {.n = 64, .step = 1, .cost = 1};
    hd_topology  *t = NULL;
    hd_team      *team = NULL;
    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    assert_int_equal(hd_topology_open(&t, &err), HD_OK);
    assert_int_equal(hd_team_open(&team, hd_topology_cores(t), t, &err), HD_OK);
    hd_team_set_grain(team, 1);
    hd_topology_spread(t);
    hd_team_run(hd_team_stream(team), &w, note_place, seen);
    hd_topology_gather(t);
    hd_team_close(team);
    hd_topology_close(t);
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pins_one_thread_a_core),
        cmocka_unit_test(lets_nodes_take_turns),
        cmocka_unit_test(keeps_within_what_is_allowed),
        cmocka_unit_test(counts_processors_where_cores_are_unknown),
        cmocka_unit_test(has_no_more_threads_than_a_quota_is_worth),
        cmocka_unit_test(refuses_what_is_no_machine),
        cmocka_unit_test(survives_a_lack_of_memory),
        cmocka_unit_test(heeds_affinity),
        cmocka_unit_test(moves_threads_to_their_places),
        cmocka_unit_test(leaves_the_caller_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
