#ifndef HD_DOCTOR_CALIBRATE_H
#define HD_DOCTOR_CALIBRATE_H

#include "base/log.h"

/* Sees how large the inputs of each matrix get while a model reads. */

HD_BEGIN_C

/* Windows of token ids, each read in one pass from an empty sequence. */
typedef struct hd_calibration_text {
    const int32_t *ids;     /* of all windows, one behind the other */
    const int32_t *lengths; /* [n] at least 1, at most the engine's chunk */
    int32_t        n;
} hd_calibration_text;

/* Told the largest magnitude that a matrix (official name, without suffix) had to multiply in a
 * window; not of experts that no token went to. */
typedef void hd_input_fn(void *user, const char *matrix, double amax);

/* Runs all windows, and the MTP block behind each where the engine has it bound.
 * e        of the host, with exact activations; no session open
 * returns  HD_ERR_UNSUPPORTED for another engine, HD_ERR_NUMERIC naming the step whose input is
 *          not finite, what a pass returns                                                     */
hd_status hd_calibrate(hd_engine *e, const hd_calibration_text *text, hd_input_fn *on_input,
                       void *user, const hd_log *log, hd_error *err);

HD_END_C
#endif
