#ifndef HD_GRAMMAR_REGEX_H
#define HD_GRAMMAR_REGEX_H

#include "grammar/dfa.h"

HD_BEGIN_C

/* Makes a DFA, over UTF-8, of the texts in which an ECMAScript pattern is found anywhere, as the
 * keyword `pattern` wants.
 * path     names the pattern in messages
 * owns     the caller frees *out, also after a failure
 * returns  HD_ERR_FORMAT when it is no pattern; HD_ERR_UNSUPPORTED for what no automaton can do
 *          (back references) or this one does not (looking around, word boundaries, \p);
 *          HD_ERR_LIMIT, HD_ERR_MEMORY                                                         */
hd_status hd_regex_make(hd_dfa *out, const char *pattern, size_t bytes, const char *path,
                        hd_error *err);

HD_END_C
#endif
