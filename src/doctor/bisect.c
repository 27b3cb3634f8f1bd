#include "doctor/bisect.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cpu.h"
#include "doctor/bisect_parts.h"
#include "doctor/compare_pair.h"

/* ---- the differences ---- */

static hd_kernel_choice choose_all(const hd_bisect *b, uint32_t isa)
{
    hd_kernel_choice c = hd_kernel_choice_of(isa);
    if (!b->opt.kernels) return c;
    c.kernels = b->opt.kernels;
    c.n = b->opt.n_kernels;
    return c;
}

static void add_part(hd_bisect *b, const hd_bisect_part *part)
{
    for (int32_t i = 0; i < b->n_parts; i++)
        if (b->parts[i].op == part->op && b->parts[i].kind == part->kind) return;
    b->parts[b->n_parts++] = *part;
}

/* Adds the ops that the settings run with other kernels in a plan. */
static void add_ops(hd_bisect *b, const hd_plan *plan)
{
    hd_kernel_choice const good = choose_all(b, b->opt.good.isa),
                           bad = choose_all(b, b->opt.bad.isa);
    for (int32_t i = 0; i < plan->n; i++) {
        const hd_step *const   s = &plan->steps[i];
        const hd_op *const     op = s->kernel->op;
        const hd_kernel *const g = hd_kernel_select(&good, op, s->args);
        const hd_kernel *const f = hd_kernel_select(&bad, op, s->args);
        if (!g || !f || g == f) continue;
        hd_bisect_part const part = {"op", op->name, g->name, f->name, hd_op_place(op)};
        add_part(b, &part);
    }
}

/* The set whose bits are the parts of this kind. */
static hd_subset find_kind(const hd_bisect *b, const char *kind)
{
    for (int32_t i = 0; i < b->n_parts; i++)
        if (strcmp(b->parts[i].kind, kind) == 0) return (hd_subset)1 << i;
    return 0;
}

hd_subset hd_bisect_all(const hd_bisect *b)
{
    return b->n_parts == HD_MAX_SUBSET ? ~(hd_subset)0 : ((hd_subset)1 << b->n_parts) - 1;
}

/* ---- an engine with some of them ---- */

/* Opens it anew only when activations or cache rows are others than before. */
static hd_status open_engine(hd_bisect *b, hd_act act, hd_kv kv, hd_error *err)
{
    if (b->engine && b->engine->options.act == act && b->engine->options.kv == kv) return HD_OK;
    hd_options o = b->opt.good;
    o.act = act;
    o.kv = kv;
    o.isa |= b->opt.bad.isa;
    hd_engine_close(b->engine);
    b->engine = NULL;
    HD_TRY(hd_engine_open(&b->engine, &o, err));
    b->opt.good.is_trusted = true; /* from now on */
    return HD_OK;
}

static hd_status open_with(hd_bisect *b, hd_subset set, hd_error *err)
{
    const hd_options *const good = &b->opt.good, *const bad = &b->opt.bad;
    hd_kernel_choice choice = choose_all(b, good->isa);
    HD_TRY(open_engine(b, set & find_kind(b, "act") ? bad->act : good->act,
                       set & find_kind(b, "kv") ? bad->kv : good->kv, err));
    for (int32_t i = 0; i < b->n_parts; i++)
        if (b->parts[i].op >= 0 && (set >> i & 1)) choice.isa[b->parts[i].op] = bad->isa;
    hd_engine_choose(b->engine, &choice);
    return HD_OK;
}

static hd_status count_steps(hd_bisect *b, const hd_pass_walk *w, hd_error *err)
{
    const hd_plan *plan = NULL;
    b->step = b->n_steps = 0;
    for (int is_mtp = 0; is_mtp <= b->engine->options.has_mtp; is_mtp++) {
        HD_TRY(hd_pass_walk_plan(b->engine, w, is_mtp, &plan, err));
        b->n_steps += plan->n;
    }
    return HD_OK;
}

/* ---- a trial ---- */

static hd_status on_step(void *user, const hd_step *step, hd_error *err)
{
    hd_bisect *const b = user;
    char             what[64];
    (void)step;
    (void)err;
    snprintf(what, sizeof what, "trial %d", b->n_trials + 1);
    hd_log_progress(&b->log, what, ++b->step, b->n_steps);
    return HD_OK;
}

static hd_status keep_logits(hd_bisect *b, bool is_mtp, const float *logits, int64_t count,
                             hd_error *err)
{
    float *const to = hd_pool_alloc(&b->pool, (size_t)count * sizeof *to);
    if (!to) HD_FAIL(err, HD_ERR_MEMORY, "no memory for the logits of %d tokens", b->opt.n);
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(logits[i]))
            HD_FAIL(err, HD_ERR_NUMERIC, "the good setting leaves logits that are not finite");
    memcpy(to, logits, (size_t)count * sizeof *to);
    b->wanted[is_mtp] = to;
    return HD_OK;
}

static hd_status on_logits(void *user, bool is_mtp, const float *logits, hd_error *err)
{
    hd_bisect *const b = user;
    hd_st_tensor     got = {.dtype = HD_ST_F32,
                            .rank = 2,
                            .shape = {b->opt.n, b->engine->model.config->n_vocab},
                            .data = (const uint8_t *)logits};
    if (!b->has_wanted) return keep_logits(b, is_mtp, logits, hd_st_tensor_count(&got), err);
    hd_st_tensor want = got;
    want.data = (const uint8_t *)b->wanted[is_mtp];
    hd_pair_stats const p = hd_pair_compare(&got, &want);
    b->error = fmax(b->error, p.row_error);
    return HD_OK;
}

static hd_status run_trial(hd_bisect *b, hd_subset set, hd_error *err)
{
    hd_pass_walk const w = {
        .ids = b->opt.ids, .n = b->opt.n, .on_step = on_step, .on_logits = on_logits, .user = b};
    int32_t greedy;
    b->error = 0;
    HD_TRY(open_with(b, set, err));
    HD_TRY(hd_pass_walk_check(b->engine, w.ids, w.n, err));
    HD_TRY(count_steps(b, &w, err));
    return hd_pass_walk_run(b->engine, &w, &greedy, err);
}

static const hd_bisect_trial *find_trial(const hd_bisect *b, hd_subset set)
{
    for (int32_t i = 0; i < b->n_trials; i++)
        if (b->trials[i].set == set) return &b->trials[i];
    return NULL;
}

static hd_status note_trial(hd_bisect *b, hd_subset set, hd_error *err)
{
    if (b->n_trials == b->cap_trials) {
        int32_t const          cap = b->cap_trials ? 2 * b->cap_trials : 64;
        hd_bisect_trial *const more = hd_memory_alloc((size_t)cap * sizeof *more);
        if (!more) HD_FAIL(err, HD_ERR_MEMORY, "no memory for %d trials", cap);
        if (b->n_trials) memcpy(more, b->trials, (size_t)b->n_trials * sizeof *more);
        hd_memory_free(b->trials);
        b->trials = more;
        b->cap_trials = cap;
    }
    b->trials[b->n_trials++] = (hd_bisect_trial){set, b->error};
    hd_log_print(&b->log, HD_LOG_INFO, "trial %d: %d of %d differences, error %.4g", b->n_trials,
                 hd_subset_count(set), b->n_parts, b->error);
    return HD_OK;
}

bool hd_bisect_is_far(const hd_bisect *b, double error) { return !(error <= b->opt.tolerance); }

double hd_bisect_error(const hd_bisect *b, hd_subset set)
{
    const hd_bisect_trial *const t = find_trial(b, set);
    return t ? t->error : (double)NAN;
}

/* Each set is run once; for hd_subset_minimize. */
static hd_status try_set(void *user, hd_subset set, bool *is_far, hd_error *err)
{
    hd_bisect *const b = user;
    if (!find_trial(b, set)) {
        HD_TRY(run_trial(b, set, err));
        HD_TRY(note_trial(b, set, err));
    }
    *is_far = hd_bisect_is_far(b, hd_bisect_error(b, set));
    return HD_OK;
}

/* ---- the search ---- */

/* What the good setting leaves, twice: that it repeats itself is what all else rests on. */
static hd_status run_good(hd_bisect *b, hd_error *err)
{
    bool is_far = false;
    HD_TRY(run_trial(b, 0, err));
    b->has_wanted = true;
    HD_TRY(try_set(b, 0, &is_far, err));
    if (is_far)
        HD_FAIL(err, HD_ERR_NUMERIC, "the good setting run twice leaves logits %.4g apart",
                hd_bisect_error(b, 0));
    return HD_OK;
}

static hd_status list_ops(hd_bisect *b, hd_error *err)
{
    hd_pass_walk const w = {.ids = b->opt.ids, .n = b->opt.n};
    const hd_plan     *plan = NULL;
    HD_TRY(hd_pass_walk_check(b->engine, w.ids, w.n, err));
    for (int is_mtp = 0; is_mtp <= b->engine->options.has_mtp; is_mtp++) {
        HD_TRY(hd_pass_walk_plan(b->engine, &w, is_mtp, &plan, err));
        add_ops(b, plan);
    }
    return HD_OK;
}

/* A difference may show in the plan of either setting only.  Opening says what a default is. */
static hd_status list_parts(hd_bisect *b, hd_error *err)
{
    hd_options *const good = &b->opt.good, *const bad = &b->opt.bad;
    HD_TRY(open_engine(b, bad->act, bad->kv, err));
    bad->act = b->engine->options.act;
    bad->kv = b->engine->options.kv;
    HD_TRY(list_ops(b, err));
    HD_TRY(open_engine(b, good->act, good->kv, err));
    good->act = b->engine->options.act;
    good->kv = b->engine->options.kv;
    HD_TRY(list_ops(b, err));
    hd_bisect_part const act = {"act", "act", hd_act_name(good->act), hd_act_name(bad->act), -1};
    hd_bisect_part const kv = {"kv", "kv", hd_kv_name(good->kv), hd_kv_name(bad->kv), -1};
    if (good->act != bad->act) add_part(b, &act);
    if (good->kv != bad->kv) add_part(b, &kv);
    if (b->n_parts == 0)
        HD_FAIL(err, HD_ERR_INVALID, "good and bad run the same kernels, activations and KV rows");
    return HD_OK;
}

/* Tries each part of a culprit alone, for the report. */
static hd_status try_alone(hd_bisect *b, hd_subset set, hd_error *err)
{
    bool is_far;
    for (int32_t i = 0; i < b->n_parts; i++)
        if (set >> i & 1) HD_TRY(try_set(b, (hd_subset)1 << i, &is_far, err));
    return HD_OK;
}

static hd_status find_culprits(hd_bisect *b, hd_error *err)
{
    hd_subset left = hd_bisect_all(b);
    bool      is_far = false;
    HD_TRY(try_set(b, left, &is_far, err));
    while (is_far && left) {
        hd_culprit *const c = &b->culprits[b->n_culprits++];
        c->set = left;
        HD_TRY(hd_subset_minimize(&c->set, try_set, b, err));
        HD_TRY(try_alone(b, c->set, err));
        left &= ~c->set;
        HD_TRY(try_set(b, left, &is_far, err));
        c->error = hd_bisect_error(b, c->set);
        c->rest = hd_bisect_error(b, left);
    }
    return HD_OK;
}

static hd_status check_places(hd_bisect *b, hd_error *err)
{
    uint32_t const given = hd_cpu_isa();
    if (!b->opt.good.isa) b->opt.good.isa = given;
    if (!b->opt.bad.isa) b->opt.bad.isa = given;
    uint32_t const both = b->opt.good.isa | b->opt.bad.isa;
    if ((both & HD_ISA_HOST) && (both & HD_ISA_DEVICE))
        HD_FAIL(err, HD_ERR_INVALID,
                "kernels of the host and of a GPU do not mix in one pass: good and bad must run in "
                "one place");
    return HD_OK;
}

static hd_status bisect(hd_bisect *b, hd_error *err)
{
    HD_TRY(check_places(b, err));
    HD_TRY(list_parts(b, err));
    HD_TRY(run_good(b, err));
    return find_culprits(b, err);
}

hd_status hd_bisect_run(hd_bisect **out, const hd_bisect_options *opt, hd_error *err)
{
    hd_bisect *const b = hd_memory_alloc(sizeof *b);
    if (!b) HD_FAIL(err, HD_ERR_MEMORY, "no memory for a bisection");
    b->opt = *opt;
    b->log = (hd_log){opt->good.log, opt->good.progress, opt->good.user};
    hd_status const s = bisect(b, err);
    hd_engine_close(b->engine);
    b->engine = NULL;
    if (s == HD_OK)
        *out = b;
    else
        hd_bisect_close(b);
    return s;
}

void hd_bisect_close(hd_bisect *b)
{
    if (!b) return;
    hd_memory_free(b->trials);
    hd_pool_free(&b->pool);
    hd_memory_free(b);
}

bool hd_bisect_differs(const hd_bisect *b) { return b->n_culprits > 0; }
