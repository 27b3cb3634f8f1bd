#include <stdio.h>
#include <string.h>

#include "base/json_write.h"
#include "cli/answer.h"
#include "cli/cli.h"
#include "cli/model_options.h"
#include "cli/question.h"
#include "cli/sampling_options.h"
#include "doctor/memory_report.h"

const char hd_help_run[] =
    "usage: hadal run MODEL [-p TEXT | --messages FILE] [options]\n"
    "\n"
    "Answers one prompt.  MODEL is a folder with config.json and *.safetensors.  The answer goes\n"
    "to standard output as it is generated, then each tool call on a line of its own: the name,\n"
    "a space, the arguments as JSON.  Reasoning goes to standard error.\n"
    "\n" HD_HELP_QUESTION_OPTIONS HD_HELP_TEMPLATE_OPTIONS "\n" HD_HELP_SAMPLING_OPTIONS "\n"
    "  --json            one JSON object instead: text, reasoning, tool_calls, unparsed, ids,\n"
    "                    logprobs, finish_reason, prompt_ids, usage, timings, act\n"
    "  --logprobs N      with --json: N likeliest tokens beside each one drawn, 0 .. 20\n"
    "\n" HD_HELP_SIZE_OPTIONS HD_HELP_MODEL_OPTIONS
    "  --memory          instead of an answer, what the model takes in this context, part by\n"
    "                    part, and which contexts fit this machine\n"
    "\n"
    "An answer is drawn greedily unless --temp says otherwise, so it is the same each time.\n";

typedef struct run_job {
    hd_model_options    model;
    hd_question         question;
    hd_sampling_options drawing;
    bool                is_json, is_memory;
    int32_t             n_top; /* -1: not given */

    hd_screen          screen;
    hd_engine         *engine;  /* owned */
    hd_session        *session; /* owned */
    hd_buffer          source;  /* owned */
    hd_asked           asked;   /* owned */
    hd_answer          answer;  /* owned */
    hd_generate_result result;
    double             load_s;
} run_job;

/* ---- command line ---- */

static int read_arguments(run_job *j, int argc, char **argv)
{
    hd_option model[HD_N_MODEL_OPTIONS], question[HD_N_QUESTION_OPTIONS];
    hd_option template[HD_N_TEMPLATE_OPTIONS];
    hd_option       drawing[HD_N_SAMPLING_OPTIONS], sizes[HD_N_SIZE_OPTIONS];
    hd_option const own[] = {
        {.name = "--json", .flag = &j->is_json},
        {.name = "--memory", .flag = &j->is_memory},
        {.name = "--logprobs", .number = &j->n_top, .most = HD_MAX_TOP_LOGPROBS},
        {.name = NULL}};
    j->n_top = -1;
    hd_model_options_list(&j->model, model);
    hd_model_options_list_sizes(&j->model, sizes);
    hd_question_list(&j->question, question);
    hd_question_list_template(&j->question, template);
    hd_sampling_options_list(&j->drawing, drawing);
    hd_command const c = {.verb = "run",
                          .options = {own, question, template, drawing, sizes, model},
                          .operand = &j->model.model,
                          .operand_name = "MODEL"};
    int const        status = hd_options_read(&c, argc, argv);
    if (status >= 0) return status;
    if (j->n_top >= 0 && !j->is_json) return hd_cli_misuse("run", "--logprobs needs --json");
    if (j->question.is_raw && j->drawing.stop.n > 0)
        return hd_cli_misuse("run", "--raw has no answer in which --stop could be found");
    if (!j->is_memory) return hd_question_check(&j->question, "run");
    if (j->question.text || j->question.messages || j->is_json)
        return hd_cli_misuse("run", "--memory answers nothing: no -p, --messages or --json");
    return -1;
}

/* ---- the JSON object ---- */

static double per_second(int32_t n, double seconds) { return seconds > 0 ? n / seconds : 0; }

static void write_counts(const run_job *j, hd_buffer *out)
{
    const hd_generate_result *const r = &j->result;
    hd_buffer_printf(out,
                     "\"usage\": {\"prompt_tokens\": %d, \"completion_tokens\": %d, "
                     "\"total_tokens\": %d}, ",
                     r->n_prompt, r->n_new, r->n_prompt + r->n_new);
    hd_buffer_printf(out,
                     "\"timings\": {\"load_s\": %.6f, \"prompt_s\": %.6f, \"new_s\": %.6f, "
                     "\"prompt_tokens_per_s\": %.3f, \"tokens_per_s\": %.3f}, ",
                     j->load_s, r->prompt_s, r->new_s, per_second(r->n_prompt, r->prompt_s),
                     per_second(r->n_new, r->new_s));
}

static hd_status print_json(const run_job *j, hd_error *err)
{
    hd_buffer      out = {0};
    hd_engine_info info;
    hd_engine_info_get(j->engine, &info);
    hd_buffer_text(&out, "{");
    hd_answer_write_json(&j->answer, &out);
    hd_buffer_printf(
        &out, ", \"finish_reason\": \"%s\", \"prompt_ids\": ", hd_finish_name(j->result.finish));
    hd_answer_write_ids(&out, j->asked.ids, j->asked.n);
    hd_buffer_text(&out, ", ");
    write_counts(j, &out);
    hd_buffer_printf(&out, "\"act\": \"%s\"}\n", hd_act_name(info.act));
    bool const has_failed = out.failed;
    if (!has_failed) hd_stdout_write(out.data, out.used);
    hd_buffer_free(&out);
    if (has_failed) HD_FAIL(err, HD_ERR_MEMORY, "no memory for the answer");
    return HD_OK;
}

/* ---- the job ---- */

static hd_status open_model(run_job *j, hd_error *err)
{
    double const start = hd_screen_now();
    HD_TRY(hd_model_options_open(&j->model, &j->screen, &j->engine, err));
    j->load_s = hd_screen_now() - start;
    return hd_session_open(&j->session, j->engine, err);
}

static hd_status generate(run_job *j, hd_error *err)
{
    j->answer.tokenizer = hd_engine_tokenizer(j->engine);
    j->answer.screen = &j->screen;
    j->answer.is_shown = !j->is_json;
    j->answer.has_probs = j->is_json;
    hd_generate_options o = hd_sampling_options_generate(&j->drawing);
    o.n_top = j->n_top > 0 ? j->n_top : 0;
    o.is_raw = j->question.is_raw;
    o.start = j->asked.start;
    o.has_tools = j->asked.has_tools;
    o.on_event = hd_answer_on_event;
    o.user = &j->answer;
    hd_status const s = hd_generate(j->session, j->asked.ids, j->asked.n, &o, &j->result, err);
    hd_answer_end(&j->answer, j->question.is_raw);
    HD_TRY(s);
    if (hd_answer_has_failed(&j->answer)) HD_FAIL(err, HD_ERR_MEMORY, "no memory for the answer");
    return HD_OK;
}

static void report(run_job *j)
{
    const hd_generate_result *const r = &j->result;
    if (j->answer.unparsed.used)
        hd_screen_note(&j->screen, "warning: the answer ends with a malformed tool call");
    if (!j->screen.is_verbose) return;
    hd_screen_note(
        &j->screen,
        "loaded in %.2f s; %d prompt tokens in %.2f s, %.1f/s; %d new in %.2f s, %.1f/s; %s",
        j->load_s, r->n_prompt, r->prompt_s, per_second(r->n_prompt, r->prompt_s), r->n_new,
        r->new_s, per_second(r->n_new, r->new_s), hd_finish_name(r->finish));
}

static hd_status print_memory(run_job *j, hd_error *err)
{
    hd_buffer        out = {0};
    hd_options const o = hd_model_options_engine(&j->model, &j->screen);
    hd_status        s = hd_memory_report(&out, &o, err);
    hd_screen_progress(&j->screen, "", 1, 1);
    if (s == HD_OK && out.failed)
        s = hd_error_set(err, HD_ERR_MEMORY, -1, "no memory for the report");
    if (s == HD_OK) hd_stdout_write(out.data, out.used);
    hd_buffer_free(&out);
    return s;
}

static hd_status run(run_job *j, hd_error *err)
{
    if (j->is_memory) return print_memory(j, err);
    HD_TRY(hd_question_read(&j->question, &j->source, err));
    HD_TRY(open_model(j, err));
    HD_TRY(hd_question_encode(&j->question, &j->source, j->engine, &j->asked, err));
    HD_TRY(generate(j, err));
    report(j);
    return j->is_json ? print_json(j, err) : HD_OK;
}

int hd_cli_run(int argc, char **argv)
{
    run_job   j = {0};
    hd_error  err = {0};
    int const usage = read_arguments(&j, argc, argv);
    if (usage >= 0) return usage;
    hd_screen_open(&j.screen, j.model.is_quiet, j.model.is_verbose);
    hd_status const s = run(&j, &err);
    hd_answer_free(&j.answer);
    hd_asked_free(&j.asked);
    hd_buffer_free(&j.source);
    hd_session_close(j.session);
    hd_engine_close(j.engine);
    return s == HD_OK ? HD_EXIT_OK : hd_cli_fail(&err);
}
