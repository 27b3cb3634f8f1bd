#include "engine/engine.h"

#include <string.h>

#include "base/cpu.h"

#define DEFAULT_CONTEXT 4096
#define DEFAULT_CHUNK   128
#define MAX_CHUNK       65536
#define DEFAULT_MARKS   4
#define MAX_MARKS       4096

/* ---- plans ---- */

/* Fills a plan; run twice over the same code, first to measure. */
static void fill_plan(hd_engine *e, hd_plan_slot *slot, hd_arena *act)
{
    hd_plan_begin(&slot->plan, act, &slot->meta, hd_model_max_steps(&e->model), e->options.isa);
    if (slot->is_mtp)
        hd_model_plan_mtp(&slot->plan, &e->model, &e->pass, slot->t);
    else
        hd_model_plan(&slot->plan, &e->model, &e->pass, slot->t, slot->rows);
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

static hd_plan_slot *find_plan(hd_engine *e, const hd_pass_run *run)
{
    for (int i = 0; i < HD_N_PLANS; i++) {
        hd_plan_slot *const s = &e->plans[i];
        if (s->t == run->n && s->rows == run->rows && s->is_mtp == run->is_mtp) return s;
    }
    return NULL;
}

/* The plan of this size, bound anew in the place that was idle longest when it is not there. */
static hd_status prepare_plan(hd_engine *e, const hd_pass_run *run, hd_plan_slot **out,
                              hd_error *err)
{
    hd_plan_slot *slot = find_plan(e, run);
    if (!slot) {
        slot = &e->plans[0];
        for (int i = 1; i < HD_N_PLANS; i++)
            if (e->plans[i].used < slot->used) slot = &e->plans[i];
        slot->t = run->n;
        slot->rows = run->rows;
        slot->is_mtp = run->is_mtp;
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

hd_status hd_engine_plan(hd_engine *e, const hd_pass_run *run, const hd_plan **out, hd_error *err)
{
    hd_plan_slot *slot = NULL;
    HD_TRY(prepare_plan(e, run, &slot, err));
    *out = &slot->plan;
    return HD_OK;
}

hd_status hd_engine_run(hd_engine *e, const hd_pass_run *run, hd_error *err)
{
    hd_plan_slot *slot = NULL;
    HD_TRY(prepare_plan(e, run, &slot, err));
    for (int32_t i = 0; i < run->n; i++) {
        e->pass.token[i] = run->tokens[i];
        e->pass.pos[i] = run->pos + i;
        e->pass.seq[i] = run->seq;
        if (run->next) e->pass.next[i] = run->next[i];
    }
    return hd_plan_run(&slot->plan, NULL, run->after, run->user, err);
}

/* ---- open ---- */

static hd_status check_options(hd_options *o, const hd_config *c, const hd_weights *w,
                               hd_error *err)
{
    if (!o->max_tokens)
        o->max_tokens = c->max_positions < DEFAULT_CONTEXT ? c->max_positions : DEFAULT_CONTEXT;
    if (!o->n_sessions) o->n_sessions = 1;
    if (!o->chunk) o->chunk = DEFAULT_CHUNK;
    if (o->max_tokens < 1 || o->max_tokens > c->max_positions)
        HD_FAIL(err, HD_ERR_INVALID, "context of %d tokens: this model takes 1 .. %d",
                o->max_tokens, c->max_positions);
    if (o->n_sessions < 1 || o->n_sessions > 4096)
        HD_FAIL(err, HD_ERR_INVALID, "%d sessions: wanted 1 .. 4096", o->n_sessions);
    if (o->chunk < 1 || o->chunk > MAX_CHUNK)
        HD_FAIL(err, HD_ERR_INVALID, "chunk of %d tokens: wanted 1 .. %d", o->chunk, MAX_CHUNK);
    if (o->chunk > o->max_tokens) o->chunk = o->max_tokens;
    if (o->marks < -1 || o->marks > MAX_MARKS)
        HD_FAIL(err, HD_ERR_INVALID, "%d marks: wanted -1 .. %d", o->marks, MAX_MARKS);
    if (o->marks == 0) o->marks = DEFAULT_MARKS;
    if (o->marks < 0) o->marks = 0;
    if (o->marks > o->max_tokens / HD_CACHE_EDGE) o->marks = o->max_tokens / HD_CACHE_EDGE;
    if (!o->isa) o->isa = hd_cpu_isa();
    if (o->act == HD_ACT_DEFAULT) o->act = hd_model_default_act(w);
    if (o->kv == HD_KV_DEFAULT) o->kv = HD_KV_F32;
    o->has_mtp = o->has_mtp && w->has_mtp;
    return HD_OK;
}

static hd_status own_arena(hd_arena *a, const char *what, hd_error *err)
{
    size_t const bytes = a->peak;
    *a = (hd_arena){.base = hd_memory_alloc(bytes), .cap = bytes};
    if (!a->base) HD_FAIL(err, HD_ERR_MEMORY, "no memory for %s: %zu bytes", what, bytes);
    return HD_OK;
}

static hd_status bind_model(hd_engine *e, hd_error *err)
{
    hd_model *const m = &e->model;
    *m = (hd_model){.config = e->weights->config, .weights = e->weights, .act = e->options.act};
    m->shape = (hd_cache_shape){.n_seq = e->options.n_sessions,
                                .max_tokens = e->options.max_tokens,
                                .chunk = e->options.chunk,
                                .window = m->config->window,
                                .head_dim = m->config->head_dim,
                                .rope_dim = m->config->rope_dim,
                                .index_dim = m->config->index_dim,
                                .kv = e->options.kv};
    HD_TRY(hd_cache_check(&m->shape, err));
    m->caches =
        hd_pool_alloc(&e->weights->pool, ((size_t)m->config->n_layers + 1) * sizeof *m->caches);
    if (!m->caches) HD_FAIL(err, HD_ERR_MEMORY, "no memory for the table of caches");
    hd_model_bind_tables(m, &e->tables);
    HD_TRY(own_arena(&e->tables, "tables", err));
    hd_model_bind_tables(m, &e->tables);
    hd_model_bind_caches(m, &e->kv);
    HD_TRY(own_arena(&e->kv, "the KV cache", err));
    hd_model_bind_caches(m, &e->kv);
    return HD_OK;
}

/* Measures a pass of the largest size, with and without the MTP block. */
static hd_status measure_plans(hd_engine *e, hd_arena *act, size_t *meta_bytes, hd_error *err)
{
    hd_plan_slot slot = {.t = e->options.chunk, .rows = HD_LOGITS_ALL};
    *meta_bytes = 0;
    for (int mtp = 0; mtp <= (e->options.has_mtp ? 1 : 0); mtp++) {
        slot.is_mtp = mtp != 0;
        slot.meta = (hd_arena){0};
        fill_plan(e, &slot, act);
        HD_TRY(finish_plan(&slot, act, err));
        if (slot.meta.peak > *meta_bytes) *meta_bytes = slot.meta.peak;
    }
    return HD_OK;
}

static hd_status bind_plans(hd_engine *e, hd_error *err)
{
    size_t meta_bytes;
    hd_model_bind_pass(&e->pass, &e->model, e->options.chunk, true, &e->act);
    HD_TRY(measure_plans(e, &e->act, &meta_bytes, err));
    HD_TRY(own_arena(&e->act, "activations", err));
    hd_model_bind_pass(&e->pass, &e->model, e->options.chunk, true, &e->act);
    e->act_mark = hd_arena_mark(&e->act);
    e->meta = hd_memory_alloc(meta_bytes * HD_N_PLANS);
    if (!e->meta)
        HD_FAIL(err, HD_ERR_MEMORY, "no memory for plans: %zu bytes", meta_bytes * HD_N_PLANS);
    for (int i = 0; i < HD_N_PLANS; i++)
        e->plans[i].meta = (hd_arena){.base = e->meta + (size_t)i * meta_bytes, .cap = meta_bytes};
    return HD_OK;
}

/* What sessions point to, and the buffer that files are written through. */
static void bind_session_parts(hd_engine *e, hd_arena *arena)
{
    size_t const  vocab = (size_t)e->model.config->n_vocab;
    int32_t const marks = e->options.marks;
    e->io = hd_arena_alloc(arena, HD_IO_BYTES);
    for (int32_t i = 0; i < e->options.n_sessions; i++) {
        hd_session *const s = &e->sessions[i];
        *s = (hd_session){.engine = e, .seq = i};
        s->tokens = hd_arena_alloc(arena, (size_t)e->options.max_tokens * sizeof *s->tokens);
        s->logits = hd_arena_alloc(arena, vocab * sizeof *s->logits);
        s->scratch = hd_arena_alloc(arena, vocab * sizeof *s->scratch);
        s->marks = hd_arena_alloc(arena, (size_t)marks * sizeof *s->marks);
        for (int32_t m = 0; m < marks; m++) {
            uint8_t *const bytes = hd_arena_alloc(arena, (size_t)hd_engine_mark_bytes(e));
            if (s->marks) s->marks[m] = (hd_mark){.bytes = bytes};
        }
    }
}

static hd_status bind_sessions(hd_engine *e, hd_error *err)
{
    size_t const n = (size_t)e->options.n_sessions;
    e->sessions = hd_memory_alloc(n * sizeof *e->sessions);
    if (!e->sessions) HD_FAIL(err, HD_ERR_MEMORY, "no memory for %zu sessions", n);
    bind_session_parts(e, &e->session_parts);
    HD_TRY(own_arena(&e->session_parts, "sessions", err));
    bind_session_parts(e, &e->session_parts);
    return HD_OK;
}

static hd_status open_parts(hd_engine *e, hd_error *err)
{
    const char *const model = e->options.model;
    if (pthread_mutex_init(&e->lock, NULL) != 0)
        HD_FAIL(err, HD_ERR_MEMORY, "no memory for a lock");
    e->has_lock = true;
    HD_TRY(hd_checkpoint_open(&e->checkpoint, model, &e->log, err));
    HD_TRY(hd_tokenizer_open(&e->tokenizer, model, err));
    HD_TRY(hd_weights_load(&e->weights, e->checkpoint, &e->log, err));
    HD_TRY(check_options(&e->options, e->weights->config, e->weights, err));
    if (hd_tokenizer_vocab(e->tokenizer) > e->weights->config->n_vocab)
        HD_FAIL(err, HD_ERR_FORMAT, "%s: the tokenizer has %d ids, the model %d", model,
                hd_tokenizer_vocab(e->tokenizer), e->weights->config->n_vocab);
    HD_TRY(bind_model(e, err));
    HD_TRY(bind_plans(e, err));
    return bind_sessions(e, err);
}

hd_status hd_engine_open(hd_engine **out, const hd_options *opt, hd_error *err)
{
    if (!out || !opt || !opt->model) HD_FAIL(err, HD_ERR_INVALID, "no model named");
    hd_engine *const e = hd_memory_alloc(sizeof *e);
    if (!e) HD_FAIL(err, HD_ERR_MEMORY, "no memory for the engine");
    e->options = *opt;
    e->log = (hd_log){opt->log, opt->progress, opt->user};
    hd_status const s = open_parts(e, err);
    if (s != HD_OK) {
        hd_engine_close(e);
        return s;
    }
    *out = e;
    return HD_OK;
}

void hd_engine_close(hd_engine *e)
{
    if (!e) return;
    hd_memory_free(e->sessions);
    hd_memory_free(e->session_parts.base);
    hd_memory_free(e->meta);
    hd_memory_free(e->act.base);
    hd_memory_free(e->kv.base);
    hd_memory_free(e->tables.base);
    hd_weights_close(e->weights);
    hd_tokenizer_close(e->tokenizer);
    hd_checkpoint_close(e->checkpoint);
    if (e->has_lock) pthread_mutex_destroy(&e->lock);
    hd_memory_free(e);
}

void hd_engine_info_get(const hd_engine *e, hd_engine_info *out)
{
    const hd_config *const c = e->model.config;
    *out = (hd_engine_info){.family = e->weights->family,
                            .act = e->options.act,
                            .kv = e->options.kv,
                            .n_layers = c->n_layers,
                            .n_vocab = c->n_vocab,
                            .max_tokens = e->options.max_tokens,
                            .bos = c->bos,
                            .eos = c->eos[0],
                            .has_mtp = e->weights->has_mtp,
                            .weight_bytes = e->weights->bytes,
                            .kv_bytes = (int64_t)e->kv.cap,
                            .token_bytes = hd_model_token_bytes(&e->model),
                            .act_bytes = (int64_t)e->act.cap,
                            .dialect = c->dialect};
}

const hd_tokenizer *hd_engine_tokenizer(const hd_engine *e) { return e->tokenizer; }

const char *hd_act_name(hd_act a)
{
    static const char *const names[] = {"default", "exact", "official", "nvfp4"};
    return (size_t)a < sizeof names / sizeof names[0] ? names[a] : "unknown";
}

bool hd_act_from_name(hd_act *out, const char *name)
{
    for (hd_act a = HD_ACT_DEFAULT; a <= HD_ACT_NVFP4; a++)
        if (strcmp(name, hd_act_name(a)) == 0) {
            *out = a;
            return true;
        }
    return false;
}
