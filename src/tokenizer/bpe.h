#ifndef HD_TOKENIZER_BPE_H
#define HD_TOKENIZER_BPE_H

#include "tokenizer/vocab.h"

/* Byte pair merging of one piece.  A piece starts as its bytes; of all neighbours that a rule
 * joins, those of the lowest rank are joined first, the leftmost of equals. */

HD_BEGIN_C

typedef struct hd_merge {
    int32_t  left, right; /* ids that stand side by side         */
    int32_t  made;        /* the id that replaces them           */
    uint32_t rank;        /* lower goes first; unique            */
} hd_merge;

/* A token that is the whole answer for a piece that spells it. */
typedef struct hd_whole {
    uint32_t hash;
    int32_t  id; /* -1: empty slot */
} hd_whole;

#define HD_NO_MERGE UINT32_MAX

typedef struct hd_bpe {
    const hd_vocab *vocab;        /* borrowed */
    int32_t         byte_id[256]; /* the token of each byte alone */
    const hd_merge *merges;       /* [n] sorted by left, then right */
    const int32_t  *right;        /* [n] the right ids of `merges`, close together */
    const uint32_t *row;          /* [vocab->n + 1] the first merge with that left id */
    const uint32_t *byte_pair;    /* [256 * 256] place in `merges` of two bytes, or HD_NO_MERGE */
    hd_whole       *whole;        /* [whole_mask + 1] hash table */
    uint32_t        whole_mask;   /* a power of two, less one */
    size_t          whole_bytes;  /* length of the longest token in it */
} hd_bpe;

/* Memory for pieces beyond the stack's; grows, so one serves all pieces of a text.
 * Zero-initialise before use. */
typedef struct hd_bpe_scratch {
    void  *data; /* owned */
    size_t bytes;
} hd_bpe_scratch;

/* Takes the merges [n], which it sorts in place, once `vocab` and `byte_id` are set.  Both
 * must live as long as *b.
 * owns     tables belong to `pool`
 * returns  HD_ERR_FORMAT when two merges join the same pair; HD_ERR_MEMORY */
hd_status hd_bpe_build(hd_bpe *b, hd_merge *merges, size_t n, hd_pool *pool, hd_error *err);

/* Appends the ids of piece [bytes] to *out; 1 <= bytes <= INT32_MAX.
 * returns  HD_ERR_MEMORY when *scratch cannot grow */
hd_status hd_bpe_encode(const hd_bpe *b, hd_bpe_scratch *scratch, const char *piece, size_t bytes,
                        hd_ids *out, hd_error *err);
void      hd_bpe_scratch_free(hd_bpe_scratch *s);

HD_END_C
#endif
