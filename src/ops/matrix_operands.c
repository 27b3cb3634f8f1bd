#include "ops/matrix_operands.h"

#include <math.h>

#include "quant/bf16.h"
#include "quant/fp4.h"
#include "quant/fp8.h"
#include "quant/tiles.h"

const char *hd_matrix_broken_limit(hd_format f, int32_t n, int32_t k)
{
    bool const is_tiles = f != hd_format_in_rows(f);
    if (is_tiles && n % HD_TILES_ROWS) return "n % 32 == 0";
    if (is_tiles && k % HD_TILES_COLS) return "k % 64 == 0";
    if (f == HD_FMT_MXFP4 && k % HD_MXFP4_BLOCK) return "k % 32 == 0";
    if (f == HD_FMT_NVFP4 && k % HD_NVFP4_BLOCK) return "k % 16 == 0";
    return NULL;
}

hd_operand hd_matrix_w_operand(hd_format f, size_t slot, int64_t n, int32_t k)
{
    hd_format const rows = hd_format_in_rows(f);
    bool const      is_four_bit = rows == HD_FMT_MXFP4 || rows == HD_FMT_NVFP4;
    hd_dtype const  dtype = f == HD_FMT_F32 ? HD_F32 : f == HD_FMT_BF16 ? HD_BF16 : HD_U8;
    int64_t const   shape[] = {n, is_four_bit ? k / 2 : k};
    return hd_operand_make("w", HD_IN, dtype, slot, shape, 2);
}

hd_operand hd_matrix_sf_operand(hd_format f, size_t slot, int64_t n, int32_t k)
{
    int64_t const shape[] = {hd_matrix_sf_rows(f, n), hd_matrix_sf_cols(f, k)};
    return hd_operand_make("sf", HD_IN, f == HD_FMT_FP8 ? HD_F32 : HD_U8, slot, shape, 2);
}

/* ---- values ---- */

static double e2m1_at(const hd_matrix_view *m, int64_t i, int32_t j)
{
    uint8_t const pair = ((const uint8_t *)m->w)[i * (m->k / 2) + j / 2];
    return hd_e2m1_table[j & 1 ? pair >> 4 : pair & 15];
}

double hd_matrix_at(const hd_matrix_view *m, int64_t i, int32_t j)
{
    int64_t const        at = i * m->k + j;
    const uint8_t *const bytes = m->w, *const sf = m->sf;
    switch (m->format) {
    case HD_FMT_F32: return ((const float *)m->w)[at];
    case HD_FMT_BF16: return hd_bf16_to_f32(((const uint16_t *)m->w)[at]);
    case HD_FMT_FP8:
        return (double)hd_e4m3_table[bytes[at]] *
               ((const float *)m->sf)[i / 128 * ((m->k + 127) / 128) + j / 128];
    case HD_FMT_MXFP4_TILES:
        return hd_e2m1_table[hd_tiles_code(HD_FMT_MXFP4, m->w, m->k, i, j)] *
               ldexp(1, hd_tiles_scale(HD_FMT_MXFP4, m->sf, m->k, i, j) - 127);
    case HD_FMT_NVFP4_TILES:
        return hd_e2m1_table[hd_tiles_code(HD_FMT_NVFP4, m->w, m->k, i, j)] *
               hd_e4m3_table[hd_tiles_scale(HD_FMT_NVFP4, m->sf, m->k, i, j)] * m->scale;
    case HD_FMT_MXFP4: return e2m1_at(m, i, j) * ldexp(1, sf[i * (m->k / 32) + j / 32] - 127);
    default: return e2m1_at(m, i, j) * hd_e4m3_table[sf[i * (m->k / 16) + j / 16]] * m->scale;
    }
}

#define OCTET 8

/* The values from j on, an octet or what is left of the row: in tiles that is a word. */
static int32_t take_values(const hd_matrix_view *m, int64_t i, int32_t j, double w[OCTET])
{
    hd_format const rows = hd_format_in_rows(m->format);
    int32_t const   n = m->k - j < OCTET ? m->k - j : OCTET;
    uint8_t         codes[OCTET];
    if (rows == m->format) {
        for (int32_t c = 0; c < n; c++) w[c] = hd_matrix_at(m, i, j + c);
        return n;
    }
    uint8_t const sf = hd_tiles_scale(rows, m->sf, m->k, i, j);
    double const  scale =
        rows == HD_FMT_MXFP4 ? ldexp(1, sf - 127) : (double)hd_e4m3_table[sf] * m->scale;
    hd_tiles_octet(rows, m->w, m->k, i, j, codes);
    for (int32_t c = 0; c < n; c++) w[c] = hd_e2m1_table[codes[c]] * scale;
    return n;
}

double hd_matrix_dot_error(const hd_matrix_view *m, int64_t i, const float *x, double share)
{
    double magnitude = 0, tiny = 0;
    for (int32_t j = 0, n; j < m->k; j += n) {
        double w[OCTET];
        n = take_values(m, i, j, w);
        for (int32_t c = 0; c < n; c++) {
            magnitude += fabs(w[c] * x[j + c]);
            tiny += (m->format == HD_FMT_FP8 ? HD_E4M3_MAX : fabs(w[c])) + fabsf(x[j + c]);
        }
    }
    return share * magnitude + ldexp(tiny, -124);
}
