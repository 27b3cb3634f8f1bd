#ifndef HD_TOKENIZER_VOCAB_H
#define HD_TOKENIZER_VOCAB_H

#include "base/memory.h"

HD_BEGIN_C

#define HD_MAX_VOCAB (1 << 24)

/* Ids to bytes; ids are 0 .. n - 1 without a hole. */
typedef struct hd_vocab {
    int32_t         n;
    const uint32_t *offset;     /* [n + 1] into bytes                          */
    const char     *bytes;      /* of all tokens, one after another            */
    const bool     *is_control; /* [n] an added token, written by its spelling */
} hd_vocab;

static inline const char *hd_vocab_token(const hd_vocab *v, int32_t id, size_t *bytes)
{
    *bytes = v->offset[id + 1] - v->offset[id];
    return v->bytes + v->offset[id];
}

/* The caller's array of ids: what does not fit is counted, not written. */
typedef struct hd_ids {
    int32_t *data; /* [cap] */
    int32_t  cap, n;
} hd_ids;

static inline void hd_ids_add(hd_ids *ids, int32_t id)
{
    if (ids->n < ids->cap) ids->data[ids->n] = id;
    ids->n++;
}

HD_END_C
#endif
