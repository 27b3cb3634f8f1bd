#ifndef HD_CLI_SCREEN_H
#define HD_CLI_SCREEN_H

#include "base/memory.h"

/* The two streams that a person or a program reads. */

HD_BEGIN_C

/* ---- standard output: results, every write checked ---- */

/* Writes and flushes.  returns false when standard output failed, now or before. */
bool hd_stdout_write(const char *text, size_t bytes);
bool hd_stdout_has_failed(void);
/* Flushes and returns `status`, or HD_EXIT_FAILED with a line on standard error when anything
 * was not written; a reader that left early is told nothing. */
int hd_stdout_finish(int status);

/* ---- standard error: what goes on ---- */

typedef struct hd_screen {
    bool is_terminal; /* it shows progress            */
    bool has_colour;
    bool is_quiet;   /* nothing but errors           */
    bool is_verbose; /* also what the engine logs    */
    bool is_muted;   /* the engine's progress is not shown, because the verb shows its own */
    int  percent;    /* of the progress line drawn, -1: none */
} hd_screen;

/* Colour and progress need a terminal; NO_COLOR in the environment takes the colour. */
void hd_screen_open(hd_screen *s, bool is_quiet, bool is_verbose);
/* "hadal: ..." unless quiet. */
void hd_screen_note(hd_screen *s, const char *fmt, ...) HD_PRINTF(2, 3);
/* Text that stands back behind the answer: dim where there is colour. */
void hd_screen_dim(const hd_screen *s, const char *text, size_t bytes);
/* Draws "what 42 %" over the line before, and takes it away when done == total. */
void hd_screen_progress(hd_screen *s, const char *what, int64_t done, int64_t total);
/* For hd_options, with the screen as user. */
void hd_screen_on_progress(void *screen, const char *what, int64_t done, int64_t total);
void hd_screen_on_log(void *screen, hd_log_level level, const char *line);

/* Seconds of a clock that only goes forward. */
double hd_screen_now(void);

HD_END_C
#endif
