#include <string.h>

#include "base/file.h"
#include "doctor/quantize_parts.h"

/* The note that lets a run which is taken up do without reading the text again: one f32 for each
 * conversion. */
#define NOTE_NAME "input_amax"

static void on_input(void *user, const char *matrix, double amax)
{
    const hd_quantize *const q = user;
    int32_t const            i = hd_name_map_find(&q->by_name, matrix);
    if (i >= 0 && (float)amax > q->conversions[i].input_amax)
        q->conversions[i].input_amax = (float)amax;
}

/* ---- the note ---- */

static hd_status write_note(const hd_quantize *q, const char *path, hd_error *err)
{
    hd_st_writer       w;
    hd_st_tensor const t = {
        .name = NOTE_NAME, .dtype = HD_ST_F32, .rank = 1, .shape = {q->n_conversions}};
    hd_st_layout const layout = {.tensors = &t, .n_tensors = 1};
    HD_TRY(hd_st_writer_begin(&w, path, &layout, err));
    hd_status s = HD_OK;
    for (int32_t i = 0; i < q->n_conversions && s == HD_OK; i++)
        s = hd_st_writer_put_part(&w, 0, (size_t)i * sizeof(float), &q->conversions[i].input_amax,
                                  sizeof(float), err);
    if (s == HD_OK) return hd_st_writer_commit(&w, err);
    hd_st_writer_abort(&w);
    return s;
}

static hd_status read_note(hd_quantize *q, const char *path, hd_error *err)
{
    hd_st_file f = {0};
    HD_TRY(hd_st_open(&f, path, err));
    const hd_st_tensor *const t = hd_st_find(&f, NOTE_NAME);
    bool const fits = t && t->dtype == HD_ST_F32 && t->rank == 1 && t->shape[0] == q->n_conversions;
    for (int32_t i = 0; fits && i < q->n_conversions; i++)
        memcpy(&q->conversions[i].input_amax, t->data + (size_t)i * sizeof(float), sizeof(float));
    hd_st_close(&f);
    if (!fits) HD_FAIL(err, HD_ERR_FORMAT, "%s: no note of this run", path);
    return HD_OK;
}

static hd_status see_inputs(hd_quantize *q, hd_error *err)
{
    char         path[HD_MAX_PATH];
    hd_file_kind found;
    HD_TRY(hd_quantize_path(path, q->work, HD_CALIBRATION_FILE, err));
    HD_TRY(hd_file_look(&found, path, err));
    if (found != HD_FILE_NONE) return read_note(q, path, err);
    HD_TRY(hd_calibrate(q->opt.engine, q->opt.text, on_input, q, q->opt.log, err));
    return write_note(q, path, err);
}

/* ---- scales ---- */

/* Conversions [begin, end): experts of one projection, or one matrix.  Experts that no token went
 * to get the largest input of their neighbours, which is what ModelOpt gives them. */
static hd_status scale_run(hd_quantize *q, int32_t begin, int32_t end, hd_error *err)
{
    float most = 0;
    for (int32_t i = begin; i < end; i++)
        most = q->conversions[i].input_amax > most ? q->conversions[i].input_amax : most;
    if (most <= 0)
        HD_FAIL(err, HD_ERR_INVALID, "calibration never showed matrix %s an input but 0",
                q->conversions[begin].from->name);
    for (int32_t i = begin; i < end; i++) {
        bool const was_seen = q->conversions[i].input_amax > 0;
        q->n_filled += !was_seen;
        q->conversions[i].input_scale =
            hd_nvfp4_tensor_scale(was_seen ? q->conversions[i].input_amax : most);
    }
    return HD_OK;
}

hd_status hd_quantize_inputs(hd_quantize *q, hd_error *err)
{
    const hd_conversion *const list = q->conversions;
    if (!q->opt.engine) return HD_OK;
    HD_TRY(see_inputs(q, err));
    for (int32_t begin = 0, end; begin < q->n_conversions; begin = end) {
        end = begin + 1;
        while (end < q->n_conversions &&
               hd_audit_same_projection(list[begin].from->name, list[end].from->name))
            end++;
        HD_TRY(scale_run(q, begin, end, err));
    }
    return HD_OK;
}
