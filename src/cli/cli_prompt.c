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
    "Prints the exact prompt that a chat request becomes, with nothing added.  FILE holds the\n"
    "body of a Chat Completions request: an object with messages and optionally tools,\n"
    "tool_choice and response_format, or the list of messages alone; - is standard input.\n"
    "\n"
    "  --dialect NAME  ga (default) or preview: as the encoder published with the checkpoints\n"
    "                  writes it; ga_api or v41_api: as DeepSeek's service does, for V4 or V4.1\n"
    "  --think LEVEL   reasoning before the answer: off (default), low, high, max\n"
    "  --jsonl         each line of standard input is an object {\"id\", \"dialect\", \"call\",\n"
    "                  \"input\" or \"input_json\"}; answers each with {\"id\", \"prompt\", "
    "\"special\"},\n"
    "                  the last being byte ranges of control tokens, or {\"id\", \"error\"}.  call "
    "is\n"
    "                  encode_messages (default), input having the arguments of that function of\n"
    "                  the model, or chat_request, input being the body of a request, which then\n"
    "                  says how to think; its answer has parser_start and parse_tool_calls, too\n"
    "\n"
    "Exits with 1 when the messages are malformed; a row of --jsonl that is refused does not\n"
    "fail the job.\n";

/* The place of a row's word; *out stays when the row has no such member. */
static hd_status read_word(const json_object *row, const char *name, const char *const *words,
                           int *out, hd_error *err)
{
    const json_object *const v = hd_json_member(row, name);
    const char *const        text = hd_json_text(v, NULL);
    if (!v) return HD_OK;
    for (int i = 0; words[i]; i++) {
        if (!hd_json_equals(v, words[i])) continue;
        *out = i;
        return HD_OK;
    }
    HD_FAIL(err, HD_ERR_UNSUPPORTED, "%s: %.60s is unknown", name,
            text ? text : "no string, so it");
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

static void write_prompt(hd_buffer *answer, const hd_prompt *p, bool is_request)
{
    hd_buffer_text(answer, ", \"prompt\": ");
    hd_json_write_string(answer, p->text, p->text_bytes);
    hd_buffer_text(answer, ", \"special\": [");
    for (size_t i = 0; i < p->n_control; i++)
        hd_buffer_printf(answer, "%s[%zu, %zu]", i ? ", " : "", p->control[i].start,
                         p->control[i].end);
    hd_buffer_text(answer, "]");
    if (is_request)
        hd_buffer_printf(answer, ", \"parser_start\": \"%s\", \"parse_tool_calls\": %s",
                         hd_start_words[p->start], p->has_tools ? "true" : "false");
}

static hd_status answer_row(void *user, const json_object *row, hd_buffer *answer, hd_error *err)
{
    static const char *const calls[] = {"encode_messages", "chat_request", NULL};
    int                      dialect = (int)*(const hd_dialect *)user, is_request = 0;
    const char              *text = NULL;
    size_t                   bytes = 0;
    hd_prompt                prompt = {0};
    HD_TRY(read_word(row, "call", calls, &is_request, err));
    HD_TRY(read_word(row, "dialect", hd_dialect_words, &dialect, err));
    HD_TRY(find_input(row, &text, &bytes, err));
    if (is_request)
        HD_TRY(hd_prompt_chat(&prompt, text, bytes, (hd_dialect)dialect, HD_THINK_ASKED, err));
    else
        HD_TRY(hd_prompt_render(&prompt, text, bytes, (hd_dialect)dialect, err));
    write_prompt(answer, &prompt, is_request);
    hd_prompt_free(&prompt);
    return HD_OK;
}

static hd_status print_prompt(const char *path, hd_dialect dialect, hd_think think, hd_error *err)
{
    hd_buffer json = {0};
    hd_prompt prompt = {0};
    hd_status status = hd_question_read_file(path, &json, err);
    if (status == HD_OK)
        status =
            hd_prompt_chat(&prompt, json.data ? json.data : "", json.used, dialect, think, err);
    if (status == HD_OK && !hd_stdout_write(prompt.text, prompt.text_bytes))
        status = hd_error_set(err, HD_ERR_IO, -1, "standard output failed");
    hd_prompt_free(&prompt);
    hd_buffer_free(&json);
    return status;
}

int hd_cli_prompt(int argc, char **argv)
{
    const char     *path = NULL;
    bool            is_rows = false;
    int             dialect = HD_DIALECT_GA, think = HD_THINK_OFF;
    hd_error        err = {0};
    const hd_option options[] = {
        {.name = "--jsonl", .flag = &is_rows},
        {.name = "--dialect", .choice = &dialect, .choices = hd_dialect_words},
        {.name = "--think", .choice = &think, .choices = hd_think_words},
        {0}};
    const hd_command command = {.verb = "prompt",
                                .options = {options},
                                .operand = &path,
                                .operand_name = "FILE",
                                .stands_alone = &is_rows};
    int const        status = hd_options_read(&command, argc, argv);
    if (status >= 0) return status;
    hd_dialect chosen = (hd_dialect)dialect;
    if (is_rows) return hd_rows_answer(answer_row, &chosen);
    return print_prompt(path, chosen, (hd_think)think, &err) == HD_OK ? HD_EXIT_OK
                                                                      : hd_cli_fail(&err);
}
