/* Files of kept prefixes: any bytes, and any bytes under a right name and checksum, are a state or
 * are removed.  The engine has caches but no weights: restoring evaluates nothing. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/prefix_disk.h"

#define N_LAYERS 3
#define N_VOCAB  10
#define N_TOKENS 300
#define LARGEST  (1 << 17)

static const int32_t ratios[N_LAYERS] = {0, 4, 128};

static hd_config config = {
    .n_layers = N_LAYERS, .n_vocab = N_VOCAB, .window = 8, .max_positions = N_TOKENS};
static hd_layer_cache caches[N_LAYERS];
static hd_engine      engine;
static hd_session     session;
static int32_t        tokens[N_TOKENS];
static char           folder[] = "/tmp/hadal-fuzz-XXXXXX";
static hd_prefix_disk names; /* for paths only */

static void bind_caches(hd_arena *arena)
{
    for (int32_t l = 0; l < N_LAYERS; l++)
        hd_cache_bind(&caches[l], &engine.model.shape, ratios[l], arena);
}

static void remove_folder(void) { rmdir(folder); }

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
    session = (hd_session){.engine = &engine, .tokens = tokens};
    if (!engine.kv.base || !mkdtemp(folder)) abort();
    bind_caches(&engine.kv);
    snprintf(names.folder, sizeof names.folder, "%s", folder);
    atexit(remove_folder);
}

static void write_file(const char *path, const uint8_t *data, size_t size)
{
    FILE *const f = fopen(path, "wb");
    if (!f || fwrite(data, 1, size, f) != size || fclose(f) != 0) abort();
}

/* Opens the folder and goes on from what it has for the file's own tokens. */
static void use_folder(const int32_t *wanted, int32_t n)
{
    hd_prefix_options const o = {.ram_bytes = 1 << 22, .folder = folder, .disk_bytes = 1 << 22};
    hd_prefix              *p = NULL;
    hd_error                err = {0};
    int32_t                 n_shared;
    if (hd_prefix_open(&p, &engine, &o, &err) != HD_OK) abort();
    hd_kept *const k = hd_prefix_find(p, wanted, n, &n_shared);
    if (k) {
        hd_status const s = hd_prefix_restore(p, k, &session, &err);
        assert(s == HD_OK ? session.length > 0 && session.length <= n : err.message[0] != 0);
        session.length = 0;
    }
    hd_prefix_close(p);
}

/* A file under the name that its header has. */
static void try_bytes(const uint8_t *data, size_t size)
{
    hd_kept_header h = {0};
    int32_t        wanted[N_TOKENS] = {0};
    char           path[HD_KEPT_PATH];
    memcpy(&h, data, size < sizeof h ? size : sizeof h);
    if (size > sizeof h && size - sizeof h >= 4)
        memcpy(wanted, data + sizeof h,
               size - sizeof h < sizeof wanted ? size - sizeof h : sizeof wanted);
    hd_kept_path(&names, h.name, path);
    write_file(path, data, size);
    use_folder(wanted, N_TOKENS);
    unlink(path);
}

/* The same file as one that was written by this engine, as far as its size allows: a state of at
 * most `most` tokens behind nothing. */
static void mend(uint8_t *data, size_t size)
{
    hd_kept_header h;
    memcpy(&h, data, sizeof h);
    hd_kept_root_name(&engine, h.above);
    int32_t const n = h.n >= 0 && h.n < HD_CACHE_EDGE ? h.n : 20;
    int64_t const bytes = (int64_t)sizeof h + n * 4 + hd_kept_size(&engine, n > 0 ? n : 1, n, true);
    if (n < 1 || (size_t)bytes != size) return;
    int32_t *const t = (int32_t *)(void *)(data + sizeof h);
    for (int32_t i = 0; i < n; i++) t[i] = (int32_t)((uint32_t)t[i] % N_VOCAB);
    hd_kept_name(h.above, t, n, true, h.name);
    memcpy(data, &h, sizeof h);
    size_t const payload = sizeof h + (size_t)n * sizeof *t;
    uint64_t     d = hd_digest_run(HD_DIGEST_START, data, offsetof(hd_kept_header, digest));
    d = hd_digest_run(d, t, (size_t)n * sizeof *t);
    d = hd_digest_run(d, data + payload, size - payload);
    memcpy(data + offsetof(hd_kept_header, digest), &d, sizeof d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t right[LARGEST] __attribute__((aligned(8)));
    if (!engine.kv.base) open_engine();
    if (size > LARGEST) return 0;
    try_bytes(data, size);
    if (size < sizeof(hd_kept_header)) return 0;
    memcpy(right, data, size);
    mend(right, size);
    try_bytes(right, size);
    return 0;
}
