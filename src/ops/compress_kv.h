#ifndef HD_OPS_COMPRESS_KV_H
#define HD_OPS_COMPRESS_KV_H

#include "ops/op.h"

HD_BEGIN_C

/* compress_kv: keeps the tokens' projections in rings, and pools the last group of r tokens into
 * one row, per channel, where a token completes a group.
 *
 *   row pos[t] % cap of sequence seq[t]: of kv = x_kv[t], of gate = x_gate[t], for all tokens; then
 *   p = pos[t], only when (p + 1) % r == 0, else the row is 0
 *   a = softmax over the group's slots j of (gate_j + ape[j])      y[t,c] = sum_j a_j[c] kv_j[c]
 *   slots: tokens p-r+1 .. p through channels [0, d); ape row (position % r)
 *   with overlap: tokens p-2r+1 .. p-r through channels [0, d) and tokens p-r+1 .. p through
 *   channels [d, 2d), each with its own half of ape; in the first group only the latter
 *
 * kv_j and gate_j are the ring rows of position j.
 *
 * numerics  softmax and sum in f32 or wider, slots by rising position; one rounding at y
 * special   a ring row outside the slots may hold anything; rows that no token stores keep their
 *           bytes
 * limits    the tokens of a sequence stand next to each other, by rising position without gaps;
 *           cap >= r (2r with overlap), and so large that no token's row is also that of an earlier
 *           slot of another */
typedef struct hd_compress_kv_args {
    const float   *x_kv;   /* [t, w]          in          w = d, or 2d with overlap      */
    const float   *x_gate; /* [t, w]          in                                         */
    const float   *ape;    /* [r, w]          in                                         */
    const int32_t *pos;    /* [t]             in                                         */
    const int32_t *seq;    /* [t]             in                                         */
    float         *kv;     /* [n_seq, cap, w] in and out, described as bytes like all    */
    float         *gate;   /* [n_seq, cap, w] in and out  that a cache keeps             */
    float         *y;      /* [t, d]          out                                        */
    int32_t        t, d, r, n_seq, cap;
    bool           overlap;
} hd_compress_kv_args;

HD_END_C
#endif
