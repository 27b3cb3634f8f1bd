/* What stands in a folder of kept prefixes becomes a tree again, by reading heads of files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/prefix_disk.h"

#define MOST_FILES (1 << 22)

/* A node that is not in the tree yet. */
typedef struct found {
    hd_kept *k; /* owned until it is linked */
    uint8_t  above[HD_SHA256_BYTES];
} found;

typedef struct scan {
    hd_prefix      *p;
    hd_prefix_disk *d;
    found          *all; /* [n] owned */
    int32_t         n;
    hd_buffer       names;
} scan;

/* ---- one file ---- */

static void remove_named(const scan *s, const char *name)
{
    char      path[HD_KEPT_PATH];
    hd_error  why = {0};
    int const n = snprintf(path, sizeof path, "%s/%s", s->d->folder, name);
    if (n < 0 || (size_t)n >= sizeof path) return;
    if (hd_file_remove(path, &why) != HD_OK)
        hd_log_print(&s->p->engine->log, HD_LOG_WARNING, "%s", why.message);
}

static hd_kept_origin read_head(const scan *s, hd_file_reader *r, hd_kept_header *h,
                                int32_t tokens[HD_CACHE_EDGE])
{
    if (hd_file_take(r, h, sizeof *h, NULL) != HD_OK) return HD_KEPT_BROKEN;
    hd_kept_origin const origin = hd_kept_judge(s->p->engine, h, (int64_t)r->bytes);
    if (origin != HD_KEPT_OURS) return origin;
    if (hd_file_take(r, tokens, (size_t)h->n * sizeof *tokens, NULL) != HD_OK)
        return HD_KEPT_BROKEN;
    return hd_kept_has_tokens(s->p->engine, h, tokens) ? HD_KEPT_OURS : HD_KEPT_BROKEN;
}

static hd_status add_found(scan *s, const hd_kept_header *h, const int32_t *tokens, hd_error *err)
{
    hd_kept *const k = hd_kept_make(NULL, tokens, h->n, h->is_state != 0);
    if (!k) HD_FAIL(err, HD_ERR_MEMORY, "%s: no memory for %d kept states", s->d->folder, s->n);
    k->at = h->at;
    k->stamp = h->stamp;
    k->size = (int64_t)h->payload;
    k->file = HD_KEPT_WRITTEN;
    memcpy(k->name, h->name, sizeof k->name);
    s->all[s->n].k = k;
    memcpy(s->all[s->n].above, h->above, sizeof h->above);
    s->n++;
    s->p->counts.disk_bytes += hd_kept_file_bytes(k);
    s->p->counts.disk_states += k->is_state;
    return HD_OK;
}

static void add_foreign(scan *s, const char *name, int64_t bytes)
{
    hd_buffer_add(&s->d->foreign, name, strlen(name) + 1);
    hd_buffer_add(&s->d->foreign, &bytes, sizeof bytes);
    s->p->counts.disk_bytes += bytes;
}

/* A file whose name is not that of its content would not be found under it. */
static bool is_named(const scan *s, const hd_kept_header *h, const char *path)
{
    char right[HD_KEPT_PATH];
    hd_kept_path(s->d, h->name, right);
    return strcmp(path, right) == 0;
}

static hd_status look_at(scan *s, const char *name, hd_error *err)
{
    char           path[HD_KEPT_PATH];
    hd_file_reader r;
    hd_kept_header h;
    int32_t        tokens[HD_CACHE_EDGE];
    int const      n = snprintf(path, sizeof path, "%s/%s", s->d->folder, name);
    if (n < 0 || (size_t)n >= sizeof path || hd_file_open(&r, path, NULL) != HD_OK) return HD_OK;
    hd_kept_origin origin = read_head(s, &r, &h, tokens);
    if (origin == HD_KEPT_OURS && !is_named(s, &h, path)) origin = HD_KEPT_BROKEN;
    int64_t const bytes = (int64_t)r.bytes;
    hd_file_close(&r);
    if (origin == HD_KEPT_OURS) return add_found(s, &h, tokens, err);
    if (origin == HD_KEPT_FOREIGN) {
        add_foreign(s, name, bytes);
        return HD_OK;
    }
    s->p->counts.n_damaged++;
    remove_named(s, name);
    return HD_OK;
}

/* ---- the tree ---- */

/* Pages before what hangs behind them. */
static int by_place(const void *a, const void *b)
{
    const hd_kept *const x = ((const found *)a)->k, *const y = ((const found *)b)->k;
    if (x->at != y->at) return x->at < y->at ? -1 : 1;
    return (int)x->is_state - (int)y->is_state;
}

static int by_name(const void *a, const void *b)
{
    return memcmp((*(hd_kept *const *)a)->name, (*(hd_kept *const *)b)->name, HD_SHA256_BYTES);
}

static int by_stamp(const void *a, const void *b)
{
    const hd_kept *const x = *(hd_kept *const *)a, *const y = *(hd_kept *const *)b;
    return x->stamp < y->stamp ? -1 : x->stamp > y->stamp;
}

static int name_of(const void *name, const void *k)
{
    return memcmp(name, (*(hd_kept *const *)k)->name, HD_SHA256_BYTES);
}

/* The page that a node stands behind; NULL when it is not there. */
static hd_kept *page_above(const scan *s, hd_kept *const *named, const found *f)
{
    hd_kept *const root = s->p->root;
    int32_t const  edge = f->k->at - f->k->n;
    if (memcmp(f->above, root->name, sizeof f->above) == 0) return edge == 0 ? root : NULL;
    hd_kept *const *const at = bsearch(f->above, named, (size_t)s->n, sizeof *named, name_of);
    return at && !(*at)->is_state && (*at)->above && (*at)->at == edge ? *at : NULL;
}

static void link_all(scan *s, hd_kept *const *named)
{
    for (int32_t i = 0; i < s->n; i++) {
        hd_kept *const k = s->all[i].k;
        k->above = page_above(s, named, &s->all[i]);
        if (k->above) {
            hd_prefix_link(s->p, k);
            continue;
        }
        hd_prefix_disk_remove(s->p, k); /* its name leads nowhere */
    }
}

/* Nodes that were not linked, and pages that lead to no state. */
static void prune(scan *s, hd_kept **left, int32_t *n_left)
{
    *n_left = 0;
    for (int32_t i = s->n - 1; i >= 0; i--) {
        hd_kept *const k = s->all[i].k;
        if (!k->above)
            hd_kept_free(k);
        else if (!k->is_state && !k->below)
            hd_prefix_drop(s->p, k);
        else if (k->is_state)
            left[(*n_left)++] = k;
        s->all[i].k = NULL;
    }
}

/* The order of use goes on as it was. */
static void order(scan *s, hd_kept **states, int32_t n)
{
    qsort(states, (size_t)n, sizeof *states, by_stamp);
    for (int32_t i = 0; i < n; i++) {
        if (states[i]->stamp > s->p->clock) s->p->clock = states[i]->stamp;
        hd_prefix_touch(s->p, states[i]);
    }
}

static hd_status build(scan *s, hd_error *err)
{
    int32_t         n_states;
    hd_kept **const list = hd_memory_alloc((size_t)s->n * sizeof *list);
    if (!list) HD_FAIL(err, HD_ERR_MEMORY, "%s: no memory for %d kept states", s->d->folder, s->n);
    for (int32_t i = 0; i < s->n; i++) list[i] = s->all[i].k;
    qsort(s->all, (size_t)s->n, sizeof *s->all, by_place);
    qsort(list, (size_t)s->n, sizeof *list, by_name);
    link_all(s, list);
    prune(s, list, &n_states);
    order(s, list, n_states);
    hd_memory_free(list);
    return HD_OK;
}

/* ---- the folder ---- */

/* What a process that was killed left half written. */
static hd_status remove_parts(scan *s, hd_error *err)
{
    int32_t n;
    HD_TRY(hd_file_list(&s->names, &n, s->d->folder, "", MOST_FILES, err));
    for (const char *name = s->names.data; n > 0; n--, name += strlen(name) + 1)
        if (strstr(name, ".kept.part-")) remove_named(s, name);
    hd_buffer_clear(&s->names);
    return HD_OK;
}

static hd_status read_folder(scan *s, hd_error *err)
{
    int32_t n;
    HD_TRY(remove_parts(s, err));
    HD_TRY(hd_file_list(&s->names, &n, s->d->folder, ".kept", MOST_FILES, err));
    s->all = hd_memory_alloc((size_t)n * sizeof *s->all);
    if (!s->all) HD_FAIL(err, HD_ERR_MEMORY, "%s: no memory for %d kept states", s->d->folder, n);
    for (const char *name = s->names.data; n > 0; n--, name += strlen(name) + 1)
        HD_TRY(look_at(s, name, err));
    if (s->d->foreign.failed) HD_FAIL(err, HD_ERR_MEMORY, "%s: no memory for names", s->d->folder);
    return build(s, err);
}

hd_status hd_prefix_scan(hd_prefix *p, hd_error *err)
{
    scan            s = {.p = p, .d = p->disk};
    hd_status const status = read_folder(&s, err);
    for (int32_t i = 0; i < s.n; i++) hd_kept_free(s.all[i].k);
    hd_memory_free(s.all);
    hd_buffer_free(&s.names);
    return status;
}
