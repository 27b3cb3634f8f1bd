#include "kv/row.h"

#include <math.h>
#include <string.h>

#include "quant/bf16.h"
#include "quant/fp4.h"
#include "quant/fp8.h"

#define FP8_TILE  64 /* elements that share a scale */
#define SCALE_PAD 8  /* bytes that the scales of a row are padded to */

const char *hd_row_format_name(hd_row_format f)
{
    static const char *const names[HD_N_ROW_FORMATS] = {"f32", "bf16", "fp8", "nvfp4", "mxfp4"};
    return (size_t)f < HD_N_ROW_FORMATS ? names[f] : "unknown";
}

/* ---- sizes and places ---- */

/* Elements that share a scale; 1 where there is none. */
static int32_t block_of(hd_row_format f)
{
    static const int32_t blocks[HD_N_ROW_FORMATS] = {1, 1, FP8_TILE, HD_NVFP4_BLOCK,
                                                     HD_MXFP4_BLOCK};
    return blocks[f];
}

/* Elements in front of the tail. */
static int32_t n_coded(const hd_row_layout *l) { return l->d - l->tail; }

bool hd_row_is_valid(const hd_row_layout *l)
{
    if ((size_t)l->format >= HD_N_ROW_FORMATS || l->d < 1 || l->page < 1) return false;
    if (l->tail < 0 || l->tail > l->d) return false;
    if (l->format == HD_ROW_F32) return l->tail == 0;
    bool const has_tail = l->format == HD_ROW_FP8 || l->format == HD_ROW_NVFP4;
    return l->d <= HD_ROW_MAX && (has_tail || l->tail == 0) &&
           n_coded(l) % block_of(l->format) == 0;
}

int32_t hd_row_data_bytes(const hd_row_layout *l)
{
    int32_t const tail = l->tail * (int32_t)sizeof(uint16_t);
    switch (l->format) {
    case HD_ROW_F32: return l->d * (int32_t)sizeof(float);
    case HD_ROW_BF16: return l->d * (int32_t)sizeof(uint16_t);
    case HD_ROW_FP8: return n_coded(l) + tail;
    case HD_ROW_NVFP4: return n_coded(l) / 2 + tail;
    case HD_ROW_MXFP4: break;
    }
    return l->d / 2;
}

int32_t hd_row_scale_bytes(const hd_row_layout *l)
{
    int32_t const blocks = n_coded(l) / block_of(l->format);
    switch (l->format) {
    case HD_ROW_F32:
    case HD_ROW_BF16: return 0;
    case HD_ROW_FP8:
    case HD_ROW_NVFP4: return (blocks + SCALE_PAD - 1) / SCALE_PAD * SCALE_PAD;
    case HD_ROW_MXFP4: break;
    }
    return blocks;
}

int64_t hd_row_page_bytes(const hd_row_layout *l)
{
    int64_t const data = hd_row_data_bytes(l);
    int64_t const bytes = l->page * (data + hd_row_scale_bytes(l));
    return l->format == HD_ROW_FP8 ? (bytes + data - 1) / data * data : bytes;
}

int64_t hd_row_pages(const hd_row_layout *l, int64_t rows)
{
    return rows ? (rows + l->page - 1) / l->page : 0;
}

int64_t hd_row_data_at(const hd_row_layout *l, int64_t row)
{
    return row / l->page * hd_row_page_bytes(l) + row % l->page * hd_row_data_bytes(l);
}

int64_t hd_row_scale_at(const hd_row_layout *l, int64_t row)
{
    return row / l->page * hd_row_page_bytes(l) + (int64_t)l->page * hd_row_data_bytes(l) +
           row % l->page * hd_row_scale_bytes(l);
}

/* ---- writing ---- */

static void write_bf16(uint8_t *out, const float *x, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        uint16_t const b = hd_f32_to_bf16(x[i]);
        memcpy(out + (size_t)i * sizeof b, &b, sizeof b);
    }
}

/* The pad bytes are written too, so that equal rows are equal bytes. */
static void write_fp8(const hd_row_layout *l, uint8_t *data, uint8_t *scales, const float *x)
{
    memset(scales, 0, (size_t)hd_row_scale_bytes(l));
    for (int32_t c = 0; c < n_coded(l); c += FP8_TILE)
        scales[c / FP8_TILE] = hd_fp8_encode(x + c, FP8_TILE, data + c);
    write_bf16(data + n_coded(l), x + n_coded(l), l->tail);
}

static void write_nvfp4(const hd_row_layout *l, uint8_t *data, uint8_t *scales, const float *x)
{
    memset(scales, 0, (size_t)hd_row_scale_bytes(l));
    hd_nvfp4_encode(x, n_coded(l), 1, data, scales);
    write_bf16(data + n_coded(l) / 2, x + n_coded(l), l->tail);
}

void hd_row_write(const hd_row_layout *l, uint8_t *pool, int64_t row, const float *x)
{
    uint8_t *const data = pool + hd_row_data_at(l, row);
    uint8_t *const scales = pool + hd_row_scale_at(l, row);
    switch (l->format) {
    case HD_ROW_F32: memcpy(data, x, (size_t)l->d * sizeof *x); break;
    case HD_ROW_BF16: write_bf16(data, x, l->d); break;
    case HD_ROW_FP8: write_fp8(l, data, scales, x); break;
    case HD_ROW_NVFP4: write_nvfp4(l, data, scales, x); break;
    case HD_ROW_MXFP4: hd_mxfp4_encode(x, l->d, data, scales); break;
    }
}

/* ---- reading ---- */

static void read_bf16(const uint8_t *in, int32_t n, float *out)
{
    for (int32_t i = 0; i < n; i++) {
        uint16_t b;
        memcpy(&b, in + (size_t)i * sizeof b, sizeof b);
        out[i] = hd_bf16_to_f32(b);
    }
}

static void read_fp8(const hd_row_layout *l, const uint8_t *data, const uint8_t *scales, float *out)
{
    for (int32_t c = 0; c < n_coded(l); c += FP8_TILE) {
        float const s = hd_e8m0_to_f32(scales[c / FP8_TILE]);
        for (int32_t i = c; i < c + FP8_TILE; i++) out[i] = hd_e4m3_to_f32(data[i]) * s;
    }
    read_bf16(data + n_coded(l), l->tail, out + n_coded(l));
}

/* n codes that share a scale. */
static void read_codes(const uint8_t *codes, float scale, int32_t n, float *out)
{
    for (int32_t i = 0; i < n / 2; i++) {
        out[2 * i] = hd_e2m1_to_f32(codes[i]) * scale;
        out[2 * i + 1] = hd_e2m1_to_f32(codes[i] >> 4) * scale;
    }
}

static void read_nvfp4(const hd_row_layout *l, const uint8_t *data, const uint8_t *scales,
                       float *out)
{
    for (int32_t c = 0; c < n_coded(l); c += HD_NVFP4_BLOCK)
        read_codes(data + c / 2, hd_e4m3_to_f32(scales[c / HD_NVFP4_BLOCK]), HD_NVFP4_BLOCK,
                   out + c);
    read_bf16(data + n_coded(l) / 2, l->tail, out + n_coded(l));
}

static void read_mxfp4(const hd_row_layout *l, const uint8_t *data, const uint8_t *scales,
                       float *out)
{
    for (int32_t c = 0; c < l->d; c += HD_MXFP4_BLOCK)
        read_codes(data + c / 2, hd_e8m0_to_f32(scales[c / HD_MXFP4_BLOCK]), HD_MXFP4_BLOCK,
                   out + c);
}

const float *hd_row_read(const hd_row_layout *l, const uint8_t *pool, int64_t row, float *buffer)
{
    const uint8_t *const data = pool + hd_row_data_at(l, row);
    const uint8_t *const scales = pool + hd_row_scale_at(l, row);
    switch (l->format) {
    case HD_ROW_F32: return (const float *)(const void *)data;
    case HD_ROW_BF16: read_bf16(data, l->d, buffer); break;
    case HD_ROW_FP8: read_fp8(l, data, scales, buffer); break;
    case HD_ROW_NVFP4: read_nvfp4(l, data, scales, buffer); break;
    case HD_ROW_MXFP4: read_mxfp4(l, data, scales, buffer); break;
    }
    return buffer;
}
