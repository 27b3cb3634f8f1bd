#include <stdio.h>
#include <string.h>

#include "bench/bench_layer_weights.h"
#include "bench/bench_operands.h"
#include "bench/bench_report.h"
#include "model/plan_order.h"

#define MAX_STEPS 160 /* of a layer                             */
#define ROUNDS    4   /* a GPU runs a step so often in each layer */

/* Layers, the plan of a pass over them, and what each step took in each run. */
typedef struct layer_job {
    hd_bench_place         place;
    hd_kernel_choice       choice; /* of the plan: the place's families for every op */
    hd_bench_options       o;
    hd_bench_report       *out;
    const hd_bench_family *family;
    hd_bench_layer_model   m;
    hd_arena               meta; /* base owned */
    hd_plan                plan;
    hd_step               *room;             /* [ROUNDS, plan.cap] in meta: of a part */
    int32_t                first, per_layer; /* steps before the layers; of each    */
    double                 seconds[MAX_STEPS][HD_BENCH_RUNS];
    int32_t                run, step; /* that are being timed */
    double                 last;      /* when the step before ended */
} layer_job;

/* ---- the plan ---- */

static void fill_plan(layer_job *j)
{
    hd_plan_begin(&j->plan, &j->m.act, &j->meta, hd_model_max_steps(&j->m.model), &j->choice);
    hd_model_bind_pass(&j->m.pass, &j->m.model, j->o.tokens, &j->m.act);
    hd_model_plan(&j->plan, &j->m.model, &j->m.pass, j->o.tokens, 0);
    j->room = hd_arena_alloc(&j->meta, (size_t)ROUNDS * (size_t)j->plan.cap * sizeof *j->room);
}

/* Layers are alike, so each has as many steps. */
static void find_layers(layer_job *j)
{
    j->first = j->per_layer = 0;
    for (int32_t i = 0; i < j->plan.n; i++) {
        j->first += j->plan.steps[i].layer < 0;
        j->per_layer += j->plan.steps[i].layer == 0;
    }
}

static hd_status bind_plan(layer_job *j, hd_error *err)
{
    void *act = NULL;
    fill_plan(j);
    if (j->plan.error.code != HD_OK) HD_FAIL(err, j->plan.error.code, "%s", j->plan.error.message);
    size_t const act_bytes = j->m.act.peak, meta_bytes = j->meta.peak;
    HD_TRY(hd_bench_put(&j->place, NULL, act_bytes, &act, err));
    hd_memory_free(j->meta.base);
    j->meta = (hd_arena){.base = hd_memory_alloc(meta_bytes), .cap = meta_bytes};
    if (!j->meta.base) HD_FAIL(err, HD_ERR_MEMORY, "no room for a plan");
    j->m.act = (hd_arena){.base = act, .cap = act_bytes};
    fill_plan(j);
    find_layers(j);
    if (j->meta.failed || j->m.act.failed || j->per_layer > MAX_STEPS)
        HD_FAIL(err, HD_ERR_MEMORY, "a layer of %d steps outgrew its room", j->per_layer);
    return HD_OK;
}

/* The pass's tokens are the last ones of the context. */
static hd_status send_ids(layer_job *j, hd_error *err)
{
    int32_t const t = j->o.tokens;
    size_t const  bytes = (size_t)t * sizeof(int32_t);
    int32_t      *ids = hd_memory_alloc(3 * bytes);
    if (!ids) HD_FAIL(err, HD_ERR_MEMORY, "no room for %d ids", t);
    for (int32_t i = 0; i < t; i++) {
        ids[i] = i % j->m.config.n_vocab;
        ids[t + i] = j->o.context - t + i;
        ids[2 * t + i] = 0;
    }
    hd_status s = hd_device_write(j->place.device, j->m.pass.token, ids, bytes, err);
    if (s == HD_OK) s = hd_device_write(j->place.device, j->m.pass.pos, ids + t, bytes, err);
    if (s == HD_OK) s = hd_device_write(j->place.device, j->m.pass.seq, ids + 2 * t, bytes, err);
    if (s == HD_OK) s = hd_device_sync(j->place.device, err);
    hd_memory_free(ids);
    return s;
}

/* ---- time ---- */

static hd_status note_time(void *user, const hd_step *step, hd_error *err)
{
    layer_job *const j = user;
    (void)err;
    if (step->layer < 0) return HD_OK;
    double const now = hd_bench_now();
    j->seconds[j->step++][j->run] = now - j->last;
    j->last = now;
    return HD_OK;
}

/* Caches are emptied before each run: between two of a model's there are other layers. */
static hd_status time_steps(layer_job *j, hd_error *err)
{
    for (j->run = 0; j->run < HD_BENCH_RUNS; j->run++) {
        j->step = 0;
        hd_bench_read_rate(&j->place);
        j->last = hd_bench_now();
        HD_TRY(hd_plan_run(&j->plan, j->place.stream, note_time, j, err));
    }
    return HD_OK;
}

/* Steps `step` .. of each layer, n of them, one layer behind the other, `rounds` times. */
static hd_plan take_steps(const layer_job *j, int32_t step, int32_t n, int32_t rounds)
{
    hd_plan part = j->plan;
    part.steps = j->room;
    part.n = 0;
    for (int32_t i = 0; i < rounds * j->m.config.n_layers; i++) {
        int32_t const layer = i % j->m.config.n_layers;
        memcpy(part.steps + part.n, j->plan.steps + j->first + layer * j->per_layer + step,
               (size_t)n * sizeof *part.steps);
        part.n += n;
    }
    return part;
}

static hd_status time_recording(layer_job *j, const hd_plan *p, double *seconds, hd_error *err)
{
    hd_graph *graph = NULL;
    HD_TRY(hd_plan_record(p, j->place.device, &graph, err));
    hd_status const s = hd_bench_replay(&j->place, graph, seconds, err);
    hd_graph_free(graph);
    return s;
}

/* A step of an accelerator: its kernels one behind the other, each with the weights of another
 * layer. */
static hd_status run_chain(void *ctx, hd_stream *stream, hd_error *err)
{
    return hd_plan_run(ctx, stream, NULL, NULL, err);
}

static hd_status time_chain(layer_job *j, int32_t step, hd_error *err)
{
    hd_plan             part = take_steps(j, step, 1, ROUNDS);
    hd_bench_call const call = {run_chain, &part, 0};
    hd_bench_time       time;
    HD_TRY(hd_bench_measure(&j->place, &j->out->machine, &call, &time, err));
    for (int32_t run = 0; run < HD_BENCH_RUNS; run++) j->seconds[step][run] = time.seconds / part.n;
    return HD_OK;
}

/* ---- rows ---- */

static void name_row(const layer_job *j, const char *step, hd_bench_row *row)
{
    snprintf(row->label, sizeof row->label, "%s r%d %s", j->family->name, j->m.layers[0].ratio,
             step);
}

static hd_bench_row row_of(const layer_job *j, int32_t step)
{
    const hd_step *const s = &j->plan.steps[j->first + step];
    hd_bench_row         row = hd_bench_row_of("", s->kernel, s->args, j->o.tokens);
    name_row(j, s->label, &row);
    return row;
}

static void add_step(layer_job *j, int32_t step)
{
    hd_bench_row row = row_of(j, step);
    row.us = hd_bench_median(j->seconds[step], HD_BENCH_RUNS) * 1e6;
    if (j->out->machine.read > 0)
        row.read_share = row.bytes / (row.us * 1e-6) / j->out->machine.read;
    hd_bench_add(j->out, &row);
}

/* A run of a layer's steps as a whole, as an engine runs it: an accelerator lets steps that do not
 * need each other run side by side. */
static hd_status measure_part(layer_job *j, const char *name, int32_t first, int32_t n,
                              hd_error *err)
{
    int32_t const layers = j->m.config.n_layers;
    hd_plan       part = take_steps(j, first, n, 1);
    hd_bench_row  row = {.op = "layer",
                         .kernel = hd_act_name(j->m.model.act),
                         .tokens = j->o.tokens,
                         .context = j->o.context};
    name_row(j, name, &row);
    snprintf(row.shape, sizeof row.shape, "%s at %d", j->o.is_pro ? "pro" : "flash", j->o.context);
    for (int32_t i = first; i < first + n; i++) {
        hd_bench_row const step = row_of(j, i);
        row.bytes += step.bytes;
        row.operations += step.operations;
    }
    hd_bench_call const call = {run_chain, &part, row.bytes};
    hd_bench_time       time;
    if (j->place.device) {
        HD_TRY(time_recording(j, &part, &time.seconds, err));
        time.seconds /= layers;
        time.read_share = row.bytes / time.seconds / j->out->machine.read;
    } else
        HD_TRY(hd_bench_measure(&j->place, &j->out->machine, &call, &time, err));
    row.us = time.seconds * 1e6;
    row.read_share = time.read_share;
    hd_bench_add(j->out, &row);
    return HD_OK;
}

static int32_t find_step(const layer_job *j, const char *label)
{
    int32_t i = 0;
    while (strcmp(j->plan.steps[j->first + i].label, label) != 0) i++;
    return i;
}

static hd_status add_rows(layer_job *j, hd_error *err)
{
    int32_t const ffn = find_step(j, "hc_ffn_pre");
    if (!j->place.device) HD_TRY(time_steps(j, err));
    for (int32_t i = 0; i < j->per_layer; i++) {
        if (j->place.device) HD_TRY(time_chain(j, i, err));
        add_step(j, i);
    }
    HD_TRY(hd_plan_run(&j->plan, j->place.stream, NULL, NULL, err));
    HD_TRY(measure_part(j, "attention", 0, ffn, err));
    HD_TRY(measure_part(j, "ffn", ffn, j->per_layer - ffn, err));
    return measure_part(j, "layer", 0, j->per_layer, err);
}

/* The plan of a pass over the layers as they are, run once. */
static hd_status prepare(layer_job *j, hd_error *err)
{
    j->m.act = (hd_arena){0};
    hd_memory_free(j->meta.base);
    j->meta = (hd_arena){0};
    HD_TRY(bind_plan(j, err));
    HD_TRY(send_ids(j, err));
    return hd_plan_run(&j->plan, j->place.stream, NULL, NULL, err);
}

static hd_status measure_layer(layer_job *j, int32_t ratio, hd_error *err)
{
    HD_TRY(hd_bench_layer_make(&j->m, &j->place, &j->o, j->family, ratio, err));
    HD_TRY(prepare(j, err));
    HD_TRY(add_rows(j, err));
    hd_bench_place_clear(&j->place);
    return HD_OK;
}

#define FIRST_CONTEXT 1024 /* those that follow are four times as long */

/* Only whole layers, for contexts up to the one asked for. */
static hd_status measure_contexts(layer_job *j, int32_t ratio, hd_error *err)
{
    int32_t const most = j->o.context;
    int64_t       context = most < FIRST_CONTEXT ? most : FIRST_CONTEXT;
    j->o.context = (int32_t)context;
    hd_status s = hd_bench_layer_make(&j->m, &j->place, &j->o, j->family, ratio, err);
    while (s == HD_OK) {
        s = prepare(j, err);
        if (s == HD_OK) s = measure_part(j, "layer", 0, j->per_layer, err);
        if (context == most) break;
        context = 4 * context < most ? 4 * context : most;
        j->o.context = (int32_t)context;
        if (s == HD_OK) s = hd_bench_layer_set_context(&j->m, &j->place, j->o.context, err);
    }
    j->o.context = most;
    hd_bench_place_clear(&j->place);
    return s;
}

/* ---- which ---- */

static hd_status check_families(const char *list, hd_error *err)
{
    const char *names[8];
    for (int32_t i = 0; i < hd_bench_n_families; i++) names[i] = hd_bench_families[i].name;
    return hd_bench_check_list(list, names, hd_bench_n_families, "families", err);
}

typedef hd_status layer_fn(layer_job *j, int32_t ratio, hd_error *err);

static hd_status measure_all(layer_job *j, layer_fn *measure, const hd_log *log, hd_error *err)
{
    static const int32_t ratios[] = {0, 4, 128};
    int32_t const        n = hd_bench_n_families * 3;
    for (int32_t i = 0; i < n; i++) {
        hd_log_progress(log, "measuring layers", i, n);
        j->family = &hd_bench_families[i / 3];
        if (hd_bench_is_listed(j->o.families, j->family->name))
            HD_TRY(measure(j, ratios[i % 3], err));
    }
    hd_log_progress(log, "measuring layers", n, n);
    return hd_bench_finish(j->out, err);
}

static hd_status measure_layers(const hd_bench_options *o, layer_fn *measure, hd_bench_report *out,
                                const hd_log *log, hd_error *err)
{
    HD_TRY(check_families(o->families, err));
    if (o->tokens > o->context)
        HD_FAIL(err, HD_ERR_INVALID, "%d tokens do not fit a context of %d", o->tokens, o->context);
    layer_job *const j = hd_memory_alloc(sizeof *j);
    if (!j) HD_FAIL(err, HD_ERR_MEMORY, "no room for a layer");
    j->o = *o;
    j->out = out;
    hd_status s = hd_bench_place_open(&j->place, o, &out->machine, err);
    j->choice = hd_kernel_choice_of(j->place.isa);
    if (s == HD_OK) s = measure_all(j, measure, log, err);
    hd_memory_free(j->meta.base);
    hd_bench_place_close(&j->place);
    hd_memory_free(j);
    return s;
}

hd_status hd_bench_layer(const hd_bench_options *o, hd_bench_report *out, const hd_log *log,
                         hd_error *err)
{
    out->what = "layer";
    return measure_layers(o, measure_layer, out, log, err);
}

hd_status hd_bench_contexts(const hd_bench_options *o, hd_bench_report *out, const hd_log *log,
                            hd_error *err)
{
    out->what = "contexts";
    return measure_layers(o, measure_contexts, out, log, err);
}
