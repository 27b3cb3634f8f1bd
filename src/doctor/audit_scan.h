#ifndef HD_DOCTOR_AUDIT_SCAN_H
#define HD_DOCTOR_AUDIT_SCAN_H

#include "weights/survey.h"

/* Looks at every value of a matrix or of another tensor once, part by part: what a number format
 * cannot hide. */

HD_BEGIN_C

/* How many, and the index of the first, which counts in the tensor that is meant. */
typedef struct hd_tally {
    int64_t n, first;
} hd_tally;

/* What is looked at; the tensors are the checkpoint's. */
typedef struct hd_scanned {
    const char *name;   /* of a matrix without suffix */
    hd_format   format; /* HD_FMT_NONE: no matrix, only w */
    int32_t     n, k;
    hd_tensor  *w, *scale, *tensor_scale, *input_scale; /* NULL where there is none */
    bool        is_divisor, is_wanted;
    int32_t     limit; /* > 0: whole numbers in [0, limit) */
} hd_scanned;

typedef struct hd_scan {
    int64_t  values;
    hd_tally broken;  /* values that are NaN or infinite          */
    hd_tally outside; /* whole numbers outside their range        */
    double   amax;    /* largest magnitude of a decoded, finite value */

    int64_t  blocks; /* that have a scale; 0: no scales           */
    int64_t  zero;   /* scales of 0                               */
    hd_tally nan, negative;
    hd_tally lost;                 /* of 0, over codes that are not */
    hd_tally denormal;             /* the format's smallest, with less precision */
    hd_tally saturated;            /* the format's largest, over a largest code */
    hd_tally uneven;               /* no power of two              */
    double   scale_min, scale_max; /* of the scales above 0        */

    double tensor_scale, input_scale; /* as multipliers; 0: none   */
} hd_scan;

/* Block scales above 0 of each format by powers of two, those beyond the ends in the outermost: bin
 * i is [2^(i + HD_SCALE_FIRST), 2^(i + HD_SCALE_FIRST + 1)). */
#define HD_SCALE_BINS  256
#define HD_SCALE_FIRST (-128)
typedef struct hd_scale_bins {
    int64_t n[HD_N_FORMATS][HD_SCALE_BINS];
} hd_scale_bins;

/* Room that a thread needs to scan. */
typedef struct hd_scanner hd_scanner;
hd_scanner               *hd_scanner_make(void); /* NULL: no memory */
void                      hd_scanner_free(hd_scanner *s);
/* Adds all that it has scanned. */
void hd_scanner_add_bins(const hd_scanner *s, hd_scale_bins *to);

/* Bytes of all tensors of an item. */
int64_t hd_scanned_bytes(const hd_scanned *m);
/* Scans all of it.  Pages are released behind the reading; on_part is told the bytes of each
 * part done.  returns false when there is no memory for it */
typedef void hd_scan_part_fn(void *user, int64_t bytes);
bool hd_scan_item(hd_scanner *s, const hd_scanned *m, hd_scan *out, hd_scan_part_fn *on_part,
                  void *user);

HD_END_C
#endif
