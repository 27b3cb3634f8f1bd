#include "checkpoint/shard_index.h"
#include "base/json.h"

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

static hd_status check_entry(const char *what, const char *name, json_object *shard, hd_error *err)
{
    if (!json_object_is_type(shard, json_type_string))
        HD_FAIL(err, HD_ERR_FORMAT, "%s: weight_map: %.200s is %.60s, not a file name", what, name,
                shard ? json_object_to_json_string_ext(shard, JSON_C_TO_STRING_PLAIN) : "null");
    const char *const file = json_object_get_string(shard);
    if (!is_shard_name(file, (size_t)json_object_get_string_len(shard)))
        HD_FAIL(err, HD_ERR_FORMAT,
                "%s: weight_map: %.200s lies in \"%.150s\", want a name.safetensors in this folder",
                what, name, file);
    return HD_OK;
}

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

/* The shards that the map names.  `names` [entries of map] is scratch. */
static hd_status read_shards(hd_shard_index *out, json_object *map, const char **names,
                             const char *what, hd_pool *pool, hd_error *err)
{
    int32_t n = 0;
    json_object_object_foreach(map, name, shard)
    {
        HD_TRY(check_entry(what, name, shard, err));
        names[n++] = json_object_get_string(shard);
    }
    return copy_shards(out, names, sort_unique(names, n), what, pool, err);
}

static hd_status read_entries(hd_shard_index *out, json_object *map, const char *what,
                              hd_pool *pool, hd_error *err)
{
    json_object_object_foreach(map, name, shard)
    {
        const char *const        file = json_object_get_string(shard);
        const char *const *const found =
            bsearch(&file, out->shards, (size_t)out->n_shards, sizeof *out->shards, compare_names);
        const char *const copy = hd_pool_copy(pool, name, strlen(name));
        if (!copy) HD_FAIL(err, HD_ERR_MEMORY, "%s: no memory for tensor names", what);
        out->entries[out->n_entries++] =
            (hd_index_entry){copy, (int32_t)(found - (const char *const *)out->shards)};
    }
    return HD_OK;
}

static hd_status read_map(hd_shard_index *out, json_object *root, const char *what, hd_pool *pool,
                          hd_error *err)
{
    json_object *const map = json_object_is_type(root, json_type_object)
                                 ? json_object_object_get(root, "weight_map")
                                 : NULL;
    if (!json_object_is_type(map, json_type_object) || json_object_object_length(map) == 0)
        HD_FAIL(err, HD_ERR_FORMAT, "%s: no weight_map that names tensors and their shards", what);
    size_t const       n = (size_t)json_object_object_length(map);
    const char **const names = hd_memory_alloc(n * sizeof *names);
    out->entries = hd_pool_alloc(pool, n * sizeof *out->entries);
    hd_status s = HD_OK;
    if (!names || !out->entries)
        s = hd_error_set(err, HD_ERR_MEMORY, -1, "%s: no memory for %zu tensors", what, n);
    else
        s = read_shards(out, map, names, what, pool, err);
    hd_memory_free(names);
    return s == HD_OK ? read_entries(out, map, what, pool, err) : s;
}

hd_status hd_shard_index_parse(hd_shard_index *out, const char *json, size_t bytes,
                               const char *what, hd_pool *pool, hd_error *err)
{
    json_object *root;
    HD_TRY(hd_json_parse(&root, json, bytes, HD_JSON_UNIQUE, what, err));
    hd_shard_index  index = {0};
    hd_status const s = read_map(&index, root, what, pool, err);
    json_object_put(root);
    if (s == HD_OK) *out = index;
    return s;
}
