#include <string.h>

#include "base/file.h"
#include "cli/calibration_text.h"
#include "cli/cli.h"
#include "cli/model_options.h"
#include "doctor/quantize.h"

const char hd_help_quantize[] =
    "usage: hadal quantize SRC DST --to nvfp4|nvfp4-experts [options]\n"
    "\n"
    "Makes DST, a new model folder in NVFP4, of SRC: BF16 and F32 weights, or DeepSeek's FP8 and\n"
    "MXFP4.  MXFP4 weights keep their values where E4M3 can hold their scales.  DST appears when\n"
    "all of it is written and was audited; until then it grows in DST.part, and the same command\n"
    "goes on where a run was stopped.  Exit status 1 when something is wrong with the result.\n"
    "\n"
    "  --to nvfp4          all linear matrices, MTP block included; Hugging Face names\n"
    "  --to nvfp4-experts  the routed experts of the main layers, all else as it is; official\n"
    "                      names\n"
    "  --scales RULE       of a block of 16: max (default), its largest weight over 6, or mse, "
    "the\n"
    "                      one near it that leaves the least square error\n"
    "  --calibrate FILE    the model reads these texts, and the largest input of each matrix\n"
    "                      becomes its input_scale.  One JSON object a line: {\"messages\": "
    "[...]},\n"
    "                      a chat request, or {\"text\": \"...\"}.  Without it there are no input\n"
    "                      scales, and the result is for activations that are not four-bit\n"
    "  --window N          most tokens of a text that are read at once, 2 .. 65536; default 512\n"
    "  --keep GLOB         matrices that stay as they are, by official name: 'mtp.*',\n"
    "                      '*.weights_proj'; may be given several times\n"
    "  --json              one JSON object instead of the report\n"
    "  --html FILE         also writes a page with pictures, which needs no network\n"
    "  --threads N         1 .. 16; default: one a core\n"
    "  --quiet             nothing on standard error but errors\n"
    "  --verbose           also what calibration loaded, on standard error\n";

typedef struct quantize_job {
    hd_quantize_options options;
    hd_model_options    model; /* that calibration runs */
    hd_text_list        keep;
    const char         *calibrate;
    int32_t             window;
    int                 to, scales;
    bool                is_json, is_quiet, is_verbose;
    hd_screen           screen;
    hd_calibration_rows rows;   /* owned */
    hd_engine          *engine; /* owned */
    hd_quantize        *result; /* owned */
    const char         *html;
    hd_buffer           out, page; /* owned */
} quantize_job;

static const char *const to_words[] = {
    [HD_TO_NVFP4] = "nvfp4", [HD_TO_NVFP4_EXPERTS] = "nvfp4-experts", NULL};
static const char *const scale_words[] = {[HD_SCALES_MAX] = "max", [HD_SCALES_MSE] = "mse", NULL};

static int read_arguments(quantize_job *j, int argc, char **argv)
{
    hd_option const own[] = {
        {.name = "--to", .choice = &j->to, .choices = to_words},
        {.name = "--scales", .choice = &j->scales, .choices = scale_words},
        {.name = "--calibrate", .text = &j->calibrate},
        {.name = "--window", .number = &j->window, .least = 2, .most = 65536},
        {.name = "--keep", .list = &j->keep},
        {.name = "--json", .flag = &j->is_json},
        {.name = "--html", .text = &j->html},
        {.name = "--threads", .number = &j->options.n_threads, .least = 1, .most = 16},
        {.name = "--quiet", .flag = &j->is_quiet},
        {.name = "--verbose", .flag = &j->is_verbose},
        {.name = NULL}};
    hd_command const c = {.verb = "quantize",
                          .options = {own},
                          .operand = &j->options.source,
                          .operand_name = "SRC",
                          .second = &j->options.target};
    int const        status = hd_options_read(&c, argc, argv);
    if (status >= 0) return status;
    if (!j->options.target) return hd_cli_misuse("quantize", "no DST given");
    if (j->to < 0) return hd_cli_misuse("quantize", "no --to given: nvfp4 or nvfp4-experts");
    if (j->window && !j->calibrate)
        return hd_cli_misuse("quantize", "--window is of the texts of --calibrate");
    return -1;
}

static hd_status open_model(quantize_job *j, hd_error *err)
{
    if (!j->window) j->window = 512;
    j->model = (hd_model_options){.model = j->options.source,
                                  .act = HD_ACT_EXACT,
                                  .context = j->window,
                                  .chunk = j->window,
                                  .threads = j->options.n_threads,
                                  .has_mtp = true,
                                  .is_verbose = j->is_verbose,
                                  .is_quiet = j->is_quiet};
    HD_TRY(hd_model_options_open(&j->model, &j->screen, &j->engine, err));
    HD_TRY(hd_calibration_rows_read(&j->rows, j->calibrate, j->engine, j->window, &j->screen, err));
    j->options.engine = j->engine;
    j->options.text = &j->rows.text;
    return HD_OK;
}

static hd_status quantize(quantize_job *j, hd_error *err)
{
    hd_log const log = {hd_screen_on_log, hd_screen_on_progress, &j->screen};
    if (j->calibrate) HD_TRY(open_model(j, err));
    j->options.to = (hd_quantize_to)j->to;
    j->options.scales = (hd_block_scales)j->scales;
    j->options.keep = j->keep.texts;
    j->options.n_keep = j->keep.n;
    j->options.version = HD_VERSION;
    j->options.log = &log;
    hd_status const s = hd_quantize_run(&j->result, &j->options, err);
    hd_screen_progress(&j->screen, "", 1, 1);
    HD_TRY(s);
    if (j->is_json)
        hd_quantize_print_json(j->result, &j->out);
    else
        hd_quantize_print(j->result, &j->out);
    if (j->html) hd_quantize_print_html(j->result, &j->page);
    if (j->out.failed || j->page.failed) HD_FAIL(err, HD_ERR_MEMORY, "no memory for the report");
    if (j->html) HD_TRY(hd_file_save(j->html, j->page.data, j->page.used, err));
    if (!hd_stdout_write(j->out.data, j->out.used)) HD_FAIL(err, HD_ERR_IO, "standard output");
    if (!hd_quantize_is_done(j->result))
        HD_FAIL(err, HD_ERR_FORMAT, "the audit found errors: %s stays in %s.part",
                j->options.target, j->options.target);
    return HD_OK;
}

int hd_cli_quantize(int argc, char **argv)
{
    quantize_job j = {.to = -1};
    hd_error     err = {0};
    int const    usage = read_arguments(&j, argc, argv);
    if (usage >= 0) return usage;
    hd_screen_open(&j.screen, j.is_quiet, j.is_verbose);
    hd_status const s = quantize(&j, &err);
    hd_quantize_close(j.result);
    hd_calibration_rows_free(&j.rows);
    hd_engine_close(j.engine);
    hd_buffer_free(&j.out);
    hd_buffer_free(&j.page);
    return s == HD_OK ? HD_EXIT_OK : hd_cli_fail(&err);
}
