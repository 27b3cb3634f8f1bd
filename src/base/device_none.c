#include "base/accelerator.h"

/* The accelerator of a build without one: there is none to open, so nothing below is reached. */

uint32_t hd_device_isa(void) { return 0; }

hd_status hd_device_open(hd_device **out, hd_error *err)
{
    (void)out;
    HD_FAIL(err, HD_ERR_UNSUPPORTED, "this build has no accelerator (build with CUDA=1)");
}

void hd_device_close(hd_device *d) { (void)d; }

static hd_status fail(hd_error *err)
{
    HD_FAIL(err, HD_ERR_DEVICE, "no accelerator in this build");
}

const char *hd_accelerator_name(const hd_device *d)
{
    (void)d;
    return "none";
}

hd_stream *hd_accelerator_stream(const hd_device *d)
{
    (void)d;
    return NULL;
}

void *hd_accelerator_alloc(hd_device *d, size_t bytes)
{
    (void)d;
    (void)bytes;
    return NULL;
}

void hd_accelerator_free(hd_device *d, void *p)
{
    (void)d;
    (void)p;
}

void *hd_accelerator_alloc_pinned(hd_device *d, size_t bytes)
{
    return hd_accelerator_alloc(d, bytes);
}

void hd_accelerator_free_pinned(hd_device *d, void *p) { hd_accelerator_free(d, p); }

hd_status hd_accelerator_write(hd_device *d, void *to, const void *from, size_t bytes,
                               hd_error *err)
{
    (void)d;
    (void)to;
    (void)from;
    (void)bytes;
    return fail(err);
}

hd_status hd_accelerator_read(hd_device *d, void *to, const void *from, size_t bytes, hd_error *err)
{
    return hd_accelerator_write(d, to, from, bytes, err);
}

hd_status hd_accelerator_copy(hd_device *d, const hd_copy *c, hd_error *err)
{
    (void)d;
    (void)c;
    return fail(err);
}

hd_status hd_accelerator_sync(hd_device *d, hd_error *err)
{
    (void)d;
    return fail(err);
}

hd_status hd_device_capture_begin(hd_device *d, hd_error *err)
{
    (void)d;
    return fail(err);
}

hd_status hd_device_capture_end(hd_device *d, hd_graph **out, hd_error *err)
{
    (void)d;
    (void)out;
    return fail(err);
}

hd_status hd_device_capture_after(hd_device *d, hd_point *const *points, int32_t n, hd_error *err)
{
    (void)d;
    (void)points;
    (void)n;
    return fail(err);
}

hd_status hd_device_capture_point(hd_device *d, hd_point **out, hd_error *err)
{
    (void)d;
    (void)out;
    return fail(err);
}

hd_status hd_graph_launch(hd_device *d, hd_graph *g, hd_error *err)
{
    (void)d;
    (void)g;
    return fail(err);
}

void hd_graph_free(hd_graph *g) { (void)g; }

hd_status hd_timer_open(hd_timer **out, hd_device *d, hd_error *err)
{
    (void)out;
    (void)d;
    return fail(err);
}

void hd_timer_close(hd_timer *t) { (void)t; }

hd_status hd_timer_start(hd_timer *t, hd_error *err)
{
    (void)t;
    return fail(err);
}

hd_status hd_timer_stop(hd_timer *t, double *seconds, hd_error *err)
{
    (void)t;
    (void)seconds;
    return fail(err);
}
