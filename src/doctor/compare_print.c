#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json_write.h"
#include "doctor/compare_parts.h"
#include "doctor/report_values.h"

#define N_WORST 10

/* ---- what to show ---- */

const hd_side_tensor *hd_compare_tensor(const hd_compare *c, const hd_pair *p, int side)
{
    return &c->sides[side].list[side ? p->b : p->a];
}

const char *hd_compare_kernel(const hd_compare *c, const hd_pair *p, int side)
{
    const char *const k = hd_compare_tensor(c, p, side)->kernel;
    return k ? k : "-";
}

static bool is_far(const hd_compare *c, const hd_pair *p)
{
    return !(p->stats.error <= c->opt.tolerance);
}

/* The first pair in plan order that has different values, or is further apart than allowed. */
static const hd_pair *find_first(const hd_compare *c, bool wants_far)
{
    for (int32_t i = 0; i < c->n_pairs; i++) {
        const hd_pair *const p = &c->pairs[i];
        if (wants_far ? is_far(c, p) : p->stats.different > 0) return p;
    }
    return NULL;
}

static int32_t layer_of(const char *step) { return hd_report_value_of(step, 0).layer; }

static char *print_place(const hd_st_tensor *t, int64_t i, char *out, size_t cap)
{
    int64_t at[HD_ST_MAX_RANK] = {0};
    int     n = snprintf(out, cap, "[");
    for (int32_t d = t->rank; d-- > 0;) {
        at[d] = i % t->shape[d];
        i /= t->shape[d];
    }
    for (int32_t d = 0; d < t->rank && n >= 0 && (size_t)n < cap; d++)
        n += snprintf(out + n, cap - (size_t)n, "%s%" PRId64, d ? ", " : "", at[d]);
    if (n >= 0 && (size_t)n < cap) snprintf(out + n, cap - (size_t)n, "]");
    return out;
}

/* ---- text ---- */

static void print_head(hd_buffer *out)
{
    hd_buffer_printf(out, "%-28s %12s %11s %11s  %-14s %-28s %s\n", "step", "rel. error", "cosine",
                     "norm ratio", "worst at", "there", "kernels");
}

static void print_pair(const hd_compare *c, const hd_pair *p, hd_buffer *out)
{
    char                        at[64], values[64];
    const hd_side_tensor *const t = hd_compare_tensor(c, p, 1);
    const hd_pair_stats *const  s = &p->stats;
    snprintf(values, sizeof values, "%.6g | %.6g", s->worst_a, s->worst_b);
    hd_buffer_printf(out, "%-28s %12.4g %11.8f %11.8f  %-14s %-28s %s | %s", t->st.name, s->error,
                     s->cosine, s->ratio, print_place(&t->st, s->worst_at, at, sizeof at), values,
                     hd_compare_kernel(c, p, 0), hd_compare_kernel(c, p, 1));
    if (s->bad_a || s->bad_b)
        hd_buffer_printf(out, "  not finite: %" PRId64 " | %" PRId64, s->bad_a, s->bad_b);
    hd_buffer_text(out, "\n");
}

void hd_compare_print_first(const hd_compare *c, bool wants_far, hd_buffer *out)
{
    char                 at[64];
    const hd_pair *const p = find_first(c, wants_far);
    if (wants_far)
        hd_buffer_printf(out, "first step with a relative error above %g: ", c->opt.tolerance);
    else
        hd_buffer_text(out, "first step with different values: ");
    if (!p) {
        hd_buffer_text(out, "none\n");
        return;
    }
    const hd_st_tensor *const t = &hd_compare_tensor(c, p, 1)->st;
    hd_buffer_printf(out,
                     "%s (%s | %s), relative error %.4g, %" PRId64 " of %" PRId64
                     " values, the first at %s, row %" PRId64 " worst with %.4g\n",
                     t->name, hd_compare_kernel(c, p, 0), hd_compare_kernel(c, p, 1),
                     p->stats.error, p->stats.different, p->stats.count,
                     print_place(t, p->stats.first_different, at, sizeof at), p->stats.worst_row,
                     p->stats.row_error);
}

/* One line a layer: its worst step, and the last one, whose error the next layer inherits. */
static void print_layers(const hd_compare *c, hd_buffer *out)
{
    const char *const head = "layer    last step                rel. error      cosine  "
                             "worst step               rel. error\n";
    bool              is_first = true;
    for (int32_t i = 0; i < c->n_pairs;) {
        int32_t const  l = layer_of(hd_compare_tensor(c, &c->pairs[i], 1)->step);
        const hd_pair *last = &c->pairs[i], *worst = last;
        for (; i < c->n_pairs && layer_of(hd_compare_tensor(c, &c->pairs[i], 1)->step) == l; i++) {
            last = &c->pairs[i];
            if (!(last->stats.error <= worst->stats.error)) worst = last;
        }
        if (l < 0) continue;
        if (is_first) hd_buffer_text(out, head);
        is_first = false;
        hd_buffer_printf(out, "L%02d      %-24s %10.4g  %10.8f  %-24s %10.4g\n", l,
                         hd_compare_tensor(c, last, 1)->st.name, last->stats.error,
                         last->stats.cosine, hd_compare_tensor(c, worst, 1)->st.name,
                         worst->stats.error);
    }
    if (!is_first) hd_buffer_text(out, "\n");
}

static int compare_errors(const void *x, const void *y)
{
    const hd_pair *const a = *(const hd_pair *const *)x, *const b = *(const hd_pair *const *)y;
    double const e = a->stats.error, f = b->stats.error;
    if (isnan(e) || isnan(f)) return isnan(f) - isnan(e);
    if (e != f) return e < f ? 1 : -1;
    return a < b ? -1 : a > b; /* in the order of the plan */
}

static void print_worst(const hd_compare *c, hd_buffer *out)
{
    const hd_pair **const list = hd_memory_alloc((size_t)c->n_pairs * sizeof *list);
    out->failed = out->failed || !list;
    for (int32_t i = 0; list && i < c->n_pairs; i++) list[i] = &c->pairs[i];
    if (list) qsort(list, (size_t)c->n_pairs, sizeof *list, compare_errors);
    if (list && list[0]->stats.error != 0) {
        hd_buffer_text(out, "\nthe worst\n");
        print_head(out);
        for (int32_t i = 0; i < c->n_pairs && i < N_WORST && list[i]->stats.error != 0; i++)
            print_pair(c, list[i], out);
    }
    hd_memory_free(list);
}

void hd_compare_print_logits(const hd_compare *c, hd_buffer *out)
{
    for (int32_t i = 0; i < c->n_pairs; i++) {
        const hd_pair *const p = &c->pairs[i];
        if (!p->has_logits) continue;
        hd_buffer_printf(out,
                         "%s: KL divergence %.4g nats, at most %.4g in row %" PRId64
                         "; the same best token in %.2f %% of rows, of the five best %.2f %%\n",
                         hd_compare_tensor(c, p, 1)->st.name, p->logits.kl_mean, p->logits.kl_max,
                         p->logits.kl_row, 100 * p->logits.top1, 100 * p->logits.top5);
    }
}

void hd_compare_print_side(const hd_compare *c, int side, hd_buffer *out)
{
    const hd_compare_side *const s = c->sides[side].what;
    hd_buffer_printf(out, "%c: %s", 'A' + side, s->path);
    if (s->engine)
        hd_buffer_printf(out, ", live, activations %s, KV %s\n",
                         hd_act_name(s->engine->options.act), hd_kv_name(s->engine->options.kv));
    else
        hd_buffer_text(out, ", a dump\n");
}

void hd_compare_print(const hd_compare *c, bool is_whole, hd_buffer *out)
{
    hd_compare_print_side(c, 0, out);
    hd_compare_print_side(c, 1, out);
    hd_buffer_printf(out, "%d tensors on both sides, %d only on A's, %d only on B's\n", c->n_pairs,
                     c->n_alone[0], c->n_alone[1]);
    if (c->n_misfits)
        hd_buffer_printf(out, "%d of one name but of another size, the first is %s\n", c->n_misfits,
                         c->misfit);
    hd_buffer_text(out, "\n");
    if (is_whole) print_head(out);
    for (int32_t i = 0; is_whole && i < c->n_pairs; i++) print_pair(c, &c->pairs[i], out);
    if (is_whole) hd_buffer_text(out, "\n");
    print_layers(c, out);
    hd_compare_print_first(c, false, out);
    hd_compare_print_first(c, true, out);
    hd_compare_print_logits(c, out);
    if (!is_whole) print_worst(c, out);
}

/* ---- JSON ---- */

static void write_logits(const hd_pair *p, hd_buffer *out)
{
    hd_json_write_number(out, "kl_mean", p->logits.kl_mean);
    hd_json_write_number(out, "kl_max", p->logits.kl_max);
    hd_json_write_number(out, "top1", p->logits.top1);
    hd_json_write_number(out, "top5", p->logits.top5);
}

static void write_pair(const hd_compare *c, const hd_pair *p, hd_buffer *out)
{
    char                        at[64];
    const hd_side_tensor *const t = hd_compare_tensor(c, p, 1);
    const hd_pair_stats *const  s = &p->stats;
    hd_json_write_open(out, NULL, '{');
    hd_json_write_text(out, "tensor", t->st.name);
    hd_json_write_text(out, "step", t->step);
    hd_json_write_open(out, "kernels", '[');
    for (int side = 0; side < 2; side++)
        hd_json_write_text(out, NULL, hd_compare_kernel(c, p, side));
    hd_buffer_text(out, "]");
    hd_json_write_count(out, "count", s->count);
    hd_json_write_count(out, "different", s->different);
    hd_json_write_open(out, "bad", '[');
    hd_json_write_count(out, NULL, s->bad_a);
    hd_json_write_count(out, NULL, s->bad_b);
    hd_buffer_text(out, "]");
    hd_json_write_number(out, "error", s->error);
    hd_json_write_number(out, "cosine", s->cosine);
    hd_json_write_number(out, "ratio", s->ratio);
    hd_json_write_name(out, "worst_at");
    hd_buffer_text(out, print_place(&t->st, s->worst_at, at, sizeof at));
    hd_json_write_number(out, "worst_a", s->worst_a);
    hd_json_write_number(out, "worst_b", s->worst_b);
    hd_json_write_count(out, "worst_row", s->worst_row);
    hd_json_write_number(out, "row_error", s->row_error);
    if (p->has_logits) write_logits(p, out);
    hd_buffer_text(out, "}");
}

static void write_first(const hd_compare *c, const char *key, bool wants_far, hd_buffer *out)
{
    const hd_pair *const p = find_first(c, wants_far);
    hd_json_write_text(out, key, p ? hd_compare_tensor(c, p, 1)->st.name : NULL);
}

void hd_compare_print_json(const hd_compare *c, hd_buffer *out)
{
    hd_json_write_open(out, NULL, '{');
    hd_json_write_text(out, "a", c->opt.a.path);
    hd_json_write_text(out, "b", c->opt.b.path);
    hd_json_write_count(out, "only_a", c->n_alone[0]);
    hd_json_write_count(out, "only_b", c->n_alone[1]);
    hd_json_write_count(out, "misfits", c->n_misfits);
    hd_json_write_number(out, "tolerance", c->opt.tolerance);
    write_first(c, "first_different", false, out);
    write_first(c, "first_above_tolerance", true, out);
    hd_json_write_open(out, "tensors", '[');
    for (int32_t i = 0; i < c->n_pairs; i++) write_pair(c, &c->pairs[i], out);
    hd_buffer_text(out, "]}\n");
}
