#include <inttypes.h>

#include "base/file.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/screen.h"
#include "doctor/audit.h"

const char hd_help_audit[] =
    "usage: hadal audit MODEL [options]\n"
    "\n"
    "Reads every tensor of a checkpoint once, loads nothing, and prints what is there and what is\n"
    "wrong with it, also where no engine would open the folder.  Findings are errors (it cannot\n"
    "run, or not right), warnings (probably not what its maker wanted) and notes.  Exit status 1\n"
    "when there is an error.\n"
    "\n"
    "  --against OTHER   also compares all decoded weights with those of another folder: relative\n"
    "                    error, cosine and ratio of norms of each tensor, worst first\n"
    "  --all             every finding and, with --json, every tensor; else ten of a kind\n"
    "  --json            one JSON object instead: summary, findings, groups of tensors\n"
    "  --html FILE       also writes a page with pictures, which needs no network\n"
    "  --threads N       threads that read, 1 .. 16; default: one a core\n"
    "  --quiet           nothing on standard error but errors\n"
    "  --verbose         also speed, on standard error\n";

typedef struct audit_job {
    hd_audit_options options;
    bool             is_json, is_whole, is_quiet, is_verbose;
    hd_screen        screen;
    hd_audit        *audit; /* owned */
    const char      *html;
    hd_buffer        out, page; /* owned */
} audit_job;

static int read_arguments(audit_job *j, int argc, char **argv)
{
    hd_option const own[] = {
        {.name = "--against", .text = &j->options.against},
        {.name = "--all", .flag = &j->is_whole},
        {.name = "--json", .flag = &j->is_json},
        {.name = "--html", .text = &j->html},
        {.name = "--threads", .number = &j->options.n_threads, .least = 1, .most = 16},
        {.name = "--quiet", .flag = &j->is_quiet},
        {.name = "--verbose", .flag = &j->is_verbose},
        {.name = NULL}};
    hd_command const c = {
        .verb = "audit", .options = {own}, .operand = &j->options.model, .operand_name = "MODEL"};
    return hd_options_read(&c, argc, argv);
}

static hd_status audit(audit_job *j, hd_error *err)
{
    hd_log const log = {hd_screen_on_log, hd_screen_on_progress, &j->screen};
    double const start = hd_screen_now();
    j->options.log = &log;
    HD_TRY(hd_audit_run(&j->audit, &j->options, err));
    double const seconds = hd_screen_now() - start;
    hd_screen_progress(&j->screen, "", 1, 1);
    if (j->is_verbose)
        hd_screen_note(&j->screen, "%" PRId64 " bytes in %.2f s, %.0f MB/s",
                       hd_audit_bytes(j->audit), seconds,
                       (double)hd_audit_bytes(j->audit) / 1e6 / seconds);
    if (j->is_json)
        hd_audit_print_json(j->audit, j->is_whole, &j->out);
    else
        hd_audit_print(j->audit, j->is_whole, &j->out);
    if (j->html) hd_audit_print_html(j->audit, j->is_whole, &j->page);
    if (j->out.failed || j->page.failed) HD_FAIL(err, HD_ERR_MEMORY, "no memory for the report");
    if (j->html) HD_TRY(hd_file_save(j->html, j->page.data, j->page.used, err));
    if (!hd_stdout_write(j->out.data, j->out.used)) HD_FAIL(err, HD_ERR_IO, "standard output");
    return HD_OK;
}

int hd_cli_audit(int argc, char **argv)
{
    audit_job j = {0};
    hd_error  err = {0};
    int const usage = read_arguments(&j, argc, argv);
    if (usage >= 0) return usage;
    hd_screen_open(&j.screen, j.is_quiet, j.is_verbose);
    hd_status const s = audit(&j, &err);
    int const       status = s != HD_OK                              ? hd_cli_fail(&err)
                             : hd_audit_count(j.audit, HD_ERROR) > 0 ? HD_EXIT_FAILED
                                                                     : HD_EXIT_OK;
    hd_audit_close(j.audit);
    hd_buffer_free(&j.out);
    hd_buffer_free(&j.page);
    return status;
}
