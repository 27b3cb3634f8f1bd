/* Regular expressions of configs, as Python's re.match has them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "doctor/module_pattern.h"

#define ATTENTION ".*attn\\..*(wq_a|wq_b|wkv|wgate|wo_a|wo_b)$"

static void expect(const char *expression, const char *name, bool want)
{
    static hd_module_pattern p;
    if (!hd_module_pattern_parse(&p, expression)) fail_msg("%s is not read", expression);
    if (hd_module_pattern_fits(&p, name) != want)
        fail_msg("%s %s %s", expression, want ? "does not fit" : "fits", name);
}

/* Of published configs. */
static void published(void **state)
{
    (void)state;
    expect(ATTENTION, "layers.3.attn.wq_a", true);
    expect(ATTENTION, "layers.3.attn.compressor.wgate", true);
    expect(ATTENTION, "layers.3.attn.wq_a.weight", false);
    expect(ATTENTION, "layers.3.attn.weights_proj", false);
    expect(ATTENTION, "layers.3.attn_wq_a", false);
    expect(".*ffn\\.experts\\.\\d+\\.w[123]$", "layers.0.ffn.experts.15.w3", true);
    expect(".*ffn\\.experts\\.\\d+\\.w[123]$", "layers.0.ffn.experts.15.w4", false);
    expect(".*ffn\\.experts\\.\\d+\\.w[123]$", "layers.0.ffn.experts..w1", false);
    expect(".*mlp\\..*(gate|up|down)_proj$", "model.layers.2.mlp.shared_experts.up_proj", true);
    expect(".*shared_experts.*", "layers.0.ffn.shared_experts.w1", true);
    expect(".*norm.*", "layers.0.attn.wq_a", false);
}

static void signs(void **state)
{
    (void)state;
    expect("ab", "abc", true); /* it need not reach the end */
    expect("b", "ab", false);  /* but begins at the start   */
    expect("^ab$", "ab", true);
    expect("^ab$", "abc", false);
    expect("", "", true);
    expect("$", "a", false);
    expect("a*b", "b", true);
    expect("a*b", "aaab", true);
    expect("a+b", "b", false);
    expect("a+b$", "aab", true);
    expect("a?b$", "ab", true);
    expect("a?b$", "aab", false);
    expect("a*?b", "aab", true);
    expect("(ab)+c", "ababc", true);
    expect("(ab)+c", "abac", false);
    expect("(?:a|bc)*$", "abcabc", true);
    expect("(?:a|bc)*$", "abcb", false);
    expect("a|b|c", "c", true);
    expect("(a|b|)c", "c", true);
    expect("x(a|(b|c)d)+y", "xabdcdy", true);
    expect("x(a|(b|c)d)+y", "xaby", false);
    expect("a(b?)*c", "abbc", true);
    expect("()*a", "a", true);
}

static void characters(void **state)
{
    (void)state;
    expect("[a-c_]+$", "ab_c", true);
    expect("[a-c_]+$", "abd", false);
    expect("[^.]+$", "attn", true);
    expect("[^.]+$", "attn.x", false);
    expect("[]a]+$", "]a", true);
    expect("[\\d.]+$", "1.2", true);
    expect("[a-]$", "-", true);
    expect("\\w+\\.\\w+$", "a_1.b", true);
    expect("\\D\\W\\S$", "a.b", true);
    expect("\\D", "1", false);
    expect("a\\.b", "axb", false);
    expect(".", "\xC3", true);
}

static void refuses(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "(",  ")",   "(a",  "a)",    "*",     "a**",      "[a",    "[b-a]",   "a{2}", "{",
        "\\", "\\b", "\\1", "(?=a)", "(?!a)", "(?P<n>a)", "(?i)a", "[a-\\d]", "a|*",  "a+*"};
    static hd_module_pattern p;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (hd_module_pattern_parse(&p, bad[i])) fail_msg("%s is read", bad[i]);
}

/* Neither long nor nested nor ambiguous expressions cost more than their length. */
static void hostile(void **state)
{
    (void)state;
    static hd_module_pattern p;
    char                     text[1024], name[512];
    memset(text, '(', sizeof text);
    text[sizeof text - 1] = '\0';
    assert_false(hd_module_pattern_parse(&p, text));
    memset(text, 'a', sizeof text - 1);
    assert_false(hd_module_pattern_parse(&p, text));
    for (int i = 0; i < 250; i++) memcpy(text + 2 * i, "a?", 2);
    text[500] = '\0';
    memset(name, 'a', sizeof name);
    name[sizeof name - 1] = '\0';
    assert_true(hd_module_pattern_parse(&p, text));
    expect("(((a*)*)*)*b", name, false);
    expect("(a|a)*(a|a)*(a|a)*b", name, false);
    expect("(.*)*(.*)*(.*)*$", name, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published), cmocka_unit_test(signs),   cmocka_unit_test(characters),
        cmocka_unit_test(refuses),   cmocka_unit_test(hostile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
