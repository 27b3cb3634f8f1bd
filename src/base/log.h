#ifndef HD_BASE_LOG_H
#define HD_BASE_LOG_H

#include "base/status.h"

HD_BEGIN_C

/* Where messages and progress of one engine go; both functions may be NULL. */
typedef struct hd_log {
    hd_log_fn      *line;
    hd_progress_fn *progress;
    void           *user;
} hd_log;

void hd_log_print(const hd_log *log, hd_log_level level, const char *fmt, ...) HD_PRINTF(3, 4);
void hd_log_progress(const hd_log *log, const char *what, int64_t done, int64_t total);

HD_END_C
#endif
