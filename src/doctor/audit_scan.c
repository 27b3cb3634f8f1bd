#include "doctor/audit_scan.h"

#include <math.h>
#include <string.h>

#include "base/file.h"
#include "quant/bf16.h"
#include "quant/fp4.h"
#include "quant/fp8.h"
#include "weights/tensor_take.h"

#define PART_BYTES ((int64_t)4 << 20)
#define N_CODES    8 /* magnitudes of E2M1 */

/* Blocks by scale and by their largest code: all that is wanted of them follows from it. */
typedef int64_t block_counts[256][N_CODES];

struct hd_scanner {
    block_counts  counts;
    hd_scale_bins bins;    /* of all that was scanned */
    uint8_t      *largest; /* [cap] of each column block of a band of FP8 codes; owned */
    int64_t       cap;
};

hd_scanner *hd_scanner_make(void) { return hd_memory_alloc(sizeof(hd_scanner)); }

void hd_scanner_free(hd_scanner *s)
{
    if (s) hd_memory_free(s->largest);
    hd_memory_free(s);
}

static void count(hd_tally *t, int64_t n, int64_t first)
{
    if (n > 0 && t->n == 0) t->first = first;
    t->n += n;
}

static int64_t min_i64(int64_t a, int64_t b) { return a < b ? a : b; }

void hd_scanner_add_bins(const hd_scanner *s, hd_scale_bins *to)
{
    for (int f = 0; f < HD_N_FORMATS; f++)
        for (int i = 0; i < HD_SCALE_BINS; i++) to->n[f][i] += s->bins.n[f][i];
}

static void count_scale(hd_scanner *s, hd_format f, double scale, int64_t n)
{
    if (!isfinite(scale) || scale <= 0) return;
    int const at = ilogb(scale) - HD_SCALE_FIRST;
    s->bins.n[f][at < 0 ? 0 : at < HD_SCALE_BINS ? at : HD_SCALE_BINS - 1] += n;
}

/* ---- values as they are ---- */

/* The largest magnitude as bits; magnitudes of floats order as their bits do. */
static uint32_t largest_16(const uint8_t *data, int64_t n)
{
    uint16_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        uint16_t bits;
        memcpy(&bits, data + 2 * i, sizeof bits);
        bits &= 0x7FFF;
        most = bits > most ? bits : most;
    }
    return most;
}

static uint32_t largest_32(const uint8_t *data, int64_t n)
{
    uint32_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, data + 4 * i, sizeof bits);
        bits &= 0x7FFFFFFF;
        most = bits > most ? bits : most;
    }
    return most;
}

static bool is_float(hd_st_dtype d) { return d == HD_ST_F32 || d == HD_ST_BF16 || d == HD_ST_F16; }

/* Whether all n values are finite, which is quick to see; the largest goes into amax then. */
static bool scan_finite(hd_st_dtype d, const uint8_t *data, int64_t n, double *amax)
{
    float largest;
    if (d == HD_ST_F32) {
        uint32_t const bits = largest_32(data, n);
        memcpy(&largest, &bits, sizeof largest);
    } else {
        uint16_t const bits = (uint16_t)largest_16(data, n);
        largest = d == HD_ST_BF16 ? hd_bf16_to_f32(bits) : hd_f16_to_f32(bits);
    }
    if (!isfinite(largest)) return false;
    *amax = fmax(*amax, (double)largest);
    return true;
}

static void scan_floats(const hd_st_tensor *t, int64_t begin, int64_t end, hd_scan *out)
{
    const uint8_t *const data = t->data + begin * (hd_st_dtype_bits(t->dtype) / 8);
    if (scan_finite(t->dtype, data, end - begin, &out->amax)) return;
    for (int64_t i = begin; i < end; i++) {
        double const x = (double)hd_take_read(t, i);
        count(&out->broken, !isfinite(x), i);
        if (isfinite(x)) out->amax = fmax(out->amax, fabs(x));
    }
}

static void scan_whole(const hd_st_tensor *t, int64_t begin, int64_t end, int32_t limit,
                       hd_scan *out)
{
    bool const is_wide = t->dtype == HD_ST_I64;
    for (int64_t i = begin; i < end; i++) {
        int64_t wide = 0;
        int32_t narrow = 0;
        if (is_wide)
            memcpy(&wide, t->data + 8 * i, sizeof wide);
        else
            memcpy(&narrow, t->data + 4 * i, sizeof narrow);
        int64_t const x = is_wide ? wide : narrow;
        count(&out->outside, x < 0 || x >= limit, i);
    }
}

static void scan_fp8_codes(const hd_st_tensor *t, int64_t begin, int64_t end, hd_scan *out)
{
    for (int64_t i = begin; i < end; i++) {
        double const x = (double)hd_e4m3_to_f32(t->data[i]);
        count(&out->broken, isnan(x), i);
        if (!isnan(x)) out->amax = fmax(out->amax, fabs(x));
    }
}

/* A tensor that is no part of a matrix, as far as its dtype says what its values are. */
static void scan_values(const hd_scanned *m, int64_t begin, int64_t end, hd_scan *out)
{
    const hd_st_tensor *const t = &m->w->st;
    if (is_float(t->dtype))
        scan_floats(t, begin, end, out);
    else if (m->limit > 0)
        scan_whole(t, begin, end, m->limit, out);
    else if (t->dtype == HD_ST_F8_E4M3)
        scan_fp8_codes(t, begin, end, out);
    out->values += end - begin;
}

/* ---- four-bit matrices ---- */

#define EACH_LOW UINT64_C(0x1111111111111111) /* the lowest bit of every code */

/* The largest magnitude of 16 codes in each word: bit by bit from the highest, among the codes
 * that have all bits found so far. */
static unsigned largest_code(uint64_t a, uint64_t b)
{
    uint64_t in_a = EACH_LOW, in_b = EACH_LOW;
    unsigned most = 0;
    for (int bit = 2; bit >= 0; bit--) {
        uint64_t const x = a >> bit & in_a, y = b >> bit & in_b;
        bool const     has = (x | y) != 0;
        in_a = has ? x : in_a;
        in_b = has ? y : in_b;
        most = most << 1 | has;
    }
    return most;
}

static unsigned largest_of_block(const uint8_t *codes, hd_format f)
{
    uint64_t a, b = 0;
    memcpy(&a, codes, sizeof a);
    if (f == HD_FMT_MXFP4) memcpy(&b, codes + sizeof a, sizeof b);
    return largest_code(a, b);
}

/* What a scale of a block whose largest code is `code` may be noted for. */
enum {
    IS_NAN = 1,
    IS_NEGATIVE = 2,
    IS_LOST = 4,
    IS_DENORMAL = 8,
    IS_SATURATED = 16,
    IS_UNEVEN = 32
};

static unsigned judge_e4m3(unsigned scale, unsigned code)
{
    unsigned const magnitude = scale & 0x7F;
    if (magnitude == 0x7F) return IS_NAN;
    if (scale & 0x80) return IS_NEGATIVE;
    if (magnitude == 0) return code ? IS_LOST : 0;
    unsigned const is_uneven =
        magnitude < 8 ? (magnitude & (magnitude - 1)) != 0 : (magnitude & 7) != 0;
    return (magnitude < 8 ? IS_DENORMAL : 0) | (magnitude == 0x7E && code == 7 ? IS_SATURATED : 0) |
           (is_uneven ? IS_UNEVEN : 0);
}

static unsigned judge_e8m0(unsigned scale, unsigned code)
{
    if (scale == 0xFF) return IS_NAN;
    return scale == 0 && code ? IS_DENORMAL : 0;
}

static unsigned judge_block(hd_format f, unsigned scale, unsigned code)
{
    return f == HD_FMT_NVFP4 ? judge_e4m3(scale, code) : judge_e8m0(scale, code);
}

static double scale_value(hd_format f, unsigned scale)
{
    return (double)(f == HD_FMT_NVFP4 ? hd_e4m3_to_f32((uint8_t)scale)
                                      : hd_e8m0_to_f32((uint8_t)scale));
}

#define N_TALLIES 6
static void tallies_of(hd_scan *out, hd_tally *list[N_TALLIES])
{
    hd_tally *const all[N_TALLIES] = {&out->nan,      &out->negative,  &out->lost,
                                      &out->denormal, &out->saturated, &out->uneven};
    memcpy(list, all, sizeof all);
}

/* Where the first block of each kind is that this part has and no part before it had. */
static void find_firsts(const hd_scanned *m, int64_t begin, int64_t end, unsigned kinds,
                        hd_scan *out)
{
    int64_t const bytes = m->format == HD_FMT_NVFP4 ? 8 : 16;
    hd_tally     *list[N_TALLIES];
    tallies_of(out, list);
    for (int64_t i = begin; i < end && kinds; i++) {
        unsigned const code = largest_of_block(m->w->st.data + i * bytes, m->format);
        unsigned const news = judge_block(m->format, m->scale->st.data[i], code) & kinds;
        for (int j = 0; j < N_TALLIES; j++)
            if (news >> j & 1) list[j]->first = i;
        kinds &= ~news;
    }
}

/* Takes the counts of a part into the scan and clears them. */
static void fold_counts(hd_scanner *s, const hd_scanned *m, int64_t begin, int64_t end,
                        hd_scan *out)
{
    hd_tally *list[N_TALLIES];
    unsigned  fresh = 0;
    tallies_of(out, list);
    for (unsigned scale = 0; scale < 256; scale++)
        for (unsigned code = 0; code < N_CODES; code++) {
            int64_t const n = s->counts[scale][code];
            if (n == 0) continue;
            unsigned const kinds = judge_block(m->format, scale, code);
            double const   x = scale_value(m->format, scale);
            count_scale(s, m->format, x, n);
            for (int j = 0; j < N_TALLIES; j++) {
                if (!(kinds >> j & 1)) continue;
                if (list[j]->n == 0) fresh |= 1u << j;
                list[j]->n += n;
            }
            if (x > 0 && (code || m->format == HD_FMT_NVFP4)) {
                out->scale_min = out->scale_max > 0 ? fmin(out->scale_min, x) : x;
                out->scale_max = fmax(out->scale_max, x);
            }
            if (x == 0) out->zero += n;
            if (x > 0) out->amax = fmax(out->amax, x * (double)hd_e2m1_to_f32(code));
        }
    memset(s->counts, 0, sizeof s->counts);
    if (fresh) find_firsts(m, begin, end, fresh, out);
}

static void scan_fp4(hd_scanner *s, const hd_scanned *m, int64_t begin, int64_t end, hd_scan *out)
{
    int64_t const        bytes = m->format == HD_FMT_NVFP4 ? 8 : 16;
    const uint8_t *const codes = m->w->st.data, *const scales = m->scale->st.data;
    for (int64_t i = begin; i < end; i++)
        s->counts[scales[i]][largest_of_block(codes + i * bytes, m->format)]++;
    fold_counts(s, m, begin, end, out);
    out->blocks += end - begin;
    out->values += (end - begin) * bytes * 2;
}

/* ---- FP8 matrices ---- */

static uint8_t largest_7(const uint8_t *codes, int64_t n)
{
    uint8_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        uint8_t const x = codes[i] & 0x7F;
        most = x > most ? x : most;
    }
    return most;
}

/* The largest code of a run, NaN codes apart, which are counted. */
static uint8_t largest_e4m3(const uint8_t *codes, int64_t n, int64_t at, hd_scan *out)
{
    uint8_t most = largest_7(codes, n);
    if (most < 0x7F) return most;
    most = 0;
    for (int64_t i = 0; i < n; i++) {
        uint8_t const x = codes[i] & 0x7F;
        count(&out->broken, x == 0x7F, at + i);
        if (x < 0x7F && x > most) most = x;
    }
    return most;
}

static void judge_fp8_block(double scale, uint8_t code, int64_t at, hd_scan *out)
{
    count(&out->nan, !isfinite(scale), at);
    count(&out->negative, scale < 0, at);
    count(&out->lost, scale == 0 && code, at);
    count(&out->denormal, scale > 0 && scale < 0x1p-126 && code, at);
    out->zero += scale == 0;
    if (!isfinite(scale) || scale <= 0) return;
    int exponent;
    count(&out->uneven, frexp(scale, &exponent) != 0.5, at);
    out->scale_min = out->scale_max > 0 ? fmin(out->scale_min, scale) : scale;
    out->scale_max = fmax(out->scale_max, scale);
    out->amax = fmax(out->amax, scale * (double)hd_e4m3_to_f32(code));
}

/* Bands of 128 rows [begin, end). */
static void scan_fp8(hd_scanner *s, const hd_scanned *m, int64_t begin, int64_t end, hd_scan *out)
{
    int64_t const        columns = (m->k + HD_FP8_BLOCK - 1) / HD_FP8_BLOCK;
    const uint8_t *const codes = m->w->st.data;
    for (int64_t band = begin; band < end; band++) {
        int64_t const last = min_i64((band + 1) * HD_FP8_BLOCK, m->n);
        memset(s->largest, 0, (size_t)columns);
        for (int64_t r = band * HD_FP8_BLOCK; r < last; r++)
            for (int64_t c = 0; c < columns; c++) {
                int64_t const at = r * m->k + c * HD_FP8_BLOCK;
                int64_t const n = min_i64(HD_FP8_BLOCK, m->k - c * HD_FP8_BLOCK);
                uint8_t const x = largest_e4m3(codes + at, n, at, out);
                if (x > s->largest[c]) s->largest[c] = x;
            }
        for (int64_t c = 0; c < columns; c++) {
            double const scale = (double)hd_take_read(&m->scale->st, band * columns + c);
            count_scale(s, m->format, scale, 1);
            judge_fp8_block(scale, s->largest[c], band * columns + c, out);
        }
        out->blocks += columns;
        out->values += (last - band * HD_FP8_BLOCK) * m->k;
    }
}

static bool prepare_fp8(hd_scanner *s, const hd_scanned *m)
{
    int64_t const columns = (m->k + HD_FP8_BLOCK - 1) / HD_FP8_BLOCK;
    if (columns <= s->cap) return true;
    hd_memory_free(s->largest);
    s->largest = hd_memory_alloc((size_t)columns);
    s->cap = s->largest ? columns : 0;
    return s->largest != NULL;
}

/* ---- the whole of an item ---- */

int64_t hd_scanned_bytes(const hd_scanned *m)
{
    return (int64_t)(m->w->st.bytes + (m->scale ? m->scale->st.bytes : 0));
}

/* An item as a number of units, each of some bytes in w and in its scales. */
typedef struct units {
    int64_t n, w_bytes, scale_bytes;
} units;

static units units_of(const hd_scanned *m)
{
    int64_t const size = (int64_t)m->w->st.bytes;
    switch (m->format) {
    case HD_FMT_NVFP4: return (units){size / 8, 8, 1};
    case HD_FMT_MXFP4: return (units){size / 16, 16, 1};
    case HD_FMT_FP8:
        return (units){((int64_t)m->n + HD_FP8_BLOCK - 1) / HD_FP8_BLOCK,
                       (int64_t)m->k * HD_FP8_BLOCK, 0};
    default: break;
    }
    int64_t const bits = hd_st_dtype_bits(m->w->st.dtype);
    return bits < 8 ? (units){size, 1, 0} : (units){hd_st_tensor_count(&m->w->st), bits / 8, 0};
}

static void scan_part(hd_scanner *s, const hd_scanned *m, int64_t begin, int64_t end, hd_scan *out)
{
    if (m->format == HD_FMT_NVFP4 || m->format == HD_FMT_MXFP4)
        scan_fp4(s, m, begin, end, out);
    else if (m->format == HD_FMT_FP8)
        scan_fp8(s, m, begin, end, out);
    else
        scan_values(m, begin, end, out);
}

static double read_multiplier(const hd_tensor *t, bool is_divisor)
{
    if (!t || !is_float(t->st.dtype) || hd_st_tensor_count(&t->st) != 1) return 0;
    float const x = hd_take_read(&t->st, 0);
    return is_divisor ? 1 / (double)x : (double)x;
}

bool hd_scan_item(hd_scanner *s, const hd_scanned *m, hd_scan *out, hd_scan_part_fn *on_part,
                  void *user)
{
    units const   u = units_of(m);
    int64_t const step = u.w_bytes < PART_BYTES ? PART_BYTES / u.w_bytes : 1;
    *out = (hd_scan){.tensor_scale = read_multiplier(m->tensor_scale, m->is_divisor),
                     .input_scale = read_multiplier(m->input_scale, m->is_divisor)};
    if (m->format == HD_FMT_FP8 && !prepare_fp8(s, m)) return false;
    for (int64_t at = 0; at < u.n; at += step) {
        int64_t const        end = min_i64(at + step, u.n);
        const uint8_t *const w = m->w->st.data + at * u.w_bytes;
        int64_t const rest = (int64_t)m->w->st.bytes - at * u.w_bytes; /* a band may be cut */
        int64_t const bytes = min_i64((end - at) * u.w_bytes, rest);
        hd_file_expect(w + bytes, (size_t)min_i64(PART_BYTES, rest - bytes));
        scan_part(s, m, at, end, out);
        hd_file_release(w, (size_t)bytes);
        if (u.scale_bytes)
            hd_file_release(m->scale->st.data + at * u.scale_bytes,
                            (size_t)((end - at) * u.scale_bytes));
        on_part(user, bytes + (end - at) * u.scale_bytes);
    }
    if (m->format == HD_FMT_FP8) { /* a few scales, read beside every part */
        hd_file_release(m->scale->st.data, m->scale->st.bytes);
        on_part(user, (int64_t)m->scale->st.bytes);
    }
    if (m->tensor_scale && out->tensor_scale > 0) out->amax *= out->tensor_scale;
    return true;
}
