#ifndef HD_BASE_JSON_SCAN_H
#define HD_BASE_JSON_SCAN_H

#include "base/json.h"

/* The check that every JSON text goes through, one piece after the other.  base/json.h builds
 * trees behind it; files of very many small values are read from the pieces themselves. */

HD_BEGIN_C

typedef enum hd_json_kind {
    HD_JSON_NAME,   /* of a member, with its quotes               */
    HD_JSON_TEXT,   /* a string, with its quotes                  */
    HD_JSON_NUMBER, /* as it is spelled                           */
    HD_JSON_WORD,   /* true, false, null, and NaN with its like   */
    HD_JSON_OBJECT, /* the opening brace                          */
    HD_JSON_LIST,   /* the opening bracket                        */
    HD_JSON_CLOSE,  /* the brace or bracket that closes the last  */
    HD_JSON_END     /* the value and the text are over            */
} hd_json_kind;

/* Bytes [at, at + bytes) of the text. */
typedef struct hd_json_span {
    size_t at, bytes;
} hd_json_span;

typedef struct hd_json_piece {
    hd_json_kind kind;
    hd_json_span span;
    bool         has_escape; /* NAME, TEXT: between the quotes stands more than the string itself */
} hd_json_piece;

typedef enum hd_json_want {
    HD_JSON_WANT_VALUE,
    HD_JSON_WANT_VALUE_OR_END,
    HD_JSON_WANT_NAME,
    HD_JSON_WANT_NAME_OR_END,
    HD_JSON_WANT_COLON,
    HD_JSON_WANT_COMMA_OR_END,
    HD_JSON_WANT_NOTHING
} hd_json_want;

/* Set the first four (flags: hd_json_flags) and `err`, zero the rest; hd_json_scan_close at the
 * end. */
typedef struct hd_json_scan {
    const char  *text;
    size_t       bytes;
    unsigned     flags;
    const char  *what;
    hd_error    *err;
    bool         is_check; /* nothing is built, so nothing that json-c lacks matters */
    size_t       at;
    hd_json_want want;
    int          depth, deepest;
    bool         has_escape;               /* of the string read last */
    char         open[HD_JSON_MAX_DEPTH];  /* '[' or '{' of each open level */
    json_object *names[HD_JSON_MAX_DEPTH]; /* owned; names seen so far, for HD_JSON_UNIQUE */
    hd_buffer    copy;                     /* text [0, copied), with replacements */
    size_t       copied;
} hd_json_scan;

/* The next piece.  returns  HD_ERR_FORMAT as hd_json_parse does, HD_ERR_MEMORY */
hd_status hd_json_scan_next(hd_json_scan *s, hd_json_piece *out);
/* From the first piece of a value, which was just read, to behind its last. */
hd_status hd_json_scan_rest(hd_json_scan *s, const hd_json_piece *first, hd_json_span *value);
void      hd_json_scan_close(hd_json_scan *s);

HD_END_C
#endif
