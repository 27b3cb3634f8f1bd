#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/bus_error.h"
#include "cli/cli.h"
#include "cli/screen.h"

const hd_verb hd_verbs[] = {
    {"run", hd_cli_run, hd_help_run, "answers one prompt"},
    {"chat", hd_cli_chat, hd_help_chat, "holds a conversation"},
    {"serve", hd_cli_serve, hd_help_serve, "answers many at once, over HTTP"},
    {"eval", hd_cli_eval, hd_help_eval, "measures a model on tasks or on a text"},
    {"audit", hd_cli_audit, hd_help_audit,
     "tells what is wrong with a checkpoint, loading nothing"},
    {"trace", hd_cli_trace, hd_help_trace,
     "shows or writes what every step of a forward pass leaves"},
    {"compare", hd_cli_compare, hd_help_compare, "holds two forward passes against each other"},
    {"bisect", hd_cli_bisect, hd_help_bisect,
     "tells which kernels, roundings or cache rows make the difference"},
    {"bench", hd_cli_bench, hd_help_bench, "measures kernels, layers and models on this machine"},
    {"selftest", hd_cli_selftest, hd_help_selftest, "proves that a model computes right here"},
    {"quantize", hd_cli_quantize, hd_help_quantize,
     "makes an NVFP4 folder of another model folder"},
    {"tokens", hd_cli_tokens, hd_help_tokens, "shows how a text is cut into tokens"},
    {"prompt", hd_cli_prompt, hd_help_prompt, "shows the prompt that messages become"},
    {"parse", hd_cli_parse, hd_help_parse, "takes an answer apart: reasoning, text, calls"},
    {"help", hd_cli_help, hd_help_help, "explains a verb"},
};
const int hd_n_verbs = sizeof hd_verbs / sizeof hd_verbs[0];

const hd_verb *hd_verb_find(const char *name)
{
    for (int i = 0; i < hd_n_verbs; i++)
        if (strcmp(hd_verbs[i].name, name) == 0) return &hd_verbs[i];
    return NULL;
}

static bool is_help(const char *arg)
{
    return strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0;
}

static int run_verb(int argc, char **argv)
{
    if (argc < 2) {
        hd_cli_print_usage(true);
        return HD_EXIT_USAGE;
    }
    if (is_help(argv[1])) return hd_cli_help(1, argv);
    if (strcmp(argv[1], "--version") == 0) {
        printf("hadal %s\n", HD_VERSION);
        return HD_EXIT_OK;
    }
    const hd_verb *const verb = hd_verb_find(argv[1]);
    if (!verb) {
        fprintf(stderr, "hadal: no verb '%s'\n", argv[1]);
        hd_cli_print_usage(true);
        return HD_EXIT_USAGE;
    }
    if (argc > 2 && is_help(argv[2])) {
        fputs(verb->help, stdout);
        return HD_EXIT_OK;
    }
    return verb->run(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN); /* a reader that left shows as a failed write */
    hd_bus_error_watch();
    return hd_stdout_finish(run_verb(argc, argv));
}
