#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <json-c/json.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "tokenizer/tokenizer.h"

static hd_tokenizer *demo;

static int open_demo(void **state)
{
    hd_error err = {0};
    (void)state;
    return hd_tokenizer_open(&demo, "models/demo", &err) == HD_OK ? 0 : -1;
}

static int close_demo(void **state)
{
    (void)state;
    hd_tokenizer_close(demo);
    return 0;
}

/* ---- vectors ---- */

static void check_ids(const char *text, size_t bytes, bool control, const json_object *want)
{
    hd_error       err = {0};
    int32_t        n = -1;
    int32_t *const ids = hd_memory_alloc(bytes * sizeof *ids);
    assert_int_equal(hd_tokenizer_encode(demo, text, bytes, control, ids, (int32_t)bytes, &n, &err),
                     HD_OK);
    if (n != (int32_t)json_object_array_length(want))
        fail_msg("'%s': %d ids, want %zu", text, n, json_object_array_length(want));
    size_t at = 0;
    for (int32_t i = 0; i < n; i++) {
        size_t            length;
        const char *const token = hd_tokenizer_bytes(demo, ids[i], &length);
        if (ids[i] != json_object_get_int(json_object_array_get_idx(want, (size_t)i)))
            fail_msg("'%s': id %d is %d", text, i, ids[i]);
        assert_true(at + length <= bytes && memcmp(token, text + at, length) == 0);
        at += length;
    }
    assert_int_equal(at, bytes);
    hd_memory_free(ids);
}

static void check_row(const char *line)
{
    json_object *const row = json_tokener_parse(line);
    json_object *const text = json_object_object_get(row, "text");
    const char *const  s = json_object_get_string(text);
    size_t const       bytes = (size_t)json_object_get_string_len(text);
    check_ids(s, bytes, true, json_object_object_get(row, "ids"));
    check_ids(s, bytes, false, json_object_object_get(row, "ids_plain"));
    json_object_put(row);
}

static void test_vectors(void **state)
{
    hd_pool pool = {0};
    char   *text, *save = NULL;
    size_t  bytes;
    int     n = 0;
    (void)state;
    assert_int_equal(
        hd_file_read(&text, &bytes, "tests/golden/tokenizer/vectors.jsonl", 1 << 20, &pool, NULL),
        HD_OK);
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save), n++)
        check_row(line);
    assert_true(n > 100);
    hd_pool_free(&pool);
}

/* ---- look-ups and limits ---- */

static void test_lookups(void **state)
{
    size_t bytes = 0;
    (void)state;
    assert_int_equal(hd_tokenizer_vocab(demo), 2048);
    assert_int_equal(hd_tokenizer_control_id(demo, "<think>", 7), 2044);
    assert_int_equal(hd_tokenizer_control_id(demo, "<think>", 6), -1);
    assert_int_equal(hd_tokenizer_control_id(demo, "<think>x", 8), -1);
    assert_int_equal(hd_tokenizer_control_id(demo, "", 0), -1);
    assert_int_equal(hd_tokenizer_control_id(demo, "the", 3), -1);
    assert_true(hd_tokenizer_is_control(demo, 0));
    assert_true(hd_tokenizer_is_control(demo, 2047));
    assert_false(hd_tokenizer_is_control(demo, 3));
    assert_false(hd_tokenizer_is_control(demo, -1));
    assert_false(hd_tokenizer_is_control(demo, 2048));
    assert_null(hd_tokenizer_bytes(demo, 2048, &bytes));
    assert_null(hd_tokenizer_bytes(demo, -1, &bytes));
    assert_memory_equal(hd_tokenizer_bytes(demo, 2044, &bytes), "<think>", 7);
    assert_int_equal(bytes, 7);
    hd_tokenizer_close(NULL);
}

static void test_capacity(void **state)
{
    hd_error err = {0};
    int32_t  n = -1, ids[4] = {-7, -7, -7, -7};
    (void)state;
    assert_int_equal(hd_tokenizer_encode(demo, "a.b.c", 5, true, NULL, 0, &n, &err), HD_ERR_LIMIT);
    int32_t const whole = n;
    assert_in_range(whole, 3, 5);
    assert_int_equal(hd_tokenizer_encode(demo, "a.b.c", 5, true, ids, 2, &n, &err), HD_ERR_LIMIT);
    assert_int_equal(n, whole);
    assert_int_equal(ids[2], -7);
    assert_int_equal(hd_tokenizer_encode(demo, NULL, 0, true, NULL, 0, &n, &err), HD_OK);
    assert_int_equal(n, 0);
    assert_int_equal(hd_tokenizer_encode(demo, "a", 1, true, NULL, 4, &n, &err), HD_ERR_INVALID);
    assert_int_equal(hd_tokenizer_encode(demo, "a", 1, true, ids, -1, &n, &err), HD_ERR_INVALID);
    assert_int_equal(hd_tokenizer_encode(demo, NULL, 1, true, ids, 4, &n, NULL), HD_ERR_INVALID);
    assert_int_equal(hd_tokenizer_encode(demo, "a", (size_t)INT32_MAX + 1, true, ids, 4, &n, &err),
                     HD_ERR_INVALID);
}

static void test_text_not_utf8(void **state)
{
    static const struct {
        const char *text;
        size_t      bytes;
        int64_t     where;
    } cases[] = {{"ab\xFF", 3, 2},       {"\x80", 1, 0},
                 {"a\xC3", 2, 1},        {"\xC0\x80", 2, 0},
                 {"\xED\xA0\x80", 3, 0}, {"\xF4\x90\x80\x80", 4, 0},
                 {"x\xE4\xBD", 3, 1},    {"12345678\xE0\x80\x80", 11, 8},
                 {"\xF0\x9F\x99z", 4, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hd_error err = {0};
        int32_t  n = -5, ids[16];
        assert_int_equal(
            hd_tokenizer_encode(demo, cases[i].text, cases[i].bytes, i % 2 == 0, ids, 16, &n, &err),
            HD_ERR_FORMAT);
        assert_int_equal(err.where, cases[i].where);
        assert_int_equal(n, -5);
    }
}

/* A quadratic merge would need minutes here. */
static void test_long_piece(void **state)
{
    size_t const   bytes = 1 << 20;
    char *const    text = hd_memory_alloc(bytes);
    int32_t *const ids = hd_memory_alloc(bytes * sizeof *ids);
    int32_t        n = 0;
    (void)state;
    for (size_t i = 0; i < bytes; i++) text[i] = "etaoinshrdlu"[(i * i + i / 7) % 12];
    clock_t const start = clock();
    assert_int_equal(hd_tokenizer_encode(demo, text, bytes, true, ids, (int32_t)bytes, &n, NULL),
                     HD_OK);
    assert_true(clock() - start < 20 * CLOCKS_PER_SEC);
    size_t at = 0;
    for (int32_t i = 0; i < n; i++) {
        size_t            length;
        const char *const token = hd_tokenizer_bytes(demo, ids[i], &length);
        assert_memory_equal(token, text + at, length);
        at += length;
    }
    assert_int_equal(at, bytes);
    hd_memory_free(ids);
    hd_memory_free(text);
}

/* The rule itself: join the pair of the lowest rank, the leftmost of equals, look again. */
static int32_t merge_slowly(const hd_bpe *b, const char *text, int32_t n, int32_t *ids)
{
    for (int32_t i = 0; i < n; i++) ids[i] = b->byte_id[(unsigned char)text[i]];
    for (;;) {
        const hd_merge *best = NULL;
        int32_t         at = 0;
        for (int32_t i = 0; i + 1 < n; i++) {
            for (uint32_t k = 0; k < b->row[b->vocab->n]; k++) {
                const hd_merge *const m = &b->merges[k];
                if (m->left != ids[i] || m->right != ids[i + 1]) continue;
                if (best && best->rank <= m->rank) continue;
                best = m;
                at = i;
            }
        }
        if (!best) return n;
        ids[at] = best->made;
        n--;
        memmove(ids + at + 1, ids + at + 2, (size_t)(n - at - 1) * sizeof *ids);
    }
}

static void check_merging(const hd_bpe *b, const char *text, size_t bytes)
{
    int32_t        slow[130], fast[130];
    hd_bpe_scratch scratch = {0};
    hd_ids         ids = {fast, 130, 0};
    assert_int_equal(hd_bpe_encode(b, &scratch, text, bytes, &ids, NULL), HD_OK);
    assert_int_equal(ids.n, merge_slowly(b, text, (int32_t)bytes, slow));
    assert_memory_equal(fast, slow, (size_t)ids.n * sizeof *fast);
    hd_bpe_scratch_free(&scratch);
}

/* Lengths on both sides of where merging changes from the stack to a heap. */
static void test_merging_follows_the_rule(void **state)
{
    static const size_t lengths[] = {1, 2, 3, 9, 30, 62, 63, 64, 65, 66, 67, 80, 100, 130};
    uint32_t            seed = 1;
    char                text[130];
    (void)state;
    for (size_t k = 0; k < 4 * (sizeof lengths / sizeof lengths[0]); k++) {
        for (size_t i = 0; i < sizeof text; i++) {
            seed = seed * 1664525u + 1013904223u;
            text[i] = "theinandoflsre ing to"[seed % 0x1000000u * 21u >> 24];
        }
        check_merging(&demo->bpe, text, lengths[k / 4]);
    }
}

/* Joining b and c makes the candidate a, b stale: the pair there is now a, bc, whose turn
 * comes after bc, d. */
static void test_stale_candidate(void **state)
{
    char       bytes[256 + 2 + 2 + 3 + 3];
    uint32_t   offset[261] = {0};
    const bool is_control[260] = {false};
    hd_vocab   vocab = {260, offset, bytes, is_control};
    hd_merge   merges[] = {
          {'b', 'c', 256, 0}, {'a', 'b', 257, 1}, {256, 'd', 258, 2}, {'a', 256, 259, 3}};
    hd_bpe  bpe = {.vocab = &vocab};
    hd_pool pool = {0};
    char    text[4 * 30];
    (void)state;
    for (int i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        offset[i + 1] = (uint32_t)i + 1;
        bpe.byte_id[i] = i;
    }
    memcpy(bytes + 256, "bcabbcdabc", 10);
    for (int i = 0; i < 4; i++) offset[257 + i] = offset[256 + i] + (i < 2 ? 2 : 3);
    assert_int_equal(hd_bpe_build(&bpe, merges, 4, &pool, NULL), HD_OK);
    for (size_t i = 0; i < sizeof text; i++) text[i] = "abcd"[i % 4];
    for (size_t length = 4; length <= sizeof text; length += 4) {
        int32_t        got[120];
        hd_ids         ids = {got, 120, 0};
        hd_bpe_scratch scratch = {0};
        assert_int_equal(hd_bpe_encode(&bpe, &scratch, text, length, &ids, NULL), HD_OK);
        assert_int_equal(ids.n, length / 2);
        for (int32_t i = 0; i < ids.n; i++) assert_int_equal(got[i], i % 2 ? 258 : 'a');
        hd_bpe_scratch_free(&scratch);
    }
    hd_pool_free(&pool);
}

/* Merges of three letters and of what merges made, in any order of ranks: one that joins a made
 * token may come before the one that makes it, so a new candidate may be the very next; and one
 * token may be made in several ways. */
#define N_ANY 24
typedef struct any_merges {
    char     bytes[256 + N_ANY * 8];
    uint32_t offset[256 + N_ANY + 1];
    bool     is_control[256 + N_ANY];
    hd_merge merges[N_ANY];
    int32_t  n, n_made; /* merges; tokens that they make */
} any_merges;

static bool is_taken(const any_merges *m, int32_t left, int32_t right)
{
    for (int32_t i = 0; i < m->n; i++)
        if (m->merges[i].left == left && m->merges[i].right == right) return true;
    return false;
}

static int32_t any_token(const any_merges *m, uint32_t *seed)
{
    uint32_t const pick = (*seed = *seed * 1664525u + 1013904223u) >> 8;
    uint32_t const at = pick % (3u + (uint32_t)m->n_made);
    return at < 3 ? 'a' + (int32_t)at : 256 + (int32_t)at - 3;
}

/* The token of these bytes, which stand behind all others; a new one when there is none. */
static int32_t made_token(any_merges *m, uint32_t bytes)
{
    const char *const text = m->bytes + m->offset[256 + m->n_made];
    for (int32_t id = 256; id < 256 + m->n_made; id++)
        if (m->offset[id + 1] - m->offset[id] == bytes &&
            memcmp(m->bytes + m->offset[id], text, bytes) == 0)
            return id;
    m->offset[257 + m->n_made] = m->offset[256 + m->n_made] + bytes;
    return 256 + m->n_made++;
}

static void add_any(any_merges *m, int32_t left, int32_t right)
{
    char *const    end = m->bytes + m->offset[256 + m->n_made];
    uint32_t const l = m->offset[left + 1] - m->offset[left];
    uint32_t const r = m->offset[right + 1] - m->offset[right];
    if (l + r > 8 || is_taken(m, left, right)) return;
    memcpy(end, m->bytes + m->offset[left], l);
    memcpy(end + l, m->bytes + m->offset[right], r);
    m->merges[m->n] = (hd_merge){left, right, made_token(m, l + r), (uint32_t)m->n};
    m->n++;
}

static void shuffle_ranks(any_merges *m, uint32_t *seed)
{
    for (int32_t i = m->n - 1; i > 0; i--) {
        int32_t const  k = (int32_t)((*seed = *seed * 1664525u + 1013904223u) >> 8) % (i + 1);
        uint32_t const rank = m->merges[i].rank;
        m->merges[i].rank = m->merges[k].rank;
        m->merges[k].rank = rank;
    }
}

static void test_ranks_in_any_order(void **state)
{
    uint32_t seed = 7;
    (void)state;
    for (int round = 0; round < 300; round++) {
        any_merges m = {.n = 0};
        hd_bpe     bpe = {.byte_id = {0}};
        hd_pool    pool = {0};
        char       text[130];
        for (int i = 0; i < 256; i++) {
            m.bytes[i] = (char)i;
            m.offset[i + 1] = (uint32_t)i + 1;
            bpe.byte_id[i] = i;
        }
        for (int i = 0; i < 200 && m.n < N_ANY; i++) {
            int32_t const left = any_token(&m, &seed);
            add_any(&m, left, any_token(&m, &seed));
        }
        shuffle_ranks(&m, &seed);
        hd_vocab const vocab = {256 + m.n_made, m.offset, m.bytes, m.is_control};
        bpe.vocab = &vocab;
        assert_int_equal(hd_bpe_build(&bpe, m.merges, (size_t)m.n, &pool, NULL), HD_OK);
        for (size_t i = 0; i < sizeof text; i++)
            text[i] = (char)('a' + ((seed = seed * 1664525u + 1013904223u) >> 8) %
                                       (2u + (uint32_t)round % 2u));
        check_merging(&bpe, text, 65 + (size_t)round % 66);
        memset(text, 'a' + round % 3, sizeof text / 2);
        check_merging(&bpe, text, sizeof text);
        hd_pool_free(&pool);
    }
}

/* ---- memory ---- */

static void test_memory_short(void **state)
{
    hd_error err = {0};
    char     text[300];
    int32_t  ids[300], n = -3;
    (void)state;
    memset(text, 'a', sizeof text);
    hd_memory_fail_at(1);
    hd_status const s = hd_tokenizer_encode(demo, text, sizeof text, true, ids, 300, &n, &err);
    hd_memory_fail_at(0);
    assert_int_equal(s, HD_ERR_MEMORY);
    assert_int_equal(n, -3);
}

/* Ordinary text needs no memory of its own. */
static void test_short_pieces_allocate_nothing(void **state)
{
    static const char text[] = "The quick brown fox, <think> and 12345 more.\n";
    int32_t           ids[64], n;
    (void)state;
    int64_t const before = hd_memory_count();
    assert_int_equal(hd_tokenizer_encode(demo, text, strlen(text), true, ids, 64, &n, NULL), HD_OK);
    assert_int_equal(hd_memory_count(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_lookups),
        cmocka_unit_test(test_capacity),
        cmocka_unit_test(test_text_not_utf8),
        cmocka_unit_test(test_long_piece),
        cmocka_unit_test(test_merging_follows_the_rule),
        cmocka_unit_test(test_stale_candidate),
        cmocka_unit_test(test_ranks_in_any_order),
        cmocka_unit_test(test_memory_short),
        cmocka_unit_test(test_short_pieces_allocate_nothing),
    };
    return cmocka_run_group_tests(tests, open_demo, close_demo);
}
