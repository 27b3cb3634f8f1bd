#ifndef HD_DOCTOR_TRACE_REPORT_H
#define HD_DOCTOR_TRACE_REPORT_H

#include "base/memory.h"

HD_BEGIN_C

typedef struct hd_trace_report_options {
    const int32_t *ids; /* [n] */
    int32_t        n;
    const char    *steps; /* a glob of step names, "L0[0-3].*"; NULL: all; of what is listed only */
    bool           is_json;
    hd_buffer     *html; /* a page too (report_html.h); NULL: none */
} hd_trace_report_options;

/* Runs tokens as hd_trace does and writes one line for each operand that a step leaves: finite or
 * not, range, RMS, and the blocks whose scale saturated.  Ends behind the first step that leaves
 * NaN or infinity and says which operand, row and column, and what the step had read.
 * is_bad   whether there was such a step
 * returns  as hd_trace */
hd_status hd_trace_report(hd_engine *e, const hd_trace_report_options *opt, hd_buffer *out,
                          bool *is_bad, hd_error *err);

HD_END_C
#endif
