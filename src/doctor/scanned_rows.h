#ifndef HD_DOCTOR_SCANNED_ROWS_H
#define HD_DOCTOR_SCANNED_ROWS_H

#include "doctor/audit_scan.h"

/* A matrix or another tensor as rows of decoded values: what comparing and converting read. */

HD_BEGIN_C

int64_t hd_scanned_rows(const hd_scanned *m);
/* Values of a row; the last one of a tensor that is no matrix may be shorter. */
int64_t hd_scanned_width(const hd_scanned *m);
/* Rows that make up some megabytes, at least 1: to be released together. */
int64_t hd_scanned_step(const hd_scanned *m);
/* Row r into out [hd_scanned_width]; returns its length. */
int64_t hd_scanned_decode(const hd_scanned *m, int64_t r, double *out);
/* Rows [begin, end) were read for the last time. */
void hd_scanned_release(const hd_scanned *m, int64_t begin, int64_t end);

HD_END_C
#endif
