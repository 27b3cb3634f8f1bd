#ifndef HD_GRAMMAR_REGEX_CLASS_H
#define HD_GRAMMAR_REGEX_CLASS_H

#include "grammar/nfa.h"

HD_BEGIN_C

/* A set of code points, as ranges in any order. */
typedef struct hd_char_class {
    hd_buffer ranges; /* hd_char_range */
} hd_char_class;

void hd_char_class_add(hd_char_class *c, uint32_t lo, uint32_t hi);
/* Adds what \d, \w or \s stands for; `name` upper case: all else.  returns  false for another */
bool hd_char_class_add_named(hd_char_class *c, char name);
/* Turns the class into all that it has not. */
void hd_char_class_negate(hd_char_class *c);
void hd_char_class_clear(hd_char_class *c);
void hd_char_class_free(hd_char_class *c);

HD_END_C
#endif
