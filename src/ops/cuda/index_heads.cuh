#ifndef HD_OPS_CUDA_INDEX_HEADS_CUH
#define HD_OPS_CUDA_INDEX_HEADS_CUH

#include "ops/cuda/async_copy.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/rounding.cuh"
#include "ops/cuda/vectors.cuh"
#include "ops/index_score.h"
#include "quant/fp4.h"

/* A token's heads as operand A of the tensor cores, for index_score_mma_cuda.cu: bytes where they
 * are exact, else three planes of bf16. */

#define HD_IX_THREADS 384 /* which leaves each the registers for operand A of all heads */
#define HD_IX_WARPS   (HD_IX_THREADS / 32)
#define HD_IX_HEADS   64
#define HD_IX_D       128
#define HD_IX_TILES   (HD_IX_HEADS / 16) /* of operand A                             */
#define HD_IX_STEPS   4                  /* words of a block of codes                */
#define HD_IX_UNIT    32                 /* rows that a warp takes at once           */
#define HD_IX_GROUPS  (HD_IX_UNIT / 8)   /* of rows: a tile of operand B             */
#define HD_IX_STAGES  3                  /* units of a warp, there or on their way    */
#define HD_IX_PLANES  3                  /* of bf16                                  */
#define HD_IX_CODES   (HD_IX_D / 2)      /* bytes of a row                           */
#define HD_IX_SCALES  (HD_IX_D / HD_MXFP4_BLOCK)
/* Heads that a warp prepares. */
#define HD_IX_TURNS ((HD_IX_HEADS + HD_IX_WARPS - 1) / HD_IX_WARPS)

#define HD_IX_BIAS  48u         /* the largest code, 12, shifted by 2        */
#define HD_IX_MAGIC 0x4B400000u /* 1.5 * 2^23                                */
#define HD_IX_LIMIT 60          /* exponents of heads with s8 operands       */

/* A token's rows, and where their scores go. */
typedef struct hd_ix_rows {
    const uint8_t *keys; /* of its sequence */
    float         *score;
    int64_t        page_bytes;
    int32_t        page_shift; /* rows of a page: a power of two, HD_IX_UNIT or more */
    int32_t        visible, cap;
    bool           is_wide; /* whether 16 bytes may be read at once */
} hd_ix_rows;

/* A unit's rows as they stand in memory. */
typedef struct hd_ix_unit {
    uint4    codes[HD_IX_GROUPS][32];
    uint32_t scales[HD_IX_UNIT];
} hd_ix_unit;

/* What the warps of a block share. */
typedef struct hd_ix_shared {
    union {
        struct {
            uint4      fragment[HD_IX_TILES][HD_IX_STEPS][32]; /* in the order of operand A */
            hd_ix_unit stage[HD_IX_WARPS][HD_IX_STAGES];
        } s8;
        /* bf16, units of 16 bytes turned by row */
        __align__(128) uint8_t plane[HD_IX_PLANES][HD_IX_HEADS][HD_IX_D * 2];
    } u;
    hd_ix_rows rows;
    float2     head[HD_IX_HEADS]; /* weight; what takes HD_IX_MAGIC and HD_IX_BIAS off, or 0 */
} hd_ix_shared;

/* A head's four elements of a lane as bytes, times a power of two that makes the largest of the
 * head 64 to 127; whether that is exact.  *weight becomes what undoes it and makes up for the
 * 2^-22 of weigh(). */
static __device__ __forceinline__ bool hd_ix_round(float4 q, float *weight, uint32_t *bytes)
{
    float const    v[4] = {q.x, q.y, q.z, q.w};
    uint32_t const amax =
        hd_warp_max_bits(max(max(hd_magnitude_bits(v[0]), hd_magnitude_bits(v[1])),
                             max(hd_magnitude_bits(v[2]), hd_magnitude_bits(v[3]))));
    int const   e = amax ? (int)(amax >> 23) - 127 - 6 : 0;
    bool        fits = e >= -HD_IX_LIMIT && e <= HD_IX_LIMIT;
    float const unit = fits ? __uint_as_float((uint32_t)(127 - e) << 23) : 0.0f;
    *bytes = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float const n = v[i] * unit;
        fits &= rintf(n) == n;
        *bytes |= ((uint32_t)__float2int_rn(n) & 255) << (8 * i);
    }
    if (fits) *weight *= __uint_as_float((uint32_t)(127 + 22 + e) << 23);
    return fits && fabsf(*weight) <= 3e38f;
}

/* Puts four bytes, elements 4 lane .. 4 lane + 3 of head h, where operand A wants them. */
static __device__ __forceinline__ void hd_ix_store_bytes(hd_ix_shared *s, int h, uint32_t bytes)
{
    int const lane = (int)threadIdx.x % 32, block = lane / 8, step = lane % 8 / 2;
    int const to = h % 8 * 4 + block, word = h % 16 / 8 + lane % 2 * 2;
    ((uint32_t *)&s->u.s8.fragment[h / 16][step][to])[word] = bytes;
}

/* x less its upper 16 bits, which are a bf16; infinity and NaN lack nothing. */
static __device__ __forceinline__ float hd_ix_rest(float x)
{
    float const rest = x - __uint_as_float(__float_as_uint(x) & 0xffff0000u);
    return rest == rest ? rest : 0.0f;
}

/* The same for the upper halves of four floats in a plane: element c = 32 b + 8 s + 4 i + j is
 * column 16 (2 s + j / 2) + 8 (j % 2) + 2 b + i, as decode_bf16() has it. */
static __device__ __forceinline__ void hd_ix_store_plane(uint8_t plane[HD_IX_HEADS][HD_IX_D * 2],
                                                         int h, const float v[4])
{
    int const lane = (int)threadIdx.x % 32, block = lane / 8, step = lane % 8 / 2;
#pragma unroll
    for (int j = 0; j < 4; j++) {
        int const unit = 2 * (2 * step + j / 2) + j % 2;
        *(uint16_t *)&plane[h][(unit ^ h % 8) * 16 + (2 * block + lane % 2) * 2] =
            (uint16_t)(__float_as_uint(v[j]) >> 16);
    }
}

/* How many planes q needs: 1 or all. */
static __device__ int hd_ix_store_planes(hd_ix_shared *s, float4 q[HD_IX_TURNS])
{
    int const h0 = (int)threadIdx.x / 32 * HD_IX_TURNS;
    bool      is_more = false;
    for (int p = 0; p < HD_IX_PLANES; p++) {
#pragma unroll
        for (int i = 0; i < HD_IX_TURNS; i++) {
            float v[4] = {q[i].x, q[i].y, q[i].z, q[i].w};
            if (h0 + i < HD_IX_HEADS) hd_ix_store_plane(s->u.plane[p], h0 + i, v);
            q[i] = {hd_ix_rest(v[0]), hd_ix_rest(v[1]), hd_ix_rest(v[2]), hd_ix_rest(v[3])};
            is_more |= q[i].x != 0 || q[i].y != 0 || q[i].z != 0 || q[i].w != 0;
        }
        if (p == 0 && !__syncthreads_or(is_more)) return 1;
    }
    __syncthreads();
    return HD_IX_PLANES;
}

/* Prepares the heads of token t; the planes of bf16 they need, 0 for s8. */
static __device__ int hd_ix_prepare(const hd_index_score_args *a, int64_t t, hd_ix_shared *s)
{
    int const  lane = (int)threadIdx.x % 32, h0 = (int)threadIdx.x / 32 * HD_IX_TURNS;
    bool const is_wide = hd_is_wide(a->q, HD_IX_D);
    float4     q[HD_IX_TURNS];
    float      w[HD_IX_TURNS];
    bool       fits = true;
#pragma unroll
    for (int i = 0; i < HD_IX_TURNS; i++) {
        bool const    is_in = h0 + i < a->h;
        int64_t const row = t * a->h + (is_in ? h0 + i : 0);
        q[i] = hd_load4(a->q + row * HD_IX_D + lane * 4, 4, is_wide);
        w[i] = a->wgt[row] * a->scale;
        if (!is_in) q[i] = {0, 0, 0, 0}, w[i] = 0;
    }
#pragma unroll
    for (int i = 0; i < HD_IX_TURNS; i++) {
        float    weight = w[i];
        uint32_t bytes;
        fits &= hd_ix_round(q[i], &weight, &bytes);
        int const sum = __reduce_add_sync(0xffffffffu, __dp4a((int)bytes, 0x01010101, 0));
        if (h0 + i >= HD_IX_HEADS) continue;
        hd_ix_store_bytes(s, h0 + i, bytes);
        if (lane == 0)
            s->head[h0 + i] = {weight, ((float)sum * -(float)HD_IX_BIAS - 12582912.0f) * 0x1p-22f};
    }
    if (__syncthreads_and(fits)) return 0;
#pragma unroll
    for (int i = 0; i < HD_IX_TURNS; i++)
        if (lane == 0 && h0 + i < HD_IX_HEADS) s->head[h0 + i] = {w[i], 0};
    hd_copy_wait<0>();
    __syncthreads(); /* planes lie where units are being copied to */
    return hd_ix_store_planes(s, q);
}

#endif
