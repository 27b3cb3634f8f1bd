#include "cli/question.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/json_write.h"
#include "base/utf8_scan.h"
#include "cli/cli.h"

const char *const hd_think_words[] = {"off", "low", "high", "max", NULL};
const char *const hd_dialect_words[] = {"ga", "preview", "ga_api", "v41_api", NULL};

int hd_think_find(const char *word)
{
    for (int i = 0; hd_think_words[i]; i++)
        if (strcmp(hd_think_words[i], word) == 0) return i;
    return -1;
}

/* ---- options ---- */

void hd_question_list(hd_question *q, hd_option out[HD_N_QUESTION_OPTIONS])
{
    hd_option const list[HD_N_QUESTION_OPTIONS] = {{.name = "-p", .text = &q->text},
                                                   {.name = "--messages", .text = &q->messages},
                                                   {.name = "--raw", .flag = &q->is_raw},
                                                   {.name = NULL}};
    for (int i = 0; i < HD_N_QUESTION_OPTIONS; i++) out[i] = list[i];
}

void hd_question_list_template(hd_question *q, hd_option out[HD_N_TEMPLATE_OPTIONS])
{
    hd_option const list[HD_N_TEMPLATE_OPTIONS] = {
        {.name = "--system", .text = &q->system},
        {.name = "--think", .choice = &q->think, .choices = hd_think_words},
        {.name = "--dialect", .choice = &q->dialect, .choices = hd_dialect_words},
        {.name = NULL}};
    for (int i = 0; i < HD_N_TEMPLATE_OPTIONS; i++) out[i] = list[i];
    q->think = -1;
    q->dialect = -1;
}

int hd_question_check(const hd_question *q, const char *verb)
{
    if (q->text && q->messages) return hd_cli_misuse(verb, "-p and --messages: only one of them");
    if (q->messages && q->system)
        return hd_cli_misuse(verb, "--system and --messages: the file holds the system message");
    if (q->is_raw && q->messages) return hd_cli_misuse(verb, "--raw takes a text, not --messages");
    if (q->is_raw && (q->system || q->think >= 0 || q->dialect >= 0))
        return hd_cli_misuse(verb, "--raw has no template for --system, --think or --dialect");
    if (!q->text && !q->messages && isatty(STDIN_FILENO))
        return hd_cli_misuse(verb, "no prompt: give -p, --messages, or text on standard input");
    return -1;
}

/* ---- reading ---- */

static hd_status read_stream(FILE *f, const char *name, hd_buffer *out, hd_error *err)
{
    char chunk[65536];
    errno = 0;
    for (size_t n; (n = fread(chunk, 1, sizeof chunk, f)) > 0;) {
        hd_buffer_add(out, chunk, n);
        if (out->failed) HD_FAIL(err, HD_ERR_MEMORY, "%s: no memory for its text", name);
        if (out->used > INT32_MAX) HD_FAIL(err, HD_ERR_LIMIT, "%s: more than 2 GiB", name);
    }
    if (ferror(f)) HD_FAIL(err, HD_ERR_IO, "%s: %s", name, strerror(errno));
    return HD_OK;
}

hd_status hd_question_read_file(const char *path, hd_buffer *out, hd_error *err)
{
    if (strcmp(path, "-") == 0) return read_stream(stdin, "standard input", out, err);
    FILE *const f = fopen(path, "rb");
    if (!f) HD_FAIL(err, HD_ERR_IO, "%s: %s", path, strerror(errno));
    hd_status const s = read_stream(f, path, out, err);
    fclose(f);
    return s;
}

hd_status hd_question_add_message(hd_buffer *json, const char *role, const char *text, size_t bytes,
                                  hd_error *err)
{
    size_t const valid = hd_utf8_scan_check(text, bytes);
    if (valid < bytes)
        return hd_error_set(err, HD_ERR_FORMAT, (int64_t)valid,
                            "the %s message is not UTF-8 at byte %zu", role, valid);
    hd_buffer_printf(json, "{\"role\": \"%s\", \"content\": ", role);
    hd_json_write_string(json, text, bytes);
    hd_buffer_text(json, "}");
    if (json->failed) HD_FAIL(err, HD_ERR_MEMORY, "no memory for a message");
    return HD_OK;
}

static hd_status write_messages(const hd_question *q, const char *text, size_t bytes,
                                hd_buffer *out, hd_error *err)
{
    hd_buffer_text(out, "[");
    if (q->system) {
        HD_TRY(hd_question_add_message(out, "system", q->system, strlen(q->system), err));
        hd_buffer_text(out, ", ");
    }
    HD_TRY(hd_question_add_message(out, "user", text, bytes, err));
    hd_buffer_text(out, "]");
    return HD_OK;
}

/* The newline that ends a piped text belongs to the pipe, not to the message. */
static size_t measure_message(const hd_buffer *text)
{
    size_t n = text->used;
    if (n > 0 && text->data[n - 1] == '\n') n--;
    if (n > 0 && n < text->used && text->data[n - 1] == '\r') n--;
    return n;
}

static hd_status read_text(const hd_question *q, hd_buffer *source, hd_error *err)
{
    hd_buffer piped = {0};
    hd_status s = hd_question_read_file("-", &piped, err);
    if (s == HD_OK)
        s = write_messages(q, piped.used ? piped.data : "", measure_message(&piped), source, err);
    hd_buffer_free(&piped);
    return s;
}

hd_status hd_question_read(const hd_question *q, hd_buffer *source, hd_error *err)
{
    if (q->messages) return hd_question_read_file(q->messages, source, err);
    if (!q->is_raw && q->text) return write_messages(q, q->text, strlen(q->text), source, err);
    if (!q->is_raw) return read_text(q, source, err);
    if (!q->text) return hd_question_read_file("-", source, err);
    hd_buffer_text(source, q->text);
    if (source->failed) HD_FAIL(err, HD_ERR_MEMORY, "no memory for the prompt");
    return HD_OK;
}

/* ---- encoding ---- */

static hd_status make_room(hd_asked *out, size_t n, hd_error *err)
{
    if (n > INT32_MAX) HD_FAIL(err, HD_ERR_LIMIT, "a prompt of %zu bytes is too long", n);
    out->ids = hd_memory_alloc(n * sizeof *out->ids);
    if (!out->ids) HD_FAIL(err, HD_ERR_MEMORY, "no memory for the ids of %zu bytes", n);
    return HD_OK;
}

static hd_status encode_messages(const hd_question *q, const hd_buffer *source, const hd_engine *e,
                                 hd_asked *out, hd_error *err)
{
    hd_prompt      prompt = {0};
    hd_engine_info info;
    hd_engine_info_get(e, &info);
    hd_dialect const dialect = q->dialect < 0 ? info.dialect : (hd_dialect)q->dialect;
    hd_think const   think = q->think < 0 ? HD_THINK_OFF : (hd_think)q->think;
    HD_TRY(hd_prompt_chat(&prompt, source->used ? source->data : "", source->used, dialect, think,
                          err));
    out->start = prompt.start;
    out->has_tools = prompt.has_tools;
    hd_status s = make_room(out, prompt.text_bytes, err);
    if (s == HD_OK)
        s = hd_prompt_encode(&prompt, hd_engine_tokenizer(e), out->ids, (int32_t)prompt.text_bytes,
                             &out->n, err);
    hd_prompt_free(&prompt);
    return s;
}

static hd_status encode_raw(const hd_buffer *source, const hd_engine *e, hd_asked *out,
                            hd_error *err)
{
    HD_TRY(make_room(out, source->used, err));
    return hd_tokenizer_encode(hd_engine_tokenizer(e), source->used ? source->data : "",
                               source->used, true, out->ids, (int32_t)source->used, &out->n, err);
}

hd_status hd_question_encode(const hd_question *q, const hd_buffer *source, const hd_engine *e,
                             hd_asked *out, hd_error *err)
{
    hd_status const s =
        q->is_raw ? encode_raw(source, e, out, err) : encode_messages(q, source, e, out, err);
    if (s != HD_OK) hd_asked_free(out);
    return s;
}

void hd_asked_free(hd_asked *a)
{
    hd_memory_free(a->ids);
    *a = (hd_asked){0};
}
