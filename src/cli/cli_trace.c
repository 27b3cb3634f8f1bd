#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/model_options.h"
#include "cli/question.h"
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
    "  --ids LIST        token ids with commas between them, such as 0,671,6102\n"
    "\n" HD_HELP_QUESTION_OPTIONS HD_HELP_TEMPLATE_OPTIONS "\n" HD_HELP_MODEL_OPTIONS;

typedef struct trace_job {
    hd_model_options model;
    hd_question      question;
    const char      *ids_text, *dump, *steps;
    bool             is_json, is_bad;

    hd_screen  screen;
    hd_engine *engine; /* owned */
    hd_buffer  source; /* owned */
    hd_asked   asked;  /* owned */
} trace_job;

static int read_arguments(trace_job *j, int argc, char **argv)
{
    hd_option model[HD_N_MODEL_OPTIONS], question[HD_N_QUESTION_OPTIONS];
    hd_option template[HD_N_TEMPLATE_OPTIONS];
    hd_option const own[] = {{.name = "--ids", .text = &j->ids_text},
                             {.name = "--dump", .text = &j->dump},
                             {.name = "--steps", .text = &j->steps},
                             {.name = "--json", .flag = &j->is_json},
                             {.name = NULL}};
    hd_model_options_list(&j->model, model);
    hd_question_list(&j->question, question);
    hd_question_list_template(&j->question, template);
    hd_command const c = {.verb = "trace",
                          .options = {own, question, template, model},
                          .operand = &j->model.model,
                          .operand_name = "MODEL"};
    int const        status = hd_options_read(&c, argc, argv);
    if (status >= 0) return status;
    if (j->dump && j->is_json) return hd_cli_misuse("trace", "--dump writes a file, not --json");
    const hd_question *const q = &j->question;
    if (!j->ids_text) return hd_question_check(q, "trace");
    if (q->text || q->messages || q->system || q->is_raw || q->think >= 0 || q->dialect >= 0)
        return hd_cli_misuse("trace", "--ids is the whole prompt: no other option makes one");
    return -1;
}

/* The range of ids is the model's and is checked there. */
static hd_status read_ids(const char *text, hd_asked *out, hd_error *err)
{
    size_t n = 1;
    for (const char *p = text; *p; p++) n += *p == ',';
    out->ids = hd_memory_alloc(n * sizeof *out->ids);
    if (!out->ids) HD_FAIL(err, HD_ERR_MEMORY, "no memory for %zu ids", n);
    for (const char *p = text; (size_t)out->n < n; p++) {
        char        *end = NULL;
        size_t const bytes = strcspn(p, ",");
        errno = 0;
        long const id = strtol(p, &end, 10);
        if (bytes == 0 || *p < '0' || *p > '9' || end != p + bytes || errno || id > INT32_MAX)
            HD_FAIL(err, HD_ERR_INVALID, "--ids: '%.*s' is no token id", (int)bytes, p);
        out->ids[out->n++] = (int32_t)id;
        p = end;
    }
    return HD_OK;
}

/* The template's dialect and the tokenizer are the engine's, but how long its only pass will be
 * is known after the prompt: a first engine of the smallest size encodes it. */
static hd_status encode_question(trace_job *j, hd_error *err)
{
    hd_model_options small = j->model;
    hd_screen        silent = {.is_quiet = true, .percent = -1};
    small.context = 1;
    small.chunk = 1;
    HD_TRY(hd_question_read(&j->question, &j->source, err));
    HD_TRY(hd_model_options_open(&small, &silent, &j->engine, err));
    hd_status const s = hd_question_encode(&j->question, &j->source, j->engine, &j->asked, err);
    hd_engine_close(j->engine);
    j->engine = NULL;
    if (s == HD_OK && j->asked.n == 0) HD_FAIL(err, HD_ERR_INVALID, "an empty prompt");
    return s;
}

static hd_status dump(trace_job *j, hd_error *err)
{
    hd_trace_result        result = {0};
    hd_trace_options const o = {j->dump, j->steps};
    HD_TRY(hd_trace(j->engine, j->asked.ids, j->asked.n, &o, &result, err));
    printf("%s: %d tokens, %d steps, %d tensors, %" PRId64 " bytes; greedy next token %d\n",
           j->dump, j->asked.n, result.n_steps, result.n_tensors, result.bytes, result.greedy);
    return HD_OK;
}

static hd_status report(trace_job *j, hd_error *err)
{
    hd_buffer                     out = {0};
    hd_trace_report_options const o = {j->asked.ids, j->asked.n, j->steps, j->is_json};
    hd_status                     s = hd_trace_report(j->engine, &o, &out, &j->is_bad, err);
    if (s == HD_OK && !hd_stdout_write(out.data, out.used))
        s = hd_error_set(err, HD_ERR_IO, -1, "standard output");
    hd_buffer_free(&out);
    return s;
}

static hd_status trace(trace_job *j, hd_error *err)
{
    if (j->ids_text)
        HD_TRY(read_ids(j->ids_text, &j->asked, err));
    else
        HD_TRY(encode_question(j, err));
    j->model.context = j->asked.n;
    j->model.chunk = j->asked.n;
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
    hd_asked_free(&j.asked);
    hd_buffer_free(&j.source);
    hd_engine_close(j.engine);
    if (s != HD_OK) return hd_cli_fail(&err);
    return j.is_bad ? HD_EXIT_FAILED : HD_EXIT_OK;
}
