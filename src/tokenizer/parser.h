#ifndef HD_TOKENIZER_PARSER_H
#define HD_TOKENIZER_PARSER_H

#include "base/json.h"

/* The output parser in layers, each of which holds back what it cannot decide yet:
 *
 *   parser.c        bytes to symbols: UTF-8 made whole, control tokens recognised
 *   parser_text.c   reasoning and content: markers, newlines that may belong to a block
 *   parser_block.c  DSML blocks: wrappers, invokes, parameters
 *   parser_emit.c   stop strings, and runs of text joined into events
 *
 * Between the layers a symbol is a byte of valid UTF-8, or one of the values below, which
 * UTF-8 never has. */

HD_BEGIN_C

enum { HD_SYMBOL_EOS = 0xF8, HD_SYMBOL_THINK, HD_SYMBOL_THINK_END, HD_SYMBOL_DSML, HD_SYMBOL_END };
#define HD_SYMBOL_MAX_BYTES 32 /* of a spelling */

typedef enum hd_parser_state {
    HD_IN_TEXT,
    HD_IN_UNPARSED, /* behind a malformed invoke: all is handed out raw */
    HD_AFTER_BLOCK, /* behind a closed block: white space               */
    HD_BETWEEN_CALLS,
    HD_BETWEEN_PARAMETERS,
    HD_IN_TAG,       /* <｜DSML｜...      */
    HD_IN_CLOSE_TAG, /* </｜DSML｜... of a wrapper */
    HD_IN_INVOKE_ATTRIBUTE,
    HD_IN_INVOKE_NAME,
    HD_IN_INVOKE_CLOSE,
    HD_IN_PARAMETER_ATTRIBUTE,
    HD_IN_PARAMETER_NAME,
    HD_IN_PARAMETER_VALUE,
    HD_IN_PARAMETER_CLOSE
} hd_parser_state;

typedef struct hd_stop_string {
    char   *text;   /* [bytes] owned by the pool                                     */
    size_t *border; /* [bytes] owned by the pool: length of the longest border (KMP) */
    size_t  bytes;
    size_t  matched; /* bytes of it that the content ends with                        */
} hd_stop_string;

struct hd_parser {
    hd_pool      pool;
    hd_parse_fn *on_event;
    void        *user;
    bool         has_tools;

    /* parser.c */
    char           spelling[HD_SYMBOL_MAX_BYTES]; /* what may become a control token */
    size_t         n_spelling;
    hd_utf8_stream utf8;
    bool           has_eos, is_stopped, is_finished;
    bool           is_short_of_memory;

    /* parser_text.c */
    hd_parser_state state;
    bool            is_reasoning;
    bool            has_late_end;   /* </think> came behind a complete block (parser_block.c)  */
    bool            ignores_blocks; /* a malformed one came: the reasoning is text to its end */
    int32_t         n_newlines;     /* held: 0..2 newlines                                    */
    int32_t         n_bracket;      /* held behind them: 1 "<", 2 "</"                        */

    /* parser_block.c */
    hd_buffer    raw;         /* symbols of the block that are not given out yet         */
    size_t       space_start; /* in raw: white space behind the last tag                 */
    int32_t      n_wrappers;  /* open ones                                               */
    bool         is_open;     /* a block has begun and its closing wrapper has not come  */
    bool         has_opener;  /* tags stand in raw that no complete invoke has followed  */
    bool         has_call;    /* raw holds a complete invoke (reasoning only)            */
    bool         in_invoke;
    bool         has_space;  /* a tag name was preceded by its one space */
    size_t       literal_at; /* bytes of a fixed text that were met      */
    hd_buffer    word;       /* name or value being read                 */
    hd_buffer    name;       /* of the invoke                            */
    hd_buffer    arguments;  /* its JSON so far                          */
    json_object *parameters; /* owned; set of their names, JSON-encoded  */
    bool         is_text;    /* string="true"                            */
    int32_t      n_calls;

    /* parser_emit.c */
    hd_buffer       out; /* text of the next event */
    hd_parse_kind   out_kind;
    hd_buffer       tail;  /* content that a stop string may begin in */
    hd_stop_string *stops; /* [n_stops] owned by the pool */
    int32_t         n_stops;
};

/* Which stop string ended the answer; -1: none did. */
int32_t hd_parser_stop_index(const hd_parser *p);

/* The spelling of a control symbol. */
const char *hd_parser_spell(unsigned char symbol);
bool        hd_parser_is_space(unsigned char symbol);

/* Each takes one symbol in the state that its name says. */
void hd_parser_step(hd_parser *p, unsigned char symbol);
void hd_parser_step_text(hd_parser *p, unsigned char symbol);
void hd_parser_step_block(hd_parser *p, unsigned char symbol);

/* A "<" or "</" with the marker behind it begins a block, or closes the open one. */
void hd_parser_begin_block(hd_parser *p);
void hd_parser_begin_close(hd_parser *p);
/* Gives the block's symbols out as text of the reasoning or as unparsed, and ends it. */
void hd_parser_fail_block(hd_parser *p);
/* The same at </think>: what was held is reasoning, and content begins. */
void hd_parser_end_reasoning(hd_parser *p);
/* </think> in reasoning, and white space behind it while it may be late. */
void hd_parser_step_think_end(hd_parser *p, unsigned char symbol);
/* The end of the output: decides about everything held.  `rest` [bytes] is the beginning of
 * a marker that never came. */
void hd_parser_end_block(hd_parser *p, const char *rest, size_t bytes);
/* Gives out what the text state holds. */
void hd_parser_release_held(hd_parser *p);

/* Adds symbols to the event under way, spelling control symbols; reasoning and content drop
 * think markers.  An event is only given out by flush, so pieces do not become events. */
void hd_parser_write(hd_parser *p, hd_parse_kind kind, const char *symbols, size_t n);
void hd_parser_write_text(hd_parser *p, const char *symbols, size_t n); /* of the channel */
void hd_parser_emit_call(hd_parser *p);
void hd_parser_flush(hd_parser *p);
/* Also what a stop string was expected in: nothing can complete it any more. */
void      hd_parser_flush_tail(hd_parser *p);
hd_status hd_parser_copy_stops(hd_parser *p, const hd_parser_options *opt, hd_error *err);

HD_END_C
#endif
