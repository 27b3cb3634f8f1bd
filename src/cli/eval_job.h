#ifndef HD_CLI_EVAL_JOB_H
#define HD_CLI_EVAL_JOB_H

#include "cli/model_options.h"

/* What the two halves of `hadal eval` share. */

HD_BEGIN_C

typedef struct hd_eval_job {
    hd_model_options model;
    const char      *tasks, *text; /* files; exactly one is given */
    int32_t          limit;        /* most rows of a kind, 0: all  */
    int32_t          max_new;      /* of one answer */
    bool             is_json, lists_failures;

    hd_screen   screen;
    hd_engine  *engine;  /* owned */
    hd_session *session; /* owned */
    hd_buffer   source;  /* owned: the file */
    hd_buffer   out;     /* owned: what will be printed */
} hd_eval_job;

/* Both read job->source, work with the open engine and write to job->out. */
hd_status hd_eval_tasks(hd_eval_job *j, hd_error *err);
hd_status hd_eval_text(hd_eval_job *j, hd_error *err);

HD_END_C
#endif
