/* Passes: the plan of each size, kept while it is used, and rows that run through it. */
#include <string.h>

#include "engine/engine.h"
#include "engine/sampler.h"
#include "model/plan_order.h"

/* ---- plans ---- */

/* What tells one plan from another. */
typedef struct plan_size {
    int32_t t, n_wanted;
    bool    is_mtp;
} plan_size;

/* Fills a plan; run twice over the same code, first to measure. */
static void fill_plan(hd_engine *e, hd_plan_slot *slot, hd_arena *act)
{
    hd_plan_begin(&slot->plan, act, &slot->meta, hd_model_max_steps(&e->model), &e->choice);
    if (slot->is_mtp)
        hd_model_plan_mtp(&slot->plan, &e->model, &e->pass, slot->t);
    else
        hd_model_plan(&slot->plan, &e->model, &e->pass, slot->t, slot->n_wanted);
}

static hd_status finish_plan(const hd_plan_slot *slot, const hd_arena *act, hd_error *err)
{
    const hd_error *const why = &slot->plan.error;
    if (why->code != HD_OK) HD_FAIL(err, why->code, "%s", why->message);
    if (act->failed || slot->meta.failed)
        HD_FAIL(err, HD_ERR_MEMORY, "a pass of %d tokens does not fit the memory set aside",
                slot->t);
    return HD_OK;
}

static hd_plan_slot *find_plan(hd_engine *e, plan_size z)
{
    for (int i = 0; i < HD_N_PLANS; i++) {
        hd_plan_slot *const s = &e->plans[i];
        if (s->t == z.t && s->n_wanted == z.n_wanted && s->is_mtp == z.is_mtp) return s;
    }
    return NULL;
}

/* The place that was idle longest; a recorded plan keeps its own. */
static hd_plan_slot *idle_slot(hd_engine *e)
{
    hd_plan_slot *slot = NULL;
    for (int i = 0; i < HD_N_PLANS; i++)
        if (!e->plans[i].graph && (!slot || e->plans[i].used < slot->used)) slot = &e->plans[i];
    return slot;
}

/* The plan of this size, bound anew in the place that was idle longest when it is not there. */
static hd_status prepare_plan(hd_engine *e, plan_size z, hd_plan_slot **out, hd_error *err)
{
    hd_plan_slot *slot = find_plan(e, z);
    if (!slot) {
        slot = idle_slot(e);
        slot->t = z.t;
        slot->n_wanted = z.n_wanted;
        slot->is_mtp = z.is_mtp;
        slot->meta.used = 0;
        slot->meta.failed = false;
        hd_arena_release(&e->act, e->act_mark);
        fill_plan(e, slot, &e->act);
        hd_status const s = finish_plan(slot, &e->act, err);
        if (s != HD_OK) {
            slot->t = 0;
            return s;
        }
    }
    slot->used = ++e->clock;
    *out = slot;
    return HD_OK;
}

/* The largest pass in each of its forms: logits of all rows, of all but one, which are gathered
 * first, and behind the MTP block. */
hd_status hd_engine_measure_plans(hd_engine *e, hd_arena *act, size_t *meta_bytes, hd_error *err)
{
    int32_t const   t = e->max_rows;
    plan_size const sizes[] = {{t, t, false}, {t, t - 1, false}, {t, t, true}};
    *meta_bytes = 0;
    for (int i = 0; i < (e->options.has_mtp ? 3 : 2); i++) {
        hd_plan_slot slot = {.t = t, .n_wanted = sizes[i].n_wanted, .is_mtp = sizes[i].is_mtp};
        fill_plan(e, &slot, act);
        HD_TRY(finish_plan(&slot, act, err));
        if (slot.meta.peak > *meta_bytes) *meta_bytes = slot.meta.peak;
    }
    return HD_OK;
}

hd_status hd_engine_bind_plans(hd_engine *e, size_t meta_bytes, hd_error *err)
{
    size_t bytes;
    e->meta = hd_size_mul(meta_bytes, HD_N_PLANS, &bytes) ? hd_memory_alloc(bytes) : NULL;
    if (!e->meta) HD_FAIL(err, HD_ERR_MEMORY, "no memory for plans: %zu bytes each", meta_bytes);
    for (int i = 0; i < HD_N_PLANS; i++)
        e->plans[i].meta = (hd_arena){.base = e->meta + (size_t)i * meta_bytes, .cap = meta_bytes};
    return HD_OK;
}

/* ---- rows ---- */

static int32_t count_wanted(const hd_rows_run *run)
{
    int32_t n = 0;
    if (run->is_mtp) return run->n;
    for (int32_t i = 0; i < run->n; i++) n += run->rows[i].is_wanted;
    return n;
}

/* Rows that run: those asked for, filled up to a recorded size where all are wanted. */
static int32_t padded_rows(const hd_engine *e, const hd_rows_run *run, int32_t n_wanted)
{
    int32_t best = 0;
    if (run->is_mtp || run->after || n_wanted < run->n) return run->n;
    for (int i = 0; i < HD_N_PLANS; i++) {
        const hd_plan_slot *const s = &e->plans[i];
        if (s->graph && s->t >= run->n && (!best || s->t < best)) best = s->t;
    }
    return best ? best : run->n;
}

/* Row i of the pass; those behind the ones asked for stand in the last sequence, which nobody
 * reads. */
static hd_pass_row row_at(const hd_engine *e, const hd_rows_run *run, int32_t i)
{
    return i < run->n ? run->rows[i] : (hd_pass_row){.pos = i, .seq = e->model.shape.n_seq - 1};
}

/* What the pass reads, from one buffer of the host to where kernels read it. */
static hd_status send_rows(hd_engine *e, const hd_rows_run *run, int32_t t, hd_error *err)
{
    size_t const   bytes = (size_t)t * sizeof(int32_t);
    int32_t *const token = e->ids, *const pos = token + e->max_rows;
    int32_t *const seq = pos + e->max_rows, *const next = seq + e->max_rows;
    int32_t *const wanted = next + e->max_rows;
    int32_t        n_wanted = 0;
    for (int32_t i = 0; i < t; i++) {
        hd_pass_row const r = row_at(e, run, i);
        token[i] = r.token;
        pos[i] = r.pos;
        seq[i] = r.seq;
        if (r.is_wanted) wanted[n_wanted++] = i;
    }
    HD_TRY(hd_device_write(e->device, e->pass.token, token, bytes, err));
    HD_TRY(hd_device_write(e->device, e->pass.pos, pos, bytes, err));
    HD_TRY(hd_device_write(e->device, e->pass.seq, seq, bytes, err));
    if (n_wanted > 0 && n_wanted < run->n)
        HD_TRY(hd_device_write(e->device, e->pass.wanted, wanted, bytes, err));
    if (!run->next) return HD_OK;
    memcpy(next, run->next, bytes);
    return hd_device_write(e->device, e->pass.next, next, bytes, err);
}

/* On the host e->logits is where the pass wrote them. */
static hd_status fetch_logits(hd_engine *e, int32_t first, int32_t n, hd_error *err)
{
    size_t const vocab = (size_t)e->model.config->n_vocab, at = (size_t)first * vocab;
    return hd_device_read(e->device, e->logits + at, e->pass.logits + at,
                          (size_t)n * vocab * sizeof *e->logits, err);
}

/* Draws from all rows, and fetches what the host wants to see as well. */
static hd_status draw_rows(hd_engine *e, const hd_row_ask *asks, int32_t n, hd_error *err)
{
    size_t const rows = (size_t)e->max_rows;
    for (int32_t i = 0; i < n; i++) e->asks[i] = asks[i].draw;
    HD_TRY(hd_device_write(e->device, e->pass.asks, e->asks, (size_t)n * sizeof *e->asks, err));
    HD_TRY(hd_model_draw(&e->model, &e->pass, n, &e->choice, e->stream, err));
    for (int32_t i = 0; i < n; i++)
        if (asks[i].is_wanted) HD_TRY(fetch_logits(e, i, 1, err));
    return hd_device_read(e->device, e->drawn, e->pass.drawn, 2 * rows * sizeof *e->drawn, err);
}

hd_status hd_engine_drawn(const hd_engine *e, int32_t i, hd_token_prob *out, hd_error *err)
{
    out->id = e->drawn[i];
    memcpy(&out->logprob, &e->drawn[e->max_rows + i], sizeof out->logprob);
    if (out->id >= 0) return HD_OK;
    return hd_sampler_fail_logit(-1 - out->id, e->model.config->n_vocab, out->logprob, err);
}

hd_status hd_engine_run_rows(hd_engine *e, const hd_rows_run *run, hd_error *err)
{
    int32_t const   n_wanted = count_wanted(run), t = padded_rows(e, run, n_wanted);
    plan_size const z = {t, t > run->n ? t : n_wanted, run->is_mtp};
    hd_plan_slot   *slot = NULL;
    HD_TRY(prepare_plan(e, z, &slot, err));
    HD_TRY(send_rows(e, run, t, err));
    if (slot->graph && !run->after)
        HD_TRY(hd_graph_launch(e->device, slot->graph, err));
    else
        HD_TRY(hd_plan_run(&slot->plan, e->stream, run->after, run->user, err));
    if (n_wanted == 0) return hd_device_sync(e->device, err);
    return run->asks ? draw_rows(e, run->asks, n_wanted, err) : fetch_logits(e, 0, n_wanted, err);
}

/* ---- one sequence ---- */

static bool is_wanted(const hd_pass_run *run, int32_t i)
{
    return run->rows == HD_LOGITS_ALL || (run->rows == HD_LOGITS_LAST && i == run->n - 1);
}

static hd_rows_run list_rows(hd_engine *e, const hd_pass_run *run)
{
    for (int32_t i = 0; i < run->n; i++)
        e->rows[i] = (hd_pass_row){run->tokens[i], run->pos + i, run->seq, is_wanted(run, i)};
    return (hd_rows_run){.rows = e->rows,
                         .asks = run->asks,
                         .next = run->next,
                         .n = run->n,
                         .is_mtp = run->is_mtp,
                         .after = run->after,
                         .user = run->user};
}

hd_status hd_engine_run(hd_engine *e, const hd_pass_run *run, hd_error *err)
{
    hd_rows_run const rows = list_rows(e, run);
    return hd_engine_run_rows(e, &rows, err);
}

hd_status hd_engine_plan(hd_engine *e, const hd_pass_run *run, const hd_plan **out, hd_error *err)
{
    hd_rows_run const rows = list_rows(e, run);
    hd_plan_slot     *slot = NULL;
    HD_TRY(prepare_plan(e, (plan_size){run->n, count_wanted(&rows), run->is_mtp}, &slot, err));
    *out = &slot->plan;
    return HD_OK;
}

void hd_engine_choose(hd_engine *e, const hd_kernel_choice *choice)
{
    e->choice = *choice;
    for (int i = 0; i < HD_N_PLANS; i++) {
        e->plans[i].t = 0;
        hd_graph_free(e->plans[i].graph);
        e->plans[i].graph = NULL;
    }
}

/* ---- recording ---- */

/* One size. */
static hd_status record_rows(hd_engine *e, int32_t t, hd_error *err)
{
    hd_rows_run const run = {.n = 0};
    hd_plan_slot     *slot = NULL;
    HD_TRY(prepare_plan(e, (plan_size){t, t, false}, &slot, err));
    HD_TRY(send_rows(e, &run, t, err));
    return hd_plan_record(&slot->plan, e->device, &slot->graph, err);
}

hd_status hd_engine_record_plans(hd_engine *e, hd_error *err)
{
    int32_t const most =
        e->options.n_sessions < e->options.chunk ? e->options.n_sessions : e->options.chunk;
    if (!e->device) return HD_OK;
    for (int32_t i = 0, t = 1; i < HD_N_GRAPHS && t < 2 * most && t <= e->options.chunk;
         i++, t *= 2)
        HD_TRY(record_rows(e, t, err));
    return HD_OK;
}
