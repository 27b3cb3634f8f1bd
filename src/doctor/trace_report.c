#include "doctor/trace_report.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json_write.h"
#include "doctor/trace_report_parts.h"

#define MAX_NAME HD_TRACE_NAME

typedef hd_trace_left     left;
typedef hd_trace_reporter reporter;

/* ---- numbers ---- */

static void write_stats(hd_buffer *out, const hd_operand *o, const hd_operand_stats *s)
{
    char shape[MAX_NAME];
    hd_json_write_text(out, "operand", o->name);
    hd_json_write_name(out, "shape");
    hd_buffer_text(out, hd_operand_print_shape(o, shape, sizeof shape));
    hd_json_write_count(out, "count", s->count);
    hd_json_write_count(out, "bad", s->bad);
    if (s->bad) hd_json_write_count(out, "first_bad", s->first_bad);
    hd_json_write_number(out, "min", s->min);
    hd_json_write_number(out, "max", s->max);
    hd_json_write_number(out, "rms", s->rms);
}

/* ---- one line ---- */

bool hd_trace_is_saturation(const hd_operand *o) { return strcmp(o->name, "saturated") == 0; }

static void write_line(reporter *r, const left *x, const hd_kernel *kernel)
{
    hd_json_write_open(r->out, NULL, '{');
    hd_json_write_text(r->out, "step", x->step);
    hd_json_write_text(r->out, "kernel", kernel->name);
    write_stats(r->out, &x->operand, &x->stats);
    if (hd_trace_is_saturation(&x->operand)) hd_json_write_count(r->out, "saturated", x->stats.sum);
    hd_buffer_text(r->out, "}");
}

static void print_line(reporter *r, const left *x, const hd_kernel *kernel)
{
    char shape[MAX_NAME], count[48];
    if (r->opt->is_json) {
        write_line(r, x, kernel);
        return;
    }
    if (hd_trace_is_saturation(&x->operand)) {
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

/* What it read: as the step before left it, or, of weights and ids, as it is. */
static hd_status read_inputs(reporter *r, const hd_step *step, hd_error *err)
{
    hd_operand    o[HD_MAX_OPERANDS];
    int32_t const n = step->kernel->op->describe(step->args, o);
    for (int32_t i = 0; i < n; i++) {
        const left *const before = find_writer(r, hd_operand_pointer(step->args, &o[i]));
        bool const        is_read = !before && o[i].role == HD_IN && hd_operand_has_values(&o[i]);
        hd_trace_input *const x = &r->inputs[r->n_inputs];
        if (o[i].role == HD_OUT) continue;
        r->n_inputs++;
        *x = (hd_trace_input){.operand = o[i], .has_stats = before || is_read};
        if (before) {
            x->stats = before->stats;
            snprintf(x->from, sizeof x->from, "%s", before->step);
        }
        if (is_read) HD_TRY(look_at_input(r, step, &o[i], &x->stats, err));
    }
    return HD_OK;
}

void hd_trace_print_input(const hd_trace_input *x, hd_buffer *out)
{
    char                          shape[MAX_NAME];
    const hd_operand_stats *const s = &x->stats;
    hd_buffer_printf(out, "  input %-10s %-20s ", x->operand.name,
                     hd_operand_print_shape(&x->operand, shape, sizeof shape));
    if (x->has_stats)
        hd_buffer_printf(out, "%.5g .. %.5g, RMS %.5g", s->min, s->max, s->rms);
    else
        hd_buffer_text(out, "codes, or a list: hadal audit reads those of a checkpoint");
    if (s->bad)
        hd_buffer_printf(out, ", %" PRId64 " not finite, the first is %" PRId64, s->bad,
                         s->first_bad);
    if (x->from[0]) hd_buffer_printf(out, ", of step %s", x->from);
    hd_buffer_text(out, "\n");
}

static void write_input(const hd_trace_input *x, hd_buffer *out)
{
    hd_json_write_open(out, NULL, '{');
    if (x->has_stats)
        write_stats(out, &x->operand, &x->stats);
    else
        hd_json_write_text(out, "operand", x->operand.name);
    hd_json_write_text(out, "from", x->from[0] ? x->from : NULL);
    hd_buffer_text(out, "}");
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

void hd_trace_print_bad(const reporter *r, hd_buffer *out)
{
    const left *const x = &r->bad;
    char              at[MAX_NAME];
    hd_buffer_printf(out,
                     "step %s (%s): %" PRId64 " of %" PRId64
                     " values of %s are NaN or infinite, the first at %s; the steps before "
                     "left none\n",
                     x->step, r->bad_kernel->name, x->stats.bad, x->stats.count, x->operand.name,
                     print_place(&x->operand, x->stats.first_bad, at, sizeof at));
}

static void write_bad(const reporter *r)
{
    const left *const x = &r->bad;
    char              at[MAX_NAME];
    hd_buffer_text(r->out, "]");
    hd_json_write_open(r->out, "stopped", '{');
    hd_json_write_text(r->out, "step", x->step);
    hd_json_write_text(r->out, "kernel", r->bad_kernel->name);
    hd_json_write_name(r->out, "at");
    hd_buffer_text(r->out, print_place(&x->operand, x->stats.first_bad, at, sizeof at));
    write_stats(r->out, &x->operand, &x->stats);
    hd_json_write_open(r->out, "inputs", '[');
    for (int32_t i = 0; i < r->n_inputs; i++) write_input(&r->inputs[i], r->out);
    hd_buffer_text(r->out, "]}");
}

static void report_bad(const reporter *r)
{
    if (r->opt->is_json) {
        write_bad(r);
        return;
    }
    hd_buffer_text(r->out, "\n");
    hd_trace_print_bad(r, r->out);
    for (int32_t i = 0; i < r->n_inputs; i++) hd_trace_print_input(&r->inputs[i], r->out);
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

bool hd_trace_is_listed(const reporter *r, const char *step)
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
        if (hd_trace_is_listed(r, x->step) || x->stats.bad) {
            print_line(r, x, step->kernel);
            r->n_listed++;
        }
        if (x->stats.bad && !bad) bad = x;
    }
    if (bad) {
        r->bad = *bad;
        r->bad_kernel = step->kernel;
        HD_TRY(read_inputs(r, step, err)); /* before the list has what it left there */
        report_bad(r);
    }
    for (int32_t i = 0; i < n_now && r->used < r->cap; i++) r->list[r->used++] = now[i];
    if (bad) return stop(r, err);
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
    if (r->opt->html) hd_trace_print_html(r, greedy, r->opt->html);
    if (r->out->failed || (r->opt->html && r->opt->html->failed))
        HD_FAIL(err, HD_ERR_MEMORY, "no memory for the report");
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
