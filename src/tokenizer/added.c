#include "tokenizer/added.h"

#include <stdlib.h>
#include <string.h>

static int compare_spellings(const void *a, const void *b, void *vocab)
{
    size_t            x_bytes, y_bytes;
    const char *const x = hd_vocab_token(vocab, *(const int32_t *)a, &x_bytes);
    const char *const y = hd_vocab_token(vocab, *(const int32_t *)b, &y_bytes);
    int const         order = memcmp(x, y, x_bytes < y_bytes ? x_bytes : y_bytes);
    return order ? order : (x_bytes > y_bytes) - (x_bytes < y_bytes);
}

void hd_added_build(hd_added *a, const hd_vocab *vocab, int32_t *ids, int32_t n)
{
    *a = (hd_added){.vocab = vocab, .ids = ids, .n = n};
    qsort_r(ids, (size_t)n, sizeof *ids, compare_spellings, (void *)(uintptr_t)vocab);
    for (int32_t i = 0; i < n; i++) {
        size_t bytes;
        a->starts[(unsigned char)*hd_vocab_token(vocab, ids[i], &bytes)] = true;
    }
}

/* The byte at `depth` of the i-th spelling; -1 behind its end, which sorts first. */
static int byte_at(const hd_added *a, int32_t i, size_t depth)
{
    size_t            bytes;
    const char *const s = hd_vocab_token(a->vocab, a->ids[i], &bytes);
    return depth < bytes ? (unsigned char)s[depth] : -1;
}

/* The first of [low, high) whose byte at `depth` is at least `byte`. */
static int32_t lower_bound(const hd_added *a, int32_t low, int32_t high, size_t depth, int byte)
{
    while (low < high) {
        int32_t const middle = low + (high - low) / 2;
        if (byte_at(a, middle, depth) < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The longest spelling that s [bytes] starts with; *length is its length.  Narrows the sorted
 * list to the spellings that agree so far, byte by byte. */
static int32_t longest_prefix(const hd_added *a, const char *s, size_t bytes, size_t *length)
{
    int32_t found = -1, low = 0, high = a->n;
    for (size_t depth = 0; low < high; depth++) {
        if (byte_at(a, low, depth) < 0) {
            found = a->ids[low++];
            *length = depth;
        }
        if (depth == bytes) break;
        int const byte = (unsigned char)s[depth];
        low = lower_bound(a, low, high, depth, byte);
        high = lower_bound(a, low, high, depth, byte + 1);
    }
    return found;
}

int32_t hd_added_find(const hd_added *a, const char *text, size_t start, size_t end, hd_span *found)
{
    for (size_t at = start; a->n > 0 && at < end; at++) {
        if (!a->starts[(unsigned char)text[at]]) continue;
        size_t        length;
        int32_t const id = longest_prefix(a, text + at, end - at, &length);
        if (id < 0) continue;
        *found = (hd_span){at, at + length};
        return id;
    }
    return -1;
}

int32_t hd_added_id(const hd_added *a, const char *text, size_t bytes)
{
    size_t        length = 0;
    int32_t const id = bytes ? longest_prefix(a, text, bytes, &length) : -1;
    return length == bytes ? id : -1;
}
