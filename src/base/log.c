#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

void hd_log_print(const hd_log *log, hd_log_level level, const char *fmt, ...)
{
    if (!log || !log->line) return;
    char    line[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    log->line(log->user, level, line);
}

void hd_log_progress(const hd_log *log, const char *what, int64_t done, int64_t total)
{
    if (log && log->progress) log->progress(log->user, what, done, total);
}
