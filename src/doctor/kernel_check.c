#include "doctor/kernel_check.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Bytes that no kernel leaves: NaN in floats. */
#define POISON 0xFF

/* ---- operands ---- */

typedef struct operands {
    hd_operand o[HD_MAX_OPERANDS];
    int32_t    n;
} operands;

static operands describe(const hd_step *step)
{
    operands x;
    x.n = step->kernel->op->describe(step->args, x.o);
    return x;
}

static size_t bytes_of(const hd_operand *o)
{
    return (size_t)hd_operand_count(o) * hd_dtype_bytes(o->dtype);
}

static bool is_output(const hd_operand *o) { return o->role != HD_IN; }

/* Whether an input lies where the step writes, so that it is gone afterwards. */
static bool is_overwritten(const hd_step *step, const operands *x, int32_t i)
{
    const char *const a = hd_operand_pointer(step->args, &x->o[i]);
    if (x->o[i].role == HD_OUT || x->o[i].list || !a) return false;
    for (int32_t j = 0; j < x->n; j++) {
        const char *const b = hd_operand_pointer(step->args, &x->o[j]);
        if (is_output(&x->o[j]) && a < b + bytes_of(&x->o[j]) && b < a + bytes_of(&x->o[i]))
            return true;
    }
    return false;
}

/* ---- before a step ---- */

static void save_inputs(hd_kernel_check *c)
{
    c->saved.used = 0;
    memset(c->saved_at, 0, sizeof c->saved_at);
    if (c->next >= c->plan->n) return;
    const hd_step *const step = &c->plan->steps[c->next];
    operands const       x = describe(step);
    for (int32_t i = 0; i < x.n; i++) {
        if (!is_overwritten(step, &x, i)) continue;
        c->saved_at[i] = hd_arena_alloc(&c->saved, bytes_of(&x.o[i]));
        memcpy(c->saved_at[i], hd_operand_pointer(step->args, &x.o[i]), bytes_of(&x.o[i]));
    }
}

/* Largest room that one step of the plan needs for its inputs, its outputs and the limits of a
 * row. */
static void measure(const hd_plan *p, size_t *saved, size_t *outputs, size_t *limits)
{
    *saved = *outputs = *limits = 0;
    for (int32_t s = 0; s < p->n; s++) {
        operands const x = describe(&p->steps[s]);
        hd_arena       in = {0}, out = {0};
        for (int32_t i = 0; i < x.n; i++) {
            if (is_overwritten(&p->steps[s], &x, i)) hd_arena_alloc(&in, bytes_of(&x.o[i]));
            if (!is_output(&x.o[i])) continue;
            size_t const row = (size_t)hd_operand_cols(&x.o[i]) * sizeof(double);
            hd_arena_alloc(&out, bytes_of(&x.o[i]));
            if (row > *limits) *limits = row;
        }
        if (in.peak > *saved) *saved = in.peak;
        if (out.peak > *outputs) *outputs = out.peak;
    }
}

static hd_status make_room(hd_arena *a, size_t bytes, hd_error *err)
{
    if (a->base && bytes <= a->cap) return HD_OK;
    hd_memory_free(a->base);
    *a = (hd_arena){.base = hd_memory_alloc(bytes), .cap = bytes};
    if (!a->base) HD_FAIL(err, HD_ERR_MEMORY, "no memory for %zu bytes of operands", bytes);
    return HD_OK;
}

hd_status hd_kernel_check_begin(hd_kernel_check *c, const hd_plan *plan, hd_error *err)
{
    size_t saved, outputs, limits;
    measure(plan, &saved, &outputs, &limits);
    HD_TRY(make_room(&c->saved, saved, err));
    HD_TRY(make_room(&c->wanted, outputs, err));
    HD_TRY(make_room(&c->got, outputs, err));
    HD_TRY(make_room(&c->limits, limits, err));
    c->allowed = (double *)(void *)c->limits.base;
    c->plan = plan;
    c->next = 0;
    save_inputs(c);
    return HD_OK;
}

/* ---- a step once more ---- */

/* One run of a kernel into memory of its own. */
typedef struct rerun {
    hd_kernel_check *c;
    const hd_step   *step;
    const operands  *x;
    const void      *real[HD_MAX_OPERANDS];   /* outputs of the pass */
    const void      *wanted[HD_MAX_OPERANDS]; /* of the reference */
    const void      *got[HD_MAX_OPERANDS];    /* of another kernel */
} rerun;

static void set_pointer(void *args, const hd_operand *o, const void *p)
{
    memcpy((char *)args + o->slot, &p, sizeof p);
}

/* The step's arguments with the inputs that it overwrote. */
static void keep_arguments(const rerun *r)
{
    hd_kernel_check *const c = r->c;
    memcpy(c->in_args, r->step->args, r->step->kernel->op->args_bytes);
    for (int32_t i = 0; i < r->x->n; i++)
        if (c->saved_at[i]) set_pointer(c->in_args, &r->x->o[i], c->saved_at[i]);
}

/* Runs k with outputs in `room`, whose places go to `at` and into args. */
static hd_status run_into(rerun *r, const hd_kernel *k, hd_arena *room,
                          const void *at[HD_MAX_OPERANDS], void *args)
{
    hd_kernel_check *const c = r->c;
    memcpy(args, r->step->args, k->op->args_bytes);
    room->used = 0;
    for (int32_t i = 0; i < r->x->n; i++) {
        const hd_operand *const o = &r->x->o[i];
        if (!is_output(o)) {
            if (c->saved_at[i]) set_pointer(args, o, c->saved_at[i]);
            continue;
        }
        size_t const bytes = bytes_of(o);
        void *const  to = hd_arena_alloc(room, bytes);
        if (c->saved_at[i])
            memcpy(to, c->saved_at[i], bytes);
        else
            memset(to, POISON, bytes);
        set_pointer(args, o, to);
        at[i] = to;
    }
    return k->run(args, NULL);
}

/* ---- judging ---- */

static void note_fault(hd_kernel_result *res, const rerun *r, const char *fmt, ...) HD_PRINTF(3, 4);
static void note_fault(hd_kernel_result *res, const rerun *r, const char *fmt, ...)
{
    va_list ap;
    char    step[96], what[156];
    if (res->fault[0]) return;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    hd_step_name(r->step, step, sizeof step);
    snprintf(res->fault, sizeof res->fault, "%s: %s", step, what);
}

static void note_error(hd_kernel_result *res, const rerun *r, const char *operand, double share)
{
    char step[64];
    if (!(share > res->worst)) return;
    hd_step_name(r->step, step, sizeof step);
    res->worst = share;
    snprintf(res->at, sizeof res->at, "%s.%.24s", step, operand);
}

/* A row of floats against what the op's formula allows; NaN only where the reference has it. */
static void judge_row(hd_kernel_result *res, const rerun *r, const hd_operand *o, int64_t row,
                      const float *got, const float *want)
{
    const double *const allowed = r->c->allowed;
    for (int64_t i = 0; i < hd_operand_cols(o); i++) {
        double const err = fabs((double)got[i] - (double)want[i]);
        if (memcmp(&got[i], &want[i], sizeof *got) == 0 || (isnan(got[i]) && isnan(want[i])))
            continue;
        if (!(err <= allowed[i] + HD_ABSOLUTE_SLACK))
            note_fault(res, r,
                       "%s: row %" PRId64 ", element %" PRId64 " is %.9g, the reference %.9g, "
                       "allowed are %.3g",
                       o->name, row, i, (double)got[i], (double)want[i], allowed[i]);
        note_error(res, r, o->name, allowed[i] > 0 ? err / allowed[i] : err > 0 ? INFINITY : 0);
    }
}

static void judge_floats(hd_kernel_result *res, const rerun *r, int32_t i, const hd_op_runs *runs)
{
    const hd_operand *const o = &r->x->o[i];
    int64_t const           cols = hd_operand_cols(o);
    const float *const got = hd_operand_pointer(runs->got, o), *const want = r->wanted[i];
    for (int64_t row = 0; row < hd_operand_rows(o); row++) {
        size_t const bytes = (size_t)cols * sizeof *got;
        if (memcmp(got + row * cols, want + row * cols, bytes) == 0) continue; /* needs no limit */
        r->step->kernel->op->allow(runs, o, row, r->c->allowed);
        judge_row(res, r, o, row, got + row * cols, want + row * cols);
    }
}

/* Bytes and ids are what they are, and so are floats that an op only moves or rounds. */
static void judge_exact(hd_kernel_result *res, const rerun *r, int32_t i, const void *got)
{
    const hd_operand *const    o = &r->x->o[i];
    const unsigned char *const a = got, *const b = r->wanted[i];
    size_t at = 0;
    if (memcmp(a, b, bytes_of(o)) == 0) return;
    while (a[at] == b[at]) at++;
    note_fault(res, r, "%s: element %zu is not the reference's", o->name,
               at / hd_dtype_bytes(o->dtype));
}

/* Where more than one answer is right, the op itself tells. */
static void judge_rows(hd_kernel_result *res, const rerun *r, const hd_op_runs *runs)
{
    int32_t first = 0;
    while (!is_output(&r->x->o[first])) first++;
    for (int64_t row = 0; row < hd_operand_rows(&r->x->o[first]); row++) {
        hd_op_verdict v = {0};
        if (!r->step->kernel->op->judge(runs, row, &v))
            note_fault(res, r, "row %" PRId64 ": %.100s", row, v.why);
        note_error(res, r, "row", v.worst);
    }
}

/* What a kernel left, at the outputs of `got`. */
static void judge(hd_kernel_result *res, const rerun *r, const void *got)
{
    const hd_op *const op = r->step->kernel->op;
    hd_op_runs const   runs = {r->c->in_args, r->c->ref_args, got};
    res->steps++;
    if (op->judge) {
        judge_rows(res, r, &runs);
        return;
    }
    for (int32_t i = 0; i < r->x->n; i++) {
        const hd_operand *const o = &r->x->o[i];
        if (!is_output(o) || bytes_of(o) == 0) continue;
        if (op->allow && o->dtype == HD_F32)
            judge_floats(res, r, i, &runs);
        else
            judge_exact(res, r, i, hd_operand_pointer(got, o));
    }
}

/* The same bits again. */
static void judge_repeat(hd_kernel_result *res, const rerun *r)
{
    for (int32_t i = 0; i < r->x->n; i++)
        if (is_output(&r->x->o[i]) && bytes_of(&r->x->o[i]) > 0 &&
            memcmp(r->real[i], r->got[i], bytes_of(&r->x->o[i])) != 0)
            note_fault(res, r, "%s: other bits for the same input", r->x->o[i].name);
}

/* ---- all kernels of a step ---- */

static int32_t find_reference(const hd_kernel_check *c, const hd_op *op)
{
    int32_t found = -1;
    for (int32_t i = 0; i < c->n; i++)
        if (c->kernels[i].op == op && c->kernels[i].isa == HD_ISA_REF) found = i;
    return found;
}

static void check_kernel(rerun *r, int32_t i)
{
    hd_kernel_check *const  c = r->c;
    const hd_kernel *const  k = &c->kernels[i];
    hd_kernel_result *const res = &c->results[i];
    bool const              is_chosen = strcmp(k->name, r->step->kernel->name) == 0;
    if (is_chosen) judge(res, r, r->step->args);
    hd_status const s = run_into(r, k, &c->got, r->got, c->got_args);
    if (s != HD_OK) {
        note_fault(res, r, "ended with '%s'", hd_status_name(s));
        return;
    }
    if (is_chosen)
        judge_repeat(res, r);
    else
        judge(res, r, c->got_args);
}

hd_status hd_kernel_check_step(void *check, const hd_step *step, hd_error *err)
{
    hd_kernel_check *const c = check;
    operands const         x = describe(step);
    rerun                  r = {.c = c, .step = step, .x = &x};
    int32_t const          ref = find_reference(c, step->kernel->op);
    if (ref < 0) HD_FAIL(err, HD_ERR_UNSUPPORTED, "op %s has no reference", step->kernel->op->name);
    for (int32_t i = 0; i < x.n; i++) r.real[i] = hd_operand_pointer(step->args, &x.o[i]);
    keep_arguments(&r);
    hd_status const s = run_into(&r, &c->kernels[ref], &c->wanted, r.wanted, c->ref_args);
    if (s != HD_OK) HD_FAIL(err, s, "%s ended with '%s'", c->kernels[ref].name, hd_status_name(s));
    for (int32_t i = 0; i < c->n; i++) {
        const hd_kernel *const k = &c->kernels[i];
        if (k->op == step->kernel->op && (k->isa & c->isa) && k->supports(step->args))
            check_kernel(&r, i);
    }
    c->next++;
    save_inputs(c);
    return HD_OK;
}

/* ---- open and close ---- */

hd_status hd_kernel_check_open(hd_kernel_check *c, const hd_kernel *kernels, int32_t n,
                               uint32_t isa, hd_error *err)
{
    size_t largest = 0;
    *c = (hd_kernel_check){.kernels = kernels, .n = n, .isa = (isa & HD_ISA_HOST) | HD_ISA_REF};
    for (int32_t i = 0; i < n; i++)
        if (kernels[i].op->args_bytes > largest) largest = kernels[i].op->args_bytes;
    c->results = hd_pool_alloc(&c->pool, (size_t)n * sizeof *c->results);
    c->in_args = hd_pool_alloc(&c->pool, largest);
    c->ref_args = hd_pool_alloc(&c->pool, largest);
    c->got_args = hd_pool_alloc(&c->pool, largest);
    if (!c->results || !c->in_args || !c->ref_args || !c->got_args)
        HD_FAIL(err, HD_ERR_MEMORY, "no memory for %d kernels", n);
    for (int32_t i = 0; i < n; i++) c->results[i].kernel = &kernels[i];
    return HD_OK;
}

void hd_kernel_check_close(hd_kernel_check *c)
{
    hd_memory_free(c->saved.base);
    hd_memory_free(c->wanted.base);
    hd_memory_free(c->got.base);
    hd_memory_free(c->limits.base);
    hd_pool_free(&c->pool);
}
