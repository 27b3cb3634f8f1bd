#ifndef HD_DOCTOR_QUANTIZE_H
#define HD_DOCTOR_QUANTIZE_H

#include "base/log.h"
#include "base/memory.h"
#include "doctor/calibrate.h"
#include "quant/nvfp4_weights.h"

/* Makes an NVFP4 checkpoint of another one, shard by shard.
 *
 * The result grows in the folder `target`.part and gets its name when it is whole and was audited.
 * A run that was killed is taken up by the next one with the same options: shards that are whole
 * stay, and the result has the same bytes.  Its own memory is constant, besides tables of headers.
 */

HD_BEGIN_C

typedef enum hd_quantize_to {
    HD_TO_NVFP4,        /* all linear matrices; Hugging Face names                        */
    HD_TO_NVFP4_EXPERTS /* the routed experts of the main layers; official names, all else as it is
                         */
} hd_quantize_to;

typedef struct hd_quantize_options {
    const char                *source, *target; /* folders */
    hd_quantize_to             to;
    hd_block_scales            scales;
    const char *const         *keep; /* [n_keep] globs of official names of matrices that stay */
    int32_t                    n_keep;
    hd_engine                 *engine;  /* over source, exact, on the host; NULL: no input scales */
    const hd_calibration_text *text;    /* what it reads */
    const char                *version; /* of the program, for config.json */
    int32_t                    n_threads; /* 0: as many as the machine has cores, at most 16 */
    const hd_log              *log; /* its functions are called from any thread, one at a time */
} hd_quantize_options;

typedef struct hd_quantize hd_quantize;

/* Runs the whole; what opt borrows must live until hd_quantize_close.
 * owns     *out is the caller's: hd_quantize_close (NULL is fine)
 * returns  HD_ERR_INVALID: target is there, nothing to convert, work begun with other options;
 *          HD_ERR_FORMAT, HD_ERR_NUMERIC: the source is broken, naming the tensor;
 *          HD_ERR_UNSUPPORTED, HD_ERR_IO (also for want of space), HD_ERR_MEMORY             */
hd_status hd_quantize_run(hd_quantize **out, const hd_quantize_options *opt, hd_error *err);
void      hd_quantize_close(hd_quantize *q);
/* Whether the audit found no error, so that target is there; else what there is stays beside it. */
bool hd_quantize_is_done(const hd_quantize *q);

/* What became of the matrices, what it cost, and what the audit says. */
void hd_quantize_print(const hd_quantize *q, hd_buffer *out);
void hd_quantize_print_json(const hd_quantize *q, hd_buffer *out); /* one object */
void hd_quantize_print_html(const hd_quantize *q, hd_buffer *out); /* a page with pictures */

HD_END_C
#endif
