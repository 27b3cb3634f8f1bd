#ifndef HD_OPS_CUDA_WGMMA_ASM_CUH
#define HD_OPS_CUDA_WGMMA_ASM_CUH

#include "async_copy.cuh"

/* wgmma, the product of a warpgroup: 64 rows of A in registers or shared memory, columns of B in
 * shared memory, 16 of k; bf16 or f16 to f32.  Only for sm_90a. */

/* Orders the registers of a product behind what wrote them. */
static __device__ __forceinline__ void hd_wgmma_fence(void)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

static __device__ __forceinline__ void hd_wgmma_commit(void)
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Until at most `left` of the committed groups are under way. */
template <int left> static __device__ __forceinline__ void hd_wgmma_wait_for(void)
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(left) : "memory");
}

/* Until all products are done; what they summed is used only behind this. */
template <int n> static __device__ __forceinline__ void hd_wgmma_wait(float (&c)[n])
{
    hd_wgmma_wait_for<0>();
#pragma unroll
    for (int i = 0; i < n; i++) asm volatile("" : "+f"(c[i])::"memory");
}

/* Before a barrier: lets the tensor cores see what this thread stored in shared memory. */
static __device__ __forceinline__ void hd_wgmma_publish(void)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* B: lines of 128 bytes, 64 columns of k each, their 16-byte units turned by line % 8; groups of
 * eight lines follow each other, the first begins at a multiple of 1024.  Add 2 for each 16
 * columns of k. */
static __device__ __forceinline__ uint64_t hd_wgmma_operand(const void *lines)
{
    uint64_t const address = hd_shared_address(lines) >> 4 & 0x3FFF;
    return address | 1ull << 16 | (uint64_t)(1024 >> 4) << 32 | 1ull << 62;
}

/* The same lines as B with their columns as those of the product and lines as k: chunks of 64
 * columns are chunk_bytes apart.  Add 128 for each 16 lines. */
static __device__ __forceinline__ uint64_t hd_wgmma_lines(const void *lines, uint32_t chunk_bytes)
{
    uint64_t const address = hd_shared_address(lines) >> 4 & 0x3FFF;
    return address | (uint64_t)(chunk_bytes >> 4) << 16 | (uint64_t)(1024 >> 4) << 32 | 1ull << 62;
}

#define HD_FOUR(c, i)    "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define HD_SIXTEEN(c, i) HD_FOUR(c, i), HD_FOUR(c, i + 4), HD_FOUR(c, i + 8), HD_FOUR(c, i + 12)

/* The operands that are sums, by number. */
#define HD_LIST_16 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define HD_LIST_32 HD_LIST_16 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define HD_LIST_48 HD_LIST_32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define HD_LIST_64 HD_LIST_48 ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define HD_LIST_96                                                                \
    HD_LIST_64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79" \
               ",%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define HD_LIST_128                                                                           \
    HD_LIST_96 ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111" \
               ",%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"

/* c = A B, or c += A B where is_sum, for 64 columns; c is laid out as wgmma does it. */
template <bool is_sum>
static __device__ __forceinline__ void hd_wgmma_64(float c[32], const uint32_t a[4], uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" HD_LIST_32
                 "}, {%32,%33,%34,%35}, %36, %37, 1, 1, 0;"
                 : HD_SIXTEEN(c, 0), HD_SIXTEEN(c, 16)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(is_sum));
}

/* The same for 32, 64, 96 or 128 columns, and for f16. */
#define HD_WGMMA(n, type, list, operands, is_sum_at, ...)                                 \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, " is_sum_at ", 0;\n"                     \
                 "wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type " {" list \
                 "}, " operands ", p, 1, 1, 0; }"                                         \
                 : __VA_ARGS__                                                            \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)is_sum))

#define HD_WGMMA_COLUMNS(type)                                                               \
    if constexpr (columns == 32)                                                             \
        HD_WGMMA("32", type, HD_LIST_16, "{%16,%17,%18,%19}, %20", "%21", HD_SIXTEEN(c, 0)); \
    else if constexpr (columns == 64)                                                        \
        HD_WGMMA("64", type, HD_LIST_32, "{%32,%33,%34,%35}, %36", "%37", HD_SIXTEEN(c, 0),  \
                 HD_SIXTEEN(c, 16));                                                         \
    else if constexpr (columns == 96)                                                        \
        HD_WGMMA("96", type, HD_LIST_48, "{%48,%49,%50,%51}, %52", "%53", HD_SIXTEEN(c, 0),  \
                 HD_SIXTEEN(c, 16), HD_SIXTEEN(c, 32));                                      \
    else                                                                                     \
        HD_WGMMA("128", type, HD_LIST_64, "{%64,%65,%66,%67}, %68", "%69", HD_SIXTEEN(c, 0), \
                 HD_SIXTEEN(c, 16), HD_SIXTEEN(c, 32), HD_SIXTEEN(c, 48))

template <int columns, bool is_f16>
static __device__ __forceinline__ void hd_wgmma_columns(float *c, const uint32_t a[4], uint64_t b,
                                                        bool is_sum)
{
    static_assert(columns % 32 == 0 && columns <= 128, "one of those above");
    if constexpr (is_f16) {
        HD_WGMMA_COLUMNS("f16");
    } else {
        HD_WGMMA_COLUMNS("bf16");
    }
}

/* The same with f16; where it is no sum, c need not hold anything yet. */
#define HD_FOUR_OUT(c, i) "=f"(c[i]), "=f"(c[i + 1]), "=f"(c[i + 2]), "=f"(c[i + 3])
#define HD_SIXTEEN_OUT(c, i) \
    HD_FOUR_OUT(c, i), HD_FOUR_OUT(c, i + 4), HD_FOUR_OUT(c, i + 8), HD_FOUR_OUT(c, i + 12)
#define HD_WGMMA_64_F16(is_sum, ...)                                               \
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {" HD_LIST_32 \
                 "}, {%32,%33,%34,%35}, %36, %37, 1, 1, 0;"                        \
                 : __VA_ARGS__                                                     \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(is_sum))
#define HD_WGMMA_128_F16(is_sum, ...)                                               \
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {" HD_LIST_64 \
                 "}, {%64,%65,%66,%67}, %68, %69, 1, 1, 0;"                         \
                 : __VA_ARGS__                                                      \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(is_sum))

template <bool is_sum>
static __device__ __forceinline__ void hd_wgmma_f16(float (&c)[32], const uint32_t a[4], uint64_t b)
{
    if constexpr (is_sum)
        HD_WGMMA_64_F16(1, HD_SIXTEEN(c, 0), HD_SIXTEEN(c, 16));
    else
        HD_WGMMA_64_F16(0, HD_SIXTEEN_OUT(c, 0), HD_SIXTEEN_OUT(c, 16));
}

template <bool is_sum>
static __device__ __forceinline__ void hd_wgmma_f16(float (&c)[64], const uint32_t a[4], uint64_t b)
{
    if constexpr (is_sum)
        HD_WGMMA_128_F16(1, HD_SIXTEEN(c, 0), HD_SIXTEEN(c, 16), HD_SIXTEEN(c, 32),
                         HD_SIXTEEN(c, 48));
    else
        HD_WGMMA_128_F16(0, HD_SIXTEEN_OUT(c, 0), HD_SIXTEEN_OUT(c, 16), HD_SIXTEEN_OUT(c, 32),
                         HD_SIXTEEN_OUT(c, 48));
}

/* c += A B for 256 columns. */
static __device__ __forceinline__ void hd_wgmma_256(float (&c)[128], const uint32_t a[4],
                                                    uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {" HD_LIST_128
                 "}, {%128,%129,%130,%131}, %132, 1, 1, 1, 0;"
                 : HD_SIXTEEN(c, 0), HD_SIXTEEN(c, 16), HD_SIXTEEN(c, 32), HD_SIXTEEN(c, 48),
                   HD_SIXTEEN(c, 64), HD_SIXTEEN(c, 80), HD_SIXTEEN(c, 96), HD_SIXTEEN(c, 112)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

/* c = A B, or c += A B where is_sum, for 64 columns of f16, A in shared memory as B is. */
static __device__ __forceinline__ void hd_wgmma_64_shared(float (&c)[32], uint64_t a, uint64_t b,
                                                          bool is_sum)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {" HD_LIST_32
                 "}, %32, %33, p, 1, 1, 0, 0; }"
                 : HD_SIXTEEN(c, 0), HD_SIXTEEN(c, 16)
                 : "l"(a), "l"(b), "r"((int)is_sum));
}

/* c += A B for 128 columns of f16, B as hd_wgmma_lines says. */
static __device__ __forceinline__ void hd_wgmma_128_lines(float (&c)[64], const uint32_t a[4],
                                                          uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {" HD_LIST_64
                 "}, {%64,%65,%66,%67}, %68, 1, 1, 1, 1;"
                 : HD_SIXTEEN(c, 0), HD_SIXTEEN(c, 16), HD_SIXTEEN(c, 32), HD_SIXTEEN(c, 48)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

#endif
