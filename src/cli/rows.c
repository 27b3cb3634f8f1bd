#include "cli/rows.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/json_write.h"
#include "cli/cli.h"
#include "cli/screen.h"

/* Reads one line without its end; false at the end of the input. */
static bool read_line(hd_buffer *line)
{
    char   chunk[4096];
    size_t n = 0;
    int    c;
    hd_buffer_clear(line);
    while ((c = getc(stdin)) != EOF && c != '\n') {
        chunk[n++] = (char)c;
        if (n < sizeof chunk) continue;
        hd_buffer_add(line, chunk, n);
        n = 0;
    }
    hd_buffer_add(line, chunk, n);
    return c != EOF || line->used > 0;
}

static bool is_blank(const hd_buffer *line)
{
    return line->used == 0 || strspn(line->data, " \t\r") == line->used;
}

static void write_id(hd_buffer *answer, const json_object *row)
{
    const json_object *const id = hd_json_member(row, "id");
    size_t                   bytes;
    const char *const        text = hd_json_text(id, &bytes);
    hd_buffer_text(answer, "{\"id\": ");
    if (text)
        hd_json_write_string(answer, text, bytes);
    else if (json_object_is_type(id, json_type_int))
        hd_buffer_printf(answer, "%lld", (long long)json_object_get_int64(id));
    else
        hd_buffer_text(answer, "null");
}

static void write_error(hd_buffer *answer, const hd_error *err)
{
    hd_buffer_text(answer, ", \"error\": ");
    hd_json_write_string(answer, err->message, strlen(err->message));
}

/* Some readers end a line at U+0085, U+2028 and U+2029 as well.  These only stand in strings,
 * where JSON lets them be escaped. */
static void write_lines(hd_buffer *out, const hd_buffer *answer)
{
    static const char *const ends[][2] = {
        {"\xC2\x85", "\\u0085"}, {"\xE2\x80\xA8", "\\u2028"}, {"\xE2\x80\xA9", "\\u2029"}};
    size_t kept = 0; /* answer[kept, at) is still to be copied */
    for (size_t at = 0; at < answer->used; at++) {
        if (answer->data[at] != '\xC2' && answer->data[at] != '\xE2') continue;
        for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
            if (strncmp(answer->data + at, ends[i][0], strlen(ends[i][0])) != 0) continue;
            hd_buffer_add(out, answer->data + kept, at - kept);
            hd_buffer_text(out, ends[i][1]);
            kept = at + strlen(ends[i][0]);
        }
    }
    hd_buffer_add(out, answer->data + kept, answer->used - kept);
}

static void answer_line(hd_buffer *answer, const hd_buffer *line, hd_row_fn *fn, void *user)
{
    hd_error     err = {0};
    json_object *row = NULL;
    hd_status    status = hd_json_parse(&row, line->data, line->used, HD_JSON_PYTHON, "line", &err);
    if (status == HD_OK && !json_object_is_type(row, json_type_object))
        status = hd_error_set(&err, HD_ERR_FORMAT, 0, "line: no JSON object");
    hd_buffer_clear(answer);
    write_id(answer, row);
    size_t const used = answer->used;
    if (status == HD_OK) status = fn(user, row, answer, &err);
    if (status != HD_OK) {
        answer->used = used;
        write_error(answer, &err);
    }
    hd_buffer_text(answer, "}\n");
    json_object_put(row);
}

static hd_status answer_all(hd_row_fn *fn, void *user, hd_buffer b[3], hd_error *err)
{
    hd_buffer *const line = &b[0], *const answer = &b[1], *const out = &b[2];
    while (read_line(line)) {
        if (is_blank(line)) continue;
        answer_line(answer, line, fn, user);
        hd_buffer_clear(out);
        if (!answer->failed) write_lines(out, answer);
        if (line->failed || answer->failed || out->failed)
            HD_FAIL(err, HD_ERR_MEMORY, "no memory for a line");
        if (!hd_stdout_write(out->data, out->used))
            HD_FAIL(err, HD_ERR_IO, "standard output failed");
    }
    if (ferror(stdin)) HD_FAIL(err, HD_ERR_IO, "standard input: %s", strerror(errno));
    return HD_OK;
}

int hd_rows_answer(hd_row_fn *fn, void *user)
{
    hd_buffer       buffers[3] = {{0}}; /* line, answer, answer as printed */
    hd_error        err = {0};
    hd_status const status = answer_all(fn, user, buffers, &err);
    for (int i = 0; i < 3; i++) hd_buffer_free(&buffers[i]);
    return status == HD_OK ? HD_EXIT_OK : hd_cli_fail(&err);
}
