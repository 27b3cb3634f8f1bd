/* Folders that are made, held, renamed and emptied. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../support/st_image.h"
#include "base/file.h"

typedef struct fixture {
    temp_folder t;
    char        a[256], b[256], file[256];
} fixture;

static void open_fixture(fixture *f)
{
    temp_folder_make(&f->t);
    temp_folder_path(&f->t, "a", f->a, sizeof f->a);
    temp_folder_path(&f->t, "b", f->b, sizeof f->b);
    temp_folder_path(&f->t, "file", f->file, sizeof f->file);
    temp_folder_write_text(&f->t, "file", "x");
}

static void close_fixture(fixture *f)
{
    rmdir(f->a);
    rmdir(f->b);
    temp_folder_remove(&f->t);
}

static void makes_and_removes(void **state)
{
    (void)state;
    fixture  f;
    hd_error err;
    open_fixture(&f);
    assert_int_equal(hd_folder_make(f.a, NULL), HD_OK);
    assert_int_equal(hd_folder_make(f.a, NULL), HD_OK);
    assert_int_equal(hd_folder_make(f.file, &err), HD_ERR_IO);
    assert_non_null(strstr(err.message, "/file: cannot make this folder: File exists"));
    assert_int_equal(hd_file_remove(f.a, NULL), HD_OK);
    assert_int_equal(hd_file_remove(f.a, NULL), HD_OK);
    assert_false(is_there(f.a));
    assert_int_equal(hd_file_remove(f.t.path, &err), HD_ERR_IO); /* not empty */
    hd_file_fail_at(1);
    assert_int_equal(hd_folder_make(f.a, NULL), HD_ERR_IO);
    hd_file_fail_at(1);
    assert_int_equal(hd_file_remove(f.file, NULL), HD_ERR_IO);
    close_fixture(&f);
}

/* What stands there is never replaced, be it an empty folder. */
static void renames_to_a_free_name(void **state)
{
    (void)state;
    fixture  f;
    hd_error err;
    open_fixture(&f);
    assert_int_equal(hd_folder_make(f.a, NULL), HD_OK);
    assert_int_equal(hd_folder_make(f.b, NULL), HD_OK);
    assert_int_equal(hd_folder_rename(f.a, f.b, &err), HD_ERR_IO);
    assert_non_null(strstr(err.message, "File exists"));
    assert_int_equal(hd_folder_rename(f.a, f.file, NULL), HD_ERR_IO);
    assert_int_equal(hd_file_remove(f.b, NULL), HD_OK);
    assert_int_equal(hd_folder_rename(f.a, f.b, NULL), HD_OK);
    assert_true(is_there(f.b) && !is_there(f.a));
    hd_file_fail_at(1);
    assert_int_equal(hd_folder_rename(f.b, f.a, NULL), HD_ERR_IO);
    close_fixture(&f);
}

static int hold_in_child(const char *path)
{
    pid_t const child = fork();
    if (child == 0) {
        int             fd;
        hd_status const s = hd_folder_hold(&fd, path, NULL);
        _exit((int)s);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WEXITSTATUS(status);
}

static void holds_a_folder(void **state)
{
    (void)state;
    fixture f;
    int     fd;
    open_fixture(&f);
    assert_int_equal(hd_folder_hold(&fd, f.a, NULL), HD_ERR_IO);
    assert_int_equal(fd, -1);
    assert_int_equal(hd_folder_make(f.a, NULL), HD_OK);
    assert_int_equal(hd_folder_hold(&fd, f.a, NULL), HD_OK);
    assert_int_equal(hold_in_child(f.a), HD_ERR_INVALID);
    hd_folder_let_go(fd);
    assert_int_equal(hold_in_child(f.a), HD_OK);
    assert_int_equal(hd_folder_hold(&fd, f.a, NULL), HD_OK); /* the child is gone */
    hd_folder_let_go(fd);
    hd_folder_let_go(-1);
    close_fixture(&f);
}

static void tells_the_space(void **state)
{
    (void)state;
    fixture f;
    int64_t bytes = -1;
    open_fixture(&f);
    assert_int_equal(hd_folder_space(&bytes, f.t.path, NULL), HD_OK);
    assert_true(bytes > 0);
    assert_int_equal(hd_folder_space(&bytes, f.a, NULL), HD_ERR_IO);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(makes_and_removes),
        cmocka_unit_test(renames_to_a_free_name),
        cmocka_unit_test(holds_a_folder),
        cmocka_unit_test(tells_the_space),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
