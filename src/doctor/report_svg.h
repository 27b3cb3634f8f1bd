#ifndef HD_DOCTOR_REPORT_SVG_H
#define HD_DOCTOR_REPORT_SVG_H

#include "base/memory.h"

/* Pictures of a report, as figures with inline SVG in the colours of the page (report_html.h). */

HD_BEGIN_C

/* Numbers of any size, from the smallest above 0 to the largest that is finite. */
typedef struct hd_scale {
    double low, high; /* ends; powers of ten where it is logarithmic */
    bool   is_log, is_any;
} hd_scale;
hd_scale hd_scale_make(bool is_log);
void     hd_scale_widen(hd_scale *s, double x);
/* Rounds the ends outward. */
void hd_scale_settle(hd_scale *s);
/* Where x stands, 0 .. 1. */
double hd_scale_place(const hd_scale *s, double x);

typedef struct hd_bar {
    const char *label;
    double      value; /* >= 0; what is not finite is drawn to the top in the colour of faults */
} hd_bar;

typedef struct hd_bars {
    const char   *title, *unit;
    const hd_bar *list; /* [n] */
    int32_t       n;
    bool          is_log;
} hd_bars;

/* Upright bars with short labels: by layer, by bin. */
void hd_svg_bars(hd_buffer *out, const hd_bars *b);
/* Lying bars with long labels: a ranking. */
void hd_svg_ranking(hd_buffer *out, const hd_bars *b);

/* A table of colours on a logarithmic scale.  0 is an empty cell with an outline, NaN where there
 * is nothing, infinity a fault. */
typedef struct hd_heat {
    const char        *title, *unit;
    const char *const *rows;  /* [n_rows] */
    const char *const *cols;  /* [n_cols] short */
    const double      *cells; /* [n_rows, n_cols] */
    int32_t            n_rows, n_cols;
} hd_heat;
void hd_svg_heat(hd_buffer *out, const hd_heat *h);

HD_END_C
#endif
