#include <string.h>

#include "base/json_write.h"
#include "cli/cli.h"
#include "cli/question.h"
#include "cli/rows.h"
#include "cli/screen.h"

const char hd_help_parse[] =
    "usage: hadal parse [options] FILE\n"
    "       hadal parse --jsonl [--cut BYTES]\n"
    "\n"
    "Takes the text that a model answered apart and prints a JSON object with its\n"
    "reasoning_content, content, tool_calls, unparsed (markup that is no call; null: none) and\n"
    "finish_reason.  Control tokens are recognised by their spelling.  FILE - is standard input.\n"
    "\n"
    "  --start WHERE  what the prompt ended in: reasoning (default), content,\n"
    "                 reasoning_continuation, content_continuation, tool_calls\n"
    "  --no-tools     no tools were offered: markup of calls is text\n"
    "  --length       the answer was cut at a limit\n"
    "  --cut BYTES    feeds so many bytes at a time; the result is always the same\n"
    "  --jsonl        each line of standard input is an object {\"id\", \"text\"} and optionally\n"
    "                 \"start\", \"tools\" (false: not offered), \"finish\" (\"length\": cut) and\n"
    "                 \"stop\" (strings); answers each with the same members behind its id, or\n"
    "                 with {\"id\", \"error\"}\n";

#define MAX_STOPS 64

const char *const hd_start_words[] = {
    [HD_START_REASONING] = "reasoning",
    [HD_START_CONTENT] = "content",
    [HD_START_REASONING_CONTINUATION] = "reasoning_continuation",
    [HD_START_CONTENT_CONTINUATION] = "content_continuation",
    [HD_START_TOOL_CALLS] = "tool_calls",
    [HD_START_TOOL_CALLS + 1] = NULL,
};

typedef struct parse_job {
    hd_parser_options options;
    const char       *stop[MAX_STOPS]; /* borrowed */
    const char       *text;            /* [bytes] borrowed */
    size_t            bytes;
    size_t            piece; /* bytes fed at a time; 0: all */
    bool              is_cut;
} parse_job;

/* ---- answer ---- */

typedef struct parsed {
    hd_buffer text[HD_PARSE_UNPARSED + 1]; /* by kind; of calls: their JSON objects */
} parsed;

static void write_call(hd_buffer *out, const hd_parse_event *e)
{
    hd_buffer_text(out, e->index ? ", {\"name\": " : "{\"name\": ");
    hd_json_write_string(out, e->name, e->name_bytes);
    hd_buffer_text(out, ", \"arguments\": ");
    hd_json_write_string(out, e->text, e->text_bytes);
    hd_buffer_text(out, "}");
}

static void collect(void *user, const hd_parse_event *e)
{
    parsed *const a = user;
    if (e->kind == HD_PARSE_CALL)
        write_call(&a->text[HD_PARSE_CALL], e);
    else
        hd_buffer_add(&a->text[e->kind], e->text, e->text_bytes);
}

static void write_string(hd_buffer *out, const char *name, const hd_buffer *text)
{
    hd_buffer_printf(out, ", \"%s\": ", name);
    hd_json_write_string(out, text->data ? text->data : "", text->used);
}

static void write_answer(hd_buffer *out, const parsed *a, hd_finish finish)
{
    const hd_buffer *const calls = &a->text[HD_PARSE_CALL];
    const hd_buffer *const unparsed = &a->text[HD_PARSE_UNPARSED];
    write_string(out, "reasoning_content", &a->text[HD_PARSE_REASONING]);
    write_string(out, "content", &a->text[HD_PARSE_CONTENT]);
    hd_buffer_text(out, ", \"tool_calls\": [");
    hd_buffer_add(out, calls->data, calls->used);
    hd_buffer_text(out, "]");
    if (unparsed->used)
        write_string(out, "unparsed", unparsed);
    else
        hd_buffer_text(out, ", \"unparsed\": null");
    hd_buffer_printf(out, ", \"finish_reason\": \"%s\"", hd_finish_name(finish));
}

/* ---- parsing ---- */

static hd_status feed(hd_parser *p, const parse_job *job, hd_finish *finish, hd_error *err)
{
    size_t const piece = job->piece ? job->piece : job->bytes;
    for (size_t at = 0; at < job->bytes; at += piece) {
        size_t const n = job->bytes - at < piece ? job->bytes - at : piece;
        HD_TRY(hd_parser_push_text(p, job->text + at, n, err));
    }
    return hd_parser_finish(p, job->is_cut, finish, err);
}

static hd_status parse(const parse_job *job, hd_buffer *answer, hd_error *err)
{
    parsed            a = {0};
    hd_parser        *p = NULL;
    hd_finish         finish = HD_FINISH_NONE;
    hd_parser_options options = job->options;
    options.on_event = collect;
    options.user = &a;
    hd_status status = hd_parser_open(&p, &options, err);
    if (status == HD_OK) status = feed(p, job, &finish, err);
    if (status == HD_OK) write_answer(answer, &a, finish);
    hd_parser_close(p);
    for (int i = 0; i <= HD_PARSE_UNPARSED; i++) {
        answer->failed |= a.text[i].failed;
        hd_buffer_free(&a.text[i]);
    }
    return status;
}

/* ---- rows ---- */

static hd_status read_start(parse_job *job, const json_object *row, hd_error *err)
{
    const json_object *const v = hd_json_member(row, "start");
    if (!v) return HD_OK;
    for (int i = 0; hd_start_words[i]; i++) {
        if (!hd_json_equals(v, hd_start_words[i])) continue;
        job->options.start = (hd_parse_start)i;
        return HD_OK;
    }
    HD_FAIL(err, HD_ERR_FORMAT,
            "start: none of reasoning, content, reasoning_continuation, "
            "content_continuation, tool_calls");
}

static hd_status add_stop(parse_job *job, const json_object *v, hd_error *err)
{
    size_t            bytes = 0;
    const char *const text = hd_json_text(v, &bytes);
    if (!text || strlen(text) != bytes)
        HD_FAIL(err, HD_ERR_FORMAT, "stop: neither a string nor a list of strings");
    if (job->options.n_stop == MAX_STOPS)
        HD_FAIL(err, HD_ERR_LIMIT, "stop: more than %d strings", MAX_STOPS);
    job->stop[job->options.n_stop++] = text;
    return HD_OK;
}

static hd_status read_stop(parse_job *job, const json_object *row, hd_error *err)
{
    const json_object *const v = hd_json_member(row, "stop");
    job->options.stop = job->stop;
    if (!v) return HD_OK;
    if (!json_object_is_type(v, json_type_array)) return add_stop(job, v, err);
    size_t const n = json_object_array_length(v);
    for (size_t i = 0; i < n; i++) HD_TRY(add_stop(job, json_object_array_get_idx(v, i), err));
    return HD_OK;
}

static hd_status answer_row(void *user, const json_object *row, hd_buffer *answer, hd_error *err)
{
    parse_job                job = *(const parse_job *)user;
    const json_object *const tools = hd_json_member(row, "tools");
    const json_object *const finish = hd_json_member(row, "finish");
    job.text = hd_json_text(hd_json_member(row, "text"), &job.bytes);
    if (!job.text) HD_FAIL(err, HD_ERR_FORMAT, "text: missing or no string");
    if (tools) job.options.has_tools = json_object_get_boolean(tools);
    if (finish) job.is_cut = hd_json_equals(finish, "length");
    HD_TRY(read_start(&job, row, err));
    HD_TRY(read_stop(&job, row, err));
    return parse(&job, answer, err);
}

/* ---- the verb ---- */

/* The members as rows have them, made an object by themselves. */
static hd_status print_object(hd_buffer *answer, hd_error *err)
{
    hd_buffer_text(answer, "}\n");
    if (answer->failed) HD_FAIL(err, HD_ERR_MEMORY, "no memory for the answer");
    answer->data[1] = '{'; /* in place of the ", " that follows an id */
    if (!hd_stdout_write(answer->data + 1, answer->used - 1))
        HD_FAIL(err, HD_ERR_IO, "standard output failed");
    return HD_OK;
}

static hd_status print_parsed(parse_job *job, const char *path, hd_error *err)
{
    hd_buffer text = {0}, answer = {0};
    hd_status status = hd_question_read_file(path, &text, err);
    job->text = text.data;
    job->bytes = text.used;
    if (status == HD_OK) status = parse(job, &answer, err);
    if (status == HD_OK) status = print_object(&answer, err);
    hd_buffer_free(&text);
    hd_buffer_free(&answer);
    return status;
}

int hd_cli_parse(int argc, char **argv)
{
    const char     *path = NULL;
    bool            is_rows = false, has_no_tools = false;
    int             start = HD_START_REASONING;
    int32_t         piece = 0;
    parse_job       job = {0};
    hd_error        err = {0};
    const hd_option options[] = {
        {.name = "--jsonl", .flag = &is_rows},
        {.name = "--start", .choice = &start, .choices = hd_start_words},
        {.name = "--no-tools", .flag = &has_no_tools},
        {.name = "--length", .flag = &job.is_cut},
        {.name = "--cut", .number = &piece, .least = 1, .most = INT32_MAX},
        {0},
    };
    const hd_command command = {.verb = "parse",
                                .options = {options},
                                .operand = &path,
                                .operand_name = "FILE",
                                .stands_alone = &is_rows};
    int const        status = hd_options_read(&command, argc, argv);
    if (status >= 0) return status;
    job.options.start = (hd_parse_start)start;
    job.options.has_tools = !has_no_tools;
    job.piece = (size_t)piece;
    if (is_rows) return hd_rows_answer(answer_row, &job);
    return print_parsed(&job, path, &err) == HD_OK ? HD_EXIT_OK : hd_cli_fail(&err);
}
