#ifndef HD_OPS_CUDA_TCGEN05_LAYOUT_CUH
#define HD_OPS_CUDA_TCGEN05_LAYOUT_CUH

#include <stdbool.h>
#include <stdint.h>

/* Where Blackwell's tensor cores (tcgen05, sm_100a) look for a product of NVFP4 matrices, as pure
 * functions of numbers: C for the tests, which prove them on any machine, and CUDA C++ for the
 * kernels.  Sections are those of the PTX ISA 9.2, chapter 9.7.16, "TensorCore 5th Generation".
 *
 *   D [128, columns] += A [128, 64] B [64, columns]     kind::mxf4nvf4, scale_vec::4X
 *
 * A stage of the ring in shared memory holds 256 of k, which are four products:
 *
 *   A       128 rows of weights, a line of 128 bytes each       B       the same for each column
 *   SFA     for each product 512 bytes                          SFB     512 for 128 columns
 *
 * Lines are swizzled (9.7.16.10.6, K-major, 128 bytes): within eight lines, which lie together,
 * the pieces of 16 bytes of line r change places with r.  So cores read eight pieces of different
 * lines from different banks, and one stride, from eight lines to the next eight, tells all. */

#ifdef __CUDACC__
#define HD_TC_BOTH static __host__ __device__ __forceinline__
#define HD_TC_PURE HD_TC_BOTH constexpr
#else
#define HD_TC_BOTH static inline
#define HD_TC_PURE HD_TC_BOTH
#endif

#define HD_TC_ROWS    128
#define HD_TC_COLUMNS 256 /* most */
#define HD_TC_LINE    128 /* bytes of a row in a stage */
#define HD_TC_STEP    256 /* of k in a stage           */
#define HD_TC_K       64  /* of k in a product         */
#define HD_TC_PARTS   (HD_TC_STEP / HD_TC_K)
#define HD_TC_SCALES  512 /* bytes of the scales of 128 rows in a product */
#define HD_TC_WORDS   4   /* columns of tensor memory that they take      */
#define HD_TC_STAGES  4

/* ---- shared memory ---- */

/* A byte of a line among lines that begin at a multiple of 1,024. */
HD_TC_PURE uint32_t hd_tc_place(uint32_t line, uint32_t byte)
{
    return line * HD_TC_LINE + (byte ^ (line & 7) << 4);
}

/* The four scales of a row or column in one product.  tcgen05.cp takes 32 lanes of 16 bytes, which
 * are the rows r, r + 32, r + 64 and r + 96 (9.7.16.10.7.2.3). */
HD_TC_PURE uint32_t hd_tc_scale_place(uint32_t row)
{
    return row / 128 * HD_TC_SCALES + row % 32 * 16 + row % 128 / 32 * 4;
}

/* Copies that the scales of so many columns take. */
HD_TC_PURE uint32_t hd_tc_blocks(uint32_t columns) { return columns > 128 ? 2 : 1; }

/* Where the parts of a stage begin; A is first. */
HD_TC_PURE uint32_t hd_tc_b(void) { return HD_TC_ROWS * HD_TC_LINE; }
HD_TC_PURE uint32_t hd_tc_sfa(uint32_t columns) { return hd_tc_b() + columns * HD_TC_LINE; }
HD_TC_PURE uint32_t hd_tc_sfb(uint32_t columns)
{
    return hd_tc_sfa(columns) + HD_TC_PARTS * HD_TC_SCALES;
}
HD_TC_PURE uint32_t hd_tc_stage_bytes(uint32_t columns)
{
    return hd_tc_sfb(columns) + hd_tc_blocks(columns) * HD_TC_PARTS * HD_TC_SCALES;
}

/* Barriers lie behind the stages: a stage is full; it is empty; the sums are done. */
HD_TC_PURE uint32_t hd_tc_full(uint32_t columns, uint32_t slot)
{
    return HD_TC_STAGES * hd_tc_stage_bytes(columns) + 8 * slot;
}
HD_TC_PURE uint32_t hd_tc_empty(uint32_t columns, uint32_t slot)
{
    return hd_tc_full(columns, HD_TC_STAGES + slot);
}
HD_TC_PURE uint32_t hd_tc_done(uint32_t columns) { return hd_tc_full(columns, 2 * HD_TC_STAGES); }

/* ---- the ring ---- */

HD_TC_PURE uint32_t hd_tc_slot(uint32_t step) { return step % HD_TC_STAGES; }
/* The parity to wait for: of the slot's barrier full; of empty, which passes in the first round. */
HD_TC_PURE uint32_t hd_tc_full_parity(uint32_t step) { return step / HD_TC_STAGES & 1; }
HD_TC_PURE uint32_t hd_tc_empty_parity(uint32_t step) { return ~(step / HD_TC_STAGES) & 1; }

/* ---- tensor memory: 128 lanes of 512 words; columns from the block's first ----
 *
 * Row r of D is lane r, a word for each column.  Scales of row r of A are a word in lane r % 32,
 * and in that of every other 32 lanes, in column r / 32; of B the same.  Each slot of the ring has
 * its own columns: a copy is not ordered behind products that read what was there (9.7.16.6.2), but
 * behind the barrier that tells that the slot is empty. */

HD_TC_PURE uint32_t hd_tc_sum_columns(uint32_t columns) { return columns < 32 ? 32 : columns; }
HD_TC_PURE uint32_t hd_tc_sfa_column(uint32_t columns, uint32_t slot, uint32_t part)
{
    uint32_t const own = HD_TC_PARTS * HD_TC_WORDS * (1 + hd_tc_blocks(columns));
    return hd_tc_sum_columns(columns) + slot * own + part * HD_TC_WORDS;
}
HD_TC_PURE uint32_t hd_tc_sfb_column(uint32_t columns, uint32_t slot, uint32_t part)
{
    return hd_tc_sfa_column(columns, slot, HD_TC_PARTS) +
           part * HD_TC_WORDS * hd_tc_blocks(columns);
}
/* What a block allocates: a power of two; twice 256 fit a multiprocessor. */
HD_TC_PURE uint32_t hd_tc_tensor_columns(uint32_t columns) { return columns > 128 ? 512 : 256; }

/* ---- descriptors ---- */

/* Of shared memory (9.7.16.4.1): bits 0-13 the address / 16, 32-45 the stride from eight rows to
 * the next eight / 16, 46-48 the constant 1, 61-63 the swizzle.  The other stride, 16-29, says
 * nothing where a row of a product is in one swizzled line or in one piece of 16 bytes. */
HD_TC_PURE uint64_t hd_tc_descriptor(uint32_t address, uint32_t stride, uint32_t swizzle)
{
    return (uint64_t)((address & 0x3FFFF) >> 4) | (uint64_t)((stride & 0x3FFFF) >> 4) << 32 |
           (uint64_t)1 << 46 | (uint64_t)swizzle << 61;
}

/* Product `part` of lines that begin at an address: 64 codes are 32 bytes; 2 is the swizzle of 128.
 */
HD_TC_PURE uint64_t hd_tc_operand(uint32_t address, uint32_t part)
{
    return hd_tc_descriptor(address + part * (HD_TC_K / 2), 8 * HD_TC_LINE, 2);
}

/* 32 rows of 16 bytes, one behind the other. */
HD_TC_PURE uint64_t hd_tc_scale_operand(uint32_t address)
{
    return hd_tc_descriptor(address, 8 * 16, 0);
}

/* Of the instruction (9.7.16.4.2, kind::mxf4nvf4): bits 7-9 and 10-11 E2M1 = 1, 17-22 columns / 8,
 * 23 scales UE4M3 = 0, 27-28 rows / 128.  Else 0: dense, K = 64, nothing negated, scales in all
 * four bytes of their words. */
HD_TC_PURE uint32_t hd_tc_instruction(uint32_t columns)
{
    return 1u << 7 | 1u << 10 | columns / 8 << 17 | (uint32_t)HD_TC_ROWS / 128 << 27;
}

#endif
