#include "engine/engine.h"

#include <string.h>

#include "base/cpu.h"
#include "base/topology.h"

#define DEFAULT_CONTEXT 4096
#define DEFAULT_CHUNK   128
#define MAX_CHUNK       65536
#define DEFAULT_MARKS   4
#define MAX_MARKS       4096

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
    if ((size_t)o->kv > HD_KV_NVFP4)
        HD_FAIL(err, HD_ERR_INVALID, "KV rows of kind %d: wanted 0 .. %d", (int)o->kv, HD_KV_NVFP4);
    if ((size_t)o->act > HD_ACT_NVFP4)
        HD_FAIL(err, HD_ERR_INVALID, "activation mode %d: wanted 0 .. %d", (int)o->act,
                HD_ACT_NVFP4);
    if (o->n_threads < 0 || o->n_threads > HD_MAX_THREADS)
        HD_FAIL(err, HD_ERR_INVALID, "%d threads: wanted 1 .. %d, or 0 for all", o->n_threads,
                HD_MAX_THREADS);
    if (!o->isa) o->isa = hd_cpu_isa();
    HD_TRY(hd_isa_check(o->isa, hd_cpu_isa() | hd_device_isa(), err));
    if (o->act == HD_ACT_DEFAULT) o->act = hd_model_default_act(w);
    if (o->kv == HD_KV_DEFAULT) o->kv = HD_KV_F32;
    o->has_mtp = o->has_mtp && w->has_mtp;
    return HD_OK;
}

/* The processors, before options are checked. */
static hd_status find_processors(hd_engine *e, hd_error *err)
{
    if (!e->topology) HD_TRY(hd_topology_open(&e->topology, err));
    if (!e->options.n_threads)
        e->options.n_threads = hd_topology_threads(e->topology, hd_cpu_quota_read());
    return HD_OK;
}

/* Memory for an arena that has measured, on the device (NULL: the host). */
static hd_status own_arena(hd_device *d, hd_arena *a, const char *what, hd_error *err)
{
    size_t const bytes = a->peak;
    *a = (hd_arena){.base = hd_device_alloc(d, bytes), .cap = bytes};
    if (!a->base) HD_FAIL(err, HD_ERR_MEMORY, "no memory for %s: %zu bytes", what, bytes);
    return HD_OK;
}

/* Caches take memory as they fill. */
static hd_status reserve_cache(hd_engine *e, hd_error *err)
{
    size_t const bytes = e->kv.peak;
    e->kv = (hd_arena){.base = hd_device_reserve(e->device, bytes), .cap = bytes};
    if (!e->kv.base) HD_FAIL(err, HD_ERR_MEMORY, "no memory for the KV cache: %zu bytes", bytes);
    if (!e->device) hd_topology_spread_memory(e->topology, e->kv.base, bytes);
    return HD_OK;
}

/* Recorded passes come in few sizes; rows that fill one up belong to a sequence that nobody
 * reads. */
static int32_t n_scratch(const hd_engine *e)
{
    return (e->options.isa & HD_ISA_DEVICE) && e->options.n_sessions > 1 ? 1 : 0;
}

/* The model without memory. */
static hd_status describe_model(hd_engine *e, hd_error *err)
{
    hd_model *const m = &e->model;
    e->choice = hd_kernel_choice_of(e->options.isa);
    *m = (hd_model){.config = e->weights->config, .weights = e->weights, .act = e->options.act};
    e->max_rows = e->options.chunk + e->options.n_sessions - 1;
    m->shape = (hd_cache_shape){.n_seq = e->options.n_sessions + n_scratch(e),
                                .max_tokens = e->options.max_tokens,
                                .chunk = e->options.chunk,
                                .window = m->config->window,
                                .head_dim = m->config->head_dim,
                                .rope_dim = m->config->rope_dim,
                                .index_dim = m->config->index_dim,
                                .kv = e->options.kv,
                                .device = e->device};
    HD_TRY(hd_cache_check(&m->shape, err));
    m->caches =
        hd_pool_alloc(&e->weights->pool, ((size_t)m->config->n_layers + 1) * sizeof *m->caches);
    if (!m->caches) HD_FAIL(err, HD_ERR_MEMORY, "no memory for the table of caches");
    return HD_OK;
}

/* Tables are computed on the host; an accelerator gets a copy. */
static hd_status bind_tables(hd_engine *e, hd_error *err)
{
    hd_model *const m = &e->model;
    hd_arena        host = {0};
    hd_model_bind_tables(m, &host);
    e->tables.peak = host.peak;
    HD_TRY(own_arena(NULL, &host, "tables", err));
    hd_model_bind_tables(m, &host);
    if (!e->device) {
        e->tables = host;
        return HD_OK;
    }
    hd_status s = own_arena(e->device, &e->tables, "tables", err);
    if (s == HD_OK) s = hd_device_write(e->device, e->tables.base, host.base, host.cap, err);
    if (s == HD_OK) s = hd_device_sync(e->device, err);
    m->freq = (float *)(void *)(e->tables.base + ((char *)m->freq - host.base));
    m->freq_yarn = (float *)(void *)(e->tables.base + ((char *)m->freq_yarn - host.base));
    hd_memory_free(host.base);
    return s;
}

static hd_status bind_model(hd_engine *e, hd_error *err)
{
    hd_model *const m = &e->model;
    HD_TRY(describe_model(e, err));
    HD_TRY(bind_tables(e, err));
    hd_model_bind_caches(m, &e->kv);
    HD_TRY(reserve_cache(e, err));
    hd_model_bind_caches(m, &e->kv);
    return HD_OK;
}

/* The host's side of a pass. */
static hd_status bind_io(hd_engine *e, hd_error *err)
{
    size_t const rows = (size_t)e->max_rows, vocab = (size_t)e->model.config->n_vocab;
    e->ids = hd_device_alloc_pinned(e->device, 5 * rows * sizeof *e->ids);
    e->logits = e->device ? hd_device_alloc_pinned(e->device, rows * vocab * sizeof *e->logits)
                          : e->pass.logits;
    e->asks = hd_device_alloc_pinned(e->device, rows * sizeof *e->asks);
    e->drawn = hd_device_alloc_pinned(e->device, 2 * rows * sizeof *e->drawn);
    e->draws = e->device != NULL;
    if (!e->ids || !e->logits || !e->asks || !e->drawn)
        HD_FAIL(err, HD_ERR_MEMORY, "no memory for ids and logits");
    return HD_OK;
}

static hd_status bind_passes(hd_engine *e, hd_error *err)
{
    size_t meta_bytes;
    hd_model_bind_pass(&e->pass, &e->model, e->max_rows, &e->act);
    HD_TRY(hd_engine_measure_plans(e, &e->act, &meta_bytes, err));
    HD_TRY(own_arena(e->device, &e->act, "activations", err));
    if (!e->device) hd_topology_spread_memory(e->topology, e->act.base, e->act.cap);
    hd_model_bind_pass(&e->pass, &e->model, e->max_rows, &e->act);
    e->act_mark = hd_arena_mark(&e->act);
    HD_TRY(bind_io(e, err));
    return hd_engine_bind_plans(e, meta_bytes, err);
}

/* What sessions point to, and the buffer that files are written through. */
static void bind_session_parts(hd_engine *e, hd_arena *arena)
{
    size_t const  vocab = (size_t)e->model.config->n_vocab;
    int32_t const marks = e->options.marks;
    e->io = hd_arena_alloc(arena, HD_IO_BYTES);
    e->rows = hd_arena_alloc(arena, (size_t)e->options.chunk * sizeof *e->rows);
    for (int32_t i = 0; i < e->options.n_sessions; i++) {
        hd_session *const s = &e->sessions[i];
        *s = (hd_session){.engine = e, .seq = i};
        s->tokens = hd_arena_alloc(arena, (size_t)e->options.max_tokens * sizeof *s->tokens);
        s->logits = hd_arena_alloc(arena, vocab * sizeof *s->logits);
        s->scratch = hd_arena_alloc(arena, vocab * sizeof *s->scratch);
        s->changed = hd_arena_alloc(arena, vocab * sizeof *s->changed);
        s->marks = hd_arena_alloc(arena, (size_t)marks * sizeof *s->marks);
        for (int32_t m = 0; m < marks; m++) {
            uint8_t *const bytes = hd_arena_alloc(arena, (size_t)hd_engine_mark_bytes(e));
            if (s->marks) s->marks[m] = (hd_mark){.bytes = bytes};
        }
    }
}

static hd_status alloc_sessions(hd_engine *e, hd_error *err)
{
    size_t const n = (size_t)e->options.n_sessions;
    e->sessions = hd_memory_alloc(n * sizeof *e->sessions);
    if (!e->sessions) HD_FAIL(err, HD_ERR_MEMORY, "no memory for %zu sessions", n);
    return HD_OK;
}

static hd_status bind_sessions(hd_engine *e, hd_error *err)
{
    HD_TRY(alloc_sessions(e, err));
    bind_session_parts(e, &e->session_parts);
    HD_TRY(own_arena(NULL, &e->session_parts, "sessions", err));
    bind_session_parts(e, &e->session_parts);
    return HD_OK;
}

static void warn_of_unproved(hd_engine *e)
{
    char           names[32];
    uint32_t const unproved = e->options.isa & (HD_ISA_SM100 | HD_ISA_SM120);
    hd_isa_print(unproved, names, sizeof names);
    if (unproved)
        hd_log_print(&e->log, HD_LOG_WARNING,
                     "%s kernels have run only with their instructions emulated, never on their "
                     "own GPU: compare them before relying on them",
                     names);
}

static hd_status start_team(hd_engine *e, hd_error *err)
{
    const hd_topology *const pin = e->options.is_unpinned ? NULL : e->topology;
    int32_t const            n = e->options.n_threads;
    char                     second[64] = "";
    HD_TRY(hd_team_open(&e->team, n, pin, err));
    e->stream = hd_team_stream(e->team);
    if (pin && n > 1) hd_topology_place(pin, n, 1, second, sizeof second);
    hd_log_print(&e->log, HD_LOG_INFO, "%d thread%s on %d core%s of %d memory node%s%s%s", n,
                 n == 1 ? "" : "s", hd_topology_cores(e->topology),
                 hd_topology_cores(e->topology) == 1 ? "" : "s", hd_topology_nodes(e->topology),
                 hd_topology_nodes(e->topology) == 1 ? "" : "s",
                 *second ? ", pinned, the second to processor " : ", not pinned", second);
    return HD_OK;
}

/* Starts the threads; or opens the accelerator, when its kernels are asked for, and moves the
 * weights there. */
static hd_status place_weights(hd_engine *e, hd_error *err)
{
    if (!(e->options.isa & HD_ISA_DEVICE)) return start_team(e, err);
    HD_TRY(hd_device_open(&e->device, err));
    warn_of_unproved(e);
    e->stream = hd_device_stream(e->device);
    /* Hopper's kernels for four-bit weights take tiles; the others take rows. */
    hd_upload const to = {e->device, &e->placed, (e->options.isa & HD_ISA_SM90) != 0};
    HD_TRY(hd_weights_upload(e->weights, &to, &e->log, err));
    HD_TRY(own_arena(e->device, &e->placed, "weights", err));
    HD_TRY(hd_weights_upload(e->weights, &to, &e->log, err));
    return hd_device_sync(e->device, err);
}

static hd_status open_parts(hd_engine *e, hd_error *err)
{
    const char *const model = e->options.model;
    HD_TRY(hd_checkpoint_open(&e->checkpoint, model, &e->log, err));
    HD_TRY(hd_tokenizer_open(&e->tokenizer, model, err));
    HD_TRY(hd_weights_load(&e->weights, e->checkpoint, e->options.is_trusted, &e->log, err));
    HD_TRY(hd_checkpoint_settle(e->checkpoint, err));
    HD_TRY(check_options(&e->options, e->weights->config, e->weights, err));
    if (hd_tokenizer_vocab(e->tokenizer) > e->weights->config->n_vocab)
        HD_FAIL(err, HD_ERR_FORMAT, "%s: the tokenizer has %d ids, the model %d", model,
                hd_tokenizer_vocab(e->tokenizer), e->weights->config->n_vocab);
    HD_TRY(place_weights(e, err));
    HD_TRY(bind_model(e, err));
    HD_TRY(bind_passes(e, err));
    HD_TRY(bind_sessions(e, err));
    return hd_engine_record_plans(e, err);
}

/* Weights that are read in while they are checked go to all memory nodes in turn, as do those that
 * passes read in later. */
static hd_status open_spread(hd_engine *e, hd_error *err)
{
    if (pthread_mutex_init(&e->lock, NULL) != 0)
        HD_FAIL(err, HD_ERR_MEMORY, "no memory for a lock");
    e->has_lock = true;
    HD_TRY(find_processors(e, err));
    hd_topology_spread(e->topology);
    hd_status const s = open_parts(e, err);
    hd_topology_gather(e->topology);
    return s;
}

hd_status hd_engine_open(hd_engine **out, const hd_options *opt, hd_error *err)
{
    if (!out || !opt || !opt->model) HD_FAIL(err, HD_ERR_INVALID, "no model named");
    hd_engine *const e = hd_memory_alloc(sizeof *e);
    if (!e) HD_FAIL(err, HD_ERR_MEMORY, "no memory for the engine");
    e->options = *opt;
    e->log = (hd_log){opt->log, opt->progress, opt->user};
    hd_status const s = open_spread(e, err);
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
    for (int i = 0; i < HD_N_PLANS; i++) hd_graph_free(e->plans[i].graph);
    if (e->device) hd_device_free_pinned(e->device, e->logits);
    hd_device_free_pinned(e->device, e->ids);
    hd_device_free_pinned(e->device, e->asks);
    hd_device_free_pinned(e->device, e->drawn);
    hd_device_free(e->device, e->act.base);
    hd_device_unreserve(e->device, e->kv.base, e->kv.cap);
    hd_device_free(e->device, e->tables.base);
    hd_device_free(e->device, e->placed.base);
    hd_weights_close(e->weights);
    hd_tokenizer_close(e->tokenizer);
    hd_checkpoint_close(e->checkpoint);
    hd_device_close(e->device);
    hd_team_close(e->team);
    hd_topology_close(e->topology);
    if (e->has_lock) pthread_mutex_destroy(&e->lock);
    hd_memory_free(e);
}

/* ---- memory, without taking it ---- */

static int64_t cache_bytes(const hd_model *m, hd_cache_part part)
{
    int64_t bytes = 0;
    for (int32_t l = 0; l <= m->config->n_layers; l++)
        bytes += hd_cache_bytes(&m->caches[l], &m->shape, part);
    return bytes;
}

/* One context: the same code as in opening, over arenas that only count. */
static hd_status measure_context(hd_engine *e, hd_memory_use *out, hd_error *err)
{
    size_t meta_bytes;
    e->tables = e->kv = e->act = e->session_parts = (hd_arena){0};
    HD_TRY(find_processors(e, err));
    HD_TRY(check_options(&e->options, e->weights->config, e->weights, err));
    HD_TRY(describe_model(e, err));
    hd_model_bind_tables(&e->model, &e->tables);
    hd_model_bind_caches(&e->model, &e->kv);
    hd_model_bind_pass(&e->pass, &e->model, e->max_rows, &e->act);
    HD_TRY(hd_engine_measure_plans(e, &e->act, &meta_bytes, err));
    if (!e->sessions) HD_TRY(alloc_sessions(e, err));
    bind_session_parts(e, &e->session_parts);
    int64_t const marks = e->options.n_sessions * e->options.marks * hd_engine_mark_bytes(e);
    *out = (hd_memory_use){.options = e->options,
                           .weights = e->weights->bytes,
                           .rows = cache_bytes(&e->model, HD_CACHE_ROWS),
                           .rings = cache_bytes(&e->model, HD_CACHE_RINGS),
                           .marks = marks,
                           .sessions = (int64_t)e->session_parts.peak - marks,
                           .activations = (int64_t)e->act.peak,
                           .plans = (int64_t)(meta_bytes * HD_N_PLANS + e->tables.peak),
                           .token = hd_model_token_bytes(&e->model)};
    out->total =
        out->weights + (int64_t)(e->kv.peak + e->act.peak + e->session_parts.peak) + out->plans;
    return HD_OK;
}

static hd_status measure_all(hd_engine *e, const hd_options *opt, const int32_t *contexts,
                             int32_t n, hd_memory_use *out, hd_error *err)
{
    HD_TRY(hd_checkpoint_open(&e->checkpoint, opt->model, &e->log, err));
    /* Nothing is computed with them, so their scales may be what they are. */
    HD_TRY(hd_weights_load(&e->weights, e->checkpoint, true, &e->log, err));
    for (int32_t i = 0; i < n; i++) {
        out[i] = (hd_memory_use){0};
        e->options = *opt;
        e->options.max_tokens = contexts[i];
        if (contexts[i] > e->weights->config->max_positions) continue;
        HD_TRY(measure_context(e, &out[i], err));
    }
    return HD_OK;
}

hd_status hd_engine_measure(const hd_options *opt, const int32_t *contexts, int32_t n,
                            hd_memory_use *out, hd_error *err)
{
    if (!opt->model) HD_FAIL(err, HD_ERR_INVALID, "no model named");
    hd_engine *const e = hd_memory_alloc(sizeof *e);
    if (!e) HD_FAIL(err, HD_ERR_MEMORY, "no memory for the engine");
    e->log = (hd_log){opt->log, opt->progress, opt->user};
    hd_status const s = measure_all(e, opt, contexts, n, out, err);
    hd_engine_close(e);
    return s;
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
                            .dialect = c->dialect,
                            .isa = e->options.isa & hd_kernel_families(),
                            .n_threads = e->options.n_threads};
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
