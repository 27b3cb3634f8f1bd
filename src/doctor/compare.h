#ifndef HD_DOCTOR_COMPARE_H
#define HD_DOCTOR_COMPARE_H

#include "base/memory.h"

/* Holds two forward passes against each other, step by step: live ones and dumps of hd_trace, or
 * of another program that calls its tensors the same. */

HD_BEGIN_C

typedef struct hd_compare_side {
    const char *path;   /* of the model or of the dump, for the report; borrowed */
    hd_engine  *engine; /* borrowed; NULL: the dump at `path`                    */
} hd_compare_side;

typedef struct hd_compare_options {
    hd_compare_side a, b;
    const int32_t  *ids; /* [n] what live sides run; n 0 when there is none */
    int32_t         n;
    const char     *steps;     /* a glob of step names and of `logits`; NULL: all      */
    double          tolerance; /* relative error from which on a step counts as another */
} hd_compare_options;

typedef struct hd_compare hd_compare;

/* Compares every tensor that both sides have under one name; two live sides run at the same time,
 * each in a thread, so that nothing is kept.
 * owns     *out is the caller's: hd_compare_close (NULL is fine)
 * returns  HD_ERR_INVALID when nothing can be compared or ids do not fit; HD_ERR_IO,
 *          HD_ERR_FORMAT for a dump; HD_ERR_MEMORY; what a pass returns                     */
hd_status hd_compare_run(hd_compare **out, const hd_compare_options *opt, hd_error *err);
void      hd_compare_close(hd_compare *c);
/* Whether a step is further apart than the tolerance, or only one side is finite there. */
bool hd_compare_differs(const hd_compare *c);

/* A summary by layer, the first steps that differ, the worst ones and the logits; with is_whole
 * every step. */
void hd_compare_print(const hd_compare *c, bool is_whole, hd_buffer *out);
void hd_compare_print_json(const hd_compare *c, hd_buffer *out);
void hd_compare_print_html(const hd_compare *c, hd_buffer *out);

/* The ids that a dump was made from.
 * owns     *ids belongs to `pool`
 * returns  HD_ERR_FORMAT when it does not say */
hd_status hd_compare_dump_ids(const char *path, hd_pool *pool, int32_t **ids, int32_t *n,
                              hd_error *err);

HD_END_C
#endif
