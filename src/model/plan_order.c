#include "model/plan_order.h"

#include <stdlib.h>
#include <string.h>

typedef struct span {
    uintptr_t begin, end;
} span;

/* A step that touched bytes which a later one may touch again. */
typedef struct touch {
    span    at;
    int32_t step;
    bool    is_write;
} touch;

typedef struct order_job {
    const hd_plan *p;
    hd_plan_order *o;
    hd_buffer      written; /* span after span: all that the plan writes, sorted, apart */
    hd_buffer      touches; /* touch after touch: those that still matter               */
    hd_buffer      after;   /* int32_t after int32_t: becomes o->after                  */
    size_t         words;   /* of a set of steps                                        */
    uint64_t      *before;  /* [n, words] owned: the steps that each one comes behind   */
    uint64_t      *wanted;  /* [words] owned: those that the step at hand must wait for  */
} order_job;

/* ---- operands ---- */

/* Weights of experts are lists; kernels write none of them. */
static bool span_of(const hd_step *s, const hd_operand *o, span *out)
{
    char *const p = o->list ? NULL : hd_operand_pointer(s->args, o);
    if (!p) return false;
    out->begin = (uintptr_t)p;
    out->end = out->begin + (size_t)hd_operand_count(o) * hd_dtype_bytes(o->dtype);
    return out->end > out->begin;
}

static bool overlaps(const span *a, const span *b)
{
    return a->begin < b->end && b->begin < a->end;
}

static int compare_spans(const void *a, const void *b)
{
    const span *const x = a, *const y = b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* Sorts what is written and joins what meets. */
static void join_written(hd_buffer *b)
{
    span *const  v = (span *)(void *)b->data;
    size_t const n = b->used / sizeof *v;
    size_t       kept = 0;
    if (n == 0) return;
    qsort(v, n, sizeof *v, compare_spans);
    for (size_t i = 1; i < n; i++)
        if (v[i].begin > v[kept].end)
            v[++kept] = v[i];
        else if (v[i].end > v[kept].end)
            v[kept].end = v[i].end;
    b->used = (kept + 1) * sizeof *v;
}

static void list_written(order_job *j)
{
    hd_operand operands[HD_MAX_OPERANDS];
    span       at;
    for (int32_t i = 0; i < j->p->n; i++) {
        const hd_step *const s = &j->p->steps[i];
        int32_t const        n = s->kernel->op->describe(s->args, operands);
        for (int32_t k = 0; k < n; k++)
            if (operands[k].role != HD_IN && span_of(s, &operands[k], &at))
                hd_buffer_add(&j->written, &at, sizeof at);
    }
    join_written(&j->written);
}

/* What is only ever read, such as weights, makes nobody wait. */
static bool is_written(const order_job *j, const span *at)
{
    const span *const v = (const span *)(const void *)j->written.data;
    size_t            low = 0, high = j->written.used / sizeof *v;
    while (low < high) {
        size_t const middle = (low + high) / 2;
        if (v[middle].end <= at->begin)
            low = middle + 1;
        else
            high = middle;
    }
    return low < j->written.used / sizeof *v && overlaps(&v[low], at);
}

/* ---- waiting ---- */

static bool has(const uint64_t *set, int32_t i) { return set[i / 64] >> (i % 64) & 1; }

static void put(uint64_t *set, int32_t i) { set[i / 64] |= UINT64_C(1) << (i % 64); }

/* Wants all whose touch meets this one, unless both only read; forgets touches that a write covers,
 * because who comes later waits for the writer. */
static void want(order_job *j, const span *at, bool is_write)
{
    touch *const v = (touch *)(void *)j->touches.data;
    size_t const n = j->touches.used / sizeof *v;
    size_t       kept = 0;
    for (size_t i = 0; i < n; i++) {
        bool const is_met = overlaps(&v[i].at, at) && (is_write || v[i].is_write);
        if (is_met) put(j->wanted, v[i].step);
        if (!is_write || v[i].at.begin < at->begin || v[i].at.end > at->end) v[kept++] = v[i];
    }
    j->touches.used = kept * sizeof *v;
}

/* The latest first: what it comes behind need not be waited for again. */
static void keep_needed(order_job *j, int32_t step)
{
    uint64_t *const own = j->before + (size_t)step * j->words;
    for (int32_t i = step - 1; i >= 0; i--) {
        if (!has(j->wanted, i) || has(own, i)) continue;
        const uint64_t *const theirs = j->before + (size_t)i * j->words;
        for (size_t w = 0; w < j->words; w++) own[w] |= theirs[w];
        put(own, i);
        hd_buffer_add(&j->after, &i, sizeof i);
        j->o->is_end[i] = false;
    }
}

static void order_step(order_job *j, int32_t step)
{
    const hd_step *const s = &j->p->steps[step];
    hd_operand           operands[HD_MAX_OPERANDS];
    touch                own[HD_MAX_OPERANDS];
    int32_t const        n = s->kernel->op->describe(s->args, operands);
    int32_t              n_own = 0;
    memset(j->wanted, 0, j->words * sizeof *j->wanted);
    for (int32_t k = 0; k < n; k++) {
        touch *const t = &own[n_own];
        *t = (touch){.step = step, .is_write = operands[k].role != HD_IN};
        if (!span_of(s, &operands[k], &t->at) || !is_written(j, &t->at)) continue;
        want(j, &t->at, t->is_write);
        n_own++;
    }
    hd_buffer_add(&j->touches, own, (size_t)n_own * sizeof *own);
    j->o->is_end[step] = true;
    keep_needed(j, step);
    j->o->first[step + 1] = (int32_t)(j->after.used / sizeof(int32_t));
}

static bool open_job(order_job *j)
{
    size_t const n = (size_t)j->p->n;
    j->words = n / 64 + 1;
    j->before = hd_memory_alloc((n * j->words + 1) * sizeof *j->before);
    j->wanted = hd_memory_alloc(j->words * sizeof *j->wanted);
    j->o->first = hd_memory_alloc((n + 1) * sizeof *j->o->first);
    j->o->is_end = hd_memory_alloc((n + 1) * sizeof *j->o->is_end);
    return j->before && j->wanted && j->o->first && j->o->is_end;
}

hd_status hd_plan_order_make(hd_plan_order *out, const hd_plan *p, hd_error *err)
{
    order_job j = {.p = p, .o = out};
    *out = (hd_plan_order){.n = p->n};
    bool is_done = open_job(&j);
    if (is_done) list_written(&j);
    for (int32_t i = 0; is_done && i < p->n; i++) order_step(&j, i);
    is_done = is_done && !j.written.failed && !j.touches.failed && !j.after.failed;
    out->after = (int32_t *)(void *)j.after.data;
    hd_buffer_free(&j.written);
    hd_buffer_free(&j.touches);
    hd_memory_free(j.before);
    hd_memory_free(j.wanted);
    if (!is_done) HD_FAIL(err, HD_ERR_MEMORY, "no memory to order %d steps", p->n);
    return HD_OK;
}

void hd_plan_order_free(hd_plan_order *o)
{
    hd_memory_free(o->first);
    hd_memory_free(o->after);
    hd_memory_free(o->is_end);
    *o = (hd_plan_order){0};
}

/* ---- recording ---- */

/* What steps are recorded into. */
typedef struct record_job {
    const hd_plan       *p;
    const hd_plan_order *o;
    hd_device           *d;
    hd_point           **points; /* [n] owned: the end of each step; NULL: it launched nothing */
    hd_point           **room;   /* [n] of it: a list without repetition                      */
    int32_t              n_room;
} record_job;

static void list_point(record_job *j, hd_point *point)
{
    for (int32_t i = 0; i < j->n_room; i++)
        if (j->room[i] == point) return;
    j->room[j->n_room++] = point;
}

/* The end of a step; of one that launched nothing, that of all it waits for. */
static void list_end(record_job *j, int32_t step)
{
    const hd_plan_order *const o = j->o;
    if (j->points[step])
        list_point(j, j->points[step]);
    else
        for (int32_t i = o->first[step]; i < o->first[step + 1]; i++) list_end(j, o->after[i]);
}

static hd_status record_step(record_job *j, int32_t step, hd_error *err)
{
    hd_plan const one = {.steps = j->p->steps + step, .n = 1};
    j->n_room = 0;
    for (int32_t i = j->o->first[step]; i < j->o->first[step + 1]; i++) list_end(j, j->o->after[i]);
    HD_TRY(hd_device_capture_after(j->d, j->room, j->n_room, err));
    HD_TRY(hd_plan_run(&one, hd_device_stream(j->d), NULL, NULL, err));
    return hd_device_capture_point(j->d, &j->points[step], err);
}

/* A recording ends behind all steps that none waits for. */
static hd_status record_steps(record_job *j, hd_error *err)
{
    for (int32_t i = 0; i < j->p->n; i++) HD_TRY(record_step(j, i, err));
    j->n_room = 0;
    for (int32_t i = 0; i < j->p->n; i++)
        if (j->o->is_end[i]) list_end(j, i);
    return hd_device_capture_after(j->d, j->room, j->n_room, err);
}

static hd_status record_ordered(const hd_plan *p, const hd_plan_order *o, hd_device *d,
                                hd_graph **out, hd_error *err)
{
    record_job j = {.p = p, .o = o, .d = d};
    j.points = hd_memory_alloc((2 * (size_t)p->n + 1) * sizeof *j.points);
    if (!j.points) HD_FAIL(err, HD_ERR_MEMORY, "no memory to record %d steps", p->n);
    j.room = j.points + p->n;
    hd_status s = hd_device_capture_begin(d, err);
    if (s == HD_OK) {
        s = record_steps(&j, err);
        hd_status const ended = hd_device_capture_end(d, out, s == HD_OK ? err : NULL);
        if (s == HD_OK) s = ended;
    }
    hd_memory_free(j.points);
    return s;
}

hd_status hd_plan_record(const hd_plan *p, hd_device *d, hd_graph **out, hd_error *err)
{
    hd_plan_order o;
    *out = NULL;
    HD_TRY(hd_plan_run(p, hd_device_stream(d), NULL, NULL, err));
    HD_TRY(hd_device_sync(d, err));
    hd_status s = hd_plan_order_make(&o, p, err);
    if (s == HD_OK) s = record_ordered(p, &o, d, out, err);
    hd_plan_order_free(&o);
    if (s != HD_OK) {
        hd_graph_free(*out);
        *out = NULL;
    }
    return s;
}
