#ifndef HD_TOKENIZER_TOKENIZER_H
#define HD_TOKENIZER_TOKENIZER_H

#include "base/json.h"
#include "tokenizer/added.h"
#include "tokenizer/bpe.h"
#include "tokenizer/token_trie.h"

HD_BEGIN_C

#define HD_MAX_TOKENIZER_BYTES ((size_t)64 << 20) /* of a tokenizer.json */

/* Read-only once opened, so any number of threads may use it. */
struct hd_tokenizer {
    hd_pool       pool; /* owns every table below */
    hd_vocab      vocab;
    hd_bpe        bpe;
    hd_added      exact;      /* added tokens found first, in the text as it is           */
    hd_added      normalized; /* those flagged so, found in what the first leave over     */
    hd_lazy_trie *trie; /* owned by the pool: the one thing that may change, behind its lock */
};

/* Fails with HD_ERR_UNSUPPORTED, naming the rule, unless the file describes the normalizer,
 * splitting, model and decoder that this tokenizer implements. */
hd_status hd_tokenizer_check_rules(const json_object *file, hd_error *err);

/* Fills a zeroed tokenizer from the text of a tokenizer.json.
 * what     names the file in messages
 * owns     the caller closes *t, also after failure
 * returns  HD_ERR_FORMAT, HD_ERR_UNSUPPORTED, HD_ERR_MEMORY */
hd_status hd_tokenizer_load(hd_tokenizer *t, const char *json, size_t bytes, const char *what,
                            hd_error *err);
/* As hd_tokenizer_open, from memory. */
hd_status hd_tokenizer_open_text(hd_tokenizer **out, const char *json, size_t bytes,
                                 const char *what, hd_error *err);

/* The tree of ordinary tokens, borrowed from the tokenizer; made when it is first asked for.
 * returns  HD_ERR_MEMORY */
hd_status hd_tokenizer_trie(const hd_token_trie **out, const hd_tokenizer *t, hd_error *err);

typedef struct hd_text {
    const char *data;
    size_t      bytes;   /* at most INT32_MAX */
    size_t      base;    /* added to offsets in messages: where it starts in the caller's text */
    bool        control; /* as in hd_tokenizer_encode */
} hd_text;

/* Appends the ids of a text.  returns  HD_ERR_FORMAT when it is not UTF-8, HD_ERR_MEMORY */
hd_status hd_tokenizer_append(const hd_tokenizer *t, const hd_text *text, hd_bpe_scratch *scratch,
                              hd_ids *out, hd_error *err);
/* Checks the caller's array and the length of the text that is to fill it. */
hd_status hd_ids_start(hd_ids *ids, int32_t *data, int32_t cap, size_t text_bytes, hd_error *err);
/* Fails with HD_ERR_LIMIT when more ids were added than the caller's array holds. */
hd_status hd_ids_finish(const hd_ids *ids, int32_t *n, hd_error *err);

HD_END_C
#endif
