#ifndef HD_OPS_CUDA_W4A4_ROLES_SM100_CUH
#define HD_OPS_CUDA_W4A4_ROLES_SM100_CUH

#include "ops/gemm.h"
#include "ops/grouped_gemm.h"
#include "tcgen05_layout.cuh"

/* What the threads of a block do that multiplies 128 rows of NVFP4 weights by up to 256 rows of
 * NVFP4 activations on Blackwell's tensor cores: four warps load, one thread has products made, the
 * four warps write the sums.  Steps of k go round a ring of stages.
 *
 * The same text is compiled twice: by tcgen05_sm100.cuh, whose functions are instructions, and by a
 * test, whose functions are written from the description of these instructions.  Before this file
 * is included there are HD_TC_ROLE, what functions begin with, and
 *
 *   hd_tc_copy_16, hd_tc_copy_4 (to, from, is_in)   start copying to a place in shared memory, from
 *                                                   global memory, or zeros
 *   hd_tc_store_4 (to, word)
 *   hd_tc_end_copies ()         those of this thread since the last call become a group
 *   hd_tc_await_copies ()       all groups of this thread but the last HD_TC_AHEAD are there
 *   hd_tc_publish ()            what this thread put into shared memory is what tensor cores read
 *   hd_tc_arrive (barrier)
 *   hd_tc_copy_scales (column, descriptor)          from shared to tensor memory
 *   hd_tc_multiply (product)
 *   hd_tc_commit (barrier)      arrives when all copies and products of this thread are done
 *   hd_tc_load_sums (at, lane, v[8])                eight words of the lane of each thread of a
 * warp
 *
 * Weights are in rows, not in tiles: the tiles of quant/tiles.h move the bits of codes about for
 * the conversion to f16, which these cores do not want.  Of a row a line of 128 bytes goes to a
 * stage, in eight pieces that the swizzle parts; a bulk copy moves bytes as they lie, so it would
 * take one for each piece, and the copies of tensor maps, which swizzle, need a map for each expert
 * that the host has made.  So threads copy the pieces, each to where the swizzle wants it, and
 * scales word by word, each into the block of its product. */

#define HD_TC_AHEAD   2 /* groups of copies that a thread has under way behind the newest */
#define HD_TC_LOADERS 128
#define HD_TC_EXPERTS 1024 /* most */
#if HD_TC_AHEAD >= HD_TC_STAGES
#error "a stage is announced before the ring comes back to it"
#endif

/* Rows of codes and scales. */
typedef struct hd_tc_rows {
    const uint8_t *codes; /* [rows, k/2]  */
    const uint8_t *sf;    /* [rows, k/16] */
    int32_t        k;
    bool           is_even; /* whole products, and pieces and words are aligned */
} hd_tc_rows;

/* What a column of a tile is: a row of x with its scale, and the row of y that it makes. */
typedef struct hd_tc_column {
    int32_t x_row, y_row;
    float   x_scale;
} hd_tc_column;

typedef struct hd_tc_job {
    hd_tc_rows          w, x;
    int32_t             row0, n;       /* rows of w: this block's first, and all          */
    int32_t             columns, used; /* of the tile, and those of them that are there   */
    const hd_tc_column *column;        /* [used]                                          */
    float               w_scale;
    float              *y;              /* [rows, n]                                       */
    uint32_t            shared, tensor; /* addresses of this block's memory of either kind */
} hd_tc_job;

typedef struct hd_tc_product {
    uint32_t d, sfa, sfb, instruction; /* the first three in tensor memory */
    uint64_t a, b;
    bool     is_first; /* D is not added to */
} hd_tc_product;

HD_TC_ROLE void hd_tc_copy_16(uint32_t to, const void *from, bool is_in);
HD_TC_ROLE void hd_tc_copy_4(uint32_t to, const void *from, bool is_in);
HD_TC_ROLE void hd_tc_store_4(uint32_t to, uint32_t word);
HD_TC_ROLE void hd_tc_end_copies(void);
HD_TC_ROLE void hd_tc_await_copies(void);
HD_TC_ROLE void hd_tc_publish(void);
HD_TC_ROLE void hd_tc_arrive(uint32_t barrier);
HD_TC_ROLE void hd_tc_copy_scales(uint32_t column, uint64_t descriptor);
HD_TC_ROLE void hd_tc_multiply(const hd_tc_product *p);
HD_TC_ROLE void hd_tc_commit(uint32_t barrier);
HD_TC_ROLE void hd_tc_load_sums(uint32_t at, int32_t lane, float v[8]);

/* ---- what a block works on ---- */

HD_TC_BOTH hd_tc_rows hd_tc_make_rows(const void *codes, const void *sf, int32_t k)
{
    hd_tc_rows r;
    r.codes = (const uint8_t *)codes;
    r.sf = (const uint8_t *)sf;
    r.k = k;
    r.is_even = k % HD_TC_K == 0 && ((uintptr_t)codes & 15) == 0 && ((uintptr_t)sf & 3) == 0;
    return r;
}

/* The smallest tile for so many columns, or the largest. */
HD_TC_BOTH int32_t hd_tc_choose_columns(int32_t n)
{
    int32_t columns = 8;
    while (columns < n && columns < HD_TC_COLUMNS) columns *= 2;
    return columns;
}

HD_TC_BOTH bool hd_tc_gemm_fits(const hd_gemm_args *a)
{
    return a->has_codes && a->g <= 65535 && a->t <= 65535 * HD_TC_COLUMNS &&
           (int64_t)a->t * a->g <= INT32_MAX;
}

/* Group `group` of a product; row t of a group is row t * g of rows as wide as one group. */
HD_TC_BOTH void hd_tc_gemm_job(const hd_gemm_args *a, int32_t group, hd_tc_job *job)
{
    int64_t const row = (int64_t)group * a->n, offset = (int64_t)group * a->k;
    job->w = hd_tc_make_rows((const uint8_t *)a->w + row * (a->k / 2),
                             (const uint8_t *)a->sf + row * (a->k / 16), a->k);
    job->x = hd_tc_make_rows(a->x_codes + offset / 2, a->x_sf + offset / 16, a->k);
    job->n = a->n;
    job->w_scale = a->w_scale;
    job->y = a->y;
}

HD_TC_BOTH hd_tc_column hd_tc_gemm_column(const hd_gemm_args *a, int32_t group, int32_t t)
{
    hd_tc_column c;
    c.x_row = t * a->g;
    c.y_row = t * a->g + group;
    c.x_scale = a->x_scale[t];
    return c;
}

/* Twice what an expert gets if all get the same: mostly its slots are one unit. */
HD_TC_BOTH int32_t hd_tc_unit_columns(const hd_grouped_gemm_args *a)
{
    int64_t const fair = 2 * ((int64_t)a->t * a->s / (a->e > 0 ? a->e : 1) + 1);
    return hd_tc_choose_columns((int32_t)(fair < a->t ? fair : a->t));
}

/* As many as there may be, whatever the ids are. */
HD_TC_BOTH int64_t hd_tc_units(const hd_grouped_gemm_args *a)
{
    int64_t const all = (int64_t)a->t * a->s, some = a->e + all / hd_tc_unit_columns(a);
    return all < some ? all : some;
}

HD_TC_BOTH bool hd_tc_grouped_fits(const hd_grouped_gemm_args *a)
{
    return a->has_codes && a->e <= HD_TC_EXPERTS && (int64_t)a->t * a->s <= INT32_MAX - 32 &&
           hd_tc_units(a) <= 65535;
}

HD_TC_BOTH void hd_tc_grouped_job(const hd_grouped_gemm_args *a, int32_t e, hd_tc_job *job)
{
    job->w = hd_tc_make_rows(a->w[e], a->sf[e], a->k);
    job->x = hd_tc_make_rows(a->x_codes, a->x_sf, a->k);
    job->n = a->n;
    job->w_scale = a->w_scale[e];
    job->y = a->y;
}

HD_TC_BOTH hd_tc_column hd_tc_grouped_column(const hd_grouped_gemm_args *a, int32_t slot)
{
    hd_tc_column c;
    c.x_row = a->xs > 1 ? slot : slot / a->s;
    c.y_row = slot;
    c.x_scale = a->x_scale[c.x_row];
    return c;
}

HD_TC_BOTH int32_t hd_tc_steps(const hd_tc_job *job)
{
    return (job->w.k + HD_TC_STEP - 1) / HD_TC_STEP;
}

/* ---- loading ---- */

/* Bytes p[0 .. 3] of which n exist, the others 0. */
HD_TC_BOTH uint32_t hd_tc_gather(const uint8_t *p, int32_t n)
{
    uint32_t word = 0;
    for (int32_t i = 0; i < 4 && i < n; i++) word |= (uint32_t)p[i] << 8 * i;
    return word;
}

/* 32 codes of a row from k on; zeros behind its end and for row -1. */
HD_TC_ROLE void hd_tc_load_codes(const hd_tc_rows *m, int64_t row, int32_t k, uint32_t to)
{
    bool const           is_in = row >= 0 && k < m->k;
    const uint8_t *const from = is_in ? m->codes + row * (m->k / 2) + k / 2 : m->codes;
    if (m->is_even) {
        hd_tc_copy_16(to, from, is_in);
        return;
    }
    for (int32_t i = 0; i < 4; i++)
        hd_tc_store_4(to + 4 * (uint32_t)i,
                      is_in ? hd_tc_gather(from + 4 * i, (m->k - k) / 2 - 4 * i) : 0);
}

/* The four scales of 64 codes, likewise. */
HD_TC_ROLE void hd_tc_load_scales(const hd_tc_rows *m, int64_t row, int32_t k, uint32_t to)
{
    bool const           is_in = row >= 0 && k < m->k;
    const uint8_t *const from = is_in ? m->sf + row * (m->k / 16) + k / 16 : m->sf;
    if (m->is_even)
        hd_tc_copy_4(to, from, is_in);
    else
        hd_tc_store_4(to, is_in ? hd_tc_gather(from, (m->k - k) / 16) : 0);
}

HD_TC_ROLE int64_t hd_tc_row_of_w(const hd_tc_job *job, int32_t line)
{
    return job->row0 + line < job->n ? job->row0 + line : -1;
}

HD_TC_ROLE int64_t hd_tc_row_of_x(const hd_tc_job *job, int32_t column)
{
    return column < job->used ? job->column[column].x_row : -1;
}

/* Eight threads copy a line, four its scales. */
HD_TC_ROLE void hd_tc_load_step(const hd_tc_job *job, int32_t thread, int32_t step)
{
    uint32_t const columns = (uint32_t)job->columns;
    uint32_t const stage = hd_tc_slot((uint32_t)step) * hd_tc_stage_bytes(columns);
    uint32_t const sfa = stage + hd_tc_sfa(columns), sfb = stage + hd_tc_sfb(columns);
    int32_t const  k = step * HD_TC_STEP;
    for (int32_t i = thread; i < HD_TC_ROWS * 8; i += HD_TC_LOADERS)
        hd_tc_load_codes(&job->w, hd_tc_row_of_w(job, i / 8), k + i % 8 * 32,
                         stage + hd_tc_place((uint32_t)i / 8, (uint32_t)i % 8 * 16));
    for (int32_t i = thread; i < job->columns * 8; i += HD_TC_LOADERS)
        hd_tc_load_codes(&job->x, hd_tc_row_of_x(job, i / 8), k + i % 8 * 32,
                         stage + hd_tc_b() + hd_tc_place((uint32_t)i / 8, (uint32_t)i % 8 * 16));
    for (int32_t i = thread; i < HD_TC_ROWS * HD_TC_PARTS; i += HD_TC_LOADERS)
        hd_tc_load_scales(&job->w, hd_tc_row_of_w(job, i / HD_TC_PARTS),
                          k + i % HD_TC_PARTS * HD_TC_K,
                          sfa + (uint32_t)i % HD_TC_PARTS * HD_TC_SCALES +
                              hd_tc_scale_place((uint32_t)i / HD_TC_PARTS));
    for (int32_t i = thread; i < job->columns * HD_TC_PARTS; i += HD_TC_LOADERS)
        hd_tc_load_scales(&job->x, hd_tc_row_of_x(job, i / HD_TC_PARTS),
                          k + i % HD_TC_PARTS * HD_TC_K,
                          sfb + (uint32_t)i % HD_TC_PARTS * HD_TC_SCALES * hd_tc_blocks(columns) +
                              hd_tc_scale_place((uint32_t)i / HD_TC_PARTS));
}

/* Step `step` of hd_tc_steps + HD_TC_AHEAD of a loader; while there are stages to load, its slot
 * must be empty.  Announces the stage whose copies have come. */
HD_TC_ROLE void hd_tc_produce(const hd_tc_job *job, int32_t thread, int32_t step)
{
    if (step < hd_tc_steps(job)) hd_tc_load_step(job, thread, step);
    hd_tc_end_copies();
    if (step < HD_TC_AHEAD) return;
    hd_tc_await_copies();
    hd_tc_publish();
    hd_tc_arrive(hd_tc_full((uint32_t)job->columns, hd_tc_slot((uint32_t)(step - HD_TC_AHEAD))));
}

/* ---- products ---- */

HD_TC_ROLE void hd_tc_fetch_scales(const hd_tc_job *job, int32_t slot, int32_t part)
{
    uint32_t const columns = (uint32_t)job->columns, s = (uint32_t)slot, p = (uint32_t)part;
    uint32_t const stage = job->shared + s * hd_tc_stage_bytes(columns);
    uint32_t const sfb = stage + hd_tc_sfb(columns) + p * HD_TC_SCALES * hd_tc_blocks(columns);
    hd_tc_copy_scales(job->tensor + hd_tc_sfa_column(columns, s, p),
                      hd_tc_scale_operand(stage + hd_tc_sfa(columns) + p * HD_TC_SCALES));
    for (uint32_t i = 0; i < hd_tc_blocks(columns); i++)
        hd_tc_copy_scales(job->tensor + hd_tc_sfb_column(columns, s, p) + i * HD_TC_WORDS,
                          hd_tc_scale_operand(sfb + i * HD_TC_SCALES));
}

HD_TC_ROLE void hd_tc_make_product(const hd_tc_job *job, int32_t step, int32_t part)
{
    uint32_t const columns = (uint32_t)job->columns, p = (uint32_t)part;
    uint32_t const slot = hd_tc_slot((uint32_t)step);
    uint32_t const stage = job->shared + slot * hd_tc_stage_bytes(columns);
    hd_tc_product  x;
    x.d = job->tensor;
    x.sfa = job->tensor + hd_tc_sfa_column(columns, slot, p);
    x.sfb = job->tensor + hd_tc_sfb_column(columns, slot, p);
    x.instruction = hd_tc_instruction(columns);
    x.a = hd_tc_operand(stage, p);
    x.b = hd_tc_operand(stage + hd_tc_b(), p);
    x.is_first = step == 0 && part == 0;
    hd_tc_multiply(&x);
}

/* Step `step` of hd_tc_steps of the thread that has products made; its stage must be full.  Copies
 * come before products that are asked for later (9.7.16.6.2), and a commit behind both. */
HD_TC_ROLE void hd_tc_consume(const hd_tc_job *job, int32_t step)
{
    uint32_t const columns = (uint32_t)job->columns;
    int32_t const  slot = (int32_t)hd_tc_slot((uint32_t)step);
    int32_t const  left = (job->w.k - step * HD_TC_STEP + HD_TC_K - 1) / HD_TC_K;
    int32_t const  parts = left < HD_TC_PARTS ? left : HD_TC_PARTS;
    for (int32_t part = 0; part < parts; part++) hd_tc_fetch_scales(job, slot, part);
    for (int32_t part = 0; part < parts; part++) hd_tc_make_product(job, step, part);
    hd_tc_commit(hd_tc_empty(columns, (uint32_t)slot));
    if (step == hd_tc_steps(job) - 1) hd_tc_commit(hd_tc_done(columns));
}

/* ---- sums ---- */

/* Writes lane 32 warp + lane, which is a row of w; called by whole warps.  The sums must be done.
 */
HD_TC_ROLE void hd_tc_finish(const hd_tc_job *job, int32_t warp, int32_t lane)
{
    int32_t const row = job->row0 + 32 * warp + lane;
    for (int32_t c = 0; c < job->used; c += 8) {
        float v[8];
        hd_tc_load_sums(job->tensor + ((uint32_t)warp * 32 << 16) + (uint32_t)c, lane, v);
        for (int32_t i = 0; i < 8; i++) {
            if (c + i >= job->used || row >= job->n) continue;
            const hd_tc_column *const at = &job->column[c + i];
            double const              scale = (double)at->x_scale * (double)job->w_scale;
            job->y[(int64_t)at->y_row * job->n + row] = (float)(v[i] * scale);
        }
    }
}

#endif
