/* Pages of reports: text is escaped whatever it is, pictures show what the numbers are, and numbers
 * that are none do not spoil a page. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "doctor/report_html.h"
#include "doctor/report_svg.h"
#include "doctor/report_values.h"

static void assert_text(const char *text, int32_t most, const char *wanted)
{
    hd_buffer out = {0};
    hd_buffer_text(&out, ""); /* so that an empty one has data */
    hd_html_text_cut(&out, text, most);
    assert_string_equal(out.data, wanted);
    hd_buffer_free(&out);
}

static void escapes_markup(void **state)
{
    (void)state;
    assert_text("a<b>&\"c'", 99, "a&lt;b&gt;&amp;&quot;c&#39;");
    assert_text("</title><script>", 99, "&lt;/title&gt;&lt;script&gt;");
    assert_text("&amp;", 99, "&amp;amp;");
    assert_text("", 99, "");
}

static void replaces_what_no_page_should_show(void **state)
{
    (void)state;
    assert_text("a\x01\x1f\x7f\n", 99, "a\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
    assert_text("a\xE2\x80\xAEz", 99, "a\xEF\xBF\xBDz"); /* right-to-left override */
    assert_text("a\xE2\x81\xA6z", 99, "a\xEF\xBF\xBDz"); /* an isolate */
    assert_text("\xC2\x85\xEF\xBF\xBE", 99, "\xEF\xBF\xBD\xEF\xBF\xBD"); /* C1, a noncharacter */
    assert_text("\xFFx\xC3", 99, "\xEF\xBF\xBDx\xEF\xBF\xBD"); /* no UTF-8, a cut character */
    assert_text("\xC3\xA9\xF0\x9F\x90\xB3", 99, "\xC3\xA9\xF0\x9F\x90\xB3");
}

static void cuts_between_characters(void **state)
{
    (void)state;
    assert_text("\xC3\xA9\xC3\xA9<", 2, "\xC3\xA9\xC3\xA9\xE2\x80\xA6");
    assert_text("\xC3\xA9\xC3\xA9<", 3, "\xC3\xA9\xC3\xA9&lt;");
    assert_text("abc", 0, "\xE2\x80\xA6");
}

/* ---- scales ---- */

static hd_scale scale_of(bool is_log, double a, double b)
{
    hd_scale s = hd_scale_make(is_log);
    hd_scale_widen(&s, a);
    hd_scale_widen(&s, b);
    hd_scale_settle(&s);
    return s;
}

static void scales_end_at_round_numbers(void **state)
{
    (void)state;
    hd_scale s = scale_of(true, 3e-5, 0.02);
    assert_float_equal(s.low, 1e-5, 1e-12);
    assert_float_equal(s.high, 0.1, 1e-9);
    assert_float_equal(hd_scale_place(&s, 1e-3), 0.5, 1e-6);
    assert_float_equal(hd_scale_place(&s, 1e-9), 0, 0);
    s = scale_of(false, 3, 17);
    assert_float_equal(s.high, 20, 1e-9);
    assert_float_equal(hd_scale_place(&s, 5), 0.25, 1e-6);
}

static void scales_take_any_number(void **state)
{
    (void)state;
    for (int is_log = 0; is_log < 2; is_log++) {
        double const odd[] = {0, -1, (double)NAN, INFINITY, -INFINITY, 1, 1e300, 1e-300};
        for (size_t i = 0; i < 8; i++) {
            hd_scale const s = scale_of(is_log, odd[i], odd[i]);
            assert_true(s.high > s.low && isfinite(s.high));
            for (size_t j = 0; j < 8; j++) {
                double const x = hd_scale_place(&s, odd[j]);
                assert_true(x >= 0 && x <= 1);
            }
        }
    }
}

/* ---- values ---- */

static void finds_the_layer_in_a_name(void **state)
{
    (void)state;
    static const struct {
        const char *name, *row;
        int32_t     layer;
    } cases[] = {{"L03.q_a.y", "q_a.y", 3},
                 {"L60.attn", "attn", 60},
                 {"mtp.q_a.y", "q_a.y", HD_LAYER_MTP},
                 {"embed.y", "embed.y", HD_LAYER_NONE},
                 {"logits", "logits", HD_LAYER_NONE},
                 {"L.x", "L.x", HD_LAYER_NONE},
                 {"L3x", "L3x", HD_LAYER_NONE},
                 {"L99999999999999999999.x", "L99999999999999999999.x", HD_LAYER_NONE},
                 {"L-1.x", "L-1.x", HD_LAYER_NONE},
                 {"", "", HD_LAYER_NONE}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hd_report_value const v = hd_report_value_of(cases[i].name, 1);
        assert_string_equal(v.row, cases[i].row);
        assert_int_equal(v.layer, cases[i].layer);
    }
}

static int32_t count(const char *text, const char *what)
{
    int32_t n = 0;
    for (const char *p = text; (p = strstr(p, what)); p += strlen(what)) n++;
    return n;
}

static void draws_what_the_numbers_are(void **state)
{
    (void)state;
    hd_report_value const list[] = {
        hd_report_value_of("L00.a.y", 1e-6), hd_report_value_of("L00.b.y", 0.5),
        hd_report_value_of("L01.a.y", 2e-3), hd_report_value_of("L01.b.y", (double)NAN),
        hd_report_value_of("mtp.a.y", 0),    hd_report_value_of("head.y", 0.25)};
    hd_report_values const v = {"error", list, 6};
    hd_buffer              out = {0};
    hd_report_by_layer(&out, &v);
    assert_int_equal(count(out.data, "<rect "), 4); /* layers 0 and 1, mtp, out */
    assert_int_equal(count(out.data, "<rect class=\"x\""), 1);
    assert_non_null(strstr(out.data, "<td>0</td><td>b.y</td><td class=\"n\">0.5</td>"));
    assert_non_null(strstr(out.data, "<td>1</td><td>b.y</td><td class=\"n\">inf</td>"));
    hd_buffer_clear(&out);
    hd_report_heat(&out, &v);
    assert_int_equal(count(out.data, "<rect "), 6 + 9 + 2); /* the legend's too */
    assert_non_null(strstr(out.data, "<title>1 a.y: 0.002</title>"));
    assert_non_null(strstr(out.data, "<td>a.y</td><td class=\"n\">3</td><td class=\"n\">0</td><td "
                                     "class=\"n\">0.002</td><td>1</td>"));
    hd_buffer_clear(&out);
    hd_report_histogram(&out, &v);
    assert_non_null(strstr(out.data, "<td>1e-1</td><td class=\"n\">2</td>"));
    assert_non_null(strstr(out.data, "<td>1e-6</td><td class=\"n\">1</td>"));
    assert_non_null(strstr(out.data, "<td>0</td><td class=\"n\">1</td>"));
    assert_non_null(strstr(out.data, "<td>inf</td><td class=\"n\">1</td>"));
    hd_buffer_clear(&out);
    hd_report_worst(&out, &v);
    const char *const nan = strstr(out.data, "<td>L01.b.y</td>");
    const char *const half = strstr(out.data, "<td>L00.b.y</td>");
    assert_true(nan && half && nan < half);
    assert_non_null(strstr(out.data, "The 6 with the largest error"));
    hd_buffer_free(&out);
}

/* Values from 1e-300 to 1e300, none at all, and more rows than a page has room for. */
static void pages_stay_small(void **state)
{
    (void)state;
    static hd_report_value list[5000];
    static char            names[5000][32];
    hd_buffer              out = {0};
    for (int i = 0; i < 5000; i++) {
        snprintf(names[i], sizeof names[i], "L%d.r%d", i % 1100, i);
        list[i] = hd_report_value_of(names[i], pow(10, i % 600 - 300));
    }
    for (int32_t n = 0; n <= 5000; n += 2500) {
        hd_report_values const v = {"size", list, n};
        hd_report_by_layer(&out, &v);
        hd_report_heat(&out, &v);
        hd_report_histogram(&out, &v);
        hd_report_worst(&out, &v);
    }
    assert_false(out.failed);
    assert_true(out.used < 4 << 20);
    assert_int_equal(count(out.data, "<figure>"), count(out.data, "</figure>"));
    assert_non_null(strstr(out.data, ">others<"));
    hd_buffer_free(&out);
}

static void bins_keep_every_count(void **state)
{
    (void)state;
    static int64_t n[256];
    hd_buffer      out = {0};
    n[0] = 7;
    n[200] = 5;
    n[201] = 3;
    hd_report_bins const b = {"scales", "how many", n, 256, -128};
    hd_report_bins_draw(&out, &b);
    assert_non_null(strstr(out.data, "<td>2^73</td><td class=\"n\">3</td>"));
    assert_non_null(strstr(out.data, "<td>2^72</td><td class=\"n\">5</td>"));
    assert_non_null(strstr(out.data, "<td class=\"n\">7</td>")); /* joined the first one shown */
    hd_buffer_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(escapes_markup),
        cmocka_unit_test(replaces_what_no_page_should_show),
        cmocka_unit_test(cuts_between_characters),
        cmocka_unit_test(scales_end_at_round_numbers),
        cmocka_unit_test(scales_take_any_number),
        cmocka_unit_test(finds_the_layer_in_a_name),
        cmocka_unit_test(draws_what_the_numbers_are),
        cmocka_unit_test(pages_stay_small),
        cmocka_unit_test(bins_keep_every_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
