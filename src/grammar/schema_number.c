#include <string.h>

#include "grammar/decimal.h"
#include "grammar/schema_value.h"

/* Numbers are spelled without an exponent wherever their size matters, so that comparing is
 * comparing digits from the left. */

#define MAX_EXPONENT_DIGITS 2

typedef struct bound {
    bool       is_there, is_open; /* open: the number itself is out */
    hd_decimal at;
} bound;

typedef struct range {
    bound lo, hi;
    bool  is_whole; /* without a fraction */
} range;

/* ---- magnitudes ---- */

/* A digit more of a number is written from each state of a column; a state knows whether the
 * digits so far are those of the least (low) or of the greatest magnitude (high). */
enum { LOW = 1, HIGH = 2, N_TIGHT = 4 };

typedef struct magnitudes {
    hd_nfa  *n;
    range    r; /* both bounds, if there, not negative */
    uint32_t to;
} magnitudes;

/* Whether the digits from `place` on are all zeros. */
static bool is_rest_zero(const bound *b, int place)
{
    for (; place < HD_ALL_DIGITS; place++)
        if (b->at.digit[place]) return false;
    return true;
}

/* Whether a number may end in front of a place: what does not follow is as good as zeros. */
static bool may_end(const range *r, int place, unsigned tight)
{
    if (tight & LOW && (!is_rest_zero(&r->lo, place) || r->lo.is_open)) return false;
    return !(tight & HIGH && is_rest_zero(&r->hi, place) && r->hi.is_open);
}

/* What remains tight behind a digit; false when it leaves the range. */
static bool take_digit(const range *r, int place, uint8_t digit, unsigned *tight)
{
    if (*tight & LOW) {
        if (digit < r->lo.at.digit[place]) return false;
        if (digit > r->lo.at.digit[place]) *tight &= ~(unsigned)LOW;
    }
    if (*tight & HIGH) {
        if (digit > r->hi.at.digit[place]) return false;
        if (digit < r->hi.at.digit[place]) *tight &= ~(unsigned)HIGH;
    }
    return true;
}

/* Writes the digit of one place from a column of states, 0 where there is none, to the next. */
static void write_place(const magnitudes *m, int place, uint8_t first, const uint32_t *from,
                        uint32_t *next)
{
    memset(next, 0, N_TIGHT * sizeof *next);
    for (unsigned t = 0; t < N_TIGHT; t++)
        for (uint8_t d = first; from[t] && d <= 9; d++) {
            unsigned tight = t;
            if (!take_digit(&m->r, place, d, &tight)) continue;
            if (!next[tight]) next[tight] = hd_nfa_state(m->n);
            hd_nfa_range(m->n, from[t], '0' + (uint32_t)d, '0' + (uint32_t)d, next[tight]);
        }
}

static void write_ends(const magnitudes *m, int place, const uint32_t *from)
{
    for (unsigned t = 0; t < N_TIGHT; t++)
        if (from[t] && may_end(&m->r, place, t)) hd_nfa_skip(m->n, from[t], m->to);
}

static void write_point(const magnitudes *m, uint32_t *column)
{
    for (unsigned t = 0; t < N_TIGHT; t++) {
        if (!column[t]) continue;
        uint32_t const behind = hd_nfa_state(m->n);
        hd_nfa_range(m->n, column[t], '.', '.', behind);
        column[t] = behind;
    }
}

/* Numbers of `whole` digits in front of the point. */
static void write_length(const magnitudes *m, uint32_t from, int whole)
{
    const range *const r = &m->r;
    uint32_t           columns[2][N_TIGHT] = {{0}};
    int const          start = HD_WHOLE_DIGITS - whole;
    if (r->lo.is_there && whole < hd_decimal_whole(&r->lo.at)) return;
    if (r->hi.is_there && whole > hd_decimal_whole(&r->hi.at)) return;
    unsigned tight = 0;
    if (r->lo.is_there && whole == hd_decimal_whole(&r->lo.at)) tight |= LOW;
    if (r->hi.is_there && whole == hd_decimal_whole(&r->hi.at)) tight |= HIGH;
    columns[start & 1][tight] = from;
    int const end = r->is_whole ? HD_WHOLE_DIGITS : HD_ALL_DIGITS;
    for (int place = start; place < end; place++) {
        uint32_t *const column = columns[place & 1], *const next = columns[(place + 1) & 1];
        if (place == HD_WHOLE_DIGITS) write_point(m, column);
        write_place(m, place, place == start && whole > 1, column, next);
        if (place + 1 >= HD_WHOLE_DIGITS) write_ends(m, place + 1, next);
    }
}

static void write_magnitudes(hd_nfa *n, uint32_t from, range r, uint32_t to)
{
    magnitudes     m = {n, r, to};
    uint32_t const first = hd_nfa_state(n); /* never state 0, which stands for none */
    hd_nfa_skip(n, from, first);
    if (r.lo.is_there && r.lo.at.is_huge) return;
    if (r.hi.is_there && r.hi.at.is_huge) m.r.hi.is_there = false;
    for (int whole = 1; whole <= HD_WHOLE_DIGITS; whole++) write_length(&m, first, whole);
}

/* ---- signs ---- */

static bound const zero = {.is_there = true};
static bound const above_zero = {.is_there = true, .is_open = true};

static bound negate(bound b)
{
    b.at.is_negative = !b.at.is_negative;
    return b;
}

/* Zero is spelled without a sign. */
static void write_range(hd_nfa *n, uint32_t from, range r, uint32_t to)
{
    bool const has_lo = r.lo.is_there, has_hi = r.hi.is_there;
    range      above = r, below = {.is_whole = r.is_whole, .lo = above_zero};
    if (!has_lo || r.lo.at.is_negative) above.lo = zero;
    if (has_lo) below.hi = negate(r.lo);
    if (has_hi && r.hi.at.is_negative) below.lo = negate(r.hi);
    if (!has_hi || !r.hi.at.is_negative) write_magnitudes(n, from, above, to);
    if (has_lo && !r.lo.at.is_negative) return;
    uint32_t const behind = hd_nfa_state(n);
    hd_nfa_range(n, from, '-', '-', behind);
    write_magnitudes(n, behind, below, to);
}

/* ---- multiples ---- */

#define MAX_MULTIPLE 10000u /* states: a remainder for each place behind the point */

/* A divisor as an integer, with so many places behind the point. */
typedef struct divisor {
    uint32_t value;
    int      places;
} divisor;

static bool read_divisor(const json_object *v, divisor *out)
{
    hd_decimal d;
    if (!hd_decimal_read(&d, v) || d.is_huge || d.is_negative) return false;
    uint64_t value = 0;
    out->places = hd_decimal_fraction(&d);
    for (int i = 0; i < HD_WHOLE_DIGITS + out->places; i++) {
        value = value * 10 + d.digit[i];
        if (value > MAX_MULTIPLE) return false;
    }
    out->value = (uint32_t)value;
    return value > 0 && value * (uint64_t)(out->places + 2) <= MAX_MULTIPLE;
}

static uint32_t remainder_of(const divisor *d, uint64_t value, int places_left)
{
    value %= d->value;
    for (int i = 0; i < places_left; i++) value = value * 10 % d->value;
    return (uint32_t)value;
}

/* State `base + place * value + remainder`; place 0 is in front of the point, and `points` the
 * states just behind it. */
static void write_multiples(hd_nfa *n, const divisor *d)
{
    uint32_t const rows = (uint32_t)d->places + 2, base = n->n;
    for (uint32_t i = 0; i < rows * d->value; i++) hd_nfa_state(n);
    if (n->is_full || n->heads.failed) return;
    hd_nfa_skip(n, HD_NFA_START, base);
    hd_nfa_range(n, HD_NFA_START, '-', '-', base);
    for (uint32_t row = 0; row < rows; row++)
        for (uint32_t r = 0; r < d->value; r++) {
            uint32_t const at = base + row * d->value + r;
            /* Row 0 is in front of the point, row 1 just behind it, row 2 one digit further. */
            int const left = d->places - (row ? (int)row - 1 : 0);
            if (row != 1 && remainder_of(d, r, left) == 0) hd_nfa_skip(n, at, HD_NFA_END);
            if (row == 0 && d->places) hd_nfa_range(n, at, '.', '.', at + d->value);
            if (row + 1 == rows && row) continue;
            for (uint32_t digit = 0; digit <= 9; digit++) {
                uint32_t const next = (uint32_t)(((uint64_t)r * 10 + digit) % d->value);
                hd_nfa_range(n, at, '0' + digit, '0' + digit,
                             base + (row ? row + 1 : 0) * d->value + next);
            }
        }
}

/* ---- what the parts say ---- */

static hd_status fail_places(const hd_compiler *c, const char *path, const char *name)
{
    HD_FAIL(c->err, HD_ERR_UNSUPPORTED, "%s.%s: a number of more than %d digits behind the point",
            path, name, HD_FRACTION_DIGITS);
}

static void tighten(bound *b, bound other, int sign)
{
    int const order = b->is_there ? hd_decimal_compare(&other.at, &b->at) * sign : 1;
    if (order > 0)
        *b = other;
    else if (order == 0)
        b->is_open = b->is_open || other.is_open;
}

/* One keyword of a bound.  A true `exclusiveMinimum` makes `minimum` open. */
static hd_status read_bound(const hd_compiler *c, const hd_schema *s, const char *names[2],
                            bound *b, int sign)
{
    for (int i = 0; i < 2; i++) {
        const json_object *const v = hd_json_member(s->json, names[i]);
        const json_object *const open = hd_json_member(s->json, names[1]);
        bound                    one = {.is_there = true};
        if (!v || json_object_is_type(v, json_type_boolean)) continue;
        one.is_open = i == 1 || (json_object_is_type(open, json_type_boolean) &&
                                 json_object_get_boolean(open));
        if (!hd_decimal_read(&one.at, v)) return fail_places(c, s->path, names[i]);
        tighten(b, one, sign);
    }
    return HD_OK;
}

static hd_status read_range(const hd_compiler *c, const hd_parts *p, range *r)
{
    static const char *lo[] = {"minimum", "exclusiveMinimum"};
    static const char *hi[] = {"maximum", "exclusiveMaximum"};
    for (uint32_t i = 0; i < p->n; i++) {
        const hd_schema *const s = hd_compiler_schema(c, p->part[i].schema);
        HD_TRY(read_bound(c, s, lo, &r->lo, 1));
        HD_TRY(read_bound(c, s, hi, &r->hi, -1));
    }
    return HD_OK;
}

static hd_status make_multiples(hd_compiler *c, const hd_schema *s, const json_object *v,
                                hd_dfa *out)
{
    hd_nfa  n = {0};
    divisor d;
    if (!read_divisor(v, &d))
        HD_FAIL(c->err, HD_ERR_UNSUPPORTED,
                "%s.multipleOf: too large, or of too many digits, to be enforced", s->path);
    hd_nfa_begin(&n);
    write_multiples(&n, &d);
    hd_status const status = hd_dfa_make(out, &n, s->path, c->err);
    hd_nfa_free(&n);
    return status;
}

static hd_status narrow_to_multiples(hd_compiler *c, const hd_parts *p, hd_dfa *d)
{
    for (uint32_t i = 0; i < p->n; i++) {
        const hd_schema *const   s = hd_compiler_schema(c, p->part[i].schema);
        const json_object *const v = hd_json_member(s->json, "multipleOf");
        hd_dfa                   one = {0}, both = {0};
        if (!v) continue;
        hd_status status = make_multiples(c, s, v, &one);
        if (status == HD_OK) status = hd_dfa_combine(&both, d, &one, HD_DFA_BOTH, s->path, c->err);
        hd_dfa_free(&one);
        hd_dfa_free(d);
        *d = both;
        HD_TRY(status);
    }
    return HD_OK;
}

static hd_status make_numbers(hd_compiler *c, const hd_parts *p, bool is_whole, hd_dfa *out)
{
    hd_nfa n = {0};
    range  r = {.is_whole = is_whole};
    HD_TRY(read_range(c, p, &r));
    hd_nfa_begin(&n);
    write_range(&n, HD_NFA_START, r, HD_NFA_END);
    hd_status status = hd_dfa_make(out, &n, hd_parts_path(c, p), c->err);
    hd_nfa_free(&n);
    if (status == HD_OK) status = narrow_to_multiples(c, p, out);
    return status;
}

/* ---- rules and values ---- */

static void write_exponent(hd_nfa *n, uint32_t from, uint32_t to)
{
    uint32_t const sign = hd_nfa_state(n);
    uint32_t       at = hd_nfa_state(n);
    hd_nfa_range(n, from, 'e', 'e', sign);
    hd_nfa_range(n, from, 'E', 'E', sign);
    hd_nfa_skip(n, sign, at);
    hd_nfa_range(n, sign, '-', '-', at);
    hd_nfa_range(n, sign, '+', '+', at);
    for (int i = 0; i < MAX_EXPONENT_DIGITS; i++) {
        uint32_t const next = hd_nfa_state(n);
        hd_nfa_range(n, at, '0', '9', next);
        hd_nfa_skip(n, next, to);
        at = next;
    }
}

hd_status hd_number_rule(hd_compiler *c)
{
    uint32_t const end = hd_nfa_state(&c->nfa);
    write_range(&c->nfa, HD_NFA_START, (range){0}, end);
    hd_nfa_skip(&c->nfa, end, HD_NFA_END);
    write_exponent(&c->nfa, end, HD_NFA_END);
    return HD_OK;
}

static bool says_of_size(const hd_compiler *c, const hd_parts *p)
{
    static const char *const names[] = {"minimum", "maximum", "exclusiveMinimum",
                                        "exclusiveMaximum", "multipleOf"};
    for (uint32_t i = 0; i < p->n; i++)
        for (int k = 0; k < 5; k++)
            if (hd_json_member(hd_part_json(c, p, i), names[k])) return true;
    return false;
}

hd_status hd_number_write(hd_compiler *c, const hd_parts *p, hd_spot s)
{
    bool const is_whole = !(s.types & HD_TYPE_FRACTION);
    hd_dfa     d = {0};
    uint32_t   rule;
    if (!is_whole && !says_of_size(c, p)) {
        HD_TRY(hd_compiler_rule(c, HD_RULE_NUMBER, NULL, 0, &rule));
        hd_nfa_call(&c->nfa, s.from, rule, s.to);
        return HD_OK;
    }
    hd_status const status = make_numbers(c, p, is_whole, &d);
    if (status == HD_OK) hd_dfa_embed(&d, &c->nfa, s.from, s.to);
    hd_dfa_free(&d);
    return status;
}

static bool is_in(const range *r, const hd_decimal *at)
{
    int const from_lo = r->lo.is_there ? hd_decimal_compare(at, &r->lo.at) : 1;
    int const from_hi = r->hi.is_there ? hd_decimal_compare(at, &r->hi.at) : -1;
    return from_lo >= r->lo.is_open && from_hi <= -(int)r->hi.is_open;
}

static bool is_multiple(const divisor *d, const hd_decimal *at)
{
    uint64_t rest = 0;
    for (int i = 0; i < HD_WHOLE_DIGITS + d->places; i++)
        rest = (rest * 10 + at->digit[i]) % d->value;
    return rest == 0 && hd_decimal_fraction(at) <= d->places;
}

hd_status hd_number_fits(hd_compiler *c, const hd_parts *p, const json_object *v, bool *fits)
{
    range      r = {0};
    hd_decimal at;
    *fits = true;
    if (!says_of_size(c, p)) return HD_OK;
    HD_TRY(read_range(c, p, &r));
    if (!hd_decimal_read(&at, v)) return fail_places(c, hd_parts_path(c, p), "enum");
    *fits = is_in(&r, &at);
    for (uint32_t i = 0; i < p->n; i++) {
        const json_object *const of = hd_json_member(hd_part_json(c, p, i), "multipleOf");
        divisor                  d;
        if (!of) continue;
        if (at.is_huge || !read_divisor(of, &d))
            HD_FAIL(c->err, HD_ERR_UNSUPPORTED, "%s.multipleOf: cannot be compared with `enum`",
                    hd_parts_path(c, p));
        *fits = *fits && is_multiple(&d, &at);
    }
    return HD_OK;
}
