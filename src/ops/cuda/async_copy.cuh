#ifndef HD_OPS_CUDA_ASYNC_COPY_CUH
#define HD_OPS_CUDA_ASYNC_COPY_CUH

#include <stdint.h>

/* Copies from global to shared memory that run beside the program, and ldmatrix. */

static __device__ __forceinline__ unsigned hd_shared_address(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

static __device__ __forceinline__ void hd_copy_16(void *to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(hd_shared_address(to)),
                 "l"(from));
}

/* Sixteen zeros unless is_in; `from` is an address of the same kind all the same. */
static __device__ __forceinline__ void hd_copy_16_or_zero(void *to, const void *from, bool is_in)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(hd_shared_address(to)),
                 "l"(from), "r"(is_in ? 16 : 0));
}

static __device__ __forceinline__ void hd_copy_4(void *to, const void *from)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(hd_shared_address(to)),
                 "l"(from));
}

static __device__ __forceinline__ void hd_copy_4_or_zero(void *to, const void *from, bool is_in)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(hd_shared_address(to)),
                 "l"(from), "r"(is_in ? 4 : 0));
}

static __device__ __forceinline__ void hd_copy_commit(void)
{
    asm volatile("cp.async.commit_group;");
}

template <int n> static __device__ __forceinline__ void hd_copy_wait(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory");
}

/* Brings a line to the second cache. */
static __device__ __forceinline__ void hd_fetch_line(const void *p)
{
    asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
}

/* Four 8 x 8 matrices of 16 bits; lane l gives the address of row l % 8 of matrix l / 8 and gets
 * words l % 4 of rows l / 4. */
static __device__ __forceinline__ void hd_load_matrices(uint32_t address, uint32_t w[4])
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                 : "r"(address));
}

/* The same, each matrix transposed: lane l gets words l / 4 of rows 2 (l % 4) and the next. */
static __device__ __forceinline__ void hd_load_matrices_transposed(uint32_t address, uint32_t w[4])
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                 : "r"(address));
}

#endif
