#include "model/plan.h"

#include <stdio.h>
#include <string.h>

void hd_plan_begin(hd_plan *p, hd_arena *act, hd_arena *meta, int32_t cap,
                   const hd_kernel_choice *choice)
{
    *p = (hd_plan){.act = act, .meta = meta, .cap = cap, .choice = choice, .layer = HD_LAYER_NONE};
    p->steps = hd_arena_alloc(meta, (size_t)cap * sizeof *p->steps);
}

static void refuse_step(hd_plan *p, const hd_step *step, const hd_op *op, const void *args)
{
    const char *const limit = hd_op_broken_limit(op, args);
    char              name[64];
    hd_step_name(step, name, sizeof name);
    hd_error_set(&p->error, HD_ERR_UNSUPPORTED, -1,
                 "no kernel of %s for step %s takes these dimensions%s%s", op->name, name,
                 limit ? ": wanted " : "", limit ? limit : "");
}

void hd_plan_add(hd_plan *p, const char *label, const hd_op *op, const void *args)
{
    if (p->error.code != HD_OK) return;
    const hd_kernel *const k = hd_kernel_select(p->choice, op, args);
    hd_step const          step = {k, hd_arena_alloc(p->meta, op->args_bytes), label, p->layer};
    if (!k) {
        refuse_step(p, &step, op, args);
        return;
    }
    if (p->meta->failed || p->n == p->cap) {
        hd_error_set(&p->error, HD_ERR_MEMORY, -1, "the plan outgrew its %d steps", p->cap);
        return;
    }
    if (step.args) memcpy((void *)(uintptr_t)step.args, args, op->args_bytes);
    if (p->steps) p->steps[p->n] = step;
    p->n++;
}

void *hd_plan_room(hd_plan *p, int64_t rows, int64_t cols)
{
    return hd_arena_alloc(p->act, (size_t)rows * (size_t)cols * sizeof(float));
}

static hd_status fail_step(const hd_step *s, hd_status why, hd_error *err)
{
    char name[64];
    hd_step_name(s, name, sizeof name);
    HD_FAIL(err, why, "step %s (%s) failed: %s", name, s->kernel->name, hd_status_name(why));
}

hd_status hd_plan_run(const hd_plan *p, hd_stream *stream, hd_step_fn *after, void *user,
                      hd_error *err)
{
    for (int32_t i = 0; i < p->n; i++) {
        const hd_step *const s = &p->steps[i];
        hd_status const      status = s->kernel->run(s->args, stream);
        if (status != HD_OK) return fail_step(s, status, err);
        if (after) HD_TRY(after(user, s, err));
    }
    return HD_OK;
}

void hd_step_name(const hd_step *s, char *out, size_t cap)
{
    if (s->layer >= 0)
        snprintf(out, cap, "L%02d.%s", s->layer, s->label);
    else
        snprintf(out, cap, "%s%s", s->layer == HD_LAYER_MTP ? "mtp." : "", s->label);
}
