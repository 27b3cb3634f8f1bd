#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_write.h"
#include "base/utf8_scan.h"
#include "cli/cli.h"
#include "cli/question.h"
#include "cli/rows.h"
#include "cli/screen.h"

const char hd_help_tokens[] =
    "usage: hadal tokens [options] MODEL\n"
    "\n"
    "Reads text from standard input and prints its tokens as MODEL sees them, one a line: the\n"
    "id, a tab, and its text as a JSON string, in which a byte that is no part of a whole\n"
    "character is written \\xHH.  MODEL is a tokenizer.json or the folder that holds one.\n"
    "\n"
    "  --plain   the spelling of a control token such as <think> is ordinary text\n"
    "  --ids     prints only the ids, on one line\n"
    "  --decode  reads ids and prints their text; what is not UTF-8 becomes U+FFFD\n"
    "  --jsonl   each line of standard input is an object {\"id\", \"text\"} and optionally\n"
    "            \"plain\" (true: as --plain); answers each with {\"id\", \"ids\"} or\n"
    "            {\"id\", \"error\"}\n";

typedef struct tokens_job {
    hd_tokenizer *tokenizer; /* owned */
    bool          is_plain;
    int32_t      *ids; /* [cap_ids] owned; of the text encoded last, n_ids */
    int32_t       n_ids;
    size_t        cap_ids;
} tokens_job;

/* ---- encoding ---- */

static hd_status encode(tokens_job *j, const char *text, size_t bytes, bool is_plain, hd_error *err)
{
    if (bytes > INT32_MAX) HD_FAIL(err, HD_ERR_LIMIT, "%zu bytes of text are too many", bytes);
    if (bytes > j->cap_ids) {
        hd_memory_free(j->ids);
        j->cap_ids = 0;
        j->ids = hd_memory_alloc(2 * bytes * sizeof *j->ids);
        if (!j->ids) HD_FAIL(err, HD_ERR_MEMORY, "no memory for the ids of %zu bytes", bytes);
        j->cap_ids = 2 * bytes;
    }
    return hd_tokenizer_encode(j->tokenizer, text, bytes, !is_plain, j->ids, (int32_t)bytes,
                               &j->n_ids, err);
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

static hd_status print_list(tokens_job *j, const hd_buffer *text, hd_buffer *out, hd_error *err)
{
    hd_buffer quoted = {0};
    HD_TRY(encode(j, text->used ? text->data : "", text->used, j->is_plain, err));
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

static hd_status print_id_line(tokens_job *j, const hd_buffer *text, hd_buffer *out, hd_error *err)
{
    HD_TRY(encode(j, text->used ? text->data : "", text->used, j->is_plain, err));
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

static hd_status print_decoded(tokens_job *j, const hd_buffer *text, hd_buffer *out, hd_error *err)
{
    static const char blank[] = " \t\r\n,";
    hd_utf8_stream    s = {0};
    char              tail[9];
    if (text->used && strlen(text->data) != text->used)
        HD_FAIL(err, HD_ERR_FORMAT, "the list of ids holds a NUL byte");
    const char *at = text->used ? text->data : "";
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

static hd_status answer_row(void *user, const json_object *row, hd_buffer *answer, hd_error *err)
{
    tokens_job *const        j = user;
    const json_object *const plain = hd_json_member(row, "plain");
    size_t                   bytes = 0;
    const char *const        text = hd_json_text(hd_json_member(row, "text"), &bytes);
    if (!text) HD_FAIL(err, HD_ERR_FORMAT, "text: missing or no string");
    if (plain && !json_object_is_type(plain, json_type_boolean))
        HD_FAIL(err, HD_ERR_FORMAT, "plain: neither true nor false");
    HD_TRY(encode(j, text, bytes, plain ? json_object_get_boolean(plain) : j->is_plain, err));
    hd_buffer_text(answer, ", \"ids\": [");
    print_ids(j, ", ", answer);
    hd_buffer_text(answer, "]");
    return HD_OK;
}

/* ---- the verb ---- */

typedef hd_status print_fn(tokens_job *j, const hd_buffer *text, hd_buffer *out, hd_error *err);

static hd_status answer_text(tokens_job *j, print_fn *print, hd_error *err)
{
    hd_buffer text = {0}, out = {0};
    hd_status s = hd_question_read_file("-", &text, err);
    if (s == HD_OK) s = print(j, &text, &out, err);
    if (s == HD_OK && out.failed)
        s = hd_error_set(err, HD_ERR_MEMORY, -1, "no memory for the answer");
    if (s == HD_OK && !hd_stdout_write(out.used ? out.data : "", out.used))
        s = hd_error_set(err, HD_ERR_IO, -1, "standard output failed");
    hd_buffer_free(&text);
    hd_buffer_free(&out);
    return s;
}

int hd_cli_tokens(int argc, char **argv)
{
    const char      *model = NULL;
    bool             is_list_of_ids = false, is_decoding = false, is_rows = false;
    tokens_job       j = {0};
    hd_error         err = {0};
    const hd_option  options[] = {{.name = "--plain", .flag = &j.is_plain},
                                  {.name = "--ids", .flag = &is_list_of_ids},
                                  {.name = "--decode", .flag = &is_decoding},
                                  {.name = "--jsonl", .flag = &is_rows},
                                  {0}};
    const hd_command command = {
        .verb = "tokens", .options = {options}, .operand = &model, .operand_name = "MODEL"};
    int status = hd_options_read(&command, argc, argv);
    if (status >= 0) return status;
    if (is_list_of_ids + is_decoding + is_rows > 1)
        return hd_cli_misuse("tokens", "--ids, --decode, --jsonl: only one of them");
    print_fn *const print = is_decoding      ? print_decoded
                            : is_list_of_ids ? print_id_line
                                             : print_list;
    hd_status       s = hd_tokenizer_open(&j.tokenizer, model, &err);
    if (s == HD_OK && !is_rows) s = answer_text(&j, print, &err);
    status = s != HD_OK ? hd_cli_fail(&err) : is_rows ? hd_rows_answer(answer_row, &j) : HD_EXIT_OK;
    hd_memory_free(j.ids);
    hd_tokenizer_close(j.tokenizer);
    return status;
}
