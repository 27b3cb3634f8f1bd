/* A model's files that are missing, cut, unreadable or fail while they are read: the engine
 * does not open, one message names the file, and nothing is left behind. */
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
#include "../support/st_image.h"

#define DEMO "models/demo"

/* A folder of links to the demo model's files, without one of them. */
static void link_demo(temp_folder *t, const char *without)
{
    DIR *const dir = opendir(DEMO);
    assert_non_null(dir);
    temp_folder_make(t);
    for (struct dirent *e; (e = readdir(dir));) {
        char from[4096], to[512], root[2048];
        if (e->d_name[0] == '.' || strcmp(e->d_name, without) == 0) continue;
        assert_non_null(getcwd(root, sizeof root));
        snprintf(from, sizeof from, "%s/" DEMO "/%s", root, e->d_name);
        temp_folder_path(t, e->d_name, to, sizeof to);
        assert_int_equal(symlink(from, to), 0);
    }
    closedir(dir);
}

/* An open that is closed again. */
typedef struct opening {
    hd_options o;
    hd_engine *e;
} opening;

static hd_status open_once(void *user, hd_error *err)
{
    opening *const  x = user;
    hd_status const s = hd_engine_open(&x->e, &x->o, err);
    if (s == HD_OK) hd_engine_close(x->e);
    return s;
}

static void check_opening(void *user, const hd_error *err)
{
    opening *const x = user;
    assert_memory_equal(err->message, x->o.model, strlen(x->o.model));
    assert_non_null(strstr(err->message, "Input/output error"));
    assert_null(x->e);
}

/* Every look, open, map and read of an open in turn fails once: one message with the file and the
 * reason, and nothing is left behind.  Returns how many there are. */
static int32_t open_with_failures(const char *model)
{
    opening x = {.o = {.model = model, .max_tokens = 64, .chunk = 8, .has_mtp = true}};
    return fail_each(&(fail_each_call){hd_file_fail_at, HD_ERR_IO, open_once, check_opening, &x});
}

static void test_open_with_failing_files(void **state)
{
    temp_folder   t;
    int32_t const n = open_with_failures(DEMO);
    (void)state;
    assert_in_range(n, 8 * 3, 100); /* config, hints, index, four shards, tokenizer */
    link_demo(&t, "model.safetensors.index.json");
    /* The index is looked for; one file, too; then the folder is read, and its end. */
    assert_in_range(open_with_failures(t.path), n + 10, 100);
    temp_folder_remove(&t);
}

static void check_broken(temp_folder *t, hd_status code, const char *what)
{
    hd_engine       *e = NULL;
    hd_error         err = {0};
    hd_options const o = {.model = t->path, .max_tokens = 8};
    hd_status const  got = hd_engine_open(&e, &o, &err);
    if (got != code) fail_msg("%s: %s: %s", what, hd_status_name(got), err.message);
    assert_null(e);
    if (!strstr(err.message, what)) fail_msg("\"%s\" does not name %s", err.message, what);
    temp_folder_remove(t);
}

static void test_missing_files(void **state)
{
    static const char *const names[] = {"config.json", "tokenizer.json",
                                        "model-00003-of-00004.safetensors"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        temp_folder t;
        char        path[512];
        link_demo(&t, names[i]);
        check_broken(&t, HD_ERR_IO, names[i]);
        link_demo(&t, names[i]);
        temp_folder_path(&t, names[i], path, sizeof path);
        assert_int_equal(symlink("/nowhere/at/all", path), 0);
        check_broken(&t, HD_ERR_IO, names[i]);
    }
}

/* Permissions do not stop root, a folder in the file's place stops everyone. */
static void test_unreadable_files(void **state)
{
    static const char *const names[] = {"config.json", "generation_config.json", "tokenizer.json",
                                        "model-00002-of-00004.safetensors"};
    (void)state;
    for (int i = 0; i < 4; i++) {
        temp_folder t;
        char        path[512];
        link_demo(&t, names[i]);
        temp_folder_path(&t, names[i], path, sizeof path);
        assert_int_equal(symlink("/", path), 0);
        check_broken(&t, HD_ERR_IO, names[i]);
    }
}

static void test_truncated_files(void **state)
{
    static const char *const names[] = {"config.json", "tokenizer.json",
                                        "model.safetensors.index.json",
                                        "model-00004-of-00004.safetensors"};
    (void)state;
    for (int i = 0; i < 4; i++) {
        char        path[512];
        size_t      bytes;
        temp_folder t;
        snprintf(path, sizeof path, DEMO "/%s", names[i]);
        char *const  data = read_golden(path, &bytes);
        size_t const cuts[] = {0, 7, bytes / 2, bytes - 1};
        for (int j = 0; j < 4; j++) {
            /* Its last byte is a newline that nobody misses. */
            if (cuts[j] == bytes - 1 && data[cuts[j]] == '\n') continue;
            link_demo(&t, names[i]);
            temp_folder_write(&t, names[i], data, cuts[j]);
            check_broken(&t, HD_ERR_FORMAT, names[i]);
        }
        free(data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_with_failing_files),
        cmocka_unit_test(test_missing_files),
        cmocka_unit_test(test_unreadable_files),
        cmocka_unit_test(test_truncated_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
