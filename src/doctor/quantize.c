#include "doctor/quantize.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json_write.h"
#include "doctor/quantize_parts.h"

#define INDEX_NAME  "model.safetensors.index.json"
#define SINGLE_NAME "model.safetensors"

/* ---- the source ---- */

static hd_status open_source(hd_quantize *q, hd_error *err)
{
    q->source.findings = &q->findings;
    HD_TRY(hd_audit_side_open(&q->source, q->opt.source, q->opt.log, err));
    if (q->findings.failed)
        HD_FAIL(err, HD_ERR_MEMORY, "no memory for the faults of %s", q->opt.source);
    if (q->findings.used > 0) HD_FAIL(err, HD_ERR_FORMAT, "%s", q->findings.list[0].message);
    return HD_OK;
}

/* ---- shards ---- */

typedef hd_status shard_fn(hd_quantize *q, const hd_shard_plan *p, void *user, hd_error *err);

/* Plans one shard after the other, so that memory holds one at a time. */
static hd_status each_shard(hd_quantize *q, shard_fn *fn, void *user, hd_error *err)
{
    for (int32_t i = 0; i < hd_checkpoint_shards(q->source.ck); i++) {
        hd_shard_plan p;
        hd_status     s = hd_shard_plan_make(q, i, &p, err);
        if (s == HD_OK && p.n_tensors > 0) s = fn(q, &p, user, err);
        hd_shard_plan_free(&p);
        HD_TRY(s);
    }
    return HD_OK;
}

static hd_status is_written(const hd_quantize *q, const hd_shard_plan *p, bool *out, hd_error *err)
{
    char         path[HD_MAX_PATH];
    hd_file_kind found;
    HD_TRY(hd_quantize_path(path, q->model, p->name, err));
    HD_TRY(hd_file_look(&found, path, err));
    *out = found != HD_FILE_NONE;
    return HD_OK;
}

/* Bytes of the source that a shard is made of, as hd_quantize_progress counts them. */
static int64_t work_of(const hd_shard_plan *p)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < p->n_jobs; i++) {
        const hd_shard_job *const j = &p->jobs[i];
        sum += j->copy ? (int64_t)j->copy->st.bytes : hd_scanned_bytes(j->conversion->from);
    }
    return sum;
}

/* What is still to do. */
typedef struct need {
    int64_t              bytes; /* to write */
    hd_quantize_progress progress;
    hd_buffer            index; /* owned: the entries of the index */
    int32_t              n_shards;
    bool                 is_single; /* one shard that no index need name */
} need;

static hd_status add_need(hd_quantize *q, const hd_shard_plan *p, void *user, hd_error *err)
{
    need *const n = user;
    bool        is_there;
    HD_TRY(is_written(q, p, &is_there, err));
    q->bytes += p->bytes;
    n->progress.total += work_of(p);
    if (is_there) n->progress.done += work_of(p);
    if (!is_there) n->bytes += p->bytes;
    n->is_single = n->n_shards++ == 0 && strcmp(p->name, SINGLE_NAME) == 0;
    for (int32_t i = 0; i < p->n_tensors; i++) {
        hd_buffer_text(&n->index, n->index.used ? ",\n    " : "\n    ");
        hd_json_write_string(&n->index, p->tensors[i].name, strlen(p->tensors[i].name));
        hd_buffer_text(&n->index, ": ");
        hd_json_write_string(&n->index, p->name, strlen(p->name));
    }
    if (n->index.failed) HD_FAIL(err, HD_ERR_MEMORY, "no memory for the index");
    return HD_OK;
}

static hd_status check_space(const hd_quantize *q, const need *n, hd_error *err)
{
    int64_t space;
    HD_TRY(hd_folder_space(&space, q->model, err));
    if (n->bytes > space)
        HD_FAIL(err, HD_ERR_IO, "%s: %" PRId64 " bytes are needed, %" PRId64 " are free", q->work,
                n->bytes, space);
    return HD_OK;
}

static hd_status write_shard(hd_quantize *q, const hd_shard_plan *p, void *user, hd_error *err)
{
    need *const n = user;
    bool        is_there;
    HD_TRY(is_written(q, p, &is_there, err));
    if (is_there) return HD_OK;
    HD_TRY(hd_quantize_shard(q, p, &n->progress, err));
    hd_checkpoint_release(q->source.ck);
    return HD_OK;
}

static hd_status write_index(const hd_quantize *q, const need *n, hd_error *err)
{
    hd_buffer text = {0};
    if (n->is_single) return HD_OK;
    hd_buffer_printf(
        &text, "{\n  \"metadata\": {\n    \"total_size\": %" PRId64 "\n  },\n  \"weight_map\": {",
        q->bytes);
    hd_buffer_add(&text, n->index.data, n->index.used);
    hd_buffer_text(&text, "\n  }\n}\n");
    hd_status const s = hd_quantize_write_text(q->model, INDEX_NAME, &text, err);
    hd_buffer_free(&text);
    return s;
}

static hd_status write_model(hd_quantize *q, need *n, hd_error *err)
{
    HD_TRY(each_shard(q, add_need, n, err));
    HD_TRY(check_space(q, n, err));
    HD_TRY(hd_quantize_inputs(q, err));
    HD_TRY(each_shard(q, write_shard, n, err));
    hd_log_progress(q->opt.log, "quantizing", n->progress.total, n->progress.total);
    HD_TRY(hd_quantize_copy_files(q, err));
    HD_TRY(write_index(q, n, err));
    return hd_quantize_write_configs(q, err);
}

/* ---- the whole ---- */

/* Reads what was written, as any other program would, and holds it against the source. */
static hd_status audit(hd_quantize *q, hd_error *err)
{
    hd_audit_options const o = {.model = q->model,
                                .against = q->opt.source,
                                .n_threads = q->opt.n_threads,
                                .log = q->opt.log};
    HD_TRY(hd_audit_run(&q->audit, &o, err));
    q->is_done = hd_audit_count(q->audit, HD_ERROR) == 0;
    return q->is_done ? hd_quantize_end_work(q, err) : HD_OK;
}

static hd_status quantize(hd_quantize *q, hd_error *err)
{
    need n = {0};
    HD_TRY(open_source(q, err));
    HD_TRY(hd_quantize_plan(q, err));
    hd_status s = hd_quantize_begin_work(q, err);
    if (s == HD_OK) s = write_model(q, &n, err);
    if (s == HD_OK) s = audit(q, err);
    hd_buffer_free(&n.index);
    if (s != HD_OK) hd_quantize_drop_work(q);
    return s;
}

hd_status hd_quantize_run(hd_quantize **out, const hd_quantize_options *opt, hd_error *err)
{
    hd_quantize *const q = hd_memory_alloc(sizeof *q);
    if (!q) HD_FAIL(err, HD_ERR_MEMORY, "no memory to quantize %s", opt->source);
    q->opt = *opt;
    q->hold = -1;
    q->n_threads = hd_audit_threads(opt->n_threads);
    hd_status const s = quantize(q, err);
    if (s == HD_OK)
        *out = q;
    else
        hd_quantize_close(q);
    return s;
}

void hd_quantize_close(hd_quantize *q)
{
    if (!q) return;
    hd_audit_close(q->audit);
    hd_folder_let_go(q->hold);
    hd_audit_side_close(&q->source);
    hd_findings_free(&q->findings);
    hd_pool_free(&q->pool);
    hd_memory_free(q);
}

bool hd_quantize_is_done(const hd_quantize *q) { return q->is_done; }
