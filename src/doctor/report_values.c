#include "doctor/report_values.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/report_html.h"
#include "doctor/report_svg.h"

#define N_WORST    10
#define LABEL_CAP  16
#define MAX_LAYERS 1024
#define MAX_ROWS   200 /* what comes behind shares one row, so that no names make a page endless */

/* ---- values ---- */

hd_report_value hd_report_value_of(const char *name, double value)
{
    hd_report_value v = {.name = name, .row = name, .layer = HD_LAYER_NONE, .value = value};
    char           *end = NULL;
    if (strncmp(name, "mtp.", 4) == 0) {
        v.layer = HD_LAYER_MTP;
        v.row = name + 4;
        return v;
    }
    if (name[0] != 'L' || name[1] < '0' || name[1] > '9') return v;
    long const l = strtol(name + 1, &end, 10);
    if (*end != '.' || l < 0 || l >= MAX_LAYERS) return v;
    v.layer = (int32_t)l;
    v.row = end + 1;
    return v;
}

/* ---- the largest of each layer ---- */

/* A NaN is worse than any number; there it becomes infinity, so that NaN can mean nothing. */
static double fault_of(double x) { return isnan(x) ? INFINITY : x; }

static bool has_layer(const hd_report_value *v)
{
    return v->layer == HD_LAYER_MTP || (v->layer >= 0 && v->layer < MAX_LAYERS);
}

/* Columns: layers that values have, then the MTP block, then what is outside. */
static int32_t column_of(int32_t n_layers, int32_t layer)
{
    return layer >= 0 ? layer : layer == HD_LAYER_MTP ? n_layers : n_layers + 1;
}

static int32_t count_layers(const hd_report_values *v)
{
    int32_t n = 0;
    for (int32_t i = 0; i < v->n; i++)
        if (has_layer(&v->list[i]) && v->list[i].layer >= n) n = v->list[i].layer + 1;
    return n;
}

/* A table of rows by columns, in the order of the list. */
typedef struct grid {
    const char **rows;         /* [n_rows] of the values        */
    const char **cols;         /* [n_cols] */
    char (*labels)[LABEL_CAP]; /* what cols point to            */
    double *cells;             /* [n_rows, n_cols] NaN: nothing */
    int32_t n_rows, n_cols, n_layers;
    hd_pool pool;
    bool    failed;
} grid;

static int32_t find_row(const grid *g, const char *row)
{
    for (int32_t r = g->n_rows; r-- > 0;) /* neighbours are mostly alike */
        if (strcmp(g->rows[r], row) == 0) return r;
    return g->n_rows == MAX_ROWS ? MAX_ROWS - 1 : -1;
}

static void label_columns(grid *g)
{
    for (int32_t c = 0; c < g->n_cols; c++) {
        snprintf(g->labels[c], LABEL_CAP, "%d", c);
        g->cols[c] = g->labels[c];
    }
    g->cols[g->n_layers] = "mtp";
    g->cols[g->n_layers + 1] = "out";
}

static void *take(grid *g, size_t n, size_t bytes)
{
    size_t      total;
    void *const p = hd_size_mul(n ? n : 1, bytes, &total) ? hd_pool_alloc(&g->pool, total) : NULL;
    g->failed = g->failed || !p;
    return p;
}

static void fill_cells(grid *g, const hd_report_values *v)
{
    for (int32_t i = 0; i < g->n_rows * g->n_cols; i++) g->cells[i] = (double)NAN;
    for (int32_t i = 0; i < v->n; i++) {
        const hd_report_value *const x = &v->list[i];
        int32_t const                layer = has_layer(x) ? x->layer : HD_LAYER_NONE;
        int32_t const                c = column_of(g->n_layers, layer), r = find_row(g, x->row);
        double *const                cell = &g->cells[r * g->n_cols + c];
        *cell = isnan(*cell) ? fault_of(x->value) : fmax(*cell, fault_of(x->value));
    }
}

static grid make_grid(const hd_report_values *v)
{
    grid g = {.n_layers = count_layers(v)};
    g.n_cols = g.n_layers + 2;
    g.rows = take(&g, MAX_ROWS, sizeof *g.rows);
    g.cols = take(&g, (size_t)g.n_cols, sizeof *g.cols);
    g.labels = take(&g, (size_t)g.n_cols, sizeof *g.labels);
    if (g.failed) return g;
    for (int32_t i = 0; i < v->n; i++)
        if (find_row(&g, v->list[i].row) < 0) g.rows[g.n_rows++] = v->list[i].row;
    if (g.n_rows == MAX_ROWS) g.rows[MAX_ROWS - 1] = "others";
    g.cells = take(&g, (size_t)g.n_rows * (size_t)g.n_cols, sizeof *g.cells);
    if (g.failed) return g;
    label_columns(&g);
    fill_cells(&g, v);
    return g;
}

/* Whether a column has any cell: models without an MTP block get no empty one. */
static bool is_used(const grid *g, int32_t c)
{
    for (int32_t r = 0; r < g->n_rows; r++)
        if (!isnan(g->cells[r * g->n_cols + c])) return true;
    return false;
}

static int32_t worst_row(const grid *g, int32_t c)
{
    int32_t worst = -1;
    for (int32_t r = 0; r < g->n_rows; r++) {
        double const x = g->cells[r * g->n_cols + c];
        if (!isnan(x) && (worst < 0 || x > g->cells[worst * g->n_cols + c])) worst = r;
    }
    return worst;
}

static void print_by_layer(hd_buffer *out, const hd_report_values *v, const grid *g)
{
    char              head[64];
    const char *const heads[] = {"layer", "largest in", head};
    snprintf(head, sizeof head, "#%s", v->what);
    hd_html_table_begin(out, heads, 3);
    for (int32_t c = 0; c < g->n_cols; c++) {
        int32_t const r = worst_row(g, c);
        if (r < 0) continue;
        hd_html_row_begin(out);
        hd_html_cell(out, g->cols[c]);
        hd_html_cell(out, g->rows[r]);
        hd_html_number(out, "%.4g", g->cells[r * g->n_cols + c]);
        hd_html_row_end(out);
    }
    hd_html_table_end(out);
}

void hd_report_by_layer(hd_buffer *out, const hd_report_values *v)
{
    grid          g = make_grid(v);
    hd_bar *const bars = take(&g, (size_t)g.n_cols, sizeof *bars);
    char          title[128];
    hd_bars       b = {.title = title, .unit = v->what, .list = bars, .is_log = true};
    snprintf(title, sizeof title, "Largest %s by layer", v->what);
    for (int32_t c = 0; !g.failed && c < g.n_cols; c++) {
        int32_t const r = worst_row(&g, c);
        if (r >= 0) bars[b.n++] = (hd_bar){g.cols[c], g.cells[r * g.n_cols + c]};
    }
    if (b.n > 0) {
        hd_svg_bars(out, &b);
        print_by_layer(out, v, &g);
    }
    out->failed = out->failed || g.failed;
    hd_pool_free(&g.pool);
}

/* ---- rows by layers ---- */

/* Leaves out columns that nothing is in. */
static void drop_unused(grid *g)
{
    int32_t used = 0;
    for (int32_t c = 0; c < g->n_cols; c++) {
        if (!is_used(g, c)) continue;
        g->cols[used] = g->cols[c];
        for (int32_t r = 0; r < g->n_rows; r++)
            g->cells[r * g->n_cols + used] = g->cells[r * g->n_cols + c];
        used++;
    }
    for (int32_t r = 0; r < g->n_rows; r++)
        memmove(g->cells + r * used, g->cells + r * g->n_cols, (size_t)used * sizeof *g->cells);
    g->n_cols = used;
}

static void print_row(hd_buffer *out, const grid *g, int32_t r)
{
    const double *const cells = g->cells + r * g->n_cols;
    double              least = INFINITY, most = -INFINITY;
    int32_t             at = 0, n = 0;
    for (int32_t c = 0; c < g->n_cols; c++) {
        if (isnan(cells[c])) continue;
        if (cells[c] > most) at = c;
        least = fmin(least, cells[c]);
        most = fmax(most, cells[c]);
        n++;
    }
    hd_html_row_begin(out);
    hd_html_cell(out, g->rows[r]);
    hd_html_number(out, "%d", n);
    hd_html_number(out, "%.3g", least);
    hd_html_number(out, "%.3g", most);
    hd_html_cell(out, g->cols[at]);
    hd_html_row_end(out);
}

void hd_report_heat(hd_buffer *out, const hd_report_values *v)
{
    static const char *const heads[] = {"row", "#layers", "#least", "#most", "in layer"};
    char                     title[128];
    grid                     g = make_grid(v);
    snprintf(title, sizeof title, "%s by row and layer", v->what);
    title[0] = (char)(title[0] >= 'a' && title[0] <= 'z' ? title[0] - 'a' + 'A' : title[0]);
    if (!g.failed && v->n > 0) {
        drop_unused(&g);
        hd_heat const h = {title, v->what, g.rows, g.cols, g.cells, g.n_rows, g.n_cols};
        hd_svg_heat(out, &h);
        hd_html_table_begin(out, heads, 5);
        for (int32_t r = 0; r < g.n_rows; r++) print_row(out, &g, r);
        hd_html_table_end(out);
    }
    out->failed = out->failed || g.failed;
    hd_pool_free(&g.pool);
}

/* ---- how many of which size ---- */

#define MAX_BINS 64

typedef struct bin {
    char    label[LABEL_CAP];
    int64_t n;
} bin;

static void draw_bins(hd_buffer *out, const hd_bars *shape, const bin *bins, int32_t n)
{
    static const char *const heads[] = {"from", "#how many"};
    hd_bar                   bars[MAX_BINS];
    hd_bars                  b = *shape;
    for (int32_t i = 0; i < n; i++) bars[i] = (hd_bar){bins[i].label, (double)bins[i].n};
    b.list = bars;
    b.n = n;
    hd_svg_bars(out, &b);
    hd_html_table_begin(out, heads, 2);
    for (int32_t i = 0; i < n; i++) {
        hd_html_row_begin(out);
        hd_html_cell(out, bins[i].label);
        hd_html_number(out, "%" PRId64, bins[i].n);
        hd_html_row_end(out);
    }
    hd_html_table_end(out);
}

static int32_t decade_of(double x) { return (int32_t)floor(log10(x)); }

/* Bins: 0, the decades that occur and those between, what is not finite. */
void hd_report_histogram(hd_buffer *out, const hd_report_values *v)
{
    bin     bins[MAX_BINS] = {{"0", 0}};
    int32_t low = INT32_MAX, high = INT32_MIN;
    char    title[128];
    for (int32_t i = 0; i < v->n; i++) {
        double const x = v->list[i].value;
        if (!isfinite(x) || x <= 0) continue;
        low = decade_of(x) < low ? decade_of(x) : low;
        high = decade_of(x) > high ? decade_of(x) : high;
    }
    if (low > high) low = high = 0;
    if (high - low > MAX_BINS - 4) low = high - (MAX_BINS - 4); /* what is less joins the first */
    int32_t const n = high - low + 3;
    for (int32_t d = low; d <= high; d++) snprintf(bins[d - low + 1].label, LABEL_CAP, "1e%d", d);
    snprintf(bins[n - 1].label, LABEL_CAP, "inf");
    for (int32_t i = 0; i < v->n; i++) {
        double const x = v->list[i].value;
        int32_t      at = n - 1;
        if (isfinite(x)) at = x > 0 ? decade_of(x) - low + 1 : 0;
        bins[at < 1 && x > 0 ? 1 : at].n++;
    }
    snprintf(title, sizeof title, "How many have which %s", v->what);
    hd_bars const shape = {.title = title, .unit = "how many; bins begin at the number below"};
    draw_bins(out, &shape, bins, n);
}

void hd_report_bins_draw(hd_buffer *out, const hd_report_bins *b)
{
    bin     bins[MAX_BINS];
    int32_t from = 0, to = b->count;
    while (from < to && b->n[from] == 0) from++;
    while (to > from && b->n[to - 1] == 0) to--;
    if (from == to) return;
    if (to - from > MAX_BINS) from = to - MAX_BINS; /* the largest ones; smaller join the first */
    for (int32_t i = from; i < to; i++) {
        snprintf(bins[i - from].label, LABEL_CAP, "2^%d", b->first + i);
        bins[i - from].n = b->n[i];
    }
    for (int32_t i = 0; i < from; i++) bins[0].n += b->n[i];
    hd_bars const shape = {.title = b->title, .unit = b->unit, .is_log = true};
    draw_bins(out, &shape, bins, to - from);
}

/* ---- the worst ---- */

/* Larger first, faults before all; else in the order of the list. */
static int compare_values(const void *x, const void *y)
{
    const hd_report_value *const a = *(const hd_report_value *const *)x;
    const hd_report_value *const b = *(const hd_report_value *const *)y;
    double const                 p = fault_of(a->value), q = fault_of(b->value);
    if (p != q) return p < q ? 1 : -1;
    return a < b ? -1 : a > b;
}

static void print_worst(hd_buffer *out, const hd_report_values *v, const hd_bars *b,
                        const char *const *notes)
{
    bool const        has_notes = notes[0] != NULL;
    char              head[64];
    const char *const heads[] = {"step or tensor", head, "there"};
    snprintf(head, sizeof head, "#%s", v->what);
    hd_html_table_begin(out, heads, has_notes ? 3 : 2);
    for (int32_t i = 0; i < b->n; i++) {
        hd_html_row_begin(out);
        hd_html_cell(out, b->list[i].label);
        hd_html_number(out, "%.6g", b->list[i].value);
        if (has_notes) hd_html_cell(out, notes[i] ? notes[i] : "");
        hd_html_row_end(out);
    }
    hd_html_table_end(out);
}

void hd_report_worst(hd_buffer *out, const hd_report_values *v)
{
    const hd_report_value **const order = hd_memory_alloc((size_t)v->n * sizeof *order);
    hd_bar                        bars[N_WORST];
    const char                   *notes[N_WORST];
    char                          title[128];
    hd_bars b = {.title = title, .unit = v->what, .list = bars, .is_log = true};
    out->failed = out->failed || !order;
    for (int32_t i = 0; order && i < v->n; i++) order[i] = &v->list[i];
    if (order && v->n) qsort(order, (size_t)v->n, sizeof *order, compare_values);
    for (; order && b.n < v->n && b.n < N_WORST; b.n++) {
        bars[b.n] = (hd_bar){order[b.n]->name, order[b.n]->value};
        notes[b.n] = order[b.n]->note;
    }
    snprintf(title, sizeof title, "The %d with the largest %s", b.n, v->what);
    if (b.n > 0) {
        hd_svg_ranking(out, &b);
        print_worst(out, v, &b, notes);
    }
    hd_memory_free(order);
}
