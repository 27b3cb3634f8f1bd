#include <string.h>

#include "base/file.h"
#include "cli/cli.h"
#include "cli/prompt_ids.h"
#include "doctor/compare.h"

const char hd_help_compare[] =
    "usage: hadal compare A [B] [--ids LIST | -p TEXT | --messages FILE] [options]\n"
    "\n"
    "Holds two forward passes against each other, step by step.  A and B are models, which run, "
    "or\n"
    "files of hadal trace --dump; B, when left out, is A with other options.  Prints, with B as\n"
    "the reference, relative error, cosine and ratio of norms of what each step leaves, the worst\n"
    "row and element, the first step that differs and its kernels, and how far the logits are\n"
    "apart.  Exit status 1 when a relative error is above the tolerance.\n"
    "\n"
    "  --act-b MODE, --kv-b FORMAT, --isa-b LIST\n"
    "                    what B runs with; default: what A does\n"
    "  --steps GLOB      only steps of such names: 'L0[0-3].*', '*.w2', logits\n"
    "  --tolerance X     relative error that counts as none, 0 .. 1; default 0.01\n"
    "  --all             every step, in the order of the plan\n"
    "  --json            one JSON object instead, with every step\n"
    "  --html FILE       also writes a page with pictures, which needs no "
    "network\n" HD_HELP_PROMPT_IDS
    "                    Against a file the default is the tokens that it was made of.\n"
    "\n" HD_HELP_MODEL_OPTIONS;

typedef struct compare_job {
    hd_model_options a, b;
    hd_prompt_ids    prompt; /* owned */
    const char      *steps;
    float            tolerance;
    bool             is_whole, is_json;
    hd_screen        screen;
    hd_engine       *engines[2]; /* owned; NULL: of a dump */
    hd_compare      *compare;    /* owned */
    const char      *html;
    hd_buffer        out, page; /* owned */
    hd_pool          pool;
} compare_job;

static bool is_dump(const char *path)
{
    size_t const n = strlen(path), m = strlen(".safetensors");
    return n > m && strcmp(path + n - m, ".safetensors") == 0;
}

static int check_sides(const compare_job *j)
{
    bool const is_a = is_dump(j->a.model), is_b = is_dump(j->b.model);
    if (is_a && j->b.model == j->a.model)
        return hd_cli_misuse("compare", "one file only: no B given");
    if (is_a && is_b && hd_prompt_ids_is_given(&j->prompt))
        return hd_cli_misuse("compare", "two files: nothing runs, so no prompt is wanted");
    if (is_a || is_b)
        return j->prompt.text || hd_prompt_ids_is_given(&j->prompt)
                   ? hd_prompt_ids_check(&j->prompt, "compare")
                   : -1;
    return hd_prompt_ids_check(&j->prompt, "compare");
}

static int read_arguments(compare_job *j, int argc, char **argv)
{
    hd_option       model[HD_N_MODEL_OPTIONS], second[HD_N_SECOND_OPTIONS];
    hd_option       question[HD_N_QUESTION_OPTIONS], template[HD_N_TEMPLATE_OPTIONS];
    hd_option const own[] = {{.name = "--ids", .text = &j->prompt.text},
                             {.name = "--steps", .text = &j->steps},
                             {.name = "--tolerance", .real = &j->tolerance, .least = 0, .most = 1},
                             {.name = "--all", .flag = &j->is_whole},
                             {.name = "--json", .flag = &j->is_json},
                             {.name = "--html", .text = &j->html},
                             {.name = NULL}};
    hd_model_options_clear_second(&j->b);
    hd_model_options_list(&j->a, model);
    hd_model_options_list_second(&j->b, second);
    hd_prompt_ids_list(&j->prompt, question, template);
    hd_command const c = {.verb = "compare",
                          .options = {own, question, template, model, second},
                          .operand = &j->a.model,
                          .operand_name = "A",
                          .second = &j->b.model};
    int const        status = hd_options_read(&c, argc, argv);
    if (status >= 0) return status;
    hd_model_options_complete(&j->b, &j->a); /* B runs as A does where it is not told otherwise */
    return check_sides(j);
}

/* From the prompt, or from the dump that the other side is. */
static hd_status read_ids(compare_job *j, hd_error *err)
{
    bool const is_a = is_dump(j->a.model), is_b = is_dump(j->b.model);
    if (is_a && is_b) return HD_OK;
    if ((!is_a && !is_b) || hd_prompt_ids_is_given(&j->prompt))
        return hd_prompt_ids_read(&j->prompt, is_a ? &j->b : &j->a, err);
    int32_t *ids = NULL;
    HD_TRY(hd_compare_dump_ids(is_a ? j->a.model : j->b.model, &j->pool, &ids, &j->prompt.asked.n,
                               err));
    j->prompt.asked.ids = hd_memory_alloc((size_t)j->prompt.asked.n * sizeof *ids);
    if (!j->prompt.asked.ids)
        HD_FAIL(err, HD_ERR_MEMORY, "no memory for %d ids", j->prompt.asked.n);
    memcpy(j->prompt.asked.ids, ids, (size_t)j->prompt.asked.n * sizeof *ids);
    return HD_OK;
}

static hd_status open_side(compare_job *j, int side, hd_error *err)
{
    hd_model_options *const m = side ? &j->b : &j->a;
    if (is_dump(m->model)) return HD_OK;
    m->context = m->chunk = j->prompt.asked.n;
    m->has_mtp = true;
    return hd_model_options_open(m, &j->screen, &j->engines[side], err);
}

static hd_status compare(compare_job *j, hd_error *err)
{
    HD_TRY(read_ids(j, err));
    for (int side = 0; side < 2; side++) HD_TRY(open_side(j, side, err));
    hd_compare_options const o = {.a = {j->a.model, j->engines[0]},
                                  .b = {j->b.model, j->engines[1]},
                                  .ids = j->prompt.asked.ids,
                                  .n = j->prompt.asked.n,
                                  .steps = j->steps,
                                  .tolerance = (double)j->tolerance};
    HD_TRY(hd_compare_run(&j->compare, &o, err));
    if (j->is_json)
        hd_compare_print_json(j->compare, &j->out);
    else
        hd_compare_print(j->compare, j->is_whole, &j->out);
    if (j->html) hd_compare_print_html(j->compare, &j->page);
    if (j->out.failed || j->page.failed) HD_FAIL(err, HD_ERR_MEMORY, "no memory for the report");
    if (j->html) HD_TRY(hd_file_save(j->html, j->page.data, j->page.used, err));
    if (!hd_stdout_write(j->out.data, j->out.used)) HD_FAIL(err, HD_ERR_IO, "standard output");
    return HD_OK;
}

int hd_cli_compare(int argc, char **argv)
{
    compare_job j = {.tolerance = 0.01f};
    hd_error    err = {0};
    int const   usage = read_arguments(&j, argc, argv);
    if (usage >= 0) return usage;
    hd_screen_open(&j.screen, j.a.is_quiet, j.a.is_verbose);
    hd_status const s = compare(&j, &err);
    int const       status = s != HD_OK                      ? hd_cli_fail(&err)
                             : hd_compare_differs(j.compare) ? HD_EXIT_FAILED
                                                             : HD_EXIT_OK;
    hd_compare_close(j.compare);
    for (int side = 0; side < 2; side++) hd_engine_close(j.engines[side]);
    hd_prompt_ids_free(&j.prompt);
    hd_buffer_free(&j.out);
    hd_buffer_free(&j.page);
    hd_pool_free(&j.pool);
    return status;
}
