#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "hadal.h"

#define R "\xEF\xBF\xBD"

static const struct {
    const char *in, *out;
} cases[] = {
    /* whole characters of each length, at the ends of their ranges */
    {"abc", "abc"},
    {"\x7F\xC2\x80\xDF\xBF", "\x7F\xC2\x80\xDF\xBF"},
    {"\xE0\xA0\x80\xED\x9F\xBF\xEE\x80\x80", "\xE0\xA0\x80\xED\x9F\xBF\xEE\x80\x80"},
    {"\xF0\x90\x80\x80\xF4\x8F\xBF\xBF", "\xF0\x90\x80\x80\xF4\x8F\xBF\xBF"},
    /* one U+FFFD for each longest start of a character */
    {"\x80", R},
    {"\xFF\xFE", R R},
    {"\xC0\x80", R R},
    {"\xC3(", R "("},
    {"\xE4\xBDz", R "z"},
    {"\xE0\x80\x80", R R R},
    {"\xED\xA0\x80", R R R},
    {"\xF0\x9F\x99", R},
    {"\xF0\x9F\x99\xF0\x9F\x99\x82", R "\xF0\x9F\x99\x82"},
    {"\xF0\x80\x80\x80", R R R R},
    {"\xF4\x90\x80\x80", R R R R},
    {"\xF5\x80", R R},
    {"\xE4\xBD\xE4\xBD\xA0", R "\xE4\xBD\xA0"},
    {"a\xF1\x80\x80\xE1\x80\xC2z\x80y\x80\xBFx", "a" R R R "z" R "y" R R "x"},
};

/* Feeds in [n] in two parts cut at `cut`, or bytewise when cut is -1. */
static size_t decode(const char *in, size_t n, int cut, char *out)
{
    hd_utf8_stream s = {0};
    size_t         used = 0;
    if (cut < 0) {
        for (size_t i = 0; i < n; i++) used += hd_utf8_push(&s, in + i, 1, out + used);
    } else {
        used = hd_utf8_push(&s, in, (size_t)cut, out);
        used += hd_utf8_push(&s, in + cut, n - (size_t)cut, out + used);
    }
    used += hd_utf8_flush(&s, out + used);
    assert_int_equal(s.n_held, 0);
    return used;
}

static void test_cases_at_every_cut(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t const n = strlen(cases[i].in), want = strlen(cases[i].out);
        for (int cut = -1; cut <= (int)n; cut++) {
            char         out[128];
            size_t const used = decode(cases[i].in, n, cut, out);
            if (used != want || memcmp(out, cases[i].out, want) != 0)
                fail_msg("case %zu cut at %d: %.*s", i, cut, (int)used, out);
        }
    }
}

static void test_holds_back(void **state)
{
    hd_utf8_stream s = {0};
    char           out[16];
    (void)state;
    assert_int_equal(hd_utf8_push(&s, "a\xF0\x9F", 3, out), 1);
    assert_int_equal(s.n_held, 2);
    assert_int_equal(hd_utf8_push(&s, "\x99", 1, out), 0);
    assert_int_equal(hd_utf8_push(&s, "\x82", 1, out), 4);
    assert_memory_equal(out, "\xF0\x9F\x99\x82", 4);
    assert_int_equal(hd_utf8_flush(&s, out), 0);
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Bytes that are likely to form, break and cut characters. */
static void fill(unsigned char *bytes, size_t n, uint64_t *state)
{
    static const unsigned char likely[] = {0x41, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF,
                                           0xC1, 0xC2, 0xDF, 0xE0, 0xE4, 0xED, 0xEF,
                                           0xF0, 0xF1, 0xF4, 0xF5, 0xFF};
    for (size_t i = 0; i < n; i++) {
        uint64_t const r = next_random(state);
        bytes[i] = r & 1 ? likely[(r >> 8) % sizeof likely] : (unsigned char)(r >> 16);
    }
}

/* How text is cut never matters, and the output stays in its bound. */
static void test_random_cuts_agree(void **state)
{
    uint64_t seed = 0x2545F4914F6CDD1D;
    (void)state;
    for (int round = 0; round < 20000; round++) {
        unsigned char  in[40];
        char           whole[200], parts[200];
        size_t const   n = next_random(&seed) % sizeof in;
        hd_utf8_stream s = {0};
        size_t         used = 0;
        fill(in, n, &seed);
        size_t const want = decode((const char *)in, n, 0, whole);
        for (size_t at = 0, part; at < n; at += part) {
            part = next_random(&seed) % (n - at + 1);
            size_t const made = hd_utf8_push(&s, (const char *)in + at, part, parts + used);
            assert_true(made <= 3 * (part + 3));
            used += made;
        }
        used += hd_utf8_flush(&s, parts + used);
        assert_int_equal(used, want);
        assert_memory_equal(parts, whole, want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases_at_every_cut),
        cmocka_unit_test(test_holds_back),
        cmocka_unit_test(test_random_cuts_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
