#ifndef HD_KV_CACHE_H
#define HD_KV_CACHE_H

#include "base/memory.h"

/* The state of sequences between passes, layer by layer; the only place that knows what a
 * token costs.
 *
 *   win      ring of the last tokens' KV rows: attention's window
 *   rows     compressed KV rows, one for each whole group of `ratio` tokens
 *   kv, gate rings of the compressor's projections: the group that is still open, and with
 *            overlap the one before
 *   index_*  the same three for the indexer's own compressor (ratio 4)
 *
 * A ring is one pass longer than what later tokens look back on, so a pass may write all its
 * rows first and each token still finds its own past.  Every pool is [n_seq, cap, width] f32. */

HD_BEGIN_C

typedef struct hd_cache_pool {
    float  *data; /* owned by the arena given to hd_cache_bind; NULL while measuring */
    int32_t cap, width;
} hd_cache_pool;

typedef struct hd_layer_cache {
    int32_t       ratio; /* 0, 4 or 128 */
    hd_cache_pool win;
    hd_cache_pool rows, kv, gate;                   /* ratio > 0  */
    hd_cache_pool index_rows, index_kv, index_gate; /* ratio == 4 */
} hd_layer_cache;

typedef struct hd_cache_shape {
    int32_t n_seq;      /* sequences at once                  */
    int32_t max_tokens; /* longest sequence                   */
    int32_t chunk;      /* most tokens of a sequence in a pass */
    int32_t window, head_dim, index_dim;
} hd_cache_shape;

/* Lays out one layer in `arena` (measuring when its base is NULL). */
void hd_cache_bind(hd_layer_cache *out, const hd_cache_shape *shape, int32_t ratio,
                   hd_arena *arena);

/* Bytes that one more token of context costs in a layer of this ratio, rings apart. */
int64_t hd_cache_token_bytes(const hd_cache_shape *shape, int32_t ratio);

HD_END_C
#endif
