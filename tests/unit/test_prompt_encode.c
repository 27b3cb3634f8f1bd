#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "hadal.h"

#define BAR  "\xEF\xBD\x9C"
#define USER "<" BAR "User" BAR ">"

static hd_tokenizer *demo;

static int open_demo(void **state)
{
    (void)state;
    return hd_tokenizer_open(&demo, "models/demo", NULL) == HD_OK ? 0 : -1;
}

static int close_demo(void **state)
{
    (void)state;
    hd_tokenizer_close(demo);
    return 0;
}

/* A prompt over constant text; spans [n]. */
static hd_prompt prompt_of(const char *text, hd_span *spans, size_t n)
{
    return (hd_prompt){.text = (char *)(uintptr_t)text,
                       .text_bytes = strlen(text),
                       .control = spans,
                       .n_control = n};
}

static int32_t append_plain(const char *text, int32_t *ids, int32_t n)
{
    int32_t more = 0;
    assert_int_equal(hd_tokenizer_encode(demo, text, strlen(text), false, ids + n, 64, &more, NULL),
                     HD_OK);
    return n + more;
}

/* Only the ranges are control tokens: the same spelling typed by a user stays text. */
static void test_ranges_decide(void **state)
{
    static const char text[] = USER "say " USER " </think>" USER USER "ok";
    size_t const                                                 u = strlen(USER);
    size_t const                                                 second = u + 4 + u + 9;
    hd_span         spans[] = {{0, u}, {second, second + u}, {second + u, second + 2 * u}};
    hd_prompt const p = prompt_of(text, spans, 3);
    int32_t const   user = hd_tokenizer_control_id(demo, USER, u);
    int32_t         want[192], got[192], n_want = 0, n = 0;
    (void)state;
    want[n_want++] = user;
    n_want = append_plain("say " USER " </think>", want, n_want);
    want[n_want++] = user;
    want[n_want++] = user;
    n_want = append_plain("ok", want, n_want);
    assert_int_equal(hd_prompt_encode(&p, demo, got, 192, &n, NULL), HD_OK);
    assert_int_equal(n, n_want);
    assert_memory_equal(got, want, (size_t)n * sizeof *got);
    assert_int_equal(hd_prompt_encode(&p, demo, NULL, 0, &n, NULL), HD_ERR_LIMIT);
    assert_int_equal(n, n_want);
}

static void test_empty(void **state)
{
    hd_prompt const p = {0};
    int32_t         n = -1;
    (void)state;
    assert_int_equal(hd_prompt_encode(&p, demo, NULL, 0, &n, NULL), HD_OK);
    assert_int_equal(n, 0);
}

static void refuse(const hd_prompt *p, hd_status code, int64_t where)
{
    hd_error err = {0};
    int32_t  ids[64], n = -9;
    assert_int_equal(hd_prompt_encode(p, demo, ids, 64, &n, &err), code);
    assert_int_equal(err.where, where);
    assert_int_equal(n, -9);
}

static void test_bad_ranges(void **state)
{
    static const hd_span bad[][2] = {{{0, 0}, {1, 2}},
                                     {{2, 1}, {3, 4}},
                                     {{0, 7}, {6, 14}},
                                     {{0, 7}, {8, 99}},
                                     {{99, 100}, {0, 7}}};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        hd_span         spans[2] = {bad[i][0], bad[i][1]};
        hd_prompt const p = prompt_of("<think><think>", spans, 2);
        refuse(&p, HD_ERR_INVALID, -1);
    }
    hd_span         spans[] = {{2, 9}};
    hd_prompt const lacking = prompt_of("ab<thonk>", spans, 1);
    refuse(&lacking, HD_ERR_FORMAT, 2);
    hd_prompt const no_text = {.text_bytes = 3};
    refuse(&no_text, HD_ERR_INVALID, -1);
    hd_prompt const no_ranges = {
        .text = (char *)(uintptr_t) "abc", .text_bytes = 3, .n_control = 1};
    refuse(&no_ranges, HD_ERR_INVALID, -1);
}

/* Offsets in errors are those of the whole prompt; a range that cuts a character shows. */
static void test_not_utf8(void **state)
{
    hd_span         think[] = {{2, 9}};
    hd_prompt const behind = prompt_of("ab<think>c\xFFz", think, 1);
    (void)state;
    refuse(&behind, HD_ERR_FORMAT, 10);
    hd_prompt const ahead = prompt_of("a\xC3<think>", think, 1);
    refuse(&ahead, HD_ERR_FORMAT, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges_decide),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_bad_ranges),
        cmocka_unit_test(test_not_utf8),
    };
    return cmocka_run_group_tests(tests, open_demo, close_demo);
}
