#include "doctor/audit.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/file.h"
#include "base/topology.h"
#include "doctor/audit_parts.h"

/* ---- the list of items ---- */

hd_audit_item *hd_audit_find(const hd_audit_side *s, const char *name)
{
    int32_t const i = hd_name_map_find(&s->by_name, name);
    return i < 0 ? NULL : s->items + i;
}

const char *hd_audit_file(const hd_audit_side *s, const hd_tensor *t)
{
    return t ? hd_checkpoint_file_name(s->ck, t->shard) : NULL;
}

char *hd_audit_pattern(const char *name, char *out, size_t cap)
{
    size_t n = 0;
    bool   is_number = true; /* at the start of a part */
    for (const char *p = name; *p && n + 1 < cap;) {
        size_t const part = strcspn(p, ".");
        is_number = part > 0 && strspn(p, "0123456789") == part;
        for (size_t i = 0; i < (is_number ? 1 : part) && n + 1 < cap; i++)
            out[n++] = is_number ? '*' : p[i];
        p += part;
        if (*p && n + 1 < cap) out[n++] = *p++;
    }
    out[n] = '\0';
    return out;
}

/* As many as there are tensors is enough: each belongs to one item. */
static hd_audit_item *add_item(hd_audit_side *s)
{
    if (s->used < s->cap) return &s->items[s->used++];
    s->failed = true;
    return NULL;
}

static void on_matrix(void *user, const hd_found_matrix *m)
{
    hd_audit_side *const s = user;
    const char *const    name = hd_pool_copy(&s->pool, m->name, strlen(m->name));
    hd_audit_item *const it = name ? add_item(s) : NULL;
    s->failed = s->failed || !it;
    if (!it) return;
    it->what = (hd_scanned){.name = name,
                            .format = m->format,
                            .n = m->n,
                            .k = m->k,
                            .w = m->w,
                            .scale = m->scale,
                            .tensor_scale = m->tensor_scale,
                            .input_scale = m->input_scale,
                            .is_divisor = m->is_divisor,
                            .is_wanted = m->is_wanted};
}

static void on_values(void *user, hd_tensor *t, int32_t limit)
{
    hd_audit_item *const it = add_item(user);
    if (!it) return;
    it->what = (hd_scanned){.name = *t->name ? t->name : t->st.name, .w = t, .limit = limit};
}

/* ---- faults of the loader's own walk ---- */

static const char *fault_word(hd_fault_kind k)
{
    static const char *const words[HD_N_FAULT_KINDS] = {
        [HD_FAULT_CONFIG] = "config",       [HD_FAULT_INDEX] = "index",
        [HD_FAULT_SHARD] = "shard",         [HD_FAULT_NAME] = "name",
        [HD_FAULT_DUPLICATE] = "duplicate", [HD_FAULT_MISSING] = "missing",
        [HD_FAULT_SHAPE] = "shape",         [HD_FAULT_SIBLINGS] = "siblings",
        [HD_FAULT_EXTRA] = "extra"};
    return words[k];
}

static void on_fault(void *user, const hd_fault *f)
{
    const hd_audit_side *const s = user;
    hd_finding_head const      head = {HD_ERROR, fault_word(f->kind), f->tensor, f->file};
    if (s->findings) hd_findings_add(s->findings, &head, "%s", f->message);
}

static hd_status name_items(hd_audit_side *s, hd_error *err)
{
    int32_t twins[2];
    HD_TRY(hd_name_map_open(&s->by_name, (int32_t)s->used, &s->pool, err));
    for (int32_t i = 0; i < (int32_t)s->used; i++)
        hd_name_map_add(&s->by_name, s->items[i].what.name, i);
    (void)hd_name_map_sort(&s->by_name, twins); /* of twins either is found */
    return HD_OK;
}

hd_status hd_audit_side_open(hd_audit_side *s, const char *folder, const hd_log *log, hd_error *err)
{
    hd_survey const survey = {on_fault, on_matrix, on_values, s};
    HD_TRY(hd_checkpoint_survey(&s->ck, folder, on_fault, s, log, err));
    s->cap = hd_checkpoint_count(s->ck);
    s->items = hd_memory_alloc((size_t)s->cap * sizeof *s->items);
    if (!s->items) HD_FAIL(err, HD_ERR_MEMORY, "%s: no memory for its tensors", folder);
    HD_TRY(hd_weights_survey(s->ck, &survey, &s->survey, err));
    if (s->failed) HD_FAIL(err, HD_ERR_MEMORY, "%s: no memory for its tensors", folder);
    return name_items(s, err);
}

void hd_audit_side_close(hd_audit_side *s)
{
    hd_memory_free(s->items);
    hd_pool_free(&s->pool);
    hd_checkpoint_close(s->ck);
}

/* ---- scanning ---- */

/* Items in the order of the files, so that a disk reads forward. */
typedef struct scan_job {
    hd_audit       *audit;
    hd_audit_item **order; /* [used] */
    hd_audit_sweep  sweep;
    pthread_mutex_t lock; /* of what follows */
    int64_t         done, total;
} scan_job;

static int compare_places(const void *x, const void *y)
{
    const hd_tensor *const a = (*(hd_audit_item *const *)x)->what.w;
    const hd_tensor *const b = (*(hd_audit_item *const *)y)->what.w;
    if (a->shard != b->shard) return a->shard < b->shard ? -1 : 1;
    return (a->st.data > b->st.data) - (a->st.data < b->st.data);
}

static void on_part(void *user, int64_t bytes)
{
    scan_job *const j = user;
    pthread_mutex_lock(&j->lock);
    j->done += bytes;
    hd_log_progress(j->audit->log, "reading weights", j->done, j->total);
    pthread_mutex_unlock(&j->lock);
}

static bool scan_one(void *user, void *room, int64_t i)
{
    scan_job *const      j = user;
    hd_audit_item *const it = j->order[i];
    bool const           ok = hd_scan_item(room, &it->what, &it->scan, on_part, j);
    hd_audit_sweep_add(&j->sweep, hd_scanned_bytes(&it->what));
    return ok;
}

static hd_status scan_ordered(hd_audit *a, scan_job *j, hd_error *err)
{
    void         *rooms[HD_AUDIT_MOST_THREADS] = {NULL};
    bool          is_ready = true;
    hd_audit_work work = {
        .run = scan_one, .user = j, .rooms = rooms, .n = a->model.used, .n_threads = a->n_threads};
    for (int32_t i = 0; i < a->n_threads; i++) {
        rooms[i] = hd_scanner_make();
        is_ready = is_ready && rooms[i];
    }
    bool const is_done = is_ready && hd_audit_work_run(&work);
    for (int32_t i = 0; i < a->n_threads; i++) {
        if (rooms[i]) hd_scanner_add_bins(rooms[i], &a->bins);
        hd_scanner_free(rooms[i]);
    }
    if (!is_done) HD_FAIL(err, HD_ERR_MEMORY, "no memory to read the weights");
    return HD_OK;
}

hd_status hd_audit_scan(hd_audit *a, hd_error *err)
{
    size_t const n = (size_t)a->model.used;
    scan_job     j = {.audit = a,
                      .order = hd_pool_alloc(&a->model.pool, n * sizeof *j.order),
                      .sweep = {.of = {a->model.ck}}};
    if (!j.order) HD_FAIL(err, HD_ERR_MEMORY, "no memory for the order of %zu tensors", n);
    for (size_t i = 0; i < n; i++) {
        j.order[i] = &a->model.items[i];
        j.total += hd_scanned_bytes(&j.order[i]->what);
    }
    qsort(j.order, n, sizeof(hd_audit_item *), compare_places);
    pthread_mutex_init(&j.lock, NULL);
    hd_status const s = scan_ordered(a, &j, err);
    pthread_mutex_destroy(&j.lock);
    hd_log_progress(a->log, "reading weights", j.total, j.total);
    a->bytes = j.done;
    return s;
}

/* ---- the whole ---- */

int32_t hd_audit_threads(int32_t wanted)
{
    hd_topology *t = NULL;
    int32_t      n = wanted;
    if (wanted <= 0 && hd_topology_open(&t, NULL) == HD_OK)
        n = hd_topology_threads(t, hd_cpu_quota_read());
    hd_topology_close(t);
    if (n < 1) return 1;
    return n < HD_AUDIT_MOST_THREADS ? n : HD_AUDIT_MOST_THREADS;
}

static hd_status audit(hd_audit *a, const hd_audit_options *opt, hd_error *err)
{
    a->model.findings = &a->findings;
    HD_TRY(hd_audit_side_open(&a->model, opt->model, a->log, err));
    if (opt->against) HD_TRY(hd_audit_side_open(&a->other, opt->against, a->log, err));
    a->has_other = opt->against != NULL;
    HD_TRY(hd_audit_scan(a, err));
    if (a->has_other) HD_TRY(hd_audit_compare(a, err));
    hd_audit_judge(a);
    hd_audit_judge_groups(a);
    hd_audit_judge_config(a);
    if (a->findings.failed) HD_FAIL(err, HD_ERR_MEMORY, "no memory for the findings");
    return HD_OK;
}

hd_status hd_audit_run(hd_audit **out, const hd_audit_options *opt, hd_error *err)
{
    hd_audit *const a = hd_memory_alloc(sizeof *a);
    if (!a) HD_FAIL(err, HD_ERR_MEMORY, "no memory for an audit");
    a->log = opt->log;
    a->n_threads = hd_audit_threads(opt->n_threads);
    hd_status const s = audit(a, opt, err);
    if (s == HD_OK)
        *out = a;
    else
        hd_audit_close(a);
    return s;
}

void hd_audit_close(hd_audit *a)
{
    if (!a) return;
    hd_audit_side_close(&a->model);
    hd_audit_side_close(&a->other);
    hd_findings_free(&a->findings);
    hd_memory_free(a);
}

int64_t hd_audit_count(const hd_audit *a, hd_severity s) { return a->findings.n[s]; }

int64_t hd_audit_bytes(const hd_audit *a) { return a->bytes; }
