#ifndef HD_CHECKPOINT_SAFETENSORS_H
#define HD_CHECKPOINT_SAFETENSORS_H

#include "base/file.h"
#include "checkpoint/name_map.h"

/* One safetensors file, mapped.  Its header is hostile until hd_st_parse has accepted it:
 * afterwards every tensor lies inside the file, no two overlap, nothing is left over, and
 * `bytes` is what dtype and shape say. */

HD_BEGIN_C

#define HD_ST_MAX_RANK   8
#define HD_ST_MAX_HEADER ((size_t)100000000) /* bytes; the format's own limit */

typedef enum hd_st_dtype {
    HD_ST_BOOL,
    HD_ST_F4, /* E2M1; a shape counts elements, two to a byte, low nibble first */
    HD_ST_F6_E2M3,
    HD_ST_F6_E3M2,
    HD_ST_U8,
    HD_ST_I8,
    HD_ST_F8_E5M2,
    HD_ST_F8_E4M3,
    HD_ST_F8_E8M0,
    HD_ST_F8_E4M3FNUZ,
    HD_ST_F8_E5M2FNUZ,
    HD_ST_I16,
    HD_ST_U16,
    HD_ST_F16,
    HD_ST_BF16,
    HD_ST_I32,
    HD_ST_U32,
    HD_ST_F32,
    HD_ST_C64,
    HD_ST_F64,
    HD_ST_I64,
    HD_ST_U64,
    HD_ST_N_DTYPES
} hd_st_dtype;

const char *hd_st_dtype_name(hd_st_dtype d); /* "F8_E4M3"; never NULL */
int32_t     hd_st_dtype_bits(hd_st_dtype d);
bool        hd_st_dtype_from_name(hd_st_dtype *out, const char *name); /* false: unknown */

typedef struct hd_st_tensor {
    const char    *name; /* owned by the file */
    hd_st_dtype    dtype;
    int32_t        rank; /* 0 is a scalar */
    int64_t        shape[HD_ST_MAX_RANK];
    const uint8_t *data;  /* borrowed from the mapping; not aligned, read through memcpy */
    size_t         bytes; /* may be 0 */
} hd_st_tensor;

/* Packed rows must end on a byte: whoever reads row i starts at a byte. */
bool hd_st_rows_end_on_bytes(hd_st_dtype dtype, int32_t rank, const int64_t *shape);
/* Bytes of a tensor of this dtype and shape; false when it does not fit size_t, a dimension is
 * negative, or the rows of a packed dtype do not end on a byte. */
bool hd_st_tensor_bytes(hd_st_dtype dtype, int32_t rank, const int64_t *shape, size_t *bytes);
/* Product of the dimensions of an accepted tensor. */
int64_t hd_st_tensor_count(const hd_st_tensor *t);
/* Writes "BF16 [2048, 128]" for messages; at most cap bytes with the NUL.  Returns out. */
char *hd_st_tensor_print(const hd_st_tensor *t, char *out, size_t cap);

typedef struct hd_st_meta {
    const char *key, *value; /* owned by the file */
} hd_st_meta;

typedef struct hd_st_file {
    hd_file       map;     /* owned; empty when parsed from borrowed memory */
    hd_st_tensor *tensors; /* [n_tensors] owned, in the order of their data */
    int32_t       n_tensors;
    hd_st_meta   *meta; /* [n_meta] owned: the strings of __metadata__ */
    int32_t       n_meta;
    hd_name_map   by_name; /* name -> index of tensors */
    hd_pool       pool;
} hd_st_file;

/* Maps and checks the file at `path`.
 * owns     *out is the caller's, closed by hd_st_close (a zeroed one is fine)
 * returns  HD_ERR_IO, HD_ERR_FORMAT, HD_ERR_UNSUPPORTED (unknown dtype, rank above
 *          HD_ST_MAX_RANK), HD_ERR_MEMORY; the message names file and tensor            */
hd_status hd_st_open(hd_st_file *out, const char *path, hd_error *err);
/* The same for a file in memory, borrowed until hd_st_close; `what` names it in messages. */
hd_status hd_st_parse(hd_st_file *out, const uint8_t *data, size_t bytes, const char *what,
                      hd_error *err);
void      hd_st_close(hd_st_file *f);
/* Frees all tables: the file then has no tensors and stays mapped. */
void hd_st_forget(hd_st_file *f);
/* Returns NULL when the file has no tensor of this name. */
const hd_st_tensor *hd_st_find(const hd_st_file *f, const char *name);

HD_END_C
#endif
