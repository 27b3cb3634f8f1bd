#include <string.h>

#include "bench/bench_report.h"
#include "bench/bench_shapes.h"

/* Each call takes the next of several sets of operands, together larger than any cache.  Lists of
 * experts are that by themselves: there each set has other slots that choose among the same. */
#define MAX_SETS  256
#define SLOW_SETS 4 /* of a reference */

typedef struct sets {
    const hd_kernel *kernel;
    hd_bench_args    args[MAX_SETS];
    int32_t          n;
} sets;

static hd_status run_sets(void *ctx, hd_stream *stream, hd_error *err)
{
    const sets *const s = ctx;
    for (int32_t i = 0; i < s->n; i++) {
        hd_status const ran = s->kernel->run(&s->args[i], stream);
        if (ran != HD_OK) HD_FAIL(err, ran, "%s failed: %s", s->kernel->name, hd_status_name(ran));
    }
    return HD_OK;
}

static int32_t count_sets(const hd_bench_place *p, const hd_kernel *k, double bytes)
{
    int32_t const most = k->isa == HD_ISA_REF ? SLOW_SETS : MAX_SETS;
    double const  n = (double)p->pool_bytes / (bytes + 1) + 1;
    return n < most ? (int32_t)n : most;
}

static hd_status make_sets(hd_bench_place *p, const hd_bench_options *o, const hd_bench_case *c,
                           sets *s, hd_error *err)
{
    hd_bench_filler f = {.context = o->context, .has_bf16_x = o->has_bf16_x, .rng = 1};
    bool const      is_grouped = strncmp(c->op->name, "grouped", 7) == 0;
    f.has_fit = c->op == &hd_op_quant_nvfp4 || c->op == &hd_op_rmsnorm_nvfp4;
    f.has_fp4_q = c->op == &hd_op_index_score;
    s->n = count_sets(p, s->kernel, hd_bench_bytes(c->op, &c->args));
    for (f.set = 0; f.set < s->n; f.set++) {
        hd_bench_args *const a = &s->args[f.set];
        *a = is_grouped && f.set > 0 ? s->args[0] : c->args;
        f.only = is_grouped && f.set > 0 ? "ids" : NULL;
        HD_TRY(hd_bench_make_operands(p, c->op, a, &f, err));
    }
    return HD_OK;
}

/* What is measured, and where to. */
typedef struct job {
    hd_bench_place   place;
    hd_bench_options o;
    hd_bench_report *out;
    const hd_log    *log;
} job;

/* Measures the kernel that would be chosen; a shape that no kernel takes has no row. */
static hd_status measure_case(job *j, const hd_bench_case *c, hd_error *err)
{
    hd_kernel_choice const choice = hd_kernel_choice_of(j->place.isa);
    sets                   s = {.kernel = hd_kernel_select(&choice, c->op, &c->args)};
    hd_bench_time          time;
    if (!s.kernel) return HD_OK;
    HD_TRY(make_sets(&j->place, &j->o, c, &s, err));
    hd_bench_row        row = hd_bench_row_of(c->label, s.kernel, &c->args, j->o.tokens);
    hd_bench_call const call = {run_sets, &s, row.bytes * s.n};
    HD_TRY(hd_bench_measure(&j->place, &j->out->machine, &call, &time, err));
    row.us = time.seconds / s.n * 1e6;
    row.read_share = time.read_share;
    hd_bench_add(j->out, &row);
    hd_bench_place_clear(&j->place);
    return HD_OK;
}

static hd_status check_ops(const char *ops, const hd_bench_case *cases, int32_t n, hd_error *err)
{
    const char *names[HD_BENCH_MAX_CASES];
    for (int32_t i = 0; i < n; i++) names[i] = cases[i].op->name;
    return hd_bench_check_list(ops, names, n, "ops", err);
}

static hd_status measure_cases(job *j, const hd_bench_case *cases, int32_t n, hd_error *err)
{
    for (int32_t i = 0; i < n; i++) {
        hd_log_progress(j->log, "measuring kernels", i, n);
        if (hd_bench_is_listed(j->o.ops, cases[i].op->name))
            HD_TRY(measure_case(j, &cases[i], err));
    }
    hd_log_progress(j->log, "measuring kernels", n, n);
    return hd_bench_finish(j->out, err);
}

hd_status hd_bench_kernels(const hd_bench_options *o, hd_bench_report *out, const hd_log *log,
                           hd_error *err)
{
    job           j = {.o = *o, .out = out, .log = log};
    hd_bench_case cases[HD_BENCH_MAX_CASES];
    int32_t const n = hd_bench_list(o, cases);
    out->what = "kernels";
    HD_TRY(check_ops(o->ops, cases, n, err));
    hd_status s = hd_bench_place_open(&j.place, o, &out->machine, err);
    if (s == HD_OK) s = measure_cases(&j, cases, n, err);
    hd_bench_place_close(&j.place);
    return s;
}

hd_status hd_bench_roofline(const hd_bench_options *o, hd_bench_report *out, const hd_log *log,
                            hd_error *err)
{
    static const int32_t tokens[] = {1, 4, 16, 64};
    job                  j = {.o = *o, .out = out, .log = log};
    out->what = "roofline";
    hd_status s = hd_bench_place_open(&j.place, o, &out->machine, err);
    j.o.isa = j.place.isa;
    for (size_t i = 0; s == HD_OK && i < sizeof tokens / sizeof tokens[0]; i++) {
        hd_bench_case cases[HD_BENCH_MAX_CASES];
        j.o.tokens = tokens[i];
        s = measure_cases(&j, cases, hd_bench_list_squares(&j.o, cases), err);
    }
    hd_bench_place_close(&j.place);
    return s;
}
