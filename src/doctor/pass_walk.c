#include "doctor/pass_walk.h"

#include <math.h>
#include <string.h>

hd_status hd_pass_walk_check(const hd_engine *e, const int32_t *ids, int32_t n, hd_error *err)
{
    int32_t const vocab = e->model.config->n_vocab;
    if (n < 1) HD_FAIL(err, HD_ERR_INVALID, "no tokens to trace");
    if (n > e->options.chunk || n > e->options.max_tokens)
        HD_FAIL(err, HD_ERR_INVALID, "%d tokens to trace, the engine takes %d in a pass", n,
                e->options.chunk);
    for (int32_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= vocab)
            HD_FAIL(err, HD_ERR_INVALID, "token %d has id %d, the vocabulary is 0 .. %d", i, ids[i],
                    vocab - 1);
    return HD_OK;
}

static hd_pass_run make_run(const hd_pass_walk *w, const int32_t *next, bool is_mtp)
{
    return (hd_pass_run){.tokens = w->ids,
                         .next = is_mtp ? next : NULL,
                         .n = w->n,
                         .rows = HD_LOGITS_ALL,
                         .is_mtp = is_mtp,
                         .after = w->on_step,
                         .user = w->user};
}

hd_status hd_pass_walk_plan(hd_engine *e, const hd_pass_walk *w, bool is_mtp, const hd_plan **out,
                            hd_error *err)
{
    hd_pass_run const run = make_run(w, w->ids, is_mtp);
    return hd_engine_plan(e, &run, out, err);
}

/* -1 when a logit is no number. */
static int32_t greedy_token(const float *logits, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 0; i < n; i++) {
        if (!isfinite(logits[i])) return -1;
        if (logits[i] > logits[best]) best = i;
    }
    return best;
}

static hd_status run_pass(hd_engine *e, const hd_pass_walk *w, const int32_t *next, bool is_mtp,
                          hd_error *err)
{
    hd_pass_run const run = make_run(w, next, is_mtp);
    HD_TRY(hd_engine_run(e, &run, err));
    return w->on_logits ? w->on_logits(w->user, is_mtp, e->logits, err) : HD_OK;
}

static hd_status run_both(hd_engine *e, const hd_pass_walk *w, int32_t *next, int32_t *greedy,
                          hd_error *err)
{
    int32_t const vocab = e->model.config->n_vocab;
    HD_TRY(run_pass(e, w, NULL, false, err));
    *greedy = greedy_token(e->logits + (int64_t)(w->n - 1) * vocab, vocab);
    if (!e->options.has_mtp) return HD_OK;
    memcpy(next, w->ids + 1, (size_t)(w->n - 1) * sizeof *next);
    next[w->n - 1] = *greedy < 0 ? 0 : *greedy;
    return run_pass(e, w, next, true, err);
}

hd_status hd_pass_walk_run(hd_engine *e, const hd_pass_walk *w, int32_t *greedy, hd_error *err)
{
    int32_t *const next = hd_memory_alloc((size_t)w->n * sizeof *next);
    if (!next) HD_FAIL(err, HD_ERR_MEMORY, "no memory for %d tokens", w->n);
    pthread_mutex_lock(&e->lock);
    hd_status const s = run_both(e, w, next, greedy, err);
    pthread_mutex_unlock(&e->lock);
    hd_memory_free(next);
    return s;
}

/* ---- what a step left ---- */

size_t hd_operand_bytes(const hd_operand *o)
{
    return (size_t)hd_operand_count(o) * hd_dtype_bytes(o->dtype);
}

hd_status hd_operand_fetch(hd_engine *e, const hd_step *step, const hd_operand *o, void *room,
                           const void **out, hd_error *err)
{
    *out = hd_operand_pointer(step->args, o);
    if (!e->device) return HD_OK;
    HD_TRY(hd_device_read(e->device, room, *out, hd_operand_bytes(o), err));
    *out = room;
    return HD_OK;
}

size_t hd_plan_largest_output(const hd_plan *p)
{
    size_t largest = 0;
    for (int32_t i = 0; i < p->n; i++) {
        hd_operand    o[HD_MAX_OPERANDS];
        int32_t const n = p->steps[i].kernel->op->describe(p->steps[i].args, o);
        for (int32_t j = 0; j < n; j++) {
            size_t const bytes = o[j].role == HD_IN ? 0 : hd_operand_bytes(&o[j]);
            if (bytes > largest) largest = bytes;
        }
    }
    return largest;
}
