#ifndef HD_OPS_CUDA_WGMMA_ROWS_RING_CUH
#define HD_OPS_CUDA_WGMMA_ROWS_RING_CUH

#include "barrier_sm90.cuh"
#include "ops/gemm.h"
#include "quant/fp8.h"
#include "quant/matrix.h"
#include "vectors.cuh"
#include "wgmma_asm.cuh"

/* What a block of wgmma_rows.cuh has in shared memory, and what fills it. */

#define HD_WR_K            64 /* columns of a chunk */
#define HD_WR_STEPS        (HD_WR_K / 16)
#define HD_WR_PLANES       3
#define HD_WR_MULTIPLIES   256           /* threads */
#define HD_WR_LINE         (HD_WR_K * 2) /* bytes of a row of weights in a stage           */
#define HD_WR_X_LINE       (HD_WR_K + 8) /* floats of a token; so no bank is met twice     */
#define HD_WR_LEAST_TOKENS 64
#define HD_WR_CLUSTER      2                 /* most blocks that share a tile                  */
#define HD_WR_SMEM         (227 * 1024 - 64) /* for stages */

/* What a kernel is made for.
 * parts   of the rows of a warpgroup that have scales of their own
 * cols    of a product: rows of weights of a part
 * across  warpgroups that have the same tokens */
template <int format_, int parts_, int cols_, int across_> struct hd_wr_shape {
    static constexpr int  format = format_, parts = parts_, cols = cols_, across = across_;
    static constexpr bool is_fp8 = format == HD_FMT_FP8;
    static constexpr int  rows = parts * cols * across, tokens = 128 / across;
    static constexpr int  sums = cols / 2; /* of a thread, in a part */
    static constexpr int  w_bytes = rows * HD_WR_LINE;
    static constexpr int  bytes = w_bytes + (tokens * HD_WR_X_LINE * 4 + 1023) / 1024 * 1024;
    static constexpr int  fit = HD_WR_SMEM / bytes, stages = fit < 8 ? fit : 8;
    static constexpr int  loads = is_fp8 ? 256 : 128, threads = HD_WR_MULTIPLIES + loads;
    /* Sums need more registers than each thread's share. */
    static constexpr int multiply_registers = is_fp8 ? 192 : 224;
    static constexpr int load_registers = is_fp8 ? 64 : 56;
    static_assert(stages >= 3, "two come while one is multiplied");
};

template <typename shape> struct hd_wr_shared {
    union {
        __align__(1024) uint8_t stages[shape::stages][shape::bytes];
        float sums[shape::parts * shape::sums][HD_WR_MULTIPLIES]; /* for the cluster, at the end */
    } u;
    uint64_t full[shape::stages], empty[shape::stages];
};

/* One tile, and the block's share of its columns. */
struct hd_wr_job {
    const float   *x; /* of the first token; rows are x_step apart */
    const uint8_t *w; /* of the group */
    const float   *sf;
    float         *y;
    int64_t        x_step, y_step;
    int32_t        n, k, row0, n_tokens;
    int32_t        first, end; /* chunks */
    bool           is_wide;
};

template <typename shape>
static __device__ __forceinline__ hd_wr_job hd_wr_find_job(const hd_gemm_args &a, int share)
{
    int32_t const t0 = (int32_t)blockIdx.y * shape::tokens, chunks = a.k / HD_WR_K;
    int32_t const rank = (int32_t)blockIdx.x % share;
    int64_t const q = blockIdx.z, row = q * a.n, blocks = (a.k + HD_FP8_BLOCK - 1) / HD_FP8_BLOCK;
    hd_wr_job     j;
    j.x_step = (int64_t)a.g * a.k;
    j.y_step = (int64_t)a.g * a.n;
    j.x = a.x + t0 * j.x_step + q * a.k;
    j.y = a.y + t0 * j.y_step + row;
    j.w = (const uint8_t *)a.w + row * a.k * (shape::is_fp8 ? 1 : 2);
    j.sf = shape::is_fp8 ? (const float *)a.sf + row / HD_FP8_BLOCK * blocks : NULL;
    j.n = a.n;
    j.k = a.k;
    j.row0 = (int32_t)blockIdx.x / share * shape::rows;
    j.n_tokens = min(shape::tokens, a.t - t0);
    j.first = chunks * rank / share;
    j.end = chunks * (rank + 1) / share;
    j.is_wide = hd_is_wide(a.x, a.k);
    return j;
}

/* ---- loading ---- */

/* What a warp that loads does.  Rows and tokens behind the last are 0. */
template <typename shape> struct hd_wr_loader {
    static constexpr int w_units = shape::rows * 4 / shape::loads; /* of 16 codes, for a thread */
    hd_wr_shared<shape> *s;
    const hd_wr_job     &j;
    int                  thread;
    uint4                codes[2][w_units]; /* of the next chunks */
    const uint8_t       *next, *behind;     /* the thread's codes of the first row */
    int32_t              rows;              /* that are left from the first on     */

    __device__ __forceinline__ hd_wr_loader(hd_wr_shared<shape> *s_, const hd_wr_job &j_)
        : s(s_), j(j_), thread((int)threadIdx.x - HD_WR_MULTIPLIES)
    {
        const uint8_t *const row = j.w + (int64_t)(j.row0 + thread / 4) * j.k + thread % 4 * 16;
        next = row + j.first * HD_WR_K;
        behind = row + j.end * HD_WR_K;
        rows = j.n - j.row0 - thread / 4;
    }

    __device__ __forceinline__ void copy_x(int32_t c, uint8_t *stage)
    {
        int const    unit = thread % 16 * 4, first = thread / 16;
        const float *from = j.x + first * j.x_step + c * HD_WR_K + unit;
        float       *to = (float *)(stage + shape::w_bytes) + first * HD_WR_X_LINE + unit;
#pragma unroll 1
        for (int i = first; i < shape::tokens; i += shape::loads / 16) {
            if (j.is_wide)
                hd_copy_16_or_zero(to, from, i < j.n_tokens);
            else
                for (int e = 0; e < 4; e++) hd_copy_4_or_zero(to + e, from + e, i < j.n_tokens);
            from += shape::loads / 16 * j.x_step;
            to += shape::loads / 16 * HD_WR_X_LINE;
        }
    }

    /* Lines of 128 bytes as wgmma reads them: units of 16 bytes turned by the line. */
    __device__ __forceinline__ void copy_w(int32_t c, uint8_t *stage)
    {
        int const      unit = thread % 8, first = thread / 8;
        int64_t const  line = (int64_t)j.k * 2;
        const uint8_t *from = j.w + (j.row0 + first) * line + (int64_t)c * HD_WR_LINE + unit * 16;
        uint8_t       *to = stage + first * HD_WR_LINE + (unit ^ first % 8) * 16;
#pragma unroll 4
        for (int i = first; i < shape::rows; i += shape::loads / 8) {
            hd_copy_16_or_zero(to, from, j.row0 + i < j.n);
            from += shape::loads / 8 * line;
            to += shape::loads / 8 * HD_WR_LINE;
        }
    }

    /* Reads the thread's codes of the next chunk that was not read. */
    __device__ __forceinline__ void read_codes(uint4 (&to)[w_units])
    {
        const uint8_t *from = next;
        if (from >= behind) return;
#pragma unroll
        for (int i = 0; i < w_units; i++, from += shape::loads / 4 * (int64_t)j.k)
            to[i] = i * (shape::loads / 4) < rows ? *(const uint4 *)from : make_uint4(0, 0, 0, 0);
        next += HD_WR_K;
    }

    /* Two E4M3 codes in the upper bytes of the halves of w to bf16. */
    static __device__ __forceinline__ uint32_t decode_pair(uint32_t w)
    {
        uint32_t const v = ((w >> 4) & 0x07F007F0u) | (w & 0x80008000u);
        uint32_t       out;
        asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(out) : "r"(v), "r"(0x7B807B80u)); /* 2^120 */
        return out;
    }

    static __device__ __forceinline__ uint4 decode(uint32_t first, uint32_t second)
    {
        return {decode_pair(__byte_perm(first, 0, 0x1404)),
                decode_pair(__byte_perm(first, 0, 0x3424)),
                decode_pair(__byte_perm(second, 0, 0x1404)),
                decode_pair(__byte_perm(second, 0, 0x3424))};
    }

    __device__ __forceinline__ void store_codes(uint8_t *stage, const uint4 (&from)[w_units])
    {
        int const unit = thread % 4 * 2, first = thread / 4;
#pragma unroll
        for (int i = 0; i < w_units; i++) {
            uint8_t *const line = stage + (first + i * shape::loads / 4) * HD_WR_LINE;
            *(uint4 *)(line + (unit ^ first % 8) * 16) = decode(from[i].x, from[i].y);
            *(uint4 *)(line + ((unit + 1) ^ first % 8) * 16) = decode(from[i].z, from[i].w);
        }
    }

    /* Fills a stage; what copies bring announces itself. */
    __device__ __forceinline__ void fill(int32_t c, hd_ring_place<shape::stages> &turn, int parity)
    {
        uint8_t *const  stage = s->u.stages[turn.at];
        uint64_t *const full = &s->full[turn.at];
        hd_barrier_wait(&s->empty[turn.at], turn.parity);
        copy_x(c, stage);
        if constexpr (!shape::is_fp8) copy_w(c, stage);
        hd_barrier_arrive_copied(full);
        if constexpr (shape::is_fp8) {
            store_codes(stage, codes[parity]);
            __syncwarp();
            if (threadIdx.x % 32 == 0) hd_barrier_arrive(full);
            read_codes(codes[parity]);
        }
        turn.next();
    }

    __device__ __forceinline__ void run(void)
    {
        hd_ring_place<shape::stages> turn = {0, 1};
        if constexpr (shape::is_fp8) {
            read_codes(codes[0]);
            read_codes(codes[1]);
        }
        for (int32_t c = j.first; c < j.end; c += 2) {
            fill(c, turn, 0);
            if (c + 1 < j.end) fill(c + 1, turn, 1);
        }
        hd_copy_wait<0>();
    }
};

#endif
