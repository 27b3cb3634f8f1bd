#ifndef HD_BASE_MEMORY_H
#define HD_BASE_MEMORY_H

#include "base/status.h"

/* The only way to the system's allocator.  Everything else takes an arena (fixed bytes,
 * measured first), a pool (many small objects that die together) or a buffer (one growing
 * string). */

HD_BEGIN_C

#define HD_ALIGN ((size_t)256) /* covers AVX-512, TMA (128) and cudaMalloc */

/* Returns zeroed bytes aligned to HD_ALIGN, or NULL.  0 bytes gives a valid pointer.  Pages
 * of a large block are handed out by the system when they are first written. */
void *hd_memory_alloc(size_t bytes);
void  hd_memory_free(void *p); /* NULL is fine */
/* Address space of zeroed bytes whose pages take memory when they are first written, so that it
 * may be larger than the machine; NULL when the system refuses.  Fails as hd_memory_alloc does. */
void *hd_memory_reserve(size_t bytes);
void  hd_memory_unreserve(void *p, size_t bytes); /* NULL is fine */
/* Gives the whole pages inside a part of reserved space back; they are zero again.  What is left
 * of the part at both ends, less than a page each, stays as it is. */
void hd_memory_return(void *p, size_t bytes);
/* Gives what was freed back to the system, after work that took much for a while. */
void hd_memory_trim(void);

/* While sealed, hd_memory_alloc and everything above it fails an assertion in debug builds
 * and returns NULL otherwise: an engine that decodes sealed allocates nothing.  Counts, so
 * seals nest. */
void hd_memory_seal(void);
void hd_memory_unseal(void);
/* Whether an allocation would be let through now; counts as one when it would.  For memory
 * that is not the host's. */
bool hd_memory_may_allocate(void);
/* Number of allocations made so far by this process, for tests. */
int64_t hd_memory_count(void);
/* Makes allocation number `n` from now (1 is the next) return NULL; 0 switches it off. */
void hd_memory_fail_at(int64_t n);

/* Bytes of memory that this machine has; 0 when the system does not say. */
int64_t hd_memory_machine_bytes(void);

/* a * b in *out; false when it does not fit. */
bool hd_size_mul(size_t a, size_t b, size_t *out);
bool hd_size_add(size_t a, size_t b, size_t *out);

/* ---- arena: bump allocation over memory it does not own -------------------------------
 * With base == NULL it only measures: alloc returns NULL, `peak` still grows.  Run the same
 * code once to measure, allocate `peak` bytes, run it again to bind; the two passes cannot
 * disagree. */
typedef struct hd_arena {
    char  *base; /* borrowed, aligned to HD_ALIGN; NULL while measuring */
    size_t cap;  /* bytes at base; ignored while measuring              */
    size_t used;
    size_t peak;
    bool   failed; /* sticky: an allocation did not fit                   */
} hd_arena;

/* Returns `bytes` rounded up to HD_ALIGN, uninitialised; NULL while measuring or when full
 * (then `failed` is set, so a sequence is checked once at its end). */
void  *hd_arena_alloc(hd_arena *a, size_t bytes);
size_t hd_arena_mark(const hd_arena *a);
void   hd_arena_release(hd_arena *a, size_t mark); /* what was allocated since is reused */

/* ---- pool: chained blocks, freed all at once ------------------------------------------- */
typedef struct hd_pool_block hd_pool_block;
typedef struct hd_pool {
    hd_pool_block *head;  /* owned */
    size_t         bytes; /* handed out, for reports */
} hd_pool;

/* Zeroed, aligned to 64; NULL when memory is short.  Zero-initialise the pool before use. */
void *hd_pool_alloc(hd_pool *p, size_t bytes);
char *hd_pool_copy(hd_pool *p, const char *text, size_t bytes); /* adds a NUL */
void  hd_pool_free(hd_pool *p);                                 /* back to empty */

/* ---- buffer: a growing run of bytes ------------------------------------------------------ */
typedef struct hd_buffer {
    char  *data; /* owned; NUL-terminated once anything was added */
    size_t used, cap;
    bool   failed; /* sticky: memory was short */
} hd_buffer;

/* Zero-initialise before use.  Adding to a failed buffer does nothing. */
void hd_buffer_add(hd_buffer *b, const void *data, size_t bytes);
void hd_buffer_text(hd_buffer *b, const char *text);
void hd_buffer_printf(hd_buffer *b, const char *fmt, ...) HD_PRINTF(2, 3);
void hd_buffer_clear(hd_buffer *b); /* keeps the memory */
void hd_buffer_free(hd_buffer *b);  /* back to empty    */

HD_END_C
#endif
