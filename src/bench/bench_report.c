#include "bench/bench_report.h"

#include <stdio.h>
#include <string.h>

#include "bench/bench_operands.h"

hd_bench_row hd_bench_row_of(const char *label, const hd_kernel *k, const void *args,
                             int32_t tokens)
{
    hd_bench_row row = {.op = k->op->name, .kernel = k->name, .tokens = tokens};
    snprintf(row.label, sizeof row.label, "%s", label);
    hd_bench_shape(k->op, args, row.shape, sizeof row.shape);
    row.bytes = hd_bench_bytes(k->op, args);
    row.operations = hd_bench_operations(k->op, args);
    return row;
}

void hd_bench_add(hd_bench_report *r, const hd_bench_row *row)
{
    hd_bench_row done = *row;
    if (r->machine.peak > 0 && row->us > 0)
        done.peak_share = row->operations / (row->us * 1e-6) / r->machine.peak;
    hd_buffer_add(&r->rows, &done, sizeof done);
}

hd_status hd_bench_finish(const hd_bench_report *r, hd_error *err)
{
    if (r->rows.failed) HD_FAIL(err, HD_ERR_MEMORY, "no room for the rows measured");
    return HD_OK;
}

const hd_bench_row *hd_bench_rows(const hd_bench_report *r, int32_t *n)
{
    *n = (int32_t)(r->rows.used / sizeof(hd_bench_row));
    return (const hd_bench_row *)(const void *)r->rows.data;
}

void hd_bench_report_free(hd_bench_report *r) { hd_buffer_free(&r->rows); }

static bool is_word(const char *at, size_t n, const char *name)
{
    return strlen(name) == n && memcmp(at, name, n) == 0;
}

/* The word behind this one, or NULL. */
static const char *next_word(const char *at)
{
    const char *const comma = strchr(at, ',');
    return comma ? comma + 1 : NULL;
}

bool hd_bench_is_listed(const char *list, const char *name)
{
    for (const char *at = list; at; at = next_word(at))
        if (is_word(at, strcspn(at, ","), name)) return true;
    return !list;
}

hd_status hd_bench_check_list(const char *list, const char *const *names, int32_t n,
                              const char *what, hd_error *err)
{
    for (const char *at = list; at; at = next_word(at)) {
        size_t const word = strcspn(at, ",");
        bool         is_known = false;
        for (int32_t i = 0; i < n; i++) is_known |= is_word(at, word, names[i]);
        if (!is_known)
            HD_FAIL(err, HD_ERR_INVALID, "'%.*s' is none of the %s that are measured", (int)word,
                    at, what);
    }
    return HD_OK;
}
