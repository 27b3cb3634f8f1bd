#ifndef HD_SUPPORT_BATCH_RUN_H
#define HD_SUPPORT_BATCH_RUN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "serving.h"

/* Batches in tests: opened, filled, run until nothing is left to do. */

#define DEMO     "models/demo"
#define OFFICIAL "tests/models/tiny512-official"
#define CONTEXT  512

static inline hd_engine *open_engine(hd_options o)
{
    hd_error   err = {0};
    hd_engine *e = NULL;
    if (!o.model) o.model = DEMO;
    if (!o.max_tokens) o.max_tokens = CONTEXT;
    if (!o.marks) o.marks = -1;
    if (hd_engine_open(&e, &o, &err) != HD_OK) fail_msg("%s", err.message);
    return e;
}

static inline hd_batch *open_batch(hd_engine *e, hd_batch_options o)
{
    hd_error  err = {0};
    hd_batch *b = NULL;
    if (hd_batch_open(&b, e, &o, &err) != HD_OK) fail_msg("%s", err.message);
    return b;
}

static inline bool step(hd_batch *b)
{
    hd_error err = {0};
    bool     is_idle;
    if (hd_batch_step(b, &is_idle, &err) != HD_OK) fail_msg("%s", err.message);
    return !is_idle;
}

static inline void run(hd_batch *b)
{
    while (step(b)) {
    }
}

static inline uint64_t submit(hd_batch *b, const hd_request *r)
{
    hd_error err = {0};
    uint64_t ticket = 0;
    if (hd_batch_submit(b, r, &ticket, &err) != HD_OK) fail_msg("%s", err.message);
    assert_true(ticket != 0);
    return ticket;
}

static inline uint64_t submit_made(hd_batch *b, int32_t i, heard *h)
{
    int32_t       prompt[MADE_PROMPT];
    hd_logit_bias bias;
    hd_request    r;
    make_request(&r, i, prompt, &bias, b->engine->model.config->n_vocab);
    r.user = h;
    return submit(b, &r);
}

static inline void expect_ok(const heard *h, int32_t i)
{
    if (h->n_ends != 1) fail_msg("request %d ended %d times", i, h->n_ends);
    if (h->end.error.code != HD_OK) fail_msg("request %d: %s", i, h->end.error.message);
}

static inline void expect_same(const heard *alone, const heard *h, int32_t i, const char *how)
{
    expect_ok(h, i);
    if (h->digest != alone->digest || h->n_tokens != alone->n_tokens ||
        strcmp(h->text, alone->text) != 0 || h->n_prompt != alone->n_prompt)
        fail_msg("%s: request %d differs from alone", how, i);
}

#endif
