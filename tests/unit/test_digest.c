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

/* ---- runs ---- */

static uint64_t mixed(uint64_t chain, uint64_t word)
{
    uint64_t const x = (chain ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    return x << 29 | x >> 35;
}

/* The definition, a word at a time. */
static uint64_t run_by_definition(uint64_t digest, const uint8_t *p, size_t bytes)
{
    uint64_t chain[4];
    for (uint64_t c = 0; c < 4; c++) chain[c] = digest + c * UINT64_C(0x9E3779B97F4A7C15);
    for (size_t i = 0; i < (bytes + 7) / 8; i++) {
        uint64_t word = 0;
        for (size_t k = 0; k < 8 && 8 * i + k < bytes; k++) word |= (uint64_t)p[8 * i + k] << 8 * k;
        chain[i % 4] = mixed(chain[i % 4], word);
    }
    digest = mixed(digest, bytes);
    for (int c = 0; c < 4; c++) digest = mixed(digest, chain[c]);
    return digest;
}

/* Any length from any address. */
static void run_agrees_with_its_definition(void **state)
{
    uint8_t bytes[140];
    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 151 + i * i);
    for (size_t from = 0; from < 9; from++)
        for (size_t n = 0; n + from <= sizeof bytes; n++)
            assert_true(hd_digest_run(n, bytes + from, n) == run_by_definition(n, bytes + from, n));
}

/* Files on disk have these; who changes them gives the files another version. */
static void run_has_the_values_of_files(void **state)
{
    uint8_t bytes[100];
    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)i;
    assert_true(hd_digest_run(HD_DIGEST_START, "", 0) == UINT64_C(0x7233C2B36B7920C2));
    assert_true(hd_digest_run(HD_DIGEST_START, bytes, sizeof bytes) ==
                UINT64_C(0xFB4AC438C617324D));
}

/* A bit, two bits of the same place in different words, words that changed places, another length.
 */
static void run_notices_changes(void **state)
{
    uint64_t words[16] = {0};
    (void)state;
    uint64_t const before = hd_digest_run(HD_DIGEST_START, words, sizeof words);
    for (size_t a = 0; a < 16; a++)
        for (int bit = 0; bit < 64; bit++) {
            words[a] ^= UINT64_C(1) << bit;
            assert_true(hd_digest_run(HD_DIGEST_START, words, sizeof words) != before);
            for (size_t b = a + 1; b < 16; b++) {
                words[b] ^= UINT64_C(1) << bit;
                assert_true(hd_digest_run(HD_DIGEST_START, words, sizeof words) != before);
                words[b] = 0;
            }
            words[a] = 0;
        }
    uint64_t const moved[2][5] = {{1, 2, 3, 4, 5}, {5, 2, 3, 4, 1}};
    assert_true(hd_digest_run(0, moved[0], sizeof moved[0]) !=
                hd_digest_run(0, moved[1], sizeof moved[1]));
    for (size_t n = 0; n < sizeof words; n++)
        assert_true(hd_digest_run(HD_DIGEST_START, words, n) != before);
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
        cmocka_unit_test(run_agrees_with_its_definition),
        cmocka_unit_test(run_has_the_values_of_files),
        cmocka_unit_test(run_notices_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
