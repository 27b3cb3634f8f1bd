#include "kernel_harness.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/team.h"
#include "kernel_device.h"
#include "kernel_operands.h"
#include "ops/op_errors.h"

/* Two NaN that no arithmetic makes: what still holds one was never written. */
#define POISON_FIRST UINT32_C(0xFFFFFFFF)
#define POISON_AGAIN UINT32_C(0x7FA5A5A5)
#define I32_POISON   INT32_C(-2139062144) /* 0x80808080 */

#define MAX_BATCH_ROWS 6 /* rows of a batch that are computed alone */

/* One kernel on one case. */
typedef struct trial {
    const hd_kernel *k, *ref;
    const hd_cases  *cases;
    test_case        c;
    uint64_t         seed;
    test_report     *report;
    test_launch      launch; /* of kernels of an accelerator */
    hd_stream       *team;   /* of kernels of the host       */
    test_side        in;     /* inputs as filled, never given to a kernel */
    test_side        wanted; /* after the reference                       */
    test_side        got;    /* after the kernel                          */
    test_side        again;  /* after the kernel, run in another way      */
} trial;

const char *test_fault_name(test_fault f)
{
    static const char *const names[] = {"none",
                                        "refuses every case",
                                        "error status",
                                        "access outside operands",
                                        "broken guard",
                                        "changed input",
                                        "unwritten output",
                                        "NaN or infinity",
                                        "wrong value",
                                        "not repeatable",
                                        "alignment changes bits",
                                        "batch changes bits",
                                        "in place changes bits",
                                        "a graph changes bits",
                                        "threads change bits"};
    return names[f];
}

const hd_kernel *test_reference(const hd_kernel *kernels, int32_t n, const hd_op *op)
{
    const hd_kernel *found = NULL;
    for (int32_t i = 0; i < n; i++)
        if (kernels[i].op == op) found = &kernels[i];
    return found && found->isa == HD_ISA_REF ? found : NULL;
}

/* ---- reporting ---- */

static const char *pattern_name(test_pattern p)
{
    static const char *const names[] = {"uniform",  "equal", "zero",   "wide",
                                        "denormal", "ties",  "special"};
    return names[p];
}

/* Appends to [out, out + cap) like snprintf, keeps *used inside. */
static void append(char *out, size_t cap, size_t *used, const char *fmt, ...) HD_PRINTF(4, 5);
static void append(char *out, size_t cap, size_t *used, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int const n = vsnprintf(out + *used, cap - *used, fmt, ap);
    va_end(ap);
    if (n > 0) *used += (size_t)n < cap - *used ? (size_t)n : cap - *used - 1;
}

static void print_shapes(const test_side *s, char *out, size_t cap, size_t *used)
{
    for (int32_t i = 0; i < s->n; i++) {
        const hd_operand *const o = &s->operand[i];
        append(out, cap, used, " %s", o->name);
        for (int32_t d = 0; d < o->rank; d++)
            append(out, cap, used, "%c%" PRId64, d ? ',' : '[', o->shape[d]);
        append(out, cap, used, "]");
    }
}

/* Notes the first fault of the kernel; returns false so that callers can return it. */
static bool fail(trial *t, test_fault fault, const char *fmt, ...) HD_PRINTF(3, 4);
static bool fail(trial *t, test_fault fault, const char *fmt, ...)
{
    test_report *const r = t->report;
    char               what[300];
    if (r->fault != FAULT_NONE) return false;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    r->fault = fault;
    size_t used = 0;
    append(r->message, sizeof r->message, &used, "%s: %s: %s (case %d, %s, seed %" PRIu64 ";",
           t->k->name, test_fault_name(fault), what, t->c.index, pattern_name(t->c.pattern),
           t->seed);
    print_shapes(&t->in, r->message, sizeof r->message, &used);
    append(r->message, sizeof r->message, &used, ")");
    return false;
}

/* ---- running ---- */

static sigjmp_buf            fault_return;
static volatile sig_atomic_t is_armed;

static void on_fault(int sig)
{
    if (is_armed) siglongjmp(fault_return, 1);
    signal(sig, SIG_DFL);
    raise(sig);
}

static void catch_faults(void)
{
    struct sigaction action = {.sa_handler = on_fault};
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
}

static bool run_on_device(trial *t, const hd_kernel *k, const test_side *s, const void *args)
{
    hd_error        err = {0};
    hd_status const ran = test_device_run(s, k, args, t->launch, &err);
    return ran == HD_OK ||
           fail(t, FAULT_STATUS, "%s: %s: %s", k->name, hd_status_name(ran), err.message);
}

/* Runs with args, whose pointers lead into the buffers of `side`. */
static bool run_guarded(trial *t, const hd_kernel *k, const test_side *side, const void *args)
{
    hd_status s = HD_OK;
    if (k->isa & HD_ISA_DEVICE) return run_on_device(t, k, side, args);
    if (sigsetjmp(fault_return, 1) != 0) {
        is_armed = 0;
        return fail(t, FAULT_ACCESS, "%s touched a closed page", k->name);
    }
    is_armed = 1;
    s = k->run(args, t->team);
    is_armed = 0;
    return s == HD_OK || fail(t, FAULT_STATUS, "%s returned '%s'", k->name, hd_status_name(s));
}

static bool check_surroundings(trial *t, const test_side *s)
{
    const char *const guard = test_side_broken_guard(s);
    if (guard) return fail(t, FAULT_GUARD, "bytes beside %s changed", guard);
    const char *const input = test_side_changed_input(s, &t->in);
    if (input) return fail(t, FAULT_INPUT, "%s changed", input);
    return true;
}

static bool run_side(trial *t, const hd_kernel *k, test_side *s, uint32_t poison)
{
    test_side_copy_inputs(s, &t->in);
    test_side_poison(s, poison);
    return run_guarded(t, k, s, s->args) && check_surroundings(t, s);
}

/* ---- comparing ---- */

/* Bytes and bf16 have no value that cannot occur: there another poison in the second run
 * tells, as other bits. */
static bool is_unwritten(const hd_operand *o, const unsigned char *data, int64_t i)
{
    uint32_t word;
    memcpy(&word, data + (size_t)i * sizeof word, sizeof word);
    return word == (o->dtype == HD_I32 ? (uint32_t)I32_POISON : POISON_FIRST);
}

static bool check_written(trial *t)
{
    for (int32_t i = 0; i < t->got.n; i++) {
        const hd_operand *const o = &t->got.operand[i];
        bool const              is_word = hd_dtype_bytes(o->dtype) == sizeof(uint32_t);
        int64_t const           n = o->role == HD_OUT && is_word ? hd_operand_count(o) : 0;
        for (int64_t at = 0; at < n; at++)
            if (is_unwritten(o, t->got.data[i]->data, at))
                return fail(t, FAULT_UNWRITTEN, "%s element %" PRId64 " of %" PRId64, o->name, at,
                            n);
    }
    return true;
}

typedef struct place {
    const hd_operand *o;
    int64_t           row;
} place;

/* One float; a NaN fails because the comparison asks for what is right. */
static bool compare_float(trial *t, place p, int64_t col, float want, float got, double allowed)
{
    bool const same_kind = isnan(want) ? isnan(got) : isinf(want) ? got == want : isfinite(got);
    if (!same_kind)
        return fail(t, FAULT_NONFINITE, "%s[%" PRId64 ",%" PRId64 "] is %g, not %g", p.o->name,
                    p.row, col, (double)got, (double)want);
    if (!isfinite(want)) return true;
    double const err = fabs((double)got - (double)want);
    if (!(err <= allowed))
        return fail(t, FAULT_VALUE, "%s[%" PRId64 ",%" PRId64 "] is %.9g, not %.9g, allowed %.3g",
                    p.o->name, p.row, col, (double)got, (double)want, allowed);
    if (allowed > 0 && err / allowed > t->report->worst) t->report->worst = err / allowed;
    return true;
}

/* One element of any type, byte for byte; NaN may have any payload. */
static bool compare_exact(trial *t, place p, int64_t col, const void *want, const void *got)
{
    size_t const bytes = hd_dtype_bytes(p.o->dtype);
    float        a = 0, b = 0;
    uint32_t     x = 0, y = 0;
    if (memcmp(want, got, bytes) == 0) return true;
    memcpy(&x, want, bytes);
    memcpy(&y, got, bytes);
    if (p.o->dtype == HD_F32) {
        memcpy(&a, want, bytes);
        memcpy(&b, got, bytes);
    }
    if (isnan(a) && isnan(b)) return true;
    if (p.o->dtype != HD_F32)
        return fail(t, FAULT_VALUE, "%s[%" PRId64 ",%" PRId64 "] is %d (%x), not %d (%x)",
                    p.o->name, p.row, col, (int32_t)y, y, (int32_t)x, x);
    return fail(t, isfinite(a) && isfinite(b) ? FAULT_VALUE : FAULT_NONFINITE,
                "%s[%" PRId64 ",%" PRId64 "] is %.9g (%08x), not exactly %.9g (%08x)", p.o->name,
                p.row, col, (double)b, y, (double)a, x);
}

static bool compare_row(trial *t, int32_t i, int64_t row, double *allowed)
{
    const hd_operand *const    o = &t->wanted.operand[i];
    int64_t const              cols = hd_operand_cols(o);
    size_t const               bytes = hd_dtype_bytes(o->dtype);
    const unsigned char *const want = t->wanted.data[i]->data + (size_t)(row * cols) * bytes;
    const unsigned char *const got = t->got.data[i]->data + (size_t)(row * cols) * bytes;
    place const                p = {o, row};
    hd_op_runs const           runs = {t->in.args, t->wanted.args, t->got.args};
    bool const                 is_exact = !t->k->op->allow || o->dtype != HD_F32;
    if (!is_exact) t->k->op->allow(&runs, o, row, allowed);
    for (int64_t c = 0; c < cols; c++) {
        const unsigned char *const w = want + (size_t)c * bytes, *const g = got + (size_t)c * bytes;
        float a, b;
        if (is_exact) {
            if (!compare_exact(t, p, c, w, g)) return false;
            continue;
        }
        memcpy(&a, w, sizeof a);
        memcpy(&b, g, sizeof b);
        if (!compare_float(t, p, c, a, b, allowed[c] + HD_ABSOLUTE_SLACK)) return false;
    }
    return true;
}

static bool compare_operand(trial *t, int32_t i)
{
    const hd_operand *const o = &t->wanted.operand[i];
    double *const           allowed = hd_memory_alloc((size_t)hd_operand_cols(o) * sizeof(double));
    bool                    ok = allowed != NULL;
    for (int64_t row = 0; ok && row < hd_operand_rows(o); row++)
        ok = compare_row(t, i, row, allowed);
    hd_memory_free(allowed);
    return ok;
}

static int32_t count_rows(const trial *t, const void *args)
{
    int32_t n = 0;
    if (t->cases->rows != TEST_NO_ROWS) memcpy(&n, (const char *)args + t->cases->rows, sizeof n);
    return n;
}

static bool judge_rows(trial *t)
{
    hd_op_runs const runs = {t->in.args, t->wanted.args, t->got.args};
    int32_t const    n = count_rows(t, t->in.args);
    for (int32_t row = 0; row < n; row++) {
        hd_op_verdict v = {0};
        if (!t->k->op->judge(&runs, row, &v)) return fail(t, FAULT_VALUE, "row %d: %s", row, v.why);
        if (v.worst > t->report->worst) t->report->worst = v.worst;
    }
    return true;
}

static bool compare_outputs(trial *t)
{
    if (t->k->op->judge) return judge_rows(t);
    for (int32_t i = 0; i < t->got.n; i++)
        if (t->got.operand[i].role != HD_IN && !compare_operand(t, i)) return false;
    return true;
}

/* ---- the same again, in another way ---- */

static bool check_repeat(trial *t, test_placement where, test_fault fault)
{
    bool ok = test_side_open(&t->again, t->k->op, t->in.args, where) &&
              run_side(t, t->k, &t->again, POISON_AGAIN);
    const char *const other = ok ? test_side_different_output(&t->got, &t->again) : NULL;
    if (other) ok = fail(t, fault, "%s has other bits", other);
    test_side_close(&t->again);
    return ok;
}

/* Recorded and replayed, where that exists. */
static bool check_graph(trial *t)
{
    if (!(t->k->isa & HD_ISA_DEVICE)) return true;
    t->launch = TEST_LAUNCH_GRAPH;
    bool const ok = check_repeat(t, TEST_PLACE_FRONT, FAULT_GRAPH);
    t->launch = TEST_LAUNCH_DIRECT;
    return ok;
}

/* By several threads, with small work split too.  A fault in one of them ends the program, but
 * the kernel has run by itself before. */
static bool check_team(trial *t)
{
    static hd_team *team;
    hd_error        err = {0};
    if (t->k->isa & (HD_ISA_DEVICE | HD_ISA_REF)) return true;
    if (!team && hd_team_open(&team, 3, NULL, &err) != HD_OK)
        return fail(t, FAULT_STATUS, "%s", err.message);
    hd_team_set_grain(team, 1);
    t->team = hd_team_stream(team);
    bool const ok = check_repeat(t, TEST_PLACE_FRONT, FAULT_THREADS);
    t->team = NULL;
    return ok;
}

/* How operand `o` of the batch holds its rows: so many bytes each, 0 when it does not depend on
 * their number; all rows together as often as the dimensions in front say. */
typedef struct row_step {
    int64_t bytes, copies;
} row_step;

static row_step find_row_step(const trial *t, int32_t i, void *scratch)
{
    const hd_op *const op = t->k->op;
    hd_operand         more[HD_MAX_OPERANDS];
    int32_t const      rows = count_rows(t, t->in.args) + 1;
    row_step           step = {0, 1};
    memcpy(scratch, t->in.args, op->args_bytes);
    memcpy((char *)scratch + t->cases->rows, &rows, sizeof rows);
    op->describe(scratch, more);
    const hd_operand *const o = &t->in.operand[i];
    int64_t const           grown = hd_operand_count(&more[i]) - hd_operand_count(o);
    if (grown == 0) return step;
    for (int32_t d = 0; o->shape[d] == more[i].shape[d]; d++) step.copies *= o->shape[d];
    step.bytes = grown / step.copies * (int64_t)hd_dtype_bytes(o->dtype);
    return step;
}

/* Points the copy `args` at row `row` of side `s`, as a batch of one. */
static void select_row(const trial *t, const test_side *s, int32_t row, void *args)
{
    int32_t const one = 1;
    int64_t       bytes[HD_MAX_OPERANDS];
    for (int32_t i = 0; i < s->n; i++) bytes[i] = find_row_step(t, i, args).bytes;
    memcpy(args, s->args, s->op->args_bytes);
    memcpy((char *)args + t->cases->rows, &one, sizeof one);
    for (int32_t i = 0; i < s->n; i++) {
        if (bytes[i] == 0) continue;
        void *const p = s->data[i]->data + row * bytes[i];
        memcpy((char *)args + s->operand[i].slot, &p, sizeof p);
    }
}

/* Row `row` of every output that depends on the number of rows equals the batch's. */
static bool compare_single(trial *t, int32_t row, void *scratch)
{
    int32_t const rows = count_rows(t, t->in.args);
    for (int32_t i = 0; i < t->got.n; i++) {
        const hd_operand *const o = &t->got.operand[i];
        row_step const          step = find_row_step(t, i, scratch);
        for (int64_t c = 0; o->role != HD_IN && step.bytes && c < step.copies; c++) {
            const unsigned char *a = t->got.data[i]->data + (c * rows + row) * step.bytes;
            const unsigned char *b = t->again.data[i]->data + (row + c) * step.bytes;
            if (memcmp(a, b, (size_t)step.bytes) != 0)
                return fail(t, FAULT_BATCH, "row %d of %s computed alone has other bits", row,
                            o->name);
        }
    }
    return true;
}

static bool check_single(trial *t, int32_t row, void *args)
{
    test_side_copy_inputs(&t->again, &t->in);
    test_side_poison(&t->again, POISON_AGAIN);
    select_row(t, &t->again, row, args);
    if (!t->k->supports(args)) return true;
    return run_guarded(t, t->k, &t->again, args) && check_surroundings(t, &t->again) &&
           compare_single(t, row, args);
}

static bool check_batch(trial *t)
{
    int32_t const rows = count_rows(t, t->in.args);
    if (rows < 2) return true;
    void *const args = hd_memory_alloc(t->k->op->args_bytes);
    bool        ok = args && test_side_open(&t->again, t->k->op, t->in.args, TEST_PLACE_BACK);
    for (int32_t i = 0; ok && i < rows && i < MAX_BATCH_ROWS; i++) {
        bool const is_last = i == MAX_BATCH_ROWS - 1;
        ok = check_single(t, is_last ? rows - 1 : i, args);
    }
    test_side_close(&t->again);
    hd_memory_free(args);
    return ok;
}

static int32_t find_operand(const test_side *s, const char *name)
{
    for (int32_t i = 0; i < s->n; i++)
        if (strcmp(s->operand[i].name, name) == 0) return i;
    return -1;
}

/* Runs with the input `alias.in` in the memory of the output `alias.out`. */
static bool run_aliased(trial *t, test_alias alias)
{
    test_side *const s = &t->again;
    int32_t const    in = find_operand(s, alias.in), out = find_operand(s, alias.out);
    if (in < 0 || out < 0) return true;
    test_side_copy_inputs(s, &t->in);
    test_side_poison(s, POISON_AGAIN);
    memcpy(s->data[out]->data, t->in.data[in]->data, s->data[out]->bytes);
    memcpy((char *)s->args + s->operand[in].slot, &s->data[out]->data, sizeof(void *));
    if (!run_guarded(t, t->k, s, s->args) || !check_surroundings(t, s)) return false;
    const char *const other = test_side_different_output(&t->got, s);
    return !other || fail(t, FAULT_ALIAS, "%s in the memory of %s", alias.in, alias.out);
}

static bool check_aliases(trial *t)
{
    bool ok = true;
    for (size_t i = 0; ok && i < 2 && t->cases->alias[i].in; i++) {
        ok = test_side_open(&t->again, t->k->op, t->in.args, TEST_PLACE_FRONT) &&
             run_aliased(t, t->cases->alias[i]);
        test_side_close(&t->again);
    }
    return ok;
}

/* ---- one case, one kernel ---- */

static void fill_inputs(trial *t)
{
    for (int32_t i = 0; i < t->in.n; i++) {
        const hd_operand *const o = &t->in.operand[i];
        if (o->role == HD_OUT) continue;
        for (int32_t m = 0; m < test_operand_members(o); m++) {
            t->c.member = m;
            if (t->cases->fill)
                t->cases->fill(t->in.args, o, t->in.data[i][m].data, &t->c);
            else
                test_fill_floats(o, t->in.data[i][m].data, &t->c);
        }
    }
}

static bool try_case(trial *t, const void *args)
{
    const hd_op *const op = t->k->op;
    if (!test_side_open(&t->in, op, args, TEST_PLACE_FRONT) ||
        !test_side_open(&t->wanted, op, args, TEST_PLACE_FRONT) ||
        !test_side_open(&t->got, op, args, TEST_PLACE_FRONT))
        return fail(t, FAULT_STATUS, "no memory for the operands");
    fill_inputs(t);
    return run_side(t, t->ref, &t->wanted, POISON_AGAIN) &&
           run_side(t, t->k, &t->got, POISON_FIRST) && check_written(t) && compare_outputs(t) &&
           check_repeat(t, TEST_PLACE_FRONT, FAULT_REPEAT) &&
           check_repeat(t, TEST_PLACE_BACK, FAULT_PLACEMENT) && check_graph(t) && check_team(t) &&
           check_batch(t) && check_aliases(t);
}

static void run_case(trial *t)
{
    const hd_op *const op = t->k->op;
    void *const        args = hd_memory_alloc(op->args_bytes);
    if (!args) {
        fail(t, FAULT_STATUS, "no memory for the arguments");
        return;
    }
    t->c.rng = t->seed ^ ((uint64_t)t->c.index << 32) ^ ((uint64_t)t->c.pattern << 56);
    t->cases->make(&t->c, args);
    if (t->k->supports(args)) {
        t->report->cases++;
        try_case(t, args);
    }
    test_side_close(&t->in);
    test_side_close(&t->wanted);
    test_side_close(&t->got);
    hd_memory_free(args);
}

static bool has_case(const hd_kernel *k, const hd_cases *cases, int32_t i)
{
    return (k->isa & HD_ISA_DEVICE) || !cases->is_for_device || !cases->is_for_device(i);
}

void test_kernel(const hd_kernel *k, const hd_kernel *ref, const hd_cases *cases, uint64_t seed,
                 test_report *out)
{
    *out = (test_report){0};
    catch_faults();
    for (int32_t i = 0; i < cases->n; i++)
        for (int p = 0; p < TEST_N_PATTERNS && out->fault == FAULT_NONE; p++) {
            if (!(cases->patterns & 1U << p)) continue;
            if (i < TEST_MODEL_CASES && p != TEST_UNIFORM) continue; /* large */
            if (!has_case(k, cases, i)) continue;
            trial t = {.k = k, .ref = ref, .cases = cases, .seed = seed, .report = out};
            t.c = (test_case){.index = i, .variant = cases->variant, .pattern = (test_pattern)p};
            run_case(&t);
        }
    if (out->cases > 0 || out->fault != FAULT_NONE) return;
    out->fault = FAULT_UNSUPPORTED;
    snprintf(out->message, sizeof out->message, "%s: %s: none of %d cases ran", k->name,
             test_fault_name(FAULT_UNSUPPORTED), cases->n);
}
