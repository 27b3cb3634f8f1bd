#include "doctor/report_svg.h"

#include <math.h>
#include <stdio.h>

#include "doctor/report_html.h"

/* All pictures are 360 units wide: a phone's width, so that letters of 8 can be read there. */
#define WIDTH 360.0

/* ---- scales ---- */

hd_scale hd_scale_make(bool is_log) { return (hd_scale){.is_log = is_log}; }

void hd_scale_widen(hd_scale *s, double x)
{
    if (!isfinite(x) || x <= 0) return;
    s->low = s->is_any ? fmin(s->low, x) : x;
    s->high = s->is_any ? fmax(s->high, x) : x;
    s->is_any = true;
}

void hd_scale_settle(hd_scale *s)
{
    if (!s->is_any) s->low = s->high = 1;
    if (s->is_log) {
        double const from = floor(log10(s->low)), to = ceil(log10(s->high));
        s->low = pow(10, fmax(from, -307)); /* normal, and so its logarithm */
        s->high = pow(10, fmin(fmax(to, from + 1), 308));
        return;
    }
    double const unit = pow(10, floor(log10(s->high)));
    s->low = 0;
    s->high = ceil(s->high / unit) * unit;
}

/* In logarithms, because the quotient of the ends may be too large. */
static double decades_of(const hd_scale *s) { return log10(s->high) - log10(s->low); }

double hd_scale_place(const hd_scale *s, double x)
{
    if (!(x > 0)) return 0;
    double const at =
        s->is_log ? log10(x / s->low) / log10(s->high / s->low) : (x - s->low) / (s->high - s->low);
    return fmin(fmax(at, 0), 1);
}

/* Whole decades, or quarters, at most six. */
static int32_t list_ticks(const hd_scale *s, double ticks[8])
{
    int32_t n = 0;
    if (!s->is_log) {
        for (; n <= 4; n++) ticks[n] = s->high * n / 4;
        return n;
    }
    int32_t const decades = (int32_t)lround(decades_of(s)), step = (decades + 4) / 5;
    for (int32_t d = 0; d <= decades; d += step) ticks[n++] = s->low * pow(10, d);
    return n;
}

/* ---- parts of pictures ---- */

static void begin_figure(hd_buffer *out, const char *title, const char *unit, double height)
{
    hd_buffer_text(out, "<figure><figcaption>");
    hd_html_text(out, title);
    hd_buffer_printf(out, "</figcaption>\n<svg viewBox=\"0 0 %g %.1f\" role=\"img\" aria-label=\"",
                     WIDTH, height);
    hd_html_text(out, title);
    hd_buffer_text(out, "\"><text class=\"d\" x=\"2\" y=\"8\">");
    hd_html_text(out, unit);
    hd_buffer_text(out, "</text>\n");
}

static void end_figure(hd_buffer *out) { hd_buffer_text(out, "</svg></figure>\n"); }

static void write_text(hd_buffer *out, const char *class, double x, double y, const char *text,
                       int32_t most)
{
    hd_buffer_printf(out, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">", class, x, y);
    hd_html_text_cut(out, text, most);
    hd_buffer_text(out, "</text>");
}

typedef struct box {
    double x, y, width, height;
} box;

/* A rectangle that tells its number when it is pointed at. */
static void write_box(hd_buffer *out, const char *class, const box *b, const char *label,
                      double value)
{
    hd_buffer_printf(out,
                     "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\">",
                     class, b->x, b->y, b->width, b->height);
    hd_buffer_text(out, "<title>");
    hd_html_text(out, label);
    hd_buffer_printf(out, ": %.4g</title></rect>", value);
}

static hd_scale scale_bars(const hd_bars *b)
{
    hd_scale s = hd_scale_make(b->is_log);
    for (int32_t i = 0; i < b->n; i++) hd_scale_widen(&s, b->list[i].value);
    hd_scale_settle(&s);
    return s;
}

static double place_value(const hd_scale *s, double x)
{
    return isfinite(x) ? hd_scale_place(s, x) : 1;
}

/* ---- upright bars ---- */

static const box plot = {40, 14, WIDTH - 44, 130};
#define LABEL_ROOM   16
#define LABEL_EVERY  24.0 /* units between labels below the axis, at least */
#define LABEL_LENGTH 8

static void draw_ticks(hd_buffer *out, const hd_scale *s)
{
    double        ticks[8];
    char          text[32];
    int32_t const n = list_ticks(s, ticks);
    for (int32_t i = 0; i < n; i++) {
        double const y = plot.y + plot.height * (1 - (i ? hd_scale_place(s, ticks[i]) : 0));
        hd_buffer_printf(out, "<line x1=\"%g\" x2=\"%g\" y1=\"%.1f\" y2=\"%.1f\"/>", plot.x,
                         plot.x + plot.width, y, y);
        snprintf(text, sizeof text, "%.3g", ticks[i]);
        write_text(out, "d e", plot.x - 4, y + 2.5, text, LABEL_LENGTH);
    }
    hd_buffer_text(out, "\n");
}

void hd_svg_bars(hd_buffer *out, const hd_bars *b)
{
    hd_scale const s = scale_bars(b);
    double const   step = b->n ? plot.width / b->n : plot.width;
    int32_t const  every = (int32_t)ceil(LABEL_EVERY / step);
    begin_figure(out, b->title, b->unit, plot.y + plot.height + LABEL_ROOM);
    draw_ticks(out, &s);
    for (int32_t i = 0; i < b->n; i++) {
        const hd_bar *const bar = &b->list[i];
        double const        height = plot.height * place_value(&s, bar->value);
        double const        x = plot.x + step * i;
        box const at = {x + 0.1 * step, plot.y + plot.height - height, 0.8 * step, height};
        write_box(out, isfinite(bar->value) ? "b" : "x", &at, bar->label, bar->value);
        if (i % every == 0)
            write_text(out, "d m", x + step / 2, plot.y + plot.height + 10, bar->label,
                       LABEL_LENGTH);
        hd_buffer_text(out, "\n");
    }
    end_figure(out);
}

/* ---- lying bars ---- */

#define RANK_HEIGHT 22.0
#define RANK_WIDTH  (WIDTH - 60)
#define RANK_LENGTH 66

void hd_svg_ranking(hd_buffer *out, const hd_bars *b)
{
    hd_scale const s = scale_bars(b);
    char           text[32];
    begin_figure(out, b->title, b->unit, 14 + RANK_HEIGHT * b->n);
    for (int32_t i = 0; i < b->n; i++) {
        const hd_bar *const bar = &b->list[i];
        double const        y = 14 + RANK_HEIGHT * i;
        double const        width = fmax(RANK_WIDTH * place_value(&s, bar->value), 1);
        box const           at = {2, y + 10, width, 8};
        write_text(out, "", 2, y + 7.5, bar->label, RANK_LENGTH);
        write_box(out, isfinite(bar->value) ? "b" : "x", &at, bar->label, bar->value);
        snprintf(text, sizeof text, "%.3g", bar->value);
        write_text(out, "", width + 6, y + 17, text, 16);
        hd_buffer_text(out, "\n");
    }
    end_figure(out);
}

/* ---- colours ---- */

#define N_COLOURS  9
#define HEAT_LEFT  92.0
#define HEAT_TOP   22.0
#define HEAT_ROW   9.0
#define HEAT_MOST  22.0 /* width of a cell, at most */
#define ROW_LENGTH 21

static hd_scale scale_heat(const hd_heat *h)
{
    hd_scale s = hd_scale_make(true);
    for (int32_t i = 0; i < h->n_rows * h->n_cols; i++) hd_scale_widen(&s, h->cells[i]);
    hd_scale_settle(&s);
    return s;
}

static const char *colour_of(const hd_scale *s, double x)
{
    static const char *const names[N_COLOURS] = {"h0", "h1", "h2", "h3", "h4",
                                                 "h5", "h6", "h7", "h8"};
    if (!isfinite(x)) return "x";
    if (x == 0) return "z";
    return names[(int)(hd_scale_place(s, x) * (N_COLOURS - 1) + 0.5)];
}

static void draw_legend(hd_buffer *out, const hd_scale *s, double y)
{
    char   text[32];
    double x = HEAT_LEFT;
    for (int i = 0; i < N_COLOURS; i++, x += 14) {
        double const value = s->low * pow(10, decades_of(s) * i / (N_COLOURS - 1));
        box const    at = {x, y, 14, 7};
        write_box(out, colour_of(s, value), &at, "about", value);
        snprintf(text, sizeof text, "%.1g", value);
        if (i % 4 == 0) write_text(out, "d m", x + 7, y + 15, text, 16);
    }
    box const zero = {x + 14, y, 14, 7}, fault = {x + 50, y, 14, 7};
    write_box(out, "z", &zero, "none", 0);
    write_text(out, "d", x + 30, y + 6.5, "0", 4);
    write_box(out, "x", &fault, "not finite", INFINITY);
    write_text(out, "d", x + 67, y + 6.5, "not finite", 12);
    hd_buffer_text(out, "\n");
}

static void draw_row(hd_buffer *out, const hd_heat *h, const hd_scale *s, int32_t r, double width)
{
    double const y = HEAT_TOP + HEAT_ROW * r;
    char         label[256];
    write_text(out, "d e", HEAT_LEFT - 4, y + 6.8, h->rows[r], ROW_LENGTH);
    for (int32_t c = 0; c < h->n_cols; c++) {
        double const x = h->cells[r * h->n_cols + c];
        box const    at = {HEAT_LEFT + width * c, y, width * 0.94, HEAT_ROW - 0.6};
        if (isnan(x)) continue;
        snprintf(label, sizeof label, "%s %s", h->cols[c], h->rows[r]);
        write_box(out, colour_of(s, x), &at, label, x);
    }
    hd_buffer_text(out, "\n");
}

void hd_svg_heat(hd_buffer *out, const hd_heat *h)
{
    hd_scale const s = scale_heat(h);
    double const   room = (WIDTH - HEAT_LEFT - 2) / (h->n_cols ? h->n_cols : 1);
    double const   width = fmin(room, HEAT_MOST), below = HEAT_TOP + HEAT_ROW * h->n_rows + 6;
    int32_t const  every = (int32_t)ceil(14 / width);
    begin_figure(out, h->title, h->unit, below + 18);
    for (int32_t c = 0; c < h->n_cols; c += every)
        write_text(out, "d m", HEAT_LEFT + width * (c + 0.5), HEAT_TOP - 3, h->cols[c], 4);
    hd_buffer_text(out, "\n");
    for (int32_t r = 0; r < h->n_rows; r++) draw_row(out, h, &s, r, width);
    draw_legend(out, &s, below);
    end_figure(out);
}
