#ifndef HD_CLI_CLI_H
#define HD_CLI_CLI_H

#include "base/status.h"

/* The program `hadal`: one verb is one job.  Results go to standard output, everything else
 * to standard error. */

HD_BEGIN_C

#define HD_VERSION "0.1.0"

/* Exit statuses. */
enum { HD_EXIT_OK, HD_EXIT_FAILED, HD_EXIT_USAGE };

typedef struct hd_verb {
    const char *name;
    int (*run)(int argc, char **argv); /* argv[0] is the verb; returns the exit status */
    const char *help;                  /* what `hadal help VERB` prints */
    const char *summary;
} hd_verb;

extern const hd_verb hd_verbs[];
extern const int     hd_n_verbs;

int hd_cli_audit(int argc, char **argv);
int hd_cli_bisect(int argc, char **argv);
int hd_cli_bench(int argc, char **argv);
int hd_cli_chat(int argc, char **argv);
int hd_cli_compare(int argc, char **argv);
int hd_cli_eval(int argc, char **argv);
int hd_cli_help(int argc, char **argv);
int hd_cli_parse(int argc, char **argv);
int hd_cli_prompt(int argc, char **argv);
int hd_cli_quantize(int argc, char **argv);
int hd_cli_run(int argc, char **argv);
int hd_cli_selftest(int argc, char **argv);
int hd_cli_serve(int argc, char **argv);
int hd_cli_tokens(int argc, char **argv);
int hd_cli_trace(int argc, char **argv);

extern const char hd_help_audit[], hd_help_bench[], hd_help_bisect[], hd_help_chat[],
    hd_help_compare[], hd_help_eval[], hd_help_help[], hd_help_parse[], hd_help_prompt[],
    hd_help_quantize[], hd_help_run[], hd_help_selftest[], hd_help_serve[], hd_help_tokens[],
    hd_help_trace[];

/* NULL when there is no such verb. */
const hd_verb *hd_verb_find(const char *name);
/* The list of verbs, for standard output or standard error. */
void hd_cli_print_usage(bool is_error);

/* Prints "hadal: <message>" unless the job failed because standard output did, which
 * hd_stdout_finish tells; returns HD_EXIT_FAILED. */
int hd_cli_fail(const hd_error *err);
/* Prints "hadal: <verb>: ...; see hadal help <verb>" and returns HD_EXIT_USAGE. */
int hd_cli_misuse(const char *verb, const char *fmt, ...) HD_PRINTF(2, 3);

HD_END_C
#endif
