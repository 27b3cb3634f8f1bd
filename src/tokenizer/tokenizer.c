#include "tokenizer/tokenizer.h"

#include <stdio.h>

#include "base/file.h"
#include "base/utf8_scan.h"
#include "tokenizer/pretoken.h"

/* ---- open, close, look up ---- */

hd_status hd_tokenizer_open_text(hd_tokenizer **out, const char *json, size_t bytes,
                                 const char *what, hd_error *err)
{
    hd_tokenizer *const t = hd_memory_alloc(sizeof *t);
    if (!t) HD_FAIL(err, HD_ERR_MEMORY, "%s: no memory for a tokenizer", what);
    hd_status const s = hd_tokenizer_load(t, json, bytes, what, err);
    if (s == HD_OK)
        *out = t;
    else
        hd_tokenizer_close(t);
    return s;
}

hd_status hd_tokenizer_open(hd_tokenizer **out, const char *path, hd_error *err)
{
    char         file[4096];
    hd_file_kind found;
    if (!out || !path) HD_FAIL(err, HD_ERR_INVALID, "tokenizer: no path or no result");
    HD_TRY(hd_file_look(&found, path, err));
    int const n =
        snprintf(file, sizeof file, "%s%s", path, found == HD_FILE_FOLDER ? "/tokenizer.json" : "");
    if (n < 0 || (size_t)n >= sizeof file)
        HD_FAIL(err, HD_ERR_INVALID, "tokenizer: a path of %d bytes is too long", n);
    hd_pool   pool = {0};
    char     *json;
    size_t    bytes;
    hd_status s = hd_file_read(&json, &bytes, file, HD_MAX_TOKENIZER_BYTES, &pool, err);
    if (s == HD_OK) s = hd_tokenizer_open_text(out, json, bytes, file, err);
    hd_pool_free(&pool);
    return s;
}

void hd_tokenizer_close(hd_tokenizer *t)
{
    if (!t) return;
    if (t->trie) hd_token_trie_close(&t->trie->trie);
    hd_pool_free(&t->pool);
    hd_memory_free(t);
}

hd_status hd_tokenizer_trie(const hd_token_trie **out, const hd_tokenizer *t, hd_error *err)
{
    return hd_lazy_trie_get(out, t->trie, &t->vocab, err);
}

int32_t hd_tokenizer_vocab(const hd_tokenizer *t) { return t->vocab.n; }

const char *hd_tokenizer_bytes(const hd_tokenizer *t, int32_t id, size_t *bytes)
{
    if (id < 0 || id >= t->vocab.n) return NULL;
    return hd_vocab_token(&t->vocab, id, bytes);
}

int32_t hd_tokenizer_control_id(const hd_tokenizer *t, const char *text, size_t text_bytes)
{
    int32_t const id = hd_added_id(&t->exact, text, text_bytes);
    return id >= 0 ? id : hd_added_id(&t->normalized, text, text_bytes);
}

bool hd_tokenizer_is_control(const hd_tokenizer *t, int32_t id)
{
    return id >= 0 && id < t->vocab.n && t->vocab.is_control[id];
}

/* ---- encode ---- */

typedef struct encoder {
    const hd_tokenizer *t;
    const char         *text;
    hd_bpe_scratch     *scratch;
    hd_ids             *out;
    hd_error           *err;
} encoder;

static hd_status encode_plain(const encoder *e, size_t start, size_t end)
{
    for (size_t next; start < end; start = next) {
        next = hd_pretoken_end(e->text + start, end - start, 0) + start;
        HD_TRY(
            hd_bpe_encode(&e->t->bpe, e->scratch, e->text + start, next - start, e->out, e->err));
    }
    return HD_OK;
}

/* Added tokens of the second set, which the file calls normalized. */
static hd_status encode_normalized(const encoder *e, size_t start, size_t end)
{
    hd_span found;
    for (int32_t id; (id = hd_added_find(&e->t->normalized, e->text, start, end, &found)) >= 0;) {
        HD_TRY(encode_plain(e, start, found.start));
        hd_ids_add(e->out, id);
        start = found.end;
    }
    return encode_plain(e, start, end);
}

/* Those of the first set win over those of the second wherever they stand. */
static hd_status encode_control(const encoder *e, size_t end)
{
    size_t  start = 0;
    hd_span found;
    for (int32_t id; (id = hd_added_find(&e->t->exact, e->text, start, end, &found)) >= 0;) {
        HD_TRY(encode_normalized(e, start, found.start));
        hd_ids_add(e->out, id);
        start = found.end;
    }
    return encode_normalized(e, start, end);
}

hd_status hd_tokenizer_append(const hd_tokenizer *t, const hd_text *text, hd_bpe_scratch *scratch,
                              hd_ids *out, hd_error *err)
{
    size_t const valid = hd_utf8_scan_check(text->data, text->bytes);
    if (valid < text->bytes) {
        size_t const where = text->base + valid;
        return hd_error_set(err, HD_ERR_FORMAT, (int64_t)where,
                            "text is not UTF-8: byte %02X at offset %zu",
                            (unsigned char)text->data[valid], where);
    }
    encoder const e = {t, text->data, scratch, out, err};
    return text->control ? encode_control(&e, text->bytes) : encode_plain(&e, 0, text->bytes);
}

hd_status hd_ids_start(hd_ids *ids, int32_t *data, int32_t cap, size_t text_bytes, hd_error *err)
{
    if (cap < 0 || (cap > 0 && !data)) HD_FAIL(err, HD_ERR_INVALID, "no room for ids: cap %d", cap);
    if (text_bytes > INT32_MAX)
        HD_FAIL(err, HD_ERR_INVALID, "text of %zu bytes: at most %d are encoded at once",
                text_bytes, INT32_MAX);
    *ids = (hd_ids){data, cap, 0};
    return HD_OK;
}

hd_status hd_ids_finish(const hd_ids *ids, int32_t *n, hd_error *err)
{
    *n = ids->n;
    if (ids->n > ids->cap) HD_FAIL(err, HD_ERR_LIMIT, "%d ids, room for %d", ids->n, ids->cap);
    return HD_OK;
}

hd_status hd_tokenizer_encode(const hd_tokenizer *t, const char *text, size_t text_bytes,
                              bool control, int32_t *ids, int32_t cap, int32_t *n, hd_error *err)
{
    if (!t || !n || (!text && text_bytes)) HD_FAIL(err, HD_ERR_INVALID, "encode: no text to read");
    hd_ids out;
    HD_TRY(hd_ids_start(&out, ids, cap, text_bytes, err));
    hd_bpe_scratch  scratch = {0};
    hd_text const   all = {text, text_bytes, 0, control};
    hd_status const s = hd_tokenizer_append(t, &all, &scratch, &out, err);
    hd_bpe_scratch_free(&scratch);
    HD_TRY(s);
    return hd_ids_finish(&out, n, err);
}
