#ifndef HD_OPS_CUDA_ATTN_TILE_SM90_CUH
#define HD_OPS_CUDA_ATTN_TILE_SM90_CUH

#include "attn_keys.cuh"
#include "launch.cuh"

/* The three steps of a tile of keys in attn_sparse_sm90.cu: logits, weights, sums. */

#define HD_ATTN_THREADS  256
#define HD_ATTN_WARPS    (HD_ATTN_THREADS / 32)
#define HD_ATTN_QUARTERS 4
#define HD_ATTN_UNITS    (HD_KEY_WIDTH / 8)
#define HD_ATTN_LANES    8 /* threads that share a head's weights */
static_assert(HD_KEY_WIDTH / HD_ATTN_WARPS == 64, "a warp sums eight times eight columns");

#define HD_ATTN_KEY_BYTES (32 * HD_KEY_LINE) /* the planes of a tile */
#define HD_ATTN_BUFFERS   4                  /* of tiles, at most    */

/* Keys of a tile. */
template <hd_row_format format> struct hd_attn_tile {
    static constexpr int planes = hd_key_shape<format>::planes;
    static constexpr int keys = 32 / planes;
    static constexpr int warp_keys = keys / HD_ATTN_WARPS; /* that a warp loads           */
    static constexpr int lane_keys = keys / HD_ATTN_LANES; /* that a thread weighs        */
    static constexpr int plane_bytes = keys * HD_KEY_LINE;
    static constexpr int line_bytes = keys * 4; /* logits or weights of a head */
    static constexpr int chunks = line_bytes / 16;

    /* Chunk c of 16 bytes of a head's line, turned so that eight lines meet no bank twice. */
    static __device__ __forceinline__ int32_t turn(int32_t head)
    {
        return head / (8 / chunks) % chunks;
    }
    static __device__ __forceinline__ int32_t at(int32_t head, int32_t c)
    {
        return head * line_bytes + (c ^ turn(head)) * 16;
    }
};

/* Two of these with one buffer fit a multiprocessor to the byte. */
template <hd_row_format format, int heads> struct hd_attn_shared {
    union {
        uint8_t q[2][heads * HD_KEY_LINE];
        float   sums[heads][HD_KEY_WIDTH]; /* at the end; turned like q, by 16 bytes */
    } u;
    /* Quarters of the dot products.  Of a weight, in the first quarter's place, the high and the
     * low f16: chunks of eight keys, high and low by turns. */
    uint8_t      part[HD_ATTN_QUARTERS][heads * hd_attn_tile<format>::line_bytes];
    int32_t      q_unit[heads], key_unit[hd_attn_tile<format>::keys];
    float        shrink[heads]; /* what sums so far are multiplied by               */
    float        largest[heads], sum[heads];
    int32_t      unit; /* the exponent of the largest unit of the block's keys */
    hd_attn_task k;
    uint64_t     barrier[HD_ATTN_BUFFERS][HD_ATTN_WARPS]; /* of the keys that a warp copies */
    __align__(1024) uint8_t keys[][HD_ATTN_KEY_BYTES];    /* as many buffers as there are */
};

/* ---- logits ---- */

/* c += the product of 16 heads and 16 columns with `tiles` times eight keys, whose high planes
 * count last. */
template <hd_row_format format, int tiles>
static __device__ __forceinline__ void hd_attn_multiply_step(const uint32_t high[4],
                                                             const uint32_t low[4],
                                                             uint32_t keys_at, float c[tiles][4])
{
    constexpr int planes = hd_attn_tile<format>::planes, pairs = (tiles + 1) / 2;
    uint32_t      b[planes][pairs][4];
#pragma unroll
    for (int i = 0; i < planes * pairs; i++)
        hd_load_matrices(keys_at + i / pairs * hd_attn_tile<format>::plane_bytes +
                             i % pairs * 16 * HD_KEY_LINE,
                         b[i / pairs][i % pairs]);
#pragma unroll
    for (int i = 0; i < tiles; i++)
        hd_mma(c[i], low, b[0][i / 2][i % 2 * 2], b[0][i / 2][i % 2 * 2 + 1]);
    if (planes == 2)
#pragma unroll
        for (int i = 0; i < tiles; i++)
            hd_mma(c[i], high, b[planes - 1][i / 2][i % 2 * 2],
                   b[planes - 1][i / 2][i % 2 * 2 + 1]);
#pragma unroll
    for (int i = 0; i < tiles; i++)
        hd_mma(c[i], high, b[0][i / 2][i % 2 * 2], b[0][i / 2][i % 2 * 2 + 1]);
}

/* A warp's part of the dot products: a quarter of the width of 16 heads; where these are all, of
 * half the keys. */
template <hd_row_format format, int heads>
static __device__ __forceinline__ void hd_attn_multiply(hd_attn_shared<format, heads> *s,
                                                        const uint8_t                 *keys)
{
    using shape = hd_attn_tile<format>;
    constexpr int tiles = shape::keys / 8 / (32 / heads);
    int32_t const thread = hd_thread(), warp = thread / 32, lane = thread % 32;
    int32_t const h0 = heads == 32 ? warp % 2 * 16 : 0,
                  key0 = heads == 32 ? 0 : warp % 2 * tiles * 8;
    int32_t const  quarter = warp / 2, first = quarter * (HD_ATTN_UNITS / HD_ATTN_QUARTERS);
    uint32_t const q_at =
        hd_shared_address(s->u.q[0]) + (uint32_t)hd_key_at(h0 + lane % 16, first + lane / 16);
    uint32_t const keys_at = hd_shared_address(keys) +
                             (uint32_t)hd_key_at(key0 + (tiles > 1 ? lane / 16 * 8 : 0) + lane % 8,
                                                 first + lane / 8 % 2);
    float c[tiles][4] = {};
#pragma unroll
    for (int i = 0; i < HD_ATTN_UNITS / HD_ATTN_QUARTERS / 2; i++) { /* two units: 16 columns */
        uint32_t const turn = 2 * i % 8 * 16, on = 2 * i / 8 * 128;
        uint32_t       high[4], low[4];
        hd_load_matrices((q_at ^ turn) + on, high);
        hd_load_matrices((q_at ^ turn) + on + heads * HD_KEY_LINE, low);
        hd_attn_multiply_step<format, tiles>(high, low, (keys_at ^ turn) + on, c);
    }
#pragma unroll
    for (int i = 0; i < tiles * 2; i++) {
        int32_t const head = h0 + lane / 4 + i % 2 * 8, key = key0 + i / 2 * 8 + lane % 4 * 2;
        *(float2 *)(s->part[quarter] + shape::at(head, key / 4) +
                    key % 4 * 4) = {c[i / 2][i % 2 * 2], c[i / 2][i % 2 * 2 + 1]};
    }
}

/* ---- weights ---- */

/* What the threads of a head know: all the same. */
typedef struct hd_attn_state {
    float   largest, sum;
    int32_t unit; /* the exponent of the largest unit of keys so far */
} hd_attn_state;

static __device__ __forceinline__ float hd_attn_max(float x)
{
#pragma unroll
    for (int o = HD_ATTN_LANES / 2; o > 0; o >>= 1)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, o));
    return x;
}

static __device__ __forceinline__ float hd_attn_sum(float x)
{
#pragma unroll
    for (int o = HD_ATTN_LANES / 2; o > 0; o >>= 1) x += __shfl_xor_sync(0xffffffffu, x, o);
    return x;
}

/* e^x for x <= 0, to 2^-22 and |x| * 2^-24 of it. */
static __device__ __forceinline__ float hd_attn_exp(float x)
{
    float out;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x * 1.44269504f));
    return out;
}

/* The logits of the thread's keys; -infinity for what is no key. */
template <hd_row_format format, int heads>
static __device__ __forceinline__ void
hd_attn_add_quarters(float scale, const hd_attn_shared<format, heads> *s,
                     float z[hd_attn_tile<format>::lane_keys])
{
    constexpr int n = hd_attn_tile<format>::lane_keys;
    int32_t const thread = hd_thread(), head = thread / HD_ATTN_LANES;
    int32_t const key = thread % HD_ATTN_LANES * n;
    float         part[HD_ATTN_QUARTERS][n];
#pragma unroll
    for (int i = 0; i < HD_ATTN_QUARTERS; i++) {
        const uint8_t *const from =
            s->part[i] + hd_attn_tile<format>::at(head, key / 4) + key % 4 * 4;
        if (n == 4)
            *(float4 *)part[i] = *(const float4 *)from;
        else
            *(float2 *)part[i] = *(const float2 *)from;
    }
#pragma unroll
    for (int i = 0; i < n; i++) {
        int32_t const unit = s->key_unit[key + i];
        float const   dot = ((part[0][i] + part[1][i]) + part[2][i]) + part[3][i];
        z[i] =
            unit == INT32_MIN ? -INFINITY : dot * scale * hd_pow2(min(s->q_unit[head] + unit, 127));
    }
}

/* Puts weights, over the largest unit, where the thread's logits were. */
template <hd_row_format format, int heads>
static __device__ __forceinline__ void
hd_attn_store_weights(hd_attn_shared<format, heads> *s,
                      const float                    w[hd_attn_tile<format>::lane_keys])
{
    constexpr int  n = hd_attn_tile<format>::lane_keys;
    int32_t const  thread = hd_thread(), head = thread / HD_ATTN_LANES;
    int32_t const  key = thread % HD_ATTN_LANES * n;
    uint8_t *const high_at = s->part[0] + hd_attn_tile<format>::at(head, key / 8 * 2) + key % 8 * 2;
    uint8_t *const low_at =
        s->part[0] + hd_attn_tile<format>::at(head, key / 8 * 2 + 1) + key % 8 * 2;
    uint32_t high[n / 2], low[n / 2];
#pragma unroll
    for (int i = 0; i < n; i += 2) hd_split_pair(w[i], w[i + 1], &high[i / 2], &low[i / 2]);
#pragma unroll
    for (int i = 0; i < n / 2; i++) {
        *(uint32_t *)(high_at + 4 * i) = high[i];
        *(uint32_t *)(low_at + 4 * i) = low[i];
    }
}

/* Turns logits into weights. */
template <hd_row_format format, int heads>
static __device__ __forceinline__ void hd_attn_weigh(float scale, hd_attn_shared<format, heads> *s,
                                                     hd_attn_state &state)
{
    constexpr int n = hd_attn_tile<format>::lane_keys;
    int32_t const thread = hd_thread(), head = thread / HD_ATTN_LANES;
    int32_t const lane = thread % HD_ATTN_LANES;
    if (head >= heads) return; /* whole warps */
    float   z[n], sum = 0, most = -INFINITY;
    int32_t unit = state.unit;
    hd_attn_add_quarters<format, heads>(scale, s, z);
#pragma unroll
    for (int i = 0; i < n; i++) {
        most = fmaxf(most, z[i]);
        unit = max(unit, s->key_unit[lane * n + i]);
    }
    float const largest = fmaxf(state.largest, hd_attn_max(most));
    /* No key so far, or NaN only: nothing to be relative to. */
    float const base = largest == -INFINITY ? 0 : largest;
    unit = __reduce_max_sync(0xffffffffu, unit); /* a warp has all keys */
#pragma unroll
    for (int i = 0; i < n; i++) {
        float const e = hd_attn_exp(z[i] - base);
        sum += e;
        z[i] = e * hd_pow2(HD_KEY_TOP + max(s->key_unit[lane * n + i], -512) - unit);
    }
    float const shrink = hd_attn_exp(state.largest - base);
    if (lane == 0) s->shrink[head] = shrink * hd_pow2(state.unit - unit);
    state.sum = fmaf(state.sum, shrink, hd_attn_sum(sum));
    state.largest = largest;
    state.unit = unit;
    __syncwarp(); /* all have read their logits */
    hd_attn_store_weights<format, heads>(s, z);
}

/* ---- sums ---- */

/* Columns 64 * warp .. + 63 of all heads: [16 heads][8 columns], as mma lays them out. */
template <int heads> struct hd_attn_sums {
    float c[heads / 16][8][4];
};

template <int heads>
static __device__ __forceinline__ void hd_attn_shrink(const float          shrink[heads],
                                                      hd_attn_sums<heads> &sum)
{
    int32_t const head = hd_thread() % 32 / 4;
    float         f[heads / 8];
    bool          is_less = false;
#pragma unroll
    for (int i = 0; i < heads / 8; i++) {
        f[i] = shrink[head + 8 * i];
        is_less |= f[i] != 1;
    }
    if (!__any_sync(0xffffffffu, is_less)) return;
#pragma unroll
    for (int i = 0; i < heads * 2; i++)
        sum.c[i / 32][i / 4 % 8][i % 4] *= f[i / 32 * 2 + i % 4 / 2];
}

/* Adds 16 keys. */
template <hd_row_format format, int heads>
static __device__ __forceinline__ void hd_attn_add_step(uint32_t weights_at, uint32_t keys_at,
                                                        hd_attn_sums<heads> &sum)
{
    using shape = hd_attn_tile<format>;
#pragma unroll
    for (int m = 0; m < heads / 16; m++) {
        uint32_t high[4], low[4];
        hd_load_matrices(weights_at + m * 16 * shape::line_bytes, high);
        hd_load_matrices((weights_at ^ 16) + m * 16 * shape::line_bytes, low);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint32_t b[shape::planes][4];
#pragma unroll
            for (int p = 0; p < shape::planes; p++)
                hd_load_matrices_transposed((keys_at ^ (i * 32)) + p * shape::plane_bytes, b[p]);
#pragma unroll
            for (int t = 0; t < 2; t++)
                hd_mma(sum.c[m][2 * i + t], low, b[0][2 * t], b[0][2 * t + 1]);
#pragma unroll
            for (int t = 0; t < 2 * (shape::planes - 1); t++)
                hd_mma(sum.c[m][2 * i + t], high, b[shape::planes - 1][2 * t],
                       b[shape::planes - 1][2 * t + 1]);
#pragma unroll
            for (int t = 0; t < 2; t++)
                hd_mma(sum.c[m][2 * i + t], high, b[0][2 * t], b[0][2 * t + 1]);
        }
    }
}

template <hd_row_format format, int heads>
static __device__ __forceinline__ void hd_attn_add(hd_attn_shared<format, heads> *s,
                                                   const uint8_t *keys, hd_attn_sums<heads> &sum)
{
    using shape = hd_attn_tile<format>;
    int32_t const  thread = hd_thread(), warp = thread / 32, lane = thread % 32;
    uint32_t const weights_at =
        hd_shared_address(s->part[0]) + (uint32_t)shape::at(lane % 16, lane / 16 * 2);
    uint32_t const keys_at =
        hd_shared_address(keys) +
        (uint32_t)hd_key_at(lane / 8 % 2 * 8 + lane % 8,
                            warp * (HD_ATTN_UNITS / HD_ATTN_WARPS) + lane / 16);
    hd_attn_shrink<heads>(s->shrink, sum);
#pragma unroll
    for (int i = 0; i < shape::keys / 16; i++)
        hd_attn_add_step<format, heads>(weights_at ^ (i * 64), keys_at + i * 16 * HD_KEY_LINE, sum);
}

#endif
