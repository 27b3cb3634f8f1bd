#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "base/file.h"
#include "base/json_write.h"
#include "doctor/quantize_parts.h"

/* The work folder: target.part holds model, which becomes target, and notes of the run.  A file in
 * model is whole, because it got its name when it was. */

#define NOTE_FILE      "quantize.json"
#define NOTE_BYTES     ((size_t)1 << 20)
#define UNFINISHED     ".part-" /* in the name of a file that is being written */
#define MAX_FILES      10000
#define SAMPLED        ((size_t)64)
#define SOURCE_VERSION 1 /* of the rules by which a source becomes a result */

hd_status hd_quantize_path(char out[HD_MAX_PATH], const char *folder, const char *name,
                           hd_error *err)
{
    int const n = snprintf(out, HD_MAX_PATH, "%s/%s", folder, name);
    if (n < 0 || n >= HD_MAX_PATH) HD_FAIL(err, HD_ERR_INVALID, "path of %.200s is too long", name);
    return HD_OK;
}

hd_status hd_quantize_write_text(const char *folder, const char *name, const hd_buffer *text,
                                 hd_error *err)
{
    char           path[HD_MAX_PATH];
    hd_file_writer w;
    if (text->failed) HD_FAIL(err, HD_ERR_MEMORY, "%s: no memory for its text", name);
    HD_TRY(hd_quantize_path(path, folder, name, err));
    HD_TRY(hd_file_begin(&w, path, err));
    hd_status const s = hd_file_put(&w, text->data, text->used, err);
    if (s == HD_OK) return hd_file_commit(&w, err);
    hd_file_abort(&w);
    return s;
}

/* ---- the note: what makes the result, so that another run cannot go on with it ---- */

static uint64_t add_tensor(uint64_t digest, const hd_tensor *t)
{
    int64_t const kind[2] = {(int64_t)t->st.dtype, t->st.rank};
    size_t const  n = t->st.bytes < SAMPLED ? t->st.bytes : SAMPLED;
    digest = hd_digest_add(digest, t->st.name, strlen(t->st.name) + 1);
    digest = hd_digest_add(digest, kind, sizeof kind);
    digest = hd_digest_add(digest, t->st.shape, (size_t)t->st.rank * sizeof *t->st.shape);
    return n ? hd_digest_add(digest, t->st.data + (t->st.bytes - n) / 2, n) : digest;
}

static uint64_t digest_source(const hd_quantize *q)
{
    uint64_t                         digest = HD_DIGEST_START;
    const hd_calibration_text *const text = q->opt.engine ? q->opt.text : NULL;
    const int32_t                   *ids = text ? text->ids : NULL;
    for (int32_t i = 0; i < hd_checkpoint_count(q->source.ck); i++)
        digest = add_tensor(digest, hd_checkpoint_at(q->source.ck, i));
    for (int32_t i = 0; text && i < text->n; ids += text->lengths[i++]) {
        digest = hd_digest_add(digest, &text->lengths[i], sizeof text->lengths[i]);
        digest = hd_digest_add(digest, ids, (size_t)text->lengths[i] * sizeof *ids);
    }
    return digest;
}

static void print_note(const hd_quantize *q, hd_buffer *out)
{
    hd_buffer_printf(out, "{\"version\": %d, \"to\": \"%s\", \"scales\": \"%s\", \"keep\": [",
                     SOURCE_VERSION, q->opt.to == HD_TO_NVFP4 ? "nvfp4" : "nvfp4-experts",
                     q->opt.scales == HD_SCALES_MSE ? "mse" : "max");
    for (int32_t i = 0; i < q->opt.n_keep; i++) {
        if (i) hd_buffer_text(out, ", ");
        hd_json_write_string(out, q->opt.keep[i], strlen(q->opt.keep[i]));
    }
    hd_buffer_printf(out, "], \"source\": \"%016" PRIx64 "\"}\n", digest_source(q));
}

static hd_status compare_note(const hd_quantize *q, const char *path, const hd_buffer *want,
                              hd_error *err)
{
    hd_pool   pool = {0};
    char     *text = NULL;
    size_t    bytes = 0;
    hd_status s = hd_file_read(&text, &bytes, path, NOTE_BYTES, &pool, err);
    if (s == HD_OK && (bytes != want->used || memcmp(text, want->data, bytes) != 0))
        s = hd_error_set(err, HD_ERR_INVALID, -1,
                         "%s was begun from other weights or with other options; remove it to "
                         "begin anew",
                         q->work);
    hd_pool_free(&pool);
    return s;
}

static hd_status check_note(const hd_quantize *q, const hd_buffer *note, hd_error *err)
{
    char         path[HD_MAX_PATH];
    hd_file_kind found, model;
    HD_TRY(hd_quantize_path(path, q->work, NOTE_FILE, err));
    HD_TRY(hd_file_look(&found, path, err));
    HD_TRY(hd_file_look(&model, q->model, err));
    if (found != HD_FILE_NONE) return compare_note(q, path, note, err);
    if (model != HD_FILE_NONE)
        HD_FAIL(err, HD_ERR_INVALID, "%s is not of this program; remove it to begin anew", q->work);
    return hd_quantize_write_text(q->work, NOTE_FILE, note, err);
}

/* ---- files ---- */

typedef hd_status file_fn(const hd_quantize *q, const char *name, hd_error *err);

/* Calls fn for the name of each file and folder in a folder. */
static hd_status each_file(const hd_quantize *q, const char *folder, file_fn *fn, hd_error *err)
{
    hd_buffer names = {0};
    int32_t   n = 0;
    hd_status s = hd_file_list(&names, &n, folder, "", MAX_FILES, err);
    if (s == HD_OK && n == MAX_FILES)
        s = hd_error_set(err, HD_ERR_LIMIT, -1, "%s: more than %d files", folder, MAX_FILES - 1);
    const char *at = names.data;
    for (int32_t i = 0; s == HD_OK && i < n; i++, at += strlen(at) + 1) s = fn(q, at, err);
    hd_buffer_free(&names);
    return s;
}

/* What a run left that was killed while it wrote. */
static hd_status remove_unfinished(const hd_quantize *q, const char *name, hd_error *err)
{
    char path[HD_MAX_PATH];
    if (!strstr(name, UNFINISHED)) return HD_OK;
    HD_TRY(hd_quantize_path(path, q->model, name, err));
    return hd_file_remove(path, err);
}

static hd_status take_up(hd_quantize *q, hd_error *err)
{
    hd_buffer note = {0};
    print_note(q, &note);
    hd_status s = note.failed ? hd_error_set(err, HD_ERR_MEMORY, -1, "no memory for a note")
                              : check_note(q, &note, err);
    hd_buffer_free(&note);
    HD_TRY(s);
    q->is_begun = true;
    HD_TRY(hd_folder_make(q->model, err));
    return each_file(q, q->model, remove_unfinished, err);
}

static hd_status name_folders(hd_quantize *q, hd_error *err)
{
    size_t n = strlen(q->opt.target);
    while (n > 1 && q->opt.target[n - 1] == '/') n--;
    int const m = snprintf(q->target, sizeof q->target, "%.*s", (int)n, q->opt.target);
    int const w = snprintf(q->work, sizeof q->work, "%.*s.part", (int)n, q->opt.target);
    if (m <= 0 || w < 0 || (size_t)w >= sizeof q->work)
        HD_FAIL(err, HD_ERR_INVALID, "%.200s...: no path for a new folder", q->opt.target);
    return hd_quantize_path(q->model, q->work, "model", err);
}

hd_status hd_quantize_begin_work(hd_quantize *q, hd_error *err)
{
    hd_file_kind found;
    HD_TRY(name_folders(q, err));
    HD_TRY(hd_file_look(&found, q->target, err));
    if (found != HD_FILE_NONE)
        HD_FAIL(err, HD_ERR_INVALID, "%s is there already: the result is a new folder", q->target);
    HD_TRY(hd_folder_make(q->work, err));
    HD_TRY(hd_folder_hold(&q->hold, q->work, err));
    return take_up(q, err);
}

/* ---- what is copied ---- */

static bool is_ours(const char *name)
{
    static const char *const written[] = {"config.json", "hf_quant_config.json",
                                          "model.safetensors.index.json"};
    static const char        weights[] = ".safetensors";
    size_t const             n = strlen(name), m = sizeof weights - 1;
    for (size_t i = 0; i < sizeof written / sizeof written[0]; i++)
        if (strcmp(name, written[i]) == 0) return true;
    return n >= m && strcmp(name + n - m, weights) == 0;
}

static hd_status copy_whole(const char *from, const char *to, hd_error *err)
{
    hd_file        f = {0};
    hd_file_writer w;
    HD_TRY(hd_file_map(&f, from, err));
    hd_status s = hd_file_begin(&w, to, err);
    if (s == HD_OK) {
        s = hd_file_put(&w, f.data, f.bytes, err);
        if (s == HD_OK)
            s = hd_file_commit(&w, err);
        else
            hd_file_abort(&w);
    }
    hd_file_unmap(&f);
    return s;
}

static hd_status copy_file(const hd_quantize *q, const char *name, hd_error *err)
{
    char         from[HD_MAX_PATH], to[HD_MAX_PATH];
    hd_file_kind found, there;
    if (is_ours(name)) return HD_OK;
    HD_TRY(hd_quantize_path(from, q->opt.source, name, err));
    HD_TRY(hd_quantize_path(to, q->model, name, err));
    HD_TRY(hd_file_look(&found, from, err));
    HD_TRY(hd_file_look(&there, to, err));
    if (found != HD_FILE_OTHER || there != HD_FILE_NONE) return HD_OK;
    return copy_whole(from, to, err);
}

hd_status hd_quantize_copy_files(const hd_quantize *q, hd_error *err)
{
    return each_file(q, q->opt.source, copy_file, err);
}

/* ---- the end ---- */

static hd_status remove_note(const hd_quantize *q, const char *name, hd_error *err)
{
    char path[HD_MAX_PATH];
    HD_TRY(hd_quantize_path(path, q->work, name, err));
    return hd_file_remove(path, err);
}

void hd_quantize_drop_work(const hd_quantize *q)
{
    char         path[HD_MAX_PATH];
    hd_file_kind found = HD_FILE_OTHER;
    if (!q->is_begun || hd_file_remove(q->model, NULL) != HD_OK) return; /* it is not empty */
    if (hd_quantize_path(path, q->work, HD_CALIBRATION_FILE, NULL) != HD_OK) return;
    if (hd_file_look(&found, path, NULL) != HD_OK || found != HD_FILE_NONE) return;
    (void)each_file(q, q->work, remove_note, NULL);
    (void)hd_file_remove(q->work, NULL);
}

hd_status hd_quantize_end_work(hd_quantize *q, hd_error *err)
{
    HD_TRY(hd_folder_rename(q->model, q->target, err));
    HD_TRY(each_file(q, q->work, remove_note, err));
    return hd_file_remove(q->work, err);
}
