#include "quant/tiles.h"

#include "quant/fp4.h"

#define OCTET 8

static int32_t block_of(hd_format rows)
{
    return rows == HD_FMT_NVFP4 ? HD_NVFP4_BLOCK : HD_MXFP4_BLOCK;
}

bool hd_tiles_fit(hd_format rows, int32_t n, int32_t k)
{
    return (rows == HD_FMT_NVFP4 || rows == HD_FMT_MXFP4) && n % HD_TILES_ROWS == 0 &&
           k % HD_TILES_COLS == 0;
}

/* ---- places ---- */

static int64_t tile_of(int32_t k, int64_t row, int32_t column)
{
    return row / HD_TILES_ROWS * (k / HD_TILES_COLS) + column / HD_TILES_COLS;
}

/* Offset of the word that holds the octet which begins at `column`. */
static int64_t word_at(hd_format rows, int32_t k, int64_t row, int32_t column)
{
    int32_t const octet = column % HD_TILES_COLS / OCTET, r = (int32_t)(row % HD_TILES_ROWS);
    bool const    is_nvfp4 = rows == HD_FMT_NVFP4;
    int32_t const q = is_nvfp4 ? octet / 2 : octet % 4, second = is_nvfp4 ? octet % 2 : octet / 4;
    int32_t const lane = r % 8 * 4 + q;
    return tile_of(k, row, column) * HD_TILES_CODE_BYTES + r / 16 * (HD_TILES_CODE_BYTES / 2) +
           lane * 16 + r / 8 % 2 * 8 + second * 4;
}

static int64_t scale_at(hd_format rows, int32_t k, int64_t row, int32_t column)
{
    int32_t const blocks = HD_TILES_COLS / block_of(rows), r = (int32_t)(row % HD_TILES_ROWS);
    int32_t const b = column % HD_TILES_COLS / block_of(rows);
    return tile_of(k, row, column) * HD_TILES_ROWS * blocks + (r % 8 * blocks + b) * 4 + r / 8;
}

/* ---- words ---- */

static const int32_t sign_bit[4] = {15, 12, 14, 13};

/* The places of the codes of byte p of an octet, for any byte. */
typedef struct word_table {
    uint32_t of[4][256];
} word_table;

static uint32_t place_code(uint32_t code, int32_t p, int32_t half)
{
    return (code & 7) << (9 - 3 * p + 16 * half) | (code >> 3 & 1) << (sign_bit[p] + 16 * half);
}

static void fill_table(word_table *t)
{
    for (int32_t p = 0; p < 4; p++)
        for (uint32_t byte = 0; byte < 256; byte++)
            t->of[p][byte] = place_code(byte & 15, p, 0) | place_code(byte >> 4, p, 1);
}

static uint8_t take_code(uint32_t word, int32_t p, int32_t half)
{
    return (uint8_t)((word >> (9 - 3 * p + 16 * half) & 7) | (word >> (sign_bit[p] + 16 * half) & 1)
                                                                 << 3);
}

/* Little endian on any host. */
static void put_word(uint8_t *out, uint32_t word)
{
    for (int i = 0; i < 4; i++) out[i] = (uint8_t)(word >> (8 * i));
}

static uint32_t get_word(const uint8_t *in)
{
    return (uint32_t)in[0] | (uint32_t)in[1] << 8 | (uint32_t)in[2] << 16 | (uint32_t)in[3] << 24;
}

/* ---- whole matrices ---- */

void hd_tiles_move_codes(hd_format rows, int32_t n, int32_t k, const uint8_t *w, uint8_t *out)
{
    word_table t;
    fill_table(&t);
    for (int64_t row = 0; row < n; row++)
        for (int32_t c = 0; c < k; c += OCTET, w += 4)
            put_word(out + word_at(rows, k, row, c),
                     t.of[0][w[0]] | t.of[1][w[1]] | t.of[2][w[2]] | t.of[3][w[3]]);
}

void hd_tiles_move_scales(hd_format rows, int32_t n, int32_t k, const uint8_t *sf, uint8_t *out)
{
    for (int64_t row = 0; row < n; row++)
        for (int32_t c = 0; c < k; c += block_of(rows)) out[scale_at(rows, k, row, c)] = *sf++;
}

/* ---- elements ---- */

uint8_t hd_tiles_code(hd_format rows, const uint8_t *w, int32_t k, int64_t row, int32_t column)
{
    int32_t const e = column % OCTET;
    return take_code(get_word(w + word_at(rows, k, row, column)), e / 2, e % 2);
}

uint8_t hd_tiles_scale(hd_format rows, const uint8_t *sf, int32_t k, int64_t row, int32_t column)
{
    return sf[scale_at(rows, k, row, column)];
}

void hd_tiles_octet(hd_format rows, const uint8_t *w, int32_t k, int64_t row, int32_t column,
                    uint8_t codes[OCTET])
{
    uint32_t const word = get_word(w + word_at(rows, k, row, column));
    for (int32_t e = 0; e < OCTET; e++) codes[e] = take_code(word, e / 2, e % 2);
}
