#include <stdio.h>

#include "doctor/compare_parts.h"
#include "doctor/report_html.h"
#include "doctor/report_values.h"

#define NOTE_CAP 192

/* The errors of all pairs, with kernels and cosine beside the worst. */
static hd_report_value *list_errors(const hd_compare *c, hd_pool *pool)
{
    hd_report_value *const list = hd_pool_alloc(pool, (size_t)c->n_pairs * sizeof *list);
    char(*const notes)[NOTE_CAP] = hd_pool_alloc(pool, (size_t)c->n_pairs * NOTE_CAP);
    if (!list || !notes) return NULL;
    for (int32_t i = 0; i < c->n_pairs; i++) {
        const hd_pair *const p = &c->pairs[i];
        list[i] = hd_report_value_of(hd_compare_tensor(c, p, 1)->st.name, p->stats.error);
        list[i].note = notes[i];
        snprintf(notes[i], NOTE_CAP, "%s | %s, cosine %.8f, norm ratio %.6f",
                 hd_compare_kernel(c, p, 0), hd_compare_kernel(c, p, 1), p->stats.cosine,
                 p->stats.ratio);
    }
    return list;
}

/* Sentences that the text has too. */
static void print_sentences(const hd_compare *c, hd_buffer *out)
{
    hd_buffer text = {0};
    hd_compare_print_first(c, false, &text);
    hd_compare_print_first(c, true, &text);
    hd_compare_print_logits(c, &text);
    if (text.data) hd_html_lines(out, text.data);
    out->failed = out->failed || text.failed;
    hd_buffer_free(&text);
}

static void print_sides(const hd_compare *c, hd_buffer *out)
{
    hd_buffer text = {0};
    hd_compare_print_side(c, 0, &text);
    hd_compare_print_side(c, 1, &text);
    if (text.data) hd_html_lines(out, text.data);
    out->failed = out->failed || text.failed;
    hd_buffer_free(&text);
    hd_html_note(out, "%d tensors on both sides, %d only on A's, %d only on B's", c->n_pairs,
                 c->n_alone[0], c->n_alone[1]);
    if (c->n_misfits)
        hd_html_alarm(out, "%d of one name but of another size, the first is %s", c->n_misfits,
                      c->misfit);
}

void hd_compare_print_html(const hd_compare *c, hd_buffer *out)
{
    hd_pool                pool = {0};
    char                   verdict[96];
    hd_report_value *const list = list_errors(c, &pool);
    hd_report_values const v = {.what = "relative error", .list = list, .n = c->n_pairs};
    snprintf(verdict, sizeof verdict,
             hd_compare_differs(c) ? "They differ by more than %g." : "No difference above %g.",
             c->opt.tolerance);
    hd_html_begin(out, "Two forward passes, step by step", verdict);
    print_sides(c, out);
    print_sentences(c, out);
    if (list) {
        hd_html_section(out, "By layer");
        hd_report_by_layer(out, &v);
        hd_html_section(out, "The worst");
        hd_report_worst(out, &v);
        hd_html_section(out, "Every step");
        hd_report_heat(out, &v);
        hd_report_histogram(out, &v);
    }
    hd_html_end(out);
    out->failed = out->failed || !list;
    hd_pool_free(&pool);
}
