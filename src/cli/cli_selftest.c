#include "cli/cli.h"
#include "cli/model_options.h"
#include "doctor/selftest.h"

const char hd_help_selftest[] =
    "usage: hadal selftest MODEL [options]\n"
    "\n"
    "Proves on this machine that a model computes what it should, and the same every time: every\n"
    "kernel that could be chosen against its reference, on this model's shapes and values; the\n"
    "same bits when tokens are read twice, at once, one by one, in pieces, beside another\n"
    "sequence, at each edge of windows, groups and pages.  Prints a table; exit status 1 when a\n"
    "check failed.\n"
    "\n"
    "  --tokens N        tokens to read, 4 .. 100000; default: enough to cross a page and, within\n"
    "                    600, the indexer's choice\n"
    "  --json            one JSON object instead of the table\n"
    "\n" HD_HELP_MODEL_OPTIONS;

typedef struct selftest_job {
    hd_model_options model;
    bool             is_json;
    int32_t          n_failed;
    hd_screen        screen;
    hd_engine       *engine; /* owned */
    hd_buffer        out;    /* owned */
} selftest_job;

static int read_arguments(selftest_job *j, int argc, char **argv)
{
    hd_option       model[HD_N_MODEL_OPTIONS];
    hd_option const own[] = {
        {.name = "--json", .flag = &j->is_json},
        {.name = "--tokens", .number = &j->model.context, .least = 4, .most = 100000},
        {.name = NULL}};
    hd_model_options_list(&j->model, model);
    hd_command const c = {.verb = "selftest",
                          .options = {own, model},
                          .operand = &j->model.model,
                          .operand_name = "MODEL"};
    return hd_options_read(&c, argc, argv);
}

/* How long the context must be is the model's to say: a first engine of the smallest size tells. */
static hd_status choose_context(selftest_job *j, hd_error *err)
{
    hd_model_options small = j->model;
    hd_screen        silent = {.is_quiet = true, .percent = -1};
    hd_engine       *e = NULL;
    small.context = small.chunk = 1;
    HD_TRY(hd_model_options_open(&small, &silent, &e, err));
    j->model.context = hd_selftest_tokens(e);
    hd_engine_close(e);
    return HD_OK;
}

static hd_status selftest(selftest_job *j, hd_error *err)
{
    hd_selftest_options const o = {.is_json = j->is_json};
    if (!j->model.context) HD_TRY(choose_context(j, err));
    j->model.n_sessions = 2;
    j->model.has_mtp = true;
    HD_TRY(hd_model_options_open(&j->model, &j->screen, &j->engine, err));
    HD_TRY(hd_selftest(j->engine, &o, &j->out, &j->n_failed, err));
    if (!hd_stdout_write(j->out.data, j->out.used)) HD_FAIL(err, HD_ERR_IO, "standard output");
    return HD_OK;
}

int hd_cli_selftest(int argc, char **argv)
{
    selftest_job j = {0};
    hd_error     err = {0};
    int const    usage = read_arguments(&j, argc, argv);
    if (usage >= 0) return usage;
    hd_screen_open(&j.screen, j.model.is_quiet, j.model.is_verbose);
    hd_status const s = selftest(&j, &err);
    hd_engine_close(j.engine);
    hd_buffer_free(&j.out);
    if (s != HD_OK) return hd_cli_fail(&err);
    return j.n_failed > 0 ? HD_EXIT_FAILED : HD_EXIT_OK;
}
