#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/digest.h"

static uint64_t digest_of(const char *text)
{
    return hd_digest_add(HD_DIGEST_START, text, strlen(text));
}

/* The values published with the function. */
static void agrees_with_published_values(void **state)
{
    (void)state;
    assert_true(digest_of("") == UINT64_C(0xCBF29CE484222325));
    assert_true(digest_of("a") == UINT64_C(0xAF63DC4C8601EC8C));
    assert_true(digest_of("foobar") == UINT64_C(0x85944171F73967E8));
}

static void does_not_care_for_pieces(void **state)
{
    char const text[] = "any bytes, cut anywhere";
    (void)state;
    for (size_t cut = 0; cut < sizeof text - 1; cut++) {
        uint64_t const front = hd_digest_add(HD_DIGEST_START, text, cut);
        assert_true(hd_digest_add(front, text + cut, sizeof text - 1 - cut) == digest_of(text));
    }
}

static void notices_every_changed_bit(void **state)
{
    unsigned char bytes[64] = {0};
    (void)state;
    uint64_t const before = hd_digest_add(HD_DIGEST_START, bytes, sizeof bytes);
    for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
        bytes[bit / 8] = (unsigned char)(1 << bit % 8);
        assert_true(hd_digest_add(HD_DIGEST_START, bytes, sizeof bytes) != before);
        bytes[bit / 8] = 0;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_published_values),
        cmocka_unit_test(does_not_care_for_pieces),
        cmocka_unit_test(notices_every_changed_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
