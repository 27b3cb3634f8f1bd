#include <stdio.h>
#include <string.h>

#include "bench/bench_place.h"
#include "bench/bench_report.h"

#define FIRST_CONTEXT 128 /* tokens; the ones that follow double */
#define LEAST_CONTEXT 16  /* what a context must have room for   */
#define DECODED       5   /* tokens whose median counts          */

/* The engine, a session of it, and ids to read. */
typedef struct engine_job {
    hd_session      *session;
    hd_bench_report *out;
    hd_engine_info   info;
    int32_t         *ids; /* [max_tokens] owned */
} engine_job;

static void add_row(engine_job *j, const char *op, int32_t context, int32_t tokens, double seconds)
{
    hd_bench_row row = {.op = op,
                        .kernel = hd_act_name(j->info.act),
                        .tokens = tokens,
                        .us = seconds * 1e6,
                        .tokens_per_s = tokens / seconds};
    snprintf(row.label, sizeof row.label, "%s %d", op, context);
    snprintf(row.shape, sizeof row.shape, "context %d", context);
    hd_bench_add(j->out, &row);
}

/* The time of one pass behind n tokens is that of the last DECODED of them. */
static hd_status measure_context(engine_job *j, int32_t n, hd_error *err)
{
    double        seconds[DECODED];
    int32_t const prompt = n - DECODED;
    hd_session_reset(j->session);
    double const start = hd_bench_now();
    HD_TRY(hd_session_eval(j->session, j->ids, prompt, err));
    add_row(j, "prefill", prompt, prompt, hd_bench_now() - start);
    for (int32_t i = 0; i < DECODED; i++) {
        double const from = hd_bench_now();
        HD_TRY(hd_session_eval(j->session, j->ids + prompt + i, 1, err));
        seconds[i] = hd_bench_now() - from;
    }
    add_row(j, "decode", n, 1, hd_bench_median(seconds, DECODED));
    return HD_OK;
}

static hd_status measure_contexts(engine_job *j, const hd_log *log, hd_error *err)
{
    int32_t const most = j->info.max_tokens;
    if (most < LEAST_CONTEXT)
        HD_FAIL(err, HD_ERR_INVALID, "a context of %d tokens: wanted %d or more", most,
                LEAST_CONTEXT);
    for (int32_t i = 0; i < most; i++) j->ids[i] = 2 + i % (j->info.n_vocab - 2);
    HD_TRY(hd_session_eval(j->session, j->ids, DECODED, err)); /* memory is touched once before */
    for (int64_t n = FIRST_CONTEXT; n < most; n *= 2) {
        hd_log_progress(log, "measuring contexts", n, most);
        HD_TRY(measure_context(j, (int32_t)n, err));
    }
    HD_TRY(measure_context(j, most, err));
    hd_log_progress(log, "measuring contexts", most, most);
    return hd_bench_finish(j->out, err);
}

hd_status hd_bench_engine(hd_engine *e, hd_bench_report *out, const hd_log *log, hd_error *err)
{
    engine_job j = {.out = out};
    hd_engine_info_get(e, &j.info);
    out->what = "engine";
    out->machine.threads = j.info.n_threads;
    hd_isa_print(j.info.isa, out->machine.kernels, sizeof out->machine.kernels);
    snprintf(out->machine.name, sizeof out->machine.name, "%s",
             j.info.isa & HD_ISA_DEVICE ? "accelerator" : "host");
    j.ids = hd_memory_alloc((size_t)j.info.max_tokens * sizeof *j.ids);
    if (!j.ids) HD_FAIL(err, HD_ERR_MEMORY, "no room for %d ids", j.info.max_tokens);
    hd_status s = hd_session_open(&j.session, e, err);
    if (s == HD_OK) s = measure_contexts(&j, log, err);
    hd_session_close(j.session);
    hd_memory_free(j.ids);
    return s;
}
