#ifndef HD_DOCTOR_TRACE_REPORT_PARTS_H
#define HD_DOCTOR_TRACE_REPORT_PARTS_H

#include "doctor/operand_stats.h"
#include "doctor/pass_walk.h"
#include "doctor/trace_report.h"

/* The inside of a trace's report, for its files only. */

HD_BEGIN_C

#define HD_TRACE_NAME 96

/* What one step left in one place: the newest one tells what a later step read there. */
typedef struct hd_trace_left {
    char             step[HD_TRACE_NAME];
    hd_operand       operand;
    const void      *at; /* where kernels see it */
    hd_operand_stats stats;
} hd_trace_left;

/* What the step that went wrong had read. */
typedef struct hd_trace_input {
    hd_operand       operand;
    hd_operand_stats stats;
    bool             has_stats;
    char             from[HD_TRACE_NAME]; /* the step that left it; empty: none did */
} hd_trace_input;

typedef struct hd_trace_reporter {
    hd_engine                     *e;
    const hd_trace_report_options *opt;
    hd_buffer                     *out;
    hd_trace_left                 *list; /* [used] of the pool, the bad one last */
    int32_t                        used, cap, n_steps, n_listed;
    void                          *fetched; /* room for one operand of an accelerator */
    bool                           is_bad;
    const hd_kernel               *bad_kernel; /* of the step that went wrong */
    hd_trace_left                  bad;
    hd_trace_input                 inputs[HD_MAX_OPERANDS];
    int32_t                        n_inputs;
    hd_pool                        pool;
} hd_trace_reporter;

bool hd_trace_is_listed(const hd_trace_reporter *r, const char *step);
bool hd_trace_is_saturation(const hd_operand *o);
/* One line: "step L03.o_b (gemm_nvfp4_ref): 1 of 1536 values of y are NaN ..." */
void hd_trace_print_bad(const hd_trace_reporter *r, hd_buffer *out);
/* And one for each of its inputs. */
void hd_trace_print_input(const hd_trace_input *x, hd_buffer *out);

/* The page, when the walk is over. */
void hd_trace_print_html(const hd_trace_reporter *r, int32_t greedy, hd_buffer *out);

HD_END_C
#endif
