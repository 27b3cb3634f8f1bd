#include "ops/cuda/index_heads.cuh"
#include "ops/cuda/rows.cuh"

/* MXFP4 rows of 128 elements and up to 64 heads, on the tensor cores.
 *
 * Bound by: the tensor cores and, as near, by decoding and by weighing the products.
 * Grid: some blocks a token; a warp takes units of 32 rows, which lie in one page, and holds the
 *   heads of the token as operand A.  Rows are operand B, eight at a time: a lane has a block of
 *   32 codes of one row, so the order of k is: word s of each of the four blocks is step s.
 * q that was rounded to MXFP4, or anything else that is small integers times a power of two for
 *   each head, takes s8 operands and s32 sums, which are exact: a row's codes, twice their value,
 *   are shifted by what its scales lie above the lowest (at most SHIFT bits) and stand above a
 *   bias, so that no byte is negative and PRMT can look them up.  Sums begin where the bits of an
 *   s32 are those of an f32; one FFMA.SAT takes that and the bias off and cuts off the negative.
 *   Units with scales further apart form the sums of each block by themselves: the same bits where
 *   the others would do.
 * Any other q is the sum of three bf16 (24 bits, cut off), each a plane in shared memory, the
 *   smallest first; codes times scales fit bf16.  The tensor cores cut off what they add, so half
 *   of k at a time starts from 0. */

#define SHIFT 2

/* The row of a unit whose score a lane ends up with: see gather(). */
static __device__ __forceinline__ int own_row(void)
{
    int const lane = (int)threadIdx.x % 32;
    return lane / 8 * 8 + lane % 4 * 2 + lane / 4 % 2;
}

/* The lane whose own row is row `r` of group i. */
static __device__ __forceinline__ int owner(int i, int r) { return 8 * i + r % 2 * 4 + r / 2; }

/* ---- rows ---- */

/* Where unit u stands in memory: all its rows are there, seen or not. */
typedef struct unit_place {
    const uint8_t *codes, *scales;
} unit_place;

static __device__ __forceinline__ unit_place find_unit(const hd_ix_rows *r, int32_t u)
{
    int32_t const        row = u * HD_IX_UNIT, in_page = row & ((1 << r->page_shift) - 1);
    const uint8_t *const page = r->keys + (int64_t)(row >> r->page_shift) * r->page_bytes;
    return {page + in_page * HD_IX_CODES,
            page + (HD_IX_CODES << r->page_shift) + in_page * HD_IX_SCALES};
}

/* The codes of group i: lane after lane, as they stand. */
static __device__ __forceinline__ uint4 load_codes(const hd_ix_rows *r, unit_place at, int i)
{
    const uint4 *const    wide = (const uint4 *)at.codes + i * 32 + (int)threadIdx.x % 32;
    const uint32_t *const p = (const uint32_t *)wide;
    if (r->is_wide) return __ldg(wide);
    return {__ldg(p), __ldg(p + 1), __ldg(p + 2), __ldg(p + 3)};
}

/* The scales of this lane's row; of rows that are not seen any that are near each other. */
static __device__ __forceinline__ uint32_t pick_scales(const hd_ix_rows *r, const uint32_t *scales,
                                                       int32_t u)
{
    return u * HD_IX_UNIT + own_row() < r->visible ? scales[own_row()] : 0x7f7f7f7fu;
}

/* Starts copying unit u, unless it is not seen. */
static __device__ __forceinline__ void copy_unit(const hd_ix_rows *r, int32_t u, hd_ix_unit *to)
{
    int const lane = (int)threadIdx.x % 32;
    if (u * HD_IX_UNIT < r->visible) {
        unit_place const at = find_unit(r, u);
        if (r->is_wide) {
#pragma unroll
            for (int i = 0; i < HD_IX_GROUPS; i++)
                hd_copy_16(&to->codes[i][lane], (const uint4 *)at.codes + i * 32 + lane);
        } else {
#pragma unroll 1
            for (int i = lane; i < HD_IX_UNIT * HD_IX_CODES / 4; i += 32)
                hd_copy_4((uint32_t *)to->codes + i, (const uint32_t *)at.codes + i);
        }
        hd_copy_4(&to->scales[lane], (const uint32_t *)at.scales + lane);
    }
    hd_copy_commit();
}

/* The scales of a lane's row, as far as all its codes share them. */
typedef struct row_scale {
    float    factor;  /* 2^base, NaN for a row with NaN              */
    int      base;    /* exponent, of a quarter of the codes' values */
    bool     is_near; /* the others are at most 2^SHIFT above        */
    uint32_t powers;  /* a byte each: 2^(scale - base) if is_near    */
} row_scale;

static __device__ __forceinline__ row_scale join_scales(uint32_t scales)
{
    int const  b[4] = {(int)(scales & 255), (int)(scales >> 8 & 255), (int)(scales >> 16 & 255),
                       (int)(scales >> 24)};
    int const  low = min(min(b[0], b[1]), min(b[2], b[3]));
    int const  high = max(max(b[0], b[1]), max(b[2], b[3]));
    bool const is_nan = high == 255;
    row_scale  s;
    s.base = max(low, high - SHIFT);
    s.is_near = is_nan || s.base == low;
    s.factor = is_nan ? __uint_as_float(0x7fc00000) : hd_e8m0_number((uint32_t)s.base);
    uint32_t const shifts = is_nan ? 0 : scales - (uint32_t)s.base * 0x01010101u;
    s.powers = shifts + (shifts >> 1 & 0x01010101u) + 0x01010101u; /* 0, 1, 2 to 1, 2, 4 */
    return s;
}

/* ---- s8 ---- */

/* What eight codes become: bytes of HD_IX_BIAS plus and minus twice their value times a power. */
typedef struct code_table {
    uint32_t plus[2], minus[2];
} code_table;

static __device__ __forceinline__ code_table make_table(uint32_t power)
{
    constexpr uint32_t low = 0x03020100u, high = 0x0C080604u, bias = HD_IX_BIAS * 0x01010101u;
    return {{bias + low * power, bias + high * power}, {bias - low * power, bias - high * power}};
}

/* Eight codes to eight bytes.  PRMT makes 0 of what is found by a code whose upper bit is set. */
static __device__ __forceinline__ void look_up(uint32_t w, const code_table &t, uint32_t out[2])
{
    uint32_t const other = w ^ 0x88888888u;
    uint32_t       plus[2], minus[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        asm("prmt.b32 %0, %1, %2, %3;"
            : "=r"(plus[i])
            : "r"(t.plus[0]), "r"(t.plus[1]), "r"(w >> (16 * i)));
        asm("prmt.b32 %0, %1, %2, %3;"
            : "=r"(minus[i])
            : "r"(t.minus[0]), "r"(t.minus[1]), "r"(other >> (16 * i)));
        out[i] = plus[i] | minus[i];
    }
}

/* c = A B + c0 for 16 x 32 of A and 32 x 8 of B. */
static __device__ __forceinline__ void multiply_s8(uint32_t c[4], const uint4 &a,
                                                   const uint32_t b[2], const uint32_t c0[4])
{
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%10,%11,%12,%13};"
        : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b[0]), "r"(b[1]), "r"(c0[0]), "r"(c0[1]),
          "r"(c0[2]), "r"(c0[3]));
}

/* max(x y + z, 0), at most 1. */
static __device__ __forceinline__ float multiply_cut(float x, float y, float z)
{
    float out;
    asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(out) : "f"(x), "f"(y), "f"(z));
    return out;
}

/* A warp's heads for s8: operand A, and for rows lane / 4 and + 8 of each of its tiles what
 * hd_ix_prepare() made. */
typedef struct s8_heads {
    uint4 a[HD_IX_TILES][HD_IX_STEPS];
    float weight[HD_IX_TILES][2], offset[HD_IX_TILES][2];
} s8_heads;

static __device__ __forceinline__ void read_heads(const hd_ix_shared *s, s8_heads *x)
{
    int const lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int m = 0; m < HD_IX_TILES; m++) {
#pragma unroll
        for (int i = 0; i < HD_IX_STEPS; i++) x->a[m][i] = s->u.s8.fragment[m][i][lane];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float2 const head = s->head[m * 16 + i * 8 + lane / 4];
            x->weight[m][i] = head.x;
            x->offset[m][i] = head.y;
        }
    }
}

/* Scores of eight rows, of which a lane gets its heads' part of rows 2 (lane % 4) and the next. */
static __device__ __forceinline__ void score_near(const s8_heads &x, uint4 codes, uint32_t power,
                                                  float part[2])
{
    uint32_t const   w[HD_IX_STEPS] = {codes.x, codes.y, codes.z, codes.w};
    uint32_t const   start[4] = {HD_IX_MAGIC, HD_IX_MAGIC, HD_IX_MAGIC, HD_IX_MAGIC};
    code_table const table = make_table(power);
    uint32_t         c[HD_IX_TILES][4];
#pragma unroll
    for (int i = 0; i < HD_IX_STEPS; i++) {
        uint32_t b[2];
        look_up(w[i], table, b);
#pragma unroll
        for (int m = 0; m < HD_IX_TILES; m++) multiply_s8(c[m], x.a[m][i], b, i ? c[m] : start);
    }
    part[0] = part[1] = 0;
#pragma unroll
    for (int i = 0; i < HD_IX_TILES * 4; i++) {
        int const   m = i / 4, low = i % 4 / 2;
        float const dot = multiply_cut(__uint_as_float(c[m][i % 4]), 0x1p-22f, x.offset[m][low]);
        part[i % 2] = fmaf(x.weight[m][low], dot, part[i % 2]);
    }
}

/* The exponents of a row's scales over its base, a byte each, 127 more as in an f32; what lies
 * 2^126 below the largest counts as 0. */
static __device__ __forceinline__ uint32_t exponents_over(uint32_t scales, int base)
{
    uint32_t out = 0;
#pragma unroll
    for (int b = 0; b < 4; b++)
        out |= (uint32_t)max((int)(scales >> 8 * b & 255) - base + 127, 0) << 8 * b;
    return out;
}

/* The same where scales lie far apart; `exponents` are those of the lane's two rows. */
static __device__ __forceinline__ void score_far(const s8_heads &x, uint4 codes,
                                                 const uint32_t exponents[2], float part[2])
{
    uint32_t const   w[HD_IX_STEPS] = {codes.x, codes.y, codes.z, codes.w};
    uint32_t const   start[4] = {HD_IX_MAGIC, HD_IX_MAGIC, HD_IX_MAGIC, HD_IX_MAGIC};
    code_table const table = make_table(1);
    uint32_t         b[HD_IX_STEPS][2];
#pragma unroll
    for (int i = 0; i < HD_IX_STEPS; i++) look_up(w[i], table, b[i]);
    part[0] = part[1] = 0;
#pragma unroll
    for (int m = 0; m < HD_IX_TILES; m++) {
        float dot[4] = {};
#pragma unroll 1
        for (int block = 0; block < 4; block++) {
            bool const is_own = (int)threadIdx.x % 4 == block;
            uint32_t   c[4];
#pragma unroll
            for (int i = 0; i < HD_IX_STEPS; i++) {
                uint32_t const only[2] = {is_own ? b[i][0] : HD_IX_BIAS * 0x01010101u,
                                          is_own ? b[i][1] : HD_IX_BIAS * 0x01010101u};
                multiply_s8(c, x.a[m][i], only, i ? c : start);
            }
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float const unit =
                    __uint_as_float((exponents[i % 2] << (24 - 8 * block) & 0xff000000u) >> 1);
                float const sum = fmaf(__uint_as_float(c[i]), 0x1p-22f, x.offset[m][i / 2]);
                dot[i] = fmaf(sum, unit, dot[i]);
            }
        }
#pragma unroll
        for (int i = 0; i < 4; i++)
            part[i % 2] = fmaf(x.weight[m][i / 2], multiply_cut(dot[i], 1.0f, 0.0f), part[i % 2]);
    }
}

/* Adds up the heads' parts: part[2 i + j] of all lanes with the same lane % 4 are parts of row
 * 8 i + 2 (lane % 4) + j; a lane gets the sum of its own row. */
static __device__ __forceinline__ float gather(float part[2 * HD_IX_GROUPS])
{
    int const lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int n = HD_IX_GROUPS, bit = 16; n > 0; n /= 2, bit /= 2) {
        bool const is_upper = lane & bit;
#pragma unroll
        for (int i = 0; i < n; i++) {
            float const sent = is_upper ? part[i] : part[i + n];
            part[i] = (is_upper ? part[i + n] : part[i]) + __shfl_xor_sync(0xffffffffu, sent, bit);
        }
    }
    return part[0];
}
static_assert(HD_IX_GROUPS == 4, "three halvings, for the bits of a lane above its row");

static __device__ __forceinline__ void write_score(const hd_ix_rows *r, int32_t u, float value)
{
    int32_t const row = u * HD_IX_UNIT + own_row();
    if (row < r->cap) r->score[row] = row < r->visible ? value : 0.0f;
}

/* The parts of a group behind those of the groups before. */
static __device__ __forceinline__ void append_parts(float       part[2 * HD_IX_GROUPS],
                                                    const float of_group[2])
{
#pragma unroll
    for (int i = 0; i < 2 * HD_IX_GROUPS - 2; i++) part[i] = part[i + 2];
    part[2 * HD_IX_GROUPS - 2] = of_group[0];
    part[2 * HD_IX_GROUPS - 1] = of_group[1];
}

/* The groups of a unit, one by one, where scales lie far apart. */
static __device__ __forceinline__ void score_unit_far(const s8_heads &x, const hd_ix_unit *unit,
                                                      uint32_t exponents,
                                                      float    part[2 * HD_IX_GROUPS])
{
    int const lane = (int)threadIdx.x % 32, row = lane % 4 * 2;
#pragma unroll 1
    for (int i = 0; i < HD_IX_GROUPS; i++) {
        uint32_t const of_rows[2] = {__shfl_sync(0xffffffffu, exponents, owner(i, row)),
                                     __shfl_sync(0xffffffffu, exponents, owner(i, row + 1))};
        float          of_group[2];
        score_far(x, unit->codes[i][lane], of_rows, of_group);
        append_parts(part, of_group);
    }
}

/* The groups of a unit whose scales are near each other. */
static __device__ __forceinline__ void score_unit_near(const s8_heads &x, const hd_ix_unit *unit,
                                                       uint32_t powers,
                                                       float    part[2 * HD_IX_GROUPS])
{
    int const lane = (int)threadIdx.x % 32;
#pragma unroll 2
    for (int i = 0; i < HD_IX_GROUPS; i++) {
        uint32_t const of_row = __shfl_sync(0xffffffffu, powers, owner(i, lane / 4));
        float          of_group[2];
        score_near(x, unit->codes[i][lane], __byte_perm(of_row, 0, 0x4440 + lane % 4), of_group);
        append_parts(part, of_group);
    }
}

/* Scores units first, first + step, ... of those that are seen, the first of which are on their
 * way; s8. */
static __device__ __forceinline__ void score_units_s8(hd_ix_shared *s, int32_t first, int32_t step)
{
    const hd_ix_rows *const r = &s->rows;
    hd_ix_unit *const       stages = s->u.s8.stage[threadIdx.x / 32];
    s8_heads                x;
    int                     at = 0;
    read_heads(s, &x);
    for (int32_t u = first; u * HD_IX_UNIT < r->visible; u += step) {
        hd_copy_wait<HD_IX_STAGES - 2>();
        __syncwarp(); /* the unit is there, and nobody still reads the one before */
        copy_unit(r, u + (HD_IX_STAGES - 1) * step, &stages[at == 0 ? HD_IX_STAGES - 1 : at - 1]);
        const hd_ix_unit *const unit = &stages[at];
        uint32_t const          scales = pick_scales(r, unit->scales, u);
        row_scale const         own = join_scales(scales);
        float                   part[2 * HD_IX_GROUPS] = {};
        if (__all_sync(0xffffffffu, own.is_near))
            score_unit_near(x, unit, own.powers, part);
        else
            score_unit_far(x, unit, exponents_over(scales, own.base), part);
        /* bytes are twice the codes' values */
        write_score(r, u, gather(part) * 0.5f * own.factor);
        at = at + 1 == HD_IX_STAGES ? 0 : at + 1;
    }
}

/* ---- bf16 ---- */

static __device__ __forceinline__ uint32_t multiply_bf16s(uint32_t a, uint32_t b)
{
    uint32_t out;
    asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
    return out;
}

/* Eight codes to pairs of bf16: codes i and i + 4, times a scale that stands twice in a register.
 * Exponent and mantissa of a code become the low bits of bf16's exponent and the top of its
 * mantissa, 2^-126 times its value. */
static __device__ __forceinline__ void decode_bf16(uint32_t w, uint32_t scale, uint32_t out[4])
{
    constexpr uint32_t magnitude = 0x01C001C0u, sign = 0x80008000u, power = 0x7E807E80u;
    out[0] = (w << 6 & magnitude) | (w << 12 & sign);
    out[1] = (w << 2 & magnitude) | (w << 8 & sign);
    out[2] = (w >> 2 & magnitude) | (w << 4 & sign);
    out[3] = (w >> 6 & magnitude) | (w & sign);
#pragma unroll
    for (int i = 0; i < 4; i++) out[i] = multiply_bf16s(multiply_bf16s(out[i], power), scale);
}

static __device__ __forceinline__ void multiply_bf16(float c[4], const uint32_t a[4], uint32_t b0,
                                                     uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Products of 16 heads from h0 on with the words 2 half and 2 half + 1 of a group's blocks. */
template <int planes>
static __device__ __forceinline__ void dot_half(const hd_ix_shared *s, int h0, int half,
                                                const uint32_t b[HD_IX_STEPS][4], float c[4])
{
    int const row = h0 + (int)threadIdx.x % 16, unit = (int)threadIdx.x % 32 / 16;
#pragma unroll
    for (int p = planes - 1; p >= 0; p--) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int const      step = half * 4 + i;
            uint32_t       a[4];
            const uint8_t *line = s->u.plane[p][row];
            hd_load_matrices(hd_shared_address(line + ((step * 2 + unit) ^ row % 8) * 16), a);
            multiply_bf16(c, a, b[step / 2][i % 2 * 2], b[step / 2][i % 2 * 2 + 1]);
        }
    }
}

/* As score_near(), for any q. */
template <int planes>
static __device__ __forceinline__ void score_planes(const hd_ix_shared *s, uint4 codes,
                                                    uint32_t scale, float part[2])
{
    uint32_t const w[HD_IX_STEPS] = {codes.x, codes.y, codes.z, codes.w};
    uint32_t       b[HD_IX_STEPS][4];
#pragma unroll
    for (int i = 0; i < HD_IX_STEPS; i++) decode_bf16(w[i], scale, b[i]);
    part[0] = part[1] = 0;
#pragma unroll 2
    for (int m = 0; m < HD_IX_TILES; m++) {
        float c[2][4] = {};
        dot_half<planes>(s, m * 16, 0, b, c[0]);
        dot_half<planes>(s, m * 16, 1, b, c[1]);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float const dot = c[0][i] + c[1][i];
            float const w = s->head[m * 16 + i / 2 * 8 + (int)threadIdx.x % 32 / 4].x;
            if (dot > 0 || dot != dot) part[i % 2] = fmaf(w, dot, part[i % 2]);
        }
    }
}

/* The parts of group i of unit u. */
template <int planes>
static __device__ __forceinline__ void score_group(const hd_ix_shared *s, unit_place at, int i,
                                                   uint32_t scales, float of_group[2])
{
    int const      lane = (int)threadIdx.x % 32;
    uint4 const    codes = load_codes(&s->rows, at, i);
    uint32_t const word = __shfl_sync(0xffffffffu, scales, owner(i, lane / 4));
    uint32_t const code = word >> lane % 4 * 8 & 255;
    uint32_t const scale = code == 0 ? 0x0040 : code == 255 ? 0x7fff : code << 7;
    score_planes<planes>(s, codes, scale * 0x10001u, of_group);
}

/* Scores items first, first + step, ...: units, or their groups one by one where there are not
 * enough units for the warps; a row's sum is the same either way. */
template <int planes>
static __device__ __forceinline__ void score_units_bf16(const hd_ix_shared *s, bool is_split,
                                                        int32_t first, int32_t step)
{
    const hd_ix_rows *const r = &s->rows;
    int32_t const           parts = is_split ? HD_IX_GROUPS : 1;
    int32_t const           end = (r->visible + HD_IX_UNIT - 1) / HD_IX_UNIT * parts;
    for (int32_t item = first; item < end; item += step) {
        int32_t const    u = item / parts, only = item % parts;
        unit_place const at = find_unit(r, u);
        uint32_t const   scales = pick_scales(r, (const uint32_t *)at.scales, u);
        float            part[2 * HD_IX_GROUPS] = {};
#pragma unroll 1
        for (int i = 0; i < HD_IX_GROUPS; i++) {
            float of_group[2] = {0, 0};
            if (!is_split || i == only) score_group<planes>(s, at, i, scales, of_group);
            append_parts(part, of_group);
        }
        float const sum = gather(part);
        if (!is_split || (int)threadIdx.x % 32 / 8 == only) write_score(r, u, sum);
    }
}

/* ---- the kernel ---- */

static __global__ void __launch_bounds__(HD_IX_THREADS, 1)
    score_tokens(hd_index_score_args const a, hd_row_map const m, int32_t page_shift)
{
    extern __shared__ __align__(128) uint8_t memory[];
    hd_ix_shared *const                      s = (hd_ix_shared *)memory;
    int64_t const                            t = blockIdx.y;
    int32_t const                            n = (int32_t)gridDim.x, block = (int32_t)blockIdx.x;
    int32_t const first = (int32_t)threadIdx.x / 32 * n + block, step = n * HD_IX_WARPS;
    hd_take_turn();
    hd_ix_rows const r = {a.keys + a.seq[t] * m.seq_bytes,
                          a.score + t * a.cap,
                          m.page_bytes,
                          page_shift,
                          min((a.pos[t] + 1) / a.group, a.cap),
                          a.cap,
                          ((uintptr_t)a.keys & 15) == 0};
    for (int32_t u = first; u * HD_IX_UNIT < a.cap; u += step)
        if (u * HD_IX_UNIT >= r.visible) write_score(&r, u, 0);
    /* a unit's groups may be of as many blocks */
    if (block / HD_IX_GROUPS * HD_IX_UNIT >= r.visible) return;
    if (threadIdx.x == 0) s->rows = r;
    for (int i = 0; i < HD_IX_STAGES - 1; i++)
        copy_unit(&r, first + i * step, &s->u.s8.stage[threadIdx.x / 32][i]);
    int const  planes = hd_ix_prepare(&a, t, s);
    bool const is_split = (int64_t)step * HD_IX_UNIT > r.visible;
    if (planes == 0)
        score_units_s8(s, first, step);
    else if (planes == 1)
        score_units_bf16<1>(s, is_split, first, step);
    else
        score_units_bf16<HD_IX_PLANES>(s, is_split, first, step);
}

/* Blocks of a token: the fewest rounds of the GPU, each as long as a warp's units and as preparing
 * the heads, which is about as long as one of them. */
static unsigned blocks_of_token(int32_t t, int32_t cap)
{
    int64_t const units = (cap + HD_IX_UNIT - 1) / HD_IX_UNIT, sms = hd_sm_count();
    int64_t       best = 1;
    double        least = 0;
    for (int64_t n = 1; n <= sms && n <= units; n++) {
        int64_t const rounds = (t * n + sms - 1) / sms;
        double const  cost = (double)rounds * ((double)units / (double)(n * HD_IX_WARPS) + 1);
        if (n > 1 && cost > least) continue;
        best = n;
        least = cost;
    }
    return (unsigned)best;
}

bool hd_index_score_mma_cuda_supports(const void *args)
{
    const hd_index_score_args *const a = (const hd_index_score_args *)args;
    const hd_row_layout *const       l = &a->layout;
    return hd_row_is_valid(l) && l->format == HD_ROW_MXFP4 && l->d == HD_IX_D && a->d == HD_IX_D &&
           l->page >= HD_IX_UNIT && (l->page & (l->page - 1)) == 0 && a->h > 0 &&
           a->h <= HD_IX_HEADS && a->cap <= 1 << 30 && hd_fits_grid_y(a->t, 1);
}

hd_status hd_index_score_mma_cuda(const void *args, hd_stream *stream)
{
    const hd_index_score_args *const a = (const hd_index_score_args *)args;
    hd_row_map const                 m = hd_row_map_of(&a->layout, a->cap);
    int32_t                          shift = 0;
    if (a->t == 0 || a->cap == 0) return HD_OK;
    while (1 << shift < a->layout.page) shift++;
    if (!hd_allow_shared((const void *)score_tokens, sizeof(hd_ix_shared))) return HD_ERR_DEVICE;
    dim3 const grid(blocks_of_token(a->t, a->cap), (unsigned)a->t);
    return hd_launch(score_tokens, grid, HD_IX_THREADS, sizeof(hd_ix_shared),
                     hd_cuda_stream(stream), *a, m, shift);
}
