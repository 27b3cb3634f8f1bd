#ifndef HD_OPS_COMPRESS_KV_H
#define HD_OPS_COMPRESS_KV_H

#include "ops/op.h"

HD_BEGIN_C

/* compress_kv: pools the last group of r tokens into one row, per channel, where a token
 * completes a group.
 *
 *   p = pos[t], only when (p + 1) % r == 0, else the row is 0
 *   a = softmax over the group's slots j of (gate_j + ape[j])      y[t,c] = sum_j a_j[c] kv_j[c]
 *   slots: tokens p-r+1 .. p through channels [0, d); ape row (position % r)
 *   with overlap: tokens p-2r+1 .. p-r through channels [0, d) and tokens p-r+1 .. p through
 *   channels [d, 2d), each with its own half of ape; in the first group only the latter
 *
 * kv and gate are rings of the tokens' projections, position q at row q % cap.
 *
 * numerics  softmax and sum in f32 or wider, slots by rising position; one rounding at y
 * special   a ring row outside the slots may hold anything
 * limits    cap >= r (2r with overlap) */
typedef struct hd_compress_kv_args {
    const float   *kv;   /* [n_seq, cap, w] in   w = d, or 2d with overlap */
    const float   *gate; /* [n_seq, cap, w] in                             */
    const float   *ape;  /* [r, w]          in                             */
    const int32_t *pos;  /* [t]             in                             */
    const int32_t *seq;  /* [t]             in                             */
    float         *y;    /* [t, d]          out                            */
    int32_t        t, d, r, n_seq, cap;
    bool           overlap;
} hd_compress_kv_args;

HD_END_C
#endif
