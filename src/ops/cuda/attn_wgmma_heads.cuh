#ifndef HD_OPS_CUDA_ATTN_WGMMA_HEADS_CUH
#define HD_OPS_CUDA_ATTN_WGMMA_HEADS_CUH

#include "attn_wgmma_load.cuh"

/* What the two warpgroups of attn_sparse_wgmma.cu do that attend.  A thread has one head, of its
 * logits those of 16 keys, of its sums two columns in eight. */

#define HD_AW_LOGITS (HD_AW_KEYS / 4)   /* of a thread */
#define HD_AW_SUMS   (HD_KEY_WIDTH / 8) /* of a thread, of 128 columns */

/* How far logits, to the base of 2, and units of keys, as a factor, may outgrow what weights are
 * relative to: weights then are at most 2^(4 + 8) * 8, which f16 holds. */
#define HD_AW_TOP    4
#define HD_AW_GROWTH 8
#define HD_AW_UNITS  8.0f

/* All that a thread knows of its head.  Logits are to the base of 2. */
typedef struct hd_aw_state {
    float largest; /* about the largest logit so far: what weights are relative to */
    float unit;    /* about the largest unit of keys so far, likewise              */
    float q_unit;  /* of the query, with the scale of logits                       */
    float total;   /* of the thread's own weights                                  */
} hd_aw_state;

static __device__ __forceinline__ int32_t hd_aw_group(void) { return hd_thread() / 128; }

/* The thread's head, from the block's first on. */
static __device__ __forceinline__ int32_t hd_aw_head(void)
{
    return hd_thread() % 128 / 32 * 8 + hd_thread() % 32 / 4;
}

/* All threads that attend. */
static __device__ __forceinline__ void hd_aw_meet(void)
{
    asm volatile("bar.sync 1, %0;" ::"n"(HD_AW_ATTENDS) : "memory");
}

/* ---- queries ---- */

#define HD_AW_QUERIES (HD_AW_HEADS / (HD_AW_ATTENDS / 32)) /* of a warp */

/* Query i of the warp; of heads that do not exist the last one's. */
template <bool is_wide>
static __device__ __forceinline__ hd_key_bits<HD_ROW_F32>
hd_aw_load_query(const hd_attn_sparse_args *a, const hd_attn_task *k, int32_t i)
{
    int32_t const      h = min(k->h0 + hd_thread() / 32 * HD_AW_QUERIES + i, a->h - 1);
    const float *const x = a->q + (k->t * a->h + h) * HD_KEY_WIDTH;
    return hd_load_row((const uint8_t *)x, HD_KEY_LINE, is_wide);
}

static __device__ __forceinline__ void hd_aw_store_query(const hd_attn_job             *j,
                                                         const hd_key_bits<HD_ROW_F32> &bits,
                                                         hd_aw_shared *s, int32_t i)
{
    int32_t const lane = hd_thread() % 32, head = hd_thread() / 32 * HD_AW_QUERIES + i;
    int32_t const line = head / 8 * 16 + head % 8;
    int32_t const unit = hd_unit_of_key<HD_ROW_F32>(&j->win, bits, lane);
#pragma unroll
    for (int u = 0; u < 2; u++) {
        uint4 high, low;
        hd_split_eight(bits.v[2 * u], bits.v[2 * u + 1], hd_pow2(-unit), &high, &low);
        *(uint4 *)(s->q + hd_aw_at(line, lane + 32 * u)) = high;
        *(uint4 *)(s->q + hd_aw_at(line + 8, lane + 32 * u)) = low;
    }
    if (lane == 0) s->q_unit[head] = j->a.scale * 1.44269504f * hd_pow2(unit);
}

/* The queries of a token, where nobody reads others any more. */
static __device__ __forceinline__ void
hd_aw_store_queries(const hd_attn_job *j, const hd_key_bits<HD_ROW_F32> bits[HD_AW_QUERIES],
                    hd_aw_shared *s)
{
#pragma unroll
    for (int i = 0; i < HD_AW_QUERIES; i++) hd_aw_store_query(j, bits[i], s, i);
    hd_wgmma_publish();
    hd_aw_meet();
}

/* ---- logits ---- */

/* Starts the products of the warpgroup's half of the columns. */
static __device__ __forceinline__ void hd_aw_multiply(const hd_aw_shared *s, int32_t slot,
                                                      float (&c)[HD_AW_KEYS / 2])
{
    int32_t const  half = hd_aw_group() * (HD_AW_TILE / 2);
    uint64_t const q = hd_wgmma_operand(s->q + half), keys = hd_wgmma_operand(s->keys[slot] + half);
    hd_wgmma_fence();
#pragma unroll
    for (int i = 0; i < HD_KEY_WIDTH / 2 / 16; i++) {
        uint32_t const at = (uint32_t)(i / 4 * (HD_AW_CHUNK >> 4) + i % 4 * 2);
        hd_wgmma_64_shared(c, q + at, keys + at, i > 0);
    }
    hd_wgmma_commit();
}

/* Adds both planes and both halves of the columns: elements 2 g, 2 g + 1 are of keys
 * 8 g + 2 (lane % 4) and the next. */
static __device__ __forceinline__ void
hd_aw_join(hd_aw_shared *s, int32_t turn, const float (&c)[HD_AW_KEYS / 2], float z[HD_AW_LOGITS])
{
    int32_t const group = hd_aw_group(), thread = hd_thread() % 128;
#pragma unroll
    for (int i = 0; i < HD_AW_LOGITS; i++) z[i] = c[i / 2 * 4 + i % 2] + c[i / 2 * 4 + i % 2 + 2];
#pragma unroll
    for (int i = 0; i < HD_AW_LOGITS / 4; i++)
        s->part[turn][group][i][thread] = {z[4 * i], z[4 * i + 1], z[4 * i + 2], z[4 * i + 3]};
    hd_aw_meet();
#pragma unroll
    for (int i = 0; i < HD_AW_LOGITS / 4; i++) {
        float4 const other = s->part[turn][group ^ 1][i][thread];
        z[4 * i] += other.x;
        z[4 * i + 1] += other.y;
        z[4 * i + 2] += other.z;
        z[4 * i + 3] += other.w;
    }
}

/* ---- weights ---- */

/* Of the four threads of a head. */
static __device__ __forceinline__ float hd_aw_max(float x)
{
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

static __device__ __forceinline__ float hd_aw_exp2(float x)
{
    float out;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
    return out;
}

/* Of a power of two. */
static __device__ __forceinline__ float hd_aw_inverse(float x)
{
    return __uint_as_float(0x7f000000u - __float_as_uint(x));
}

/* Makes room where a tile's logits or units outgrow what weights are relative to: for all heads of
 * the warp.  What sums so far are multiplied by. */
static __device__ __forceinline__ float hd_aw_grow(float largest, float unit, hd_aw_state &state)
{
    bool const outgrows = largest > state.largest + HD_AW_GROWTH || unit > state.unit * HD_AW_UNITS;
    if (!__any_sync(0xffffffffu, outgrows)) return 1;
    float const now = fmaxf(largest, state.largest), now_unit = fmaxf(unit, state.unit);
    float const shrink = hd_aw_exp2(state.largest - now),
                less = state.unit * hd_aw_inverse(now_unit);
    state = {now, now_unit, state.q_unit, state.total * shrink};
    return shrink * less;
}

/* What the keys of the thread's logits are: unit and 0 or -infinity of two at a time. */
static __device__ __forceinline__ void hd_aw_load_units(const hd_aw_shared *s, int32_t slot,
                                                        float4 key[HD_AW_LOGITS / 2])
{
#pragma unroll
    for (int i = 0; i < HD_AW_LOGITS / 2; i++)
        key[i] = *(const float4 *)&s->key[slot][i * 8 + hd_thread() % 4 * 2];
}

/* The largest unit of a tile; below 2^-112 that. */
static __device__ __forceinline__ float hd_aw_largest_unit(const hd_aw_shared *s, int32_t slot)
{
    float4 const k = *(const float4 *)&s->key[slot][hd_thread() % 32 * 2];
    float const  most = fmaxf(fmaxf(k.x, k.z), 0x1p-112f);
    return __uint_as_float(__reduce_max_sync(0xffffffffu, __float_as_uint(most)));
}

/* Turns logits into weights as operand A, high and low; what sums so far are multiplied by.
 * most  the largest unit of the keys */
static __device__ __forceinline__ float hd_aw_weigh(const float4 key[HD_AW_LOGITS / 2], float most,
                                                    float z[HD_AW_LOGITS], hd_aw_state &state,
                                                    uint32_t a[HD_AW_KEYS / 16][4])
{
    float largest = -INFINITY;
#pragma unroll
    for (int i = 0; i < HD_AW_LOGITS; i += 2) {
        float4 const k = key[i / 2];
        z[i] = fmaf(z[i], k.x, k.y);
        z[i + 1] = fmaf(z[i + 1], k.z, k.w);
        largest = fmaxf(largest, fmaxf(z[i], z[i + 1]));
    }
    float const shrink = hd_aw_grow(hd_aw_max(largest) * state.q_unit, most, state);
    float const factor = (float)(1 << HD_AW_TOP) * hd_aw_inverse(state.unit);
    float       total = 0;
#pragma unroll
    for (int i = 0; i < HD_AW_LOGITS; i++) {
        float const e = hd_aw_exp2(fmaf(z[i], state.q_unit, -state.largest));
        total += e;
        z[i] = e * ((i % 2 ? key[i / 2].z : key[i / 2].x) * factor);
    }
    state.total += total;
#pragma unroll
    for (int i = 0; i < HD_AW_LOGITS; i += 2)
        hd_split_pair(z[i], z[i + 1], &a[i / 4][i % 4], &a[i / 4][i % 4 + 1]);
    return shrink;
}

/* ---- sums ---- */

/* Starts adding a tile to the warpgroup's half of the columns. */
static __device__ __forceinline__ void hd_aw_add(const hd_aw_shared *s, int32_t slot,
                                                 const uint32_t a[HD_AW_KEYS / 16][4],
                                                 float (&sum)[2][HD_AW_SUMS])
{
    uint64_t const keys =
        hd_wgmma_lines(s->keys[slot] + hd_aw_group() * (HD_AW_TILE / 2), HD_AW_CHUNK);
    hd_wgmma_fence();
#pragma unroll
    for (int i = 0; i < HD_AW_KEYS / 16; i++) {
        hd_wgmma_128_lines(sum[0], a[i], keys + i * 128);
        hd_wgmma_128_lines(sum[1], a[i], keys + 2 * (HD_AW_CHUNK >> 4) + i * 128);
    }
    hd_wgmma_commit();
}

/* The warp no longer reads a slot, in neither block. */
static __device__ __forceinline__ void hd_aw_leave(hd_aw_shared *s, int32_t slot, uint32_t peer)
{
    __syncwarp();
    if (hd_thread() % 32) return;
    hd_barrier_arrive(&s->empty[slot]);
    hd_barrier_arrive_at(hd_shared_address(&s->empty[slot]) + peer);
}

static __device__ __forceinline__ void hd_aw_shrink(float shrink, float (&sum)[2][HD_AW_SUMS])
{
    if (!__any_sync(0xffffffffu, shrink != 1)) return;
#pragma unroll
    for (int i = 0; i < 2 * HD_AW_SUMS; i++) sum[i / HD_AW_SUMS][i % HD_AW_SUMS] *= shrink;
}

/* All tiles of a token. */
static __device__ __forceinline__ void hd_aw_attend(hd_aw_shared *s, int32_t tiles,
                                                    hd_aw_turn *turn, hd_aw_state &state,
                                                    float (&sum)[2][HD_AW_SUMS])
{
    uint32_t a[HD_AW_KEYS / 16][4];
    float    c[HD_AW_KEYS / 2], z[HD_AW_LOGITS];
    float4   key[HD_AW_LOGITS / 2];
    for (int32_t i = 0; i < tiles; i++, turn->made++) {
        int32_t const slot = turn->made % HD_AW_SLOTS;
        hd_barrier_wait(&s->full[slot], (uint32_t)(turn->made / HD_AW_SLOTS) % 2);
        hd_aw_multiply(s, slot, c);
        float const most = hd_aw_largest_unit(s, slot);
        hd_wgmma_wait(c);
        hd_aw_load_units(s, slot, key);
        hd_aw_join(s, turn->made % 2, c, z);
        hd_aw_shrink(hd_aw_weigh(key, most, z, state, a), sum);
        hd_aw_add(s, slot, a, sum);
        hd_wgmma_wait(sum[0]);
        hd_wgmma_wait(sum[1]);
        hd_aw_leave(s, slot, turn->peer);
    }
}

/* 1 / x, off by a rounding or two. */
static __device__ __forceinline__ float hd_aw_reciprocal(float x)
{
    float const r = __fdividef(1, x);
    return fmaf(r, fmaf(-x, r, 1), r);
}

/* What the sums of the thread's head are multiplied by at the end. */
static __device__ __forceinline__ float hd_aw_finish(const hd_aw_state &state, float sink)
{
    float total = state.total + __shfl_xor_sync(0xffffffffu, state.total, 1);
    total += __shfl_xor_sync(0xffffffffu, total, 2);
    total += hd_aw_exp2(sink - state.largest);
    return state.unit * (1.0f / (1 << HD_AW_TOP)) * hd_aw_reciprocal(total);
}

/* Writes 128 columns of the block's n-th token, turned back.
 * part  0 or 1, of the warpgroup's
 * y     of the thread's head, NULL if it does not exist */
static __device__ __forceinline__ void hd_aw_write(const hd_attn_sparse_args *a, int32_t part,
                                                   const float2 *turn, float              factor,
                                                   const float (&sum)[HD_AW_SUMS], float *y)
{
    int32_t const column0 = (hd_aw_group() * 2 + part) * 128 + hd_thread() % 4 * 2;
    bool const    is_wide = ((uintptr_t)a->y & 7) == 0;
    if (!y) return;
#pragma unroll
    for (int i = 0; i < HD_AW_SUMS; i += 4) {
        int32_t const c = column0 + i * 2, tail = c - (HD_KEY_WIDTH - a->dr);
        float2        v = {(sum[i] + sum[i + 2]) * factor, (sum[i + 1] + sum[i + 3]) * factor};
        if (tail >= 0) v = hd_turned(v.x, v.y, {turn[tail / 2].x, turn[tail / 2].y});
        if (is_wide) {
            *(float2 *)(y + c) = v;
        } else {
            y[c] = v.x;
            y[c + 1] = v.y;
        }
    }
}

/* ---- all tokens of a block ---- */

/* A token whose queries are there. */
static __device__ __forceinline__ void hd_aw_attend_token(const hd_attn_sparse_args *a,
                                                          const hd_attn_task *k, hd_aw_shared *s,
                                                          hd_aw_turn *turn)
{
    int32_t const h = k->h0 + hd_aw_head(), tiles = (k->end + HD_AW_KEYS - 1) / HD_AW_KEYS;
    float *const  y = h < a->h ? a->y + (k->t * a->h + h) * HD_KEY_WIDTH : NULL;
    float const   sink = y ? a->sink[h] * 1.44269504f : 0;
    hd_aw_state   state = {sink, 0, s->q_unit[hd_aw_head()], 0};
    float         sum[2][HD_AW_SUMS] = {};
    hd_aw_attend(s, tiles, turn, state, sum);
    float const factor = hd_aw_finish(state, sink);
    hd_aw_write(a, 0, s->turn[turn->n % HD_AW_TOKENS], factor, sum[0], y);
    hd_aw_write(a, 1, s->turn[turn->n % HD_AW_TOKENS], factor, sum[1], y);
}

template <bool is_wide>
static __device__ __forceinline__ void hd_aw_attend_all(const hd_attn_job *j, hd_aw_shared *s)
{
    const hd_attn_sparse_args *const a = &j->a;
    int32_t const                    items = hd_aw_items(a), clusters = hd_aw_clusters(a->h);
    int32_t    item = (int32_t)blockIdx.x / HD_AW_PEERS, p = a->pos[item / clusters];
    hd_aw_turn turn = {hd_aw_peer(s), 0, 0};
    for (; item < items; item += hd_aw_step(), turn.n++) {
        hd_attn_task const      k = hd_aw_task_of(a, item, p, 0);
        hd_key_bits<HD_ROW_F32> bits[HD_AW_QUERIES];
#pragma unroll
        for (int i = 0; i < HD_AW_QUERIES; i++) bits[i] = hd_aw_load_query<is_wide>(a, &k, i);
        hd_aw_store_queries(j, bits, s);
        if (item + hd_aw_step() < items) p = a->pos[(item + hd_aw_step()) / clusters];
        hd_aw_attend_token(a, &k, s, &turn);
    }
}

#endif
