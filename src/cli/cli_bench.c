#include <string.h>

#include "base/file.h"
#include "bench/bench.h"
#include "cli/cli.h"
#include "cli/model_options.h"

const char hd_help_bench[] =
    "usage: hadal bench kernels|layer|contexts|roofline [options]\n"
    "       hadal bench engine MODEL [options]\n"
    "\n"
    "Measures what this machine makes of Hadal, as shares of what it could at most: bytes against\n"
    "its read bandwidth, seen right behind each run, operations against multiply-adds in\n"
    "registers.  Times are medians of seven runs.\n"
    "\n"
    "  kernels           each kernel at the shapes of DeepSeek-V4-Flash\n"
    "  layer             a whole layer with synthetic weights, step by step: each kind of\n"
    "                    compression, each family of weights\n"
    "  contexts          layers as wholes, at contexts of 1024, 4096 .. up to --context\n"
    "  engine MODEL      reading a prompt and drawing tokens, at contexts up to --context\n"
    "  roofline          the machine's limits, and products from 1 to 64 tokens below them\n"
    "\n"
    "  --op A,B          only these ops (kernels)\n"
    "  --tokens T        tokens of a pass (kernels, layer, contexts); default 1\n"
    "  --context N       tokens that are there already; default 32768, of an engine 1024\n"
    "  --shape NAME      flash (the default) or pro (layer, contexts)\n"
    "  --family A,B      nvfp4, official, bf16; default: all (layer, contexts)\n"
    "  --bf16            activations were rounded to bf16, which some kernels use (kernels)\n"
    "  --json, --csv     instead of the table\n"
    "  --svg FILE        also draws a picture\n"
    "\n" HD_HELP_MODEL_OPTIONS;

/* In the order of bench_kind. */
static const char *const kinds[] = {"kernels", "layer", "contexts", "engine", "roofline", NULL};
typedef enum bench_kind { KERNELS, LAYER, CONTEXTS, ENGINE, ROOFLINE } bench_kind;

static const char *const shapes[] = {"flash", "pro", NULL};

typedef struct bench_job {
    const char      *what; /* one of kinds */
    const char      *svg;
    bench_kind       kind;
    int              shape;
    bool             is_json, is_csv;
    hd_bench_options o;
    hd_model_options model;
    hd_screen        screen;
    hd_engine       *engine; /* owned */
    hd_bench_report  report; /* owned */
    hd_buffer        out;    /* owned */
    hd_file_writer   picture;
} bench_job;

static int check_words(bench_job *j)
{
    int kind = 0;
    while (kinds[kind] && strcmp(kinds[kind], j->what) != 0) kind++;
    if (!kinds[kind])
        return hd_cli_misuse("bench", "'%s': wanted kernels, layer, contexts, engine or roofline",
                             j->what);
    j->kind = (bench_kind)kind;
    if ((j->kind == ENGINE) != (j->model.model != NULL))
        return hd_cli_misuse("bench", j->kind == ENGINE ? "engine wants a MODEL"
                                                        : "only engine takes a MODEL");
    if (j->is_json && j->is_csv)
        return hd_cli_misuse("bench", "--json and --csv exclude each other");
    return -1;
}

static int read_arguments(bench_job *j, int argc, char **argv)
{
    hd_option       model[HD_N_MODEL_OPTIONS];
    hd_option const own[] = {
        {.name = "--op", .text = &j->o.ops},
        {.name = "--tokens", .number = &j->o.tokens, .least = 1, .most = 65536},
        {.name = "--context", .number = &j->model.context, .least = 512, .most = 1 << 20},
        {.name = "--shape", .choice = &j->shape, .choices = shapes},
        {.name = "--family", .text = &j->o.families},
        {.name = "--bf16", .flag = &j->o.has_bf16_x},
        {.name = "--json", .flag = &j->is_json},
        {.name = "--csv", .flag = &j->is_csv},
        {.name = "--svg", .text = &j->svg},
        {.name = NULL}};
    hd_model_options_list(&j->model, model);
    hd_command const c = {.verb = "bench",
                          .options = {own, model},
                          .operand = &j->what,
                          .operand_name = "what to measure",
                          .second = &j->model.model};
    int const        usage = hd_options_read(&c, argc, argv);
    return usage >= 0 ? usage : check_words(j);
}

static hd_status measure_engine(bench_job *j, const hd_log *log, hd_error *err)
{
    if (!j->model.context) j->model.context = 1024;
    HD_TRY(hd_model_options_open(&j->model, &j->screen, &j->engine, err));
    return hd_bench_engine(j->engine, &j->report, log, err);
}

static hd_status measure(bench_job *j, hd_error *err)
{
    hd_log const log = {hd_screen_on_log, hd_screen_on_progress, &j->screen};
    j->o.isa = j->model.isa;
    j->o.threads = j->model.threads;
    j->o.is_unpinned = j->model.pin == 1;
    j->o.kv = (hd_kv)j->model.kv;
    j->o.context = j->model.context ? j->model.context : 32768;
    j->o.is_pro = j->shape == 1;
    switch (j->kind) {
    case KERNELS: return hd_bench_kernels(&j->o, &j->report, &log, err);
    case LAYER: return hd_bench_layer(&j->o, &j->report, &log, err);
    case CONTEXTS: return hd_bench_contexts(&j->o, &j->report, &log, err);
    case ROOFLINE: return hd_bench_roofline(&j->o, &j->report, &log, err);
    case ENGINE: break;
    }
    return measure_engine(j, &log, err);
}

static hd_status draw(bench_job *j, hd_error *err)
{
    hd_buffer svg = {0};
    hd_bench_print_svg(&j->report, &svg);
    hd_status s = HD_ERR_MEMORY;
    if (svg.failed)
        hd_error_set(err, s, -1, "no room for the picture");
    else
        s = hd_file_put(&j->picture, svg.data, svg.used, err);
    hd_buffer_free(&svg);
    return s == HD_OK ? hd_file_commit(&j->picture, err) : s;
}

static hd_status print(bench_job *j, hd_error *err)
{
    if (j->is_json)
        hd_bench_print_json(&j->report, &j->out);
    else if (j->is_csv)
        hd_bench_print_csv(&j->report, &j->out);
    else
        hd_bench_print(&j->report, &j->out);
    if (j->out.failed) HD_FAIL(err, HD_ERR_MEMORY, "no room for the table");
    if (!hd_stdout_write(j->out.data, j->out.used)) HD_FAIL(err, HD_ERR_IO, "standard output");
    return HD_OK;
}

/* A picture that cannot be written is known before the measuring, which takes long. */
static hd_status bench(bench_job *j, hd_error *err)
{
    if (j->svg) HD_TRY(hd_file_begin(&j->picture, j->svg, err));
    HD_TRY(measure(j, err));
    HD_TRY(print(j, err));
    return j->svg ? draw(j, err) : HD_OK;
}

int hd_cli_bench(int argc, char **argv)
{
    bench_job j = {.o.tokens = 1, .picture.fd = -1};
    hd_error  err = {0};
    int const usage = read_arguments(&j, argc, argv);
    if (usage >= 0) return usage;
    hd_screen_open(&j.screen, j.model.is_quiet, j.model.is_verbose);
    hd_status const s = bench(&j, &err);
    hd_engine_close(j.engine);
    hd_bench_report_free(&j.report);
    hd_buffer_free(&j.out);
    hd_file_abort(&j.picture);
    return s == HD_OK ? HD_EXIT_OK : hd_cli_fail(&err);
}
