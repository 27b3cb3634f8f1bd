#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/prefix_disk.h"

#define MAGIC   "hadalkpt"
#define VERSION 2

static_assert(sizeof(hd_kept_header) == 136, "the header has no padding");

/* ---- names ---- */

void hd_kept_path(const hd_prefix_disk *d, const uint8_t name[HD_SHA256_BYTES],
                  char out[HD_KEPT_PATH])
{
    char hex[2 * HD_SHA256_BYTES + 1];
    for (int i = 0; i < HD_SHA256_BYTES; i++) snprintf(hex + 2 * i, 3, "%02x", name[i]);
    snprintf(out, HD_KEPT_PATH, "%s/%s.kept", d->folder, hex);
}

void hd_kept_root_name(const hd_engine *e, uint8_t out[HD_SHA256_BYTES])
{
    uint64_t const parts[] = {VERSION, e->identity, (uint64_t)e->options.act,
                              (uint64_t)e->options.kv, e->options.has_mtp};
    hd_sha256      h;
    hd_sha256_begin(&h);
    hd_sha256_add(&h, MAGIC, sizeof MAGIC);
    hd_sha256_add(&h, parts, sizeof parts);
    hd_sha256_end(&h, out);
}

void hd_kept_name(const uint8_t above[HD_SHA256_BYTES], const int32_t *tokens, int32_t n,
                  bool is_state, uint8_t out[HD_SHA256_BYTES])
{
    int32_t const kind[] = {n, is_state};
    hd_sha256     h;
    hd_sha256_begin(&h);
    hd_sha256_add(&h, above, HD_SHA256_BYTES);
    hd_sha256_add(&h, kind, sizeof kind);
    hd_sha256_add(&h, tokens, (size_t)n * sizeof *tokens);
    hd_sha256_end(&h, out);
}

/* ---- writing ---- */

static size_t token_bytes(int32_t n) { return (size_t)n * sizeof(int32_t); }

int64_t hd_kept_file_bytes(const hd_kept *k)
{
    return (int64_t)(sizeof(hd_kept_header) + token_bytes(k->n)) + k->size;
}

static hd_kept_header describe(const hd_engine *e, const hd_kept *k)
{
    hd_kept_header h = {.magic = MAGIC,
                        .version = VERSION,
                        .bytes = sizeof h,
                        .model = e->identity,
                        .act = e->options.act,
                        .kv = e->options.kv,
                        .at = k->at,
                        .n = k->n,
                        .is_state = k->is_state,
                        .has_mtp = e->options.has_mtp,
                        .stamp = k->stamp,
                        .payload = (uint64_t)k->size};
    memcpy(h.name, k->name, sizeof h.name);
    memcpy(h.above, k->above->name, sizeof h.above);
    return h;
}

static uint64_t digest_of(const hd_kept_header *h, const int32_t *tokens, const uint8_t *payload)
{
    uint64_t d = hd_digest_run(HD_DIGEST_START, h, offsetof(hd_kept_header, digest));
    d = hd_digest_run(d, tokens, token_bytes(h->n));
    return hd_digest_run(d, payload, (size_t)h->payload);
}

static hd_status put_all(hd_file_writer *w, const hd_kept_header *h, const hd_kept *k,
                         hd_error *err)
{
    HD_TRY(hd_file_put(w, h, sizeof *h, err));
    HD_TRY(hd_file_put(w, k->tokens, token_bytes(k->n), err));
    return hd_file_put(w, k->bytes, (size_t)k->size, err);
}

hd_status hd_kept_write(const hd_prefix_disk *d, const hd_kept *k, hd_error *err)
{
    char           path[HD_KEPT_PATH];
    hd_file_writer w;
    hd_kept_header h = describe(d->engine, k);
    h.digest = digest_of(&h, k->tokens, k->bytes);
    hd_kept_path(d, k->name, path);
    HD_TRY(hd_file_begin(&w, path, err));
    hd_status const s = put_all(&w, &h, k, err);
    if (s == HD_OK) return hd_file_commit(&w, err);
    hd_file_abort(&w);
    return s;
}

/* ---- reading ---- */

/* A page is whole and stands at an edge; a state is what is left behind one. */
static bool has_shape(const hd_kept_header *h, int32_t most)
{
    if (h->at < 1 || h->at > most || h->is_state > 1) return false;
    int32_t const n = h->is_state ? h->at % HD_CACHE_EDGE : HD_CACHE_EDGE;
    return h->n == n && (h->is_state || h->at % HD_CACHE_EDGE == 0);
}

hd_kept_origin hd_kept_judge(const hd_engine *e, const hd_kept_header *h, int64_t file_bytes)
{
    if (memcmp(h->magic, MAGIC, sizeof h->magic) != 0) return HD_KEPT_BROKEN;
    if (h->version != VERSION || h->model != e->identity || h->act != e->options.act ||
        h->kv != e->options.kv || h->has_mtp != e->options.has_mtp)
        return HD_KEPT_FOREIGN;
    if (h->bytes != sizeof *h || !has_shape(h, e->model.config->max_positions))
        return HD_KEPT_BROKEN;
    int64_t const size = hd_kept_size(e, h->at, h->n, h->is_state != 0);
    if (h->payload != (uint64_t)size ||
        file_bytes != (int64_t)(sizeof *h + token_bytes(h->n)) + size)
        return HD_KEPT_BROKEN;
    return HD_KEPT_OURS;
}

bool hd_kept_has_tokens(const hd_engine *e, const hd_kept_header *h, const int32_t *tokens)
{
    uint8_t name[HD_SHA256_BYTES];
    for (int32_t i = 0; i < h->n; i++)
        if (tokens[i] < 0 || tokens[i] >= e->model.config->n_vocab) return false;
    hd_kept_name(h->above, tokens, h->n, h->is_state != 0, name);
    return memcmp(name, h->name, sizeof name) == 0;
}

/* The file says what the tree says. */
static hd_status check_header(const hd_prefix_disk *d, const hd_kept *k, const hd_kept_header *h,
                              const char *path, int64_t bytes, hd_error *err)
{
    if (hd_kept_judge(d->engine, h, bytes) != HD_KEPT_OURS || h->at != k->at ||
        (h->is_state != 0) != k->is_state || memcmp(h->name, k->name, sizeof h->name) != 0 ||
        memcmp(h->above, k->above->name, sizeof h->above) != 0)
        HD_FAIL(err, HD_ERR_FORMAT,
                "%s: kept tokens %d .. %d: %" PRId64 " bytes, wanted %" PRId64
                " under another header",
                path, k->at - k->n, k->at, bytes, hd_kept_file_bytes(k));
    return HD_OK;
}

static hd_status take_all(const hd_prefix_disk *d, const hd_kept *k, hd_file_reader *r,
                          uint8_t *payload, hd_error *err)
{
    hd_kept_header h;
    int32_t        tokens[HD_CACHE_EDGE];
    HD_TRY(hd_file_take(r, &h, sizeof h, err));
    HD_TRY(check_header(d, k, &h, r->path, (int64_t)r->bytes, err));
    HD_TRY(hd_file_take(r, tokens, token_bytes(h.n), err));
    HD_TRY(hd_file_take(r, payload, (size_t)h.payload, err));
    uint64_t const digest = digest_of(&h, tokens, payload);
    if (digest != h.digest || memcmp(tokens, k->tokens, token_bytes(k->n)) != 0)
        HD_FAIL(err, HD_ERR_FORMAT,
                "%s: kept tokens %d .. %d: checksum %016" PRIx64 ", its header says %016" PRIx64,
                r->path, k->at - k->n, k->at, digest, h.digest);
    return HD_OK;
}

hd_status hd_kept_read(const hd_prefix_disk *d, const hd_kept *k, uint8_t *bytes, hd_error *err)
{
    char           path[HD_KEPT_PATH];
    hd_file_reader r;
    hd_kept_path(d, k->name, path);
    HD_TRY(hd_file_open(&r, path, err));
    hd_status const s = take_all(d, k, &r, bytes, err);
    hd_file_close(&r);
    return s;
}
