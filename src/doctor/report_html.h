#ifndef HD_DOCTOR_REPORT_HTML_H
#define HD_DOCTOR_REPORT_HTML_H

#include "base/memory.h"

/* Writes a report as one page that needs nothing else: no script, no network, pictures as inline
 * SVG.  Light and dark as the reader's screen is, narrow enough for a phone, and printable.  All
 * text is escaped here, whoever made it: markup cannot be smuggled in by a name. */

HD_BEGIN_C

/* A page holds sections; sections hold what is below, in any order. */
void hd_html_begin(hd_buffer *out, const char *title, const char *summary);
void hd_html_section(hd_buffer *out, const char *heading);
void hd_html_end(hd_buffer *out);

/* A paragraph; one that says what is wrong stands out. */
void hd_html_note(hd_buffer *out, const char *fmt, ...) HD_PRINTF(2, 3);
void hd_html_alarm(hd_buffer *out, const char *fmt, ...) HD_PRINTF(2, 3);

/* Each line of `text` as a paragraph. */
void hd_html_lines(hd_buffer *out, const char *text);

/* A table: head, then rows of as many cells.  Heads that begin with '#' are of columns of
 * numbers. */
void hd_html_table_begin(hd_buffer *out, const char *const *heads, int32_t n);
void hd_html_row_begin(hd_buffer *out);
void hd_html_row_end(hd_buffer *out);
void hd_html_cell(hd_buffer *out, const char *text);
void hd_html_number(hd_buffer *out, const char *fmt, ...) HD_PRINTF(2, 3);
void hd_html_table_end(hd_buffer *out);

/* Text for an element or an attribute: markup is escaped; control characters, those that turn the
 * direction of writing, and bytes that are no UTF-8 become U+FFFD. */
void hd_html_text(hd_buffer *out, const char *text);
/* The same of the first characters, with an ellipsis when there are more than `most`. */
void hd_html_text_cut(hd_buffer *out, const char *text, int32_t most);

HD_END_C
#endif
