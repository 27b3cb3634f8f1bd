#ifndef HD_DOCTOR_REPORT_VALUES_H
#define HD_DOCTOR_REPORT_VALUES_H

#include "base/memory.h"
#include "model/plan.h"

/* The pictures that all reports have, made of a list of numbers, each of one step or tensor; the
 * numbers stand in a table under each. */

HD_BEGIN_C

typedef struct hd_report_value {
    const char *name;  /* "L03.q_a.y" */
    const char *row;   /* "q_a.y": what it is called in every layer */
    int32_t     layer; /* or HD_LAYER_NONE, HD_LAYER_MTP */
    double      value; /* >= 0; NaN and infinity are faults */
    const char *note;  /* beside it where it is among the largest; NULL: nothing */
} hd_report_value;

typedef struct hd_report_values {
    const char            *what; /* "relative error" */
    const hd_report_value *list; /* [n] in the order of the plan or the files */
    int32_t                n;
} hd_report_values;

/* Of a step's name, or of what a step left. */
hd_report_value hd_report_value_of(const char *name, double value);

/* The largest of each layer.  Nothing is drawn where no value has a layer. */
void hd_report_by_layer(hd_buffer *out, const hd_report_values *v);
/* Rows by layers: the largest of each. */
void hd_report_heat(hd_buffer *out, const hd_report_values *v);
/* How many values there are in each decade. */
void hd_report_histogram(hd_buffer *out, const hd_report_values *v);
/* The ten largest, faults first. */
void hd_report_worst(hd_buffer *out, const hd_report_values *v);

/* Numbers by powers of two: n[i] of them in [2^(first + i), 2^(first + i + 1)). */
typedef struct hd_report_bins {
    const char    *title, *unit;
    const int64_t *n; /* [count] */
    int32_t        count, first;
} hd_report_bins;
void hd_report_bins_draw(hd_buffer *out, const hd_report_bins *b);

HD_END_C
#endif
