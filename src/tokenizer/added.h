#ifndef HD_TOKENIZER_ADDED_H
#define HD_TOKENIZER_ADDED_H

#include "tokenizer/vocab.h"

/* Finds added tokens by their spelling: the leftmost one, of those the longest. */

HD_BEGIN_C

typedef struct hd_added {
    const hd_vocab *vocab; /* borrowed */
    const int32_t  *ids;   /* [n] sorted by spelling */
    int32_t         n;
    bool            starts[256]; /* some spelling starts with this byte */
} hd_added;

/* Takes ids [n], which it sorts in place.  Spellings are not empty. */
void hd_added_build(hd_added *a, const hd_vocab *vocab, int32_t *ids, int32_t n);

/* The first added token in text [start, end): its id, and its place in *found; -1 for none. */
int32_t hd_added_find(const hd_added *a, const char *text, size_t start, size_t end,
                      hd_span *found);
/* The id of the added token spelled exactly so; -1 for none. */
int32_t hd_added_id(const hd_added *a, const char *text, size_t bytes);

HD_END_C
#endif
