#ifndef HD_KV_ROW_H
#define HD_KV_ROW_H

#include "base/status.h"

/* Rows of a KV cache in memory: five formats, one way to find a row, one writer, one reader.
 *
 * A pool is a run of pages of the same size.  A page holds the data of all its rows first,
 * then the scales of all its rows; what is left up to the stride is padding.  Row r of a pool
 * stands in page r / page; sequence s of a pool with `pages` pages each owns the rows from
 * s * pages * page on.
 *
 *           data of a row                           scales of a row
 *   F32     d f32                                   none
 *   BF16    d bf16                                  none
 *   FP8     d - tail E4M3, then tail bf16           a UE8M0 for each 64, padded to 8 bytes
 *   NVFP4   (d - tail) / 2 codes, then tail bf16    an E4M3 for each 16, padded to 8 bytes
 *   MXFP4   d / 2 codes                             a UE8M0 for each 32
 *
 * FP8 with d 512 and tail 64 is the published 576 + 8 bytes; NVFP4 takes 352 + 32.  The tail is
 * the part that RoPE turned.  Codes stand two a byte, the even element in the low nibble; bf16
 * is little endian; a row's own padding is written as 0, a page's is never touched.
 *
 * special   A block (64, 16 or 32 elements) with NaN or infinity reads as NaN altogether: its
 *           scale is the NaN of its format.  BF16, F32 and tails keep infinity as it is.
 * numerics  FP8: s = 2^ceil(log2(max(amax, 1e-4) / 448)), as quant_fp8.  MXFP4: as quant_mxfp4.
 *           NVFP4: s = e4m3(amax / 6), the tensor's scale is 1.  A value that was read rounds to
 *           itself when written again (NVFP4: where s is a normal number, amax >= 0.1). */

HD_BEGIN_C

typedef enum hd_row_format {
    HD_ROW_F32,
    HD_ROW_BF16,
    HD_ROW_FP8,
    HD_ROW_NVFP4,
    HD_ROW_MXFP4
} hd_row_format;
#define HD_N_ROW_FORMATS 5
const char *hd_row_format_name(hd_row_format f); /* "fp8"; never NULL */

typedef struct hd_row_layout {
    hd_row_format format;
    int32_t       d;    /* elements of a row                                       */
    int32_t       tail; /* last elements that stay bf16: FP8 and NVFP4, 0 elsewhere */
    int32_t       page; /* rows of a page                                          */
} hd_row_layout;

/* Widest row that hd_row_read decodes into a caller's buffer. */
#define HD_ROW_MAX 1024

/* Whether rows of this layout can exist: d - tail whole blocks, at most HD_ROW_MAX elements
 * where they are decoded, at least one row a page. */
bool hd_row_is_valid(const hd_row_layout *l);

int32_t hd_row_data_bytes(const hd_row_layout *l);  /* of one row */
int32_t hd_row_scale_bytes(const hd_row_layout *l); /* of one row, padding included */
/* From one page to the next.  FP8 pages are padded to a multiple of a row's data: published
 * kernels describe a whole pool to the TMA unit as one matrix of rows of that stride. */
int64_t hd_row_page_bytes(const hd_row_layout *l);
/* Pages that hold `rows` rows; none for none, whatever the layout. */
int64_t hd_row_pages(const hd_row_layout *l, int64_t rows);
/* First byte of row r's data and of its scales, from the start of the pool. */
int64_t hd_row_data_at(const hd_row_layout *l, int64_t row);
int64_t hd_row_scale_at(const hd_row_layout *l, int64_t row);

/* Row `row` of sequence `seq` in a pool where each sequence has `cap` rows. */
static inline int64_t hd_row_of(const hd_row_layout *l, int32_t seq, int32_t cap, int64_t row)
{
    return seq * hd_row_pages(l, cap) * l->page + row;
}

/* Stores x [d]. */
void hd_row_write(const hd_row_layout *l, uint8_t *pool, int64_t row, const float *x);
/* The row as f32: F32 rows are returned where they lie, others are decoded to buffer [d]. */
const float *hd_row_read(const hd_row_layout *l, const uint8_t *pool, int64_t row, float *buffer);

HD_END_C
#endif
