#ifndef HD_GRAMMAR_GRAMMAR_H
#define HD_GRAMMAR_GRAMMAR_H

#include "grammar/calls.h"
#include "grammar/view.h"
#include "hadal_serve.h"

HD_BEGIN_C

struct hd_grammar {
    const hd_tokenizer *t; /* borrowed */
    hd_grammar_kind     kind;
    bool                is_optional;
    hd_automaton        a;
    hd_views            views;
    uint32_t            whole;             /* rule of what the content is */
    hd_calls_rules      calls;             /* of TOOL_CALLS */
    int32_t             marker, think_end; /* control tokens; -1: there is none */
};

/* Where an answer stands. */
typedef enum hd_phase {
    HD_PHASE_REASONING, /* free up to </think>                             */
    HD_PHASE_TEXT,      /* free; the marker behind "<" begins a block      */
    HD_PHASE_GRAMMAR    /* the run says what may come                      */
} hd_phase;

struct hd_matcher {
    const hd_grammar *g; /* borrowed */
    hd_phase          phase;
    bool              is_bracket; /* the text so far ends with "<" */
    hd_run            run;
    hd_run_mark       mark; /* of the run, not closed */
    hd_walk           walk;
};

HD_END_C
#endif
