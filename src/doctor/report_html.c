#include "doctor/report_html.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8_scan.h"

#define REPLACEMENT "\xEF\xBF\xBD"

/* ---- text ---- */

/* Characters that no page should be handed by a file: C0 and C1, and those that turn the direction
 * in which what follows is read. */
static bool is_unfit(uint32_t c)
{
    return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x061C || c == 0x200E || c == 0x200F ||
           (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069) || c == 0xFEFF ||
           (c & 0xFFFE) == 0xFFFE || (c >= 0xFDD0 && c <= 0xFDEF);
}

static const char *find_entity(uint32_t c)
{
    switch (c) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '"': return "&quot;";
    case '\'': return "&#39;";
    default: return is_unfit(c) ? REPLACEMENT : NULL;
    }
}

/* Writes the character at `text` [bytes > 0]; returns its bytes. */
static size_t write_character(hd_buffer *out, const char *text, size_t bytes)
{
    int const n = hd_utf8_scan_measure(text, bytes);
    if (n <= 0) {
        hd_buffer_text(out, REPLACEMENT);
        return n < 0 ? (size_t)-n : bytes;
    }
    const char *const entity = find_entity(hd_utf8_scan_decode(text, n));
    if (entity)
        hd_buffer_text(out, entity);
    else
        hd_buffer_add(out, text, (size_t)n);
    return (size_t)n;
}

void hd_html_text_cut(hd_buffer *out, const char *text, int32_t most)
{
    size_t const bytes = strlen(text);
    size_t       at = 0;
    for (int32_t n = 0; at < bytes && n < most; n++)
        at += write_character(out, text + at, bytes - at);
    if (at < bytes) hd_buffer_text(out, "\xE2\x80\xA6");
}

void hd_html_text(hd_buffer *out, const char *text) { hd_html_text_cut(out, text, INT32_MAX); }

static void write_formatted(hd_buffer *out, const char *fmt, va_list ap) HD_PRINTF(2, 0);
static void write_formatted(hd_buffer *out, const char *fmt, va_list ap)
{
    char line[2048];
    vsnprintf(line, sizeof line, fmt, ap);
    hd_html_text(out, line);
}

/* ---- the page ---- */

/* Colours have names, so that a dark screen and paper only rename them; h0 .. h8 go from little to
 * much. */
static const char style_light[] =
    "--bg:#fff;--fg:#1b1f24;--dim:#5b6470;--line:#d5dae0;--bar:#2f6fb3;--bad:#c62828;"
    "--h0:#eef3f8;--h1:#d8e6f3;--h2:#bcd6ec;--h3:#97c0e0;--h4:#6aa5d1;--h5:#4387bd;--h6:#2a69a2;"
    "--h7:#184b80;--h8:#0b2f5b";
static const char style_dark[] =
    "--bg:#14181d;--fg:#e4e8ed;--dim:#9aa4b0;--line:#39424d;--bar:#6aa9e6;--bad:#ff6b6b;"
    "--h0:#1d252e;--h1:#20344a;--h2:#234566;--h3:#285a86;--h4:#3373a7;--h5:#4a8fc6;--h6:#70ade0;"
    "--h7:#a0ccf2;--h8:#d8ecff";
static const char style_page[] =
    "*{box-sizing:border-box}"
    "body{margin:0 auto;padding:1rem;max-width:46rem;background:var(--bg);color:var(--fg);"
    "font:16px/1.45 system-ui,sans-serif;overflow-wrap:anywhere}"
    "h1{font-size:1.35rem;margin:.2rem 0}h2{font-size:1.1rem;margin:2rem 0 .5rem;"
    "border-top:1px solid var(--line);padding-top:1rem}"
    ".sum{color:var(--dim);margin:.2rem 0 1rem}.alarm{border-left:4px solid var(--bad);"
    "padding:.3rem .7rem;margin:.6rem 0}"
    "figure{margin:1rem 0;break-inside:avoid}figcaption{font-weight:600;margin-bottom:.3rem}"
    "svg{display:block;width:100%;height:auto;background:var(--bg)}"
    "svg text{fill:var(--fg);font-family:system-ui,sans-serif;font-size:8px}"
    "svg .d{fill:var(--dim);font-size:7px}svg .e{text-anchor:end}svg .m{text-anchor:middle}"
    "svg line{stroke:var(--line);stroke-width:.6}svg .b{fill:var(--bar)}svg .x{fill:var(--bad)}"
    "svg .z{fill:none;stroke:var(--line);stroke-width:.5}"
    ".h0{fill:var(--h0)}.h1{fill:var(--h1)}.h2{fill:var(--h2)}.h3{fill:var(--h3)}"
    ".h4{fill:var(--h4)}.h5{fill:var(--h5)}.h6{fill:var(--h6)}.h7{fill:var(--h7)}"
    ".h8{fill:var(--h8)}"
    ".t{overflow:auto;max-height:24rem;margin:.5rem 0;border:1px solid var(--line)}"
    "table{border-collapse:collapse;width:100%;font-size:.82rem}"
    "th,td{padding:.2rem .5rem;text-align:left;border-bottom:1px solid var(--line);"
    "vertical-align:top;min-width:3.2rem}td:first-child{min-width:8.5rem}"
    "th{overflow-wrap:normal;position:sticky;top:0;background:var(--bg)}"
    ".n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}"
    "@media print{body{max-width:none;padding:0;font-size:10pt}.t{max-height:none;"
    "overflow:visible;border:0}th{position:static}tr{break-inside:avoid}"
    "h2,h3,figcaption{break-after:avoid}svg{max-height:19cm}"
    "*{print-color-adjust:exact;-webkit-print-color-adjust:exact}}";

void hd_html_begin(hd_buffer *out, const char *title, const char *summary)
{
    hd_buffer_text(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                        "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
                        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
                        "'none'; style-src 'unsafe-inline'\">\n<title>");
    hd_html_text(out, title);
    hd_buffer_printf(out,
                     "</title>\n<style>:root{color-scheme:light dark;%s}"
                     "@media(prefers-color-scheme:dark){:root{%s}}@media print{:root{%s}}%s"
                     "</style></head>\n<body><main><h1>",
                     style_light, style_dark, style_light, style_page);
    hd_html_text(out, title);
    hd_buffer_text(out, "</h1>\n<p class=\"sum\">");
    hd_html_text(out, summary);
    hd_buffer_text(out, "</p>\n");
}

void hd_html_section(hd_buffer *out, const char *heading)
{
    hd_buffer_text(out, "<h2>");
    hd_html_text(out, heading);
    hd_buffer_text(out, "</h2>\n");
}

void hd_html_end(hd_buffer *out) { hd_buffer_text(out, "</main></body></html>\n"); }

void hd_html_note(hd_buffer *out, const char *fmt, ...)
{
    va_list ap;
    hd_buffer_text(out, "<p>");
    va_start(ap, fmt);
    write_formatted(out, fmt, ap);
    va_end(ap);
    hd_buffer_text(out, "</p>\n");
}

void hd_html_alarm(hd_buffer *out, const char *fmt, ...)
{
    va_list ap;
    hd_buffer_text(out, "<p class=\"alarm\">");
    va_start(ap, fmt);
    write_formatted(out, fmt, ap);
    va_end(ap);
    hd_buffer_text(out, "</p>\n");
}

void hd_html_lines(hd_buffer *out, const char *text)
{
    while (*text) {
        int const n = (int)strcspn(text, "\n");
        if (n > 0) hd_html_note(out, "%.*s", n, text);
        text += n + (text[n] == '\n');
    }
}

/* ---- tables ---- */

void hd_html_table_begin(hd_buffer *out, const char *const *heads, int32_t n)
{
    hd_buffer_text(out, "<div class=\"t\"><table><thead><tr>");
    for (int32_t i = 0; i < n; i++) {
        bool const is_number = heads[i][0] == '#';
        hd_buffer_text(out, is_number ? "<th class=\"n\">" : "<th>");
        hd_html_text(out, heads[i] + is_number);
        hd_buffer_text(out, "</th>");
    }
    hd_buffer_text(out, "</tr></thead><tbody>\n");
}

void hd_html_row_begin(hd_buffer *out) { hd_buffer_text(out, "<tr>"); }

void hd_html_row_end(hd_buffer *out) { hd_buffer_text(out, "</tr>\n"); }

void hd_html_cell(hd_buffer *out, const char *text)
{
    hd_buffer_text(out, "<td>");
    hd_html_text(out, text);
    hd_buffer_text(out, "</td>");
}

void hd_html_number(hd_buffer *out, const char *fmt, ...)
{
    va_list ap;
    hd_buffer_text(out, "<td class=\"n\">");
    va_start(ap, fmt);
    write_formatted(out, fmt, ap);
    va_end(ap);
    hd_buffer_text(out, "</td>");
}

void hd_html_table_end(hd_buffer *out) { hd_buffer_text(out, "</tbody></table></div>\n"); }
