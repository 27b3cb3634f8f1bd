#include "doctor/trace_report.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "doctor/operand_stats.h"
#include "doctor/pass_walk.h"

#define MAX_NAME 96

/* What one step left in one place: the newest one tells what a later step read there. */
typedef struct left {
    char             step[MAX_NAME];
    hd_operand       operand;
    const void      *at; /* where kernels see it */
    hd_operand_stats stats;
} left;

typedef struct reporter {
    hd_engine                     *e;
    const hd_trace_report_options *opt;
    hd_buffer                     *out;
    left                          *list; /* [used] of the pool */
    int32_t                        used, cap, n_steps, n_listed;
    void                          *fetched; /* room for one operand of an accelerator */
    bool                           is_bad;
    hd_pool                        pool;
} reporter;

/* ---- numbers ---- */

static void write_number(hd_buffer *out, const char *key, double x)
{
    hd_buffer_printf(out, isfinite(x) ? ",\"%s\":%.9g" : ",\"%s\":null", key, x);
}

static void write_stats(hd_buffer *out, const hd_operand *o, const hd_operand_stats *s)
{
    char shape[MAX_NAME];
    hd_buffer_printf(out, "\"operand\":\"%s\",\"shape\":%s,\"count\":%" PRId64 ",\"bad\":%" PRId64,
                     o->name, hd_operand_print_shape(o, shape, sizeof shape), s->count, s->bad);
    if (s->bad) hd_buffer_printf(out, ",\"first_bad\":%" PRId64, s->first_bad);
    write_number(out, "min", s->min);
    write_number(out, "max", s->max);
    write_number(out, "rms", s->rms);
}

/* ---- one line ---- */

static bool is_saturation(const hd_operand *o) { return strcmp(o->name, "saturated") == 0; }

static void print_line(reporter *r, const left *x, const hd_kernel *kernel)
{
    char shape[MAX_NAME], count[48];
    if (r->opt->is_json) {
        hd_buffer_printf(r->out, "%s{\"step\":\"%s\",\"kernel\":\"%s\",", r->n_listed ? "," : "",
                         x->step, kernel->name);
        write_stats(r->out, &x->operand, &x->stats);
        if (is_saturation(&x->operand))
            hd_buffer_printf(r->out, ",\"saturated\":%" PRId64, x->stats.sum);
        hd_buffer_text(r->out, "}");
        return;
    }
    if (is_saturation(&x->operand)) {
        snprintf(count, sizeof count, "%" PRId64 " blocks", x->stats.sum);
        hd_buffer_printf(r->out, "%-28s %-10s %s\n", x->step, x->operand.name, count);
        return;
    }
    hd_buffer_printf(r->out, "%-28s %-10s %-20s %12.5g %12.5g %12.5g  %s", x->step, x->operand.name,
                     hd_operand_print_shape(&x->operand, shape, sizeof shape), x->stats.min,
                     x->stats.max, x->stats.rms, kernel->name);
    if (x->stats.bad)
        hd_buffer_printf(r->out, "  %" PRId64 " not finite, the first is %" PRId64, x->stats.bad,
                         x->stats.first_bad);
    hd_buffer_text(r->out, "\n");
}

/* ---- the first bad step ---- */

/* Who wrote what an input points to; NULL when no step did. */
static const left *find_writer(const reporter *r, const void *at)
{
    for (int32_t i = r->used; i-- > 0;)
        if (r->list[i].at == at) return &r->list[i];
    return NULL;
}

static hd_status look_at_input(reporter *r, const hd_step *step, const hd_operand *o,
                               hd_operand_stats *out, hd_error *err)
{
    const void  *data = NULL;
    hd_pool      room = {0};
    size_t const bytes = hd_operand_bytes(o);
    void *const  to = r->e->device ? hd_pool_alloc(&room, bytes) : NULL;
    hd_status    s = HD_OK;
    if (r->e->device && !to)
        s = hd_error_set(err, HD_ERR_MEMORY, -1, "no memory to fetch %zu bytes", bytes);
    else
        s = hd_operand_fetch(r->e, step, o, to, &data, err);
    if (s == HD_OK) *out = hd_operand_stats_take(o, data);
    hd_pool_free(&room);
    return s;
}

static void print_input(reporter *r, const hd_operand *o, const hd_operand_stats *s,
                        const char *from, bool is_first)
{
    char shape[MAX_NAME];
    if (r->opt->is_json) {
        hd_buffer_text(r->out, is_first ? "{" : ",{");
        if (s)
            write_stats(r->out, o, s);
        else
            hd_buffer_printf(r->out, "\"operand\":\"%s\"", o->name);
        hd_buffer_printf(r->out, from ? ",\"from\":\"%s\"}" : ",\"from\":null}", from);
        return;
    }
    hd_buffer_printf(r->out, "  input %-10s %-20s ", o->name,
                     hd_operand_print_shape(o, shape, sizeof shape));
    if (s)
        hd_buffer_printf(r->out, "%.5g .. %.5g, RMS %.5g", s->min, s->max, s->rms);
    else
        hd_buffer_text(r->out, "codes, or a list: hadal audit reads those of a checkpoint");
    if (s && s->bad)
        hd_buffer_printf(r->out, ", %" PRId64 " not finite, the first is %" PRId64, s->bad,
                         s->first_bad);
    hd_buffer_printf(r->out, from ? ", of step %s\n" : "\n", from);
}

/* What it read: as the step before left it, or, of weights and ids, as it is. */
static hd_status print_inputs(reporter *r, const hd_step *step, hd_error *err)
{
    hd_operand    o[HD_MAX_OPERANDS];
    int32_t const n = step->kernel->op->describe(step->args, o);
    int32_t       shown = 0;
    for (int32_t i = 0; i < n; i++) {
        hd_operand_stats  now = {0};
        const left *const before = find_writer(r, hd_operand_pointer(step->args, &o[i]));
        bool const        is_read = !before && o[i].role == HD_IN && hd_operand_has_values(&o[i]);
        if (o[i].role == HD_OUT) continue;
        if (is_read) HD_TRY(look_at_input(r, step, &o[i], &now, err));
        print_input(r, &o[i],
                    before    ? &before->stats
                    : is_read ? &now
                              : NULL,
                    before ? before->step : NULL, shown++ == 0);
    }
    return HD_OK;
}

/* Index i of an operand as one number a dimension: "[1, 0, 5]". */
static char *print_place(const hd_operand *o, int64_t i, char *out, size_t cap)
{
    hd_operand place = *o;
    for (int32_t d = o->rank; d-- > 0;) {
        place.shape[d] = i % o->shape[d];
        i /= o->shape[d];
    }
    return hd_operand_print_shape(&place, out, cap);
}

static hd_status print_bad(reporter *r, const hd_step *step, const left *x, hd_error *err)
{
    char at[MAX_NAME];
    print_place(&x->operand, x->stats.first_bad, at, sizeof at);
    if (r->opt->is_json) {
        hd_buffer_printf(r->out, "],\"stopped\":{\"step\":\"%s\",\"kernel\":\"%s\",\"at\":%s,",
                         x->step, step->kernel->name, at);
        write_stats(r->out, &x->operand, &x->stats);
        hd_buffer_text(r->out, ",\"inputs\":[");
    } else {
        hd_buffer_printf(r->out,
                         "\nstep %s (%s): %" PRId64 " of %" PRId64
                         " values of %s are NaN or infinite, the first at %s; the steps before "
                         "left none\n",
                         x->step, step->kernel->name, x->stats.bad, x->stats.count, x->operand.name,
                         at);
    }
    HD_TRY(print_inputs(r, step, err));
    if (r->opt->is_json) hd_buffer_text(r->out, "]}");
    return HD_OK;
}

/* ---- the walk ---- */

static hd_status look_at(reporter *r, const hd_step *step, const hd_operand *o, left *x,
                         hd_error *err)
{
    const void *data = NULL;
    HD_TRY(hd_operand_fetch(r->e, step, o, r->fetched, &data, err));
    *x = (left){.operand = *o,
                .at = hd_operand_pointer(step->args, o),
                .stats = hd_operand_stats_take(o, data)};
    hd_step_name(step, x->step, sizeof x->step);
    return HD_OK;
}

static bool is_listed(const reporter *r, const char *step)
{
    return !r->opt->steps || fnmatch(r->opt->steps, step, 0) == 0;
}

/* Ends the run; the report stands, so nothing else is said. */
static hd_status stop(reporter *r, hd_error *err)
{
    r->is_bad = true;
    HD_FAIL(err, HD_ERR_NUMERIC, "a step left values that are not finite");
}

static hd_status on_step(void *user, const hd_step *step, hd_error *err)
{
    reporter *const r = user;
    hd_operand      o[HD_MAX_OPERANDS];
    left            now[HD_MAX_OPERANDS];
    int32_t         n_now = 0;
    const left     *bad = NULL;
    int32_t const   n = step->kernel->op->describe(step->args, o);
    r->n_steps++;
    for (int32_t i = 0; i < n; i++) {
        if (o[i].role == HD_IN || !hd_operand_has_values(&o[i])) continue;
        left *const x = &now[n_now++];
        HD_TRY(look_at(r, step, &o[i], x, err));
        if (is_listed(r, x->step) || x->stats.bad) {
            print_line(r, x, step->kernel);
            r->n_listed++;
        }
        if (x->stats.bad && !bad) bad = x;
    }
    if (bad) {
        HD_TRY(print_bad(r, step, bad, err));
        return stop(r, err);
    }
    for (int32_t i = 0; i < n_now && r->used < r->cap; i++) r->list[r->used++] = now[i];
    return HD_OK;
}

/* The plans say how much there will be to remember and to fetch. */
static hd_status prepare(reporter *r, const hd_pass_walk *w, hd_error *err)
{
    size_t largest = 0;
    for (int is_mtp = 0; is_mtp <= r->e->options.has_mtp; is_mtp++) {
        const hd_plan *plan = NULL;
        HD_TRY(hd_pass_walk_plan(r->e, w, is_mtp, &plan, err));
        size_t const bytes = hd_plan_largest_output(plan);
        if (bytes > largest) largest = bytes;
        r->cap += plan->n * HD_MAX_OPERANDS;
    }
    r->list = hd_pool_alloc(&r->pool, (size_t)r->cap * sizeof *r->list);
    if (r->e->device) r->fetched = hd_pool_alloc(&r->pool, largest);
    if (!r->list || (r->e->device && !r->fetched))
        HD_FAIL(err, HD_ERR_MEMORY, "no memory for the ranges of %d operands", r->cap);
    return HD_OK;
}

static void print_head(const reporter *r, int32_t n)
{
    if (r->opt->is_json)
        hd_buffer_printf(r->out, "{\"tokens\":%d,\"steps\":[", n);
    else
        hd_buffer_printf(r->out, "%-28s %-10s %-20s %12s %12s %12s  %s\n", "step", "operand",
                         "shape", "min", "max", "RMS", "kernel");
}

static void print_end(const reporter *r, int32_t greedy)
{
    if (r->opt->is_json)
        hd_buffer_printf(r->out,
                         r->is_bad ? ",\"greedy\":null}\n" : "],\"stopped\":null,\"greedy\":%d}\n",
                         greedy);
    else if (!r->is_bad)
        hd_buffer_printf(r->out, "\n%d steps, all finite; greedy next token %d\n", r->n_steps,
                         greedy);
}

static hd_status report(reporter *r, const hd_pass_walk *w, hd_error *err)
{
    int32_t greedy = -1;
    HD_TRY(prepare(r, w, err));
    print_head(r, w->n);
    hd_status const s = hd_pass_walk_run(r->e, w, &greedy, err);
    if (s != HD_OK && !r->is_bad) return s;
    if (r->n_listed == 0) HD_FAIL(err, HD_ERR_INVALID, "no step is called %.200s", r->opt->steps);
    print_end(r, greedy);
    if (r->out->failed) HD_FAIL(err, HD_ERR_MEMORY, "no memory for the report");
    return HD_OK;
}

hd_status hd_trace_report(hd_engine *e, const hd_trace_report_options *opt, hd_buffer *out,
                          bool *is_bad, hd_error *err)
{
    reporter           r = {.e = e, .opt = opt, .out = out};
    hd_pass_walk const w = {.ids = opt->ids, .n = opt->n, .on_step = on_step, .user = &r};
    HD_TRY(hd_pass_walk_check(e, opt->ids, opt->n, err));
    hd_status const s = report(&r, &w, err);
    *is_bad = r.is_bad;
    hd_pool_free(&r.pool);
    return s;
}
