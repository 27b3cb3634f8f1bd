#include "ops/cuda/launch.cuh"
#include "ops/topk.h"

/* Bound by bytes: the scores are read five times, from L2 after the first.
 * Grid: a block for each token.  Three counting passes over the digits of the scores' keys find
 * the key of the k-th best; then each warp takes one run of rows, counts what it will write,
 * and, once the warps before it are known, writes it in order.
 * Shared: 8 KiB of counters.  Rows are read in batches, so that many loads are on their way. */

#define THREADS 1024
#define WARPS   (THREADS / 32)
#define DIGIT   11 /* bits: 32 = 11 + 11 + 10 */
#define BINS    (1 << DIGIT)
#define BATCH   8
static_assert(BINS == 2 * THREADS, "a thread sums two bins");

/* Rows whose key is above the cut are taken, and the first `ties` of those that stand on it. */
typedef struct cut {
    uint32_t key;
    int32_t  ties;
} cut;

/* Rows above the cut and rows on it. */
typedef struct tally {
    int32_t above, equal;
} tally;

/* Orders as scores do, -0 as 0, NaN lowest. */
static __device__ __forceinline__ uint32_t score_key(float score)
{
    if (score != score) return 0;
    uint32_t const u = __float_as_uint(score + 0.0f);
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}

/* Keys of rows first, first + step, ...; what lies at or behind `end` is not read. */
static __device__ __forceinline__ void load_keys(const float *score, int32_t first, int32_t step,
                                                 int32_t end, uint32_t key[BATCH])
{
#pragma unroll
    for (int i = 0; i < BATCH; i++) {
        int64_t const row = first + (int64_t)i * step;
        key[i] = row < end ? score_key(score[row]) : 0;
    }
}

/* Sum of x over the threads above this one, for the whole block; scratch is [WARPS]. */
static __device__ int32_t sum_above(int32_t x, int32_t *scratch)
{
    int const lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    int32_t   sum = x;
    for (int o = 1; o < 32; o *= 2) {
        int32_t const other = __shfl_down_sync(0xffffffffu, sum, o);
        if (lane + o < 32) sum += other;
    }
    if (lane == 0) scratch[warp] = sum;
    __syncthreads();
    for (int w = warp + 1; w < WARPS; w++) sum += scratch[w];
    __syncthreads();
    return sum - x;
}

/* Counts bits [shift, top) of all keys that are the cut's from bit `top` up. */
static __device__ void count_digits(const float *score, int32_t n, uint32_t prefix, int top,
                                    int shift, int32_t *bins)
{
    uint32_t const mask = (1u << (top - shift)) - 1;
    for (int32_t i = (int32_t)threadIdx.x; i < BINS; i += THREADS) bins[i] = 0;
    __syncthreads();
    for (int32_t first = (int32_t)threadIdx.x; first < n; first += BATCH * THREADS) {
        uint32_t key[BATCH];
        load_keys(score, first, THREADS, n, key);
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
            bool const is_in = first + (int64_t)i * THREADS < n;
            if (is_in && (top == 32 || key[i] >> top == prefix >> top))
                atomicAdd(&bins[key[i] >> shift & mask], 1);
        }
    }
    __syncthreads();
}

/* Narrows the cut to the bin that holds the c.ties-th largest key. */
static __device__ cut narrow_cut(cut c, int shift, const int32_t *bins, int32_t *scratch)
{
    __shared__ cut found;
    int const      low = 2 * (int)threadIdx.x;
    int32_t const  above = sum_above(bins[low] + bins[low + 1], scratch);
    for (int i = 0; i < 2; i++) {
        int32_t const better = i == 0 ? above + bins[low + 1] : above;
        if (better >= c.ties || better + bins[low + i] < c.ties) continue;
        found.key = c.key | (uint32_t)(low + i) << shift;
        found.ties = c.ties - better;
    }
    __syncthreads();
    cut const next = found;
    __syncthreads();
    return next;
}

/* The cut that takes k of n scores; 0 < k < n. */
static __device__ cut find_cut(const float *score, int32_t n, int32_t k)
{
    __shared__ int32_t bins[BINS], scratch[WARPS];
    cut                c = {0, k};
    for (int top = 32; top > 0; top -= DIGIT) {
        int const shift = max(top - DIGIT, 0);
        count_digits(score, n, c.key, top, shift, bins);
        c = narrow_cut(c, shift, bins, scratch);
    }
    return c;
}

/* Counts rows [first, end), for a warp: every lane gets the whole. */
static __device__ tally count_run(const float *score, int32_t first, int32_t end, uint32_t cut_key)
{
    int32_t const lane = (int32_t)threadIdx.x % 32;
    tally         sum = {0, 0};
    for (int32_t at = first; at < end; at += 32 * BATCH) {
        uint32_t key[BATCH];
        load_keys(score, at + lane, 32, end, key);
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
            bool const is_in = at + 32 * i + lane < end;
            sum.above += is_in && key[i] > cut_key;
            sum.equal += is_in && key[i] == cut_key;
        }
    }
    sum.above = (int32_t)__reduce_add_sync(0xffffffffu, sum.above);
    sum.equal = (int32_t)__reduce_add_sync(0xffffffffu, sum.equal);
    return sum;
}

/* Writes what is taken of 32 rows, one a lane; moves *before behind them. */
static __device__ void write_rows(int32_t row, bool is_above, bool is_equal, cut c, tally *before,
                                  int32_t *ids)
{
    uint32_t const lower = (1u << threadIdx.x % 32) - 1;
    uint32_t const above = __ballot_sync(0xffffffffu, is_above);
    uint32_t const equal = __ballot_sync(0xffffffffu, is_equal);
    int32_t const  rank = before->equal + __popc(equal & lower);
    int32_t const  place = before->above + __popc(above & lower) + min(rank, c.ties);
    if (is_above || (is_equal && rank < c.ties)) ids[place] = row;
    before->above += __popc(above);
    before->equal += __popc(equal);
}

static __device__ void write_run(const float *score, int32_t first, int32_t end, cut c,
                                 tally before, int32_t *ids)
{
    int32_t const lane = (int32_t)threadIdx.x % 32;
    for (int32_t at = first; at < end; at += 32 * BATCH) {
        uint32_t key[BATCH];
        load_keys(score, at + lane, 32, end, key);
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
            int32_t const row = at + 32 * i + lane;
            bool const    is_in = row < end;
            write_rows(row, is_in && key[i] > c.key, is_in && key[i] == c.key, c, &before, ids);
        }
    }
}

/* Lists the k best of n scores by rising row; 0 < k < n. */
static __device__ void list_best(const float *score, int32_t n, int32_t k, int32_t *ids)
{
    __shared__ tally counted[WARPS];
    int32_t const    warp = (int32_t)threadIdx.x / 32;
    int32_t const    run = (n + WARPS - 1) / WARPS;
    int32_t const    first = min(n, warp * run), end = min(n, first + run);
    cut const        c = find_cut(score, n, k);
    tally const      own = count_run(score, first, end, c.key);
    if (threadIdx.x % 32 == 0) counted[warp] = own;
    __syncthreads();
    tally before = {0, 0};
    for (int32_t w = 0; w < warp; w++) {
        before.above += counted[w].above;
        before.equal += counted[w].equal;
    }
    write_run(score, first, end, c, before, ids);
}

static __global__ void __launch_bounds__(THREADS, 1) list_rows(hd_topk_args const a)
{
    int64_t const  t = blockIdx.x;
    int32_t const  visible = min((a.pos[t] + 1) / a.group, a.n);
    int32_t *const ids = a.ids + t * a.k;
    if (visible > a.k)
        list_best(a.score + t * a.n, visible, a.k, ids);
    else
        for (int32_t i = (int32_t)threadIdx.x; i < a.k; i += THREADS) ids[i] = i < visible ? i : -1;
}

/* Row numbers are added up in 32 bits. */
bool hd_topk_cuda_supports(const void *args) { return ((const hd_topk_args *)args)->n <= 1 << 30; }

hd_status hd_topk_cuda(const void *args, hd_stream *stream)
{
    const hd_topk_args *const a = (const hd_topk_args *)args;
    if (a->t == 0 || a->k == 0) return HD_OK;
    list_rows<<<(unsigned)a->t, THREADS, 0, hd_cuda_stream(stream)>>>(*a);
    return hd_launched();
}
