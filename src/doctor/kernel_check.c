#include "doctor/kernel_check.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "doctor/operand_mirror.h"

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

/* Whether an operand is judged by what the op allows, and not as the bytes that it is. */
static bool has_limits(const hd_step *step, const hd_operand *o)
{
    return step->kernel->op->allow && o->dtype == HD_F32;
}

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

static hd_status save_inputs(hd_kernel_check *c, hd_error *err)
{
    c->saved.used = 0;
    memset(c->saved_at, 0, sizeof c->saved_at);
    if (c->next >= c->plan->n) return HD_OK;
    const hd_step *const step = &c->plan->steps[c->next];
    operands const       x = describe(step);
    for (int32_t i = 0; i < x.n; i++) {
        size_t const bytes = bytes_of(&x.o[i]);
        if (!is_overwritten(step, &x, i)) continue;
        c->saved_at[i] = hd_arena_alloc(&c->saved, bytes);
        HD_TRY(hd_device_read(c->device, c->saved_at[i], hd_operand_pointer(step->args, &x.o[i]),
                              bytes, err));
    }
    return HD_OK;
}

/* Largest room that one step of a plan needs. */
typedef struct step_room {
    size_t saved, outputs, mirrors, remote, limits;
} step_room;

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

static void measure_step(const hd_kernel_check *c, const hd_step *step, step_room *most)
{
    operands const x = describe(step);
    hd_arena       in = {0}, out = {0}, limits = {0}; /* which only measure */
    bool           is_left[HD_MAX_OPERANDS] = {false};
    for (int32_t i = 0; i < x.n; i++) {
        bool const is_saved = is_overwritten(step, &x, i);
        is_left[i] = is_saved || is_output(&x.o[i]);
        if (is_saved) hd_arena_alloc(&in, bytes_of(&x.o[i]));
        if (!is_output(&x.o[i])) continue;
        hd_arena_alloc(&out, bytes_of(&x.o[i]));
        if (!has_limits(step, &x.o[i])) continue;
        hd_arena_alloc(&limits, (size_t)hd_operand_count(&x.o[i]) * sizeof(double));
        hd_arena_alloc(&limits, (size_t)hd_operand_rows(&x.o[i]) * sizeof(bool));
    }
    most->limits = larger(most->limits, limits.peak);
    most->saved = larger(most->saved, in.peak);
    most->outputs = larger(most->outputs, out.peak);
    if (!c->device) return;
    most->mirrors = larger(most->mirrors, hd_mirror_bytes(step, is_left) + out.peak);
    most->remote = larger(most->remote, in.peak + out.peak);
}

/* d: NULL for memory of the host. */
static hd_status make_room(hd_device *d, hd_arena *a, size_t bytes, hd_error *err)
{
    if (a->base && bytes <= a->cap) return HD_OK;
    hd_device_free(d, a->base);
    *a = (hd_arena){.base = hd_device_alloc(d, bytes), .cap = bytes};
    if (!a->base) HD_FAIL(err, HD_ERR_MEMORY, "no memory for %zu bytes of operands", bytes);
    return HD_OK;
}

hd_status hd_kernel_check_begin(hd_kernel_check *c, const hd_plan *plan, hd_error *err)
{
    step_room most = {0};
    for (int32_t i = 0; i < plan->n; i++) measure_step(c, &plan->steps[i], &most);
    HD_TRY(make_room(NULL, &c->saved, most.saved, err));
    HD_TRY(make_room(NULL, &c->wanted, most.outputs, err));
    HD_TRY(make_room(NULL, &c->got, most.outputs, err));
    HD_TRY(make_room(NULL, &c->limits, most.limits, err));
    if (c->device) HD_TRY(make_room(NULL, &c->mirrors, most.mirrors, err));
    if (c->device) HD_TRY(make_room(c->device, &c->remote, most.remote, err));
    c->plan = plan;
    c->next = 0;
    return save_inputs(c, err);
}

/* ---- what a step read and left ---- */

/* A step, and one run of a kernel into memory of its own. */
typedef struct rerun {
    hd_kernel_check *c;
    const hd_step   *step;
    const operands  *x;
    const void      *real[HD_MAX_OPERANDS];     /* outputs of the pass */
    const void      *wanted[HD_MAX_OPERANDS];   /* of the reference */
    const void      *got[HD_MAX_OPERANDS];      /* of another kernel */
    double          *limits[HD_MAX_OPERANDS];   /* of outputs, the same for all kernels: rows ... */
    bool            *is_known[HD_MAX_OPERANDS]; /* [rows] ... that were asked for */
} rerun;

/* The step's arguments with the inputs that it overwrote, where the host can read them. */
static hd_status keep_inputs(const rerun *r, hd_error *err)
{
    hd_kernel_check *const c = r->c;
    bool                   is_left[HD_MAX_OPERANDS] = {false};
    memcpy(c->in_args, r->step->args, r->step->kernel->op->args_bytes);
    for (int32_t i = 0; i < r->x->n; i++) {
        is_left[i] = c->saved_at[i] || is_output(&r->x->o[i]);
        if (c->saved_at[i]) hd_operand_point(c->in_args, &r->x->o[i], c->saved_at[i]);
    }
    c->mirrors.used = 0;
    if (!c->device) return HD_OK;
    return hd_mirror_inputs(c->device, r->step, is_left, &c->mirrors, c->in_args, err);
}

/* The same with what it left. */
static hd_status keep_outputs(rerun *r, hd_error *err)
{
    hd_kernel_check *const c = r->c;
    memcpy(c->real_args, c->in_args, r->step->kernel->op->args_bytes);
    for (int32_t i = 0; i < r->x->n; i++) {
        const hd_operand *const o = &r->x->o[i];
        const void *const       at = hd_operand_pointer(r->step->args, o);
        if (!is_output(o)) continue;
        r->real[i] = at;
        if (c->device) {
            void *const to = hd_arena_alloc(&c->mirrors, bytes_of(o));
            HD_TRY(hd_device_read(c->device, to, at, bytes_of(o), err));
            r->real[i] = to;
        }
        hd_operand_point(c->real_args, o, r->real[i]);
    }
    return HD_OK;
}

/* ---- a step once more ---- */

/* Makes args with outputs in `room`, whose places go to `at`: what they held before, or poison. */
static void make_outputs(const rerun *r, hd_arena *room, const void *at[HD_MAX_OPERANDS],
                         void *args)
{
    hd_kernel_check *const c = r->c;
    memcpy(args, c->in_args, r->step->kernel->op->args_bytes);
    room->used = 0;
    for (int32_t i = 0; i < r->x->n; i++) {
        const hd_operand *const o = &r->x->o[i];
        size_t const            bytes = bytes_of(o);
        if (!is_output(o)) continue;
        void *const to = hd_arena_alloc(room, bytes);
        if (c->saved_at[i])
            memcpy(to, c->saved_at[i], bytes);
        else
            memset(to, POISON, bytes);
        hd_operand_point(args, o, to);
        at[i] = to;
    }
}

/* Copies what a run overwrites to the accelerator; the rest is there. */
static hd_status send_operands(const rerun *r, hd_error *err)
{
    hd_kernel_check *const c = r->c;
    memcpy(c->remote_args, r->step->args, r->step->kernel->op->args_bytes);
    c->remote.used = 0;
    for (int32_t i = 0; i < r->x->n; i++) {
        const hd_operand *const o = &r->x->o[i];
        if (!is_output(o) && !c->saved_at[i]) continue;
        void *const to = hd_arena_alloc(&c->remote, bytes_of(o));
        HD_TRY(
            hd_device_write(c->device, to, hd_operand_pointer(c->got_args, o), bytes_of(o), err));
        hd_operand_point(c->remote_args, o, to);
    }
    return HD_OK;
}

static hd_status fetch_outputs(const rerun *r, hd_error *err)
{
    for (int32_t i = 0; i < r->x->n; i++) {
        const hd_operand *const o = &r->x->o[i];
        if (!is_output(o)) continue;
        HD_TRY(hd_device_read(r->c->device, hd_operand_pointer(r->c->got_args, o),
                              hd_operand_pointer(r->c->remote_args, o), bytes_of(o), err));
    }
    return HD_OK;
}

/* Runs k into `got`; *ran is the kernel's own status. */
static hd_status run_again(rerun *r, const hd_kernel *k, hd_status *ran, hd_error *err)
{
    hd_kernel_check *const c = r->c;
    make_outputs(r, &c->got, r->got, c->got_args);
    if (!c->device) {
        *ran = k->run(c->got_args, NULL);
        return HD_OK;
    }
    HD_TRY(send_operands(r, err));
    *ran = k->run(c->remote_args, hd_device_stream(c->device));
    return *ran == HD_OK ? fetch_outputs(r, err) : HD_OK;
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

/* Room for limits, which are computed when they are first needed. */
static void make_limits(rerun *r)
{
    hd_arena *const a = &r->c->limits;
    a->used = 0;
    for (int32_t i = 0; i < r->x->n; i++) {
        const hd_operand *const o = &r->x->o[i];
        size_t const            rows = (size_t)hd_operand_rows(o);
        if (!is_output(o) || !has_limits(r->step, o)) continue;
        r->limits[i] = hd_arena_alloc(a, (size_t)hd_operand_count(o) * sizeof(double));
        r->is_known[i] = hd_arena_alloc(a, rows * sizeof(bool));
        memset(r->is_known[i], 0, rows * sizeof(bool));
    }
}

static const double *limits_of(const rerun *r, int32_t i, int64_t row, const hd_op_runs *runs)
{
    const hd_operand *const o = &r->x->o[i];
    double *const           limits = r->limits[i] + row * hd_operand_cols(o);
    if (!r->is_known[i][row]) r->step->kernel->op->allow(runs, o, row, limits);
    r->is_known[i][row] = true;
    return limits;
}

/* A row of floats against what the op's formula allows; NaN only where the reference has it. */
static void judge_row(hd_kernel_result *res, const rerun *r, int32_t i, int64_t row,
                      const hd_op_runs *runs)
{
    const hd_operand *const o = &r->x->o[i];
    int64_t const           cols = hd_operand_cols(o);
    const float *const      got = (const float *)hd_operand_pointer(runs->got, o) + row * cols;
    const float *const      want = (const float *)r->wanted[i] + row * cols;
    if (memcmp(got, want, (size_t)cols * sizeof *got) == 0) return; /* needs no limit */
    const double *const allowed = limits_of(r, i, row, runs);
    for (int64_t c = 0; c < cols; c++) {
        double const err = fabs((double)got[c] - (double)want[c]);
        if (memcmp(&got[c], &want[c], sizeof *got) == 0 || (isnan(got[c]) && isnan(want[c])))
            continue;
        if (!(err <= allowed[c] + HD_ABSOLUTE_SLACK))
            note_fault(res, r,
                       "%s: row %" PRId64 ", element %" PRId64 " is %.9g, the reference %.9g, "
                       "allowed are %.3g",
                       o->name, row, c, (double)got[c], (double)want[c], allowed[c]);
        note_error(res, r, o->name, allowed[c] > 0 ? err / allowed[c] : err > 0 ? INFINITY : 0);
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
    for (int64_t row = 0; row < r->x->o[first].shape[0]; row++) {
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
        if (!has_limits(r->step, o))
            judge_exact(res, r, i, hd_operand_pointer(got, o));
        else
            for (int64_t row = 0; row < hd_operand_rows(o); row++) judge_row(res, r, i, row, &runs);
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

/* What a kernel does to an accelerator shows at the next copy. */
static hd_status fail_kernel(const rerun *r, const hd_kernel *k, const hd_error *why, hd_error *err)
{
    char step[64];
    hd_step_name(r->step, step, sizeof step);
    HD_FAIL(err, why->code, "%s at step %s: %s", k->name, step, why->message);
}

static hd_status check_kernel(rerun *r, int32_t i, hd_error *err)
{
    hd_kernel_check *const  c = r->c;
    const hd_kernel *const  k = &c->kernels[i];
    hd_kernel_result *const res = &c->results[i];
    bool const              is_chosen = strcmp(k->name, r->step->kernel->name) == 0;
    hd_status               ran = HD_OK;
    hd_error                why = {0};
    if (is_chosen) judge(res, r, c->real_args);
    if (run_again(r, k, &ran, &why) != HD_OK) return fail_kernel(r, k, &why, err);
    if (ran != HD_OK)
        note_fault(res, r, "ended with '%s'", hd_status_name(ran));
    else if (is_chosen)
        judge_repeat(res, r);
    else
        judge(res, r, c->got_args);
    return HD_OK;
}

static hd_status run_reference(rerun *r, hd_error *err)
{
    hd_kernel_check *const c = r->c;
    const hd_op *const     op = r->step->kernel->op;
    int32_t const          i = find_reference(c, op);
    if (i < 0) HD_FAIL(err, HD_ERR_UNSUPPORTED, "op %s has no reference", op->name);
    make_outputs(r, &c->wanted, r->wanted, c->ref_args);
    hd_status const s = c->kernels[i].run(c->ref_args, NULL);
    if (s != HD_OK) HD_FAIL(err, s, "%s ended with '%s'", c->kernels[i].name, hd_status_name(s));
    return HD_OK;
}

hd_status hd_kernel_check_step(void *check, const hd_step *step, hd_error *err)
{
    hd_kernel_check *const c = check;
    operands const         x = describe(step);
    rerun                  r = {.c = c, .step = step, .x = &x};
    HD_TRY(keep_inputs(&r, err));
    HD_TRY(keep_outputs(&r, err));
    HD_TRY(run_reference(&r, err));
    make_limits(&r);
    for (int32_t i = 0; i < c->n; i++) {
        const hd_kernel *const k = &c->kernels[i];
        if (k->op == step->kernel->op && (k->isa & c->isa) && k->supports(step->args))
            HD_TRY(check_kernel(&r, i, err));
    }
    c->next++;
    return save_inputs(c, err);
}

/* ---- open and close ---- */

hd_status hd_kernel_check_open(hd_kernel_check *c, const hd_kernel *kernels, int32_t n,
                               uint32_t isa, hd_device *d, hd_error *err)
{
    uint32_t const tried = d ? isa & HD_ISA_DEVICE : (isa & HD_ISA_HOST) | HD_ISA_REF;
    size_t         largest = 0;
    *c = (hd_kernel_check){.kernels = kernels, .n = n, .isa = tried, .device = d};
    for (int32_t i = 0; i < n; i++)
        if (kernels[i].op->args_bytes > largest) largest = kernels[i].op->args_bytes;
    c->results = hd_pool_alloc(&c->pool, (size_t)n * sizeof *c->results);
    c->in_args = hd_pool_alloc(&c->pool, largest);
    c->ref_args = hd_pool_alloc(&c->pool, largest);
    c->got_args = hd_pool_alloc(&c->pool, largest);
    c->real_args = hd_pool_alloc(&c->pool, largest);
    c->remote_args = hd_pool_alloc(&c->pool, largest);
    if (!c->results || !c->in_args || !c->ref_args || !c->got_args || !c->real_args ||
        !c->remote_args)
        HD_FAIL(err, HD_ERR_MEMORY, "no memory for %d kernels", n);
    for (int32_t i = 0; i < n; i++) c->results[i].kernel = &kernels[i];
    return HD_OK;
}

void hd_kernel_check_close(hd_kernel_check *c)
{
    hd_memory_free(c->saved.base);
    hd_memory_free(c->wanted.base);
    hd_memory_free(c->got.base);
    hd_memory_free(c->mirrors.base);
    hd_device_free(c->device, c->remote.base);
    hd_memory_free(c->limits.base);
    hd_pool_free(&c->pool);
}
