#ifndef HD_CLI_CALIBRATION_TEXT_H
#define HD_CLI_CALIBRATION_TEXT_H

#include "cli/screen.h"
#include "doctor/calibrate.h"

/* The file that a model reads to see how large its inputs get. */

HD_BEGIN_C

/* Windows as they are collected. */
typedef struct hd_calibration_rows {
    hd_buffer           ids, lengths; /* of int32_t; owned */
    hd_calibration_text text;         /* borrows from them */
} hd_calibration_rows;

/* Reads a file of one JSON object a line: {"messages": [...]}, a chat request, which becomes the
 * prompt that the model would read, or {"text": "..."}.  What is longer than `window` tokens
 * becomes several windows, each behind a begin-of-sentence token. owns     *out is the caller's:
 * hd_calibration_rows_free, also after a failure */
hd_status hd_calibration_rows_read(hd_calibration_rows *out, const char *path, const hd_engine *e,
                                   int32_t window, hd_screen *screen, hd_error *err);
void      hd_calibration_rows_free(hd_calibration_rows *r);

HD_END_C
#endif
