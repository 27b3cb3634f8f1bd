#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/audit_parts.h"
#include "doctor/report_html.h"
#include "doctor/report_values.h"

/* ---- tensors as values ---- */

/* Where in a name the layer stands: "model.layers.3.mlp.gate" is mlp.gate of layer 3. */
static hd_report_value place(const char *name, char *row, size_t cap)
{
    hd_report_value   v = {.name = name, .row = row, .layer = HD_LAYER_NONE};
    const char *const layers = strstr(name, "layers.");
    const char       *rest = name;
    char             *end = NULL;
    if (strncmp(name, "mtp.", 4) == 0) {
        v.layer = HD_LAYER_MTP;
    } else if (layers && layers[7] >= '0' && layers[7] <= '9') {
        long const l = strtol(layers + 7, &end, 10);
        v.layer = *end == '.' && l < INT16_MAX ? (int32_t)l : HD_LAYER_NONE;
        if (v.layer >= 0) rest = end + 1;
    }
    hd_audit_pattern(rest, row, cap);
    return v;
}

#define ROW_CAP 96

/* What is shown of each item: NaN where it has none. */
typedef double number_of(const hd_audit_item *it);

typedef struct numbers {
    hd_report_value *list; /* [n] of the pool */
    char (*rows)[ROW_CAP];
    int32_t n;
} numbers;

static hd_status collect(const hd_audit *a, number_of *number, numbers *x, hd_pool *pool)
{
    size_t const n = (size_t)a->model.used;
    *x = (numbers){.list = hd_pool_alloc(pool, n * sizeof *x->list),
                   .rows = hd_pool_alloc(pool, n * sizeof *x->rows)};
    if (!x->list || !x->rows) return HD_ERR_MEMORY;
    for (int64_t i = 0; i < a->model.used; i++) {
        const hd_audit_item *const it = &a->model.items[i];
        double const               value = number(it);
        if (isnan(value)) continue;
        x->list[x->n] = place(it->what.name, x->rows[x->n], ROW_CAP);
        x->list[x->n++].value = value;
    }
    return HD_OK;
}

/* Values that are not finite show as a fault. */
static double largest_of(const hd_audit_item *it)
{
    if (it->what.limit > 0) return (double)NAN; /* whole numbers */
    return it->scan.broken.n || it->scan.nan.n ? INFINITY : it->scan.amax;
}

static double error_of(const hd_audit_item *it)
{
    if (!it->difference.is_known) return (double)NAN;
    return isnan(it->difference.error) ? INFINITY : it->difference.error;
}

static double saturated_of(const hd_audit_item *it)
{
    if (it->scan.blocks == 0) return (double)NAN;
    return (double)it->scan.saturated.n / (double)it->scan.blocks;
}

static void draw(const hd_audit *a, number_of *number, const char *what, hd_buffer *out)
{
    hd_pool pool = {0};
    numbers x;
    if (collect(a, number, &x, &pool) != HD_OK)
        out->failed = true;
    else {
        hd_report_values const v = {.what = what, .list = x.list, .n = x.n};
        hd_report_by_layer(out, &v);
        hd_report_worst(out, &v);
        hd_report_heat(out, &v);
        hd_report_histogram(out, &v);
    }
    hd_pool_free(&pool);
}

/* ---- scales ---- */

static bool has_any(const int64_t *n, int32_t count)
{
    for (int32_t i = 0; i < count; i++)
        if (n[i]) return true;
    return false;
}

static void draw_block_scales(const hd_audit *a, hd_format f, hd_buffer *out)
{
    char                 title[64];
    hd_report_bins const b = {.title = title,
                              .unit = "how many blocks; bins begin at the power of two below",
                              .n = a->bins.n[f],
                              .count = HD_SCALE_BINS,
                              .first = HD_SCALE_FIRST};
    snprintf(title, sizeof title, "Block scales of %s", hd_format_name(f));
    if (has_any(b.n, b.count)) hd_report_bins_draw(out, &b);
}

static void draw_tensor_scales(const hd_audit *a, hd_buffer *out)
{
    int64_t              n[HD_SCALE_BINS] = {0};
    hd_report_bins const b = {.title = "Tensor scales",
                              .unit = "how many matrices; bins begin at the power of two below",
                              .n = n,
                              .count = HD_SCALE_BINS,
                              .first = HD_SCALE_FIRST};
    for (int64_t i = 0; i < a->model.used; i++) {
        double const x = a->model.items[i].scan.tensor_scale;
        int const    at = isfinite(x) && x > 0 ? ilogb(x) - HD_SCALE_FIRST : -1;
        if (at >= 0 && at < HD_SCALE_BINS) n[at]++;
    }
    if (has_any(n, HD_SCALE_BINS)) hd_report_bins_draw(out, &b);
}

/* ---- findings ---- */

static void print_finding(const hd_finding *x, hd_buffer *out)
{
    hd_html_row_begin(out);
    hd_html_cell(out, hd_severity_name(x->severity));
    hd_html_cell(out, x->kind);
    hd_html_cell(out, x->tensor ? x->tensor : "");
    hd_html_cell(out, x->message);
    hd_html_row_end(out);
}

/* Those of one severity and kind; returns how many are left out. */
static int64_t print_kind(const hd_audit *a, hd_severity s, const hd_finding_kind *kind,
                          bool is_whole, hd_buffer *out)
{
    const hd_findings *const f = &a->findings;
    int64_t                  n = 0;
    for (int64_t i = 0; i < f->used; i++) {
        const hd_finding *const x = &f->list[i];
        if (x->severity != s || x->kind != kind->name) continue;
        if (is_whole || n < HD_AUDIT_SHOWN) print_finding(x, out);
        n++;
    }
    return is_whole || n < HD_AUDIT_SHOWN ? 0 : n - HD_AUDIT_SHOWN;
}

static void print_findings(const hd_audit *a, bool is_whole, hd_buffer *out)
{
    static const char *const heads[] = {"severity", "kind", "tensor", "what"};
    const hd_findings *const f = &a->findings;
    int64_t                  left_out = 0;
    if (f->used == 0) {
        hd_html_note(out, "None.");
        return;
    }
    hd_html_table_begin(out, heads, 4);
    for (int s = HD_ERROR; s >= HD_NOTE; s--)
        for (int32_t i = 0; i < f->n_kinds; i++)
            left_out += print_kind(a, (hd_severity)s, &f->kinds[i], is_whole, out);
    hd_html_table_end(out);
    if (left_out)
        hd_html_note(out, "and %" PRId64 " more of these kinds: --all shows them here too",
                     left_out);
}

/* ---- the page ---- */

void hd_audit_html_sections(const hd_audit *a, bool is_whole, hd_buffer *out)
{
    hd_html_section(out, "Findings");
    print_findings(a, is_whole, out);
    if (a->has_other) {
        hd_html_section(out, "Against the other checkpoint");
        draw(a, error_of, "relative error", out);
    }
    hd_html_section(out, "Scales");
    draw_tensor_scales(a, out);
    for (hd_format f = HD_FMT_NONE; f < HD_N_FORMATS; f++) draw_block_scales(a, f, out);
    draw(a, saturated_of, "share of saturated blocks", out);
    hd_html_section(out, "Largest weights");
    draw(a, largest_of, "magnitude", out);
}

void hd_audit_print_html(const hd_audit *a, bool is_whole, hd_buffer *out)
{
    const hd_audit_side *const m = &a->model;
    char                       counts[160];
    snprintf(counts, sizeof counts, "%" PRId64 " errors, %" PRId64 " warnings, %" PRId64 " notes",
             hd_audit_count(a, HD_ERROR), hd_audit_count(a, HD_WARNING),
             hd_audit_count(a, HD_NOTE));
    hd_html_begin(out, "Audit of a checkpoint", counts);
    hd_html_note(out, "%s: %d tensors, %" PRId64 " bytes, %d shards; %s",
                 hd_checkpoint_folder(m->ck), hd_checkpoint_count(m->ck),
                 hd_checkpoint_bytes(m->ck), hd_checkpoint_shards(m->ck),
                 *m->survey.family ? m->survey.family : "no model");
    hd_audit_html_sections(a, is_whole, out);
    hd_html_end(out);
}
