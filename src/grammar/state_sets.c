#include "grammar/state_sets.h"

#include <string.h>

#define FIRST_SLOTS 256u

static uint64_t hash_values(const uint32_t *values, size_t n)
{
    uint64_t h = 0x9E3779B97F4A7C15u ^ n;
    for (size_t i = 0; i < n; i++) h = (h ^ values[i]) * 0xD6E8FEB86659FD93u, h ^= h >> 32;
    return h;
}

const uint32_t *hd_state_sets_get(const hd_state_sets *s, uint32_t number, size_t *n)
{
    const size_t *const start = (const size_t *)(const void *)s->starts.data + number;
    *n = start[1] - start[0];
    return (const uint32_t *)(const void *)s->values.data + start[0];
}

/* The slot where these values stand or belong. */
static uint32_t *find_slot(const hd_state_sets *s, const uint32_t *values, size_t n)
{
    for (size_t i = hash_values(values, n) & (s->n_slots - 1);; i = (i + 1) & (s->n_slots - 1)) {
        if (s->slots[i] == 0) return &s->slots[i];
        size_t                found;
        const uint32_t *const there = hd_state_sets_get(s, s->slots[i] - 1, &found);
        if (found == n && memcmp(there, values, n * sizeof *values) == 0) return &s->slots[i];
    }
}

static bool grow(hd_state_sets *s)
{
    uint32_t const  n_slots = s->n_slots ? s->n_slots * 2 : FIRST_SLOTS;
    uint32_t *const old = s->slots;
    uint32_t *const slots = hd_memory_alloc((size_t)n_slots * sizeof *slots);
    if (!slots) return false;
    s->slots = slots;
    s->n_slots = n_slots;
    for (uint32_t i = 0; i < s->n; i++) {
        size_t                n;
        const uint32_t *const values = hd_state_sets_get(s, i, &n);
        *find_slot(s, values, n) = i + 1;
    }
    hd_memory_free(old);
    return true;
}

uint32_t hd_state_sets_put(hd_state_sets *s, const uint32_t *values, size_t n)
{
    size_t const none = 0;
    if (s->starts.used == 0) hd_buffer_add(&s->starts, &none, sizeof none);
    if (s->n * 2 >= s->n_slots && !grow(s)) return HD_NO_SET;
    uint32_t *const slot = find_slot(s, values, n);
    if (*slot) return *slot - 1;
    hd_buffer_add(&s->values, values, n * sizeof *values);
    size_t const end = s->values.used / sizeof *values;
    hd_buffer_add(&s->starts, &end, sizeof end);
    if (s->values.failed || s->starts.failed) return HD_NO_SET;
    *slot = s->n + 1;
    return s->n++;
}

void hd_state_sets_free(hd_state_sets *s)
{
    hd_buffer_free(&s->values);
    hd_buffer_free(&s->starts);
    hd_memory_free(s->slots);
    *s = (hd_state_sets){0};
}
