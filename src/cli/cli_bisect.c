#include "cli/cli.h"
#include "cli/prompt_ids.h"
#include "doctor/bisect.h"

const char hd_help_bisect[] =
    "usage: hadal bisect MODEL --good SETTING --bad SETTING\n"
    "                    (--ids LIST | -p TEXT | --messages FILE) [options]\n"
    "\n"
    "Runs a model with two settings and tells which of their differences make the logits differ:\n"
    "the kernels of single ops, the roundings of activations, the format of cache rows.  Halves\n"
    "the differences until none can be left out; when some matter only together it names those.\n"
    "Goes on until the rest makes no difference.  Exit status 1 when there is one.\n"
    "\n"
    "  --good SETTING, --bad SETTING\n"
    "                    act=MODE, kv=FORMAT and isa=FAMILIES, with commas between them, such as\n"
    "                    isa=ref or act=nvfp4,kv=fp8,isa=ref+avx2; what a setting does not say is\n"
    "                    as --act, --kv and --isa say\n"
    "  --tolerance X     relative error of a row of logits that counts as none, 0 .. 1;\n"
    "                    default 0.01\n"
    "  --json            one JSON object instead\n" HD_HELP_PROMPT_IDS "\n" HD_HELP_MODEL_OPTIONS;

typedef struct bisect_job {
    hd_model_options model, good, bad;
    hd_prompt_ids    prompt; /* owned */
    float            tolerance;
    bool             is_json;
    hd_screen        screen;
    hd_bisect       *bisect; /* owned */
    hd_buffer        out;    /* owned */
} bisect_job;

static int check_settings(bisect_job *j)
{
    const hd_model_options *const g = &j->good, *const b = &j->bad;
    if (g->act == b->act && g->kv == b->kv && g->isa == b->isa)
        return hd_cli_misuse("bisect", "--good and --bad are the same setting");
    return hd_prompt_ids_check(&j->prompt, "bisect");
}

static int read_arguments(bisect_job *j, int argc, char **argv)
{
    hd_option model[HD_N_MODEL_OPTIONS], question[HD_N_QUESTION_OPTIONS];
    hd_option template[HD_N_TEMPLATE_OPTIONS];
    hd_option       good[HD_N_SECOND_OPTIONS], bad[HD_N_SECOND_OPTIONS];
    hd_option const own[] = {{.name = "--ids", .text = &j->prompt.text},
                             {.name = "--good", .settings = good},
                             {.name = "--bad", .settings = bad},
                             {.name = "--tolerance", .real = &j->tolerance, .least = 0, .most = 1},
                             {.name = "--json", .flag = &j->is_json},
                             {.name = NULL}};
    hd_model_options_clear_second(&j->good);
    hd_model_options_clear_second(&j->bad);
    hd_model_options_list_setting(&j->good, good);
    hd_model_options_list_setting(&j->bad, bad);
    hd_model_options_list(&j->model, model);
    hd_prompt_ids_list(&j->prompt, question, template);
    hd_command const c = {.verb = "bisect",
                          .options = {own, question, template, model},
                          .operand = &j->model.model,
                          .operand_name = "MODEL"};
    int const        status = hd_options_read(&c, argc, argv);
    if (status >= 0) return status;
    hd_model_options_complete(&j->good, &j->model);
    hd_model_options_complete(&j->bad, &j->model);
    return check_settings(j);
}

static hd_options make_options(hd_model_options *m, bisect_job *j)
{
    m->context = m->chunk = j->prompt.asked.n;
    m->has_mtp = true;
    return hd_model_options_engine(m, &j->screen);
}

static hd_status bisect(bisect_job *j, hd_error *err)
{
    HD_TRY(hd_prompt_ids_read(&j->prompt, &j->good, err));
    hd_bisect_options const o = {.good = make_options(&j->good, j),
                                 .bad = make_options(&j->bad, j),
                                 .ids = j->prompt.asked.ids,
                                 .n = j->prompt.asked.n,
                                 .tolerance = (double)j->tolerance};
    HD_TRY(hd_bisect_run(&j->bisect, &o, err));
    hd_screen_progress(&j->screen, "", 1, 1);
    if (j->is_json)
        hd_bisect_print_json(j->bisect, &j->out);
    else
        hd_bisect_print(j->bisect, &j->out);
    if (j->out.failed) HD_FAIL(err, HD_ERR_MEMORY, "no memory for the report");
    if (!hd_stdout_write(j->out.data, j->out.used)) HD_FAIL(err, HD_ERR_IO, "standard output");
    return HD_OK;
}

int hd_cli_bisect(int argc, char **argv)
{
    bisect_job j = {.tolerance = 0.01f};
    hd_error   err = {0};
    int const  usage = read_arguments(&j, argc, argv);
    if (usage >= 0) return usage;
    hd_screen_open(&j.screen, j.model.is_quiet, j.model.is_verbose);
    hd_status const s = bisect(&j, &err);
    int const       status = s != HD_OK                    ? hd_cli_fail(&err)
                             : hd_bisect_differs(j.bisect) ? HD_EXIT_FAILED
                                                           : HD_EXIT_OK;
    hd_bisect_close(j.bisect);
    hd_prompt_ids_free(&j.prompt);
    hd_buffer_free(&j.out);
    return status;
}
