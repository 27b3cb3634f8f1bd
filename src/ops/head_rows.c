#include "ops/head_rows.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops/op_errors.h"

static int32_t describe(const void *args, hd_operand out[HD_MAX_OPERANDS])
{
    const hd_head_rows_args *const a = args;
    int32_t                        n = 0;
    out[n++] = HD_OPERAND(head_rows, x, HD_INOUT, HD_F32, a->t, a->h, a->d);
    if (a->has_w) out[n++] = HD_OPERAND(head_rows, w, HD_IN, HD_F32, a->d);
    if (a->dr > 0) out[n++] = HD_OPERAND(head_rows, freq, HD_IN, HD_F32, a->dr / 2);
    out[n++] = HD_OPERAND(head_rows, pos, HD_IN, HD_I32, a->t);
    if (!a->has_pool) return n;
    out[n++] = HD_OPERAND(head_rows, seq, HD_IN, HD_I32, a->t);
    out[n++] = HD_OPERAND(head_rows, pool, HD_INOUT, HD_U8, a->n_seq,
                          hd_row_pages(&a->layout, a->cap), hd_row_page_bytes(&a->layout));
    return n;
}

static const char *breaks(const void *args)
{
    const hd_head_rows_args *const a = args;
    if (a->d < 1 || a->d > HD_ROW_MAX) return "1 <= d <= 1024";
    if (a->dr % 2 || a->dr > a->d) return "dr even, dr <= d";
    if (a->has_w && !a->has_norm) return "has_norm with has_w";
    if (a->group < 1) return "group >= 1";
    if (a->has_hadamard && (a->d & (a->d - 1))) return "d a power of two with has_hadamard";
    if (!a->has_pool) return NULL;
    if (a->h != 1) return "h 1 with has_pool";
    if (!hd_row_is_valid(&a->layout) || a->layout.d != a->d) return "layout valid and d wide";
    if (a->cap < 1 || a->n_seq < 1) return "cap, n_seq >= 1";
    return NULL;
}

/* ---- what kernels may differ by ---- */

/* Magnitudes behind the norm and the turn: a turned element may have all of its pair. */
static void find_magnitudes(const hd_head_rows_args *a, const float *x, double *out)
{
    int32_t const tail = a->d - a->dr;
    double        sum = 0, r = 1;
    for (int32_t c = 0; c < a->d; c++) sum += (double)x[c] * x[c];
    if (a->has_norm) r = 1 / sqrt(sum / a->d + a->eps);
    for (int32_t c = 0; c < a->d; c++) out[c] = fabs(x[c] * r * (a->has_w ? a->w[c] : 1.0f));
    for (int32_t c = tail; c < a->d; c += 2) out[c] = out[c + 1] = hypot(out[c], out[c + 1]);
}

/* The norm's sum has no cancellation, so every element has a relative error; the turn keeps the
 * length of a pair's error and adds a few roundings; the transform adds up errors and rounds. */
static void allow(const hd_head_rows_args *a, const float *x, double *allowed)
{
    double const by_norm = a->has_norm ? hd_sum_error(a->d) : 0;
    double       size[HD_ROW_MAX], sum = 0;
    find_magnitudes(a, x, size);
    for (int32_t c = 0; c < a->d; c++) {
        double const by_turn = c >= a->d - a->dr ? 8 * HD_ROUNDOFF : 0;
        allowed[c] = (by_norm + by_turn) * size[c];
        sum += allowed[c] + hd_sum_error(a->d) * size[c];
    }
    for (int32_t c = 0; a->has_hadamard && c < a->d; c++) allowed[c] = sum / sqrt(a->d);
}

static bool is_near(float want, float got, double allowed)
{
    if (isnan(want) || isinf(want)) return isnan(want) ? isnan(got) : got == want;
    return fabs((double)got - (double)want) <= allowed;
}

static bool judge_row(const hd_op_runs *r, int64_t row, hd_op_verdict *v)
{
    const hd_head_rows_args *const in = r->in, *const ref = r->ref, *const got = r->got;
    double allowed[HD_ROW_MAX];
    allow(in, in->x + row * in->d, allowed);
    for (int32_t c = 0; c < in->d; c++) {
        float const  w = ref->x[row * in->d + c], g = got->x[row * in->d + c];
        double const limit = allowed[c] + HD_ABSOLUTE_SLACK, err = fabs((double)g - (double)w);
        if (!is_near(w, g, limit)) {
            snprintf(v->why, sizeof v->why, "x[%" PRId64 ",%d] is %.9g, not %.9g, allowed %.3g",
                     row, (int)c, (double)g, (double)w, limit);
            return false;
        }
        if (isfinite(w) && allowed[c] > 0) v->worst = fmax(v->worst, err / limit);
    }
    return true;
}

/* ---- what is stored ---- */

/* The row of the pool that token t stores; -1: none. */
static int64_t stored_row(const hd_head_rows_args *a, int64_t t)
{
    if ((a->pos[t] + 1) % a->group != 0) return -1;
    return hd_row_of(&a->layout, a->seq[t], a->cap, a->pos[t] / a->group % a->cap);
}

/* The bytes of what the kernel left in x, whatever roundings made it. */
static bool judge_stored(const hd_head_rows_args *got, int64_t t, hd_op_verdict *v)
{
    hd_row_layout alone = got->layout;
    uint8_t       want[2 * sizeof(float) * HD_ROW_MAX];
    int64_t const row = stored_row(got, t);
    if (row < 0) return true;
    alone.page = 1;
    hd_row_write(&alone, want, 0, got->x + t * got->d);
    const uint8_t *const data = got->pool + hd_row_data_at(&got->layout, row);
    const uint8_t *const scales = got->pool + hd_row_scale_at(&got->layout, row);
    size_t const         n = (size_t)hd_row_data_bytes(&alone);
    if (memcmp(data, want, n) == 0 &&
        memcmp(scales, want + n, (size_t)hd_row_scale_bytes(&alone)) == 0)
        return true;
    snprintf(v->why, sizeof v->why, "row %" PRId64 " of the pool is not what is in x", row);
    return false;
}

/* The row that byte `at` of a pool belongs to; -1: padding. */
static int64_t row_at(const hd_row_layout *l, int64_t at)
{
    int64_t const page = at / hd_row_page_bytes(l), in_page = at % hd_row_page_bytes(l);
    int64_t const data = (int64_t)l->page * hd_row_data_bytes(l);
    if (in_page < data) return page * l->page + in_page / hd_row_data_bytes(l);
    int64_t const scale =
        hd_row_scale_bytes(l) ? (in_page - data) / hd_row_scale_bytes(l) : l->page;
    return scale < l->page ? page * l->page + scale : -1;
}

static bool is_stored(const hd_head_rows_args *a, int64_t row)
{
    for (int64_t t = 0; t < a->t; t++)
        if (row >= 0 && stored_row(a, t) == row) return true;
    return false;
}

/* Nothing else of the pool changed. */
static bool judge_rest(const hd_op_runs *r, hd_op_verdict *v)
{
    const hd_head_rows_args *const in = r->in, *const got = r->got;
    int64_t const page = hd_row_page_bytes(&in->layout);
    int64_t const n = in->n_seq * hd_row_pages(&in->layout, in->cap) * page;
    int64_t       known = -1; /* a row that is stored */
    for (int64_t at = 0; at < n; at++) {
        if (at % page == 0 && memcmp(in->pool + at, got->pool + at, (size_t)page) == 0) {
            at += page - 1;
            continue;
        }
        if (in->pool[at] == got->pool[at]) continue;
        int64_t const row = row_at(&in->layout, at);
        if (row < 0 || (row != known && !is_stored(in, row))) {
            snprintf(v->why, sizeof v->why, "byte %" PRId64 " of the pool changed", at);
            return false;
        }
        known = row;
    }
    return true;
}

/* Row t: all heads of a token and what it stores. */
static bool judge(const hd_op_runs *r, int64_t t, hd_op_verdict *v)
{
    const hd_head_rows_args *const a = r->in;
    for (int64_t h = 0; h < a->h; h++)
        if (!judge_row(r, t * a->h + h, v)) return false;
    if (!a->has_pool) return true;
    return judge_stored(r->got, t, v) && (t > 0 || judge_rest(r, v));
}

const hd_op hd_op_head_rows = {"head_rows", sizeof(hd_head_rows_args), describe, breaks, NULL,
                               judge};
