#include "tokenizer/tokenizer.h"

#include <string.h>

#include "tokenizer/byte_level.h"

/* What the file says of one id, before it is packed. */
typedef struct entry {
    const char *text; /* borrowed from the parsed file; NULL: the id was not seen yet */
    size_t      bytes;
    bool        is_control, is_normalized;
} entry;

typedef struct draft {
    hd_pool            scratch; /* owned */
    const json_object *vocab;   /* {spelling: id}; these three borrowed from the parsed file */
    const json_object *merges;  /* list */
    const json_object *added;   /* list, or NULL */
    entry             *entries; /* [cap] by id; n of them are filled */
    int32_t            cap, n, n_control;
} draft;

static hd_status no_memory(hd_error *err, const char *what, size_t n)
{
    HD_FAIL(err, HD_ERR_MEMORY, "tokenizer: no memory for %zu %s", n, what);
}

/* ---- the parts of the file ---- */

/* A member of the wrong type counts as missing. */
static const json_object *member(const json_object *o, const char *name, json_type type)
{
    const json_object *const v = hd_json_member(o, name);
    return json_object_is_type(v, type) ? v : NULL;
}

static hd_status find_parts(draft *d, const json_object *file, hd_error *err)
{
    const json_object *const model = member(file, "model", json_type_object);
    d->vocab = member(model, "vocab", json_type_object);
    d->merges = member(model, "merges", json_type_array);
    d->added = member(file, "added_tokens", json_type_array);
    if (!d->vocab) HD_FAIL(err, HD_ERR_FORMAT, "tokenizer: model.vocab is missing or no object");
    if (!d->merges) HD_FAIL(err, HD_ERR_FORMAT, "tokenizer: model.merges is missing or no list");
    size_t const cap = (size_t)json_object_object_length(d->vocab) +
                       (d->added ? json_object_array_length(d->added) : 0);
    if (cap == 0 || cap > HD_MAX_VOCAB)
        HD_FAIL(err, HD_ERR_FORMAT, "tokenizer: %zu tokens: want 1 to %d", cap, HD_MAX_VOCAB);
    d->entries = hd_pool_alloc(&d->scratch, cap * sizeof *d->entries);
    if (!d->entries) return no_memory(err, "tokens", cap);
    d->cap = (int32_t)cap;
    return HD_OK;
}

/* ---- vocabulary ---- */

static hd_status read_id(int32_t *id, const draft *d, const json_object *v, const char *token,
                         hd_error *err)
{
    if (!json_object_is_type(v, json_type_int))
        HD_FAIL(err, HD_ERR_FORMAT, "tokenizer: id of token \"%.100s\" is not an integer", token);
    int64_t const n = json_object_get_int64(v);
    if (n < 0 || n >= d->cap)
        HD_FAIL(err, HD_ERR_FORMAT,
                "tokenizer: id %lld of token \"%.100s\": the file has %d tokens", (long long)n,
                token, d->cap);
    *id = (int32_t)n;
    return HD_OK;
}

static hd_status place(draft *d, int32_t id, const entry *e, hd_error *err)
{
    if (d->entries[id].text)
        HD_FAIL(err, HD_ERR_FORMAT, "tokenizer: tokens \"%.100s\" and \"%.100s\" both have id %d",
                d->entries[id].text, e->text, id);
    d->entries[id] = *e;
    d->n++;
    return HD_OK;
}

static hd_status take_vocab(draft *d, int32_t byte_id[256], hd_error *err)
{
    struct json_object_iterator at = json_object_iter_begin((json_object *)(uintptr_t)d->vocab);
    struct json_object_iterator const end = json_object_iter_end(d->vocab);
    for (; !json_object_iter_equal(&at, &end); json_object_iter_next(&at)) {
        entry   e = {.text = json_object_iter_peek_name(&at)};
        int32_t id = 0;
        char    byte[2];
        e.bytes = strlen(e.text);
        HD_TRY(read_id(&id, d, json_object_iter_peek_value(&at), e.text, err));
        HD_TRY(place(d, id, &e, err));
        if (e.bytes <= sizeof byte && hd_byte_level_decode(byte, e.text, e.bytes) == 1)
            byte_id[(unsigned char)byte[0]] = id;
    }
    return HD_OK;
}

static hd_status check_bytes(const int32_t byte_id[256], hd_error *err)
{
    for (int i = 0; i < 256; i++)
        if (byte_id[i] < 0)
            HD_FAIL(err, HD_ERR_UNSUPPORTED,
                    "tokenizer: no token for byte %02X: the vocabulary is not byte-level", i);
    return HD_OK;
}

/* ---- added tokens ---- */

/* Reads a flag that may be missing. */
static hd_status read_flag(bool *out, const json_object *token, const char *name, hd_error *err)
{
    json_object *v = NULL;
    if (!json_object_object_get_ex(token, name, &v)) return HD_OK;
    if (!json_object_is_type(v, json_type_boolean))
        HD_FAIL(err, HD_ERR_FORMAT, "tokenizer: added token %.200s: %s is not true or false",
                json_object_to_json_string((json_object *)(uintptr_t)token), name);
    *out = json_object_get_boolean(v);
    return HD_OK;
}

static hd_status read_added(entry *e, const json_object *token, hd_error *err)
{
    static const char *const refused[] = {"lstrip", "rstrip", "single_word"};
    e->text = hd_json_text(hd_json_member(token, "content"), &e->bytes);
    if (!e->text || e->bytes == 0)
        HD_FAIL(err, HD_ERR_FORMAT, "tokenizer: added token %.200s has no content",
                json_object_to_json_string((json_object *)(uintptr_t)token));
    e->is_control = true;
    bool is_special = false;
    HD_TRY(read_flag(&is_special, token, "special", err));
    e->is_normalized = !is_special;
    HD_TRY(read_flag(&e->is_normalized, token, "normalized", err));
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        bool is_set = false;
        HD_TRY(read_flag(&is_set, token, refused[i], err));
        if (is_set)
            HD_FAIL(err, HD_ERR_UNSUPPORTED,
                    "tokenizer: added token \"%.100s\": %s is not supported", e->text, refused[i]);
    }
    return HD_OK;
}

/* An added token is either new or marks one that the vocabulary has under the same id. */
static hd_status take_added_token(draft *d, const json_object *token, hd_error *err)
{
    entry   e = {0};
    int32_t id = 0;
    HD_TRY(read_added(&e, token, err));
    json_object *number = NULL, *in_vocab = NULL;
    json_object_object_get_ex(token, "id", &number);
    HD_TRY(read_id(&id, d, number, e.text, err));
    d->n_control++;
    if (!json_object_object_get_ex(d->vocab, e.text, &in_vocab)) return place(d, id, &e, err);
    if (json_object_get_int64(in_vocab) != id)
        HD_FAIL(err, HD_ERR_FORMAT,
                "tokenizer: added token \"%.100s\" has id %d, in model.vocab %lld", e.text, id,
                (long long)json_object_get_int64(in_vocab));
    if (d->entries[id].is_control)
        HD_FAIL(err, HD_ERR_FORMAT, "tokenizer: added token \"%.100s\" is there twice", e.text);
    d->entries[id] = e;
    return HD_OK;
}

static hd_status take_added(draft *d, hd_error *err)
{
    size_t const n = d->added ? json_object_array_length(d->added) : 0;
    for (size_t i = 0; i < n; i++)
        HD_TRY(take_added_token(d, json_object_array_get_idx(d->added, i), err));
    for (int32_t id = 0; id < d->n; id++)
        if (!d->entries[id].text)
            HD_FAIL(err, HD_ERR_FORMAT, "tokenizer: no token has id %d, but %d tokens are there",
                    id, d->n);
    return HD_OK;
}

/* Spreads the added tokens over the two sets that the search needs. */
static hd_status build_added(hd_tokenizer *t, const draft *d, hd_error *err)
{
    size_t const   n = (size_t)d->n_control;
    int32_t *const ids = hd_pool_alloc(&t->pool, n * sizeof *ids);
    if (!ids) return no_memory(err, "added tokens", n);
    int32_t n_exact = 0, n_normalized = 0;
    for (int32_t id = 0; id < d->n; id++) {
        if (!d->entries[id].is_control) continue;
        if (d->entries[id].is_normalized)
            ids[d->n_control - ++n_normalized] = id;
        else
            ids[n_exact++] = id;
    }
    hd_added_build(&t->exact, &t->vocab, ids, n_exact);
    hd_added_build(&t->normalized, &t->vocab, ids + n_exact, n_normalized);
    for (int32_t i = 0; i < d->n_control; i++) {
        size_t            bytes;
        const char *const text = hd_vocab_token(&t->vocab, ids[i], &bytes);
        if (hd_tokenizer_control_id(t, text, bytes) != ids[i])
            HD_FAIL(err, HD_ERR_FORMAT, "tokenizer: added token \"%.*s\" is there twice",
                    bytes < 100 ? (int)bytes : 100, text);
    }
    return HD_OK;
}

/* ---- packing ---- */

static hd_status pack_vocab(hd_tokenizer *t, const draft *d, hd_error *err)
{
    size_t total = 0; /* at most the bytes of the file: fits 32 bits */
    for (int32_t id = 0; id < d->n; id++) total += d->entries[id].bytes;
    uint32_t *const offset = hd_pool_alloc(&t->pool, ((size_t)d->n + 1) * sizeof *offset);
    char *const     bytes = hd_pool_alloc(&t->pool, total);
    bool *const     is_control = hd_pool_alloc(&t->pool, (size_t)d->n);
    t->trie = hd_pool_alloc(&t->pool, sizeof *t->trie);
    if (!offset || !bytes || !is_control || !t->trie) return no_memory(err, "tokens", (size_t)d->n);
    for (int32_t id = 0; id < d->n; id++) {
        const entry *const e = &d->entries[id];
        int64_t            n = (int64_t)e->bytes;
        if (e->is_control)
            memcpy(bytes + offset[id], e->text, e->bytes);
        else
            n = hd_byte_level_decode(bytes + offset[id], e->text, e->bytes);
        if (n <= 0)
            HD_FAIL(err, HD_ERR_FORMAT, "tokenizer: token \"%.100s\", id %d, does not spell bytes",
                    e->text, id);
        offset[id + 1] = offset[id] + (uint32_t)n;
        is_control[id] = e->is_control;
    }
    t->vocab = (hd_vocab){d->n, offset, bytes, is_control};
    return HD_OK;
}

/* ---- merges ---- */

/* The two sides of a merge, "a b" or ["a", "b"], in one buffer: left NUL right NUL. */
static bool split_merge(hd_buffer *sides, const json_object *merge)
{
    hd_buffer_clear(sides);
    bool const is_list = json_object_is_type(merge, json_type_array);
    if (is_list ? json_object_array_length(merge) != 2
                : !json_object_is_type(merge, json_type_string))
        return false;
    for (size_t i = 0; i < (is_list ? 2u : 1u); i++) {
        json_object *const side =
            is_list ? json_object_array_get_idx(merge, i) : (json_object *)(uintptr_t)merge;
        if (!json_object_is_type(side, json_type_string)) return false;
        const char *const text = json_object_get_string(side);
        size_t const      bytes = (size_t)json_object_get_string_len(side);
        if (strlen(text) != bytes) return false;
        hd_buffer_add(sides, text, bytes + (is_list ? 1 : 0));
    }
    if (is_list) return !sides->failed;
    hd_buffer_add(sides, "", 1);
    char *const space = sides->failed ? NULL : strchr(sides->data, ' ');
    if (!space || strchr(space + 1, ' ')) return false;
    *space = 0;
    return true;
}

static hd_status find_side(int32_t *id, const draft *d, const char *text, uint32_t rank,
                           hd_error *err)
{
    json_object *v = NULL;
    if (!json_object_object_get_ex(d->vocab, text, &v))
        HD_FAIL(err, HD_ERR_FORMAT, "tokenizer: merge %u: \"%.100s\" is not in model.vocab", rank,
                text);
    *id = (int32_t)json_object_get_int64(v); /* in range: take_vocab looked at all */
    return HD_OK;
}

static hd_status read_merge(hd_merge *out, const draft *d, uint32_t rank, hd_buffer *sides,
                            hd_error *err)
{
    const json_object *const merge = json_object_array_get_idx(d->merges, rank);
    if (!split_merge(sides, merge)) {
        if (sides->failed) return no_memory(err, "merges", rank);
        HD_FAIL(err, HD_ERR_FORMAT, "tokenizer: merge %u is %.100s: want two tokens", rank,
                json_object_to_json_string((json_object *)(uintptr_t)merge));
    }
    size_t const left_bytes = strlen(sides->data);
    char *const  right = sides->data + left_bytes + 1;
    *out = (hd_merge){.rank = rank};
    HD_TRY(find_side(&out->left, d, sides->data, rank, err));
    HD_TRY(find_side(&out->right, d, right, rank, err));
    memmove(sides->data + left_bytes, right, strlen(right) + 1);
    return find_side(&out->made, d, sides->data, rank, err);
}

static hd_status build_merges(hd_tokenizer *t, const draft *d, hd_error *err)
{
    size_t const n = json_object_array_length(d->merges);
    if (n > HD_MAX_VOCAB)
        HD_FAIL(err, HD_ERR_FORMAT, "tokenizer: %zu merges: want at most %d", n, HD_MAX_VOCAB);
    hd_merge *const merges = hd_pool_alloc(&t->pool, n * sizeof *merges);
    if (!merges) return no_memory(err, "merges", n);
    hd_buffer sides = {0};
    hd_status s = HD_OK;
    for (uint32_t i = 0; i < n && s == HD_OK; i++) s = read_merge(&merges[i], d, i, &sides, err);
    hd_buffer_free(&sides);
    HD_TRY(s);
    t->bpe.vocab = &t->vocab;
    return hd_bpe_build(&t->bpe, merges, n, &t->pool, err);
}

/* ---- the whole ---- */

static hd_status load_file(hd_tokenizer *t, draft *d, const json_object *file, hd_error *err)
{
    HD_TRY(hd_tokenizer_check_rules(file, err));
    HD_TRY(find_parts(d, file, err));
    memset(t->bpe.byte_id, 0xFF, sizeof t->bpe.byte_id);
    HD_TRY(take_vocab(d, t->bpe.byte_id, err));
    HD_TRY(check_bytes(t->bpe.byte_id, err));
    HD_TRY(take_added(d, err));
    HD_TRY(pack_vocab(t, d, err));
    HD_TRY(build_added(t, d, err));
    return build_merges(t, d, err);
}

hd_status hd_tokenizer_load(hd_tokenizer *t, const char *json, size_t bytes, const char *what,
                            hd_error *err)
{
    if (bytes > HD_MAX_TOKENIZER_BYTES)
        HD_FAIL(err, HD_ERR_FORMAT, "%s: %zu bytes: want at most %zu", what, bytes,
                HD_MAX_TOKENIZER_BYTES);
    json_object *file = NULL;
    /* A token that stands twice needs no check of its own: one of its ids stays empty. */
    HD_TRY(hd_json_parse(&file, json, bytes, HD_JSON_STRICT, what, err));
    draft           d = {0};
    hd_status const s = load_file(t, &d, file, err);
    hd_pool_free(&d.scratch);
    json_object_put(file);
    return s;
}
