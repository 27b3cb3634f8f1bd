#include "tokenizer/token_trie.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8_scan.h"

/* ---- order ---- */

static int compare_tokens(const void *a, const void *b, void *user)
{
    const hd_vocab *const v = user;
    int32_t const         x = *(const int32_t *)a, y = *(const int32_t *)b;
    size_t                nx, ny;
    const char *const sx = hd_vocab_token(v, x, &nx), *const sy = hd_vocab_token(v, y, &ny);
    int const order = memcmp(sx, sy, nx < ny ? nx : ny);
    if (order) return order;
    if (nx != ny) return nx < ny ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* The ordinary tokens that have bytes, in the order of these.  returns how many */
static int32_t sort_tokens(int32_t *ids, const hd_vocab *v)
{
    int32_t n = 0;
    for (int32_t id = 0; id < v->n; id++)
        if (!v->is_control[id] && v->offset[id + 1] > v->offset[id]) ids[n++] = id;
    qsort_r(ids, (size_t)n, sizeof *ids, compare_tokens, (void *)(uintptr_t)v);
    return n;
}

static size_t common_bytes(const char *a, size_t na, const char *b, size_t nb)
{
    size_t n = 0;
    while (n < na && n < nb && a[n] == b[n]) n++;
    return n;
}

/* ---- nodes ---- */

typedef struct maker {
    hd_token_trie  *trie;
    const hd_vocab *vocab;
    uint32_t       *open; /* [max_bytes + 1] nodes from the root to the one made last */
    size_t          depth;
} maker;

static void close_to(maker *m, size_t depth)
{
    while (m->depth > depth) m->trie->skip[m->open[m->depth--]] = m->trie->n;
}

static void add_node(maker *m, uint8_t byte)
{
    hd_token_trie *const t = m->trie;
    m->open[++m->depth] = t->n;
    t->byte[t->n] = byte;
    t->token[t->n] = -1;
    t->n++;
}

static void note_token(hd_token_trie *t, const char *s, size_t n)
{
    uint32_t brackets = 0;
    for (size_t i = 0; i < n; i++) brackets += s[i] == '[' || s[i] == '{';
    if (brackets > t->max_brackets) t->max_brackets = brackets;
    if (n > t->max_bytes) t->max_bytes = (uint32_t)n;
}

/* Tokens come in order, so a new one leaves the path to the last where they part. */
static void add_token(maker *m, int32_t id, const char *last, size_t n_last)
{
    hd_token_trie *const t = m->trie;
    size_t               n;
    const char *const    s = hd_vocab_token(m->vocab, id, &n);
    size_t const         common = common_bytes(s, n, last, n_last);
    if (common == n) return; /* spelled as the last one */
    close_to(m, common);
    for (size_t i = common; i < n; i++) add_node(m, (uint8_t)s[i]);
    t->token[t->n - 1] = id;
    note_token(t, s, n);
}

static void add_tokens(maker *m, const int32_t *ids, int32_t n)
{
    const char *last = NULL;
    size_t      n_last = 0;
    m->trie->n = 1;
    m->trie->token[0] = -1;
    for (int32_t i = 0; i < n; i++) {
        add_token(m, ids[i], last, n_last);
        last = hd_vocab_token(m->vocab, ids[i], &n_last);
    }
    close_to(m, 0);
    m->trie->skip[0] = m->trie->n;
}

/* ---- plain text ---- */

bool hd_token_is_plain(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)text[i] < 0x20 || strchr("\"\\<", text[i])) return false;
    return hd_utf8_scan_check(text, bytes) == bytes;
}

static bool is_plain_token(const hd_vocab *v, int32_t id)
{
    size_t            n;
    const char *const s = hd_vocab_token(v, id, &n);
    return hd_token_is_plain(s, n);
}

/* Children come behind their parent, so a pass from the end knows them first. */
static void mark_plain(hd_token_trie *t, const hd_vocab *v)
{
    for (uint32_t i = t->n; i-- > 0;) {
        bool is_plain = t->token[i] < 0 || is_plain_token(v, t->token[i]);
        for (uint32_t c = i + 1; c < t->skip[i] && is_plain; c = t->skip[c])
            is_plain = t->is_plain[c];
        t->is_plain[i] = is_plain;
    }
}

static size_t count_characters(const hd_vocab *v, int32_t id)
{
    size_t            bytes, n = 0;
    const char *const s = hd_vocab_token(v, id, &bytes);
    for (size_t i = 0; i < bytes; i++) n += ((unsigned char)s[i] & 0xC0) != 0x80;
    return n;
}

/* Sorts by counting.  `until` is first shifted by one, and filling shifts it back. */
static void sort_plain(hd_token_trie *t, const hd_vocab *v)
{
    uint32_t total = 0;
    for (uint32_t i = 0; i < t->n; i++)
        if (t->token[i] >= 0 && is_plain_token(v, t->token[i]))
            t->plain_until[count_characters(v, t->token[i])]++;
    for (uint32_t k = 0; k <= t->max_bytes; k++) {
        uint32_t const n = t->plain_until[k];
        t->plain_until[k] = total;
        total += n;
    }
    for (uint32_t i = 0; i < t->n; i++) {
        int32_t const id = t->token[i];
        if (id < 0 || !is_plain_token(v, id)) continue;
        t->plain[t->plain_until[count_characters(v, id)]++] = id;
        t->plain_mask[id / 32] |= 1u << id % 32;
    }
}

static hd_status list_plain(hd_token_trie *t, const hd_vocab *v, hd_error *err)
{
    t->plain = hd_pool_alloc(&t->pool, (size_t)v->n * sizeof *t->plain);
    t->plain_mask = hd_pool_alloc(&t->pool, ((size_t)v->n + 31) / 32 * sizeof *t->plain_mask);
    t->plain_until = hd_pool_alloc(&t->pool, ((size_t)t->max_bytes + 1) * sizeof *t->plain_until);
    if (!t->plain || !t->plain_mask || !t->plain_until)
        HD_FAIL(err, HD_ERR_MEMORY, "tokenizer: no memory for a list of %d tokens", v->n);
    sort_plain(t, v);
    return HD_OK;
}

/* ---- the whole ---- */

static hd_status allocate(hd_token_trie *t, size_t n, hd_error *err)
{
    t->skip = hd_pool_alloc(&t->pool, n * sizeof *t->skip);
    t->token = hd_pool_alloc(&t->pool, n * sizeof *t->token);
    t->byte = hd_pool_alloc(&t->pool, n);
    t->is_plain = hd_pool_alloc(&t->pool, n * sizeof *t->is_plain);
    if (!t->skip || !t->token || !t->byte || !t->is_plain)
        HD_FAIL(err, HD_ERR_MEMORY, "tokenizer: no memory for a tree of %zu nodes", n);
    return HD_OK;
}

/* One node for the root and one for each byte that a token does not share with the one before. */
static size_t count_nodes(const int32_t *ids, int32_t n, const hd_vocab *v)
{
    size_t      nodes = 1, n_last = 0;
    const char *last = NULL;
    for (int32_t i = 0; i < n; i++) {
        size_t            bytes;
        const char *const s = hd_vocab_token(v, ids[i], &bytes);
        nodes += bytes - common_bytes(s, bytes, last, n_last);
        last = s;
        n_last = bytes;
    }
    return nodes;
}

static size_t longest(const hd_vocab *v)
{
    size_t max = 0;
    for (int32_t id = 0; id < v->n; id++) {
        size_t const n = v->offset[id + 1] - v->offset[id];
        if (n > max) max = n;
    }
    return max;
}

hd_status hd_token_trie_make(hd_token_trie *out, const hd_vocab *v, hd_error *err)
{
    hd_pool        scratch = {0};
    int32_t *const ids = hd_pool_alloc(&scratch, (size_t)v->n * sizeof *ids);
    maker          m = {.trie = out,
                        .vocab = v,
                        .open = hd_pool_alloc(&scratch, (longest(v) + 1) * sizeof *m.open)};
    hd_status      status = HD_ERR_MEMORY;
    if (ids && m.open) {
        int32_t const n = sort_tokens(ids, v);
        status = allocate(out, count_nodes(ids, n, v), err);
        if (status == HD_OK) {
            add_tokens(&m, ids, n);
            mark_plain(out, v);
            status = list_plain(out, v, err);
        }
    } else {
        hd_error_set(err, status, -1, "tokenizer: no memory for the order of its tokens");
    }
    hd_pool_free(&scratch);
    return status;
}

void hd_token_trie_close(hd_token_trie *t)
{
    hd_pool_free(&t->pool);
    *t = (hd_token_trie){0};
}

/* One lock for all tries: each is made once. */
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

hd_status hd_lazy_trie_get(const hd_token_trie **out, hd_lazy_trie *lazy, const hd_vocab *v,
                           hd_error *err)
{
    hd_status status = HD_OK;
    pthread_mutex_lock(&making);
    if (!lazy->is_made) {
        status = hd_token_trie_make(&lazy->trie, v, err);
        lazy->is_made = status == HD_OK;
        if (status != HD_OK) hd_token_trie_close(&lazy->trie);
    }
    pthread_mutex_unlock(&making);
    if (status == HD_OK) *out = &lazy->trie;
    return status;
}
