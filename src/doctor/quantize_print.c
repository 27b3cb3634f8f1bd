#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_write.h"
#include "doctor/quantize_parts.h"
#include "doctor/report_html.h"

#define N_WORST 10 /* matrices that are listed */

/* What the audit found of the matrices that came from one format. */
typedef struct fate {
    int64_t n, exact;  /* exact: every decoded weight is the source's */
    double  sum, most; /* of relative errors of the others */
} fate;

typedef struct fates {
    fate                  of[HD_N_FORMATS];
    const hd_audit_item **worst; /* [n_worst] by falling error; owned */
    int32_t               n_worst;
} fates;

static int compare_errors(const void *x, const void *y)
{
    const hd_audit_item *const a = *(const hd_audit_item *const *)x;
    const hd_audit_item *const b = *(const hd_audit_item *const *)y;
    if (a->difference.error != b->difference.error)
        return a->difference.error > b->difference.error ? -1 : 1;
    return strcmp(a->what.name, b->what.name);
}

static void add_fate(fate *f, const hd_difference *d)
{
    f->n++;
    f->exact += d->error == 0;
    f->sum += d->error;
    f->most = fmax(f->most, d->error);
}

/* returns false when there is no memory */
static bool collect(const hd_quantize *q, fates *out)
{
    *out = (fates){.worst = hd_memory_alloc((size_t)q->n_conversions * sizeof(void *))};
    if (!out->worst) return false;
    for (int32_t i = 0; i < q->n_conversions; i++) {
        const hd_scanned *const    from = q->conversions[i].from;
        const hd_audit_item *const it = hd_audit_find(&q->audit->model, from->name);
        if (!it || !it->difference.is_known) continue; /* told by the audit */
        add_fate(&out->of[from->format], &it->difference);
        out->worst[out->n_worst++] = it;
    }
    qsort(out->worst, (size_t)out->n_worst, sizeof(void *), compare_errors);
    while (out->n_worst > 0 && out->worst[out->n_worst - 1]->difference.error == 0) out->n_worst--;
    if (out->n_worst > N_WORST) out->n_worst = N_WORST;
    return true;
}

static double mean_of(const fate *f)
{
    return f->n > f->exact ? f->sum / (double)(f->n - f->exact) : 0;
}

/* Bytes of all of the source's tensors. */
static int64_t source_bytes(const hd_quantize *q) { return hd_checkpoint_bytes(q->source.ck); }

static int64_t n_tokens(const hd_calibration_text *t)
{
    int64_t n = 0;
    for (int32_t i = 0; i < t->n; i++) n += t->lengths[i];
    return n;
}

/* ---- for people ---- */

static void print_fates(const fates *all, hd_buffer *out)
{
    for (int f = 0; f < HD_N_FORMATS; f++) {
        const fate *const a = &all->of[f];
        if (!a->n) continue;
        hd_buffer_printf(out, "  %" PRId64 " matrices %s -> NVFP4: ", a->n,
                         hd_format_name((hd_format)f));
        if (a->exact == a->n) {
            hd_buffer_text(out, "all exactly\n");
            continue;
        }
        if (a->exact) hd_buffer_printf(out, "%" PRId64 " exactly, ", a->exact);
        hd_buffer_printf(out, "%" PRId64 " with a relative error of %.3g, at most %.3g\n",
                         a->n - a->exact, mean_of(a), a->most);
    }
}

static void print_inputs(const hd_quantize *q, hd_buffer *out)
{
    if (!q->opt.engine) {
        hd_buffer_text(out, "  no input scales: activations stay as they are (see --calibrate)\n");
        return;
    }
    hd_buffer_printf(out, "  input scales from %d texts, %" PRId64 " tokens", q->opt.text->n,
                     n_tokens(q->opt.text));
    if (q->n_filled)
        hd_buffer_printf(out, "; %d experts saw none and have their layer's largest", q->n_filled);
    hd_buffer_text(out, "\n");
}

static void print_worst(const fates *all, hd_buffer *out)
{
    if (all->n_worst) hd_buffer_text(out, "\nfurthest from the source   error    cosine\n");
    for (int32_t i = 0; i < all->n_worst; i++) {
        const hd_difference *const d = &all->worst[i]->difference;
        hd_buffer_printf(out, "  %-24s %.5f  %.6f\n", all->worst[i]->what.name, d->error,
                         d->cosine);
    }
}

static void print_audit(const hd_quantize *q, hd_buffer *out)
{
    const hd_findings *const f = &q->audit->findings;
    hd_buffer_printf(out, "\naudit: %" PRId64 " errors, %" PRId64 " warnings, %" PRId64 " notes\n",
                     f->n[HD_ERROR], f->n[HD_WARNING], f->n[HD_NOTE]);
    for (int64_t i = 0; i < f->used; i++)
        if (f->list[i].severity != HD_NOTE)
            hd_buffer_printf(out, "  %s: %s\n", hd_severity_name(f->list[i].severity),
                             f->list[i].message);
}

static void print_summary(const hd_quantize *q, const fates *all, hd_buffer *out)
{
    hd_buffer_printf(out, "%s -> %s\n", q->opt.source, q->is_done ? q->target : q->model);
    print_fates(all, out);
    hd_buffer_printf(out, "  %" PRId64 " other tensors are the source's, %.1f MB\n", q->n_kept,
                     (double)q->kept_bytes / 1e6);
    print_inputs(q, out);
    hd_buffer_printf(out, "  %.1f MB -> %.1f MB\n", (double)source_bytes(q) / 1e6,
                     (double)q->bytes / 1e6);
}

void hd_quantize_print(const hd_quantize *q, hd_buffer *out)
{
    fates all;
    if (!collect(q, &all)) {
        out->failed = true;
        return;
    }
    print_summary(q, &all, out);
    print_worst(&all, out);
    print_audit(q, out);
    hd_memory_free(all.worst);
}

/* ---- as JSON ---- */

static void write_fates(const fates *all, hd_buffer *out)
{
    hd_json_write_open(out, "converted", '[');
    for (int f = 0; f < HD_N_FORMATS; f++) {
        const fate *const a = &all->of[f];
        if (!a->n) continue;
        hd_json_write_open(out, NULL, '{');
        hd_json_write_text(out, "from", hd_format_name((hd_format)f));
        hd_json_write_count(out, "n", a->n);
        hd_json_write_count(out, "exact", a->exact);
        hd_json_write_number(out, "error_mean", mean_of(a));
        hd_json_write_number(out, "error_max", a->most);
        hd_buffer_text(out, "}");
    }
    hd_buffer_text(out, "]");
}

static void write_inputs(const hd_quantize *q, hd_buffer *out)
{
    if (!q->opt.engine) {
        hd_json_write_text(out, "input_scales", NULL);
        return;
    }
    hd_json_write_open(out, "input_scales", '{');
    hd_json_write_count(out, "n", q->n_conversions);
    hd_json_write_count(out, "filled", q->n_filled);
    hd_json_write_count(out, "texts", q->opt.text->n);
    hd_json_write_count(out, "tokens", n_tokens(q->opt.text));
    hd_buffer_text(out, "}");
}

static void write_worst(const fates *all, hd_buffer *out)
{
    hd_json_write_open(out, "worst", '[');
    for (int32_t i = 0; i < all->n_worst; i++) {
        const hd_difference *const d = &all->worst[i]->difference;
        hd_json_write_open(out, NULL, '{');
        hd_json_write_text(out, "matrix", all->worst[i]->what.name);
        hd_json_write_number(out, "error", d->error);
        hd_json_write_number(out, "cosine", d->cosine);
        hd_buffer_text(out, "}");
    }
    hd_buffer_text(out, "]");
}

static void write_audit(const hd_quantize *q, hd_buffer *out)
{
    const hd_findings *const f = &q->audit->findings;
    hd_json_write_open(out, "audit", '{');
    hd_json_write_count(out, "errors", f->n[HD_ERROR]);
    hd_json_write_count(out, "warnings", f->n[HD_WARNING]);
    hd_json_write_count(out, "notes", f->n[HD_NOTE]);
    hd_json_write_open(out, "findings", '[');
    for (int64_t i = 0; i < f->used; i++) {
        if (f->list[i].severity == HD_NOTE) continue;
        hd_json_write_open(out, NULL, '{');
        hd_json_write_text(out, "severity", hd_severity_name(f->list[i].severity));
        hd_json_write_text(out, "kind", f->list[i].kind);
        hd_json_write_text(out, "message", f->list[i].message);
        hd_buffer_text(out, "}");
    }
    hd_buffer_text(out, "]}");
}

void hd_quantize_print_json(const hd_quantize *q, hd_buffer *out)
{
    fates all;
    if (!collect(q, &all)) {
        out->failed = true;
        return;
    }
    hd_json_write_open(out, NULL, '{');
    hd_json_write_text(out, "source", q->opt.source);
    hd_json_write_text(out, "result", q->is_done ? q->target : q->model);
    write_fates(&all, out);
    hd_json_write_open(out, "kept", '{');
    hd_json_write_count(out, "tensors", q->n_kept);
    hd_json_write_count(out, "bytes", q->kept_bytes);
    hd_buffer_text(out, "}");
    write_inputs(q, out);
    hd_json_write_open(out, "bytes", '{');
    hd_json_write_count(out, "source", source_bytes(q));
    hd_json_write_count(out, "result", q->bytes);
    hd_buffer_text(out, "}");
    write_worst(&all, out);
    write_audit(q, out);
    hd_buffer_text(out, "}\n");
    hd_memory_free(all.worst);
}

/* ---- as a page ---- */

static void add_summary(const hd_quantize *q, hd_buffer *out)
{
    hd_buffer text = {0};
    fates     all;
    if (collect(q, &all)) {
        print_summary(q, &all, &text);
        hd_memory_free(all.worst);
    }
    if (text.data && !text.failed)
        hd_html_lines(out, text.data);
    else
        out->failed = true;
    hd_buffer_free(&text);
}

void hd_quantize_print_html(const hd_quantize *q, hd_buffer *out)
{
    const hd_findings *const f = &q->audit->findings;
    char                     counts[160];
    snprintf(counts, sizeof counts,
             "%d matrices; audit: %" PRId64 " errors, %" PRId64 " warnings, %" PRId64 " notes",
             q->n_conversions, f->n[HD_ERROR], f->n[HD_WARNING], f->n[HD_NOTE]);
    hd_html_begin(out, "A checkpoint turned to NVFP4", counts);
    add_summary(q, out);
    hd_audit_html_sections(q->audit, false, out);
    hd_html_end(out);
}
