#include "tokenizer/bpe.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define NO_RANK UINT32_MAX

/* ---- merges ---- */

/* The place in b->merges.  Rows sorted by the right id rather than a hash table: no file can
 * make look-ups slow. */
static uint32_t find_merge(const hd_bpe *b, int32_t left, int32_t right)
{
    uint32_t const end = b->row[left + 1];
    uint32_t       low = b->row[left], n = end - low;
    while (n > 0) {
        uint32_t const half = n / 2;
        bool const     is_below = b->right[low + half] < right;
        low = is_below ? low + half + 1 : low;
        n = is_below ? n - half - 1 : half;
    }
    return low < end && b->right[low] == right ? low : HD_NO_MERGE;
}

/* Every piece starts with pairs of bytes, and their rows are the longest. */
static uint32_t find_byte_merge(const hd_bpe *b, const char *two)
{
    return b->byte_pair[(unsigned)(unsigned char)two[0] << 8 | (unsigned char)two[1]];
}

static int compare_merges(const void *a, const void *b)
{
    const hd_merge *const x = a, *const y = b;
    if (x->left != y->left) return x->left < y->left ? -1 : 1;
    return (x->right > y->right) - (x->right < y->right);
}

static hd_status check_unique(const hd_merge *merges, size_t n, hd_error *err)
{
    for (size_t i = 1; i < n; i++)
        if (compare_merges(&merges[i - 1], &merges[i]) == 0)
            HD_FAIL(err, HD_ERR_FORMAT, "merges %u and %u join the same pair: ids %d and %d",
                    merges[i - 1].rank, merges[i].rank, merges[i].left, merges[i].right);
    return HD_OK;
}

static void fill_rows(uint32_t *row, int32_t n_ids, const hd_merge *merges, size_t n)
{
    size_t at = 0;
    for (int32_t id = 0; id <= n_ids; id++) {
        while (at < n && merges[at].left < id) at++;
        row[id] = (uint32_t)at;
    }
}

static hd_status build_rows(hd_bpe *b, size_t n, hd_pool *pool, hd_error *err)
{
    int32_t const   n_ids = b->vocab->n;
    uint32_t *const row = hd_pool_alloc(pool, ((size_t)n_ids + 1) * sizeof *row);
    int32_t *const  right = hd_pool_alloc(pool, n * sizeof *right);
    uint32_t *const pair = hd_pool_alloc(pool, 256 * 256 * sizeof *pair);
    if (!row || !right || !pair)
        HD_FAIL(err, HD_ERR_MEMORY, "no memory for %zu merges of %d tokens", n, n_ids);
    fill_rows(row, n_ids, b->merges, n);
    for (size_t i = 0; i < n; i++) right[i] = b->merges[i].right;
    b->row = row;
    b->right = right;
    for (int i = 0; i < 256 * 256; i++)
        pair[i] = find_merge(b, b->byte_id[i >> 8], b->byte_id[i & 255]);
    b->byte_pair = pair;
    return HD_OK;
}

/* ---- short pieces: on the stack, every round looks at all neighbours ---- */

#define MAX_SHORT 64

typedef struct short_piece {
    int32_t  n;
    int32_t  id[MAX_SHORT];
    int32_t  made[MAX_SHORT]; /* what id[i], id[i + 1] join to */
    uint32_t rank[MAX_SHORT]; /* of that merge, or NO_RANK     */
} short_piece;

static void rate_pair(const hd_bpe *b, short_piece *p, int32_t i, uint32_t merge)
{
    p->rank[i] = merge == HD_NO_MERGE ? NO_RANK : b->merges[merge].rank;
    p->made[i] = merge == HD_NO_MERGE ? -1 : b->merges[merge].made;
}

static void rate_again(const hd_bpe *b, short_piece *p, int32_t i)
{
    rate_pair(b, p, i, i + 1 < p->n ? find_merge(b, p->id[i], p->id[i + 1]) : HD_NO_MERGE);
}

static int32_t best_pair(const short_piece *p)
{
    int32_t best = 0;
    for (int32_t i = 1; i < p->n; i++)
        if (p->rank[i] < p->rank[best]) best = i;
    return best;
}

static void join_pair(const hd_bpe *b, short_piece *p, int32_t i)
{
    p->id[i] = p->made[i];
    p->n--;
    size_t const behind = (size_t)(p->n - i - 1) * sizeof *p->id;
    memmove(p->id + i + 1, p->id + i + 2, behind);
    memmove(p->made + i + 1, p->made + i + 2, behind);
    memmove(p->rank + i + 1, p->rank + i + 2, behind);
    rate_again(b, p, i);
    if (i > 0) rate_again(b, p, i - 1);
}

static void merge_short(const hd_bpe *b, const char *piece, size_t bytes, short_piece *p)
{
    p->n = (int32_t)bytes;
    for (int32_t i = 0; i < p->n; i++) {
        p->id[i] = b->byte_id[(unsigned char)piece[i]];
        rate_pair(b, p, i, i + 1 < p->n ? find_byte_merge(b, piece + i) : HD_NO_MERGE);
    }
    for (int32_t i = best_pair(p); p->rank[i] != NO_RANK; i = best_pair(p)) join_pair(b, p, i);
}

/* ---- long pieces: a linked list and a heap of runs of candidates, O(n log n) ----
 *
 * A candidate is a merge that may be made at a position.  The one of lowest rank comes next, of
 * equals the leftmost.  Text that repeats itself makes candidates of few ranks, from left to
 * right: these form runs, and the heap holds one entry a run.  In the worst case each candidate
 * is a run of its own.  A candidate is stale when its position no longer holds a pair of that
 * rank; it is dropped when it comes. */

typedef struct node {
    int32_t id; /* -1: joined into the one before */
    int32_t previous, next;
} node;

enum { RUN_END = -1, TAKEN = -2 };
typedef struct candidate {
    int32_t at;   /* position                         */
    int32_t next; /* of its run, or RUN_END, or TAKEN */
} candidate;

/* Candidates of one rank by rising position. */
typedef struct run {
    uint64_t key;   /* rank << 32 | position of the first */
    int32_t  first; /* candidate                          */
} run;

/* The last candidate of the run that a merge was added to last; a place that is needed by another
 * merge is taken, and the next candidate begins a new run. */
#define N_LAST 256u
typedef struct last_of {
    uint32_t merge;
    int32_t  candidate;
} last_of;

typedef struct long_piece {
    node      *nodes;      /* [n]   */
    candidate *candidates; /* [3 n]: n - 1 at first, at most two for each of n - 1 merges */
    run       *heap;       /* [3 n] */
    size_t     n_heap;
    int32_t    n, n_candidates;
    last_of    last[N_LAST];
} long_piece;

static void sift_down(run *heap, size_t n)
{
    run const top = heap[0];
    size_t    at = 0;
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && heap[child + 1].key < heap[child].key) child++;
        if (top.key <= heap[child].key) break;
        heap[at] = heap[child];
    }
    heap[at] = top;
}

/* Takes the next candidate; returns its key. */
static uint64_t pop_candidate(long_piece *p)
{
    run *const       top = &p->heap[0];
    uint64_t const   key = top->key;
    candidate *const c = &p->candidates[top->first];
    if (c->next == RUN_END)
        *top = p->heap[--p->n_heap];
    else
        *top = (run){(key >> 32 << 32) | (uint32_t)p->candidates[c->next].at, c->next};
    c->next = TAKEN;
    if (p->n_heap) sift_down(p->heap, p->n_heap);
    return key;
}

static void push_run(long_piece *p, run r)
{
    size_t at = p->n_heap++;
    for (size_t parent; at > 0 && r.key < p->heap[parent = (at - 1) / 2].key; at = parent)
        p->heap[at] = p->heap[parent];
    p->heap[at] = r;
}

/* Equal stretches of text merge alike, the left one first, so candidates of one merge come by
 * rising position; a run does not rely on it. */
static void push_candidate(const hd_bpe *b, long_piece *p, uint32_t merge, int32_t at)
{
    last_of *const   last = &p->last[merge % N_LAST];
    int32_t const    here = p->n_candidates++;
    candidate *const before = last->merge == merge ? &p->candidates[last->candidate] : NULL;
    p->candidates[here] = (candidate){at, RUN_END};
    *last = (last_of){merge, here};
    if (before && before->next == RUN_END && before->at < at)
        before->next = here;
    else
        push_run(p, (run){(uint64_t)b->merges[merge].rank << 32 | (uint32_t)at, here});
}

static uint32_t merge_at(const hd_bpe *b, const long_piece *p, int32_t at)
{
    if (at < 0 || p->nodes[at].id < 0 || p->nodes[at].next < 0) return HD_NO_MERGE;
    return find_merge(b, p->nodes[at].id, p->nodes[p->nodes[at].next].id);
}

static void fill_long(const hd_bpe *b, const char *piece, long_piece *p)
{
    for (int32_t i = 0; i < p->n; i++)
        p->nodes[i] = (node){b->byte_id[(unsigned char)piece[i]], i - 1, i + 1 < p->n ? i + 1 : -1};
    for (uint32_t i = 0; i < N_LAST; i++) p->last[i] = (last_of){HD_NO_MERGE, 0};
    p->n_heap = 0;
    p->n_candidates = 0;
    for (int32_t i = 0; i + 1 < p->n; i++) {
        uint32_t const merge = find_byte_merge(b, piece + i);
        if (merge != HD_NO_MERGE) push_candidate(b, p, merge, i);
    }
}

static void join_nodes(const hd_bpe *b, long_piece *p, int32_t at, int32_t made)
{
    node *const first = &p->nodes[at], *const second = &p->nodes[first->next];
    first->id = made;
    first->next = second->next;
    second->id = -1;
    if (first->next >= 0) p->nodes[first->next].previous = at;
    uint32_t const before = merge_at(b, p, first->previous);
    uint32_t const behind = merge_at(b, p, at);
    if (before != HD_NO_MERGE) push_candidate(b, p, before, first->previous);
    if (behind != HD_NO_MERGE) push_candidate(b, p, behind, at);
}

static void merge_long(const hd_bpe *b, const char *piece, long_piece *p)
{
    fill_long(b, piece, p);
    while (p->n_heap) {
        uint64_t const key = pop_candidate(p);
        int32_t const  at = (int32_t)(key & UINT32_MAX);
        uint32_t const merge = merge_at(b, p, at);
        if (merge != HD_NO_MERGE && b->merges[merge].rank == key >> 32)
            join_nodes(b, p, at, b->merges[merge].made);
    }
}

static hd_status reserve(hd_bpe_scratch *s, size_t n, long_piece *p, hd_error *err)
{
    size_t const each = sizeof(node) + 3 * (sizeof(candidate) + sizeof(run));
    size_t       bytes;
    if (n > INT32_MAX / 3 || !hd_size_mul(n, each, &bytes) || bytes > SIZE_MAX / 2)
        HD_FAIL(err, HD_ERR_MEMORY, "no memory to merge a piece of %zu bytes", n);
    if (bytes > s->bytes) {
        hd_bpe_scratch_free(s);
        s->data = hd_memory_alloc(2 * bytes);
        if (!s->data) HD_FAIL(err, HD_ERR_MEMORY, "no memory to merge a piece of %zu bytes", n);
        s->bytes = 2 * bytes;
    }
    p->heap = s->data;
    p->candidates = (candidate *)(void *)(p->heap + 3 * n);
    p->nodes = (node *)(void *)(p->candidates + 3 * n);
    p->n = (int32_t)n;
    return HD_OK;
}

static hd_status encode_long(const hd_bpe *b, hd_bpe_scratch *scratch, const char *piece,
                             size_t bytes, hd_ids *out, hd_error *err)
{
    long_piece p; /* reserve and fill_long set it all */
    HD_TRY(reserve(scratch, bytes, &p, err));
    merge_long(b, piece, &p);
    for (int32_t i = 0; i >= 0; i = p.nodes[i].next) hd_ids_add(out, p.nodes[i].id);
    return HD_OK;
}

void hd_bpe_scratch_free(hd_bpe_scratch *s)
{
    hd_memory_free(s->data);
    *s = (hd_bpe_scratch){0};
}

/* ---- whole tokens: most pieces of ordinary text are one token, found by one look-up ---- */

/* A token goes into the table only when merging its bytes gives just it, so the table is a
 * shortcut and never changes an answer; for the same reason a token that finds no slot
 * nearby may be left out, which bounds the work that a hostile file can cause. */
#define MAX_PROBES 32u

static uint32_t hash_bytes(const char *s, size_t bytes)
{
    uint64_t const k = UINT64_C(0x9E3779B97F4A7C15);
    uint64_t       h = bytes * k, word;
    for (; bytes >= 8; s += 8, bytes -= 8) {
        memcpy(&word, s, 8);
        h = (h ^ word) * k;
        h ^= h >> 32;
    }
    word = 0;
    for (size_t i = 0; i < bytes; i++) word = word << 8 | (unsigned char)s[i];
    h = (h ^ word) * k;
    h = (h ^ h >> 29) * k;
    return (uint32_t)(h >> 32);
}

static int32_t find_whole(const hd_bpe *b, const char *piece, size_t bytes)
{
    uint32_t const hash = hash_bytes(piece, bytes);
    for (uint32_t i = 0; i < MAX_PROBES; i++) {
        hd_whole const slot = b->whole[(hash + i) & b->whole_mask];
        if (slot.id < 0) return -1;
        if (slot.hash != hash) continue;
        size_t            length;
        const char *const token = hd_vocab_token(b->vocab, slot.id, &length);
        if (length == bytes && memcmp(token, piece, bytes) == 0) return slot.id;
    }
    return -1;
}

static void add_whole(hd_bpe *b, int32_t id, const char *token, size_t bytes)
{
    uint32_t const hash = hash_bytes(token, bytes);
    for (uint32_t i = 0; i < MAX_PROBES; i++) {
        hd_whole *const slot = &b->whole[(hash + i) & b->whole_mask];
        if (slot->id >= 0) continue;
        *slot = (hd_whole){hash, id};
        if (bytes > b->whole_bytes) b->whole_bytes = bytes;
        return;
    }
}

static hd_status build_wholes(hd_bpe *b, hd_pool *pool, hd_error *err)
{
    size_t n = 64;
    while (n < 2 * (size_t)b->vocab->n) n *= 2;
    b->whole = hd_pool_alloc(pool, n * sizeof *b->whole);
    if (!b->whole) HD_FAIL(err, HD_ERR_MEMORY, "no memory for a table of %zu tokens", n);
    for (size_t i = 0; i < n; i++) b->whole[i].id = -1;
    b->whole_mask = (uint32_t)(n - 1);
    for (int32_t id = 0; id < b->vocab->n; id++) {
        size_t            bytes;
        const char *const token = hd_vocab_token(b->vocab, id, &bytes);
        if (b->vocab->is_control[id] || bytes == 0 || bytes > MAX_SHORT) continue;
        short_piece p;
        merge_short(b, token, bytes, &p);
        if (p.n == 1 && p.id[0] == id) add_whole(b, id, token, bytes);
    }
    return HD_OK;
}

/* ---- the two entrances ---- */

hd_status hd_bpe_build(hd_bpe *b, hd_merge *merges, size_t n, hd_pool *pool, hd_error *err)
{
    qsort(merges, n, sizeof *merges, compare_merges);
    HD_TRY(check_unique(merges, n, err));
    b->merges = merges;
    HD_TRY(build_rows(b, n, pool, err));
    return build_wholes(b, pool, err);
}

hd_status hd_bpe_encode(const hd_bpe *b, hd_bpe_scratch *scratch, const char *piece, size_t bytes,
                        hd_ids *out, hd_error *err)
{
    assert(bytes > 0 && bytes <= INT32_MAX);
    int32_t const id = bytes <= b->whole_bytes ? find_whole(b, piece, bytes) : -1;
    if (id >= 0) {
        hd_ids_add(out, id);
        return HD_OK;
    }
    if (bytes > MAX_SHORT) return encode_long(b, scratch, piece, bytes, out, err);
    short_piece p;
    merge_short(b, piece, bytes, &p);
    for (int32_t i = 0; i < p.n; i++) hd_ids_add(out, p.id[i]);
    return HD_OK;
}
