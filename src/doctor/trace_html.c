#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "doctor/report_html.h"
#include "doctor/report_values.h"
#include "doctor/trace_report_parts.h"

/* Numbers of all operands that are listed, under the names that dumps have. */
typedef struct numbers {
    hd_report_value *largest, *rms, *saturated; /* [n] of the pool */
    int32_t          n, n_saturated;
    hd_pool          pool;
    bool             failed;
} numbers;

static const char *name_of(numbers *x, const hd_trace_left *l)
{
    char              name[HD_TRACE_NAME + 64];
    int const         n = snprintf(name, sizeof name, "%s.%s", l->step, l->operand.name);
    const char *const copy = hd_pool_copy(&x->pool, name, n > 0 ? (size_t)n : 0);
    x->failed = x->failed || !copy;
    return copy ? copy : "";
}

/* Ids and counts have no size that says something. */
static void add(numbers *x, const hd_trace_left *l)
{
    const char *const name = name_of(x, l);
    if (hd_trace_is_saturation(&l->operand)) {
        if (l->stats.sum > 0)
            x->saturated[x->n_saturated++] = hd_report_value_of(name, (double)l->stats.sum);
        return;
    }
    if (l->operand.dtype == HD_I32) return;
    bool const   is_bad = l->stats.bad > 0;
    double const most = fmax(fabs(l->stats.min), fabs(l->stats.max));
    x->largest[x->n] = hd_report_value_of(name, is_bad ? INFINITY : most);
    x->rms[x->n++] = hd_report_value_of(name, is_bad ? INFINITY : l->stats.rms);
}

static numbers collect(const hd_trace_reporter *r)
{
    numbers      x = {0};
    size_t const bytes = (size_t)r->used * sizeof *x.rms;
    x.largest = hd_pool_alloc(&x.pool, bytes);
    x.rms = hd_pool_alloc(&x.pool, bytes);
    x.saturated = hd_pool_alloc(&x.pool, bytes);
    x.failed = !x.largest || !x.rms || !x.saturated;
    for (int32_t i = 0; !x.failed && i < r->used; i++)
        if (r->list[i].stats.bad || hd_trace_is_listed(r, r->list[i].step)) add(&x, &r->list[i]);
    return x;
}

static void print_stop(const hd_trace_reporter *r, hd_buffer *out)
{
    hd_buffer bad = {0}, inputs = {0};
    hd_trace_print_bad(r, &bad);
    for (int32_t i = 0; i < r->n_inputs; i++) hd_trace_print_input(&r->inputs[i], &inputs);
    hd_html_alarm(out, "%s", bad.data ? bad.data : "");
    if (inputs.data) hd_html_lines(out, inputs.data);
    out->failed = out->failed || bad.failed || inputs.failed;
    hd_buffer_free(&bad);
    hd_buffer_free(&inputs);
}

static void print_setting(const hd_trace_reporter *r, int32_t greedy, hd_buffer *out)
{
    const hd_options *const o = &r->e->options;
    hd_html_note(out, "%s; %d tokens, activations %s, KV %s, %d steps run", o->model, r->opt->n,
                 hd_act_name(o->act), hd_kv_name(o->kv), r->n_steps);
    if (r->is_bad)
        print_stop(r, out);
    else
        hd_html_note(out, "Greedy next token: %d", greedy);
}

static void draw(const numbers *x, hd_buffer *out)
{
    hd_report_values const largest = {"magnitude", x->largest, x->n};
    hd_report_values const rms = {"root of the mean square", x->rms, x->n};
    hd_report_values const full = {"saturated blocks", x->saturated, x->n_saturated};
    hd_html_section(out, "By layer");
    hd_report_by_layer(out, &largest);
    hd_html_section(out, "The largest");
    hd_report_worst(out, &largest);
    hd_html_section(out, "Every step");
    hd_report_heat(out, &rms);
    hd_report_histogram(out, &rms);
    hd_html_section(out, "Roundings");
    if (x->n_saturated == 0) hd_html_note(out, "No block of a rounding had a scale above 448.");
    hd_report_by_layer(out, &full);
    hd_report_worst(out, &full);
}

void hd_trace_print_html(const hd_trace_reporter *r, int32_t greedy, hd_buffer *out)
{
    numbers x = collect(r);
    hd_html_begin(out, "What each step of a pass leaves",
                  r->is_bad ? "A step left values that are not finite." : "All steps are finite.");
    print_setting(r, greedy, out);
    if (!x.failed) draw(&x, out);
    hd_html_end(out);
    out->failed = out->failed || x.failed;
    hd_pool_free(&x.pool);
}
