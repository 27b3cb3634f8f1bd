#include <string.h>

#include "base/accelerator.h"
#include "base/device.h"

/* The host's half of every call; the accelerator's is behind it. */

const char *hd_device_name(const hd_device *d) { return d ? hd_accelerator_name(d) : "host"; }

hd_stream *hd_device_stream(const hd_device *d) { return d ? hd_accelerator_stream(d) : NULL; }

void *hd_device_alloc(hd_device *d, size_t bytes)
{
    if (!d) return hd_memory_alloc(bytes);
    return hd_memory_may_allocate() ? hd_accelerator_alloc(d, bytes) : NULL;
}

void hd_device_free(hd_device *d, void *p)
{
    if (d && p)
        hd_accelerator_free(d, p);
    else
        hd_memory_free(p);
}

void *hd_device_reserve(hd_device *d, size_t bytes)
{
    return d ? hd_device_alloc(d, bytes) : hd_memory_reserve(bytes);
}

void hd_device_unreserve(hd_device *d, void *p, size_t bytes)
{
    if (d)
        hd_device_free(d, p);
    else
        hd_memory_unreserve(p, bytes);
}

void hd_device_return(hd_device *d, void *p, size_t bytes)
{
    if (!d) hd_memory_return(p, bytes);
}

void *hd_device_alloc_pinned(hd_device *d, size_t bytes)
{
    if (!d) return hd_memory_alloc(bytes);
    return hd_memory_may_allocate() ? hd_accelerator_alloc_pinned(d, bytes) : NULL;
}

void hd_device_free_pinned(hd_device *d, void *p)
{
    if (d && p)
        hd_accelerator_free_pinned(d, p);
    else
        hd_memory_free(p);
}

hd_status hd_device_write(hd_device *d, void *to, const void *from, size_t bytes, hd_error *err)
{
    if (d) return hd_accelerator_write(d, to, from, bytes, err);
    if (bytes && to != from) memcpy(to, from, bytes);
    return HD_OK;
}

hd_status hd_device_read(hd_device *d, void *to, const void *from, size_t bytes, hd_error *err)
{
    if (d) return hd_accelerator_read(d, to, from, bytes, err);
    if (bytes && to != from) memcpy(to, from, bytes);
    return HD_OK;
}

hd_status hd_device_copy(hd_device *d, const hd_copy *c, hd_error *err)
{
    if (d) return hd_accelerator_copy(d, c, err);
    for (size_t i = 0; i < c->rows; i++)
        memcpy((char *)c->to + i * c->to_pitch, (const char *)c->from + i * c->from_pitch,
               c->width);
    return HD_OK;
}

hd_status hd_device_sync(hd_device *d, hd_error *err)
{
    return d ? hd_accelerator_sync(d, err) : HD_OK;
}
