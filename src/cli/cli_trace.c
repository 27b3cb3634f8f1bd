#include <inttypes.h>
#include <stdio.h>

#include "base/file.h"
#include "cli/cli.h"
#include "cli/prompt_ids.h"
#include "doctor/trace.h"
#include "doctor/trace_report.h"

const char hd_help_trace[] =
    "usage: hadal trace MODEL (--ids LIST | -p TEXT | --messages FILE) [options]\n"
    "\n"
    "Runs tokens once, in one pass, then the MTP block where the model has one, and prints what\n"
    "every step leaves: smallest and largest value, root of the mean square, blocks whose scale\n"
    "saturated.  Ends at the first step that leaves NaN or infinity, says where, and what that\n"
    "step had read; exit status 1 then.\n"
    "\n"
    "  --dump FILE       instead, writes the outputs of every step to a safetensors file\n"
    "  --steps GLOB      only steps of such names: 'L0[0-3].*', '*.w2', logits\n"
    "  --json            one JSON object instead of the table\n"
    "  --html FILE       also writes a page with pictures, which needs no "
    "network\n" HD_HELP_PROMPT_IDS "\n" HD_HELP_MODEL_OPTIONS;

typedef struct trace_job {
    hd_model_options model;
    hd_prompt_ids    prompt; /* owned */
    const char      *dump, *steps, *html;
    bool             is_json, is_bad;

    hd_screen  screen;
    hd_engine *engine; /* owned */
} trace_job;

static int read_arguments(trace_job *j, int argc, char **argv)
{
    hd_option model[HD_N_MODEL_OPTIONS], question[HD_N_QUESTION_OPTIONS];
    hd_option template[HD_N_TEMPLATE_OPTIONS];
    hd_option const own[] = {
        {.name = "--ids", .text = &j->prompt.text}, {.name = "--dump", .text = &j->dump},
        {.name = "--steps", .text = &j->steps},     {.name = "--json", .flag = &j->is_json},
        {.name = "--html", .text = &j->html},       {.name = NULL}};
    hd_model_options_list(&j->model, model);
    hd_prompt_ids_list(&j->prompt, question, template);
    hd_command const c = {.verb = "trace",
                          .options = {own, question, template, model},
                          .operand = &j->model.model,
                          .operand_name = "MODEL"};
    int const        status = hd_options_read(&c, argc, argv);
    if (status >= 0) return status;
    if (j->dump && j->html) return hd_cli_misuse("trace", "--dump writes a file, not --html");
    if (j->dump && j->is_json) return hd_cli_misuse("trace", "--dump writes a file, not --json");
    return hd_prompt_ids_check(&j->prompt, "trace");
}

static hd_status dump(trace_job *j, hd_error *err)
{
    hd_trace_result        result = {0};
    hd_trace_options const o = {j->dump, j->steps};
    HD_TRY(hd_trace(j->engine, j->prompt.asked.ids, j->prompt.asked.n, &o, &result, err));
    printf("%s: %d tokens, %d steps, %d tensors, %" PRId64 " bytes; greedy next token %d\n",
           j->dump, j->prompt.asked.n, result.n_steps, result.n_tensors, result.bytes,
           result.greedy);
    return HD_OK;
}

static hd_status report(trace_job *j, hd_error *err)
{
    hd_buffer                     out = {0}, page = {0};
    hd_trace_report_options const o = {.ids = j->prompt.asked.ids,
                                       .n = j->prompt.asked.n,
                                       .steps = j->steps,
                                       .is_json = j->is_json,
                                       .html = j->html ? &page : NULL};
    hd_status                     s = hd_trace_report(j->engine, &o, &out, &j->is_bad, err);
    if (s == HD_OK && j->html) s = hd_file_save(j->html, page.data, page.used, err);
    if (s == HD_OK && !hd_stdout_write(out.data, out.used))
        s = hd_error_set(err, HD_ERR_IO, -1, "standard output");
    hd_buffer_free(&out);
    hd_buffer_free(&page);
    return s;
}

static hd_status trace(trace_job *j, hd_error *err)
{
    HD_TRY(hd_prompt_ids_read(&j->prompt, &j->model, err));
    j->model.context = j->prompt.asked.n;
    j->model.chunk = j->prompt.asked.n;
    j->model.has_mtp = true;
    HD_TRY(hd_model_options_open(&j->model, &j->screen, &j->engine, err));
    return j->dump ? dump(j, err) : report(j, err);
}

int hd_cli_trace(int argc, char **argv)
{
    trace_job j = {0};
    hd_error  err = {0};
    int const usage = read_arguments(&j, argc, argv);
    if (usage >= 0) return usage;
    hd_screen_open(&j.screen, j.model.is_quiet, j.model.is_verbose);
    hd_status const s = trace(&j, &err);
    hd_prompt_ids_free(&j.prompt);
    hd_engine_close(j.engine);
    if (s != HD_OK) return hd_cli_fail(&err);
    return j.is_bad ? HD_EXIT_FAILED : HD_EXIT_OK;
}
