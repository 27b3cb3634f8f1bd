/* Saved sessions: any bytes, and any bytes under a right checksum, are taken whole or refused.
 * The engine has caches but no weights: restoring evaluates nothing. */
#include <assert.h>
#include <string.h>

#include "base/digest.h"
#include "engine/engine.h"

#define N_LAYERS 3
#define N_VOCAB  10
#define N_TOKENS 300

static const int32_t ratios[N_LAYERS] = {0, 4, 128};

static hd_config      config = {.n_layers = N_LAYERS, .n_vocab = N_VOCAB, .window = 8};
static hd_layer_cache caches[N_LAYERS];
static hd_engine      engine;
static hd_session     session;
static int32_t        tokens[N_TOKENS];
static float          logits[N_VOCAB];

static void bind_caches(hd_arena *arena)
{
    for (int32_t l = 0; l < N_LAYERS; l++)
        hd_cache_bind(&caches[l], &engine.model.shape, ratios[l], arena);
}

static void open_engine(void)
{
    hd_cache_shape const shape = {.n_seq = 1,
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
    bind_caches(&engine.kv);
    engine.kv = (hd_arena){.base = hd_memory_alloc(engine.kv.peak), .cap = engine.kv.peak};
    assert(engine.kv.base);
    bind_caches(&engine.kv);
    session = (hd_session){.engine = &engine, .tokens = tokens, .logits = logits};
}

static void parse(const uint8_t *data, size_t size)
{
    hd_error      err = {0};
    int32_t const before = session.length;
    if (hd_session_parse(&session, data, size, "fuzz", &err) == HD_OK) {
        assert(session.length >= 0 && session.length <= N_TOKENS);
        return;
    }
    assert(session.length == before && err.code != HD_OK && err.message[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t right[1 << 17];
    if (!engine.kv.base) open_engine();
    parse(data, size);
    if (size < 64 || size > sizeof right) return 0;
    memcpy(right, data, size);
    uint64_t digest = hd_digest_add(HD_DIGEST_START, right, 56);
    digest = hd_digest_add(digest, right + 64, size - 64);
    memcpy(right + 56, &digest, sizeof digest);
    parse(right, size);
    return 0;
}
