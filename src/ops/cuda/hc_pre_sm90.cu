#include <cooperative_groups.h>

#include "ops/cuda/barrier_sm90.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/vectors.cuh"
#include "ops/hc_pre.h"

/* hc_pre of four streams on Hopper.
 *
 * Bound by: latency for a few tokens, FMAs (n * m * d for each token) for many.
 * Grid: clusters of BLOCKS blocks, as many as the GPU holds; each takes a run of tokens, ROUND of
 *   them at a time.  A block owns d / BLOCKS channels of all streams and keeps its columns of fn in
 *   registers, loaded before the kernel in front has ended and used for all of its tokens.
 * Threads: `columns` of them side by side have `vectors` vectors each of a row of fn, `groups`
 *   of them `rows` rows each.  The sums of a token meet in its warp, in its block, then in the
 *   cluster: each block stores those that x needs into all of them, the others into the one that
 *   makes the token's post and comb.
 * Streams: copied into shared memory, those of the next round while this one is worked on.
 * Rounds: while the sums of one travel through the cluster the next one's are made.
 * Sums: f32, always in the same order: a token does not depend on the others.
 * comb: one thread for each token, of the blocks in turn, while the other warps write x. */

#define M       4
#define ROWS    ((2 + M) * M)
#define BLOCKS  16
#define ROUND   8
#define JOINED  8 /* sums of a warp, and what fills them up */
#define OWN     (ROWS - M)
#define WAITING 32 /* tokens of a block whose comb it makes, all at once */
#define BUFFERS 3  /* of streams: of a round that is weighed, added up, copied */
static_assert(ROUND * M <= 32 && OWN <= 32, "a warp for each kind of sum");
static_assert(2 * ROUND <= 16 && OWN / 4 <= 16, "half a warp sends each kind");
static_assert(ROUND <= BLOCKS, "a block makes comb for one token of a round");
static_assert(BLOCKS * WAITING % ROUND == 0, "no round has tokens of two runs that wait");
static_assert(WAITING == 32, "a lane for each token that waits");

template <int columns_, int vectors_, int rows_> struct mix_shape {
    static constexpr int columns = columns_, vectors = vectors_;
    static constexpr int rows = rows_, groups = ROWS / rows;
    static constexpr int threads = columns * groups, warps = threads / 32;
    static constexpr int sum_warps = columns / 32;             /* whose sums make one */
    static constexpr int tokens = vectors * rows > 16 ? 1 : 2; /* side by side */
    static constexpr int widest = vectors * columns * 4 * BLOCKS / M;
    static_assert(rows < JOINED, "a warp joins its rows and the squares");
};
typedef mix_shape<128, 2, 6> narrow;
typedef mix_shape<64, 7, 4>  wide;

template <typename shape> struct mix_shared {
    float4   shared[2][BLOCKS][ROUND][2]; /* sums for all: of the M rows of pre, of the squares */
    float4   own[2][BLOCKS][OWN / 4];     /* of the other rows, of this block's token */
    float    part[ROUND][shape::warps * JOINED + 4]; /* tokens on different banks */
    float    weight[2][ROUND][M];
    float    waiting[WAITING][M * M + 1]; /* logits of comb; rows on different banks */
    uint64_t barrier[2];
};

/* What a thread knows of its place. */
struct mix_place {
    int     rank;     /* of the block in its cluster */
    int     vectors;  /* of a stream that are the block's */
    int     first, n; /* tokens of the cluster */
    int     most;     /* of a round */
    float4 *streams;  /* [BUFFERS][most][M * vectors] shared; as many as there are rounds */
};

/* Tokens that are worked on together. */
struct mix_round {
    int      at, n;   /* the first, counted from the cluster's first; how many: none if n <= 0 */
    int      streams; /* of the buffers */
    int      sums;    /* of the two buffers of sums */
    uint32_t parity;  /* of its barrier */
};

static __host__ __device__ __forceinline__ int tokens_each(int t, int clusters)
{
    return (t + clusters - 1) / clusters;
}

static __device__ __forceinline__ mix_place find_place(const hd_hc_pre_args &a, float4 *streams)
{
    int const clusters = (int)gridDim.x / BLOCKS, cluster = (int)blockIdx.x / BLOCKS;
    int const each = tokens_each(a.t, clusters), first = cluster * each;
    return {(int)blockIdx.x % BLOCKS, a.d / (4 * BLOCKS), first,
            min(each, a.t - first),   min(each, ROUND),   streams};
}

static __device__ __forceinline__ mix_round round_of(const mix_place &p, int i)
{
    int const at = i * p.most;
    return {at, min(p.most, p.n - at), i % BUFFERS, i % 2, (uint32_t)(i / 2) & 1};
}

/* Where the block's vector v of a token begins among the columns of fn. */
static __device__ __forceinline__ int column_of(const hd_hc_pre_args &a, const mix_place &p, int v)
{
    return v / p.vectors * a.d + (p.rank * p.vectors + v % p.vectors) * 4;
}

/* The block's vectors of token i of a round. */
static __device__ __forceinline__ float4 *streams_of(const mix_place &p, const mix_round &r, int i)
{
    return p.streams + (r.streams * p.most + i) * M * p.vectors;
}

/* Begins copying the streams of a round; each group of threads takes every groups-th token. */
template <typename shape>
static __device__ void copy_round(const hd_hc_pre_args &a, const mix_place &p, const mix_round &r)
{
    bool const is_wide = hd_is_wide(a.s, a.d);
    for (int i = (int)threadIdx.x / shape::columns; i < r.n; i += shape::groups)
        for (int v = (int)threadIdx.x % shape::columns; v < M * p.vectors; v += shape::columns) {
            const float *const from =
                a.s + (int64_t)(p.first + r.at + i) * M * a.d + column_of(a, p, v);
            float *const to = (float *)(streams_of(p, r, i) + v);
            if (is_wide)
                hd_copy_16(to, from);
            else
                for (int c = 0; c < 4; c++) hd_copy_4(to + c, from + c);
        }
    hd_copy_commit();
}

/* ---- sums ---- */

/* The warp's sums of the tokens of the round: products with its rows, and the squares. */
template <typename shape>
static __device__ __forceinline__ void add_up(const mix_place &p, const mix_round &round,
                                              const float4       fn[shape::vectors][shape::rows],
                                              mix_shared<shape> &s)
{
    constexpr int each = 32 / JOINED;
    int const     warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
#pragma unroll shape::tokens
    for (int i = 0; i < round.n; i++) {
        const float4 *const streams = streams_of(p, round, i);
        float               sum[JOINED] = {};
#pragma unroll
        for (int j = 0; j < shape::vectors; j++) {
            int const    v = (int)threadIdx.x % shape::columns + j * shape::columns;
            float4 const x = v < M * p.vectors ? streams[v] : float4{0, 0, 0, 0};
#pragma unroll
            for (int r = 0; r < shape::rows; r++) sum[r] = hd_dot4(fn[j][r], x, sum[r]);
            sum[shape::rows] = hd_dot4(x, x, sum[shape::rows]);
        }
        float const own = hd_warp_join<JOINED>(sum);
        if (lane % each == 0) s.part[i][warp * JOINED + lane / each] = own;
    }
}

/* The block's sum of a row for token i of the round; that of the squares for row ROWS. */
template <typename shape>
static __device__ __forceinline__ float block_sum(const mix_shared<shape> &s, int i, int row)
{
    int const first = row == ROWS ? 0 : row / shape::rows * shape::sum_warps;
    int const at = row == ROWS ? shape::rows : row % shape::rows;
    float     sum = s.part[i][first * JOINED + at];
#pragma unroll
    for (int w = 1; w < shape::sum_warps; w++) sum += s.part[i][(first + w) * JOINED + at];
    return sum;
}

/* The token of the round whose comb is made by block `rank`; n or more: there is none. */
static __device__ __forceinline__ int token_of(const mix_round &r, int rank)
{
    return (rank - r.at % BLOCKS + BLOCKS) % BLOCKS;
}

/* Stores the block's sums of the tokens of the round in the blocks of the cluster, each warp in its
 * own ones. */
template <typename shape>
static __device__ void send_sums(mix_shared<shape> &s, const mix_place &p, const mix_round &r)
{
    int const  lane = (int)threadIdx.x % 32, quad = lane % 16;
    bool const is_own = lane >= 16;
    for (int to = (int)threadIdx.x / 32; to < BLOCKS; to += shape::warps) {
        int const i = is_own ? token_of(r, to) : lane / 2;
        if (i >= r.n || (is_own && quad >= OWN / 4)) continue;
        int const     first = is_own ? M + 4 * quad : lane % 2 == 0 ? 0 : ROWS;
        bool const    is_square = first == ROWS;
        float4 *const at =
            is_own ? &s.own[r.sums][p.rank][quad] : &s.shared[r.sums][p.rank][i][lane % 2];
        float4 const sum = {block_sum(s, i, first), is_square ? 0 : block_sum(s, i, first + 1),
                            is_square ? 0 : block_sum(s, i, first + 2),
                            is_square ? 0 : block_sum(s, i, first + 3)};
        hd_store4_at(hd_cluster_address(at, (uint32_t)to), sum,
                     hd_cluster_address(&s.barrier[r.sums], (uint32_t)to));
    }
}

/* Bytes that this block will get in a round. */
static __device__ __forceinline__ uint32_t round_bytes(const mix_place &p, const mix_round &r)
{
    int const vectors = 2 * r.n + (token_of(r, p.rank) < r.n ? OWN / 4 : 0);
    return (uint32_t)(vectors * BLOCKS * sizeof(float4));
}

/* z from the sums of all blocks for one row, which stand `step` floats apart, and for the squares
 * of token i. */
template <typename shape>
static __device__ __forceinline__ float find_z(const hd_hc_pre_args &a, const mix_shared<shape> &s,
                                               int buffer, int i, const float *sums, int step)
{
    float dot = 0, square = 0;
#pragma unroll
    for (int b = 0; b < BLOCKS; b++) {
        dot += sums[b * step];
        square += s.shared[buffer][b][i][1].x;
    }
    return dot * rsqrtf(square / (float)(M * a.d) + a.eps);
}

/* ---- comb ---- */

/* 1 / x to two roundings, for normal x whose reciprocal is normal. */
static __device__ __forceinline__ float reciprocal(float x)
{
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}

static __device__ __forceinline__ void softmax(const float *z, float eps, float out[M])
{
    float const largest = fmaxf(fmaxf(z[0], z[1]), fmaxf(z[2], z[3]));
    float       sum = 0;
#pragma unroll
    for (int j = 0; j < M; j++) sum += out[j] = expf(z[j] - largest);
    float const share = reciprocal(sum);
#pragma unroll
    for (int j = 0; j < M; j++) out[j] = fmaf(out[j], share, eps);
}

/* The factors of lines, and one over them. */
struct line_scales {
    float inverse[M], scale[M];
};

/* scale[i] /= sum of line i + eps, where line i is scale[i] * k[i][.] * other[.]; so one over it
 * becomes the sum of k[i][.] * other[.], and eps times what it was. */
static __device__ __forceinline__ void rescale(const float k[M][M], const float other[M], float eps,
                                               line_scales &s)
{
#pragma unroll
    for (int i = 0; i < M; i++) {
        float const low = fmaf(k[i][1], other[1], fmaf(k[i][0], other[0], eps * s.inverse[i]));
        s.inverse[i] = low + fmaf(k[i][3], other[3], k[i][2] * other[2]);
        s.scale[i] = reciprocal(s.inverse[i]);
    }
}

/* comb of one token, by one thread.  Dividing rows and columns is scaling them: the factors of both
 * are kept instead of the matrix, so a pass is four short sums that do not wait for each other.
 * A pass errs by 6 * 2^-24 at most, of which two are the reciprocal's: 12 an iteration, of the
 * 4 * (m + 4) that are allowed. */
static __device__ void balance(const hd_hc_pre_args &a, const float *z, float *comb)
{
    float const eps = fmaxf(a.hc_eps, 0x1p-126f); /* no sum is below */
    float       k[M][M], across[M][M];
    line_scales row, column;
#pragma unroll
    for (int i = 0; i < M; i++) {
        softmax(z + i * M, a.hc_eps, k[i]);
        row.scale[i] = row.inverse[i] = column.inverse[i] = 1;
#pragma unroll
        for (int j = 0; j < M; j++) across[j][i] = k[i][j];
    }
    rescale(across, row.scale, eps, column);
    for (int pass = 1; pass < a.iters; pass++) {
        rescale(k, column.scale, eps, row);
        rescale(across, row.scale, eps, column);
    }
#pragma unroll
    for (int i = 0; i < M; i++)
#pragma unroll
        for (int j = 0; j < M; j++) comb[i * M + j] = row.scale[i] * k[i][j] * column.scale[j];
}

/* comb of the block's tokens that wait, as soon as none of them is missing, by one warp. */
template <typename shape>
static __device__ __forceinline__ void balance_waiting(const hd_hc_pre_args &a, const mix_place &p,
                                                       const mix_round         &r,
                                                       const mix_shared<shape> &s)
{
    int const run = BLOCKS * WAITING, end = r.at + r.n, lane = (int)threadIdx.x;
    int const token = r.at / run * run + lane * BLOCKS + p.rank;
    if (end % run != 0 && end != p.n) return;
    if (token < end) balance(a, s.waiting[lane], a.comb + (int64_t)(p.first + token) * (M * M));
}

/* ---- the other outputs ---- */

static __device__ __forceinline__ float sigmoid(float x) { return 1 / (1 + expf(-x)); }

/* The row of fn, its gain and its base, that a thread of the first two warps works on: each of the
 * first weighs one stream of one token, each of the second makes one number of post or comb. */
struct mix_row {
    int   row; /* -1: none */
    float gain, base;
};

static __device__ __forceinline__ mix_row find_row(const hd_hc_pre_args &a)
{
    int const thread = (int)threadIdx.x, row = thread < 32 ? thread % M : thread - 32 + M;
    if (row >= ROWS) return {-1, 0, 0};
    return {row, a.scale[row < M ? 0 : row < 2 * M ? 1 : 2], a.base[row]};
}

/* What those threads do with the sums of the round. */
template <typename shape>
static __device__ __forceinline__ void place_z(const hd_hc_pre_args &a, const mix_place &p,
                                               mix_shared<shape> &s, const mix_round &round,
                                               const mix_row &r)
{
    bool const is_own = threadIdx.x >= 32;
    int const  i = is_own ? token_of(round, p.rank) : (int)threadIdx.x / M, token = round.at + i;
    if (r.row < 0 || i >= round.n) return;
    const float *const sums = is_own ? (const float *)s.own[round.sums][0] + r.row - M
                                     : (const float *)s.shared[round.sums][0][i] + r.row;
    int const          step = is_own ? OWN : 8 * ROUND;
    float const        z = fmaf(find_z(a, s, round.sums, i, sums, step), r.gain, r.base);
    if (!is_own)
        s.weight[round.sums][i][r.row] = sigmoid(z) + a.hc_eps;
    else if (r.row < 2 * M)
        a.post[(int64_t)(p.first + token) * M + r.row - M] = 2 * sigmoid(z);
    else
        s.waiting[token / BLOCKS % WAITING][r.row - 2 * M] = z;
}

/* x of the block's channels for the tokens of the round, by all warps but the first. */
template <typename shape>
static __device__ void weigh(const hd_hc_pre_args &a, const mix_place &p, const mix_round &r,
                             const mix_shared<shape> &s)
{
    bool const is_wide = hd_is_wide(a.x, a.d);
    for (int item = (int)threadIdx.x - 32; item < r.n * p.vectors; item += shape::threads - 32) {
        int const           i = item / p.vectors, v = item % p.vectors;
        const float4 *const streams = streams_of(p, r, i) + v;
        float4              sum = {0, 0, 0, 0};
#pragma unroll
        for (int m = 0; m < M; m++) {
            float4 const x = streams[m * p.vectors];
            float const  w = s.weight[r.sums][i][m];
            sum = {fmaf(w, x.x, sum.x), fmaf(w, x.y, sum.y), fmaf(w, x.z, sum.z),
                   fmaf(w, x.w, sum.w)};
        }
        float *const to = a.x + (int64_t)(p.first + r.at + i) * a.d + column_of(a, p, v);
        hd_store4(to, sum, 4, is_wide);
    }
}

/* ---- the kernel ---- */

static __device__ __forceinline__ void open_barriers(uint64_t barrier[2])
{
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; i++) hd_barrier_init(&barrier[i], 1);
        hd_barrier_publish();
    }
    cooperative_groups::this_cluster().barrier_arrive();
}

template <typename shape>
static __device__ __forceinline__ void load_fn(const hd_hc_pre_args &a, const mix_place &p,
                                               float4 fn[shape::vectors][shape::rows])
{
    bool const         is_wide = hd_is_wide(a.fn, a.d);
    int const          row = (int)threadIdx.x / shape::columns * shape::rows;
    const float *const from = a.fn + (int64_t)row * M * a.d;
#pragma unroll
    for (int j = 0; j < shape::vectors; j++) {
        int const v = (int)threadIdx.x % shape::columns + j * shape::columns;
#pragma unroll
        for (int r = 0; r < shape::rows; r++)
            fn[j][r] = v < M * p.vectors
                           ? hd_load4(from + (int64_t)r * M * a.d + column_of(a, p, v), 4, is_wide)
                           : float4{0, 0, 0, 0};
    }
}

/* What is left to do for a round when all blocks have sent their sums. */
template <typename shape>
static __device__ __forceinline__ void receive_sums(const hd_hc_pre_args &a, const mix_place &p,
                                                    const mix_round &r, const mix_row &row,
                                                    mix_shared<shape> &s)
{
    if (threadIdx.x >= 64) return;
    hd_barrier_wait(&s.barrier[r.sums], r.parity);
    place_z(a, p, s, r, row);
}

template <typename shape>
static __global__ void __launch_bounds__(shape::threads, 1) mix_in_clusters(hd_hc_pre_args const a)
{
    extern __shared__ float4 streams[];
    __shared__ mix_shared<shape> s;
    mix_place const              p = find_place(a, streams);
    float4                       fn[shape::vectors][shape::rows];
    open_barriers(s.barrier);
    hd_release_next();
    load_fn<shape>(a, p, fn);
    mix_row const row = find_row(a);
    hd_await_previous();
    copy_round<shape>(a, p, round_of(p, 0));
    cooperative_groups::this_cluster().barrier_wait();
    int const rounds = (p.n + p.most - 1) / p.most;
    for (int i = 0; i <= rounds; i++) {
        mix_round const r = round_of(p, i), last = round_of(p, i - 1);
        if (r.n > 0) {
            if (threadIdx.x == 0) hd_barrier_expect(&s.barrier[r.sums], round_bytes(p, r));
            hd_copy_wait<0>();
            __syncthreads(); /* its streams are there, and nobody reads those before the last */
            copy_round<shape>(a, p, round_of(p, i + 1));
            add_up<shape>(p, r, fn, s);
        }
        if (i > 0) receive_sums(a, p, last, row, s);
        __syncthreads();
        if (r.n > 0) send_sums(s, p, r);
        if (i == 0) continue;
        if (threadIdx.x < 32)
            balance_waiting(a, p, last, s);
        else
            weigh(a, p, last, s);
    }
}

template <typename shape> static hd_status launch(const hd_hc_pre_args *a, hd_stream *stream)
{
    void (*const kernel)(hd_hc_pre_args) = mix_in_clusters<shape>;
    size_t const token = (size_t)M * a->d / BLOCKS * sizeof(float);
    if (!hd_allow_shared((const void *)kernel, BUFFERS * ROUND * token)) return HD_ERR_DEVICE;
    int const fit =
        hd_resident_clusters((const void *)kernel, BLOCKS, shape::threads, BUFFERS * ROUND * token);
    if (fit < 1) return hd_hc_pre_cuda(a, stream); /* a part of a GPU without room for one */
    int const    each = tokens_each(a->t, fit), buffers = min((each + ROUND - 1) / ROUND, BUFFERS);
    size_t const bytes = token * (size_t)(each > ROUND ? buffers * ROUND : each);
    return hd_launch_clusters(kernel, (unsigned)tokens_each(a->t, each) * BLOCKS, BLOCKS,
                              shape::threads, bytes, hd_cuda_stream(stream), *a);
}

bool hd_hc_pre_sm90_supports(const void *args)
{
    const hd_hc_pre_args *const a = (const hd_hc_pre_args *)args;
    return a->m == M && a->d > 0 && a->d % (4 * BLOCKS) == 0 && a->d <= wide::widest;
}

hd_status hd_hc_pre_sm90(const void *args, hd_stream *stream)
{
    const hd_hc_pre_args *const a = (const hd_hc_pre_args *)args;
    if (a->t == 0) return HD_OK;
    return a->d <= narrow::widest ? launch<narrow>(a, stream) : launch<wide>(a, stream);
}
