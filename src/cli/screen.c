#include "cli/screen.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"

/* ---- standard output ---- */

/* Of the first write that failed; stdio forgets the reason by the time the job ends. */
static int stdout_errno;

static void keep_errno(void)
{
    if (!stdout_errno) stdout_errno = errno ? errno : EIO;
}

bool hd_stdout_write(const char *text, size_t bytes)
{
    if (stdout_errno) return false;
    if (fwrite(text, 1, bytes, stdout) != bytes || fflush(stdout) != 0) keep_errno();
    return !stdout_errno;
}

bool hd_stdout_has_failed(void) { return stdout_errno != 0; }

int hd_stdout_finish(int status)
{
    if (fflush(stdout) != 0 || ferror(stdout)) keep_errno();
    if (!stdout_errno) return status;
    if (stdout_errno != EPIPE)
        fprintf(stderr, "hadal: standard output: %s\n", strerror(stdout_errno));
    return HD_EXIT_FAILED;
}

/* ---- standard error ---- */

#define DIM        "\033[2m"
#define PLAIN      "\033[0m"
#define ERASE_LINE "\r\033[K"

void hd_screen_open(hd_screen *s, bool is_quiet, bool is_verbose)
{
    const char *const term = getenv("TERM"), *const no_colour = getenv("NO_COLOR");
    *s = (hd_screen){.is_quiet = is_quiet, .is_verbose = is_verbose, .percent = -1};
    s->is_terminal = isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
    s->has_colour = s->is_terminal && !(no_colour && *no_colour);
}

static void erase_progress(hd_screen *s)
{
    if (s->percent < 0) return;
    fputs(ERASE_LINE, stderr);
    s->percent = -1;
}

void hd_screen_note(hd_screen *s, const char *fmt, ...)
{
    va_list ap;
    if (s->is_quiet) return;
    erase_progress(s);
    fputs("hadal: ", stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}

void hd_screen_dim(const hd_screen *s, const char *text, size_t bytes)
{
    if (s->is_quiet) return;
    if (s->has_colour) fputs(DIM, stderr);
    fwrite(text, 1, bytes, stderr);
    if (s->has_colour) fputs(PLAIN, stderr);
    fflush(stderr);
}

void hd_screen_progress(hd_screen *s, const char *what, int64_t done, int64_t total)
{
    if (!s->is_terminal || s->is_quiet) return;
    if (total <= 0 || done >= total) {
        erase_progress(s);
    } else {
        int const percent = (int)((double)done / (double)total * 100);
        if (percent == s->percent) return;
        fprintf(stderr, ERASE_LINE "%s %d %%", what, percent);
        s->percent = percent;
    }
    fflush(stderr);
}

void hd_screen_on_progress(void *screen, const char *what, int64_t done, int64_t total)
{
    hd_screen *const s = screen;
    if (!s->is_muted) hd_screen_progress(s, what, done, total);
}

void hd_screen_on_log(void *screen, hd_log_level level, const char *line)
{
    hd_screen *const s = screen;
    if (level == HD_LOG_WARNING)
        hd_screen_note(s, "warning: %s", line);
    else if (s->is_verbose)
        hd_screen_note(s, "%s", line);
}

double hd_screen_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
