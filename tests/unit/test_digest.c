#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
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

/* ---- SHA-256 ---- */

static void sha256_of(const char *text, size_t bytes, char out[2 * HD_SHA256_BYTES + 1])
{
    uint8_t   got[HD_SHA256_BYTES];
    hd_sha256 h;
    hd_sha256_begin(&h);
    hd_sha256_add(&h, text, bytes);
    hd_sha256_end(&h, got);
    for (int i = 0; i < HD_SHA256_BYTES; i++) snprintf(out + 2 * i, 3, "%02x", got[i]);
}

/* The examples of FIPS 180-4, and lengths around the end of a block (values of sha256sum). */
static void sha256_agrees_with_published_values(void **state)
{
    static const struct {
        const char *text, *digest;
    } all[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    char got[2 * HD_SHA256_BYTES + 1];
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        sha256_of(all[i].text, strlen(all[i].text), got);
        assert_string_equal(got, all[i].digest);
    }
}

static void sha256_does_not_care_for_pieces(void **state)
{
    char text[200], whole[2 * HD_SHA256_BYTES + 1];
    (void)state;
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)(i * 7);
    sha256_of(text, sizeof text, whole);
    for (size_t cut = 0; cut <= sizeof text; cut += 7) {
        uint8_t   got[HD_SHA256_BYTES];
        char      hex[2 * HD_SHA256_BYTES + 1];
        hd_sha256 h;
        hd_sha256_begin(&h);
        hd_sha256_add(&h, text, cut);
        hd_sha256_add(&h, text + cut, sizeof text - cut);
        hd_sha256_end(&h, got);
        for (int i = 0; i < HD_SHA256_BYTES; i++) snprintf(hex + 2 * i, 3, "%02x", got[i]);
        assert_string_equal(hex, whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256_agrees_with_published_values),
        cmocka_unit_test(sha256_does_not_care_for_pieces),
        cmocka_unit_test(agrees_with_published_values),
        cmocka_unit_test(does_not_care_for_pieces),
        cmocka_unit_test(notices_every_changed_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
