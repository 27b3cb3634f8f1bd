#include "checkpoint/shard_index.h"
#include "base/json_scan.h"

#include <stdlib.h>
#include <string.h>

/* A plain file name of the folder: no path, nothing hidden, no other kind of file. */
static bool is_shard_name(const char *name, size_t bytes)
{
    static const char ending[] = ".safetensors";
    size_t const      n = sizeof ending - 1;
    return bytes > n && bytes < 256 && strlen(name) == bytes && name[0] != '.' &&
           !strpbrk(name, "/\\") && strcmp(name + bytes - n, ending) == 0;
}

/* ---- the text ----
 * An index names each of up to millions of tensors, so no tree is built. */

/* What one member of the map says. */
typedef struct index_text {
    const char *name, *shard; /* owned by the pool */
} index_text;

typedef struct index_reader {
    hd_json_scan json;
    hd_pool     *pool;
    hd_buffer    entries; /* of index_text */
    hd_json_span last;    /* the shard's name in the entry before */
    bool         has_map;
} index_reader;

static hd_status no_memory(const index_reader *r)
{
    HD_FAIL(r->json.err, HD_ERR_MEMORY, "%s: no memory for the names of tensors", r->json.what);
}

static hd_status no_map(const index_reader *r)
{
    HD_FAIL(r->json.err, HD_ERR_FORMAT, "%s: no weight_map that names tensors and their shards",
            r->json.what);
}

/* The text of a string; *bytes may hold a NUL that strlen does not pass. */
static hd_status copy_text(const index_reader *r, const hd_json_piece *p, const char **out,
                           size_t *bytes)
{
    const char *const quoted = r->json.text + p->span.at;
    json_object      *tree = NULL;
    const char       *text = quoted + 1;
    *bytes = p->span.bytes - 2;
    if (p->has_escape) {
        HD_TRY(
            hd_json_parse(&tree, quoted, p->span.bytes, HD_JSON_STRICT, r->json.what, r->json.err));
        text = hd_json_text(tree, bytes);
    }
    *out = hd_pool_copy(r->pool, text, *bytes);
    json_object_put(tree);
    return *out ? HD_OK : no_memory(r);
}

/* The shard of a tensor; mostly the one of the tensor before. */
static hd_status read_shard(index_reader *r, const hd_json_piece *p, index_text *e)
{
    const char *const text = r->json.text;
    size_t            bytes;
    if (p->span.bytes == r->last.bytes && r->entries.used &&
        memcmp(text + p->span.at, text + r->last.at, r->last.bytes) == 0) {
        const index_text *const before =
            (const index_text *)(const void *)(r->entries.data + r->entries.used) - 1;
        e->shard = before->shard;
        return HD_OK;
    }
    HD_TRY(copy_text(r, p, &e->shard, &bytes));
    if (!is_shard_name(e->shard, bytes))
        HD_FAIL(r->json.err, HD_ERR_FORMAT,
                "%s: weight_map: %.200s lies in \"%.150s\", want a name.safetensors in this folder",
                r->json.what, e->name, e->shard);
    r->last = p->span;
    return HD_OK;
}

static hd_status read_entry(index_reader *r, const hd_json_piece *name)
{
    index_text    e;
    hd_json_piece p;
    size_t        bytes;
    HD_TRY(copy_text(r, name, &e.name, &bytes));
    HD_TRY(hd_json_scan_next(&r->json, &p));
    if (p.kind != HD_JSON_TEXT) {
        hd_json_span value;
        HD_TRY(hd_json_scan_rest(&r->json, &p, &value));
        HD_FAIL(r->json.err, HD_ERR_FORMAT, "%s: weight_map: %.200s is %.*s, not a file name",
                r->json.what, e.name, value.bytes < 60 ? (int)value.bytes : 60,
                r->json.text + value.at);
    }
    HD_TRY(read_shard(r, &p, &e));
    hd_buffer_add(&r->entries, &e, sizeof e);
    return r->entries.failed ? no_memory(r) : HD_OK;
}

static hd_status read_map(index_reader *r, const hd_json_piece *first)
{
    if (first->kind != HD_JSON_OBJECT || r->has_map) return no_map(r);
    r->has_map = true;
    for (hd_json_piece p;;) {
        HD_TRY(hd_json_scan_next(&r->json, &p));
        if (p.kind == HD_JSON_CLOSE) return HD_OK;
        HD_TRY(read_entry(r, &p));
    }
}

static bool is_map(const index_reader *r, const hd_json_piece *name)
{
    static const char key[] = "\"weight_map\"";
    return name->span.bytes == sizeof key - 1 &&
           memcmp(r->json.text + name->span.at, key, sizeof key - 1) == 0;
}

static hd_status read_members(index_reader *r)
{
    hd_json_piece p, first;
    HD_TRY(hd_json_scan_next(&r->json, &p));
    if (p.kind != HD_JSON_OBJECT) return no_map(r);
    for (;;) {
        hd_json_span value;
        HD_TRY(hd_json_scan_next(&r->json, &p));
        if (p.kind == HD_JSON_CLOSE) break;
        HD_TRY(hd_json_scan_next(&r->json, &first));
        HD_TRY(is_map(r, &p) ? read_map(r, &first) : hd_json_scan_rest(&r->json, &first, &value));
    }
    HD_TRY(hd_json_scan_next(&r->json, &p)); /* the end */
    return r->entries.used ? HD_OK : no_map(r);
}

/* ---- shards and tensors ---- */

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorts and leaves each name once.  Returns how many are left. */
static int32_t sort_unique(const char **names, int32_t n)
{
    qsort(names, (size_t)n, sizeof *names, compare_names);
    int32_t used = 0;
    for (int32_t i = 0; i < n; i++)
        if (used == 0 || strcmp(names[used - 1], names[i]) != 0) names[used++] = names[i];
    return used;
}

static hd_status copy_shards(hd_shard_index *out, const char **names, int32_t n, const char *what,
                             hd_pool *pool, hd_error *err)
{
    if (n > HD_MAX_SHARDS)
        HD_FAIL(err, HD_ERR_FORMAT, "%s: %d shards, at most %d are read", what, n, HD_MAX_SHARDS);
    if (!(out->shards = hd_pool_alloc(pool, (size_t)n * sizeof *out->shards)))
        HD_FAIL(err, HD_ERR_MEMORY, "%s: no memory for %d shards", what, n);
    for (int32_t i = 0; i < n; i++)
        if (!(out->shards[i] = hd_pool_copy(pool, names[i], strlen(names[i]))))
            HD_FAIL(err, HD_ERR_MEMORY, "%s: no memory for %d shards", what, n);
    out->n_shards = n;
    return HD_OK;
}

static hd_status list_shards(hd_shard_index *out, const index_text *texts, int32_t n,
                             const index_reader *r)
{
    const char **const names = hd_memory_alloc((size_t)n * sizeof *names);
    if (!names) return no_memory(r);
    for (int32_t i = 0; i < n; i++) names[i] = texts[i].shard;
    hd_status const s =
        copy_shards(out, names, sort_unique(names, n), r->json.what, r->pool, r->json.err);
    hd_memory_free(names);
    return s;
}

static hd_status check_unique(const hd_shard_index *x, const index_reader *r)
{
    hd_pool     scratch = {0};
    hd_name_map names;
    int32_t     twins[2];
    hd_status   s = hd_name_map_open(&names, x->n_entries, &scratch, r->json.err);
    for (int32_t i = 0; s == HD_OK && i < x->n_entries; i++)
        hd_name_map_add(&names, x->entries[i].name, i);
    if (s == HD_OK && !hd_name_map_sort(&names, twins))
        s = hd_error_set(r->json.err, HD_ERR_FORMAT, -1,
                         "%s: weight_map: %.200s stands there twice", r->json.what,
                         x->entries[twins[0]].name);
    hd_pool_free(&scratch);
    return s;
}

static hd_status make_index(hd_shard_index *out, const index_reader *r)
{
    const index_text *const texts = (const index_text *)(const void *)r->entries.data;
    size_t const            n = r->entries.used / sizeof *texts;
    if (n > INT32_MAX) return no_memory(r);
    HD_TRY(list_shards(out, texts, (int32_t)n, r));
    if (!(out->entries = hd_pool_alloc(r->pool, n * sizeof *out->entries))) return no_memory(r);
    for (size_t i = 0; i < n; i++) {
        const char *const *const found =
            bsearch(&texts[i].shard, out->shards, (size_t)out->n_shards, sizeof *out->shards,
                    compare_names);
        out->entries[out->n_entries++] =
            (hd_index_entry){texts[i].name, (int32_t)(found - (const char *const *)out->shards)};
    }
    return check_unique(out, r);
}

hd_status hd_shard_index_parse(hd_shard_index *out, const char *json, size_t bytes,
                               const char *what, hd_pool *pool, hd_error *err)
{
    index_reader   r = {.json = {.text = json, .bytes = bytes, .what = what, .err = err},
                        .pool = pool};
    hd_shard_index index = {0};
    hd_status      s = read_members(&r);
    hd_json_scan_close(&r.json);
    if (s == HD_OK) s = make_index(&index, &r);
    hd_buffer_free(&r.entries);
    if (s == HD_OK) *out = index;
    return s;
}
