#ifndef HD_BASE_ACCELERATOR_H
#define HD_BASE_ACCELERATOR_H

#include "base/device.h"

/* What an accelerator's file provides to device_host.c; d is never NULL.  Contracts are those
 * of base/device.h. */

HD_BEGIN_C

const char *hd_accelerator_name(const hd_device *d);
hd_stream  *hd_accelerator_stream(const hd_device *d);
void       *hd_accelerator_alloc(hd_device *d, size_t bytes);
void        hd_accelerator_free(hd_device *d, void *p);
void       *hd_accelerator_alloc_pinned(hd_device *d, size_t bytes);
void        hd_accelerator_free_pinned(hd_device *d, void *p);
hd_status   hd_accelerator_write(hd_device *d, void *to, const void *from, size_t bytes,
                                 hd_error *err);
hd_status   hd_accelerator_read(hd_device *d, void *to, const void *from, size_t bytes,
                                hd_error *err);
hd_status   hd_accelerator_copy(hd_device *d, const hd_copy *c, hd_error *err);
hd_status   hd_accelerator_sync(hd_device *d, hd_error *err);

HD_END_C
#endif
