#include "doctor/scanned_rows.h"

#include "base/file.h"
#include "quant/fp4.h"
#include "quant/fp8.h"
#include "weights/tensor_take.h"

/* A tensor that is no matrix is read in rows of so many values. */
#define PIECE 4096

#define PART_VALUES ((int64_t)4 << 20) /* read before memory is given back */

static int64_t count_of(const hd_scanned *m) { return hd_st_tensor_count(&m->w->st); }

int64_t hd_scanned_width(const hd_scanned *m) { return m->format == HD_FMT_NONE ? PIECE : m->k; }

int64_t hd_scanned_rows(const hd_scanned *m)
{
    return m->format == HD_FMT_NONE ? (count_of(m) + PIECE - 1) / PIECE : m->n;
}

static double tensor_scale_of(const hd_scanned *m)
{
    double const x = m->tensor_scale ? (double)hd_take_read(&m->tensor_scale->st, 0) : 1;
    return m->is_divisor ? 1 / x : x;
}

static int64_t decode_values(const hd_st_tensor *t, int64_t begin, int64_t n, double *out)
{
    int64_t const rest = hd_st_tensor_count(t) - begin;
    if (n > rest) n = rest;
    for (int64_t i = 0; i < n; i++) out[i] = (double)hd_take_read(t, begin + i);
    return n;
}

static void decode_fp8(const hd_scanned *m, int64_t r, double *out)
{
    const uint8_t *const codes = m->w->st.data + r * m->k;
    int64_t const        columns = (m->k + HD_FP8_BLOCK - 1) / HD_FP8_BLOCK;
    for (int64_t i = 0; i < m->k; i++) {
        int64_t const block = r / HD_FP8_BLOCK * columns + i / HD_FP8_BLOCK;
        out[i] = (double)hd_e4m3_to_f32(codes[i]) * (double)hd_take_read(&m->scale->st, block);
    }
}

int64_t hd_scanned_decode(const hd_scanned *m, int64_t r, double *out)
{
    const uint8_t *const w = m->w->st.data;
    switch (m->format) {
    case HD_FMT_NVFP4:
        hd_nvfp4_decode(w + r * m->k / 2, m->scale->st.data + r * m->k / HD_NVFP4_BLOCK,
                        tensor_scale_of(m), 0, m->k, out);
        return m->k;
    case HD_FMT_MXFP4:
        hd_mxfp4_decode(w + r * m->k / 2, m->scale->st.data + r * m->k / HD_MXFP4_BLOCK, 0, m->k,
                        out);
        return m->k;
    case HD_FMT_FP8: decode_fp8(m, r, out); return m->k;
    default: return decode_values(&m->w->st, r * hd_scanned_width(m), hd_scanned_width(m), out);
    }
}

void hd_scanned_release(const hd_scanned *m, int64_t begin, int64_t end)
{
    const hd_tensor *const both[] = {m->w, m->scale};
    int64_t const          rows = hd_scanned_rows(m);
    for (int i = 0; i < 2; i++) {
        int64_t const bytes = both[i] ? (int64_t)both[i]->st.bytes : 0;
        int64_t const from = bytes / rows * begin, to = end < rows ? bytes / rows * end : bytes;
        if (bytes > 0) hd_file_release(both[i]->st.data + from, (size_t)(to - from));
    }
}

int64_t hd_scanned_step(const hd_scanned *m)
{
    int64_t const n = PART_VALUES / hd_scanned_width(m);
    return n > 0 ? n : 1;
}
