#ifndef HD_DOCTOR_AUDIT_PARTS_H
#define HD_DOCTOR_AUDIT_PARTS_H

#include "base/json.h"
#include "doctor/audit.h"
#include "doctor/audit_scan.h"

/* The inside of an audit, for its files and those of quantize.h, which works on the same lists. */

HD_BEGIN_C

/* ---- findings ---- */

/* Of one kind so many are kept; all are counted. */
#define HD_MAX_FINDINGS_OF_KIND 1000
#define HD_MAX_FINDING_KINDS    64
/* And so many are shown to people who did not ask for all. */
#define HD_AUDIT_SHOWN 10

typedef struct hd_finding_kind {
    const char *name; /* static */
    int64_t     n, kept;
} hd_finding_kind;

typedef struct hd_findings {
    hd_finding     *list; /* [used] of hd_memory */
    int64_t         used, cap;
    hd_finding_kind kinds[HD_MAX_FINDING_KINDS];
    int32_t         n_kinds;
    int64_t         n[HD_N_SEVERITIES];
    bool            failed; /* sticky: no memory */
    hd_pool         pool;
} hd_findings;

/* What a finding is about; `kind` is a static string. */
typedef struct hd_finding_head {
    hd_severity severity;
    const char *kind, *tensor, *file;
} hd_finding_head;

void hd_findings_add(hd_findings *f, const hd_finding_head *head, const char *fmt, ...)
    HD_PRINTF(3, 4);
void hd_findings_free(hd_findings *f);

/* ---- what is audited ---- */

/* How a tensor differs from the one of the same name in another checkpoint. */
typedef struct hd_difference {
    bool   is_known;
    double error;  /* |a - b| / |b| in the Frobenius norm */
    double cosine; /* of both as vectors                  */
    double ratio;  /* |a| / |b|                           */
} hd_difference;

typedef struct hd_audit_item {
    hd_scanned    what;
    hd_scan       scan;
    hd_difference difference;
} hd_audit_item;

typedef struct hd_audit_side {
    hd_findings     *findings; /* where faults go; NULL: nowhere */
    hd_checkpoint   *ck;       /* owned */
    hd_audit_item   *items;    /* [used] owned; in the order of the model's walk */
    int64_t          used, cap;
    hd_name_map      by_name;
    hd_survey_result survey;
    hd_pool          pool;
    bool             failed; /* sticky: no memory for an item */
} hd_audit_side;

struct hd_audit {
    hd_audit_side model, other; /* other: zero unless compared with */
    bool          has_other;
    int32_t       n_threads;
    int64_t       bytes; /* read */
    hd_scale_bins bins;  /* block scales of the model */
    hd_findings   findings;
    const hd_log *log;
};

/* Lists what is in a folder and tells its faults.  A zeroed side may be closed, also after a
 * failure. */
hd_status hd_audit_side_open(hd_audit_side *s, const char *folder, const hd_log *log,
                             hd_error *err);
void      hd_audit_side_close(hd_audit_side *s);
/* NULL when there is no such item. */
hd_audit_item *hd_audit_find(const hd_audit_side *s, const char *name);
const char    *hd_audit_file(const hd_audit_side *s, const hd_tensor *t);

/* Scans every item, several at a time. */
hd_status hd_audit_scan(hd_audit *a, hd_error *err);
/* Compares every item with the other side's of that name. */
hd_status hd_audit_compare(hd_audit *a, hd_error *err);
/* Turns what was seen into findings. */
void hd_audit_judge(hd_audit *a);
void hd_audit_judge_groups(hd_audit *a);
void hd_audit_judge_config(hd_audit *a);
/* What the quantization_config of config.json says of modules, or hf_quant_config.json; NULL: it
 * says nothing. */
void hd_audit_judge_lists(hd_audit *a, const char *file, const json_object *quantization);
void hd_audit_judge_quant_config(hd_audit *a, const char *file, const json_object *root);

/* ---- work of several threads ---- */

#define HD_AUDIT_MOST_THREADS 16
/* So many as are wanted, 0: one a core; 1 .. HD_AUDIT_MOST_THREADS. */
int32_t hd_audit_threads(int32_t wanted);
/* Does part i of n; `room` is the thread's own. */
typedef bool hd_audit_work_fn(void *user, void *room, int64_t i);
typedef struct hd_audit_work {
    hd_audit_work_fn *run;
    void             *user;
    void            **rooms; /* [n_threads] */
    int64_t           n;
    int32_t           n_threads;
} hd_audit_work;
/* Runs all parts, in the calling thread too.  returns false when one did */
bool hd_audit_work_run(const hd_audit_work *w);

/* Keeps memory constant while checkpoints are read through: each time another quarter of a GiB was
 * read, their pages are let go.  Zero-initialise but for `of`; any thread. */
typedef struct hd_audit_sweep {
    const hd_checkpoint *of[2]; /* borrowed; NULL is fine */
    int64_t              read;  /* bytes so far; several threads add to it */
} hd_audit_sweep;
void hd_audit_sweep_add(hd_audit_sweep *s, int64_t bytes);

/* The sections of an audit's page: findings, all of them with is_whole; errors against the other
 * folder, if there was one; scales; largest weights. */
void hd_audit_html_sections(const hd_audit *a, bool is_whole, hd_buffer *out);

/* Whether two matrices are the same projection of two experts of one layer. */
bool hd_audit_same_projection(const char *a, const char *b);
/* The same, or gate and up, which one product multiplies: they must be of one format. */
bool hd_audit_same_product(const char *a, const char *b);
/* Name without digits, to tell which tensors are alike: "layers.*.attn.wq_a".  Returns out. */
char *hd_audit_pattern(const char *name, char *out, size_t cap);

HD_END_C
#endif
