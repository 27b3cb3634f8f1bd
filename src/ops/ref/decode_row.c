#include "ops/ref/decode_row.h"

#include "quant/bf16.h"
#include "quant/fp4.h"
#include "quant/fp8.h"
#include "quant/tiles.h"

/* One row of weights is decoded a tile at a time and used for several tokens, because decoding
 * costs more than the product.  Sums are in double, and a token's sum is formed in the same
 * order whatever else is in the batch. */
#define TILE_K 512 /* a multiple of every block size */
#define TILE_T 32
#define LANES  8

void hd_decode_f32(const hd_ref_matrix *m, int64_t row, int32_t k0, int32_t n, double *out)
{
    const float *const w = (const float *)m->w + row * m->k + k0;
    for (int32_t i = 0; i < n; i++) out[i] = w[i];
}

void hd_decode_bf16(const hd_ref_matrix *m, int64_t row, int32_t k0, int32_t n, double *out)
{
    const uint16_t *const w = (const uint16_t *)m->w + row * m->k + k0;
    for (int32_t i = 0; i < n; i++) out[i] = hd_bf16_to_f32(w[i]);
}

void hd_decode_fp8(const hd_ref_matrix *m, int64_t row, int32_t k0, int32_t n, double *out)
{
    const uint8_t *const w = (const uint8_t *)m->w + row * m->k + k0;
    const float *const   sf =
        (const float *)m->sf + row / HD_FP8_BLOCK * ((m->k + HD_FP8_BLOCK - 1) / HD_FP8_BLOCK);
    for (int32_t i = 0; i < n; i++)
        out[i] = (double)hd_e4m3_to_f32(w[i]) * sf[(k0 + i) / HD_FP8_BLOCK];
}

void hd_decode_mxfp4(const hd_ref_matrix *m, int64_t row, int32_t k0, int32_t n, double *out)
{
    hd_mxfp4_decode((const uint8_t *)m->w + row * (m->k / 2),
                    (const uint8_t *)m->sf + row * (m->k / HD_MXFP4_BLOCK), k0, n, out);
}

void hd_decode_nvfp4(const hd_ref_matrix *m, int64_t row, int32_t k0, int32_t n, double *out)
{
    hd_nvfp4_decode((const uint8_t *)m->w + row * (m->k / 2),
                    (const uint8_t *)m->sf + row * (m->k / HD_NVFP4_BLOCK), (double)*m->scale, k0,
                    n, out);
}

/* n is whole octets, each of which has one scale. */
static void decode_tiles(const hd_ref_matrix *m, hd_format rows, int64_t row, int32_t k0, int32_t n,
                         double *out)
{
    for (int32_t i = 0; i < n; i += 8) {
        uint8_t       codes[8];
        uint8_t const sf = hd_tiles_scale(rows, m->sf, m->k, row, k0 + i);
        double const  scale = rows == HD_FMT_MXFP4 ? (double)hd_e8m0_to_f32(sf)
                                                   : (double)hd_e4m3_to_f32(sf) * *m->scale;
        hd_tiles_octet(rows, m->w, m->k, row, k0 + i, codes);
        for (int32_t c = 0; c < 8; c++) out[i + c] = (double)hd_e2m1_to_f32(codes[c]) * scale;
    }
}

void hd_decode_mxfp4_tiles(const hd_ref_matrix *m, int64_t row, int32_t k0, int32_t n, double *out)
{
    decode_tiles(m, HD_FMT_MXFP4, row, k0, n, out);
}

void hd_decode_nvfp4_tiles(const hd_ref_matrix *m, int64_t row, int32_t k0, int32_t n, double *out)
{
    decode_tiles(m, HD_FMT_NVFP4, row, k0, n, out);
}

/* Eight partial sums, so that the compiler may use vector registers without reordering. */
static double dot(const double *w, const float *x, int32_t n)
{
    double  lane[LANES] = {0};
    int32_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int32_t j = 0; j < LANES; j++) lane[j] += w[i + j] * x[i + j];
    for (int32_t j = 0; i + j < n; j++) lane[j] += w[i + j] * x[i + j];
    double sum = 0;
    for (int32_t j = 0; j < LANES; j++) sum += lane[j];
    return sum;
}

/* Up to TILE_T tokens that one matrix multiplies. */
typedef struct batch {
    const float *x[TILE_T]; /* [k] each */
    float       *y[TILE_T]; /* [n] each */
    int32_t      n;
} batch;

/* y[i][at] = row . x[i] */
static void multiply_row(const hd_ref_matrix *m, hd_decode_fn *decode, int64_t row, const batch *b,
                         int32_t at)
{
    double tile[TILE_K], sums[TILE_T] = {0};
    for (int32_t k0 = 0; k0 < m->k; k0 += TILE_K) {
        int32_t const n = m->k - k0 < TILE_K ? m->k - k0 : TILE_K;
        decode(m, row, k0, n, tile);
        for (int32_t i = 0; i < b->n; i++) sums[i] += dot(tile, b->x[i] + k0, n);
    }
    for (int32_t i = 0; i < b->n; i++) b->y[i][at] = (float)sums[i];
}

/* Rows [first, first + n) of m times each x[i]; row first + r goes to y[i][r]. */
static void multiply(const hd_ref_matrix *m, hd_decode_fn *decode, int64_t first, int32_t n,
                     const batch *b)
{
    for (int32_t r = 0; r < n; r++) multiply_row(m, decode, first + r, b, r);
}

hd_status hd_gemm_by_rows(const hd_gemm_args *a, hd_decode_fn *decode)
{
    hd_ref_matrix const m = {a->w, a->sf, a->k, &a->w_scale};
    int64_t const       x_width = (int64_t)a->g * a->k, y_width = (int64_t)a->g * a->n;
    for (int32_t q = 0; q < a->g; q++)
        for (int32_t t0 = 0; t0 < a->t; t0 += TILE_T) {
            batch b = {.n = a->t - t0 < TILE_T ? a->t - t0 : TILE_T};
            for (int32_t i = 0; i < b.n; i++) {
                b.x[i] = a->x + (t0 + i) * x_width + (int64_t)q * a->k;
                b.y[i] = a->y + (t0 + i) * y_width + (int64_t)q * a->n;
            }
            multiply(&m, decode, (int64_t)q * a->n, a->n, &b);
        }
    return HD_OK;
}

/* Collects the inputs and outputs of the next tokens that go to expert e, at most TILE_T;
 * *next is the slot to look at first and is moved behind the last one taken. */
static void gather(const hd_grouped_gemm_args *a, int32_t e, int64_t *next, batch *b)
{
    int64_t const slots = (int64_t)a->t * a->s;
    for (b->n = 0; *next < slots && b->n < TILE_T; ++*next) {
        if (a->ids[*next] != e) continue;
        int64_t const input = a->xs == 1 ? *next / a->s : *next;
        b->x[b->n] = a->x + input * a->k;
        b->y[b->n++] = a->y + *next * a->n;
    }
}

hd_status hd_grouped_gemm_by_rows(const hd_grouped_gemm_args *a, hd_decode_fn *decode)
{
    for (int32_t e = 0; e < a->e; e++) {
        hd_ref_matrix const m = {a->w[e], a->sf ? a->sf[e] : NULL, a->k,
                                 a->w_scale ? &a->w_scale[e] : NULL};
        batch               b;
        int64_t             next = 0;
        for (gather(a, e, &next, &b); b.n > 0; gather(a, e, &next, &b))
            multiply(&m, decode, 0, a->n, &b);
    }
    return HD_OK;
}
