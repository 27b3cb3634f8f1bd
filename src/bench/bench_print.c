#include <math.h>

#include "base/json_write.h"
#include "bench/bench.h"

static double rate(double amount, const hd_bench_row *row)
{
    return row->us > 0 ? amount / (row->us * 1e-6) * 1e-9 : 0;
}

/* ---- table ---- */

static void print_machine(const hd_bench_machine *m, hd_buffer *out)
{
    hd_buffer_printf(out, "%s, kernels %s", m->name, m->kernels);
    if (m->threads) hd_buffer_printf(out, ", %d thread%s", m->threads, m->threads == 1 ? "" : "s");
    if (m->read > 0)
        hd_buffer_printf(out, "; %s %.1f GB/s", m->threads ? "reads" : "copies", m->read * 1e-9);
    if (m->peak > 0) hd_buffer_printf(out, ", multiplies %.1f GFLOP/s", m->peak * 1e-9);
    if (m->handover_us > 0) hd_buffer_printf(out, ", hands work over in %.2f us", m->handover_us);
    hd_buffer_text(out, "\n");
}

/* A number in its column; a blank where it makes no sense. */
static void print_number(hd_buffer *out, int width, int digits, double value)
{
    if (value > 0)
        hd_buffer_printf(out, " %*.*f", width, digits, value);
    else
        hd_buffer_printf(out, " %*s", width, "");
}

static void print_row(const hd_bench_row *row, hd_buffer *out)
{
    hd_buffer_printf(out, "%-24s %-30s %-20s %5d %11.2f", row->label, row->kernel, row->shape,
                     row->tokens, row->us);
    print_number(out, 10, 1, row->bytes / 1024);
    print_number(out, 8, 2, rate(row->bytes, row));
    print_number(out, 6, 1, 100 * row->read_share);
    print_number(out, 9, 1, rate(row->operations, row));
    print_number(out, 6, 1, 100 * row->peak_share);
    print_number(out, 9, 1, row->tokens_per_s);
    while (out->used > 0 && out->data[out->used - 1] == ' ') out->data[--out->used] = 0;
    hd_buffer_text(out, "\n");
}

void hd_bench_print(const hd_bench_report *r, hd_buffer *out)
{
    int32_t                   n;
    const hd_bench_row *const rows = hd_bench_rows(r, &n);
    print_machine(&r->machine, out);
    hd_buffer_printf(out, "%-24s %-30s %-20s %5s %11s %10s %8s %6s %9s %6s %9s\n", "what", "kernel",
                     "shape", "t", "us", "KiB", "GB/s", "% read", "GFLOP/s", "% peak", "tokens/s");
    for (int32_t i = 0; i < n; i++) print_row(&rows[i], out);
}

/* ---- JSON ---- */

/* null where the number makes no sense. */
static void write_number(hd_buffer *out, const char *name, double value)
{
    hd_json_write_number(out, name, value > 0 ? value : NAN);
}

static void write_machine(const hd_bench_machine *m, hd_buffer *out)
{
    hd_json_write_open(out, "machine", '{');
    hd_json_write_text(out, "name", m->name);
    hd_json_write_text(out, "kernels", m->kernels);
    write_number(out, "threads", m->threads);
    write_number(out, "read_gb_s", m->read * 1e-9);
    write_number(out, "peak_gflop_s", m->peak * 1e-9);
    write_number(out, "handover_us", m->handover_us);
    hd_buffer_text(out, "}");
}

static void write_row(const hd_bench_row *row, hd_buffer *out)
{
    hd_json_write_open(out, NULL, '{');
    hd_json_write_text(out, "name", row->label);
    hd_json_write_text(out, "op", row->op);
    hd_json_write_text(out, "kernel", row->kernel);
    hd_json_write_text(out, "shape", row->shape);
    hd_json_write_count(out, "tokens", row->tokens);
    write_number(out, "median_us", row->us);
    write_number(out, "bytes", row->bytes);
    write_number(out, "gb_s", rate(row->bytes, row));
    write_number(out, "read_pct", 100 * row->read_share);
    write_number(out, "gflop_s", rate(row->operations, row));
    write_number(out, "peak_pct", 100 * row->peak_share);
    write_number(out, "tokens_per_s", row->tokens_per_s);
    hd_buffer_text(out, "}");
}

void hd_bench_print_json(const hd_bench_report *r, hd_buffer *out)
{
    int32_t                   n;
    const hd_bench_row *const rows = hd_bench_rows(r, &n);
    hd_json_write_open(out, NULL, '{');
    hd_json_write_text(out, "bench", r->what);
    write_machine(&r->machine, out);
    hd_json_write_open(out, "rows", '[');
    for (int32_t i = 0; i < n; i++) write_row(&rows[i], out);
    hd_buffer_text(out, "]}\n");
}

/* ---- CSV ---- */

static void add_cell(hd_buffer *out, double value)
{
    if (value > 0)
        hd_buffer_printf(out, ",%.6g", value);
    else
        hd_buffer_text(out, ",");
}

/* No text of a row holds a comma or a quote. */
void hd_bench_print_csv(const hd_bench_report *r, hd_buffer *out)
{
    int32_t                   n;
    const hd_bench_row *const rows = hd_bench_rows(r, &n);
    hd_buffer_text(out,
                   "name,op,kernel,shape,tokens,median_us,bytes,gb_s,read_pct,gflop_s,peak_pct,"
                   "tokens_per_s\n");
    for (int32_t i = 0; i < n; i++) {
        const hd_bench_row *const row = &rows[i];
        hd_buffer_printf(out, "%s,%s,%s,%s,%d", row->label, row->op, row->kernel, row->shape,
                         row->tokens);
        add_cell(out, row->us);
        add_cell(out, row->bytes);
        add_cell(out, rate(row->bytes, row));
        add_cell(out, 100 * row->read_share);
        add_cell(out, rate(row->operations, row));
        add_cell(out, 100 * row->peak_share);
        add_cell(out, row->tokens_per_s);
        hd_buffer_text(out, "\n");
    }
}
