/* Where numbers stop being numbers. */
#include <inttypes.h>
#include <math.h>

#include "engine/engine.h"

typedef struct search {
    hd_engine         *e;
    const hd_pass_row *rows; /* of the pass */
    int32_t            n;
} search;

/* Whether a step's operand holds f32 values that it wrote. */
static bool is_looked_at(const hd_operand *o)
{
    return o->role != HD_IN && o->dtype == HD_F32 && o->list == 0;
}

static int64_t first_bad(const float *x, int64_t n)
{
    int64_t i = 0;
    while (i < n && isfinite(x[i])) i++;
    return i;
}

static hd_status fail_at(const search *f, const hd_step *step, const hd_operand *o, int64_t i,
                         hd_error *err)
{
    char          name[64];
    int64_t const row = i / (hd_operand_count(o) / o->shape[0]); /* shapes begin with the rows */
    int32_t const pos = row < f->n ? f->rows[row].pos : f->rows[f->n - 1].pos;
    hd_step_name(step, name, sizeof name);
    if (step->layer >= 0)
        HD_FAIL(err, HD_ERR_NUMERIC,
                "first NaN or infinity in layer %d, step %s (%s), element %" PRId64
                " of %s, token %d",
                step->layer, name, step->kernel->name, i, o->name, pos);
    HD_FAIL(err, HD_ERR_NUMERIC,
            "first NaN or infinity in step %s (%s), element %" PRId64 " of %s, token %d", name,
            step->kernel->name, i, o->name, pos);
}

/* On an accelerator the values are fetched first. */
static hd_status check_operand(const search *f, const hd_step *step, const hd_operand *o,
                               hd_error *err)
{
    int64_t const n = hd_operand_count(o);
    float        *x = hd_operand_pointer(step->args, o), *copy = NULL;
    hd_status     s = HD_OK;
    if (f->e->device) {
        size_t const bytes = (size_t)n * sizeof *x;
        copy = hd_memory_alloc(bytes);
        if (!copy) HD_FAIL(err, HD_ERR_MEMORY, "no memory to look for NaN: %zu bytes", bytes);
        s = hd_device_read(f->e->device, copy, x, bytes, err);
        if (s == HD_OK) s = hd_device_sync(f->e->device, err);
        x = copy;
    }
    int64_t const bad = s == HD_OK ? first_bad(x, n) : n;
    hd_memory_free(copy);
    return bad < n ? fail_at(f, step, o, bad, err) : s;
}

static hd_status check_step(void *user, const hd_step *step, hd_error *err)
{
    hd_operand    o[HD_MAX_OPERANDS];
    int32_t const n = step->kernel->op->describe(step->args, o);
    for (int32_t i = 0; i < n; i++)
        if (is_looked_at(&o[i])) HD_TRY(check_operand(user, step, &o[i], err));
    return HD_OK;
}

hd_status hd_engine_find_nan(hd_engine *e, const hd_pass_row *rows, int32_t n, hd_error *err)
{
    search            f = {e, rows, n};
    hd_rows_run const run = {.rows = rows, .n = n, .after = check_step, .user = &f};
    return hd_engine_run_rows(e, &run, err);
}
