#ifndef HD_QUANT_TILES_H
#define HD_QUANT_TILES_H

#include "quant/matrix.h"

HD_BEGIN_C

/* Tiles: a four-bit matrix in the order in which the tensor cores of a GPU take it.  The same bytes
 * as in rows, moved, so that a warp reads a tile as whole lines, each lane gets the codes it
 * multiplies, and two codes become two f16 with few instructions.
 *
 * A tile has 32 rows and 64 columns; tiles follow each other by rising k, then by rising row.
 *
 * codes   of 8 columns ("octet") of a row: a word, little endian; element 2 p + h of the octet
 *         has its magnitude at bit 9 - 3 p and its sign at bit (15, 12, 14, 13)[p] of half h.
 *         A lane (row % 8, q) has two words of row r and of row r + 8: 16 bytes, lanes in order;
 *         first those of rows 0 .. 15 of the tile, then of 16 .. 31.  NVFP4: its words are octets
 *         2 q and 2 q + 1, which is a block; MXFP4: octets q and q + 4.
 * scales  NVFP4: [row % 8, column / 16, row / 8]; MXFP4: [row % 8, column / 32, row / 8]. */
#define HD_TILES_ROWS       32
#define HD_TILES_COLS       64
#define HD_TILES_CODE_BYTES (HD_TILES_ROWS * HD_TILES_COLS / 2)

/* Whether a matrix of a four-bit format in rows consists of whole tiles. */
bool hd_tiles_fit(hd_format rows, int32_t n, int32_t k);

/* Moves codes and scales of a matrix that fits, n rows of k, from rows to tiles. */
void hd_tiles_move_codes(hd_format rows, int32_t n, int32_t k, const uint8_t *w, uint8_t *out);
void hd_tiles_move_scales(hd_format rows, int32_t n, int32_t k, const uint8_t *sf, uint8_t *out);

/* The code (0 .. 15) and the scale of one element; a scale is its block's. */
uint8_t hd_tiles_code(hd_format rows, const uint8_t *w, int32_t k, int64_t row, int32_t column);
uint8_t hd_tiles_scale(hd_format rows, const uint8_t *sf, int32_t k, int64_t row, int32_t column);

/* The codes of an octet, from `column` on. */
void hd_tiles_octet(hd_format rows, const uint8_t *w, int32_t k, int64_t row, int32_t column,
                    uint8_t codes[8]);

HD_END_C
#endif
