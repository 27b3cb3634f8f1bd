#ifndef HD_OPS_CACHE_WRITE_H
#define HD_OPS_CACHE_WRITE_H

#include "kv/row.h"
#include "ops/op.h"

HD_BEGIN_C

/* cache_write: stores rows in the cache pool of their sequence.
 *
 *   when (pos[t] + 1) % group == 0:   row (pos[t] / group) % cap of sequence seq[t] = x[t]
 *
 * With group 1 every token writes its row; with group r only the token that completes a group
 * of r.  A ring is a pool part whose cap is smaller than the sequence.
 *
 * layout    kv/row.h; a sequence has pages = ceil(cap / layout.page) pages
 * numerics  exact: the bytes of hd_row_write
 * special   rows that no token writes keep their bytes, and so does the padding of pages; NaN
 *           and infinity as kv/row.h says
 * limits    layout valid, layout.d == d, pool 4-byte aligned; 0 <= seq[t] < n_seq,
 *           0 <= pos[t]; no two tokens of a call write one row */
typedef struct hd_cache_write_args {
    const float   *x;    /* [t, d]                     in         */
    const int32_t *pos;  /* [t]                        in         */
    const int32_t *seq;  /* [t]                        in         */
    uint8_t       *pool; /* [n_seq, pages, page_bytes] in and out */
    int32_t        t, d, n_seq, cap, group;
    hd_row_layout  layout;
} hd_cache_write_args;

HD_END_C
#endif
