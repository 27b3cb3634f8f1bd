#ifndef HD_KV_CACHE_H
#define HD_KV_CACHE_H

#include "base/memory.h"
#include "kv/row.h"

/* The state of sequences between passes, layer by layer; the only place that knows what a
 * token costs.
 *
 *   win      ring of the last tokens' KV rows: attention's window
 *   rows     compressed KV rows, one for each whole group of `ratio` tokens
 *   kv, gate rings of the compressor's projections: the group that is still open, and with
 *            overlap the one before; always f32
 *   index_*  the same three for the indexer's own compressor (ratio 4)
 *
 * A ring is one pass longer than what later tokens look back on, so a pass may write all its
 * rows first and each token still finds its own past.
 *
 * Pages are sized so that a page edge of one pool is one of all: every HD_CACHE_EDGE tokens,
 * where no group of any compressor is open. */

HD_BEGIN_C

#define HD_CACHE_EDGE 256

typedef struct hd_cache_pool {
    uint8_t *data; /* [n_seq, pages, page_bytes], owned by the arena given to hd_cache_bind;
                      NULL while measuring */
    hd_row_layout layout;
    int32_t       cap; /* rows of a sequence */
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
    int32_t window, head_dim, rope_dim, index_dim;
    hd_kv   kv; /* never HD_KV_DEFAULT */
} hd_cache_shape;

/* Whether rows of these dimensions can be kept in the format that the shape asks for.
 * returns  HD_ERR_UNSUPPORTED with the dimensions */
hd_status hd_cache_check(const hd_cache_shape *shape, hd_error *err);

/* Lays out one layer in `arena` (measuring when its base is NULL). */
void hd_cache_bind(hd_layer_cache *out, const hd_cache_shape *shape, int32_t ratio,
                   hd_arena *arena);

/* Bytes that HD_CACHE_EDGE more tokens of context cost in a layer of this ratio, rings apart. */
int64_t hd_cache_edge_bytes(const hd_cache_shape *shape, int32_t ratio);

HD_END_C
#endif
