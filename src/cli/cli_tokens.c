#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/json_write.h"
#include "base/utf8_scan.h"

const char hd_help_tokens[] =
    "usage: hadal tokens MODEL [--plain] [--ids | --jsonl]\n"
    "       hadal tokens MODEL --decode\n"
    "\n"
    "Reads text from standard input and prints its tokens as MODEL sees them, one a line:\n"
    "the id, a tab, and the token's text as a JSON string, in which a byte that is no part\n"
    "of a whole character is written \\xHH.  MODEL is a tokenizer.json or its folder.\n"
    "\n"
    "  --plain   the spelling of a control token such as <think> is ordinary text\n"
    "  --ids     prints only the ids, on one line\n"
    "  --decode  reads ids and prints their text; what is not UTF-8 becomes U+FFFD\n"
    "  --jsonl   each line is an object {\"id\", \"text\", \"plain\"}, where id and plain may be\n"
    "            missing; answers each with a line {\"id\", \"ids\"} or {\"id\", \"error\"}\n"
    "\n"
    "Exits with 1 when a text was refused.\n";

int hd_cli_tokens(int argc, char **argv);

typedef enum tokens_mode { MODE_LIST, MODE_IDS, MODE_DECODE, MODE_JSONL } tokens_mode;

typedef struct tokens_job {
    const char   *model; /* borrowed from argv */
    bool          plain;
    tokens_mode   mode;
    hd_tokenizer *tokenizer; /* owned */
    hd_buffer     text;      /* owned: what was read, or one line of it */
    int32_t      *ids;       /* [cap_ids] owned */
    int32_t       n_ids;
    size_t        cap_ids;
} tokens_job;

/* ---- command line ---- */

static bool read_option(tokens_job *j, const char *arg)
{
    static const struct {
        const char *name;
        tokens_mode mode;
    } modes[] = {{"--ids", MODE_IDS}, {"--decode", MODE_DECODE}, {"--jsonl", MODE_JSONL}};
    if (strcmp(arg, "--plain") == 0) {
        j->plain = true;
        return true;
    }
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        if (strcmp(arg, modes[i].name) != 0) continue;
        bool const is_only = j->mode == MODE_LIST || j->mode == modes[i].mode;
        j->mode = modes[i].mode;
        return is_only;
    }
    return false;
}

static bool read_arguments(tokens_job *j, int argc, char **argv)
{
    bool options = true;
    for (int i = 1; i < argc; i++) {
        if (options && strcmp(argv[i], "--") == 0) {
            options = false;
        } else if (options && argv[i][0] == '-') {
            if (!read_option(j, argv[i])) {
                fprintf(stderr, "hadal: tokens: unusable option %s\n", argv[i]);
                return false;
            }
        } else if (j->model) {
            fprintf(stderr, "hadal: tokens: one model only, not also %s\n", argv[i]);
            return false;
        } else {
            j->model = argv[i];
        }
    }
    if (!j->model) fprintf(stderr, "hadal: tokens: no model given; see hadal help tokens\n");
    return j->model != NULL;
}

/* ---- reading ---- */

static hd_status read_all(tokens_job *j, hd_error *err)
{
    char chunk[65536];
    for (size_t n; (n = fread(chunk, 1, sizeof chunk, stdin)) > 0;)
        hd_buffer_add(&j->text, chunk, n);
    if (ferror(stdin)) HD_FAIL(err, HD_ERR_IO, "standard input: %s", strerror(errno));
    if (j->text.failed) HD_FAIL(err, HD_ERR_MEMORY, "no memory for the text");
    return HD_OK;
}

/* Reads one line without its end; false at the end of the input. */
static bool read_line(tokens_job *j)
{
    char   chunk[4096];
    size_t n = 0;
    int    c;
    hd_buffer_clear(&j->text);
    while ((c = getc(stdin)) != EOF && c != '\n') {
        chunk[n++] = (char)c;
        if (n < sizeof chunk) continue;
        hd_buffer_add(&j->text, chunk, n);
        n = 0;
    }
    hd_buffer_add(&j->text, chunk, n);
    return c != EOF || j->text.used > 0;
}

/* ---- encoding ---- */

static hd_status encode(tokens_job *j, const char *text, size_t bytes, bool plain, hd_error *err)
{
    if (bytes > INT32_MAX) HD_FAIL(err, HD_ERR_LIMIT, "%zu bytes of text are too many", bytes);
    if (bytes > j->cap_ids) {
        hd_memory_free(j->ids);
        j->cap_ids = 0;
        j->ids = hd_memory_alloc(2 * bytes * sizeof *j->ids);
        if (!j->ids) HD_FAIL(err, HD_ERR_MEMORY, "no memory for the ids of %zu bytes", bytes);
        j->cap_ids = 2 * bytes;
    }
    return hd_tokenizer_encode(j->tokenizer, text, bytes, !plain, j->ids, (int32_t)bytes, &j->n_ids,
                               err);
}

/* A JSON string but for bytes of cut characters, which JSON has no way to show. */
static void print_token(hd_buffer *out, const char *s, size_t bytes, hd_buffer *quoted)
{
    hd_buffer_text(out, "\"");
    for (size_t at = 0; at < bytes;) {
        size_t const whole = hd_utf8_scan_check(s + at, bytes - at);
        hd_buffer_clear(quoted);
        hd_json_write_string(quoted, s + at, whole);
        if (!quoted->failed) hd_buffer_add(out, quoted->data + 1, quoted->used - 2);
        at += whole;
        if (at < bytes) hd_buffer_printf(out, "\\x%02X", (unsigned char)s[at++]);
    }
    hd_buffer_text(out, "\"\n");
    out->failed = out->failed || quoted->failed;
}

static hd_status print_list(tokens_job *j, hd_buffer *out, hd_error *err)
{
    hd_buffer quoted = {0};
    HD_TRY(encode(j, j->text.data, j->text.used, j->plain, err));
    for (int32_t i = 0; i < j->n_ids; i++) {
        size_t            bytes = 0;
        const char *const s = hd_tokenizer_bytes(j->tokenizer, j->ids[i], &bytes);
        hd_buffer_printf(out, "%d\t", j->ids[i]);
        print_token(out, s, bytes, &quoted);
    }
    hd_buffer_free(&quoted);
    return HD_OK;
}

static void print_ids(const tokens_job *j, const char *between, hd_buffer *out)
{
    for (int32_t i = 0; i < j->n_ids; i++)
        hd_buffer_printf(out, "%s%d", i ? between : "", j->ids[i]);
}

static hd_status print_id_line(tokens_job *j, hd_buffer *out, hd_error *err)
{
    HD_TRY(encode(j, j->text.data, j->text.used, j->plain, err));
    print_ids(j, " ", out);
    hd_buffer_text(out, "\n");
    return HD_OK;
}

/* ---- decoding ---- */

static hd_status read_id(int32_t *id, const char **at, hd_error *err)
{
    const char *const word = *at;
    size_t const      bytes = strcspn(word, " \t\r\n,");
    char             *end = NULL;
    errno = 0;
    long const n = strtol(word, &end, 10);
    if (end != word + bytes || errno || n < 0 || n > INT32_MAX)
        HD_FAIL(err, HD_ERR_FORMAT, "'%.*s' is no token id", bytes < 40 ? (int)bytes : 40, word);
    *id = (int32_t)n;
    *at = end;
    return HD_OK;
}

static void print_text(hd_utf8_stream *s, const char *bytes, size_t n, hd_buffer *out)
{
    char text[3 * (256 + 3)];
    for (size_t at = 0, part; at < n; at += part) {
        part = n - at < 256 ? n - at : 256;
        hd_buffer_add(out, text, hd_utf8_push(s, bytes + at, part, text));
    }
}

static hd_status print_decoded(tokens_job *j, hd_buffer *out, hd_error *err)
{
    static const char blank[] = " \t\r\n,";
    hd_utf8_stream    s = {0};
    char              tail[9];
    if (j->text.used && strlen(j->text.data) != j->text.used)
        HD_FAIL(err, HD_ERR_FORMAT, "the list of ids holds a NUL byte");
    const char *at = j->text.used ? j->text.data : "";
    for (at += strspn(at, blank); *at; at += strspn(at, blank)) {
        int32_t id = 0;
        size_t  bytes = 0;
        HD_TRY(read_id(&id, &at, err));
        const char *const token = hd_tokenizer_bytes(j->tokenizer, id, &bytes);
        if (!token)
            HD_FAIL(err, HD_ERR_INVALID, "no token has id %d: the vocabulary ends at %d", id,
                    hd_tokenizer_vocab(j->tokenizer) - 1);
        print_text(&s, token, bytes, out);
    }
    hd_buffer_add(out, tail, hd_utf8_flush(&s, tail));
    return HD_OK;
}

/* ---- one object a line ---- */

static hd_status encode_object(tokens_job *j, const json_object *line, hd_error *err)
{
    json_object *text = NULL, *plain = NULL;
    if (!json_object_is_type(line, json_type_object))
        HD_FAIL(err, HD_ERR_FORMAT, "the line is no object");
    json_object_object_get_ex(line, "text", &text);
    if (!json_object_is_type(text, json_type_string))
        HD_FAIL(err, HD_ERR_FORMAT, "\"text\" is missing or no string");
    if (json_object_object_get_ex(line, "plain", &plain) &&
        !json_object_is_type(plain, json_type_boolean))
        HD_FAIL(err, HD_ERR_FORMAT, "\"plain\" is not true or false");
    return encode(j, json_object_get_string(text), (size_t)json_object_get_string_len(text),
                  plain ? json_object_get_boolean(plain) : j->plain, err);
}

static hd_status answer_line(tokens_job *j, hd_buffer *out, hd_error *err)
{
    json_object *line = NULL, *id = NULL;
    hd_status    s = hd_json_parse(&line, j->text.data, j->text.used, HD_JSON_STRICT, "line", err);
    if (s == HD_OK) s = encode_object(j, line, err);
    bool const has_id = line && json_object_is_type(line, json_type_object) &&
                        json_object_object_get_ex(line, "id", &id);
    hd_buffer_text(out, "{");
    if (has_id)
        hd_buffer_printf(out, "\"id\": %s, ",
                         json_object_to_json_string_ext(id, JSON_C_TO_STRING_NOSLASHESCAPE));
    if (s == HD_OK) {
        hd_buffer_text(out, "\"ids\": [");
        print_ids(j, ", ", out);
        hd_buffer_text(out, "]}\n");
    } else {
        hd_buffer_text(out, "\"error\": ");
        hd_json_write_string(out, err->message, strlen(err->message));
        hd_buffer_text(out, "}\n");
    }
    json_object_put(line);
    return s;
}

/* Answers each line as soon as it is there, so that another program may hold a dialogue. */
static int answer_lines(tokens_job *j, hd_buffer *out)
{
    int status = 0;
    while (read_line(j)) {
        hd_error err = {0};
        if (answer_line(j, out, &err) != HD_OK) status = 1;
        if (out->failed || j->text.failed) {
            fprintf(stderr, "hadal: no memory for a line\n");
            return 1;
        }
        fwrite(out->data, 1, out->used, stdout);
        fflush(stdout);
        hd_buffer_clear(out);
    }
    return status;
}

/* ---- the verb ---- */

static hd_status answer_text(tokens_job *j, hd_buffer *out, hd_error *err)
{
    HD_TRY(read_all(j, err));
    if (j->mode == MODE_LIST) HD_TRY(print_list(j, out, err));
    if (j->mode == MODE_IDS) HD_TRY(print_id_line(j, out, err));
    if (j->mode == MODE_DECODE) HD_TRY(print_decoded(j, out, err));
    if (out->failed) HD_FAIL(err, HD_ERR_MEMORY, "no memory for the answer");
    fwrite(out->data, 1, out->used, stdout);
    return HD_OK;
}

static int run_job(tokens_job *j, hd_buffer *out)
{
    hd_error  err = {0};
    hd_status s = hd_tokenizer_open(&j->tokenizer, j->model, &err);
    if (s == HD_OK && j->mode == MODE_JSONL) return answer_lines(j, out);
    if (s == HD_OK) s = answer_text(j, out, &err);
    if (s != HD_OK) fprintf(stderr, "hadal: %s\n", err.message);
    return s == HD_OK ? 0 : 1;
}

int hd_cli_tokens(int argc, char **argv)
{
    tokens_job j = {0};
    hd_buffer  out = {0};
    if (!read_arguments(&j, argc, argv)) return 2;
    int status = run_job(&j, &out);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "hadal: standard output: %s\n", strerror(errno));
        status = 1;
    }
    hd_buffer_free(&out);
    hd_buffer_free(&j.text);
    hd_memory_free(j.ids);
    hd_tokenizer_close(j.tokenizer);
    return status;
}
