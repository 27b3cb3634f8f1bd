#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/fail_each.h"
#include "../support/st_image.h"
#include "base/file.h"

/* ---- allocation ---- */

static void gives_zeroed_aligned_bytes(void **state)
{
    (void)state;
    for (size_t n = 0; n < 1000; n += 37) {
        unsigned char *const p = hd_memory_alloc(n);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % HD_ALIGN, 0);
        for (size_t i = 0; i < n; i++) assert_int_equal(p[i], 0);
        memset(p, 0xFF, n);
        hd_memory_free(p);
    }
    hd_memory_free(NULL);
}

/* Large blocks are cleared page by page, and what was freed comes back as zeros. */
static void clears_large_blocks(void **state)
{
    static const size_t sizes[] = {1 << 19, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 5000001};
    (void)state;
    for (int i = 0; i < 50; i++) {
        size_t const bytes = sizes[i % 5];
        char *const  p = hd_memory_alloc(bytes);
        assert_non_null(p);
        for (size_t at = 0; at < bytes; at++)
            if (p[at]) fail_msg("byte %zu of %zu is %d", at, bytes, p[at]);
        memset(p, 0xEE, bytes);
        hd_memory_free(p);
        if (i % 7 == 0) hd_memory_trim();
    }
}

/* More than any machine has, of which a little is used and given back. */
static void reserves_more_than_there_is(void **state)
{
    size_t const bytes = (size_t)1 << 44, used = 1 << 20;
    char *const  p = hd_memory_reserve(bytes);
    (void)state;
    assert_non_null(p);
    memset(p + bytes / 2, 7, used);
    assert_int_equal(p[bytes / 2 + used], 0);
    hd_memory_return(p + bytes / 2 + 1, used - 2); /* both ends are parts of pages */
    assert_int_equal(p[bytes / 2], 7);
    assert_int_equal(p[bytes / 2 + used - 1], 7);
    assert_int_equal(p[bytes / 2 + used / 2], 0);
    hd_memory_return(p + bytes / 2 + used / 2, 5); /* no whole page */
    hd_memory_unreserve(p, bytes);
    hd_memory_unreserve(NULL, 0);
    hd_memory_fail_at(1);
    assert_null(hd_memory_reserve(bytes));
    hd_memory_fail_at(0);
}

static void refuses_impossible_sizes(void **state)
{
    hd_pool   pool = {0};
    hd_buffer buffer = {0};
    (void)state;
    assert_null(hd_memory_alloc(SIZE_MAX));
    assert_null(hd_memory_alloc(SIZE_MAX - HD_ALIGN + 1));
    assert_null(hd_pool_alloc(&pool, SIZE_MAX));
    assert_null(hd_pool_alloc(&pool, SIZE_MAX / 2 + 1));
    assert_null(hd_pool_copy(&pool, "x", SIZE_MAX));
    hd_buffer_add(&buffer, "", 1);
    hd_buffer_add(&buffer, "", SIZE_MAX);
    assert_true(buffer.failed);
    hd_buffer_free(&buffer);
    hd_pool_free(&pool);
}

static void fails_the_wanted_allocation(void **state)
{
    (void)state;
    int64_t const before = hd_memory_count();
    hd_memory_fail_at(2);
    void *const first = hd_memory_alloc(1), *const second = hd_memory_alloc(1);
    void *const third = hd_memory_alloc(1);
    hd_memory_fail_at(0);
    assert_non_null(first);
    assert_null(second);
    assert_non_null(third);
    assert_int_equal(hd_memory_count() - before, 3);
    hd_memory_free(first);
    hd_memory_free(third);
}

static void checks_products_and_sums(void **state)
{
    size_t out = 0;
    (void)state;
    assert_true(hd_size_mul(SIZE_MAX / 3, 3, &out));
    assert_int_equal(out, SIZE_MAX / 3 * 3);
    assert_false(hd_size_mul(SIZE_MAX / 3 + 1, 3, &out));
    assert_true(hd_size_mul(0, SIZE_MAX, &out));
    assert_int_equal(out, 0);
    assert_true(hd_size_add(SIZE_MAX - 1, 1, &out));
    assert_int_equal(out, SIZE_MAX);
    assert_false(hd_size_add(SIZE_MAX, 1, &out));
}

/* ---- seal ---- */

/* An allocation while sealed is refused, or ends a build with assertions: in a child. */
static int allocate_sealed(void)
{
    pid_t const child = fork();
    if (child == 0) {
        struct rlimit const no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        signal(SIGABRT, SIG_DFL);
        if (!freopen("/dev/null", "w", stderr)) _exit(3);
        hd_memory_seal();
        hd_memory_seal();
        hd_memory_unseal();
        _exit(hd_memory_alloc(1) ? 1 : 0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void allocates_nothing_while_sealed(void **state)
{
    (void)state;
    int const status = allocate_sealed();
#ifdef NDEBUG
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
#else
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
#endif
    hd_memory_seal();
    hd_memory_unseal();
    void *const p = hd_memory_alloc(1);
    assert_non_null(p);
    hd_memory_free(p);
}

/* ---- arena ---- */

typedef struct layout {
    char *a, *b, *c, *d;
} layout;

static layout lay_out(hd_arena *arena)
{
    layout l;
    l.a = hd_arena_alloc(arena, 1);
    size_t const mark = hd_arena_mark(arena);
    l.b = hd_arena_alloc(arena, 1000);
    l.c = hd_arena_alloc(arena, HD_ALIGN);
    hd_arena_release(arena, mark);
    l.d = hd_arena_alloc(arena, 300);
    return l;
}

static void binds_what_it_measured(void **state)
{
    (void)state;
    hd_arena     measured = {0};
    layout const none = lay_out(&measured);
    assert_false(measured.failed);
    assert_null(none.a);
    assert_null(none.d);
    assert_int_equal(measured.peak, HD_ALIGN * (1 + 4 + 1));
    assert_int_equal(measured.used, HD_ALIGN * (1 + 2));
    hd_arena     bound = {.base = hd_memory_alloc(measured.peak), .cap = measured.peak};
    layout const l = lay_out(&bound);
    assert_false(bound.failed);
    assert_int_equal(bound.peak, measured.peak);
    assert_int_equal(bound.used, measured.used);
    assert_ptr_equal(l.a, bound.base);
    assert_ptr_equal(l.b, bound.base + HD_ALIGN);
    assert_ptr_equal(l.c, l.b + 1024);
    assert_ptr_equal(l.d, l.b); /* scratch is used again */
    hd_memory_free(bound.base);
}

static void stays_failed_when_full(void **state)
{
    (void)state;
    hd_arena a = {.base = hd_memory_alloc(2 * HD_ALIGN), .cap = 2 * HD_ALIGN};
    assert_non_null(hd_arena_alloc(&a, 1));
    assert_null(hd_arena_alloc(&a, HD_ALIGN + 1));
    assert_true(a.failed);
    assert_null(hd_arena_alloc(&a, 1)); /* would fit, but one check at the end must do */
    assert_int_equal(a.used, HD_ALIGN);
    hd_memory_free(a.base);
    hd_arena measuring = {0};
    assert_null(hd_arena_alloc(&measuring, SIZE_MAX));
    assert_true(measuring.failed);
    measuring = (hd_arena){0};
    hd_arena_alloc(&measuring, SIZE_MAX / 2);
    hd_arena_alloc(&measuring, SIZE_MAX / 2);
    hd_arena_alloc(&measuring, SIZE_MAX / 2);
    assert_true(measuring.failed);
}

/* ---- pool ---- */

static void holds_small_and_large_objects(void **state)
{
    hd_pool        pool = {0};
    unsigned char *p[200];
    (void)state;
    for (size_t i = 0; i < 200; i++) {
        p[i] = hd_pool_alloc(&pool, i * i * 10);
        assert_non_null(p[i]);
        assert_int_equal((uintptr_t)p[i] % 64, 0);
        for (size_t b = 0; b < i * i * 10; b++) assert_int_equal(p[i][b], 0);
        memset(p[i], (int)i, i * i * 10);
    }
    for (size_t i = 0; i < 200; i++)
        for (size_t b = 0; b < i * i * 10; b += 7) assert_int_equal(p[i][b], i);
    char *const text = hd_pool_copy(&pool, "abcdef", 3);
    assert_string_equal(text, "abc");
    assert_string_equal(hd_pool_copy(&pool, NULL, 0), "");
    hd_pool_free(&pool);
    assert_null(pool.head);
    assert_int_equal(pool.bytes, 0);
    hd_pool_free(&pool);
}

static void pool_survives_a_failure(void **state)
{
    hd_pool pool = {0};
    (void)state;
    assert_non_null(hd_pool_alloc(&pool, 100));
    hd_memory_fail_at(1);
    assert_null(hd_pool_alloc(&pool, 1 << 20));
    hd_memory_fail_at(0);
    assert_non_null(hd_pool_alloc(&pool, 1 << 20));
    hd_pool_free(&pool);
}

/* ---- buffer ---- */

static void buffer_grows_and_ends_with_nul(void **state)
{
    hd_buffer b = {0};
    (void)state;
    for (int i = 0; i < 5000; i++) {
        hd_buffer_printf(&b, "%d,", i % 10);
        assert_int_equal(b.data[b.used], 0);
    }
    hd_buffer_add(&b, "a\0b", 3);
    hd_buffer_text(&b, "end");
    assert_false(b.failed);
    assert_int_equal(b.used, 5000 * 2 + 3 + 3);
    assert_memory_equal(b.data, "0,1,2,", 6);
    assert_string_equal(b.data + b.used - 4, "bend");
    hd_buffer_clear(&b);
    assert_int_equal(b.used, 0);
    assert_string_equal(b.data, "");
    hd_buffer_add(&b, NULL, 0);
    hd_buffer_free(&b);
    assert_null(b.data);
    hd_buffer_clear(&b);
    hd_buffer_free(&b);
}

static void buffer_stays_failed(void **state)
{
    hd_buffer b = {0};
    (void)state;
    hd_buffer_text(&b, "kept");
    hd_memory_fail_at(1);
    for (int i = 0; i < 100; i++) hd_buffer_printf(&b, "%0100d", i);
    hd_memory_fail_at(0);
    assert_true(b.failed);
    hd_buffer_text(&b, "x");
    assert_string_equal(b.data, "kept");
    hd_buffer_free(&b);
    assert_false(b.failed);
}

/* ---- files ---- */

static void write_text(const char *path, const char *text)
{
    hd_file_writer w;
    assert_int_equal(hd_file_begin(&w, path, NULL), HD_OK);
    assert_int_equal(hd_file_put(&w, text, strlen(text), NULL), HD_OK);
    assert_int_equal(hd_file_commit(&w, NULL), HD_OK);
}

static void assert_text(const char *path, const char *want)
{
    hd_pool pool = {0};
    char   *text = NULL;
    size_t  bytes;
    assert_int_equal(hd_file_read(&text, &bytes, path, 1000, &pool, NULL), HD_OK);
    assert_int_equal(bytes, strlen(want));
    assert_string_equal(text, want);
    hd_pool_free(&pool);
}

/* What a signal handler does in front of the end: open ones go, whole ones stay. */
static void abandons_open_files(void **state)
{
    enum { N = 18 }; /* two more than are listed */
    static hd_file_writer w[N];
    temp_folder           folder;
    char                  path[128], name[16];
    (void)state;
    temp_folder_make(&folder);
    for (int round = 0; round < 3; round++) { /* places are given back */
        for (int i = 0; i < N; i++) {
            snprintf(name, sizeof name, "out%d", i);
            temp_folder_path(&folder, name, path, sizeof path);
            assert_int_equal(hd_file_begin(&w[i], path, NULL), HD_OK);
        }
        assert_int_equal(hd_file_commit(&w[0], NULL), HD_OK);
        hd_file_abandon();
        assert_true(is_there(w[0].path));
        for (int i = 1; i < 16; i++) assert_false(is_there(w[i].temporary));
        for (int i = 1; i < N; i++) hd_file_abort(&w[i]);
        for (int i = 1; i < N; i++) assert_false(is_there(w[i].temporary));
    }
    assert_int_equal(hd_file_save(w[0].path, "all", 3, NULL), HD_OK);
    hd_file_abandon();
    assert_text(w[0].path, "all");
    temp_folder_remove(&folder);
}

static void writes_whole_files_only(void **state)
{
    temp_folder    folder;
    char           path[128];
    hd_file_writer w;
    (void)state;
    temp_folder_make(&folder);
    temp_folder_path(&folder, "out", path, sizeof path);
    assert_int_equal(hd_file_begin(&w, path, NULL), HD_OK);
    assert_int_equal(hd_file_put(&w, "half", 4, NULL), HD_OK);
    assert_false(is_there(path));
    assert_true(is_there(w.temporary));
    hd_file_abort(&w);
    assert_false(is_there(w.temporary));
    assert_false(is_there(path));
    hd_file_abort(&w); /* again is fine */
    write_text(path, "first");
    assert_text(path, "first");
    write_text(path, "second, longer");
    assert_text(path, "second, longer");
    assert_int_equal(hd_file_begin(&w, path, NULL), HD_OK);
    hd_file_abort(&w);
    assert_text(path, "second, longer");
    temp_folder_remove(&folder);
}

static void writes_at_offsets(void **state)
{
    temp_folder    folder;
    char           path[128];
    hd_file_writer w;
    (void)state;
    temp_folder_make(&folder);
    temp_folder_path(&folder, "out", path, sizeof path);
    assert_int_equal(hd_file_begin(&w, path, NULL), HD_OK);
    assert_int_equal(hd_file_put_at(&w, 3, "def", 3, NULL), HD_OK);
    assert_int_equal(hd_file_put_at(&w, 0, "abc", 3, NULL), HD_OK);
    assert_int_equal(hd_file_commit(&w, NULL), HD_OK);
    assert_text(path, "abcdef");
    temp_folder_remove(&folder);
}

static void assert_io_error(hd_status s, const hd_error *err, const char *path)
{
    assert_int_equal(s, HD_ERR_IO);
    assert_int_equal(err->code, HD_ERR_IO);
    if (!strstr(err->message, path)) fail_msg("'%s' does not name %s", err->message, path);
}

static void names_the_path_in_errors(void **state)
{
    static const char absent[] = "/nonexistent/folder/file", folder[] = "/tmp";
    hd_file           f = {0};
    hd_file_writer    w;
    hd_pool           pool = {0};
    hd_error          err = {0};
    char             *text = NULL;
    size_t            bytes;
    (void)state;
    assert_io_error(hd_file_map(&f, absent, &err), &err, absent);
    assert_io_error(hd_file_map(&f, folder, &err), &err, folder);
    assert_io_error(hd_file_map(&f, "/dev/zero", &err), &err, "/dev/zero");
    assert_io_error(hd_file_read(&text, &bytes, absent, 10, &pool, &err), &err, absent);
    assert_io_error(hd_file_begin(&w, absent, &err), &err, absent);
    hd_file_abort(&w);
    assert_null(text);
    assert_int_equal(hd_file_map(&f, absent, NULL), HD_ERR_IO);
}

static void refuses_too_long_paths(void **state)
{
    char           path[6000];
    hd_file_writer w;
    (void)state;
    memset(path, 'a', sizeof path - 1);
    path[sizeof path - 1] = 0;
    assert_int_equal(hd_file_begin(&w, path, NULL), HD_ERR_INVALID);
    hd_file_abort(&w);
}

static void reads_at_most_the_limit(void **state)
{
    temp_folder folder;
    char        path[128];
    hd_pool     pool = {0};
    hd_error    err = {0};
    char       *text = NULL;
    size_t      bytes = 77;
    (void)state;
    temp_folder_make(&folder);
    temp_folder_path(&folder, "in", path, sizeof path);
    write_text(path, "12345");
    assert_int_equal(hd_file_read(&text, &bytes, path, 4, &pool, &err), HD_ERR_FORMAT);
    assert_non_null(strstr(err.message, path));
    assert_null(text);
    assert_int_equal(bytes, 77);
    hd_memory_fail_at(1);
    assert_int_equal(hd_file_read(&text, &bytes, path, 5, &pool, &err), HD_ERR_MEMORY);
    hd_memory_fail_at(0);
    assert_int_equal(hd_file_read(&text, &bytes, path, 5, &pool, &err), HD_OK);
    assert_string_equal(text, "12345");
    hd_pool_free(&pool);
    temp_folder_remove(&folder);
}

static void maps_files(void **state)
{
    temp_folder folder;
    char        path[128];
    hd_file     f = {0};
    (void)state;
    temp_folder_make(&folder);
    temp_folder_path(&folder, "in", path, sizeof path);
    write_text(path, "");
    assert_int_equal(hd_file_map(&f, path, NULL), HD_OK);
    assert_null(f.data);
    assert_int_equal(f.bytes, 0);
    hd_file_unmap(&f);
    write_text(path, "abc");
    assert_int_equal(hd_file_map(&f, path, NULL), HD_OK);
    assert_int_equal(f.bytes, 3);
    assert_memory_equal(f.data, "abc", 3);
    hd_file_unmap(&f);
    hd_file_unmap(&f);
    temp_folder_remove(&folder);
}

/* What stands at a path, and what the system refuses to tell. */
static void looks_at_paths(void **state)
{
    temp_folder folder;
    char path[128], beyond[160], *const endless = hd_memory_alloc(70000);
    hd_file_kind kind = HD_FILE_OTHER;
    hd_error     err = {0};
    (void)state;
    temp_folder_make(&folder);
    temp_folder_path(&folder, "in", path, sizeof path);
    snprintf(beyond, sizeof beyond, "%s/x", path);
    assert_int_equal(hd_file_look(&kind, path, NULL), HD_OK);
    assert_int_equal(kind, HD_FILE_NONE);
    write_text(path, "abc");
    assert_int_equal(hd_file_look(&kind, path, NULL), HD_OK);
    assert_int_equal(kind, HD_FILE_OTHER);
    assert_int_equal(hd_file_look(&kind, folder.path, NULL), HD_OK);
    assert_int_equal(kind, HD_FILE_FOLDER);
    assert_int_equal(hd_file_look(&kind, beyond, NULL), HD_OK);
    assert_int_equal(kind, HD_FILE_NONE);
    memset(endless, 'x', 69999);
    assert_int_equal(hd_file_look(&kind, endless, &err), HD_ERR_IO);
    assert_non_null(strstr(err.message, "xxx"));
    hd_memory_free(endless);
    temp_folder_remove(&folder);
}

static hd_status list_once(void *folder, hd_error *err)
{
    hd_buffer names = {0};
    int32_t   n = -1;
    hd_status s = hd_file_list(&names, &n, folder, ".end", 100, err);
    if (s == HD_OK) assert_int_equal(n, 2);
    if (s == HD_OK) assert_int_equal(names.used, sizeof "a.end" + sizeof "bc.end");
    hd_buffer_free(&names);
    return s;
}

/* Names with the ending, none hidden; that an entry cannot be read is no end of the list. */
static void lists_folders(void **state)
{
    static const char *const names[] = {"a.end", "bc.end", "c.en", ".d.end", ".end"};
    temp_folder              folder;
    hd_buffer                found = {0};
    hd_error                 err = {0};
    int32_t                  n = 0;
    (void)state;
    temp_folder_make(&folder);
    for (int i = 0; i < 5; i++) temp_folder_write_text(&folder, names[i], "");
    /* opening, each of 5 names, two dots, the end */
    assert_int_equal(
        fail_each(&(fail_each_call){hd_file_fail_at, HD_ERR_IO, list_once, NULL, folder.path}), 9);
    assert_int_equal(fail_each(&(fail_each_call){hd_memory_fail_at, HD_ERR_MEMORY, list_once, NULL,
                                                 folder.path}),
                     1);
    assert_int_equal(hd_file_list(&found, &n, folder.path, ".end", 1, NULL), HD_OK);
    assert_int_equal(n, 1);
    hd_buffer_free(&found);
    temp_folder_remove(&folder);
    assert_int_equal(hd_file_list(&found, &n, folder.path, ".end", 1, &err), HD_ERR_IO);
    assert_non_null(strstr(err.message, folder.path));
}

static void reads_in_pieces(void **state)
{
    temp_folder    folder;
    hd_error       err = {0};
    hd_file_reader r;
    char           path[256], got[8] = {0};
    (void)state;
    temp_folder_make(&folder);
    temp_folder_write_text(&folder, "text", "some text");
    temp_folder_path(&folder, "text", path, sizeof path);
    assert_int_equal(hd_file_open(&r, path, &err), HD_OK);
    assert_int_equal(r.bytes, 9);
    assert_int_equal(hd_file_take(&r, got, 4, &err), HD_OK);
    assert_string_equal(got, "some");
    assert_int_equal(hd_file_take(&r, got, 5, &err), HD_OK);
    assert_string_equal(got, " text");
    assert_int_equal(hd_file_take(&r, got, 1, &err), HD_ERR_IO);
    hd_file_close(&r);
    temp_folder_remove(&folder);
    assert_int_equal(hd_file_open(&r, path, &err), HD_ERR_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_zeroed_aligned_bytes),
        cmocka_unit_test(clears_large_blocks),
        cmocka_unit_test(reserves_more_than_there_is),
        cmocka_unit_test(refuses_impossible_sizes),
        cmocka_unit_test(fails_the_wanted_allocation),
        cmocka_unit_test(checks_products_and_sums),
        cmocka_unit_test(allocates_nothing_while_sealed),
        cmocka_unit_test(binds_what_it_measured),
        cmocka_unit_test(stays_failed_when_full),
        cmocka_unit_test(holds_small_and_large_objects),
        cmocka_unit_test(pool_survives_a_failure),
        cmocka_unit_test(buffer_grows_and_ends_with_nul),
        cmocka_unit_test(buffer_stays_failed),
        cmocka_unit_test(writes_whole_files_only),
        cmocka_unit_test(abandons_open_files),
        cmocka_unit_test(writes_at_offsets),
        cmocka_unit_test(names_the_path_in_errors),
        cmocka_unit_test(refuses_too_long_paths),
        cmocka_unit_test(reads_at_most_the_limit),
        cmocka_unit_test(maps_files),
        cmocka_unit_test(looks_at_paths),
        cmocka_unit_test(lists_folders),
        cmocka_unit_test(reads_in_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
