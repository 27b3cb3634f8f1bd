#include "grammar/decimal.h"

#include <stdlib.h>
#include <string.h>

bool hd_decimal_is_zero(const hd_decimal *d)
{
    static const uint8_t zeros[HD_ALL_DIGITS];
    return !d->is_huge && memcmp(d->digit, zeros, sizeof zeros) == 0;
}

int hd_decimal_whole(const hd_decimal *d)
{
    int n = HD_WHOLE_DIGITS;
    while (n > 1 && d->digit[HD_WHOLE_DIGITS - n] == 0) n--;
    return n;
}

int hd_decimal_fraction(const hd_decimal *d)
{
    int n = HD_FRACTION_DIGITS;
    while (n > 0 && d->digit[HD_WHOLE_DIGITS + n - 1] == 0) n--;
    return n;
}

int hd_decimal_compare(const hd_decimal *a, const hd_decimal *b)
{
    int const sign = a->is_negative ? -1 : 1;
    if (a->is_negative != b->is_negative) return sign;
    if (a->is_huge != b->is_huge) return a->is_huge ? sign : -sign;
    int const order = a->is_huge ? 0 : memcmp(a->digit, b->digit, sizeof a->digit);
    return order == 0 ? 0 : order > 0 ? sign : -sign;
}

/* Puts digits where they belong: `place` is the first one's, 0 just in front of the point,
 * falling.  returns  false when one that is not 0 has no place behind the point */
static bool put_digits(hd_decimal *d, const char *digits, size_t n, long place)
{
    for (size_t i = 0; i < n; i++, place--) {
        if (digits[i] == '0') continue;
        if (place < -HD_FRACTION_DIGITS) return false;
        if (place >= HD_WHOLE_DIGITS)
            d->is_huge = true;
        else
            d->digit[HD_WHOLE_DIGITS - 1 - place] = (uint8_t)(digits[i] - '0');
    }
    return true;
}

bool hd_decimal_read(hd_decimal *out, const json_object *v)
{
    const char *const text = json_object_get_string((json_object *)(uintptr_t)v);
    *out = (hd_decimal){0};
    if (!text) return false;
    const char *const whole = text + (*text == '-');
    size_t const      n_whole = strspn(whole, "0123456789");
    const char       *end = whole + n_whole;
    const char *const fraction = end + (*end == '.');
    size_t const      n_fraction = *end == '.' ? strspn(fraction, "0123456789") : 0;
    end = fraction + n_fraction;
    long exponent = *end == 'e' || *end == 'E' ? strtol(end + 1, NULL, 10) : 0;
    if (exponent > 100000) exponent = 100000;
    if (exponent < -100000) exponent = -100000;
    bool const fits = put_digits(out, whole, n_whole, (long)n_whole - 1 + exponent) &&
                      put_digits(out, fraction, n_fraction, exponent - 1);
    out->is_negative = *text == '-' && !hd_decimal_is_zero(out);
    return fits;
}
