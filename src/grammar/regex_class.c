#include "grammar/regex_class.h"

#include <stdlib.h>

static hd_char_range *ranges_of(const hd_char_class *c)
{
    return (hd_char_range *)(void *)c->ranges.data;
}

static size_t count_ranges(const hd_char_class *c)
{
    return c->ranges.used / sizeof(hd_char_range);
}

void hd_char_class_add(hd_char_class *c, uint32_t lo, uint32_t hi)
{
    hd_char_range const r = {lo, hi};
    hd_buffer_add(&c->ranges, &r, sizeof r);
}

void hd_char_class_clear(hd_char_class *c) { hd_buffer_clear(&c->ranges); }

void hd_char_class_free(hd_char_class *c) { hd_buffer_free(&c->ranges); }

static int compare_ranges(const void *a, const void *b)
{
    uint32_t const x = ((const hd_char_range *)a)->lo, y = ((const hd_char_range *)b)->lo;
    return x < y ? -1 : x > y;
}

void hd_char_class_negate(hd_char_class *c)
{
    hd_char_class out = {0};
    uint32_t      next = 0; /* the first code point not decided */
    size_t const  n = count_ranges(c);
    if (n) qsort(c->ranges.data, n, sizeof(hd_char_range), compare_ranges);
    for (size_t i = 0; i < n; i++) {
        hd_char_range const r = ranges_of(c)[i];
        if (r.lo > next) hd_char_class_add(&out, next, r.lo - 1);
        if (r.hi >= next) next = r.hi + 1;
    }
    if (next <= HD_MAX_UNICODE) hd_char_class_add(&out, next, HD_MAX_UNICODE);
    out.ranges.failed = out.ranges.failed || c->ranges.failed;
    hd_char_class_free(c);
    *c = out;
}

/* As ECMAScript has them without the flag i: \d and \w are ASCII, \s is Unicode's. */
static const hd_char_range digits[] = {{'0', '9'}};
static const hd_char_range letters[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
static const hd_char_range spaces[] = {
    {9, 13},          {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
    {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};

static void add_all(hd_char_class *c, const hd_char_range *ranges, size_t n, bool is_negated)
{
    hd_char_class other = {0};
    for (size_t i = 0; i < n; i++) hd_char_class_add(&other, ranges[i].lo, ranges[i].hi);
    if (is_negated) hd_char_class_negate(&other);
    for (size_t i = 0; i < count_ranges(&other); i++)
        hd_char_class_add(c, ranges_of(&other)[i].lo, ranges_of(&other)[i].hi);
    c->ranges.failed = c->ranges.failed || other.ranges.failed;
    hd_char_class_free(&other);
}

bool hd_char_class_add_named(hd_char_class *c, char name)
{
    switch (name) {
    case 'd':
    case 'D': add_all(c, digits, sizeof digits / sizeof *digits, name == 'D'); return true;
    case 'w':
    case 'W': add_all(c, letters, sizeof letters / sizeof *letters, name == 'W'); return true;
    case 's':
    case 'S': add_all(c, spaces, sizeof spaces / sizeof *spaces, name == 'S'); return true;
    default: return false;
    }
}
