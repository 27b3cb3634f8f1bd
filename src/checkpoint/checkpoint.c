#include "checkpoint/checkpoint.h"
#include "base/digest.h"
#include "checkpoint/names.h"
#include "checkpoint/shard_index.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INDEX_NAME      "model.safetensors.index.json"
#define SINGLE_NAME     "model.safetensors"
#define MAX_INDEX_BYTES ((size_t)64 << 20) /* the largest published one is near 30 MB */
#define MAX_PATH        4096

typedef struct shard {
    const char *name; /* owned by the pool */
    hd_st_file  file;
    int32_t     first; /* its tensors are [first, first + file.n_tensors) of the checkpoint */
} shard;

/* Bytes in the middle of a tensor. */
typedef struct sample {
    const uint8_t *data; /* borrowed from the mapping */
    size_t         bytes;
} sample;
#define SAMPLE_BYTES 64

struct hd_checkpoint {
    hd_config    config;
    const char  *folder; /* owned by the pool */
    shard       *shards; /* [n_shards] owned by the pool; each file is closed by itself */
    int64_t      bytes;
    int32_t      n_shards, n_tensors;
    hd_fault_fn *on_fault; /* of a survey; NULL: the first fault ends the opening */
    void        *on_fault_user;
    hd_pool      pool;
    /* until it is settled */
    hd_tensor  *tensors;  /* [n_tensors] owned by tables */
    hd_name_map official; /* official name -> index of tensors */
    hd_pool     tables;
    /* from then on */
    sample  *samples; /* [n_samples] owned by the pool */
    int32_t  n_samples;
    uint64_t digest; /* of all names, dtypes and shapes */
};

/* What a survey does about a failure: tells it and goes on.  Want of memory is no fault of the
 * folder. */
static hd_status tell_fault(const hd_checkpoint *c, hd_status s, hd_fault f, const hd_error *err)
{
    if (s == HD_OK || s == HD_ERR_MEMORY || !c->on_fault) return s;
    f.message = err->message;
    c->on_fault(c->on_fault_user, &f);
    return HD_OK;
}

/* ---- which files ---- */

static hd_status join_path(char out[MAX_PATH], const char *folder, const char *name, hd_error *err)
{
    int const n = snprintf(out, MAX_PATH, "%s/%s", folder, name);
    if (n < 0 || n >= MAX_PATH) HD_FAIL(err, HD_ERR_INVALID, "path of %.200s is too long", name);
    return HD_OK;
}

static hd_status set_shards(hd_checkpoint *c, const char *const *names, int32_t n, hd_error *err)
{
    if (!(c->shards = hd_pool_alloc(&c->pool, (size_t)n * sizeof *c->shards)))
        HD_FAIL(err, HD_ERR_MEMORY, "no memory for %d shards", n);
    for (; c->n_shards < n; c->n_shards++) {
        const char *const name = names[c->n_shards];
        c->shards[c->n_shards].name = hd_pool_copy(&c->pool, name, strlen(name));
        if (!c->shards[c->n_shards].name) HD_FAIL(err, HD_ERR_MEMORY, "no memory for %d shards", n);
    }
    return HD_OK;
}

/* Adds the names of all shards to `out`, each with its NUL. */
static hd_status list_folder(hd_buffer *out, int32_t *n, const char *folder, hd_error *err)
{
    HD_TRY(hd_file_list(out, n, folder, ".safetensors", HD_MAX_SHARDS + 1, err));
    if (*n == 0) HD_FAIL(err, HD_ERR_IO, "%s: no *.safetensors in this folder", folder);
    if (*n > HD_MAX_SHARDS)
        HD_FAIL(err, HD_ERR_FORMAT, "%s: more than %d shards", folder, HD_MAX_SHARDS);
    return HD_OK;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static hd_status take_list(hd_checkpoint *c, const hd_buffer *list, int32_t n, hd_error *err)
{
    const char **names = hd_pool_alloc(&c->tables, (size_t)n * sizeof *names);
    const char  *at = list->data;
    if (!names) HD_FAIL(err, HD_ERR_MEMORY, "no memory for %d shard names", n);
    for (int32_t i = 0; i < n; i++, at += strlen(at) + 1) names[i] = at;
    qsort(names, (size_t)n, sizeof *names, compare_names);
    return set_shards(c, names, n, err);
}

static hd_status use_folder(hd_checkpoint *c, hd_error *err)
{
    hd_buffer list = {0};
    int32_t   n;
    hd_status s = list_folder(&list, &n, c->folder, err);
    if (s == HD_OK) s = take_list(c, &list, n, err);
    hd_buffer_free(&list);
    return s;
}

/* The index belongs to the tables: it is checked once. */
static hd_status use_index(hd_checkpoint *c, hd_shard_index *index, const char *path, hd_error *err)
{
    hd_pool   text_pool = {0};
    char     *text;
    size_t    bytes;
    hd_status s = hd_file_read(&text, &bytes, path, MAX_INDEX_BYTES, &text_pool, err);
    if (s == HD_OK) s = hd_shard_index_parse(index, text, bytes, path, &c->tables, err);
    hd_pool_free(&text_pool);
    return s == HD_OK ? set_shards(c, index->shards, index->n_shards, err) : s;
}

/* The shards of a folder without a usable index. */
static hd_status use_shards(hd_checkpoint *c, hd_error *err)
{
    char                     path[MAX_PATH];
    hd_file_kind             found;
    static const char *const single[] = {SINGLE_NAME};
    HD_TRY(join_path(path, c->folder, SINGLE_NAME, err));
    HD_TRY(hd_file_look(&found, path, err));
    return found != HD_FILE_NONE ? set_shards(c, single, 1, err) : use_folder(c, err);
}

static hd_status find_shards(hd_checkpoint *c, hd_shard_index *index, hd_error *err)
{
    char         path[MAX_PATH];
    hd_file_kind found;
    HD_TRY(join_path(path, c->folder, INDEX_NAME, err));
    hd_status s = hd_file_look(&found, path, err);
    if (s == HD_OK && found == HD_FILE_NONE) return use_shards(c, err);
    if (s == HD_OK) s = use_index(c, index, path, err);
    HD_TRY(tell_fault(c, s, (hd_fault){HD_FAULT_INDEX, NULL, INDEX_NAME, NULL}, err));
    return s == HD_OK ? HD_OK : use_shards(c, err);
}

/* ---- shards ---- */

static hd_status open_shard(hd_checkpoint *c, shard *s, bool is_indexed, hd_error *err)
{
    char         path[MAX_PATH];
    hd_file_kind found;
    HD_TRY(join_path(path, c->folder, s->name, err));
    HD_TRY(hd_file_look(&found, path, err));
    if (is_indexed && found == HD_FILE_NONE)
        HD_FAIL(err, HD_ERR_IO, "%s: missing, although %s names it", path, INDEX_NAME);
    HD_TRY(hd_st_open(&s->file, path, err));
    s->first = c->n_tensors;
    if (s->file.n_tensors > INT32_MAX - c->n_tensors)
        HD_FAIL(err, HD_ERR_LIMIT, "%s: more than %d tensors", c->folder, INT32_MAX);
    c->n_tensors += s->file.n_tensors;
    return HD_OK;
}

static hd_status open_shards(hd_checkpoint *c, bool is_indexed, const hd_log *log, hd_error *err)
{
    for (int32_t i = 0; i < c->n_shards; i++) {
        hd_log_progress(log, "reading headers", i, c->n_shards);
        hd_fault const f = {HD_FAULT_SHARD, NULL, c->shards[i].name, NULL};
        HD_TRY(tell_fault(c, open_shard(c, c->shards + i, is_indexed, err), f, err));
        hd_log_print(log, HD_LOG_DEBUG, "%s: %d tensors", c->shards[i].name,
                     c->shards[i].file.n_tensors);
    }
    hd_log_progress(log, "reading headers", c->n_shards, c->n_shards);
    return HD_OK;
}

static hd_status check_entry(const hd_checkpoint *c, const hd_index_entry *e, hd_error *err)
{
    const shard *const s = &c->shards[e->shard];
    bool const         is_closed = !s->file.map.data; /* its own fault, told before */
    if (is_closed || hd_st_find(&s->file, e->name)) return HD_OK;
    HD_FAIL(err, HD_ERR_FORMAT, "%s/%s: tensor %.200s is not in %s, where it should be", c->folder,
            INDEX_NAME, e->name, s->name);
}

/* What the index says and the header does not: a tensor in another shard, or in none. */
static hd_status check_index(const hd_checkpoint *c, const hd_shard_index *index, hd_error *err)
{
    for (int32_t i = 0; i < index->n_entries; i++) {
        hd_fault const f = {HD_FAULT_INDEX, index->entries[i].name, INDEX_NAME, NULL};
        HD_TRY(tell_fault(c, check_entry(c, index->entries + i, err), f, err));
    }
    return HD_OK;
}

/* ---- tensors ---- */

static hd_status name_tensor(hd_checkpoint *c, hd_tensor *t, hd_error *err)
{
    char official[HD_NAME_MAX];
    t->name = ""; /* of a name that a survey has told of: no tensor is found by it */
    if (!hd_name_official(official, sizeof official, t->st.name))
        HD_FAIL(err, HD_ERR_FORMAT, "%s: tensor name %.100s... is too long (%zu bytes)",
                c->shards[t->shard].name, t->st.name, strlen(t->st.name));
    /* Official files need no second copy. */
    t->name = strcmp(official, t->st.name) == 0
                  ? t->st.name
                  : hd_pool_copy(&c->tables, official, strlen(official));
    if (!t->name) HD_FAIL(err, HD_ERR_MEMORY, "no memory for tensor names");
    return HD_OK;
}

static hd_status report_twins(const hd_checkpoint *c, const int32_t twins[2], hd_error *err)
{
    const hd_tensor *const a = c->tensors + twins[0], *const b = c->tensors + twins[1];
    HD_FAIL(err, HD_ERR_FORMAT, "tensor %.100s is there twice: %.100s in %.80s, %.100s in %.80s",
            a->name, a->st.name, c->shards[a->shard].name, b->st.name, c->shards[b->shard].name);
}

/* Sorts the names; of tensors that are there twice a survey tells and keeps the first. */
static hd_status sort_names(hd_checkpoint *c, hd_error *err)
{
    hd_name_map *const m = &c->official;
    int32_t            twins[2], used = 0;
    if (hd_name_map_sort(m, twins)) return HD_OK;
    for (int32_t i = 0; i < m->used; i++) {
        hd_tensor *const t = c->tensors + m->entries[i].index;
        if (used == 0 || strcmp(m->entries[used - 1].name, t->name) != 0) {
            m->entries[used++] = m->entries[i];
            continue;
        }
        twins[0] = m->entries[used - 1].index;
        twins[1] = m->entries[i].index;
        hd_fault const f = {HD_FAULT_DUPLICATE, t->st.name, c->shards[t->shard].name, NULL};
        HD_TRY(tell_fault(c, report_twins(c, twins, err), f, err));
        t->ticked++;
    }
    m->used = used;
    return HD_OK;
}

static hd_status collect_tensors(hd_checkpoint *c, hd_error *err)
{
    if (!(c->tensors = hd_pool_alloc(&c->tables, (size_t)c->n_tensors * sizeof *c->tensors)))
        HD_FAIL(err, HD_ERR_MEMORY, "no memory for %d tensors", c->n_tensors);
    HD_TRY(hd_name_map_open(&c->official, c->n_tensors, &c->tables, err));
    for (int32_t i = 0, at = 0; i < c->n_shards; i++)
        for (int32_t j = 0; j < c->shards[i].file.n_tensors; j++, at++) {
            hd_tensor *const t = c->tensors + at;
            *t = (hd_tensor){.st = c->shards[i].file.tensors[j], .shard = i};
            hd_fault const f = {HD_FAULT_NAME, t->st.name, c->shards[i].name, NULL};
            HD_TRY(tell_fault(c, name_tensor(c, t, err), f, err));
            if (*t->name)
                hd_name_map_add(&c->official, t->name, at);
            else
                t->ticked++;
            c->bytes += (int64_t)t->st.bytes;
        }
    return sort_names(c, err);
}

/* ---- open and close ---- */

static hd_status read_folder(hd_checkpoint *c, const char *folder, const hd_log *log, hd_error *err)
{
    hd_file_kind found;
    HD_TRY(hd_file_look(&found, folder, err));
    if (found != HD_FILE_FOLDER) HD_FAIL(err, HD_ERR_IO, "%s: no such folder", folder);
    if (!(c->folder = hd_pool_copy(&c->pool, folder, strlen(folder))))
        HD_FAIL(err, HD_ERR_MEMORY, "no memory for %s", folder);
    hd_shard_index index = {0};
    HD_TRY(tell_fault(c, hd_config_read(&c->config, folder, err),
                      (hd_fault){HD_FAULT_CONFIG, NULL, "config.json", NULL}, err));
    HD_TRY(tell_fault(c, find_shards(c, &index, err), (hd_fault){HD_FAULT_SHARD, NULL, NULL, NULL},
                      err));
    HD_TRY(open_shards(c, index.n_shards > 0, log, err));
    HD_TRY(check_index(c, &index, err));
    HD_TRY(collect_tensors(c, err));
    hd_log_print(log, HD_LOG_INFO, "%s: %d tensors, %" PRId64 " bytes, %d shards", folder,
                 c->n_tensors, c->bytes, c->n_shards);
    if (index.n_shards > 0 && c->n_tensors > index.n_entries)
        hd_log_print(log, HD_LOG_WARNING, "%s omits %d tensors that the shards hold; they are used",
                     INDEX_NAME, c->n_tensors - index.n_entries);
    return HD_OK;
}

hd_status hd_checkpoint_survey(hd_checkpoint **out, const char *folder, hd_fault_fn *on_fault,
                               void *user, const hd_log *log, hd_error *err)
{
    hd_checkpoint *const c = hd_memory_alloc(sizeof *c);
    if (!c) HD_FAIL(err, HD_ERR_MEMORY, "no memory for a checkpoint");
    c->on_fault = on_fault;
    c->on_fault_user = user;
    hd_status const s = read_folder(c, folder, log, err);
    if (s == HD_OK)
        *out = c;
    else
        hd_checkpoint_close(c);
    return s;
}

hd_status hd_checkpoint_open(hd_checkpoint **out, const char *folder, const hd_log *log,
                             hd_error *err)
{
    return hd_checkpoint_survey(out, folder, NULL, NULL, log, err);
}

void hd_checkpoint_close(hd_checkpoint *c)
{
    if (!c) return;
    for (int32_t i = 0; i < c->n_shards; i++) hd_st_close(&c->shards[i].file);
    hd_pool_free(&c->tables);
    hd_pool_free(&c->pool);
    hd_memory_free(c);
}

/* ---- when all tensors are found ---- */

static uint64_t add_tensor(uint64_t digest, const hd_tensor *t)
{
    int32_t const kind[2] = {(int32_t)t->st.dtype, t->st.rank};
    digest = hd_digest_add(digest, t->name, strlen(t->name) + 1);
    digest = hd_digest_add(digest, kind, sizeof kind);
    return hd_digest_add(digest, t->st.shape, (size_t)t->st.rank * sizeof *t->st.shape);
}

static sample middle_of(const hd_st_tensor *t)
{
    size_t const n = t->bytes < SAMPLE_BYTES ? t->bytes : SAMPLE_BYTES;
    return (sample){t->data + (t->bytes - n) / 2, n};
}

hd_status hd_checkpoint_settle(hd_checkpoint *c, hd_error *err)
{
    c->samples = hd_pool_alloc(&c->pool, (size_t)c->n_tensors * sizeof *c->samples);
    if (!c->samples) HD_FAIL(err, HD_ERR_MEMORY, "no memory for %d samples", c->n_tensors);
    c->digest = HD_DIGEST_START;
    for (; c->n_samples < c->n_tensors; c->n_samples++) {
        const hd_tensor *const t = c->tensors + c->n_samples;
        c->digest = add_tensor(c->digest, t);
        c->samples[c->n_samples] = middle_of(&t->st);
    }
    for (int32_t i = 0; i < c->n_shards; i++) hd_st_forget(&c->shards[i].file);
    hd_pool_free(&c->tables);
    c->official = (hd_name_map){0};
    c->tensors = NULL;
    c->n_tensors = 0;
    hd_memory_trim();
    return HD_OK;
}

uint64_t hd_checkpoint_digest(const hd_checkpoint *c, uint64_t digest)
{
    digest = hd_digest_add(digest, &c->digest, sizeof c->digest);
    for (const sample *s = c->samples; s < c->samples + c->n_samples; s++)
        if (s->bytes) digest = hd_digest_add(digest, s->data, s->bytes);
    return digest;
}

const hd_config *hd_checkpoint_config(const hd_checkpoint *c) { return &c->config; }
const char      *hd_checkpoint_folder(const hd_checkpoint *c) { return c->folder; }
int32_t          hd_checkpoint_count(const hd_checkpoint *c) { return c->n_tensors; }
hd_tensor       *hd_checkpoint_at(const hd_checkpoint *c, int32_t i) { return c->tensors + i; }
int32_t          hd_checkpoint_shards(const hd_checkpoint *c) { return c->n_shards; }
int64_t          hd_checkpoint_bytes(const hd_checkpoint *c) { return c->bytes; }

void hd_checkpoint_release(const hd_checkpoint *c)
{
    for (int32_t i = 0; i < c->n_shards; i++)
        hd_file_release(c->shards[i].file.map.data, c->shards[i].file.map.bytes);
}

hd_tensor *hd_checkpoint_find(const hd_checkpoint *c, const char *official_name)
{
    int32_t const i = hd_name_map_find(&c->official, official_name);
    return i < 0 ? NULL : c->tensors + i;
}

const char *hd_checkpoint_file_name(const hd_checkpoint *c, int32_t shard_index)
{
    return c->shards[shard_index].name;
}

hd_tensor *hd_checkpoint_next(const hd_checkpoint *c, const char *prefix, int32_t *at)
{
    *at = *at < 0 ? hd_name_map_lower(&c->official, prefix) : *at + 1;
    if (*at >= c->official.used) return NULL;
    const hd_name_entry *const e = c->official.entries + *at;
    return strncmp(e->name, prefix, strlen(prefix)) == 0 ? c->tensors + e->index : NULL;
}
