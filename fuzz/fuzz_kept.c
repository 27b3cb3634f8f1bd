/* Files of kept prefixes: any bytes, and any bytes under a right name and checksum, are a state or
 * are removed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cached_engine.h"
#include "engine/prefix_disk.h"

#define LARGEST (1 << 17)

static char           folder[] = "/tmp/hadal-fuzz-XXXXXX";
static hd_prefix_disk names; /* for paths only */

static void remove_folder(void) { rmdir(folder); }

static void open_folder(void)
{
    open_engine();
    if (!mkdtemp(folder)) abort();
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
    if (!engine.kv.base) open_folder();
    if (size > LARGEST) return 0;
    try_bytes(data, size);
    if (size < sizeof(hd_kept_header)) return 0;
    memcpy(right, data, size);
    mend(right, size);
    try_bytes(right, size);
    return 0;
}
