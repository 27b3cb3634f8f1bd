/* Quantizing when files, folders and memory fail at any moment: one error, no result, and the next
 * run goes on to the same bytes.  And what calibration is told of: every matrix.  Results are
 * checked in tests/cli/test_cli_quantize.py. */
#include <dirent.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../support/st_image.h"
#include "base/digest.h"
#include "base/file.h"
#include "doctor/quantize.h"
#include "doctor/quantize_parts.h"

#define SOURCE "tests/models/tiny512-official"

/* ---- folders ---- */

typedef struct fixture {
    temp_folder folder;
    char        target[256], work[256];
} fixture;

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

static void remove_tree(const char *path)
{
    if (is_there(path)) assert_int_equal(nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static void open_fixture(fixture *f)
{
    temp_folder_make(&f->folder);
    temp_folder_path(&f->folder, "out", f->target, sizeof f->target);
    temp_folder_path(&f->folder, "out.part", f->work, sizeof f->work);
}

static void clear_fixture(const fixture *f)
{
    remove_tree(f->target);
    remove_tree(f->work);
}

static void close_fixture(fixture *f)
{
    clear_fixture(f);
    temp_folder_remove(&f->folder);
}

/* Of names and bytes, whatever the order of the system. */
static uint64_t digest_folder(const char *path)
{
    uint64_t   sum = 0;
    DIR *const dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));) {
        char    name[1024];
        hd_file f;
        if (e->d_name[0] == '.') continue;
        snprintf(name, sizeof name, "%s/%s", path, e->d_name);
        assert_int_equal(hd_file_map(&f, name, NULL), HD_OK);
        uint64_t const digest = hd_digest_add(HD_DIGEST_START, e->d_name, strlen(e->d_name));
        sum += hd_digest_add(digest, f.data, f.bytes);
        hd_file_unmap(&f);
    }
    closedir(dir);
    return sum;
}

/* ---- a run ---- */

static hd_status quantize(const fixture *f, bool *is_done, hd_error *err)
{
    hd_quantize              *q = NULL;
    hd_quantize_options const o = {.source = SOURCE,
                                   .target = f->target,
                                   .to = HD_TO_NVFP4_EXPERTS,
                                   .version = "0",
                                   .n_threads = 1};
    hd_status const           s = hd_quantize_run(&q, &o, err);
    *is_done = s == HD_OK && hd_quantize_is_done(q);
    hd_quantize_close(q);
    return s;
}

/* Operation n fails; returns false when the run has fewer. */
static bool fail_one(const fixture *f, void (*fail_at)(int64_t n), int64_t n, hd_status code)
{
    hd_error err = {0};
    bool     is_done;
    fail_at(n);
    hd_status const s = quantize(f, &is_done, &err);
    fail_at(0);
    if (is_done) return false;
    assert_false(is_there(f->target)); /* after an audit that could not read the work is there */
    if (s == HD_OK) return true;
    if (s != code && s != HD_ERR_FORMAT)
        fail_msg("operation %lld: %s: %s", (long long)n, hd_status_name(s), err.message);
    assert_true(err.message[0] && !strchr(err.message, '\n'));
    return true;
}

/* The first ones, which open and plan, one by one; of the many that write only some. */
static int64_t next_of(int64_t n) { return n < 60 ? n + 1 : n + 97; }

static void fail_all(void (*fail_at)(int64_t n), hd_status code)
{
    fixture f;
    bool    is_done;
    int64_t n = 1;
    open_fixture(&f);
    assert_int_equal(quantize(&f, &is_done, NULL), HD_OK);
    assert_true(is_done);
    uint64_t const want = digest_folder(f.target);
    for (;; n = next_of(n)) {
        clear_fixture(&f);
        if (!fail_one(&f, fail_at, n, code)) break;
        hd_error err = {0};
        if (quantize(&f, &is_done, &err) != HD_OK)
            fail_msg("after operation %lld: %s", (long long)n, err.message);
        assert_true(is_done);
        assert_true(digest_folder(f.target) == want);
        assert_false(is_there(f.work));
    }
    assert_true(n > 60);
    close_fixture(&f);
}

static void survives_failing_files(void **state)
{
    (void)state;
    fail_all(hd_file_fail_at, HD_ERR_IO);
}

static void survives_want_of_memory(void **state)
{
    (void)state;
    fail_all(hd_memory_fail_at, HD_ERR_MEMORY);
}

/* ---- calibration ---- */

typedef struct seen {
    hd_audit_side side;
    bool         *is_seen; /* [side.used] */
} seen;

static void on_input(void *user, const char *matrix, double amax)
{
    seen *const                s = user;
    const hd_audit_item *const it = hd_audit_find(&s->side, matrix);
    if (!it || it->what.format == HD_FMT_NONE) fail_msg("no matrix %s", matrix);
    assert_true(amax > 0);
    s->is_seen[it - s->side.items] = true;
}

/* Whatever a pass multiplies by has a name of the checkpoint, and every matrix is met: 300 tokens
 * reach all experts. */
static void sees_every_matrix(void **state)
{
    (void)state;
    int32_t    ids[300];
    hd_error   err = {0};
    hd_engine *e = NULL;
    seen       s = {0};
    for (int32_t i = 0; i < 300; i++) ids[i] = i == 0 ? 0 : i * 37 % 2000 + 3;
    int32_t const             lengths[] = {150, 150};
    hd_calibration_text const text = {ids, lengths, 2};
    hd_options                o = {.model = SOURCE, .act = HD_ACT_EXACT, .has_mtp = true};
    o.chunk = o.max_tokens = 150;
    if (hd_engine_open(&e, &o, &err) != HD_OK) fail_msg("%s", err.message);
    assert_int_equal(hd_audit_side_open(&s.side, SOURCE, NULL, &err), HD_OK);
    assert_non_null(s.is_seen = calloc((size_t)s.side.used, sizeof *s.is_seen));
    if (hd_calibrate(e, &text, on_input, &s, NULL, &err) != HD_OK) fail_msg("%s", err.message);
    for (int64_t i = 0; i < s.side.used; i++) {
        const hd_scanned *const m = &s.side.items[i].what;
        if (m->format == HD_FMT_NONE || strcmp(m->name, "embed") == 0) continue;
        if (!s.is_seen[i]) fail_msg("%s was never met", m->name);
    }
    free(s.is_seen);
    hd_audit_side_close(&s.side);
    hd_engine_close(e);
}

/* Roundings would show the wrong inputs. */
static void refuses_other_engines(void **state)
{
    (void)state;
    hd_error                  err = {0};
    hd_engine                *e = NULL;
    hd_options const          o = {.model = SOURCE, .act = HD_ACT_OFFICIAL};
    hd_calibration_text const text = {NULL, NULL, 0};
    assert_int_equal(hd_engine_open(&e, &o, &err), HD_OK);
    assert_int_equal(hd_calibrate(e, &text, on_input, NULL, NULL, &err), HD_ERR_UNSUPPORTED);
    hd_engine_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(survives_failing_files),
        cmocka_unit_test(survives_want_of_memory),
        cmocka_unit_test(sees_every_matrix),
        cmocka_unit_test(refuses_other_engines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
