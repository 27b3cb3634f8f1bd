#include <stdarg.h>
#include <stdio.h>

#include "cli/cli.h"
#include "cli/screen.h"

const char hd_help_help[] = "usage: hadal help [VERB]\n"
                            "\n"
                            "Explains a verb, or lists all of them.\n";

void hd_cli_print_usage(bool is_error)
{
    FILE *const to = is_error ? stderr : stdout;
    fputs("usage: hadal VERB [options]\n\n", to);
    for (int i = 0; i < hd_n_verbs; i++)
        fprintf(to, "  %-10s%s\n", hd_verbs[i].name, hd_verbs[i].summary);
    fputs("\nhadal help VERB explains a verb; hadal --version names the version.\n"
          "Exit status: 0 done, 1 failed, 2 wrong usage.\n",
          to);
}

int hd_cli_help(int argc, char **argv)
{
    if (argc > 2) return hd_cli_misuse("help", "one verb only, not also '%s'", argv[2]);
    if (argc < 2) {
        hd_cli_print_usage(false);
        return HD_EXIT_OK;
    }
    const hd_verb *const verb = hd_verb_find(argv[1]);
    if (!verb) {
        fprintf(stderr, "hadal: no verb '%s'\n", argv[1]);
        hd_cli_print_usage(true);
        return HD_EXIT_USAGE;
    }
    fputs(verb->help, stdout);
    return HD_EXIT_OK;
}

int hd_cli_fail(const hd_error *err)
{
    if (!hd_stdout_has_failed()) fprintf(stderr, "hadal: %s\n", err->message);
    return HD_EXIT_FAILED;
}

int hd_cli_misuse(const char *verb, const char *fmt, ...)
{
    va_list ap;
    fprintf(stderr, "hadal: %s: ", verb);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr, "; see hadal help %s\n", verb);
    return HD_EXIT_USAGE;
}
