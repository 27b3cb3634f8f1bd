/* Sessions in files.
 *
 *   header    64 bytes, below
 *   tokens    [n] int32
 *   logits    [n_vocab] f32, when the header says so
 *   rings     layer by layer: window rows and open groups, as kv/cache.h lists them
 *   rows      layer by layer: compressed rows
 *
 * Everything is little endian; a row is its data, then its scales, in the format of the cache.
 * Nothing depends on how many tokens the engine has room for or reads in a pass. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "base/file.h"
#include "engine/engine.h"

#define MAGIC   "hadalses"
#define VERSION 1

enum { HAS_LOGITS = 1, HAS_MTP = 2 };

typedef struct header {
    char     magic[8];
    uint32_t version;
    uint32_t bytes;   /* of this header         */
    uint64_t model;   /* digest of what was run */
    uint32_t act, kv; /* hd_act, hd_kv          */
    int32_t  n, n_vocab;
    uint32_t flags, reserved;
    uint64_t payload; /* bytes behind this header */
    uint64_t digest;  /* of all bytes but these   */
} header;
static_assert(sizeof(header) == 64, "the header has no padding");

/* ---- which model ---- */

/* The text of config.json and what the checkpoint's digest is over.  Made when first asked for,
 * because it reads a page of every tensor. */
hd_status hd_engine_identify(hd_engine *e, hd_error *err)
{
    char    path[4096];
    hd_file config = {0};
    if (e->has_identity) return HD_OK;
    int const n =
        snprintf(path, sizeof path, "%s/config.json", hd_checkpoint_folder(e->checkpoint));
    if (n < 0 || (size_t)n >= sizeof path) HD_FAIL(err, HD_ERR_INVALID, "model path is too long");
    HD_TRY(hd_file_map(&config, path, err));
    uint64_t const d = hd_digest_add(HD_DIGEST_START, config.data, config.bytes);
    hd_file_unmap(&config);
    e->identity = hd_checkpoint_digest(e->checkpoint, d);
    e->has_identity = true;
    return HD_OK;
}

static header describe(const hd_session *s)
{
    const hd_engine *const e = s->engine;
    int32_t const          n_vocab = e->model.config->n_vocab;
    hd_state_span const    rings = {HD_CACHE_RINGS, 0, s->length};
    hd_state_span const    rows = {HD_CACHE_ROWS, 0, s->length};
    int64_t const          bytes = s->length * (int64_t)sizeof *s->tokens +
                          (s->has_logits ? n_vocab * (int64_t)sizeof *s->logits : 0) +
                          hd_engine_span_bytes(e, &rings) + hd_engine_span_bytes(e, &rows);
    return (header){.magic = MAGIC,
                    .version = VERSION,
                    .bytes = sizeof(header),
                    .model = e->identity,
                    .act = e->options.act,
                    .kv = e->options.kv,
                    .n = s->length,
                    .n_vocab = n_vocab,
                    .flags =
                        (s->has_logits ? HAS_LOGITS : 0u) | (e->options.has_mtp ? HAS_MTP : 0u),
                    .payload = (uint64_t)bytes};
}

/* ---- saving ---- */

typedef struct saver {
    const hd_session *s;
    hd_file_writer    file;
    uint64_t          digest;
} saver;

static hd_status put(saver *w, const void *data, size_t bytes, hd_error *err)
{
    w->digest = hd_digest_add(w->digest, data, bytes);
    return hd_file_put(&w->file, data, bytes, err);
}

/* As many rows at a time as the engine's buffer holds. */
static hd_status put_range(saver *w, const hd_cache_range *r, hd_error *err)
{
    const hd_engine *const e = w->s->engine;
    int32_t const          most = (int32_t)(HD_IO_BYTES / hd_cache_row_bytes(r->pool));
    hd_cache_range         part = *r;
    for (; part.first < r->end; part.first = part.end) {
        part.end = r->end - part.first < most ? r->end : part.first + most;
        HD_TRY(hd_cache_get(&part, w->s->seq, e->io, err));
        HD_TRY(put(w, e->io, (size_t)hd_cache_range_bytes(&part), err));
    }
    return HD_OK;
}

static hd_status put_rows(saver *w, hd_cache_part part, hd_error *err)
{
    const hd_engine *const e = w->s->engine;
    hd_state_span const    span = {part, 0, w->s->length};
    for (int32_t l = 0; l < hd_engine_layers(e); l++) {
        hd_cache_range r[HD_CACHE_MAX_RANGES];
        int32_t const  count = hd_engine_ranges(e, &span, l, r);
        for (int32_t i = 0; i < count; i++) HD_TRY(put_range(w, &r[i], err));
    }
    return HD_OK;
}

static hd_status put_all(saver *w, hd_error *err)
{
    const hd_session *const s = w->s;
    header const            h = describe(s);
    HD_TRY(put(w, &h, offsetof(header, digest), err));
    HD_TRY(hd_file_put(&w->file, &h.digest, sizeof h.digest, err));
    HD_TRY(put(w, s->tokens, (size_t)s->length * sizeof *s->tokens, err));
    if (s->has_logits) HD_TRY(put(w, s->logits, (size_t)h.n_vocab * sizeof *s->logits, err));
    HD_TRY(put_rows(w, HD_CACHE_RINGS, err));
    HD_TRY(put_rows(w, HD_CACHE_ROWS, err));
    return hd_file_put_at(&w->file, offsetof(header, digest), &w->digest, sizeof w->digest, err);
}

static hd_status save(const hd_session *s, const char *path, hd_error *err)
{
    saver w = {.s = s, .digest = HD_DIGEST_START};
    HD_TRY(hd_engine_identify(s->engine, err));
    HD_TRY(hd_file_begin(&w.file, path, err));
    hd_status const status = put_all(&w, err);
    if (status == HD_OK) return hd_file_commit(&w.file, err);
    hd_file_abort(&w.file);
    return status;
}

hd_status hd_session_save(const hd_session *s, const char *path, hd_error *err)
{
    pthread_mutex_lock(&s->engine->lock);
    hd_status const status = save(s, path, err);
    pthread_mutex_unlock(&s->engine->lock);
    return status;
}

/* ---- restoring ---- */

/* The bytes are those that were written. */
static hd_status check_file(const header *h, const uint8_t *data, size_t bytes, const char *what,
                            hd_error *err)
{
    if (h->version != VERSION)
        HD_FAIL(err, HD_ERR_UNSUPPORTED, "%s: session of version %" PRIu32 ", wanted %d", what,
                h->version, VERSION);
    if (h->bytes != sizeof *h || h->payload != bytes - sizeof *h)
        HD_FAIL(err, HD_ERR_FORMAT,
                "%s: session of %zu bytes, its header says %" PRIu32 " and %" PRIu64, what, bytes,
                h->bytes, h->payload);
    uint64_t const front = hd_digest_add(HD_DIGEST_START, data, offsetof(header, digest));
    uint64_t const digest = hd_digest_add(front, data + sizeof *h, bytes - sizeof *h);
    if (h->digest != digest)
        HD_FAIL(err, HD_ERR_FORMAT,
                "%s: session with checksum %016" PRIx64 ", its header says %016" PRIx64, what,
                digest, h->digest);
    return HD_OK;
}

/* It was saved under the same model and options. */
static hd_status check_origin(const header *h, const hd_engine *e, const char *what, hd_error *err)
{
    if (h->model != e->identity)
        HD_FAIL(err, HD_ERR_INVALID,
                "%s: session of another model: %016" PRIx64 ", this one is %016" PRIx64, what,
                h->model, e->identity);
    if (h->act != e->options.act)
        HD_FAIL(err, HD_ERR_INVALID, "%s: session with activations %s, the engine's are %s", what,
                hd_act_name((hd_act)h->act), hd_act_name(e->options.act));
    if (h->kv != e->options.kv)
        HD_FAIL(err, HD_ERR_INVALID, "%s: session with %s KV rows, the engine's are %s", what,
                hd_kv_name((hd_kv)h->kv), hd_kv_name(e->options.kv));
    if (((h->flags & HAS_MTP) != 0) != e->options.has_mtp)
        HD_FAIL(err, HD_ERR_INVALID, "%s: session %s the MTP block, the engine runs %s it", what,
                h->flags & HAS_MTP ? "with" : "without", e->options.has_mtp ? "with" : "without");
    if (h->n > e->options.max_tokens)
        HD_FAIL(err, HD_ERR_LIMIT, "%s: session of %d tokens, the context is %d", what, h->n,
                e->options.max_tokens);
    return HD_OK;
}

/* Its parts are as long as its header says, and each token is one. */
static hd_status check_content(const header *h, const hd_session *s, const uint8_t *data,
                               const char *what, hd_error *err)
{
    hd_session const saved = {
        .engine = s->engine, .length = h->n, .has_logits = (h->flags & HAS_LOGITS) != 0};
    header const wanted = h->n >= 0 ? describe(&saved) : (header){0};
    if (h->n < 0 || h->n_vocab != wanted.n_vocab || h->flags != wanted.flags || h->reserved != 0 ||
        h->payload != wanted.payload || (saved.has_logits && h->n == 0))
        HD_FAIL(err, HD_ERR_FORMAT,
                "%s: session of %d tokens, %d ids, flags %" PRIx32 ": %" PRIu64
                " bytes, wanted %" PRIu64,
                what, h->n, h->n_vocab, h->flags, h->payload, wanted.payload);
    for (int32_t i = 0; i < h->n; i++) {
        int32_t id;
        memcpy(&id, data + sizeof *h + (size_t)i * sizeof id, sizeof id);
        if (id < 0 || id >= h->n_vocab)
            HD_FAIL(err, HD_ERR_FORMAT, "%s: token %d of the session is %d, wanted 0 .. %d", what,
                    i, id, h->n_vocab - 1);
    }
    return HD_OK;
}

static const uint8_t *take(void *to, const uint8_t *from, size_t bytes)
{
    memcpy(to, from, bytes);
    return from + bytes;
}

static hd_status take_rows(hd_session *s, hd_cache_part part, const uint8_t **from, hd_error *err)
{
    hd_state_span const span = {part, 0, s->length};
    HD_TRY(hd_engine_put(s->engine, &span, s->seq, *from, err));
    *from += hd_engine_span_bytes(s->engine, &span);
    return HD_OK;
}

hd_status hd_session_parse(hd_session *s, const uint8_t *data, size_t bytes, const char *what,
                           hd_error *err)
{
    header h;
    if (bytes < sizeof h || memcmp(data, MAGIC, sizeof h.magic) != 0)
        HD_FAIL(err, HD_ERR_FORMAT, "%s: %zu bytes that are no saved session", what, bytes);
    memcpy(&h, data, sizeof h);
    HD_TRY(check_file(&h, data, bytes, what, err));
    HD_TRY(check_origin(&h, s->engine, what, err));
    HD_TRY(check_content(&h, s, data, what, err));
    hd_session_reset(s);
    s->length = h.n;
    s->has_logits = (h.flags & HAS_LOGITS) != 0;
    const uint8_t *at = take(s->tokens, data + sizeof h, (size_t)h.n * sizeof *s->tokens);
    if (s->has_logits) at = take(s->logits, at, (size_t)h.n_vocab * sizeof *s->logits);
    HD_TRY(take_rows(s, HD_CACHE_RINGS, &at, err));
    return take_rows(s, HD_CACHE_ROWS, &at, err);
}

static hd_status restore(hd_session *s, const char *path, hd_error *err)
{
    hd_file file = {0};
    HD_TRY(hd_engine_identify(s->engine, err));
    HD_TRY(hd_file_map(&file, path, err));
    hd_status const status = hd_session_parse(s, file.data, file.bytes, path, err);
    hd_file_unmap(&file);
    return status;
}

hd_status hd_session_restore(hd_session *s, const char *path, hd_error *err)
{
    pthread_mutex_lock(&s->engine->lock);
    hd_status const status = restore(s, path, err);
    pthread_mutex_unlock(&s->engine->lock);
    return status;
}
