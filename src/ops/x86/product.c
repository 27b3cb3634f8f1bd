#include "ops/x86/product.h"

#include <stdalign.h>
#include <string.h>

#include "base/team.h"
#include "quant/fp4.h"

/* Sizes of what a thread keeps on its stack: the activations of a batch in the second cache, a tile
 * of weights in the first. */
#define TILE_T       48 /* tokens multiplied together at most */
#define TILE_STEP    6  /* formats multiply so many at once, or a part of it */
#define TILE_N       64 /* rows of a round                     */
#define MAX_LANES    16
#define INPUT_BYTES  (400 << 10)
#define WEIGHT_BYTES (20 << 10)
#define MAX_SUMS     (HD_PRODUCT_ROWS * TILE_T) /* of a round, each in all lanes */

_Static_assert(MAX_SUMS * sizeof(float) <= WEIGHT_BYTES, "results fit a tile of weights");
_Static_assert(TILE_N *HD_PRODUCT_DOT <= MAX_SUMS, "results of dot are as many as those of a tile");

typedef struct workspace {
    alignas(64) char x[INPUT_BYTES];
    alignas(64) char w[WEIGHT_BYTES];
    alignas(64) float sums[MAX_SUMS * MAX_LANES];
} workspace;

/* Up to TILE_T tokens that one matrix multiplies. */
typedef struct batch {
    hd_product_token x[TILE_T];
    float           *y[TILE_T]; /* [n] each */
    int32_t          n;
} batch;

static int32_t least(int64_t a, int64_t b) { return (int32_t)(a < b ? a : b); }

static int32_t count_groups(const hd_product_format *f, int32_t n)
{
    return (n + f->group - 1) / f->group;
}

/* Columns of a decoded tile. */
static int32_t tile_columns(const hd_product_format *f)
{
    int32_t const columns = WEIGHT_BYTES / (HD_PRODUCT_ROWS * f->w_bytes) * f->group;
    return columns / 128 * 128;
}

/* Columns that a batch of n tokens is arranged for at a time: all, if they fit. */
static int32_t input_columns(const hd_product_format *f, int32_t n, int32_t k)
{
    int32_t const tile = tile_columns(f), fit = INPUT_BYTES / n / f->x_bytes * f->group;
    int32_t const whole = fit / tile * tile;
    return k <= whole ? count_groups(f, k) * f->group : whole;
}

/* Tokens of a batch: as many as can be arranged whole, unless rows are so long that these would be
 * too few. */
static int32_t batch_tokens(const hd_product_format *f, int32_t k)
{
    int32_t const tile = tile_columns(f), tiles = (k + tile - 1) / tile;
    int32_t const n = INPUT_BYTES / (tiles * (tile / f->group) * f->x_bytes);
    int32_t const steps = least(n, TILE_T) / TILE_STEP;
    return steps > 0 ? steps * TILE_STEP : TILE_STEP;
}

/* All rows of p, at most HD_PRODUCT_ROWS, by decoded tiles. */
static void multiply_tiles(const hd_product_format *f, const hd_product_part *p,
                           hd_product_input in, char *w, float *sums)
{
    int32_t const step = tile_columns(f);
    for (int32_t k = 0; k < p->n; k += step) {
        hd_product_part tile = *p;
        tile.k0 += k;
        tile.n = least(p->n - k, step);
        int32_t const groups = count_groups(f, tile.n), width = groups * f->w_bytes;
        f->decode(&tile, w, width);
        memset(w + tile.n_rows * width, 0, (size_t)((HD_PRODUCT_ROWS - tile.n_rows) * width));
        f->multiply(w, groups, &in, sums);
        in.x += (int64_t)in.n_x * in.stride;
    }
}

/* The lanes of all sums are joined, in the place of the weights, and scaled. */
static void finish_rows(const hd_product_format *f, const hd_product_part *p, const batch *b,
                        int64_t at, workspace *s)
{
    float *const sums = (float *)(void *)s->w;
    f->add_lanes(s->sums, p->n_rows * b->n, sums);
    for (int32_t i = 0; i < b->n; i++)
        for (int32_t r = 0; r < p->n_rows; r++)
            b->y[i][at + r] = sums[r * b->n + i] * p->m->scale * b->x[i].scale;
}

static void add_products(const hd_product_format *f, const hd_product_part *p,
                         const hd_product_input *in, workspace *s)
{
    if (in->n_x <= HD_PRODUCT_DOT) {
        f->dot(p, in, s->sums);
        return;
    }
    for (int32_t r = 0; r < p->n_rows; r += HD_PRODUCT_ROWS) {
        hd_product_part tile = *p;
        tile.row += r;
        tile.n_rows = least(p->n_rows - r, HD_PRODUCT_ROWS);
        multiply_tiles(f, &tile, *in, s->w, s->sums + (int64_t)r * in->n_x * f->lanes);
    }
}

/* Columns [k0, k0 + n) of a batch, `step` at a time: these of all inputs lie together, because the
 * processor foresees what follows in memory. */
static void arrange_batch(const hd_product_format *f, const batch *b, const hd_product_part *p,
                          int32_t step, const hd_product_input *in, char *out)
{
    for (int32_t k = 0; k < p->n; k += step)
        for (int32_t i = 0; i < b->n; i++, out += in->stride)
            f->arrange(&b->x[i], p->k0 + k, least(p->n - k, step), out);
}

/* Rows [first, first + n) of m by a batch; row first + r goes to y[.][at + r].  The batch is
 * arranged once, or once a round where it does not fit whole. */
static void multiply(const hd_product_format *f, const hd_product_matrix *m, hd_product_part rows,
                     const batch *b, int64_t at)
{
    workspace        s;
    int32_t const    span = input_columns(f, b->n, m->k);
    int32_t const    tile = b->n <= HD_PRODUCT_DOT ? span : tile_columns(f);
    hd_product_input in = {s.x, b->n, tile / f->group * f->x_bytes};
    int32_t const    most = MAX_SUMS / b->n / HD_PRODUCT_ROWS * HD_PRODUCT_ROWS;
    int32_t const    step = least(most, TILE_N);
    for (int32_t r = 0; r < rows.n_rows; r += step) {
        hd_product_part p = {.m = m, .row = rows.row + r, .n_rows = least(rows.n_rows - r, step)};
        memset(s.sums, 0, sizeof *s.sums * (size_t)(step * b->n * f->lanes));
        for (; p.k0 < m->k; p.k0 += span) {
            p.n = least(m->k - p.k0, span);
            if (r == 0 || span < m->k) arrange_batch(f, b, &p, tile, &in, s.x);
            add_products(f, &p, &in, &s);
        }
        finish_rows(f, &p, b, at + r, &s);
    }
}

/* The token whose first element is number `at` of all. */
static hd_product_token plain_token(const float *x, int64_t at)
{
    return (hd_product_token){x + at, NULL, NULL, 1};
}

static hd_product_token coded_token(const uint8_t *codes, const uint8_t *sf, int64_t at,
                                    float scale)
{
    return (hd_product_token){NULL, codes + at / 2, sf + at / HD_NVFP4_BLOCK, scale};
}

/* ---- gemm ---- */

typedef struct gemm_work {
    const hd_gemm_args      *a;
    const hd_product_format *f;
    hd_product_matrix        m;
    int64_t                  y_width;
    int32_t                  most; /* tokens of a batch */
} gemm_work;

static void gather_tokens(const gemm_work *w, int32_t q, int32_t t0, batch *b)
{
    const hd_gemm_args *const a = w->a;
    b->n = least(a->t - t0, w->most);
    for (int32_t i = 0; i < b->n; i++) {
        int64_t const row = (int64_t)(t0 + i) * a->g + q;
        b->x[i] = w->f->is_coded ? coded_token(a->x_codes, a->x_sf, row * a->k, a->x_scale[t0 + i])
                                 : plain_token(a->x, row * a->k);
        b->y[i] = a->y + (t0 + i) * w->y_width + (int64_t)q * a->n;
    }
}

/* An item is a row of a batch of tokens: first all rows of all groups for the first batch. */
static void run_rows(const void *ctx, int64_t begin, int64_t end)
{
    const gemm_work *const w = ctx;
    int32_t const          n = w->a->n;
    int64_t const          all = (int64_t)w->a->g * n;
    for (int64_t item = begin, left; item < end; item += left) {
        int64_t const   row = item % all;
        int32_t const   q = (int32_t)(row / n);
        int64_t const   at = row - (int64_t)q * n;
        hd_product_part rows = {.row = row};
        batch           b;
        left = n - at < end - item ? n - at : end - item;
        rows.n_rows = (int32_t)left;
        gather_tokens(w, q, (int32_t)(item / all) * w->most, &b);
        multiply(w->f, &w->m, rows, &b, at);
    }
}

hd_status hd_product_gemm_into(const hd_gemm_args *a, int64_t y_width, hd_stream *stream,
                               const hd_product_format *f)
{
    int32_t const   most = batch_tokens(f, a->k);
    gemm_work const w = {a, f, {a->w, a->sf, a->k, f->has_scale ? a->w_scale : 1}, y_width, most};
    int64_t const   batches = ((int64_t)a->t + most - 1) / most;
    int64_t const   tokens = a->t < most ? a->t : most;
    hd_work const   work = {(int64_t)a->g * a->n * batches, HD_PRODUCT_ROWS, a->k * tokens};
    hd_team_run(stream, &work, run_rows, &w);
    return HD_OK;
}

hd_status hd_product_gemm(const hd_gemm_args *a, hd_stream *stream, const hd_product_format *f)
{
    return hd_product_gemm_into(a, (int64_t)a->g * a->n, stream, f);
}

/* ---- grouped_gemm ---- */

/* An item is a run of rows of one expert.  Experts are counted by number; or, when there are
 * fewer slots, by slot: the expert of a slot that no earlier slot goes to. */
typedef struct grouped_work {
    const hd_grouped_gemm_args *a;
    const hd_product_format    *f;
    bool                        is_by_slot;
    int32_t                     step, n_runs; /* rows of a run, runs of an expert */
    int32_t                     most;         /* tokens of a batch */
} grouped_work;

/* Collects the inputs and outputs of the next slots that go to expert e, at most w->most;
 * *next is the slot to look at first and is moved behind the last one taken. */
static void gather_slots(const grouped_work *w, int32_t e, int64_t *next, batch *b)
{
    const hd_grouped_gemm_args *const a = w->a;
    int64_t const                     slots = (int64_t)a->t * a->s;
    for (b->n = 0; *next < slots && b->n < w->most; ++*next) {
        if (a->ids[*next] != e) continue;
        int64_t const input = a->xs == 1 ? *next / a->s : *next;
        b->x[b->n] = w->f->is_coded
                         ? coded_token(a->x_codes, a->x_sf, input * a->k, a->x_scale[input])
                         : plain_token(a->x, input * a->k);
        b->y[b->n++] = a->y + *next * a->n;
    }
}

/* The expert that place `i` of the count stands for; *first is its first slot, or where to look
 * for it.  -1: none. */
static int32_t expert_at(const grouped_work *w, int64_t i, int64_t *first)
{
    const int32_t *const ids = w->a->ids;
    *first = w->is_by_slot ? i : 0;
    if (!w->is_by_slot) return (int32_t)i;
    for (int64_t j = 0; j < i; j++)
        if (ids[j] == ids[i]) return -1;
    return ids[i];
}

static void run_expert(const grouped_work *w, int32_t e, int64_t first, hd_product_part rows)
{
    const hd_grouped_gemm_args *const a = w->a;
    hd_product_matrix const           m = {a->w[e], a->sf ? a->sf[e] : NULL, a->k,
                                 w->f->has_scale ? a->w_scale[e] : 1};
    batch                             b;
    for (gather_slots(w, e, &first, &b); b.n > 0; gather_slots(w, e, &first, &b))
        multiply(w->f, &m, rows, &b, rows.row);
}

static void run_items(const void *ctx, int64_t begin, int64_t end)
{
    const grouped_work *const w = ctx;
    for (int64_t item = begin, next; item < end; item = next) {
        int64_t const i = item / w->n_runs, row = item % w->n_runs * w->step;
        int64_t       first;
        int32_t const e = expert_at(w, i, &first);
        next = (i + 1) * w->n_runs < end ? (i + 1) * w->n_runs : end;
        int64_t const   n = (next - item) * w->step;
        hd_product_part rows = {.row = row, .n_rows = least(w->a->n - row, n)};
        if (e >= 0) run_expert(w, e, first, rows);
    }
}

hd_status hd_product_grouped(const hd_grouped_gemm_args *a, hd_stream *stream,
                             const hd_product_format *f)
{
    int64_t const slots = (int64_t)a->t * a->s;
    grouped_work  w = {.a = a, .f = f, .is_by_slot = slots <= a->e};
    w.most = batch_tokens(f, a->k);
    int64_t const n_units = w.is_by_slot ? slots : a->e, each = slots / (n_units ? n_units : 1);
    w.step = each <= HD_PRODUCT_DOT ? 16 : TILE_N; /* with more tokens arranging costs more */
    w.n_runs = (a->n + w.step - 1) / w.step;
    hd_work const work = {n_units * w.n_runs, 1, (int64_t)w.step * a->k * each};
    if (slots > 0) hd_team_run(stream, &work, run_items, &w);
    return HD_OK;
}
