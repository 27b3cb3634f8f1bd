/* The folder of kept prefixes: what is written there, and room in it. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "engine/prefix_disk.h"

/* ---- open and close ---- */

static hd_status hold_folder(hd_prefix_disk *d, const char *folder, hd_error *err)
{
    int const n = snprintf(d->folder, sizeof d->folder, "%s", folder);
    if (n < 0 || (size_t)n >= sizeof d->folder)
        HD_FAIL(err, HD_ERR_INVALID, "the folder of kept prompts has too long a path");
    HD_TRY(hd_folder_make(folder, err));
    return hd_folder_hold(&d->held, folder, err);
}

hd_status hd_prefix_disk_open(hd_prefix *p, const hd_prefix_options *opt, hd_error *err)
{
    hd_prefix_disk *const d = hd_memory_alloc(sizeof *d);
    if (!d) HD_FAIL(err, HD_ERR_MEMORY, "no memory for a folder of kept prompts");
    d->engine = p->engine;
    d->limit = opt->disk_bytes;
    d->held = -1;
    p->disk = d;
    HD_TRY(hold_folder(d, opt->folder, err));
    HD_TRY(hd_engine_identify(p->engine, err));
    hd_kept_root_name(p->engine, p->root->name);
    HD_TRY(hd_prefix_scan(p, err));
    return hd_prefix_writer_open(d, err);
}

void hd_prefix_disk_close(hd_prefix *p)
{
    hd_prefix_disk *const d = p->disk;
    if (!d) return;
    hd_prefix_writer_close(d);
    hd_folder_let_go(d->held);
    hd_buffer_free(&d->foreign);
    hd_memory_free(d);
    p->disk = NULL;
}

void hd_prefix_disk_name(const hd_prefix *p, hd_kept *k)
{
    (void)p;
    hd_kept_name(k->above->name, k->tokens, k->n, k->is_state, k->name);
}

/* ---- removing ---- */

static void warn(const hd_prefix *p, const hd_error *why)
{
    hd_log_print(&p->engine->log, HD_LOG_WARNING, "%s", why->message);
}

static void remove_file(const hd_prefix *p, const char *path)
{
    hd_error why = {0};
    if (hd_file_remove(path, &why) != HD_OK) warn(p, &why);
}

void hd_prefix_disk_remove(hd_prefix *p, hd_kept *k)
{
    char path[HD_KEPT_PATH];
    assert(k->file != HD_KEPT_QUEUED);
    if (k->file == HD_KEPT_UNWRITTEN) return;
    hd_kept_path(p->disk, k->name, path);
    remove_file(p, path);
    k->file = HD_KEPT_UNWRITTEN;
    p->counts.disk_bytes -= hd_kept_file_bytes(k);
    p->counts.disk_states -= k->is_state;
}

/* ---- room ---- */

/* Files that only another model can use go first.  The name is followed by the file's bytes. */
static bool remove_foreign(hd_prefix *p)
{
    hd_prefix_disk *const d = p->disk;
    char                  path[HD_KEPT_PATH];
    int64_t               bytes;
    if (d->gone_foreign >= d->foreign.used) return false;
    const char *const name = d->foreign.data + d->gone_foreign;
    size_t const      name_bytes = strlen(name) + 1;
    memcpy(&bytes, name + name_bytes, sizeof bytes);
    if (snprintf(path, sizeof path, "%s/%s", d->folder, name) < (int)sizeof path)
        remove_file(p, path);
    d->gone_foreign += name_bytes + sizeof bytes;
    p->counts.disk_bytes -= bytes;
    return true;
}

static bool can_give_way(const hd_prefix *p, const hd_kept *k)
{
    return k->file == HD_KEPT_WRITTEN && k->used != p->clock && (k->bytes || !k->below);
}

static void give_way(hd_prefix *p, hd_kept *k)
{
    hd_prefix_disk_remove(p, k);
    if (k->bytes) return;
    p->counts.n_evicted += k->is_state;
    hd_prefix_unlink(p, k);
}

static bool make_room(hd_prefix *p, int64_t bytes)
{
    int64_t const limit = p->disk->limit;
    while (p->counts.disk_bytes + bytes > limit && remove_foreign(p)) {
    }
    for (hd_kept *k = p->oldest, *newer; k && p->counts.disk_bytes + bytes > limit; k = newer) {
        newer = k->newer;
        if (can_give_way(p, k)) give_way(p, k);
    }
    return p->counts.disk_bytes + bytes <= limit;
}

/* ---- writing and reading ---- */

/* A node is of use only behind its page. */
static bool is_reachable(const hd_kept *k)
{
    return !k->above->above || k->above->file != HD_KEPT_UNWRITTEN;
}

void hd_prefix_disk_put(hd_prefix *p, hd_kept *k)
{
    int64_t const bytes = hd_kept_file_bytes(k);
    if (!is_reachable(k) || !make_room(p, bytes)) return;
    k->file = HD_KEPT_QUEUED;
    k->stamp = p->clock;
    p->counts.disk_bytes += bytes;
    hd_prefix_writer_add(p->disk, k);
}

static void take_written(hd_prefix *p, hd_kept *k)
{
    bool const is_kept = k->is_good && is_reachable(k);
    k->file = HD_KEPT_WRITTEN;
    p->counts.disk_states += k->is_state;
    if (!is_kept) hd_prefix_disk_remove(p, k);
}

void hd_prefix_disk_settle(hd_prefix *p, bool waits)
{
    hd_error why = {0};
    hd_kept *k = hd_prefix_writer_take(p->disk, waits, &why), *next;
    for (; k; k = next) {
        next = k->next;
        take_written(p, k);
    }
    if (why.code != HD_OK) warn(p, &why);
}

hd_status hd_prefix_disk_get(const hd_prefix *p, const hd_kept *k, uint8_t *bytes, hd_error *err)
{
    return hd_kept_read(p->disk, k, bytes, err);
}
