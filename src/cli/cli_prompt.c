#include <string.h>

#include "base/json_write.h"
#include "cli/cli.h"
#include "cli/question.h"
#include "cli/rows.h"
#include "cli/screen.h"

const char hd_help_prompt[] =
    "usage: hadal prompt [options] FILE\n"
    "       hadal prompt --jsonl\n"
    "\n"
    "Prints the exact prompt that chat messages become, with nothing added.  FILE holds OpenAI\n"
    "chat messages: a JSON list, or an object with messages and optionally tools and\n"
    "response_format; - is standard input.\n"
    "\n"
    "  --dialect NAME  of the prompt: ga (default) or preview\n"
    "  --think LEVEL   reasoning before the answer: off (default), low, high, max\n"
    "  --jsonl         each line of standard input is an object {\"id\", \"dialect\", \"call\",\n"
    "                  \"input\" or \"input_json\"} with the arguments of the model's own\n"
    "                  encode_messages; answers each with {\"id\", \"prompt\", \"special\"}, the\n"
    "                  last being byte ranges of control tokens, or {\"id\", \"error\"}\n"
    "\n"
    "Exits with 1 when the messages are malformed; a row of --jsonl that is refused does not\n"
    "fail the job.\n";

static const char *const dialects[] = {"ga", "preview", NULL};

static hd_status read_dialect(const json_object *row, hd_dialect *dialect, hd_error *err)
{
    const json_object *const v = hd_json_member(row, "dialect");
    if (!v) return HD_OK;
    for (int i = 0; dialects[i]; i++) {
        if (!hd_json_equals(v, dialects[i])) continue;
        *dialect = (hd_dialect)i;
        return HD_OK;
    }
    const char *const name = hd_json_text(v, NULL);
    HD_FAIL(err, HD_ERR_UNSUPPORTED, "dialect %.60s: not one of ga, preview",
            name ? name : "that is no string");
}

static hd_status check_call(const json_object *row, hd_error *err)
{
    const json_object *const call = hd_json_member(row, "call");
    if (!call || hd_json_equals(call, "encode_messages")) return HD_OK;
    const char *const name = hd_json_text(call, NULL);
    HD_FAIL(err, HD_ERR_UNSUPPORTED, "call %.60s: not encode_messages",
            name ? name : "that is no string");
}

/* The exact text of the input: json-c keeps the spelling of every number. */
static hd_status find_input(const json_object *row, const char **text, size_t *bytes, hd_error *err)
{
    json_object *input = NULL;
    *text = hd_json_text(hd_json_member(row, "input_json"), bytes);
    if (*text) return HD_OK;
    if (!json_object_object_get_ex(row, "input", &input))
        HD_FAIL(err, HD_ERR_FORMAT, "input: missing, and so is input_json");
    *text = json_object_to_json_string_length(
        input, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, bytes);
    if (!*text) HD_FAIL(err, HD_ERR_MEMORY, "input: out of memory");
    return HD_OK;
}

static void write_prompt(hd_buffer *answer, const hd_prompt *p)
{
    hd_buffer_text(answer, ", \"prompt\": ");
    hd_json_write_string(answer, p->text, p->text_bytes);
    hd_buffer_text(answer, ", \"special\": [");
    for (size_t i = 0; i < p->n_control; i++)
        hd_buffer_printf(answer, "%s[%zu, %zu]", i ? ", " : "", p->control[i].start,
                         p->control[i].end);
    hd_buffer_text(answer, "]");
}

static hd_status answer_row(void *user, const json_object *row, hd_buffer *answer, hd_error *err)
{
    hd_dialect  dialect = *(const hd_dialect *)user;
    const char *text = NULL;
    size_t      bytes = 0;
    hd_prompt   prompt = {0};
    HD_TRY(check_call(row, err));
    HD_TRY(read_dialect(row, &dialect, err));
    HD_TRY(find_input(row, &text, &bytes, err));
    HD_TRY(hd_prompt_render(&prompt, text, bytes, dialect, err));
    write_prompt(answer, &prompt);
    hd_prompt_free(&prompt);
    return HD_OK;
}

static hd_status print_prompt(const char *path, hd_dialect dialect, hd_think think, hd_error *err)
{
    hd_buffer json = {0};
    hd_prompt prompt = {0};
    hd_status status = hd_question_read_file(path, &json, err);
    if (status == HD_OK)
        status = hd_prompt_chat(&prompt, json.data ? json.data : "", json.used, dialect, think,
                                NULL, err);
    if (status == HD_OK && !hd_stdout_write(prompt.text, prompt.text_bytes))
        status = hd_error_set(err, HD_ERR_IO, -1, "standard output failed");
    hd_prompt_free(&prompt);
    hd_buffer_free(&json);
    return status;
}

int hd_cli_prompt(int argc, char **argv)
{
    const char      *path = NULL;
    bool             is_rows = false;
    int              dialect = HD_DIALECT_GA, think = HD_THINK_OFF;
    hd_error         err = {0};
    const hd_option  options[] = {{.name = "--jsonl", .flag = &is_rows},
                                  {.name = "--dialect", .choice = &dialect, .choices = dialects},
                                  {.name = "--think", .choice = &think, .choices = hd_think_words},
                                  {0}};
    const hd_command command = {
        .verb = "prompt", .options = {options}, .operand = &path, .operand_name = "FILE"};
    int const status = hd_rows_read_options(&command, argc, argv);
    if (status >= 0) return status;
    hd_dialect chosen = (hd_dialect)dialect;
    if (is_rows) return hd_rows_answer(answer_row, &chosen);
    return print_prompt(path, chosen, (hd_think)think, &err) == HD_OK ? HD_EXIT_OK
                                                                      : hd_cli_fail(&err);
}
