#include "checkpoint/safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- dtypes ---- */

static const struct {
    const char *name;
    int32_t     bits;
} dtypes[HD_ST_N_DTYPES] = {
    [HD_ST_BOOL] = {"BOOL", 8},
    [HD_ST_F4] = {"F4", 4},
    [HD_ST_F6_E2M3] = {"F6_E2M3", 6},
    [HD_ST_F6_E3M2] = {"F6_E3M2", 6},
    [HD_ST_U8] = {"U8", 8},
    [HD_ST_I8] = {"I8", 8},
    [HD_ST_F8_E5M2] = {"F8_E5M2", 8},
    [HD_ST_F8_E4M3] = {"F8_E4M3", 8},
    [HD_ST_F8_E8M0] = {"F8_E8M0", 8},
    [HD_ST_F8_E4M3FNUZ] = {"F8_E4M3FNUZ", 8},
    [HD_ST_F8_E5M2FNUZ] = {"F8_E5M2FNUZ", 8},
    [HD_ST_I16] = {"I16", 16},
    [HD_ST_U16] = {"U16", 16},
    [HD_ST_F16] = {"F16", 16},
    [HD_ST_BF16] = {"BF16", 16},
    [HD_ST_I32] = {"I32", 32},
    [HD_ST_U32] = {"U32", 32},
    [HD_ST_F32] = {"F32", 32},
    [HD_ST_C64] = {"C64", 64},
    [HD_ST_F64] = {"F64", 64},
    [HD_ST_I64] = {"I64", 64},
    [HD_ST_U64] = {"U64", 64},
};

const char *hd_st_dtype_name(hd_st_dtype d)
{
    return (unsigned)d < HD_ST_N_DTYPES ? dtypes[d].name : "unknown";
}

int32_t hd_st_dtype_bits(hd_st_dtype d)
{
    return (unsigned)d < HD_ST_N_DTYPES ? dtypes[d].bits : 0;
}

bool hd_st_dtype_from_name(hd_st_dtype *out, const char *name)
{
    for (int d = 0; d < HD_ST_N_DTYPES; d++) {
        if (strcmp(dtypes[d].name, name) != 0) continue;
        *out = (hd_st_dtype)d;
        return true;
    }
    return false;
}

bool hd_st_rows_end_on_bytes(hd_st_dtype dtype, int32_t rank, const int64_t *shape)
{
    int64_t const row = rank > 0 ? shape[rank - 1] : 1;
    return row % 8 * hd_st_dtype_bits(dtype) % 8 == 0;
}

bool hd_st_tensor_bytes(hd_st_dtype dtype, int32_t rank, const int64_t *shape, size_t *bytes)
{
    /* A zero dimension does not excuse others that overflow: some take products of a few. */
    size_t bits = (size_t)hd_st_dtype_bits(dtype);
    bool   is_empty = false;
    for (int32_t i = 0; i < rank; i++) {
        if (shape[i] < 0) return false;
        if (shape[i] == 0)
            is_empty = true;
        else if (!hd_size_mul(bits, (size_t)shape[i], &bits))
            return false;
    }
    if (bits == 0 || bits > INT64_MAX || !hd_st_rows_end_on_bytes(dtype, rank, shape)) return false;
    *bytes = is_empty ? 0 : bits / 8;
    return true;
}

int64_t hd_st_tensor_count(const hd_st_tensor *t)
{
    int64_t n = 1;
    for (int32_t i = 0; i < t->rank; i++) n *= t->shape[i];
    return n;
}

char *hd_st_tensor_print(const hd_st_tensor *t, char *out, size_t cap)
{
    int n = snprintf(out, cap, "%s [", hd_st_dtype_name(t->dtype));
    for (int32_t i = 0; i < t->rank && n >= 0 && (size_t)n < cap; i++)
        n += snprintf(out + n, cap - (size_t)n, "%s%" PRId64, i ? ", " : "", t->shape[i]);
    if (n >= 0 && (size_t)n < cap) snprintf(out + n, cap - (size_t)n, "]");
    return out;
}
