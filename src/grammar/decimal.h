#ifndef HD_GRAMMAR_DECIMAL_H
#define HD_GRAMMAR_DECIMAL_H

#include "base/json.h"

HD_BEGIN_C

/* Decimal numbers as they are spelled, without rounding: so many digits in front of the point
 * and behind it.  Answers spell no more of them, unless an exponent does. */
#define HD_WHOLE_DIGITS    18
#define HD_FRACTION_DIGITS 18
#define HD_ALL_DIGITS      (HD_WHOLE_DIGITS + HD_FRACTION_DIGITS)

typedef struct hd_decimal {
    bool    is_negative;          /* not with zero */
    bool    is_huge;              /* more digits in front of the point; the digits say nothing */
    uint8_t digit[HD_ALL_DIGITS]; /* 0..9, the point is behind HD_WHOLE_DIGITS of them */
} hd_decimal;

/* Reads a JSON number.  returns  false when it has more digits behind the point */
bool hd_decimal_read(hd_decimal *out, const json_object *v);
int  hd_decimal_compare(const hd_decimal *a, const hd_decimal *b); /* -1, 0, 1 */
bool hd_decimal_is_zero(const hd_decimal *d);
/* Digits in front of the point without leading zeros, at least one, and behind it without
 * trailing ones. */
int hd_decimal_whole(const hd_decimal *d);
int hd_decimal_fraction(const hd_decimal *d);

HD_END_C
#endif
