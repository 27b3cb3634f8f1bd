#include "weights/tensor_take.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "quant/bf16.h"
#include "quant/fp4.h"
#include "quant/fp8.h"
#include "weights/take_survey.h"

hd_tensor *hd_take_peek(const hd_taker *k, const char *name, const char *suffix)
{
    char full[HD_NAME_MAX];
    int  n = snprintf(full, sizeof full, "%s%s%s", name, *suffix ? "." : "", suffix);
    return n > 0 && (size_t)n < sizeof full ? hd_checkpoint_find(k->ck, full) : NULL;
}

static const char *file_of(const hd_taker *k, const hd_tensor *t)
{
    return hd_checkpoint_file_name(k->ck, t->shard);
}

/* Counts the use; a second one means that two fields claim the tensor. */
static hd_status tick(hd_taker *k, hd_tensor *t)
{
    if (t->ticked++)
        HD_FAIL(k->err, HD_ERR_FORMAT, "tensor %s in %s is claimed twice", t->st.name,
                file_of(k, t));
    k->weights->bytes += (int64_t)t->st.bytes;
    return HD_OK;
}

static hd_status fail_tensor(hd_taker *k, const hd_tensor *t, const char *wanted)
{
    char found[128];
    hd_survey_blame(k, HD_FAULT_SHAPE, t->st.name, "", file_of(k, t));
    HD_FAIL(k->err, HD_ERR_FORMAT, "tensor %s in %s: found %s, wanted %s", t->st.name,
            file_of(k, t), hd_st_tensor_print(&t->st, found, sizeof found), wanted);
}

static hd_status fail_missing(hd_taker *k, const char *name, const char *suffix, const char *wanted)
{
    hd_survey_blame(k, HD_FAULT_MISSING, name, suffix, NULL);
    HD_FAIL(k->err, HD_ERR_FORMAT, "tensor %s%s%s is missing from %s: wanted %s", name,
            *suffix ? "." : "", suffix, hd_checkpoint_folder(k->ck), wanted);
}

static hd_status fail_memory(const hd_taker *k, const char *name)
{
    HD_FAIL(k->err, HD_ERR_MEMORY, "no memory for tensor %s", name);
}

/* rows = 0 asks for a vector. */
static bool has_shape(const hd_st_tensor *t, int64_t rows, int64_t cols)
{
    if (rows > 0) return t->rank == 2 && t->shape[0] == rows && t->shape[1] == cols;
    if (cols == 1 && t->rank == 0) return true;
    return t->rank == 1 && t->shape[0] == cols;
}

static void print_wanted(char *out, size_t cap, const char *dtypes, int64_t rows, int64_t cols)
{
    if (rows > 0)
        snprintf(out, cap, "%s [%lld, %lld]", dtypes, (long long)rows, (long long)cols);
    else
        snprintf(out, cap, "%s [%lld]", dtypes, (long long)cols);
}

/* ---- vectors ---- */

static float read_float(const hd_st_tensor *t, int64_t i)
{
    uint16_t half;
    float    f;
    if (t->dtype == HD_ST_F32) {
        memcpy(&f, t->data + i * 4, sizeof f);
        return f;
    }
    memcpy(&half, t->data + i * 2, sizeof half);
    return t->dtype == HD_ST_BF16 ? hd_bf16_to_f32(half) : hd_f16_to_f32(half);
}

static bool is_plain(hd_st_dtype d) { return d == HD_ST_F32 || d == HD_ST_BF16 || d == HD_ST_F16; }

static bool is_aligned(const void *p, size_t bytes) { return (uintptr_t)p % bytes == 0; }

/* All elements as f32: the mapping itself when it already is that, else a copy. */
static hd_status to_f32(hd_taker *k, const hd_tensor *t, const float **out)
{
    if (t->st.dtype == HD_ST_F32 && is_aligned(t->st.data, 4)) {
        *out = (const float *)(const void *)t->st.data;
        return HD_OK;
    }
    int64_t const count = hd_st_tensor_count(&t->st);
    float *const  copy = hd_pool_alloc(&k->weights->pool, (size_t)count * sizeof *copy);
    if (!copy) return fail_memory(k, t->name);
    for (int64_t i = 0; i < count; i++) copy[i] = read_float(&t->st, i);
    *out = copy;
    return HD_OK;
}

static hd_status check_finite(hd_taker *k, const hd_tensor *t, const float *x)
{
    int64_t const count = hd_st_tensor_count(&t->st);
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(x[i]))
            HD_FAIL(k->err, HD_ERR_NUMERIC, "tensor %s in %s: element %lld is %f", t->st.name,
                    file_of(k, t), (long long)i, (double)x[i]);
    return HD_OK;
}

static hd_status load_f32(hd_taker *k, const char *name, int64_t rows, int64_t cols,
                          const float **out)
{
    char             wanted[96];
    hd_tensor *const t = hd_take_peek(k, name, "");
    print_wanted(wanted, sizeof wanted, "F32, BF16 or F16", rows, cols);
    if (!t) return fail_missing(k, name, "", wanted);
    if (!is_plain(t->st.dtype) || !has_shape(&t->st, rows, cols)) return fail_tensor(k, t, wanted);
    HD_TRY(tick(k, t));
    if (k->survey) return hd_survey_values(k, t, 0);
    HD_TRY(to_f32(k, t, out));
    return check_finite(k, t, *out);
}

hd_status hd_take_f32(hd_taker *k, const char *name, int64_t rows, int64_t cols, const float **out)
{
    return hd_survey_fault(k, load_f32(k, name, rows, cols, out));
}

static hd_status load_i32(hd_taker *k, const char *name, int64_t rows, int64_t cols, int32_t limit,
                          const int32_t **out)
{
    char             wanted[96];
    hd_tensor *const t = hd_take_peek(k, name, "");
    print_wanted(wanted, sizeof wanted, "I64 or I32", rows, cols);
    if (!t) return fail_missing(k, name, "", wanted);
    bool const is_wide = t->st.dtype == HD_ST_I64;
    if ((!is_wide && t->st.dtype != HD_ST_I32) || !has_shape(&t->st, rows, cols))
        return fail_tensor(k, t, wanted);
    HD_TRY(tick(k, t));
    if (k->survey) return hd_survey_values(k, t, limit);
    int32_t *const copy = hd_pool_alloc(&k->weights->pool, (size_t)(rows * cols) * sizeof *copy);
    if (!copy) return fail_memory(k, name);
    for (int64_t i = 0; i < rows * cols; i++) {
        int64_t wide = 0;
        int32_t narrow = 0;
        memcpy(is_wide ? (void *)&wide : (void *)&narrow, t->st.data + i * (is_wide ? 8 : 4),
               is_wide ? 8 : 4);
        int64_t const value = is_wide ? wide : narrow;
        if (value < 0 || value >= limit)
            HD_FAIL(k->err, HD_ERR_FORMAT, "tensor %s in %s: element %lld is %lld, wanted 0 .. %d",
                    t->st.name, file_of(k, t), (long long)i, (long long)value, limit - 1);
        copy[i] = (int32_t)value;
    }
    *out = copy;
    return HD_OK;
}

hd_status hd_take_i32(hd_taker *k, const char *name, int64_t rows, int64_t cols, int32_t limit,
                      const int32_t **out)
{
    return hd_survey_fault(k, load_i32(k, name, rows, cols, limit, out));
}

/* ---- matrices ---- */

static bool is_usable_scale(float x) { return isnormal(x) && x > 0; }

bool hd_take_is_scale(float x) { return is_usable_scale(x); }

/* A float scalar, [] or [1]. */
static hd_status take_scalar(hd_taker *k, hd_tensor *t, float *out)
{
    if (!is_plain(t->st.dtype) || !has_shape(&t->st, 0, 1)) return fail_tensor(k, t, "F32 []");
    HD_TRY(tick(k, t));
    *out = read_float(&t->st, 0);
    return HD_OK;
}

/* The scale of a whole tensor as a multiplier. */
static hd_status take_tensor_scale(hd_taker *k, hd_tensor *t, bool is_divisor, float *out)
{
    float stored;
    HD_TRY(take_scalar(k, t, &stored));
    *out = is_divisor ? 1 / stored : stored;
    if (k->survey) return HD_OK;
    if (!is_usable_scale(stored) || !is_usable_scale(*out))
        HD_FAIL(k->err, HD_ERR_NUMERIC, "tensor %s in %s is %g, wanted a positive, normal number",
                t->st.name, file_of(k, t), (double)stored);
    if (*out > 1 && !k->has_warned)
        hd_log_print(k->log, HD_LOG_WARNING,
                     "tensor %s is %g, so weights are scaled up by %g: is it a reciprocal?",
                     t->st.name, (double)stored, (double)*out);
    k->has_warned = k->has_warned || *out > 1;
    return HD_OK;
}

static hd_status take_input_scale(hd_taker *k, hd_tensor *t, bool is_divisor, float *out)
{
    float stored;
    HD_TRY(take_scalar(k, t, &stored));
    *out = is_divisor ? 1 / stored : stored;
    if (k->survey || (is_usable_scale(stored) && is_usable_scale(*out))) return HD_OK;
    hd_log_print(k->log, HD_LOG_WARNING, "tensor %s in %s is %g, no usable input scale", t->st.name,
                 file_of(k, t), (double)stored);
    if (!k->n_bad_inputs++) k->bad_input = t;
    *out = 1; /* never used: the load fails */
    return HD_OK;
}

hd_status hd_take_check_inputs(const hd_taker *k)
{
    const hd_tensor *const t = k->bad_input;
    if (!t) return HD_OK;
    HD_FAIL(k->err, HD_ERR_NUMERIC,
            "%d unusable input scales, the first is tensor %s in %s: %g, wanted a positive, normal "
            "number",
            k->n_bad_inputs, t->st.name, file_of(k, t), (double)read_float(&t->st, 0));
}

static hd_status check_tensor(hd_taker *k, const hd_tensor *t, bool has_dtype, const char *dtypes,
                              int64_t rows, int64_t cols)
{
    char wanted[96];
    if (has_dtype && has_shape(&t->st, rows, cols)) return HD_OK;
    print_wanted(wanted, sizeof wanted, dtypes, rows, cols);
    return fail_tensor(k, t, wanted);
}

/* One of the bytes is above `most`; a loop without a way out, which compilers make wide. */
static bool has_above(const uint8_t *bytes, size_t n, uint8_t most)
{
    uint8_t largest = 0;
    for (size_t i = 0; i < n; i++) largest = bytes[i] > largest ? bytes[i] : largest;
    return largest > most;
}

/* Block scales are most of what loading reads, and a survey reads none.  Those of NVFP4 are
 * magnitudes: a sign or a NaN code would poison 16 weights. */
static hd_status check_e4m3_scales(const hd_taker *k, const hd_tensor *t)
{
    if (k->survey || k->is_trusted || !has_above(t->st.data, t->st.bytes, 0x7E)) return HD_OK;
    size_t i = 0;
    while (i + 1 < t->st.bytes && t->st.data[i] <= 0x7E) i++;
    HD_FAIL(k->err, HD_ERR_NUMERIC, "tensor %s in %s: block scale %zu is 0x%02x (%s)", t->st.name,
            file_of(k, t), i, t->st.data[i], (t->st.data[i] & 0x7F) == 0x7F ? "NaN" : "negative");
}

static hd_status check_e8m0_scales(const hd_taker *k, const hd_tensor *t)
{
    if (k->survey || k->is_trusted || !has_above(t->st.data, t->st.bytes, 0xFE)) return HD_OK;
    size_t i = 0;
    while (i + 1 < t->st.bytes && t->st.data[i] <= 0xFE) i++;
    HD_FAIL(k->err, HD_ERR_NUMERIC, "tensor %s in %s: scale %zu is 0xff (NaN)", t->st.name,
            file_of(k, t), i);
}

/* Four-bit codes come as bytes, two in each, or as F4, whose shape counts elements. */
static bool is_codes(hd_st_dtype d) { return d == HD_ST_U8 || d == HD_ST_I8 || d == HD_ST_F4; }

static hd_status check_codes(hd_taker *k, const hd_tensor *t, const hd_matrix *m)
{
    bool const is_f4 = t->st.dtype == HD_ST_F4;
    return check_tensor(k, t, is_codes(t->st.dtype), is_f4 ? "F4" : "U8 (two codes a byte)", m->n,
                        is_f4 ? m->k : m->k / 2);
}

static hd_status take_nvfp4(hd_taker *k, const hd_siblings *s, hd_matrix *m)
{
    hd_tensor *const w = s->packed ? s->packed : s->weight;
    if (m->k % HD_NVFP4_BLOCK)
        HD_FAIL(k->err, HD_ERR_FORMAT, "matrix %s: %d columns are not whole blocks of 16",
                w->st.name, m->k);
    HD_TRY(check_codes(k, w, m));
    HD_TRY(check_tensor(k, s->scale, s->scale->st.dtype == HD_ST_F8_E4M3, "F8_E4M3", m->n,
                        m->k / HD_NVFP4_BLOCK));
    HD_TRY(check_e4m3_scales(k, s->scale));
    /* compressed-tensors stores both global scales as divisors. */
    bool const is_divisor = s->packed != NULL;
    HD_TRY(take_tensor_scale(k, is_divisor ? s->global_scale : s->scale_2, is_divisor, &m->scale));
    hd_tensor *const in = is_divisor ? s->input_global_scale : s->input_scale;
    if (in) HD_TRY(take_input_scale(k, in, is_divisor, &m->input_scale));
    m->format = HD_FMT_NVFP4;
    m->w = w->st.data;
    m->sf = s->scale->st.data;
    HD_TRY(tick(k, w));
    return tick(k, s->scale);
}

static hd_status take_mxfp4(hd_taker *k, const hd_siblings *s, hd_matrix *m)
{
    if (m->k % HD_MXFP4_BLOCK)
        HD_FAIL(k->err, HD_ERR_FORMAT, "matrix %s: %d columns are not whole blocks of 32",
                s->weight->st.name, m->k);
    HD_TRY(check_codes(k, s->weight, m));
    HD_TRY(check_tensor(k, s->scale, true, "F8_E8M0", m->n, m->k / HD_MXFP4_BLOCK));
    HD_TRY(check_e8m0_scales(k, s->scale));
    m->format = HD_FMT_MXFP4;
    m->w = s->weight->st.data;
    m->sf = s->scale->st.data;
    HD_TRY(tick(k, s->weight));
    return tick(k, s->scale);
}

/* E8M0, also by tools that do not know the dtype. */
static bool is_power_scale(hd_st_dtype d) { return d == HD_ST_F8_E8M0 || d == HD_ST_U8; }

static bool is_fp8_scale(hd_st_dtype d) { return is_power_scale(d) || is_plain(d); }

static float read_scale(const hd_st_tensor *t, int64_t i)
{
    return is_power_scale(t->dtype) ? hd_e8m0_to_f32(t->data[i]) : read_float(t, i);
}

/* FP8 scales are one in 16,384 of the weights: all kinds become f32. */
static hd_status take_fp8(hd_taker *k, const hd_siblings *s, hd_matrix *m)
{
    int64_t const rows = (m->n + HD_FP8_BLOCK - 1) / HD_FP8_BLOCK;
    int64_t const cols = (m->k + HD_FP8_BLOCK - 1) / HD_FP8_BLOCK;
    HD_TRY(check_tensor(k, s->weight, true, "F8_E4M3", m->n, m->k));
    HD_TRY(check_tensor(k, s->scale, is_fp8_scale(s->scale->st.dtype), "F8_E8M0, F32, BF16 or F16",
                        rows, cols));
    m->format = HD_FMT_FP8;
    if (k->survey) return tick(k, s->weight) == HD_OK ? tick(k, s->scale) : HD_ERR_FORMAT;
    float *const sf = hd_pool_alloc(&k->weights->pool, (size_t)(rows * cols) * sizeof *sf);
    if (!sf) return fail_memory(k, s->scale->name);
    for (int64_t i = 0; i < rows * cols; i++) {
        sf[i] = read_scale(&s->scale->st, i);
        if (!isfinite(sf[i]) || sf[i] < 0)
            HD_FAIL(k->err, HD_ERR_NUMERIC, "tensor %s in %s: scale %lld is %g", s->scale->st.name,
                    file_of(k, s->scale), (long long)i, (double)sf[i]);
    }
    m->w = s->weight->st.data;
    m->sf = sf;
    HD_TRY(tick(k, s->weight));
    return tick(k, s->scale);
}

/* BF16 stays in the mapping when it is aligned; F16 and odd addresses are copied. */
static hd_status take_plain(hd_taker *k, const hd_siblings *s, hd_matrix *m)
{
    hd_tensor *const t = s->weight;
    HD_TRY(check_tensor(k, t, true, "BF16, F32 or F16", m->n, m->k));
    HD_TRY(tick(k, t));
    m->format = t->st.dtype == HD_ST_BF16 ? HD_FMT_BF16 : HD_FMT_F32;
    if (k->survey) return HD_OK;
    if (m->format == HD_FMT_F32) {
        const float *w = NULL;
        HD_TRY(to_f32(k, t, &w));
        m->w = w;
        return HD_OK;
    }
    m->w = t->st.data;
    if (is_aligned(m->w, 2)) return HD_OK;
    void *const copy = hd_pool_alloc(&k->weights->pool, t->st.bytes);
    if (!copy) return fail_memory(k, t->name);
    memcpy(copy, t->st.data, t->st.bytes);
    m->w = copy;
    return HD_OK;
}

/* Chooses the format from the siblings and refuses what fits none, by name. */
static hd_status take_by_siblings(hd_taker *k, const char *name, const hd_siblings *s, hd_matrix *m)
{
    if (s->packed && !s->global_scale)
        return fail_missing(k, name, "weight_global_scale", "F32 [1] beside weight_packed");
    if ((s->packed || s->scale_2) && !s->scale)
        return fail_missing(k, name, "weight_scale", "F8_E4M3 beside the four-bit codes");
    if (s->packed) return take_nvfp4(k, s, m);
    if (!s->weight) return fail_missing(k, name, "weight", "a matrix");
    if (s->scale_2) return take_nvfp4(k, s, m);
    hd_st_dtype const d = s->weight->st.dtype;
    if (is_plain(d) && !s->scale) return take_plain(k, s, m);
    if (is_plain(d))
        HD_FAIL(k->err, HD_ERR_FORMAT, "tensor %s in %s is %s, yet has scales: %s",
                s->weight->st.name, file_of(k, s->weight), hd_st_dtype_name(d), s->scale->st.name);
    if (d == HD_ST_F8_E4M3 && s->scale) return take_fp8(k, s, m);
    if (is_codes(d) && s->scale && is_power_scale(s->scale->st.dtype)) return take_mxfp4(k, s, m);
    if (is_codes(d) && s->scale)
        return fail_missing(k, name, "weight_scale_2", "F32 [] beside NVFP4 block scales");
    if (!s->scale && (is_codes(d) || d == HD_ST_F8_E4M3))
        return fail_missing(k, name, "scale", "scales beside the quantized weight");
    return fail_tensor(k, s->weight,
                       "BF16, F32, F16, F8_E4M3 with scales, or four-bit codes with scales");
}

/* Kernels read the scale from memory: it may be an accelerator's. */
static hd_status keep_input_scale(hd_taker *k, const char *name, hd_matrix *m)
{
    float *const at = hd_pool_alloc(&k->weights->pool, sizeof *at);
    if (!at) return fail_memory(k, name);
    *at = m->input_scale;
    m->input_scale_at = at;
    return HD_OK;
}

static hd_status load_matrix(hd_taker *k, const char *name, const hd_siblings *s, hd_matrix *out)
{
    HD_TRY(take_by_siblings(k, name, s, out));
    /* An input scale of a matrix that is not NVFP4 says nothing here, but it is known. */
    if (s->input_scale && !s->input_scale->ticked) HD_TRY(tick(k, s->input_scale));
    k->weights->n_matrices[out->format]++;
    return HD_OK;
}

hd_status hd_take_expert(hd_taker *k, const char *name, int32_t n, int32_t cols, hd_matrix *out)
{
    hd_siblings     s;
    hd_status const found = hd_siblings_find(k, name, &s);
    *out = (hd_matrix){.n = n, .k = cols, .scale = 1};
    if (!k->survey) return found == HD_OK ? load_matrix(k, name, &s, out) : found;
    HD_TRY(hd_survey_fault(k, found));
    hd_status const status = load_matrix(k, name, &s, out);
    return hd_survey_matrix(k, name, &s, status, out);
}

hd_status hd_take_matrix(hd_taker *k, const char *name, int32_t n, int32_t cols, hd_matrix *out)
{
    HD_TRY(hd_take_expert(k, name, n, cols, out));
    return out->format == HD_FMT_NVFP4 && !k->survey ? keep_input_scale(k, name, out) : HD_OK;
}

float hd_take_read(const hd_st_tensor *t, int64_t i) { return read_scale(t, i); }
