#ifndef HD_KERNELS_TENSOR_CORE_H
#define HD_KERNELS_TENSOR_CORE_H

#include "base/status.h"

/* A block's shared memory, its barriers, and the tensor core of a Blackwell GPU with its memory, as
 * PTX ISA 9.2 describes them in chapter 9.7.16: one that takes every liberty which the description
 * leaves.  It is written from the description alone and shares no function with the kernels.
 *
 * Copies arrive when they are waited for and no sooner, and are seen by the tensor core when they
 * have been published; products are made some time after they were asked for; copies of scales may
 * overtake them.  Memory begins as NaN. */

HD_BEGIN_C

#define CORE_SHARED_BYTES (227 * 1024)
#define CORE_THREADS      128 /* that copy */
#define CORE_LANES        128
#define CORE_COLUMNS      512
#define CORE_BARRIERS     16

typedef struct core_product {
    uint32_t d, sfa, sfb, instruction;
    uint64_t a, b;
    bool     is_first;
} core_product;

/* Forgets all; shared memory begins at an address, a multiple of 1,024, and barriers begin at a
 * place in it.  `seed` decides when things happen. */
void core_open(uint32_t address, uint32_t barriers, uint64_t seed);
/* The first thing found that the ISA forbids, or NULL. */
const char *core_complaint(void);

void core_barrier_init(uint32_t barrier, int32_t arrivals);
bool core_barrier_passed(uint32_t barrier, uint32_t parity);
void core_arrive(uint32_t barrier);

/* What `thread` does: starts copying up to 16 bytes, or zeros from NULL; stores a word; ends a
 * group; waits for all groups but the last `keep`; publishes. */
void core_copy(int32_t thread, uint32_t to, const void *from, uint32_t bytes);
void core_store(int32_t thread, uint32_t to, uint32_t word);
void core_end_copies(int32_t thread);
void core_await_copies(int32_t thread, int32_t keep);
void core_publish(int32_t thread);

/* tcgen05.cp.32x128b.warpx4, .mma of kind::mxf4nvf4 with scale_vec::4X, .commit. */
void core_copy_scales(uint32_t column, uint64_t descriptor);
void core_multiply(const core_product *p);
void core_commit(uint32_t barrier);
/* Whether something that was asked for is not done; does the next thing. */
bool core_is_busy(void);
void core_work(void);

/* tcgen05.ld.32x32b.x8 for one thread of a warp. */
void core_load(uint32_t at, int32_t lane, float v[8]);

HD_END_C
#endif
