#include <stdio.h>

#include "cli/cli.h"
#include "cli/eval_job.h"
#include "cli/question.h"

const char hd_help_eval[] =
    "usage: hadal eval MODEL --tasks FILE [options]\n"
    "       hadal eval MODEL --text FILE [options]\n"
    "\n"
    "Measures a model.\n"
    "\n"
    "  --tasks FILE      each line is an object with id, kind, messages, optionally tools and\n"
    "                    think (off, low, high, max), and expected.  Answers each greedily and\n"
    "                    prints the share of right answers by kind.  An answer is right when\n"
    "                    its text is expected, every byte, it calls no tool, and the model\n"
    "                    ended it by itself\n"
    "  --limit N         only the first N rows of each kind\n"
    "  -n N              most new tokens of one answer; default 256\n"
    "  --failures        also lists the rows with wrong answers: expected and got\n"
    "  --text FILE       prints how well the model predicts a text: tokens, mean negative\n"
    "                    logarithm of their probability, perplexity.  The text is read in\n"
    "                    windows of the context, each after a begin-of-sentence token\n"
    "  --json            one JSON object instead of a table\n"
    "\n" HD_HELP_SIZE_OPTIONS HD_HELP_MODEL_OPTIONS;

static int read_arguments(hd_eval_job *j, int argc, char **argv)
{
    hd_option       model[HD_N_MODEL_OPTIONS], sizes[HD_N_SIZE_OPTIONS];
    hd_option const own[] = {
        {.name = "--tasks", .text = &j->tasks},
        {.name = "--text", .text = &j->text},
        {.name = "--limit", .number = &j->limit, .least = 1, .most = INT32_MAX},
        {.name = "-n", .number = &j->max_new, .least = 1, .most = INT32_MAX},
        {.name = "--failures", .flag = &j->lists_failures},
        {.name = "--json", .flag = &j->is_json},
        {.name = NULL}};
    hd_model_options_list(&j->model, model);
    hd_model_options_list_sizes(&j->model, sizes);
    hd_command const c = {.verb = "eval",
                          .options = {own, sizes, model},
                          .operand = &j->model.model,
                          .operand_name = "MODEL"};
    int const        status = hd_options_read(&c, argc, argv);
    if (status >= 0) return status;
    if (!j->tasks == !j->text) return hd_cli_misuse("eval", "give either --tasks or --text");
    if (j->text && (j->limit || j->max_new || j->lists_failures))
        return hd_cli_misuse("eval", "--limit, -n and --failures go with --tasks");
    if (!j->max_new) j->max_new = 256;
    return -1;
}

static hd_status evaluate(hd_eval_job *j, hd_error *err)
{
    HD_TRY(hd_question_read_file(j->tasks ? j->tasks : j->text, &j->source, err));
    HD_TRY(hd_model_options_open(&j->model, &j->screen, &j->engine, err));
    HD_TRY(hd_session_open(&j->session, j->engine, err));
    j->screen.is_muted = true;
    hd_status const s = j->tasks ? hd_eval_tasks(j, err) : hd_eval_text(j, err);
    hd_screen_progress(&j->screen, "", 1, 1);
    HD_TRY(s);
    if (j->out.failed) HD_FAIL(err, HD_ERR_MEMORY, "no memory for the results");
    hd_stdout_write(j->out.data, j->out.used);
    return HD_OK;
}

int hd_cli_eval(int argc, char **argv)
{
    hd_eval_job j = {0};
    hd_error    err = {0};
    int const   usage = read_arguments(&j, argc, argv);
    if (usage >= 0) return usage;
    hd_screen_open(&j.screen, j.model.is_quiet, j.model.is_verbose);
    hd_status const s = evaluate(&j, &err);
    hd_session_close(j.session);
    hd_engine_close(j.engine);
    hd_buffer_free(&j.source);
    hd_buffer_free(&j.out);
    return s == HD_OK ? HD_EXIT_OK : hd_cli_fail(&err);
}
