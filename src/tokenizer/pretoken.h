#ifndef HD_TOKENIZER_PRETOKEN_H
#define HD_TOKENIZER_PRETOKEN_H

#include "base/status.h"

HD_BEGIN_C

/* Splits text into the pieces that merging never crosses.  The model's rules are three
 * regular expressions, each cutting what the one before left:
 *
 *   1  \p{N}{1,3}
 *   2  [U+4E00-9FA5 U+3040-309F U+30A0-30FF]+
 *   3  [ASCII punctuation][A-Za-z]+  |  [^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+
 *      |  ?[\p{P}\p{S}]+[\r\n]*  |  \s*[\r\n]+  |  \s+(?!\S)  |  \s+
 *
 * What no alternative matches stays together as a piece of its own.
 *
 * text     valid UTF-8; 0 <= at < bytes, at the start of a piece
 * returns  the end of the piece that starts at `at` */
size_t hd_pretoken_end(const char *text, size_t bytes, size_t at);

HD_END_C
#endif
