#ifndef HD_BASE_DEVICE_H
#define HD_BASE_DEVICE_H

#include "base/memory.h"

/* Where kernels run and their memory is: the host (a NULL device) or one accelerator.  The
 * accelerator's side is one file, device_cuda.cu, or device_none.c in a build without. */

HD_BEGIN_C

typedef struct hd_device hd_device; /* NULL: the host */
typedef struct hd_stream hd_stream; /* work on one runs in order; on the host a team (base/team.h),
                                       NULL: the calling thread alone */
typedef struct hd_graph hd_graph;   /* captured work, replayed as one            */
typedef struct hd_point hd_point;   /* in a recording: where a piece of work ends    */

/* Kernel families (HD_ISA_) that the accelerator of this machine runs; 0 without one. */
uint32_t hd_device_isa(void);

/* Opens the accelerator.  returns HD_ERR_UNSUPPORTED when this build or machine has none */
hd_status   hd_device_open(hd_device **out, hd_error *err);
void        hd_device_close(hd_device *d);        /* NULL is fine */
const char *hd_device_name(const hd_device *d);   /* "host", "NVIDIA H200" */
hd_stream  *hd_device_stream(const hd_device *d); /* NULL for the host */

/* Zeroed bytes aligned to HD_ALIGN; NULL when memory is short.  Fails
 * while memory is sealed, as hd_memory_alloc does. */
void *hd_device_alloc(hd_device *d, size_t bytes);
void  hd_device_free(hd_device *d, void *p);
/* The same for caches that fill: of the host as hd_memory_reserve, so that a part can be returned
 * when it is empty; an accelerator sets all of it aside, and returning does nothing there. */
void *hd_device_reserve(hd_device *d, size_t bytes);
void  hd_device_unreserve(hd_device *d, void *p, size_t bytes);
void  hd_device_return(hd_device *d, void *p, size_t bytes);
/* Host memory that the accelerator reaches without a copy in between; NULL when short. */
void *hd_device_alloc_pinned(hd_device *d, size_t bytes);
void  hd_device_free_pinned(hd_device *d, void *p);

/* Copies in stream order; from pinned memory the call may return before it is done. */
hd_status hd_device_write(hd_device *d, void *to, const void *from, size_t bytes, hd_error *err);
hd_status hd_device_read(hd_device *d, void *to, const void *from, size_t bytes, hd_error *err);
/* Copies `rows` runs of `width` bytes that stand `pitch` bytes apart on each side; both sides on
 * the host, or one or both on the device as `kind` says.  The call returns when it is done. */
typedef enum hd_copy_kind { HD_COPY_READ, HD_COPY_WRITE, HD_COPY_WITHIN } hd_copy_kind;
typedef struct hd_copy {
    hd_copy_kind kind; /* device to host, host to device, device to device */
    void        *to;
    const void  *from;
    size_t       to_pitch, from_pitch, width, rows;
} hd_copy;
hd_status hd_device_copy(hd_device *d, const hd_copy *c, hd_error *err);
/* Waits for all work; an error of an earlier kernel surfaces here. */
hd_status hd_device_sync(hd_device *d, hd_error *err);

/* Between begin and end, work on the stream is recorded instead of run.
 * returns  HD_ERR_DEVICE when the accelerator refuses; the host has no graphs
 * owns     *out is the caller's, freed before the memory that it uses */
hd_status hd_device_capture_begin(hd_device *d, hd_error *err);
hd_status hd_device_capture_end(hd_device *d, hd_graph **out, hd_error *err);
/* While recording: what is recorded next waits for these points, n of them, and for nothing else
 * (without this call, for what was recorded last). */
hd_status hd_device_capture_after(hd_device *d, hd_point *const *points, int32_t n, hd_error *err);
/* Where that ended which was recorded last; NULL when nothing was since capture_after.  Valid until
 * capture_end. */
hd_status hd_device_capture_point(hd_device *d, hd_point **out, hd_error *err);
hd_status hd_graph_launch(hd_device *d, hd_graph *g, hd_error *err);
void      hd_graph_free(hd_graph *g); /* NULL is fine */

/* Seconds that the work between two marks took on the accelerator, by its own clock. */
typedef struct hd_timer hd_timer;
hd_status               hd_timer_open(hd_timer **out, hd_device *d, hd_error *err);
void                    hd_timer_close(hd_timer *t);
hd_status               hd_timer_start(hd_timer *t, hd_error *err);
hd_status               hd_timer_stop(hd_timer *t, double *seconds, hd_error *err);

HD_END_C
#endif
