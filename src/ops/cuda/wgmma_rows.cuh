#ifndef HD_OPS_CUDA_WGMMA_ROWS_CUH
#define HD_OPS_CUDA_WGMMA_ROWS_CUH

#include "launch.cuh"
#include "wgmma_rows_ring.cuh"

/* gemm with weights in rows, bf16 or FP8, for many tokens on Hopper.
 *
 * Bound by: the tensor cores; where x has one plane, by what the second cache delivers; FP8 by what
 *   decodes.
 * Grid: a block for each tile of rows (x), of tokens (y) and group (z): 256 or 128 rows x 128
 *   tokens, 128 or 64 rows x 64 tokens, the largest that occupy the GPU.  Where a matrix has few
 *   rows, a cluster of two blocks shares a tile: each takes half of the columns, and their sums are
 *   added in its order.  Which tile is taken changes no bit; the cluster follows from the matrix.
 * Warps: two warpgroups multiply, 64 tokens each, or the same 64 and half of the rows each; another
 *   one loads, two where they decode.
 * Product: wgmma with bf16 operands and f32 sums.  The activations are operand A: a thread reads
 *   its floats from shared memory and splits them in registers into the three bf16 whose sum they
 *   are (24 bits, cut off, so nothing overflows), so that they never go back.  Of a chunk of 64
 *   columns whose others are all 0 only the first is multiplied.  The weights are operand B, in
 *   shared memory: bf16 as they are, FP8 decoded by the warps that load.
 * FP8: the scale of 128 x 128 weights goes to the activations, once for each 128 rows of the tile.
 * Sums: stay in registers over all columns of a block; the tensor cores cut off what they add.
 * Ring: a stage has a chunk of both; it is full when all that was loaded has come, empty when all
 *   warps that multiply have.  While a step of 16 columns is multiplied, the next one is split; at
 *   the end of a chunk the next one's floats are read.
 * Shared memory: 3 to 8 stages, of 68 KB down to 26. */

/* ---- multiplying ---- */

/* x less its upper 16 bits: what the plane of these lacks. */
static __device__ __forceinline__ float hd_wr_rest(float x)
{
    return x - __uint_as_float(__float_as_uint(x) & 0xffff0000u);
}

/* Infinity and NaN lack nothing, so that their other planes add 0 and not infinities of the other
 * sign. */
static __device__ __forceinline__ float hd_wr_finite_rest(float x)
{
    float const rest = hd_wr_rest(x);
    return rest == rest ? rest : 0.0f;
}

static __device__ __forceinline__ uint32_t hd_wr_upper(float2 v)
{
    return __byte_perm(__float_as_uint(v.x), __float_as_uint(v.y), 0x7632);
}

/* Keeps what makes an operand in front of the products that follow. */
static __device__ __forceinline__ void hd_wr_hold(uint32_t (&a)[4])
{
    asm volatile("" : "+r"(a[0]), "+r"(a[1]), "+r"(a[2]), "+r"(a[3])::"memory");
}

/* sum += A B. */
template <int cols>
static __device__ __forceinline__ void hd_wr_product(float (&sum)[cols / 2], const uint32_t (&a)[4],
                                                     uint64_t b)
{
    if constexpr (cols == 256)
        hd_wgmma_256(sum, a, b);
    else if constexpr (cols == 64)
        hd_wgmma_64<true>(sum, a, b);
    else
        hd_wgmma_columns<cols, false>(sum, a, b, true);
}

/* What a thread that multiplies does. */
template <typename shape> struct hd_wr_multiplier {
    using sums = float[shape::parts][shape::sums];
    using turn = hd_ring_place<shape::stages>;
    hd_wr_shared<shape> *s;
    const hd_wr_job     &j;
    int                  x_at, w_at;        /* of the thread's floats, of the warpgroup's weights */
    float2               x[HD_WR_STEPS][4]; /* operand A of each step */
    float                scale[shape::parts];

    __device__ __forceinline__ hd_wr_multiplier(hd_wr_shared<shape> *s_, const hd_wr_job &j_)
        : s(s_), j(j_)
    {
        int const group = (int)threadIdx.x / 128, lane = (int)threadIdx.x % 32;
        int const token = (shape::across == 1 ? group * 64 : 0) + (int)threadIdx.x % 128 / 32 * 16;
        x_at = shape::w_bytes + ((token + lane / 4) * HD_WR_X_LINE + lane % 4 * 2) * 4;
        w_at = shape::across == 1 ? 0 : group * shape::cols * HD_WR_LINE;
    }

    __device__ __forceinline__ void read_scales(int32_t c)
    {
        int32_t const blocks = (j.k + HD_FP8_BLOCK - 1) / HD_FP8_BLOCK;
#pragma unroll
        for (int p = 0; p < shape::parts; p++) {
            int32_t const row = min(j.row0 + p * shape::cols, j.n - 1);
            scale[p] = shape::is_fp8 ? __ldg(j.sf + (int64_t)(row / HD_FP8_BLOCK) * blocks +
                                             c * HD_WR_K / HD_FP8_BLOCK)
                                     : 1.0f;
        }
    }

    /* Reads a step's floats; the thread has two tokens, eight apart. */
    __device__ __forceinline__ void read(int i, int stage)
    {
        const float *const from = (const float *)(s->u.stages[stage] + x_at) + i * 16;
#pragma unroll
        for (int v = 0; v < 4; v++)
            x[i][v] = *(const float2 *)(from + v % 2 * 8 * HD_WR_X_LINE + v / 2 * 8);
    }

    /* Waits for a chunk and reads its floats. */
    __device__ __forceinline__ void read_all(turn from, int32_t c)
    {
        read_scales(c);
        hd_barrier_wait(&s->full[from.at], from.parity);
        hd_wgmma_publish(); /* what other threads stored */
#pragma unroll
        for (int i = 0; i < HD_WR_STEPS; i++) read(i, from.at);
    }

    /* Denormals become 0: so what a power of two multiplies has no more planes than before. */
    __device__ __forceinline__ float2 scaled(int i, int v, int part)
    {
        float2 f = x[i][v];
        if (shape::is_fp8) {
            asm("mul.rn.ftz.f32 %0, %1, %2;" : "=f"(f.x) : "f"(f.x), "f"(scale[part]));
            asm("mul.rn.ftz.f32 %0, %1, %2;" : "=f"(f.y) : "f"(f.y), "f"(scale[part]));
        }
        return f;
    }

    /* How many planes the floats that were read need, of all tokens of the warpgroup. */
    __device__ __forceinline__ int count_planes(void)
    {
        uint32_t bits = 0;
        int      any;
#pragma unroll
        for (int u = 0; u < HD_WR_STEPS * 4; u++)
            bits |= __float_as_uint(x[u / 4][u % 4].x) | __float_as_uint(x[u / 4][u % 4].y);
        bits &= 0xffff;
#pragma unroll
        for (int p = 0; p < shape::parts; p++) /* whether it is no power of two */
            bits |= __float_as_uint(scale[p]) & 0x7fffff;
        asm volatile("{ .reg .pred p, q; setp.ne.u32 p, %1, 0;\n"
                     "bar.red.or.pred q, %2, 128, p;\n"
                     "selp.s32 %0, 1, 0, q; }"
                     : "=r"(any)
                     : "r"(bits), "r"(1 + threadIdx.x / 128)
                     : "memory");
        return __any_sync(0xffffffffu, any) ? HD_WR_PLANES : 1;
    }

    template <int planes>
    __device__ __forceinline__ void split(int i, int part, uint32_t (&a)[HD_WR_PLANES][4])
    {
#pragma unroll
        for (int v = 0; v < 4; v++) {
            float2 f = scaled(i, v, part);
            a[0][v] = hd_wr_upper(f);
            if (planes == 1) continue;
            f = make_float2(hd_wr_finite_rest(f.x), hd_wr_finite_rest(f.y));
            a[1][v] = hd_wr_upper(f);
            a[2][v] = hd_wr_upper(make_float2(hd_wr_rest(f.x), hd_wr_rest(f.y)));
        }
    }

    /* Starts a step of a part, the last plane first. */
    template <int planes>
    __device__ __forceinline__ void start(int i, int part, int stage,
                                          uint32_t (&a)[HD_WR_PLANES][4], float (&sum)[shape::sums])
    {
        const uint8_t *const w = s->u.stages[stage] + w_at + part * shape::cols * HD_WR_LINE;
        split<planes>(i, part, a);
#pragma unroll
        for (int p = 0; p < planes; p++) hd_wr_hold(a[p]);
        hd_wgmma_fence();
#pragma unroll
        for (int p = planes - 1; p >= 0; p--)
            hd_wr_product<shape::cols>(sum, a[p], hd_wgmma_operand(w) + 2 * i);
        hd_wgmma_commit();
    }

    /* Multiplies a chunk, whose floats were read, and reads the next one's; how many planes these
     * need.  At its end nothing is under way: the other warpgroup's products fill the gap. */
    template <int planes>
    __device__ __forceinline__ int step(turn now, turn next, int32_t c, sums &sum)
    {
        int      more = 0;
        uint32_t a[2][HD_WR_PLANES][4];
#pragma unroll
        for (int i = 0; i < HD_WR_STEPS; i++) {
#pragma unroll
            for (int p = 0; p < shape::parts; p++) {
                start<planes>(i, p, now.at, a[(i * shape::parts + p) % 2], sum[p]);
                if (i + 1 < HD_WR_STEPS || p + 1 < shape::parts)
                    hd_wgmma_wait_for<1>(); /* what the step before read may be overwritten */
            }
        }
        if (c + 1 < j.end) {
            read_all(next, c + 1);
            more = count_planes();
        }
#pragma unroll
        for (int p = 0; p < shape::parts; p++) hd_wgmma_wait(sum[p]);
        __syncwarp();
        if (threadIdx.x % 32 == 0) hd_barrier_arrive(&s->empty[now.at]);
        return more;
    }

    __device__ __forceinline__ void run(sums &sum)
    {
        turn now = {0, 0};
        read_all(now, j.first);
        int planes = count_planes();
        for (int32_t c = j.first; c < j.end; c++) {
            turn next = now;
            next.next();
            planes =
                planes == 1 ? step<1>(now, next, c, sum) : step<HD_WR_PLANES>(now, next, c, sum);
            now = next;
        }
    }
};

/* ---- results ---- */

/* Where a thread's sums go: elements 4 j .. 4 j + 3 are token lane / 4, rows 8 j + 2 (lane % 4) and
 * the next, then token lane / 4 + 8. */
template <typename shape> struct hd_wr_place {
    float  *y;
    int64_t y_step;
    int32_t tokens, rows; /* that are left from the first on */
    bool    is_wide;      /* whether two rows may be one store */

    __device__ __forceinline__ explicit hd_wr_place(const hd_wr_job &j)
    {
        int const group = (int)threadIdx.x / 128, lane = (int)threadIdx.x % 32;
        int const token =
            (shape::across == 1 ? group * 64 : 0) + (int)threadIdx.x % 128 / 32 * 16 + lane / 4;
        int32_t const row = j.row0 + (shape::across == 1 ? 0 : group * shape::cols) + lane % 4 * 2;
        y = j.y + token * j.y_step + row;
        y_step = j.y_step;
        tokens = j.n_tokens - token;
        rows = j.n - row;
        is_wide = ((uintptr_t)j.y & 7) == 0 && j.n % 2 == 0;
    }

    __device__ __forceinline__ void write(int i, float2 sum) const
    {
        int const    row = i / 4 * 8, token = i % 4 / 2 * 8;
        float *const to = y + token * y_step + row;
        if (token >= tokens || row >= rows) return;
        if (is_wide) {
            *(float2 *)to = sum;
            return;
        }
        to[0] = sum.x;
        if (row + 1 < rows) to[1] = sum.y;
    }
};

static __device__ __forceinline__ void hd_wr_sync_cluster(void)
{
    hd_cluster_arrive();
    hd_cluster_wait();
}

/* Adds the cluster's sums and writes them; each block a share. */
template <typename shape>
static __device__ __forceinline__ void hd_wr_join(hd_wr_shared<shape> *s, const hd_wr_job &j,
                                                  int share)
{
    constexpr int            at_once = 8; /* each waits for the other block */
    int const                rank = (int)blockIdx.x % share;
    hd_wr_place<shape> const place(j);
    for (int i = rank * at_once; i < shape::parts * shape::sums; i += share * at_once) {
        float total[at_once] = {};
        for (int b = 0; b < share; b++) {
            uint32_t const from = hd_cluster_address(&s->u.sums[i][threadIdx.x], (uint32_t)b);
#pragma unroll
            for (int u = 0; u < at_once; u++)
                total[u] += hd_load_at(from + u * HD_WR_MULTIPLIES * 4);
        }
#pragma unroll
        for (int u = 0; u < at_once; u += 2) place.write(i + u, {total[u], total[u + 1]});
    }
}

template <typename shape>
static __device__ __forceinline__ void hd_wr_multiply(hd_wr_shared<shape> *s, const hd_wr_job &j,
                                                      int share)
{
    float sum[shape::parts][shape::sums] = {};
    hd_wr_multiplier<shape>(s, j).run(sum);
    if (share == 1) {
        hd_wr_place<shape> const place(j);
#pragma unroll
        for (int i = 0; i < shape::parts * shape::sums; i += 2) {
            const float(&part)[shape::sums] = sum[i / shape::sums];
            place.write(i, {part[i % shape::sums], part[i % shape::sums + 1]});
        }
        return;
    }
    asm volatile("bar.sync 3, %0;" ::"n"(HD_WR_MULTIPLIES) : "memory"); /* nobody reads stages */
#pragma unroll
    for (int i = 0; i < shape::parts * shape::sums; i++)
        s->u.sums[i][threadIdx.x] = sum[i / shape::sums][i % shape::sums];
}

template <typename shape>
static __global__ void __launch_bounds__(shape::threads, 1)
    hd_wr_gemm(hd_gemm_args const a, int const share)
{
    extern __shared__ __align__(1024) uint8_t shared[];
    auto *const                               s = (hd_wr_shared<shape> *)shared;
    bool const                                multiplies = threadIdx.x < HD_WR_MULTIPLIES;
    if (threadIdx.x < shape::stages) {
        /* of all copies of each thread, and of each warp that decodes */
        hd_barrier_init(&s->full[threadIdx.x],
                        shape::loads + (shape::is_fp8 ? shape::loads / 32 : 0));
        hd_barrier_init(&s->empty[threadIdx.x], HD_WR_MULTIPLIES / 32);
    }
    hd_barrier_publish();
    __syncthreads();
    hd_take_turn();
    if (multiplies) {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(shape::multiply_registers));
        hd_wr_multiply(s, hd_wr_find_job<shape>(a, share), share);
    } else {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(shape::load_registers));
        hd_wr_job const j = hd_wr_find_job<shape>(a, share);
        hd_wr_loader<shape>(s, j).run();
    }
    if (share == 1) return;
    hd_wr_sync_cluster();
    if (multiplies) hd_wr_join(s, hd_wr_find_job<shape>(a, share), share);
    hd_wr_sync_cluster(); /* nobody still reads this block's sums */
}

/* ---- choosing ---- */

/* Blocks that share a tile: matrices of few rows make few tiles. */
static inline int hd_wr_share(const hd_gemm_args *a)
{
    int64_t const rows = (int64_t)a->n * a->g;
    int           share = 1;
    while (share < HD_WR_CLUSTER && rows * share < 1024 && a->k / HD_WR_K >= 16 * share) share *= 2;
    return share;
}

#define HD_WR_PROCESSORS 132 /* of an H200 */

template <typename shape> static inline int64_t hd_wr_blocks(const hd_gemm_args *a)
{
    return (int64_t)hd_blocks(a->n, shape::rows) * hd_blocks(a->t, shape::tokens) * a->g *
           hd_wr_share(a);
}

/* Whether tiles of this shape occupy most of the GPU. */
template <typename shape> static inline bool hd_wr_occupies(const hd_gemm_args *a)
{
    return hd_wr_blocks<shape>(a) * 4 >= HD_WR_PROCESSORS * 3;
}

template <typename shape>
static inline hd_status hd_launch_wr_shape(const hd_gemm_args *a, hd_stream *stream)
{
    size_t const   bytes = sizeof(hd_wr_shared<shape>);
    unsigned const share = (unsigned)hd_wr_share(a);
    dim3 const     grid(hd_blocks(a->n, shape::rows) * share, hd_blocks(a->t, shape::tokens),
                        (unsigned)a->g);
    if (!hd_allow_shared((const void *)hd_wr_gemm<shape>, bytes)) return HD_ERR_DEVICE;
    return hd_launch_clusters(hd_wr_gemm<shape>, grid, share, shape::threads, bytes,
                              hd_cuda_stream(stream), *a, (int)share);
}

/* Others share a tile's columns among more blocks where tiles are few. */
template <typename small> static inline bool hd_wr_supports(const hd_gemm_args *a)
{
    return a->t >= HD_WR_LEAST_TOKENS && a->k > 0 && a->k % HD_WR_K == 0 &&
           hd_fits_grid_y(a->t, small::tokens) && a->g <= 65535 && hd_wr_occupies<small>(a);
}

/* The largest tiles that occupy the GPU, of those that the rows fill. */
template <typename large, typename wide, typename narrow, typename small>
static inline hd_status hd_launch_wr(const hd_gemm_args *a, hd_stream *stream)
{
    if (a->t == 0 || a->n == 0 || a->g == 0) return HD_OK;
    if (a->n > 128 && hd_wr_occupies<large>(a)) return hd_launch_wr_shape<large>(a, stream);
    if (a->n > 64 && hd_wr_occupies<wide>(a)) return hd_launch_wr_shape<wide>(a, stream);
    if (a->n > 64 && hd_wr_occupies<narrow>(a)) return hd_launch_wr_shape<narrow>(a, stream);
    return hd_launch_wr_shape<small>(a, stream);
}

#endif
