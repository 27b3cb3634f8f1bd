#include "base/memory.h"

#include <assert.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static atomic_int   seals;
static atomic_llong count;
static atomic_llong fail_at; /* allocation number that fails; 0: none */

bool hd_memory_may_allocate(void)
{
    assert(atomic_load(&seals) == 0 && "allocation after open");
    if (atomic_load(&seals) != 0) return false;
    long long const now = atomic_fetch_add(&count, 1) + 1;
    return atomic_load(&fail_at) == 0 || now != atomic_load(&fail_at);
}

/* What of [p, p + bytes) is whole pages of the system. */
static char *whole_pages(char *p, size_t *bytes)
{
    uintptr_t const page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)p;
    size_t const    head = (size_t)((page - at % page) % page);
    *bytes = *bytes > head ? (*bytes - head) / page * page : 0;
    return p + head;
}

/* From this size on, memory is not written to make it zero: its pages go back to the system, which
 * hands out zeros when they are first used.  So a cache takes memory as it fills. */
#define LAZY_BYTES ((size_t)1 << 20)

static void clear(char *p, size_t bytes)
{
    size_t      body = bytes;
    char *const at = whole_pages(p, &body);
    if (bytes < LAZY_BYTES || madvise(at, body, MADV_DONTNEED) != 0) {
        memset(p, 0, bytes);
        return;
    }
    memset(p, 0, (size_t)(at - p));
    memset(at + body, 0, bytes - body - (size_t)(at - p));
}

void *hd_memory_alloc(size_t bytes)
{
    if (!hd_memory_may_allocate() || bytes > SIZE_MAX - HD_ALIGN) return NULL;
    size_t const rounded = (bytes + HD_ALIGN - 1) / HD_ALIGN * HD_ALIGN;
    size_t const taken = rounded ? rounded : HD_ALIGN;
    char *const  p = aligned_alloc(HD_ALIGN, taken);
    if (p) clear(p, taken);
    return p;
}

void hd_memory_free(void *p) { free(p); }

void *hd_memory_reserve(size_t bytes)
{
    if (!hd_memory_may_allocate()) return NULL;
    void *const p = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

void hd_memory_unreserve(void *p, size_t bytes)
{
    if (p) munmap(p, bytes ? bytes : 1);
}

void hd_memory_return(void *p, size_t bytes)
{
    char *const at = whole_pages(p, &bytes);
    if (bytes > 0) madvise(at, bytes, MADV_DONTNEED);
}

void hd_memory_trim(void) { malloc_trim(0); }

void    hd_memory_seal(void) { atomic_fetch_add(&seals, 1); }
void    hd_memory_unseal(void) { atomic_fetch_sub(&seals, 1); }
int64_t hd_memory_count(void) { return atomic_load(&count); }
void hd_memory_fail_at(int64_t n) { atomic_store(&fail_at, n > 0 ? atomic_load(&count) + n : 0); }

int64_t hd_memory_machine_bytes(void)
{
    int64_t const pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && bytes > 0 ? pages * bytes : 0;
}

bool hd_size_mul(size_t a, size_t b, size_t *out) { return !__builtin_mul_overflow(a, b, out); }
bool hd_size_add(size_t a, size_t b, size_t *out) { return !__builtin_add_overflow(a, b, out); }

/* ---- arena ---- */

void *hd_arena_alloc(hd_arena *a, size_t bytes)
{
    if (a->failed) return NULL;
    size_t const rounded = (bytes + HD_ALIGN - 1) / HD_ALIGN * HD_ALIGN;
    size_t       end;
    if (rounded < bytes || !hd_size_add(a->used, rounded, &end) || (a->base && end > a->cap)) {
        a->failed = true;
        return NULL;
    }
    void *const p = a->base ? a->base + a->used : NULL;
    a->used = end;
    if (end > a->peak) a->peak = end;
    return p;
}

size_t hd_arena_mark(const hd_arena *a) { return a->used; }

void hd_arena_release(hd_arena *a, size_t mark)
{
    assert(mark <= a->used);
    a->used = mark;
}

/* ---- pool ---- */

#define POOL_ALIGN ((size_t)64)
#define POOL_BLOCK ((size_t)64 * 1024)

struct hd_pool_block {
    hd_pool_block *next;
    size_t         used, cap; /* bytes behind the header */
};
#define POOL_HEADER HD_ALIGN

static hd_pool_block *add_block(hd_pool *p, size_t bytes)
{
    size_t const         cap = bytes > POOL_BLOCK ? bytes : POOL_BLOCK;
    hd_pool_block *const b = cap < bytes ? NULL : hd_memory_alloc(POOL_HEADER + cap);
    if (!b) return NULL;
    b->cap = cap;
    b->next = p->head;
    p->head = b;
    return b;
}

void *hd_pool_alloc(hd_pool *p, size_t bytes)
{
    if (bytes > SIZE_MAX / 2) return NULL;
    size_t const   rounded = (bytes + POOL_ALIGN - 1) / POOL_ALIGN * POOL_ALIGN;
    hd_pool_block *b = p->head;
    if (!b || b->cap - b->used < rounded) b = add_block(p, rounded);
    if (!b) return NULL;
    void *const out = (char *)b + POOL_HEADER + b->used;
    b->used += rounded;
    p->bytes += rounded;
    return out;
}

char *hd_pool_copy(hd_pool *p, const char *text, size_t bytes)
{
    char *const out = bytes < SIZE_MAX ? hd_pool_alloc(p, bytes + 1) : NULL;
    if (out && bytes) memcpy(out, text, bytes);
    return out;
}

void hd_pool_free(hd_pool *p)
{
    while (p->head) {
        hd_pool_block *const next = p->head->next;
        hd_memory_free(p->head);
        p->head = next;
    }
    p->bytes = 0;
}

/* ---- buffer ---- */

static bool reserve(hd_buffer *b, size_t more)
{
    size_t need;
    if (b->failed || !hd_size_add(b->used, more, &need) || need == SIZE_MAX) {
        b->failed = true;
        return false;
    }
    if (need < b->cap) return true;
    size_t const cap = need < SIZE_MAX / 4 ? (need + 1) * 2 : need + 1;
    char *const  data = hd_memory_alloc(cap);
    if (!data) {
        b->failed = true;
        return false;
    }
    if (b->used) memcpy(data, b->data, b->used);
    hd_memory_free(b->data);
    b->data = data;
    b->cap = cap;
    return true;
}

void hd_buffer_add(hd_buffer *b, const void *data, size_t bytes)
{
    if (!reserve(b, bytes)) return;
    if (bytes) memcpy(b->data + b->used, data, bytes);
    b->used += bytes;
    b->data[b->used] = 0;
}

void hd_buffer_text(hd_buffer *b, const char *text) { hd_buffer_add(b, text, strlen(text)); }

void hd_buffer_printf(hd_buffer *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    va_list again;
    va_copy(again, ap);
    int const n = vsnprintf(NULL, 0, fmt, ap);
    if (n < 0)
        b->failed = true;
    else if (reserve(b, (size_t)n)) {
        vsnprintf(b->data + b->used, (size_t)n + 1, fmt, again);
        b->used += (size_t)n;
    }
    va_end(again);
    va_end(ap);
}

void hd_buffer_clear(hd_buffer *b)
{
    b->used = 0;
    if (b->data) b->data[0] = 0;
}

void hd_buffer_free(hd_buffer *b)
{
    hd_memory_free(b->data);
    *b = (hd_buffer){0};
}
