#ifndef HD_DOCTOR_MEMORY_REPORT_H
#define HD_DOCTOR_MEMORY_REPORT_H

#include "base/memory.h"

HD_BEGIN_C

/* Writes what an engine with these options would take, part by part, and which contexts would
 * fit this machine.  Reads the model's config and headers, no weights.
 * returns  what hd_engine_open would, except for want of memory */
hd_status hd_memory_report(hd_buffer *out, const hd_options *opt, hd_error *err);

HD_END_C
#endif
