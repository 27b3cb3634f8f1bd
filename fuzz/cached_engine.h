#ifndef HD_FUZZ_CACHED_ENGINE_H
#define HD_FUZZ_CACHED_ENGINE_H

#include <assert.h>

#include "engine/engine.h"

/* An engine with one session that has caches but no weights: a state can be restored into it, and
 * nothing evaluated. */
#define N_LAYERS 3
#define N_VOCAB  10
#define N_TOKENS 300

static hd_engine  engine;
static hd_session session;

static void bind_caches(hd_layer_cache *caches, hd_arena *arena)
{
    static const int32_t ratios[N_LAYERS] = {0, 4, 128};
    for (int32_t l = 0; l < N_LAYERS; l++)
        hd_cache_bind(&caches[l], &engine.model.shape, ratios[l], arena);
}

static void open_engine(void)
{
    static hd_config config = {
        .n_layers = N_LAYERS, .n_vocab = N_VOCAB, .window = 8, .max_positions = N_TOKENS};
    static hd_layer_cache caches[N_LAYERS];
    static int32_t        tokens[N_TOKENS];
    static float          logits[N_VOCAB];
    hd_cache_shape const  shape = {.n_seq = 1,
                                   .max_tokens = N_TOKENS,
                                   .chunk = 4,
                                   .window = 8,
                                   .head_dim = 96,
                                   .rope_dim = 32,
                                   .index_dim = 32,
                                   .kv = HD_KV_FP8};
    engine = (hd_engine){.identity = 1, .has_identity = true};
    engine.options = (hd_options){.act = HD_ACT_EXACT, .kv = HD_KV_FP8, .max_tokens = N_TOKENS};
    engine.model = (hd_model){.config = &config, .shape = shape, .caches = caches};
    bind_caches(caches, &engine.kv);
    engine.kv = (hd_arena){.base = hd_memory_alloc(engine.kv.peak), .cap = engine.kv.peak};
    assert(engine.kv.base);
    bind_caches(caches, &engine.kv);
    session = (hd_session){.engine = &engine, .tokens = tokens, .logits = logits};
}

#endif
