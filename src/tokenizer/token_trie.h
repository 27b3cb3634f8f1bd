#ifndef HD_TOKENIZER_TOKEN_TRIE_H
#define HD_TOKENIZER_TOKEN_TRIE_H

#include "tokenizer/vocab.h"

HD_BEGIN_C

/* Whether text [bytes] is whole characters from U+0020 on, without those that begin or end
 * something in JSON and in the markup of calls: quotes, backslashes, opening angle brackets. */
bool hd_token_is_plain(const char *text, size_t bytes);

/* The ordinary tokens as a tree of their bytes, in preorder: the nodes below node i are
 * i + 1 .. skip[i] - 1.  Node 0 is the root.  A walk over the array meets every token, and leaves
 * out all that begin alike by one jump. */
typedef struct hd_token_trie {
    hd_pool   pool; /* owns the tables */
    uint32_t  n;
    uint32_t  max_bytes;    /* of a token */
    uint32_t  max_brackets; /* most [ and { in one token */
    uint32_t *skip;         /* [n] */
    int32_t  *token;        /* [n] that ends here, -1: none; of two that spell the same the first */
    uint8_t  *byte;         /* [n] */
    bool     *is_plain;     /* [n] all tokens below are plain text */
    /* The tokens that are plain text: as a mask by id, and in the order of their characters, those
     * of at most k of them being the first plain_until[k]. */
    uint32_t *plain_mask;  /* [(n_vocab + 31) / 32]  */
    int32_t  *plain;       /* [plain_until[max_bytes]] */
    uint32_t *plain_until; /* [max_bytes + 1] */
} hd_token_trie;

/* owns     the caller closes *out, also after a failure
 * returns  HD_ERR_MEMORY */
hd_status hd_token_trie_make(hd_token_trie *out, const hd_vocab *v, hd_error *err);
void      hd_token_trie_close(hd_token_trie *t);

/* A trie that is made when it is first asked for; any thread. */
typedef struct hd_lazy_trie {
    bool          is_made;
    hd_token_trie trie;
} hd_lazy_trie;

/* *out is borrowed.  returns  HD_ERR_MEMORY; a later call tries again */
hd_status hd_lazy_trie_get(const hd_token_trie **out, hd_lazy_trie *lazy, const hd_vocab *v,
                           hd_error *err);

HD_END_C
#endif
