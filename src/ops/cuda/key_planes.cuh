#ifndef HD_OPS_CUDA_KEY_PLANES_CUH
#define HD_OPS_CUDA_KEY_PLANES_CUH

#include "barrier_sm90.cuh"
#include "f16_planes.cuh"
#include "fp8_codes.cuh"
#include "rows.cuh"

/* Cache rows and queries of 512 elements as f16 planes in shared memory, for products on the tensor
 * cores.  A row is brought to less than 2^15 by a power of two of its own, its unit.  Then one
 * f16 holds what BF16, FP8 and NVFP4 rows hold, and two f16 (high, and what is left) hold 22 bits
 * of an f32; what lies 2^39 below the row's largest element is lost.
 * A warp makes a row: a lane eight elements at 8 * lane and eight at 8 * lane + 256.
 * Planes: lines of 1 KiB, their units of 16 bytes turned by line % 8, so that ldmatrix meets no
 * bank twice. */

#define HD_KEY_WIDTH 512
#define HD_KEY_LINE  (HD_KEY_WIDTH * 2) /* bytes of a row in a plane                      */
#define HD_KEY_TOP   14                 /* a row over its unit is less than 2^(this + 1)  */
#define HD_KEY_LEAST (-126)             /* the smallest exponent of a unit                */

/* threadIdx.x, read anew by each step of a loop: what follows from it is then not kept in registers
 * from step to step. */
static __device__ __forceinline__ int32_t hd_thread(void)
{
    int32_t i;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(i));
    __builtin_assume(i >= 0 && i < 1024);
    return i;
}

/* 2^e for a normal number; below it the smallest. */
static __device__ __forceinline__ float hd_pow2(int32_t e)
{
    return __uint_as_float((uint32_t)(max(e, -126) + 127) << 23);
}

/* The exponent of the unit of a row whose largest magnitude has these bits (of f32). */
static __device__ __forceinline__ int32_t hd_unit_of_bits(uint32_t amax)
{
    return max((int32_t)(amax >> 23) - 127 - HD_KEY_TOP, HD_KEY_LEAST);
}

static __device__ __forceinline__ uint32_t hd_pack_f16(float low, float high)
{
    __half2 const h = __floats2half2_rn(low, high);
    return *(const uint32_t *)&h;
}

static __device__ __forceinline__ float2 hd_unpack_f16(uint32_t w)
{
    return __half22float2(*(const __half2 *)&w);
}

/* Two f32 to two planes. */
static __device__ __forceinline__ void hd_split_pair(float x, float y, uint32_t *high,
                                                     uint32_t *low)
{
    *high = hd_pack_f16(x, y);
    float2 const h = hd_unpack_f16(*high);
    *low = hd_pack_f16(x - h.x, y - h.y);
}

/* Where unit u of a line stands. */
static __device__ __forceinline__ int32_t hd_key_at(int32_t line, int32_t u)
{
    return line * HD_KEY_LINE + (u ^ (line & 7)) * 16;
}

/* ---- loading ---- */

template <hd_row_format format> struct hd_key_shape {
    static constexpr int planes = format == HD_ROW_F32 ? 2 : 1;
    static constexpr int vectors = 2 * planes; /* of a lane */
};

/* A lane's part of a row as it stands in memory: eight f32 or bf16; or eight codes in front and
 * the code of their scale in z. */
template <hd_row_format format> struct hd_key_bits {
    uint4 v[hd_key_shape<format>::vectors];
};

/* Sixteen bytes whose address is a multiple of four at least. */
static __device__ __forceinline__ uint4 hd_load_16(const uint8_t *p, bool is_wide)
{
    if (is_wide) return *(const uint4 *)p;
    const uint32_t *const w = (const uint32_t *)p;
    return {w[0], w[1], w[2], w[3]};
}

/* Whether elements 8 u .. 8 u + 7 of a row with codes are in its tail; the first half never is. */
static __device__ __forceinline__ bool hd_is_plain(const hd_row_map *m, int32_t u)
{
    return u >= HD_KEY_WIDTH / 16 && u * 8 >= m->coded;
}

/* Elements 8 u .. 8 u + 7 of a line with a row of FP8 or NVFP4; without branches, so that several
 * rows go on at once. */
template <hd_row_format format>
static __device__ __forceinline__ uint4 hd_load_coded(const hd_row_map *m, const uint8_t *line,
                                                      int32_t u)
{
    bool const            is_plain = hd_is_plain(m, u);
    int32_t const         at = format == HD_ROW_FP8 ? u * 8 : u * 4;
    int32_t const         block = format == HD_ROW_FP8 ? HD_ROW_FP8_BLOCK : HD_NVFP4_BLOCK;
    const uint8_t *const  from = line + (is_plain ? m->plain_at + (u * 8 - m->coded) * 2 : at);
    const uint32_t *const w = (const uint32_t *)from;
    uint32_t const        scale = line[m->data_bytes + (is_plain ? 0 : u * 8 / block)];
    if (format == HD_ROW_NVFP4) return {w[0], w[1], is_plain ? w[2] : scale, w[3]};
    uint2 const low = *(const uint2 *)from, high = *(const uint2 *)(from + 8);
    return {low.x, low.y, is_plain ? high.x : scale, high.y};
}

/* A lane's part of an f32 row; is_wide: vectors in it are aligned.  Its second half lies at data +
 * apart. */
static __device__ __forceinline__ hd_key_bits<HD_ROW_F32> hd_load_row(const uint8_t *data,
                                                                      int32_t apart, bool is_wide)
{
    hd_key_bits<HD_ROW_F32> bits;
    const uint8_t *const    from = data + hd_thread() % 32 * 32;
#pragma unroll
    for (int i = 0; i < 4; i++) bits.v[i] = hd_load_16(from + i / 2 * apart + i % 2 * 16, is_wide);
    return bits;
}

/* A lane's part of a copied row. */
template <hd_row_format format>
static __device__ __forceinline__ hd_key_bits<format>
hd_load_line(const hd_row_map *m, const uint8_t *line, int32_t plane_bytes)
{
    int32_t const       lane = hd_thread() % 32;
    hd_key_bits<format> bits;
    if constexpr (format == HD_ROW_F32) {
        bits = hd_load_row(line, plane_bytes, true);
    } else {
#pragma unroll
        for (int i = 0; i < 2; i++)
            bits.v[i] = format == HD_ROW_BF16 ? *(const uint4 *)(line + (lane + 32 * i) * 16)
                                              : hd_load_coded<format>(m, line, lane + 32 * i);
    }
    return bits;
}

/* Bytes of a row's data. */
template <hd_row_format format>
static __device__ __forceinline__ int32_t hd_key_bytes(const hd_row_map *m)
{
    return format == HD_ROW_F32    ? HD_KEY_WIDTH * 4
           : format == HD_ROW_BF16 ? HD_KEY_WIDTH * 2
                                   : m->data_bytes;
}

/* Starts copying four bytes at a time. */
static __device__ __forceinline__ void hd_copy_words(uint8_t *to, const uint8_t *from,
                                                     int32_t bytes)
{
#pragma unroll 1
    for (int32_t at = 0; at < bytes; at += 4) hd_copy_4(to + at, from + at);
}

/* Where a row begins in memory; no data: there is none. */
typedef struct hd_key_place {
    const uint8_t *data, *scales;
} hd_key_place;

/* Starts copying a row to its line, as it stands in memory: its data, then its scales; by one
 * thread.  Of an f32 row the second half goes to the other plane's line.  The barrier gets one
 * arrival; what is not aligned for bulk copies belongs to the thread's next group of copies. */
template <hd_row_format format>
static __device__ __forceinline__ void hd_copy_key(const hd_row_map *m, hd_key_place from,
                                                   bool is_wide, uint8_t *line, int32_t plane_bytes,
                                                   uint64_t *barrier)
{
    constexpr bool has_scales = format == HD_ROW_FP8 || format == HD_ROW_NVFP4;
    int32_t const  bytes = hd_key_bytes<format>(m), first = min(bytes, HD_KEY_LINE);
    bool const     bulk_scales = has_scales && is_wide && m->scale_bytes % 16 == 0;
    if (is_wide) {
        hd_barrier_expect(barrier, (uint32_t)(bytes + (bulk_scales ? m->scale_bytes : 0)));
        hd_bulk_copy(line, from.data, (uint32_t)first, barrier);
        if (format == HD_ROW_F32)
            hd_bulk_copy(line + plane_bytes, from.data + first, (uint32_t)(bytes - first), barrier);
        if (bulk_scales) hd_bulk_copy(line + bytes, from.scales, (uint32_t)m->scale_bytes, barrier);
    } else {
        hd_barrier_arrive(barrier);
        hd_copy_words(line, from.data, first);
        if (format == HD_ROW_F32)
            hd_copy_words(line + plane_bytes, from.data + first, bytes - first);
    }
    if (has_scales && !bulk_scales) hd_copy_words(line + bytes, from.scales, m->scale_bytes);
}

/* ---- units ---- */

static __device__ __forceinline__ uint32_t hd_largest_bits(uint4 v)
{
    return max(
        max(hd_magnitude_bits(__uint_as_float(v.x)), hd_magnitude_bits(__uint_as_float(v.y))),
        max(hd_magnitude_bits(__uint_as_float(v.z)), hd_magnitude_bits(__uint_as_float(v.w))));
}

/* Of eight bf16, as the bits of an f32. */
static __device__ __forceinline__ uint32_t hd_largest_bf16(uint4 v)
{
    constexpr uint32_t magnitude = 0x7fff7fffu;
    uint32_t const     m = __vmaxu2(__vmaxu2(v.x & magnitude, v.y & magnitude),
                                    __vmaxu2(v.z & magnitude, v.w & magnitude));
    return max(m << 16, m & 0xffff0000u);
}

/* The exponent that eight codes and their scale ask for: E4M3 is less than 2^9, E2M1 than 2^3; and
 * if they are all 0, none. */
template <hd_row_format format> static __device__ __forceinline__ int32_t hd_unit_of_codes(uint4 v)
{
    if (format == HD_ROW_FP8)
        return (v.x | v.y) & 0x7f7f7f7fu ? (int32_t)v.z - 127 + 8 - HD_KEY_TOP : HD_KEY_LEAST;
    bool const is_zero = (v.x & 0x77777777u) == 0 || (v.z & 0x7f) == 0;
    return is_zero ? HD_KEY_LEAST : (int32_t)(v.z >> 3 & 15) - 7 + 3 - HD_KEY_TOP;
}

/* The exponent of the unit of the row that the warp holds. */
template <hd_row_format format>
static __device__ __forceinline__ int32_t hd_unit_of_key(const hd_row_map          *m,
                                                         const hd_key_bits<format> &bits,
                                                         int32_t                    lane)
{
    int32_t unit = HD_KEY_LEAST;
#pragma unroll
    for (int i = 0; i < hd_key_shape<format>::vectors; i++) {
        uint4 const v = bits.v[i];
        if (format == HD_ROW_F32) {
            unit = max(unit, hd_unit_of_bits(hd_largest_bits(v)));
        } else {
            int32_t const plain = hd_unit_of_bits(hd_largest_bf16(v));
            int32_t const coded = hd_unit_of_codes<format>(v);
            unit =
                max(unit, format == HD_ROW_BF16 || hd_is_plain(m, lane + 32 * i) ? plain : coded);
        }
    }
    return __reduce_max_sync(0xffffffffu, unit);
}

/* ---- planes ---- */

/* Two bf16 times a power of two. */
static __device__ __forceinline__ uint32_t hd_bf16_to_f16(uint32_t w, float factor)
{
    return hd_pack_f16(__uint_as_float(w << 16) * factor,
                       __uint_as_float(w & 0xffff0000u) * factor);
}

/* Two E2M1 codes, in the low bits: the code's exponent and mantissa become the low bits of f16's
 * exponent and the top of its mantissa, which is 2^-14 times the value. */
static __device__ __forceinline__ uint32_t hd_e2m1_to_f16(uint32_t codes)
{
    constexpr uint32_t two_14 = 0x74007400u;
    uint32_t const     apart = (codes & 0xff) | codes << 12;
    return hd_multiply_pair((apart & 0x00070007u) << 9 | (apart & 0x00080008u) << 12, two_14);
}

/* What codes are multiplied by, twice: their scale over the unit.  It is finite where all codes
 * are 0 and the row's unit comes from smaller elements. */
template <hd_row_format format>
static __device__ __forceinline__ uint32_t hd_code_factor(uint32_t scale, int32_t unit)
{
    if (format == HD_ROW_NVFP4) {
        float const s = hd_unpack_f16(hd_e4m3_to_f16(scale)).x * hd_pow2(-unit);
        return hd_pack_f16(s > 0x1p15f ? 0x1p15f : s, s > 0x1p15f ? 0x1p15f : s);
    }
    float const s =
        scale == 0xff ? __uint_as_float(0x7fc00000) : hd_pow2(min((int32_t)scale - 127 - unit, 15));
    return hd_pack_f16(s, s);
}

/* Eight codes times a factor, which stands twice in f; of NVFP4 in the first word. */
template <hd_row_format format>
static __device__ __forceinline__ uint4 hd_scale_codes(uint2 v, uint32_t f)
{
    if (format == HD_ROW_NVFP4)
        return {hd_multiply_pair(hd_e2m1_to_f16(v.x), f),
                hd_multiply_pair(hd_e2m1_to_f16(v.x >> 8), f),
                hd_multiply_pair(hd_e2m1_to_f16(v.x >> 16), f),
                hd_multiply_pair(hd_e2m1_to_f16(v.x >> 24), f)};
    return {
        hd_multiply_pair(hd_e4m3_to_f16(v.x), f), hd_multiply_pair(hd_e4m3_to_f16(v.x >> 16), f),
        hd_multiply_pair(hd_e4m3_to_f16(v.y), f), hd_multiply_pair(hd_e4m3_to_f16(v.y >> 16), f)};
}

template <hd_row_format format>
static __device__ __forceinline__ uint4 hd_decode_codes(uint4 v, int32_t unit)
{
    return hd_scale_codes<format>({v.x, v.y}, hd_code_factor<format>(v.z, unit));
}

static __device__ __forceinline__ uint4 hd_decode_bf16(uint4 v, float factor)
{
    return {hd_bf16_to_f16(v.x, factor), hd_bf16_to_f16(v.y, factor), hd_bf16_to_f16(v.z, factor),
            hd_bf16_to_f16(v.w, factor)};
}

/* Eight f32 to two planes. */
static __device__ __forceinline__ void hd_split_eight(uint4 a, uint4 b, float factor, uint4 *high,
                                                      uint4 *low)
{
    float4 const x = hd_as_float4(a), y = hd_as_float4(b);
    hd_split_pair(x.x * factor, x.y * factor, &high->x, &low->x);
    hd_split_pair(x.z * factor, x.w * factor, &high->y, &low->y);
    hd_split_pair(y.x * factor, y.y * factor, &high->z, &low->z);
    hd_split_pair(y.z * factor, y.w * factor, &high->w, &low->w);
}

/* Stores the row that the warp holds as a line of its planes, which are plane_bytes apart; the
 * exponent of its unit. */
template <hd_row_format format>
static __device__ __forceinline__ int32_t hd_store_key(const hd_row_map          *m,
                                                       const hd_key_bits<format> &bits,
                                                       uint8_t *planes, int32_t plane_bytes,
                                                       int32_t line)
{
    int32_t const lane = hd_thread() % 32, unit = hd_unit_of_key<format>(m, bits, lane);
    float const   factor = hd_pow2(-unit);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int32_t const  u = lane + 32 * i;
        uint8_t *const to = planes + hd_key_at(line, u);
        if (format == HD_ROW_F32) {
            uint4 high, low;
            hd_split_eight(bits.v[2 * i], bits.v[2 * i + 1], factor, &high, &low);
            *(uint4 *)to = high;
            *(uint4 *)(to + plane_bytes) = low;
        } else {
            uint4 const plain = hd_decode_bf16(bits.v[i], factor);
            uint4 const coded = hd_decode_codes<format>(bits.v[i], unit);
            *(uint4 *)to = format == HD_ROW_BF16 || hd_is_plain(m, u) ? plain : coded;
        }
    }
    return unit;
}

#endif
