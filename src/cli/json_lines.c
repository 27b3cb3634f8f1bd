#include "cli/json_lines.h"

#include <string.h>

/* A failure names the line, which the message itself cannot know. */
static hd_status run_line(const hd_json_lines *l, hd_json_line *line, int32_t number,
                          hd_json_line_fn *fn, void *user, hd_error *err)
{
    json_object *value = NULL;
    hd_error     why = {0};
    hd_status    s = hd_json_parse(&value, line->text, line->bytes, HD_JSON_PYTHON, "row", &why);
    line->value = value;
    if (s == HD_OK) s = fn(user, line, &why);
    json_object_put(value);
    if (s != HD_OK) HD_FAIL(err, s, "%s:%d: %s", l->path, number, why.message);
    return HD_OK;
}

static bool is_blank(const hd_json_line *line)
{
    for (size_t i = 0; i < line->bytes; i++)
        if (!strchr(" \t\r", line->text[i])) return false;
    return true;
}

hd_status hd_json_lines_each(const hd_json_lines *l, hd_json_line_fn *fn, void *user, hd_error *err)
{
    const hd_buffer *const file = l->text;
    int32_t                number = 0;
    for (size_t at = 0, bytes; at < file->used; at += bytes + 1) {
        const char *const end = memchr(file->data + at, '\n', file->used - at);
        bytes = end ? (size_t)(end - (file->data + at)) : file->used - at;
        hd_json_line line = {.text = file->data + at, .bytes = bytes};
        number++;
        if (!is_blank(&line)) HD_TRY(run_line(l, &line, number, fn, user, err));
        hd_screen_progress(l->screen, l->doing, (int64_t)(at + bytes), (int64_t)file->used);
    }
    return HD_OK;
}
