#ifndef HD_DOCTOR_AUDIT_H
#define HD_DOCTOR_AUDIT_H

#include "base/log.h"
#include "base/memory.h"

/* Reads a checkpoint as a stream, loads nothing, and tells all that is wrong or odd with it. */

HD_BEGIN_C

typedef enum hd_severity { HD_NOTE, HD_WARNING, HD_ERROR } hd_severity;
#define HD_N_SEVERITIES 3
const char *hd_severity_name(hd_severity s); /* "warning" */

/* One finding; strings belong to the audit. */
typedef struct hd_finding {
    hd_severity severity;
    const char *kind;    /* a word, such as "scale-nan" */
    const char *tensor;  /* NULL: none in particular    */
    const char *file;    /* in the folder; or NULL      */
    const char *message; /* one line                    */
} hd_finding;

typedef struct hd_audit hd_audit;

typedef struct hd_audit_options {
    const char   *model;
    const char   *against;   /* another folder of the same weights; NULL: none */
    int32_t       n_threads; /* 0: as many as the machine has cores, at most 16 */
    const hd_log *log;       /* progress; its functions are called from any thread, one at a time */
} hd_audit_options;

/* Audits a folder.  What is wrong with its files is a finding, never a failure.
 * owns     *out is the caller's: hd_audit_close (NULL is fine)
 * returns  HD_ERR_IO when a folder is not there, HD_ERR_MEMORY                              */
hd_status hd_audit_run(hd_audit **out, const hd_audit_options *opt, hd_error *err);
void      hd_audit_close(hd_audit *a);

/* Findings of a severity, also those of which no text was kept. */
int64_t hd_audit_count(const hd_audit *a, hd_severity s);
int64_t hd_audit_bytes(const hd_audit *a); /* read */

/* A table for people: kinds of tensors, comparison, findings.  Of findings of one kind the first
 * few are shown unless `is_whole`. */
void hd_audit_print(const hd_audit *a, bool is_whole, hd_buffer *out);
/* A page with pictures (report_html.h); findings as in hd_audit_print. */
void hd_audit_print_html(const hd_audit *a, bool is_whole, hd_buffer *out);
/* One JSON object; with every matrix and tensor where `is_whole`. */
void hd_audit_print_json(const hd_audit *a, bool is_whole, hd_buffer *out);

HD_END_C
#endif
