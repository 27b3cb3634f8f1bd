#ifndef HD_KV_CACHE_H
#define HD_KV_CACHE_H

#include "base/device.h"
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
    int32_t       cap;    /* rows of a sequence   */
    hd_device    *device; /* where data is, or NULL */
} hd_cache_pool;

typedef struct hd_layer_cache {
    int32_t       ratio; /* 0, 4 or 128 */
    hd_cache_pool win;
    hd_cache_pool rows, kv, gate;                   /* ratio > 0  */
    hd_cache_pool index_rows, index_kv, index_gate; /* ratio == 4 */
} hd_layer_cache;

typedef struct hd_cache_shape {
    int32_t    n_seq;      /* sequences at once                  */
    int32_t    max_tokens; /* longest sequence                   */
    int32_t    chunk;      /* most tokens of a sequence in a pass */
    int32_t    window, head_dim, rope_dim, index_dim;
    hd_kv      kv;     /* never HD_KV_DEFAULT */
    hd_device *device; /* NULL: the host */
} hd_cache_shape;

/* Whether rows of these dimensions can be kept in the format that the shape asks for.
 * returns  HD_ERR_UNSUPPORTED with the dimensions */
hd_status hd_cache_check(const hd_cache_shape *shape, hd_error *err);

/* Lays out one layer in `arena` (measuring when its base is NULL). */
void hd_cache_bind(hd_layer_cache *out, const hd_cache_shape *shape, int32_t ratio,
                   hd_arena *arena);

/* ---- the rows that make up a sequence's state ---- */

typedef enum hd_cache_part {
    HD_CACHE_RINGS, /* what the next tokens look back on: windows, open groups */
    HD_CACHE_ROWS   /* compressed rows, attention's and the indexer's          */
} hd_cache_part;

/* Rows first .. end-1 of a pool; in a ring, row q stands at q % cap. */
typedef struct hd_cache_range {
    const hd_cache_pool *pool;
    int32_t              first, end;
} hd_cache_range;
#define HD_CACHE_MAX_RANGES 5

/* The ranges that a sequence of n tokens needs of one layer, in a fixed order; returns how
 * many.  They are the same whatever the size of rings and pages. */
int32_t hd_cache_ranges(const hd_layer_cache *c, const hd_cache_shape *shape, hd_cache_part part,
                        int32_t n, hd_cache_range out[HD_CACHE_MAX_RANGES]);

/* Rows as a run of bytes, each row's data and then its scales. */
int64_t hd_cache_row_bytes(const hd_cache_pool *p);
int64_t hd_cache_range_bytes(const hd_cache_range *r);
/* A failure of the device leaves the target undefined and is returned. */
hd_status hd_cache_get(const hd_cache_range *r, int32_t seq, uint8_t *out, hd_error *err);
hd_status hd_cache_put(const hd_cache_range *r, int32_t seq, const uint8_t *in, hd_error *err);
hd_status hd_cache_copy(const hd_cache_range *r, int32_t to_seq, int32_t from_seq, hd_error *err);

/* Gives the memory of a sequence's compressed rows back, as far as the device does; its rings keep
 * theirs, which is bounded. */
void hd_cache_return(const hd_layer_cache *c, int32_t seq);

/* ---- what it costs ---- */

/* Bytes of one layer's pools, all sequences: of its rings, and of the rows that grow with the
 * context. */
int64_t hd_cache_bytes(const hd_layer_cache *c, const hd_cache_shape *shape, hd_cache_part part);
/* Bytes that HD_CACHE_EDGE more tokens of context cost in a layer of this ratio, rings apart. */
int64_t hd_cache_edge_bytes(const hd_cache_shape *shape, int32_t ratio);

HD_END_C
#endif
