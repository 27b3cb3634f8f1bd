#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/json_scan.h"
#include "base/json_write.h"
#include "base/utf8_scan.h"

static json_object *parse_bytes(const char *text, size_t bytes, unsigned flags)
{
    hd_error     err = {0};
    json_object *v = NULL;
    if (hd_json_parse(&v, text, bytes, flags, "test", &err) != HD_OK)
        fail_msg("%.60s: %s", text, err.message);
    return v;
}

static json_object *parse(const char *text, unsigned flags)
{
    return parse_bytes(text, strlen(text), flags);
}

static void refuse_bytes(const char *text, size_t bytes, unsigned flags, int64_t where)
{
    hd_error     err = {0};
    json_object *v = (json_object *)&err;
    assert_int_equal(hd_json_parse(&v, text, bytes, flags, "test", &err), HD_ERR_FORMAT);
    assert_ptr_equal(v, &err);
    assert_int_equal(err.where, where);
    assert_non_null(strstr(err.message, "test: byte "));
    assert_int_equal(hd_json_parse(&v, text, bytes, flags, "test", NULL), HD_ERR_FORMAT);
}

static void refuse(const char *text, unsigned flags, int64_t where)
{
    refuse_bytes(text, strlen(text), flags, where);
}

static void refuses_bad_grammar_with_the_byte(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t     where;
    } bad[] = {
        {"", 0},      {"  ", 2},        {"[1,]", 3},        {"{\"a\":1,}", 7},
        {"[1 2]", 3}, {"{\"a\" 1}", 5}, {"{a:1}", 1},       {"[1]]", 3},
        {"[1}", 2},   {"tru", 0},       {"nul", 0},         {"True", 0},
        {"'a'", 0},   {"// c\n1", 0},   {"1 2", 2},         {"01", 0},
        {"-", 0},     {"+1", 0},        {"1.", 0},          {".5", 0},
        {"1e", 0},    {"1e+", 0},       {"1.e5", 0},        {"0x10", 1},
        {"\"a", 0},   {"\"\\x\"", 1},   {"\"\\u12g4\"", 1}, {"\"a\nb\"", 2},
        {"\"a\\", 2}, {"[", 1},         {"{", 1},           {"{\"a\":", 5},
        {"NaN", 0},   {"-Infinity", 0}, {"[1,,2]", 3},      {"\xEF\xBB\xBF{}", 0},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        refuse(bad[i].text, HD_JSON_STRICT, bad[i].where);
}

static void refuses_what_is_not_utf8(void **state)
{
    (void)state;
    refuse("\"a\x80\"", 0, 2);
    refuse("\"\xC0\x80\"", 0, 1);
    refuse("\"\xED\xA0\x80\"", 0, 1);
    refuse("\"\xF4\x90\x80\x80\"", 0, 1);
    refuse("\"\xE2\x82\"", 0, 1);
    refuse("\"\xE2\x82", 0, 1);
    refuse_bytes("[1\0]", 4, 0, 2);
    refuse_bytes("1\0", 2, 0, 1);
    refuse_bytes("\"a\0b\"", 5, 0, 2);
}

static void counts_depth(void **state)
{
    (void)state;
    char text[2 * HD_JSON_MAX_DEPTH + 2];
    memset(text, '[', HD_JSON_MAX_DEPTH);
    memset(text + HD_JSON_MAX_DEPTH, ']', HD_JSON_MAX_DEPTH);
    json_object_put(parse_bytes(text, 2 * HD_JSON_MAX_DEPTH, 0));
    memset(text, '[', HD_JSON_MAX_DEPTH + 1);
    refuse_bytes(text, sizeof text, 0, HD_JSON_MAX_DEPTH);

    hd_buffer deep = {0};
    for (int i = 0; i < 1000000; i++) hd_buffer_text(&deep, "{\"a\":");
    refuse_bytes(deep.data, deep.used, HD_JSON_UNIQUE, 5 * HD_JSON_MAX_DEPTH);
    hd_buffer_free(&deep);
}

static void keeps_integers(void **state)
{
    (void)state;
    json_object *const v = parse("[-9223372036854775808,18446744073709551615,18446744073709551616,"
                                 "-9223372036854775809,-0, 123456789012345678901234567890 ]",
                                 HD_JSON_PYTHON);
    assert_int_equal(json_object_get_int64(json_object_array_get_idx(v, 0)), INT64_MIN);
    assert_true(json_object_get_uint64(json_object_array_get_idx(v, 1)) == UINT64_MAX);
    assert_null(hd_json_big_integer(json_object_array_get_idx(v, 1)));
    assert_string_equal(hd_json_big_integer(json_object_array_get_idx(v, 2)),
                        "18446744073709551616");
    assert_string_equal(hd_json_big_integer(json_object_array_get_idx(v, 3)),
                        "-9223372036854775809");
    assert_int_equal(json_object_get_int64(json_object_array_get_idx(v, 4)), 0);
    assert_string_equal(hd_json_big_integer(json_object_array_get_idx(v, 5)),
                        "123456789012345678901234567890");
    json_object_put(v);
    refuse("[18446744073709551616]", HD_JSON_STRICT, 1);
    refuse("-9223372036854775809", HD_JSON_STRICT, 0);
}

static void keeps_a_very_long_integer(void **state)
{
    (void)state;
    size_t const n = 1000000;
    hd_buffer    text = {0};
    for (size_t i = 0; i < n; i++) hd_buffer_add(&text, "7", 1);
    json_object *const v = parse_bytes(text.data, text.used, HD_JSON_PYTHON);
    assert_string_equal(hd_json_big_integer(v), text.data);
    json_object_put(v);
    hd_buffer_free(&text);
}

static void nothing_else_is_a_big_integer(void **state)
{
    (void)state;
    static const char *const texts[] = {"1.0",
                                        "1E400",
                                        "-0.0",
                                        "1e5",
                                        "NaN",
                                        "Infinity",
                                        "7",
                                        "\"7\"",
                                        "null",
                                        "[]",
                                        "123456789012345678901e0"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        json_object *const v = parse(texts[i], HD_JSON_PYTHON);
        assert_null(hd_json_big_integer(v));
        json_object_put(v);
    }
    refuse("123456789012345678901.", HD_JSON_PYTHON, 0);
}

static void reads_doubles(void **state)
{
    (void)state;
    json_object *const v = parse("[1.0,-0.0,1E400,-1E400,1e-400,NaN]", HD_JSON_PYTHON);
    assert_true(json_object_is_type(json_object_array_get_idx(v, 0), json_type_double));
    assert_true(signbit(json_object_get_double(json_object_array_get_idx(v, 1))));
    assert_true(isinf(json_object_get_double(json_object_array_get_idx(v, 2))));
    assert_true(json_object_get_double(json_object_array_get_idx(v, 3)) < 0);
    assert_true(json_object_get_double(json_object_array_get_idx(v, 4)) == 0);
    assert_true(isnan(json_object_get_double(json_object_array_get_idx(v, 5))));
    json_object_put(v);
}

static void last_name_wins_at_the_first_place(void **state)
{
    (void)state;
    json_object *const v = parse("{\"a\":1,\"b\":2,\"\\u0061\":3}", 0);
    assert_string_equal(json_object_to_json_string_ext(v, JSON_C_TO_STRING_PLAIN),
                        "{\"a\":3,\"b\":2}");
    json_object_put(v);
    refuse("{\"a\":1,\"b\":2,\"\\u0061\":3}", HD_JSON_UNIQUE, 13);
    refuse("[{\"x\":{\"\":1,\"\":2}}]", HD_JSON_UNIQUE, 12);
    json_object_put(parse("[{\"a\":{\"a\":1},\"b\":{\"a\":1}},{\"a\":1}]", HD_JSON_UNIQUE));
    refuse("{\"a\\u0000b\":1}", 0, 1);
}

static void replaces_lone_surrogates(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"\"\\ud800\"", "\xEF\xBF\xBD"},
        {"\"\\udc00x\"", "\xEF\xBF\xBDx"},
        {"\"\\ud83d\\ud83d\\ude00\"", "\xEF\xBF\xBD\xF0\x9F\x98\x80"},
        {"\"\\ud800\\n\"", "\xEF\xBF\xBD\n"},
        {"\"\\u00e9\\/\"", "\xC3\xA9/"},
        /* U+2D800 and U+1DFFF, whose low 16 bits look like surrogates */
        {"\"\\ud876\\udc00x\\uD837\\uDFFF\"", "\xF0\xAD\xA0\x80x\xF0\x9D\xBF\xBF"},
        {"\"\\ud876\\ud876\\udc00\"", "\xEF\xBF\xBD\xF0\xAD\xA0\x80"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        json_object *const v = parse(pairs[i][0], 0);
        assert_string_equal(json_object_get_string(v), pairs[i][1]);
        json_object_put(v);
    }
    json_object *const v = parse("\"a\\u0000b\"", 0);
    assert_int_equal(json_object_get_string_len(v), 3);
    json_object_put(v);
}

static void reads_ten_megabytes(void **state)
{
    (void)state;
    hd_buffer text = {0};
    hd_buffer_text(&text, "[\"");
    while (text.used < 10 * 1000 * 1000) hd_buffer_text(&text, "\xE6\xBD\xAE or tide \\n ");
    hd_buffer_text(&text, "\"]");
    json_object *const v = parse_bytes(text.data, text.used, HD_JSON_UNIQUE);
    assert_true(json_object_get_string_len(json_object_array_get_idx(v, 0)) > 9000000);
    json_object_put(v);
    hd_buffer_free(&text);
}

static void check_written(const char *text, size_t bytes, const char *want)
{
    hd_buffer out = {0};
    hd_json_write_string(&out, text, bytes);
    assert_string_equal(out.data, want);
    hd_buffer_free(&out);
}

static void writes_strings(void **state)
{
    (void)state;
    check_written("", 0, "\"\"");
    check_written("a\"\\/\n\r\t\b\f\x1f\x7f", 11, "\"a\\\"\\\\/\\n\\r\\t\\b\\f\\u001f\x7f\"");
    check_written("a\0b", 3, "\"a\\u0000b\"");
    check_written("\xE2\x80\xA8\xF0\x9F\x98\x80", 7, "\"\xE2\x80\xA8\xF0\x9F\x98\x80\"");
    check_written("x\xFFy\xE2\x82", 5, "\"x\xEF\xBF\xBDy\xEF\xBF\xBD\"");
    check_written("\xED\xA0\x80", 3, "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
}

/* Commas come where something stands before, in objects and in lists. */
static void writes_members(void **state)
{
    (void)state;
    hd_buffer out = {0};
    hd_json_write_open(&out, NULL, '{');
    hd_json_write_text(&out, "text", "{[:");
    hd_json_write_text(&out, "none", NULL);
    hd_json_write_open(&out, "list", '[');
    hd_json_write_count(&out, NULL, INT64_MIN);
    hd_json_write_number(&out, NULL, 0.5);
    hd_json_write_number(&out, NULL, NAN);
    hd_json_write_number(&out, NULL, -INFINITY);
    hd_buffer_text(&out, "]");
    hd_json_write_open(&out, "empty", '{');
    hd_buffer_text(&out, "}");
    hd_json_write_flag(&out, "flag", true);
    hd_buffer_text(&out, "}");
    assert_string_equal(out.data, "{\"text\":\"{[:\",\"none\":null,"
                                  "\"list\":[-9223372036854775808,0.5,null,null],"
                                  "\"empty\":{},\"flag\":true}");
    hd_buffer_free(&out);
}

/* Every code point is measured as one character and decoded to itself; surrogates are not. */
static void measures_all_of_unicode(void **state)
{
    (void)state;
    for (uint32_t c = 0x80; c < 0x110000; c++) {
        char      s[4];
        int const n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
        for (int i = n - 1, rest = (int)c; i >= 0; i--, rest >>= 6)
            s[i] = (char)(i ? 0x80 | (rest & 0x3F) : (0xF00 >> n & 0xFF) | rest);
        bool const is_surrogate = c >= 0xD800 && c < 0xE000;
        assert_int_equal(hd_utf8_scan_measure(s, (size_t)n), is_surrogate ? -1 : n);
        if (is_surrogate) continue;
        assert_int_equal(hd_utf8_scan_decode(s, n), c);
        for (int cut = 1; cut < n; cut++) assert_int_equal(hd_utf8_scan_measure(s, (size_t)cut), 0);
    }
    assert_int_equal(hd_utf8_scan_check("ab\x80", 3), 2);
    assert_int_equal(hd_utf8_scan_measure("\xF0\x9F\x98X", 4), -3);
}

/* The text in its pieces: kinds, places, and values passed over whole. */
static void reads_pieces(void **state)
{
    (void)state;
    static const char text[] = " {\"a\" : [1, {\"b\":[]}, \"]\"], \"\\n\":-2e3,\"c\":null} ";
    static const struct {
        hd_json_kind kind;
        const char  *text;
    } want[] = {{HD_JSON_OBJECT, "{"},     {HD_JSON_NAME, "\"a\""},  {HD_JSON_LIST, "["},
                {HD_JSON_NAME, "\"\\n\""}, {HD_JSON_NUMBER, "-2e3"}, {HD_JSON_NAME, "\"c\""},
                {HD_JSON_WORD, "null"},    {HD_JSON_CLOSE, "}"},     {HD_JSON_END, ""},
                {HD_JSON_END, ""}};
    hd_json_scan s = {.text = text, .bytes = sizeof text - 1, .what = "t"};
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        hd_json_piece p;
        hd_json_span  value;
        assert_int_equal(hd_json_scan_next(&s, &p), HD_OK);
        assert_int_equal(p.kind, want[i].kind);
        assert_int_equal(p.span.bytes, strlen(want[i].text));
        assert_memory_equal(text + p.span.at, want[i].text, p.span.bytes);
        if (p.kind == HD_JSON_NAME) assert_int_equal(p.has_escape, i == 3);
        if (p.kind != HD_JSON_LIST) continue;
        assert_int_equal(hd_json_scan_rest(&s, &p, &value), HD_OK);
        assert_memory_equal(text + value.at, "[1, {\"b\":[]}, \"]\"]", value.bytes);
        assert_int_equal(value.bytes, 18);
    }
    hd_json_scan_close(&s);
}

/* With allocation number n failing, for all n, the call fails cleanly or succeeds. */
static void survives_short_memory(void **state)
{
    (void)state;
    static const char text[] = "[123456789012345678901, 98765432109876543210]";
    for (int n = 1; n < 10; n++) {
        json_object *v = NULL;
        hd_memory_fail_at(n);
        hd_status const status =
            hd_json_parse(&v, text, sizeof text - 1, HD_JSON_PYTHON, "t", NULL);
        hd_memory_fail_at(0);
        assert_true(status == HD_OK || status == HD_ERR_MEMORY);
        json_object_put(v);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_bad_grammar_with_the_byte),
        cmocka_unit_test(refuses_what_is_not_utf8),
        cmocka_unit_test(counts_depth),
        cmocka_unit_test(keeps_integers),
        cmocka_unit_test(keeps_a_very_long_integer),
        cmocka_unit_test(nothing_else_is_a_big_integer),
        cmocka_unit_test(reads_doubles),
        cmocka_unit_test(last_name_wins_at_the_first_place),
        cmocka_unit_test(replaces_lone_surrogates),
        cmocka_unit_test(reads_ten_megabytes),
        cmocka_unit_test(writes_strings),
        cmocka_unit_test(writes_members),
        cmocka_unit_test(measures_all_of_unicode),
        cmocka_unit_test(reads_pieces),
        cmocka_unit_test(survives_short_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
