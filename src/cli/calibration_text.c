#include "cli/calibration_text.h"

#include <string.h>

#include "cli/json_lines.h"
#include "cli/question.h"

typedef struct reader {
    hd_calibration_rows *out;
    const hd_engine     *e;
    int32_t              window, bos;
} reader;

static void add_i32(hd_buffer *b, int32_t x) { hd_buffer_add(b, &x, sizeof x); }

/* Cuts ids, which begin with the begin-of-sentence token. */
static hd_status add_windows(const reader *r, const int32_t *ids, int32_t n, hd_error *err)
{
    hd_buffer *const all = &r->out->ids, *const lengths = &r->out->lengths;
    for (int32_t at = 0, used; at < n; at += used) {
        int32_t const lead = at > 0; /* its own begin-of-sentence */
        used = n - at < r->window - lead ? n - at : r->window - lead;
        if (lead) add_i32(all, r->bos);
        hd_buffer_add(all, ids + at, (size_t)used * sizeof *ids);
        add_i32(lengths, used + lead);
        r->out->text.n++;
    }
    if (all->failed || lengths->failed || all->used / sizeof *ids > INT32_MAX)
        HD_FAIL(err, HD_ERR_MEMORY, "no memory for so much text");
    return HD_OK;
}

static hd_status add_messages(const reader *r, const hd_json_line *line, hd_error *err)
{
    hd_question const q = {.think = -1, .dialect = -1};
    hd_asked          asked = {0};
    hd_buffer         source = {0};
    hd_buffer_add(&source, line->text, line->bytes);
    hd_status s = source.failed ? hd_error_set(err, HD_ERR_MEMORY, -1, "no memory for a row")
                                : hd_question_encode(&q, &source, r->e, &asked, err);
    if (s == HD_OK) s = add_windows(r, asked.ids, asked.n, err);
    hd_asked_free(&asked);
    hd_buffer_free(&source);
    return s;
}

/* Ordinary text, whatever it spells. */
static hd_status add_text(const reader *r, const char *text, size_t bytes, hd_error *err)
{
    int32_t        n = 0;
    int32_t *const ids = bytes < INT32_MAX ? hd_memory_alloc((bytes + 1) * sizeof *ids) : NULL;
    if (!ids) HD_FAIL(err, HD_ERR_MEMORY, "no memory for the tokens of %zu bytes", bytes);
    ids[0] = r->bos;
    hd_status s = hd_tokenizer_encode(hd_engine_tokenizer(r->e), text, bytes, false, ids + 1,
                                      (int32_t)bytes, &n, err);
    if (s == HD_OK) s = add_windows(r, ids, n + 1, err);
    hd_memory_free(ids);
    return s;
}

static hd_status add_row(void *user, const hd_json_line *line, hd_error *err)
{
    const reader *const r = user;
    size_t              bytes;
    const char *const   text = hd_json_text(hd_json_member(line->value, "text"), &bytes);
    if (text) return add_text(r, text, bytes, err);
    if (hd_json_member(line->value, "messages")) return add_messages(r, line, err);
    HD_FAIL(err, HD_ERR_FORMAT, "neither \"messages\" nor \"text\", a string");
}

hd_status hd_calibration_rows_read(hd_calibration_rows *out, const char *path, const hd_engine *e,
                                   int32_t window, hd_screen *screen, hd_error *err)
{
    hd_buffer           source = {0};
    hd_engine_info      info;
    hd_json_lines const lines = {path, &source, screen, "reading texts"};
    hd_engine_info_get(e, &info);
    reader    r = {out, e, window, info.bos};
    hd_status s = hd_question_read_file(path, &source, err);
    if (s == HD_OK) s = hd_json_lines_each(&lines, add_row, &r, err);
    hd_buffer_free(&source);
    HD_TRY(s);
    if (out->text.n == 0) HD_FAIL(err, HD_ERR_FORMAT, "%s: no rows", path);
    out->text.ids = (const int32_t *)(const void *)out->ids.data;
    out->text.lengths = (const int32_t *)(const void *)out->lengths.data;
    return HD_OK;
}

void hd_calibration_rows_free(hd_calibration_rows *r)
{
    hd_buffer_free(&r->ids);
    hd_buffer_free(&r->lengths);
    *r = (hd_calibration_rows){0};
}
