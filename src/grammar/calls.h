#ifndef HD_GRAMMAR_CALLS_H
#define HD_GRAMMAR_CALLS_H

#include "grammar/compiler.h"

HD_BEGIN_C

typedef struct hd_calls_options {
    const char *function;  /* the one to call; NULL: any */
    bool        is_single; /* one call, not several      */
} hd_calls_options;

/* Rules of a block of calls, by where the answer stands. */
typedef struct hd_calls_rules {
    uint32_t in_text;    /* in front of the newlines that the block begins with */
    uint32_t in_tag;     /* behind "<" and the marker of its opening tag        */
    uint32_t behind_tag; /* behind the opening tag and its newline              */
} hd_calls_rules;

/* Writes the rules for calls of `tools`, the list of a Chat Completions request.
 * returns  HD_ERR_FORMAT with the path; HD_ERR_UNSUPPORTED for a name that a tag cannot hold */
hd_status hd_calls_write(hd_compiler *c, const json_object *tools, const hd_calls_options *opt,
                         hd_calls_rules *out);

HD_END_C
#endif
