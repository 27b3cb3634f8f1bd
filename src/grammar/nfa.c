#include "grammar/nfa.h"

void hd_nfa_begin(hd_nfa *n)
{
    hd_buffer_clear(&n->heads);
    hd_buffer_clear(&n->edges);
    n->n = 0;
    n->is_full = false;
    hd_nfa_state(n);
    hd_nfa_state(n);
}

void hd_nfa_free(hd_nfa *n)
{
    hd_buffer_free(&n->heads);
    hd_buffer_free(&n->edges);
}

uint32_t hd_nfa_state(hd_nfa *n)
{
    uint32_t const none = HD_NO_EDGE;
    if (n->n == HD_MAX_NFA) n->is_full = true;
    if (n->is_full) return HD_NFA_START;
    hd_buffer_add(&n->heads, &none, sizeof none);
    return n->heads.failed ? HD_NFA_START : n->n++;
}

void hd_nfa_edge_add(hd_nfa *n, uint32_t from, const hd_nfa_edge *e)
{
    uint32_t const at = (uint32_t)(n->edges.used / sizeof *e);
    if (at == HD_MAX_NFA) n->is_full = true;
    if (n->is_full || n->heads.failed) return;
    uint32_t *const head = (uint32_t *)(void *)n->heads.data + from;
    hd_nfa_edge     linked = *e;
    linked.next = *head;
    hd_buffer_add(&n->edges, &linked, sizeof linked);
    if (!n->edges.failed) *head = at;
}

void hd_nfa_range(hd_nfa *n, uint32_t from, uint32_t lo, uint32_t hi, uint32_t to)
{
    hd_nfa_edge_add(n, from, &(hd_nfa_edge){.lo = lo, .hi = hi, .to = to});
}

void hd_nfa_skip(hd_nfa *n, uint32_t from, uint32_t to) { hd_nfa_range(n, from, 1, 0, to); }

void hd_nfa_call(hd_nfa *n, uint32_t from, uint32_t rule, uint32_t to)
{
    hd_nfa_range(n, from, HD_LABEL_CALL + rule, HD_LABEL_CALL + rule, to);
}

void hd_nfa_text(hd_nfa *n, uint32_t from, const char *text, size_t bytes, uint32_t to)
{
    for (size_t i = 0; i < bytes; i++) {
        uint32_t const byte = (unsigned char)text[i];
        uint32_t const next = i + 1 < bytes ? hd_nfa_state(n) : to;
        hd_nfa_range(n, from, byte, byte, next);
        from = next;
    }
    if (bytes == 0) hd_nfa_skip(n, from, to);
}

/* ---- characters ---- */

/* Part of a character: `tail` bytes of six bits follow the first one, whose own bits stand
 * behind `lead`. */
typedef struct char_part {
    uint32_t lead, tail, flags;
} char_part;

/* Values lo..hi of the first byte's bits and the tail's together.  A first byte whose tails are
 * all there can share its edge with its neighbours. */
static void add_part(hd_nfa *n, uint32_t from, hd_char_range r, char_part p, uint32_t to)
{
    uint32_t const bits = 6 * p.tail, size = 1u << bits;
    for (uint32_t first = r.lo >> bits; first <= r.hi >> bits;) {
        uint32_t const lo = first == r.lo >> bits ? r.lo & (size - 1) : 0;
        uint32_t       last = first;
        if (lo == 0) last = (r.hi + 1) >> bits > first ? ((r.hi + 1) >> bits) - 1 : first;
        uint32_t const hi = last == r.hi >> bits ? r.hi & (size - 1) : size - 1;
        uint32_t const next = p.tail ? hd_nfa_state(n) : to;
        hd_nfa_edge_add(
            n, from,
            &(hd_nfa_edge){
                .lo = p.lead | first, .hi = p.lead | last, .to = next, .flags = p.flags});
        if (p.tail)
            add_part(n, next, (hd_char_range){lo, hi}, (char_part){0x80, p.tail - 1, 0}, to);
        first = last + 1;
    }
}

void hd_nfa_chars(hd_nfa *n, uint32_t from, hd_char_range r, uint32_t flags, uint32_t to)
{
    /* Code points that take as many bytes; the surrogates between are none. */
    static const struct {
        hd_char_range range;
        char_part     part;
    } forms[] = {{{0, 0x7F}, {0, 0, 0}},
                 {{0x80, 0x7FF}, {0xC0, 1, 0}},
                 {{0x800, 0xD7FF}, {0xE0, 2, 0}},
                 {{0xE000, 0xFFFF}, {0xE0, 2, 0}},
                 {{0x10000, HD_MAX_UNICODE}, {0xF0, 3, 0}}};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        hd_char_range const form = forms[i].range;
        hd_char_range const both = {r.lo > form.lo ? r.lo : form.lo,
                                    r.hi < form.hi ? r.hi : form.hi};
        char_part part = forms[i].part;
        part.flags = flags;
        if (both.lo <= both.hi) add_part(n, from, both, part, to);
    }
}
