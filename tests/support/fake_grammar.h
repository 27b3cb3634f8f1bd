#ifndef HD_SUPPORT_FAKE_GRAMMAR_H
#define HD_SUPPORT_FAKE_GRAMMAR_H

#include <string.h>

#include "base/memory.h"
#include "hadal_serve.h"

/* For one file of a program, in place of the real one. */

/* ---- a grammar of our own: ids of one parity, the end after four tokens ---- */

struct hd_grammar {
    int32_t parity;
};
struct hd_matcher {
    const hd_grammar *g;
    int32_t           n;
};
static int n_matchers; /* open ones */

hd_status hd_matcher_open(hd_matcher **out, const hd_grammar *g, hd_parse_start start,
                          hd_error *err)
{
    (void)start;
    *out = hd_memory_alloc(sizeof **out);
    if (!*out) HD_FAIL(err, HD_ERR_MEMORY, "no memory for a matcher");
    (*out)->g = g;
    n_matchers++;
    return HD_OK;
}

void hd_matcher_close(hd_matcher *m)
{
    if (m) n_matchers--;
    hd_memory_free(m);
}

bool hd_matcher_is_free(const hd_matcher *m) { return m->n == 1; }

hd_status hd_matcher_mask(hd_matcher *m, uint32_t *allowed, int32_t n_vocab, const int32_t *ends,
                          int32_t n_ends, hd_error *err)
{
    (void)err;
    memset(allowed, 0, ((size_t)n_vocab + 31) / 32 * sizeof *allowed);
    for (int32_t i = 8 + m->g->parity; i < n_vocab && m->n < 4; i += 2)
        allowed[i / 32] |= 1u << (i % 32);
    for (int32_t i = 0; i < n_ends && m->n >= 4; i++) allowed[ends[i] / 32] |= 1u << (ends[i] % 32);
    return HD_OK;
}

hd_status hd_matcher_accept(hd_matcher *m, int32_t id, hd_error *err)
{
    if (m->n != 1 && id % 2 != m->g->parity) HD_FAIL(err, HD_ERR_INVALID, "token %d", id);
    m->n++;
    return HD_OK;
}

#endif
