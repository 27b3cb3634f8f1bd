#include "bench/bench_operands.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops/embed.h"
#include "ops/head_rows.h"
#include "quant/fp4.h"

static uint32_t next_random(uint64_t *s)
{
    *s = *s * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*s >> 33);
}

static bool is_named(const hd_operand *o, const char *name) { return strcmp(o->name, name) == 0; }

static bool is_product(const hd_op *op) { return strncmp(op->name, "gemm_", 5) == 0; }
static bool is_grouped(const hd_op *op) { return strncmp(op->name, "grouped_gemm_", 13) == 0; }

/* ---- values ---- */

static float random_float(const hd_operand *o, const hd_bench_filler *f, uint32_t r)
{
    if (f->has_bf16_x && is_named(o, "x")) return (float)(r % 255) / 128 - 1;
    if (f->has_fit && strncmp(o->name, "scale", 5) == 0) return (float)(32 + r % 32) / 131072;
    if (f->has_fp4_q && is_named(o, "q")) return hd_e2m1_to_f32((uint8_t)r);
    return (float)r / (float)(1U << 30) - 1;
}

/* Codes may be anything; scales, E4M3 or E8M0, are near one, and so are rows of a cache.  Those of
 * the indexer went through a Hadamard transform: the scales of one are within a factor of four. */
static uint8_t random_byte(const hd_operand *o, uint32_t r)
{
    if (is_named(o, "w") || is_named(o, "x_codes")) return (uint8_t)r;
    if (is_named(o, "keys")) return (uint8_t)(0x7D + r % 3);
    return (uint8_t)(0x30 + r % (is_named(o, "sf") ? 16 : 8));
}

/* Of 256 experts; those of one token differ, and those of 32 sets of one token. */
static int32_t random_expert(const hd_operand *o, const hd_bench_filler *f, int64_t i, uint32_t r)
{
    int32_t const cols = (int32_t)hd_operand_cols(o);
    int32_t const alone = f->set % 16 + f->set / 16 * 96;
    return ((o->shape[0] == 1 ? alone : (int32_t)(r % 256)) + 16 * (int32_t)(i % cols)) % 256;
}

static int32_t random_id(const hd_operand *o, const hd_bench_filler *f, int64_t i, uint32_t r)
{
    int32_t const cols = (int32_t)hd_operand_cols(o);
    if (is_named(o, "pos")) return f->context - 1;
    if (is_named(o, "seq")) return (int32_t)i;
    if (is_named(o, "ids") && cols < 16) return random_expert(o, f, i, r);
    return (int32_t)(i % cols);
}

void hd_bench_fill(const hd_operand *o, hd_bench_filler *f, void *data)
{
    int64_t const n = hd_operand_count(o);
    for (int64_t i = 0; i < n; i++) {
        uint32_t const r = next_random(&f->rng);
        switch (o->dtype) {
        case HD_F32: ((float *)data)[i] = random_float(o, f, r); break;
        case HD_BF16: ((uint16_t *)data)[i] = (uint16_t)(0x3F00 | (r & 0x80FF)); break;
        case HD_U8: ((uint8_t *)data)[i] = random_byte(o, r); break;
        case HD_I32: ((int32_t *)data)[i] = random_id(o, f, i, r); break;
        }
    }
}

/* ---- making them ---- */

/* All members of a list hold the same values, each in memory of its own. */
static hd_status put_list(hd_bench_place *p, const void *host, size_t bytes, int32_t n, void **out,
                          hd_error *err)
{
    void    **members = hd_memory_alloc((size_t)n * sizeof *members);
    hd_status s = HD_OK;
    if (!members) HD_FAIL(err, HD_ERR_MEMORY, "no room for a list of %d operands", n);
    for (int32_t i = 0; i < n && s == HD_OK; i++)
        s = hd_bench_put(p, host, bytes, &members[i], err);
    if (s == HD_OK) s = hd_bench_put(p, members, (size_t)n * sizeof *members, out, err);
    hd_memory_free(members);
    return s;
}

static hd_status put_operand(hd_bench_place *p, const hd_operand *o, hd_bench_filler *f, void **out,
                             hd_error *err)
{
    size_t const bytes = (size_t)hd_operand_count(o) * hd_dtype_bytes(o->dtype);
    void *const  host = hd_memory_alloc(bytes);
    if (!host) HD_FAIL(err, HD_ERR_MEMORY, "no room for an operand of %zu bytes", bytes);
    hd_bench_fill(o, f, host);
    hd_status const s = o->list ? put_list(p, host, bytes, o->list, out, err)
                                : hd_bench_put(p, host, bytes, out, err);
    hd_memory_free(host);
    return s;
}

hd_status hd_bench_make_operands(hd_bench_place *p, const hd_op *op, hd_bench_args *args,
                                 hd_bench_filler *f, hd_error *err)
{
    hd_operand    o[HD_MAX_OPERANDS];
    int32_t const n = op->describe(args, o);
    for (int32_t i = 0; i < n; i++) {
        void *to;
        if (f->only && !is_named(&o[i], f->only)) continue;
        HD_TRY(put_operand(p, &o[i], f, &to, err));
        memcpy((char *)args + o[i].slot, &to, sizeof to);
    }
    return HD_OK;
}

/* ---- what they cost ---- */

/* Experts that tokens hit which choose s different ones each. */
static double distinct_experts(const hd_grouped_gemm_args *a)
{
    return a->e * (1 - pow(1 - (double)a->s / a->e, a->t));
}

static double attention_share(const hd_attn_sparse_args *a, const hd_operand *o)
{
    if (is_named(o, "win")) return (double)a->window / a->win_cap;
    if (is_named(o, "rows") && a->k) return (double)a->k / a->row_cap;
    return 1;
}

/* The part of an operand that a call touches. */
static double touched_share(const hd_op *op, const void *args, const hd_operand *o)
{
    const hd_head_rows_args *const   rows = args;
    const hd_compress_kv_args *const pool = args;
    const hd_router_args *const      router = args;
    const hd_embed_args *const       embed = args;
    if (op == &hd_op_attn_sparse) return attention_share(args, o);
    if (op == &hd_op_head_rows && is_named(o, "pool"))
        return (double)rows->t / ((double)rows->n_seq * rows->cap);
    if (op == &hd_op_compress_kv && (is_named(o, "kv") || is_named(o, "gate")))
        return ((double)pool->r * (pool->overlap ? 2 : 1) + pool->t) /
               ((double)pool->n_seq * pool->cap);
    if (op == &hd_op_router && is_named(o, "table")) return (double)router->t / router->vocab;
    if (op == &hd_op_embed && is_named(o, "table")) return (double)embed->t / embed->vocab;
    return 1;
}

double hd_bench_bytes(const hd_op *op, const void *args)
{
    hd_operand    o[HD_MAX_OPERANDS];
    int32_t const n = op->describe(args, o);
    double        sum = 0;
    for (int32_t i = 0; i < n; i++) {
        double const bytes = (double)hd_operand_count(&o[i]) * (double)hd_dtype_bytes(o[i].dtype);
        sum +=
            bytes * (o[i].list ? distinct_experts(args) : fmin(touched_share(op, args, &o[i]), 1));
    }
    return sum;
}

double hd_bench_operations(const hd_op *op, const void *args)
{
    const hd_gemm_args *const         g = args;
    const hd_grouped_gemm_args *const e = args;
    if (is_product(op)) return 2.0 * g->t * g->g * g->n * g->k;
    if (is_grouped(op)) return 2.0 * e->t * e->s * e->n * e->k;
    return 0;
}

static void print_output_shape(const hd_op *op, const void *args, char *out, size_t cap)
{
    hd_operand    o[HD_MAX_OPERANDS];
    int32_t const n = op->describe(args, o);
    size_t        used = 0;
    int32_t       i = 0;
    while (i + 1 < n && o[i].role == HD_IN) i++;
    for (int32_t d = 0; d < o[i].rank && used < cap; d++) {
        int const more =
            snprintf(out + used, cap - used, "%s%" PRId64, d ? " x " : "", o[i].shape[d]);
        used += more > 0 ? (size_t)more : 0;
    }
}

void hd_bench_shape(const hd_op *op, const void *args, char *out, size_t cap)
{
    const hd_gemm_args *const         g = args;
    const hd_grouped_gemm_args *const e = args;
    if (is_product(op) && g->g == 1)
        snprintf(out, cap, "%d x %d", g->n, g->k);
    else if (is_product(op))
        snprintf(out, cap, "%d x %d x %d", g->g, g->n, g->k);
    else if (is_grouped(op))
        snprintf(out, cap, "%d x %d x %d", e->e, e->n, e->k);
    else
        print_output_shape(op, args, out, cap);
}
