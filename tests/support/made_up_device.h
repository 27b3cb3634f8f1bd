#ifndef HD_SUPPORT_MADE_UP_DEVICE_H
#define HD_SUPPORT_MADE_UP_DEVICE_H

#include <assert.h>
#include <string.h>
#include <sys/mman.h>

#include "base/accelerator.h"
#include "base/cpu.h"

/* An accelerator that is made up of the host, so that what uses one is tested where there is none.
 * The one file of a test program that includes this defines all that device_none.c does, so the
 * linker leaves that out.
 *
 * Its memory is closed to the host, and opens for copies and while one of its kernels runs.
 * Recorded work is kept as what waits for what and never runs. */

#define MADE_UP_WORDS  4
#define MADE_UP_POINTS (64 * MADE_UP_WORDS) /* pieces of work in a recording */
#define MADE_UP_BLOCKS 64

typedef struct made_up_set {
    uint64_t bits[MADE_UP_WORDS];
} made_up_set;

/* A piece of recorded work. */
struct hd_point {
    const void *args;   /* those of its kernel */
    made_up_set before; /* all pieces that have ended when it begins */
};

struct hd_graph {
    hd_point    points[MADE_UP_POINTS];
    int32_t     n;
    made_up_set end; /* all that have ended when the graph has */
};

typedef struct made_up_block {
    char  *at; /* NULL: free */
    size_t bytes;
} made_up_block;

struct hd_device {
    hd_graph     *recording; /* NULL: work runs */
    made_up_set   waits;     /* of what is recorded next */
    hd_point     *last;      /* recorded since capture_after */
    int32_t       n_graphs;  /* that were made and not freed */
    int64_t       fail_in;   /* calls until one fails; 0: none does */
    made_up_block blocks[MADE_UP_BLOCKS];
};

static struct hd_device made_up;

/* ---- what tests ask for ---- */

/* Makes the n-th call from now fail, of those that may, with HD_ERR_DEVICE; 0 switches it off. */
static inline void made_up_fail_at(int64_t n) { made_up.fail_in = n; }

static inline hd_status made_up_try(hd_error *err)
{
    if (made_up.fail_in == 0 || --made_up.fail_in > 0) return HD_OK;
    HD_FAIL(err, HD_ERR_DEVICE, "the device failed as planned");
}

static inline bool made_up_has(const made_up_set *s, int64_t i)
{
    return s->bits[i / 64] >> (i % 64) & 1;
}

/* Whether `bytes` at p are the device's. */
static inline bool made_up_owns(const void *p, size_t bytes)
{
    const char *const at = p;
    for (int i = 0; i < MADE_UP_BLOCKS; i++) {
        const made_up_block *const b = &made_up.blocks[i];
        if (b->at && at >= b->at && at + bytes <= b->at + b->bytes) return true;
    }
    return false;
}

/* Opens the device's memory to the host, or closes it. */
static inline void made_up_open_memory(bool is_open)
{
    for (int i = 0; i < MADE_UP_BLOCKS; i++)
        if (made_up.blocks[i].at)
            mprotect(made_up.blocks[i].at, made_up.blocks[i].bytes,
                     is_open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

static inline void made_up_join(made_up_set *to, const hd_point *p)
{
    int64_t const i = p - made_up.recording->points;
    for (int w = 0; w < MADE_UP_WORDS; w++) to->bits[w] |= p->before.bits[w];
    to->bits[i / 64] |= UINT64_C(1) << (i % 64);
}

/* For a kernel: records a piece of work.  False: nothing is recorded now, it is to run. */
static inline bool made_up_record(const void *args)
{
    hd_graph *const g = made_up.recording;
    if (!g) return false;
    assert(g->n < MADE_UP_POINTS);
    hd_point *const p = &g->points[g->n++];
    *p = (hd_point){args, made_up.waits};
    made_up.waits = (made_up_set){{0}};
    made_up_join(&made_up.waits, p);
    made_up.last = p;
    return true;
}

/* ---- the device ---- */

uint32_t hd_device_isa(void) { return HD_ISA_CUDA; }

hd_status hd_device_open(hd_device **out, hd_error *err)
{
    HD_TRY(made_up_try(err));
    *out = &made_up;
    return HD_OK;
}

void hd_device_close(hd_device *d) { (void)d; }

const char *hd_accelerator_name(const hd_device *d)
{
    (void)d;
    return "made up";
}

hd_stream *hd_accelerator_stream(const hd_device *d) { return (hd_stream *)(uintptr_t)d; }

void *hd_accelerator_alloc(hd_device *d, size_t bytes)
{
    int i = 0;
    while (i < MADE_UP_BLOCKS && d->blocks[i].at) i++;
    if (i == MADE_UP_BLOCKS) return NULL;
    void *const at = mmap(NULL, bytes + 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return NULL;
    d->blocks[i] = (made_up_block){at, bytes + 1};
    return at;
}

void hd_accelerator_free(hd_device *d, void *p)
{
    for (int i = 0; i < MADE_UP_BLOCKS; i++) {
        if (d->blocks[i].at != p) continue;
        munmap(p, d->blocks[i].bytes);
        d->blocks[i] = (made_up_block){0};
    }
}

void *hd_accelerator_alloc_pinned(hd_device *d, size_t bytes)
{
    (void)d;
    return hd_memory_alloc(bytes);
}

void hd_accelerator_free_pinned(hd_device *d, void *p)
{
    (void)d;
    hd_memory_free(p);
}

static hd_status made_up_copy(void *to, const void *from, size_t bytes, const void *remote,
                              hd_error *err)
{
    HD_TRY(made_up_try(err));
    if (!bytes) return HD_OK;
    if (!made_up_owns(remote, bytes)) HD_FAIL(err, HD_ERR_DEVICE, "not the device's memory");
    made_up_open_memory(true);
    memcpy(to, from, bytes);
    made_up_open_memory(false);
    return HD_OK;
}

hd_status hd_accelerator_write(hd_device *d, void *to, const void *from, size_t bytes,
                               hd_error *err)
{
    (void)d;
    return made_up_copy(to, from, bytes, to, err);
}

hd_status hd_accelerator_read(hd_device *d, void *to, const void *from, size_t bytes, hd_error *err)
{
    (void)d;
    return made_up_copy(to, from, bytes, from, err);
}

hd_status hd_accelerator_copy(hd_device *d, const hd_copy *c, hd_error *err)
{
    (void)d;
    for (size_t i = 0; i < c->rows; i++) {
        char *const       to = (char *)c->to + i * c->to_pitch;
        const char *const from = (const char *)c->from + i * c->from_pitch;
        HD_TRY(made_up_copy(to, from, c->width, c->kind == HD_COPY_WRITE ? to : from, err));
    }
    return HD_OK;
}

hd_status hd_accelerator_sync(hd_device *d, hd_error *err)
{
    (void)d;
    return made_up_try(err);
}

/* ---- recordings ---- */

hd_status hd_device_capture_begin(hd_device *d, hd_error *err)
{
    assert(!d->recording);
    HD_TRY(made_up_try(err));
    d->recording = hd_memory_alloc(sizeof *d->recording);
    if (!d->recording) HD_FAIL(err, HD_ERR_MEMORY, "no memory for a recording");
    d->waits = (made_up_set){{0}};
    d->last = NULL;
    return HD_OK;
}

hd_status hd_device_capture_after(hd_device *d, hd_point *const *points, int32_t n, hd_error *err)
{
    assert(d->recording);
    HD_TRY(made_up_try(err));
    d->waits = (made_up_set){{0}};
    d->last = NULL;
    for (int32_t i = 0; i < n; i++) made_up_join(&d->waits, points[i]);
    return HD_OK;
}

hd_status hd_device_capture_point(hd_device *d, hd_point **out, hd_error *err)
{
    assert(d->recording);
    HD_TRY(made_up_try(err));
    *out = d->last;
    return HD_OK;
}

hd_status hd_device_capture_end(hd_device *d, hd_graph **out, hd_error *err)
{
    hd_graph *const g = d->recording;
    assert(g);
    d->recording = NULL;
    hd_status const s = made_up_try(err);
    if (s != HD_OK) {
        hd_memory_free(g);
        return s;
    }
    g->end = d->waits;
    d->n_graphs++;
    *out = g;
    return HD_OK;
}

hd_status hd_graph_launch(hd_device *d, hd_graph *g, hd_error *err)
{
    (void)d;
    (void)g;
    HD_FAIL(err, HD_ERR_UNSUPPORTED, "made up recordings do not run");
}

void hd_graph_free(hd_graph *g)
{
    if (g) made_up.n_graphs--;
    hd_memory_free(g);
}

/* ---- clocks: none ---- */

hd_status hd_timer_open(hd_timer **out, hd_device *d, hd_error *err)
{
    (void)out;
    (void)d;
    HD_FAIL(err, HD_ERR_UNSUPPORTED, "no clock");
}

void hd_timer_close(hd_timer *t) { (void)t; }

hd_status hd_timer_start(hd_timer *t, hd_error *err)
{
    (void)t;
    HD_FAIL(err, HD_ERR_UNSUPPORTED, "no clock");
}

hd_status hd_timer_stop(hd_timer *t, double *seconds, hd_error *err)
{
    (void)seconds;
    return hd_timer_start(t, err);
}

#endif
