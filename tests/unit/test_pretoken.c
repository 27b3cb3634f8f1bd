#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "tokenizer/pretoken.h"
#include "tokenizer/unicode_class.h"

static char *read_golden(const char *path, hd_pool *pool)
{
    hd_error err = {0};
    char    *text = NULL;
    size_t   bytes;
    if (hd_file_read(&text, &bytes, path, 1 << 24, pool, &err) != HD_OK)
        fail_msg("%s", err.message);
    return text;
}

static void check_row(const char *line)
{
    json_object *const row = json_tokener_parse(line);
    json_object *const text = json_object_object_get(row, "text");
    json_object *const want = json_object_object_get(row, "pieces");
    const char *const  s = json_object_get_string(text);
    size_t const       bytes = (size_t)json_object_get_string_len(text);
    size_t             at = 0;
    for (size_t i = 0; i < json_object_array_length(want); i++) {
        size_t const end = at + (size_t)json_object_get_int(json_object_array_get_idx(want, i));
        size_t const got = at < bytes ? hd_pretoken_end(s, bytes, at) : at;
        if (got != end) fail_msg("'%s': piece %zu ends at %zu, want %zu", s, i, got, end);
        at = end;
    }
    assert_int_equal(at, bytes);
    json_object_put(row);
}

static void test_pieces(void **state)
{
    hd_pool pool = {0};
    char   *save = NULL, *text = read_golden("tests/golden/tokenizer/pieces.jsonl", &pool);
    int     n = 0;
    (void)state;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save), n++)
        check_row(line);
    assert_true(n > 100);
    hd_pool_free(&pool);
}

static unsigned class_of_name(char name)
{
    switch (name) {
    case 'L': return HD_CLASS_LETTER;
    case 'M': return HD_CLASS_MARK;
    case 'N': return HD_CLASS_NUMBER;
    case 'P': return HD_CLASS_PUNCT;
    case 'S': return HD_CLASS_SYMBOL;
    case 's': return HD_CLASS_SPACE;
    default: fail_msg("class %c", name); return 0;
    }
}

static void check_range(uint32_t first, uint32_t last, unsigned class)
{
    for (uint32_t c = first; c <= last; c++) {
        unsigned const got = hd_unicode_class(c) & ~(HD_CLASS_CJK | HD_CLASS_NEWLINE);
        if (got != class) fail_msg("U+%04X has class %x, want %x", c, got, class);
    }
}

/* Every code point against the list that the table was made from. */
static void test_classes(void **state)
{
    hd_pool  pool = {0};
    char    *save = NULL, *text = read_golden("tests/golden/unicode/classes.tsv", &pool);
    uint32_t next = 0;
    (void)state;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        if (*line == '#') continue;
        char          *at;
        uint32_t const first = (uint32_t)strtoul(line, &at, 16);
        uint32_t const last = (uint32_t)strtoul(at, &at, 16);
        assert_true(first >= next && last >= first);
        check_range(next, first - 1, 0);
        check_range(first, last, class_of_name(at[1]));
        next = last + 1;
    }
    assert_true(next > 0xE0000);
    check_range(next, 0x10FFFF, 0);
    hd_pool_free(&pool);
}

static void test_flags(void **state)
{
    (void)state;
    for (uint32_t c = 0; c <= 0x10FFFF; c++) {
        bool const newline = c == '\n' || c == '\r';
        bool const cjk = (c >= 0x4E00 && c <= 0x9FA5) || (c >= 0x3040 && c <= 0x30FF);
        assert_int_equal((hd_unicode_class(c) & HD_CLASS_NEWLINE) != 0, newline);
        assert_int_equal((hd_unicode_class(c) & HD_CLASS_CJK) != 0, cjk);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_flags),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
