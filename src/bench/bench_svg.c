#include <math.h>
#include <string.h>

#include "bench/bench.h"

/* Pictures in plain SVG: what a browser shows without help. */

#define FONT   "font-family=\"sans-serif\" font-size=\"12\""
#define LEFT   260 /* where bars begin */
#define BAR    18  /* height, with the gap below it */
#define LENGTH 500 /* of the longest bar */

static void open_svg(hd_buffer *out, int32_t width, int32_t height)
{
    hd_buffer_printf(out,
                     "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                     "viewBox=\"0 0 %d %d\" " FONT ">\n"
                     "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
                     width, height, width, height);
}

/* What a row's bar shows: how near it is to what memory can do, else its speed or time. */
static double bar_value(const hd_bench_report *r, const hd_bench_row *row, const char **unit)
{
    bool const is_engine = strcmp(r->what, "engine") == 0, is_layer = strcmp(r->what, "layer") == 0;
    *unit = is_engine ? "tokens/s" : is_layer ? "us" : "% of read bandwidth";
    return is_engine ? row->tokens_per_s : is_layer ? row->us : 100 * row->read_share;
}

static void draw_bar(const hd_bench_row *row, int32_t y, double value, double most, hd_buffer *out)
{
    double const length = most > 0 ? LENGTH * value / most : 0;
    hd_buffer_printf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s, %s</text>\n", LEFT - 6,
                     y + 12, row->label, row->op);
    hd_buffer_printf(out,
                     "<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"#4477aa\"/>\n"
                     "<text x=\"%.1f\" y=\"%d\">%.4g</text>\n",
                     LEFT, y, length, BAR - 4, LEFT + length + 5, y + 12, value);
}

static void draw_bars(const hd_bench_report *r, hd_buffer *out)
{
    int32_t                   n;
    const hd_bench_row *const rows = hd_bench_rows(r, &n);
    const char               *unit = "";
    double                    most = 0;
    for (int32_t i = 0; i < n; i++) most = fmax(most, bar_value(r, &rows[i], &unit));
    open_svg(out, LEFT + LENGTH + 80, BAR * n + 50);
    hd_buffer_printf(out, "<text x=\"%d\" y=\"20\">%s on %s, kernels %s: %s</text>\n", LEFT,
                     r->what, r->machine.name, r->machine.kernels, unit);
    for (int32_t i = 0; i < n; i++)
        draw_bar(&rows[i], 34 + BAR * i, bar_value(r, &rows[i], &unit), most, out);
    hd_buffer_text(out, "</svg>\n");
}

/* ---- roofline: operations a second over operations a byte, both logarithmic ---- */

#define WIDTH  720
#define HEIGHT 420
#define MARGIN 60
#define X_LOW  (-2.0) /* powers of two of operations a byte */
#define X_HIGH 10.0
#define Y_LOW  0.0 /* of GFLOP/s */
#define Y_HIGH 12.0

static double place_x(double intensity)
{
    return MARGIN + (log2(intensity) - X_LOW) / (X_HIGH - X_LOW) * (WIDTH - 2 * MARGIN);
}

static double place_y(double gflop_s)
{
    return HEIGHT - MARGIN - (log2(gflop_s) - Y_LOW) / (Y_HIGH - Y_LOW) * (HEIGHT - 2 * MARGIN);
}

static void draw_axes(hd_buffer *out)
{
    for (double x = X_LOW; x <= X_HIGH; x += 2)
        hd_buffer_printf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g</text>\n",
                         place_x(exp2(x)), HEIGHT - MARGIN + 18, exp2(x));
    for (double y = Y_LOW; y <= Y_HIGH; y += 2)
        hd_buffer_printf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n",
                         MARGIN - 6, place_y(exp2(y)) + 4, exp2(y));
    hd_buffer_printf(out,
                     "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">operations a byte</text>\n"
                     "<text x=\"%d\" y=\"%d\">GFLOP/s</text>\n",
                     WIDTH / 2, HEIGHT - 16, MARGIN, MARGIN - 12);
}

/* Memory's slope up to the peak; on a machine whose peak was not measured the slope alone. */
static void draw_roof(const hd_bench_machine *m, hd_buffer *out)
{
    double const read = m->read * 1e-9, top = m->peak > 0 ? m->peak * 1e-9 : exp2(Y_HIGH);
    double const knee = fmin(top / read, exp2(X_HIGH));
    hd_buffer_printf(out,
                     "<polyline fill=\"none\" stroke=\"black\" points=\"%.1f,%.1f %.1f,%.1f "
                     "%.1f,%.1f\"/>\n",
                     place_x(exp2(X_LOW)), place_y(read * exp2(X_LOW)), place_x(knee),
                     place_y(knee * read), place_x(exp2(X_HIGH)), place_y(knee * read));
}

static void draw_point(const hd_bench_row *row, hd_buffer *out)
{
    if (row->bytes <= 0 || row->operations <= 0 || row->us <= 0) return;
    double const x = place_x(row->operations / row->bytes);
    double const y = place_y(row->operations / row->us * 1e-3);
    hd_buffer_printf(out,
                     "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"#4477aa\"/>\n"
                     "<text x=\"%.1f\" y=\"%.1f\" font-size=\"10\">%s, %d</text>\n",
                     x, y, x + 6, y + 3, row->label, row->tokens);
}

static void draw_roofline(const hd_bench_report *r, hd_buffer *out)
{
    int32_t                   n;
    const hd_bench_row *const rows = hd_bench_rows(r, &n);
    open_svg(out, WIDTH, HEIGHT);
    hd_buffer_printf(
        out,
        "<text x=\"%d\" y=\"20\">%s, kernels %s: products of 4096 x 4096 by format and "
        "tokens</text>\n",
        MARGIN, r->machine.name, r->machine.kernels);
    draw_axes(out);
    draw_roof(&r->machine, out);
    for (int32_t i = 0; i < n; i++) draw_point(&rows[i], out);
    hd_buffer_text(out, "</svg>\n");
}

/* ---- contexts: microseconds over tokens, both logarithmic ---- */

#define COLOURS 6
static const char *const colours[COLOURS] = {"#4477aa", "#ee6677", "#228833",
                                             "#ccbb44", "#66ccee", "#aa3377"};

/* Powers of two that hold all rows, whole ones. */
typedef struct log_frame {
    double x_low, x_high, y_low, y_high;
} log_frame;

static log_frame frame_rows(const hd_bench_row *rows, int32_t n)
{
    log_frame f = {INFINITY, -INFINITY, INFINITY, -INFINITY};
    for (int32_t i = 0; i < n; i++) {
        if (rows[i].us <= 0) continue;
        f.x_low = fmin(f.x_low, floor(log2(rows[i].context)));
        f.x_high = fmax(f.x_high, ceil(log2(rows[i].context)));
        f.y_low = fmin(f.y_low, floor(log2(rows[i].us)));
        f.y_high = fmax(f.y_high, ceil(log2(rows[i].us)));
    }
    if (!(f.x_high > f.x_low)) f.x_high = f.x_low + 1;
    if (!(f.y_high > f.y_low)) f.y_high = f.y_low + 1;
    return f;
}

static double frame_x(const log_frame *f, double x)
{
    return MARGIN + (log2(x) - f->x_low) / (f->x_high - f->x_low) * (WIDTH - 3 * MARGIN);
}

static double frame_y(const log_frame *f, double y)
{
    return HEIGHT - MARGIN - (log2(y) - f->y_low) / (f->y_high - f->y_low) * (HEIGHT - 2 * MARGIN);
}

static void draw_frame(const log_frame *f, hd_buffer *out)
{
    for (double x = f->x_low; x <= f->x_high; x += 2)
        hd_buffer_printf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g</text>\n",
                         frame_x(f, exp2(x)), HEIGHT - MARGIN + 18, exp2(x));
    for (double y = f->y_low; y <= f->y_high; y++) {
        double const at = frame_y(f, exp2(y));
        hd_buffer_printf(out,
                         "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n"
                         "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n",
                         MARGIN - 6, at + 4, exp2(y), MARGIN, WIDTH - 2 * MARGIN, at, at);
    }
    hd_buffer_printf(out,
                     "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">tokens of context</text>\n"
                     "<text x=\"%d\" y=\"%d\">us</text>\n",
                     WIDTH / 2, HEIGHT - 16, MARGIN - 30, MARGIN - 12);
}

/* The rows from `first` on that have its label, as a curve with that name at its end.
 * returns  the first row behind them */
static int32_t draw_curve(const log_frame *f, const hd_bench_row *rows, int32_t n, int32_t first,
                          const char *colour, hd_buffer *out)
{
    int32_t end = first;
    hd_buffer_printf(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"",
                     colour);
    for (; end < n && strcmp(rows[end].label, rows[first].label) == 0; end++)
        hd_buffer_printf(out, "%.1f,%.1f ", frame_x(f, rows[end].context),
                         frame_y(f, rows[end].us));
    hd_buffer_printf(out, "\"/>\n<text x=\"%.1f\" y=\"%.1f\" fill=\"%s\">%s</text>\n",
                     frame_x(f, rows[end - 1].context) + 6, frame_y(f, rows[end - 1].us) + 4,
                     colour, rows[first].label);
    return end;
}

static void draw_contexts(const hd_bench_report *r, hd_buffer *out)
{
    int32_t                   n;
    const hd_bench_row *const rows = hd_bench_rows(r, &n);
    log_frame const           f = frame_rows(rows, n);
    open_svg(out, WIDTH, HEIGHT);
    hd_buffer_printf(out, "<text x=\"%d\" y=\"20\">%s, kernels %s: one layer, %d %s</text>\n",
                     MARGIN, r->machine.name, r->machine.kernels, n ? rows[0].tokens : 0,
                     n && rows[0].tokens == 1 ? "token" : "tokens");
    if (n) draw_frame(&f, out);
    for (int32_t i = 0, curve = 0; i < n; curve++)
        i = draw_curve(&f, rows, n, i, colours[curve % COLOURS], out);
    hd_buffer_text(out, "</svg>\n");
}

void hd_bench_print_svg(const hd_bench_report *r, hd_buffer *out)
{
    if (strcmp(r->what, "roofline") == 0)
        draw_roofline(r, out);
    else if (strcmp(r->what, "contexts") == 0)
        draw_contexts(r, out);
    else
        draw_bars(r, out);
}
