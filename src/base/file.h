#ifndef HD_BASE_FILE_H
#define HD_BASE_FILE_H

#include "base/memory.h"

HD_BEGIN_C

/* A file mapped read-only. */
typedef struct hd_file {
    const uint8_t *data; /* owned mapping; NULL for an empty file */
    size_t         bytes;
} hd_file;

/* Maps `path`.  returns HD_ERR_IO naming the path and the system's reason. */
hd_status hd_file_map(hd_file *out, const char *path, hd_error *err);
void      hd_file_unmap(hd_file *f); /* a zeroed one is fine */

/* Reads a whole file of at most `max_bytes`; adds a NUL that *bytes does not count.
 * owns     *out belongs to `pool` */
hd_status hd_file_read(char **out, size_t *bytes, const char *path, size_t max_bytes, hd_pool *pool,
                       hd_error *err);
/* Makes operation number `n` from now (1 is the next) fail with EIO: each open, look at a file's
 * size, map, read, write, sync and rename is one.  0 switches it off.  For tests. */
void hd_file_fail_at(int64_t n);

bool hd_file_exists(const char *path);
bool hd_file_is_folder(const char *path);

/* Writes a file that appears whole or not at all: begin creates a temporary beside `path`,
 * commit renames it, abort (also after a failure) removes it. */
typedef struct hd_file_writer {
    int  fd; /* -1 when closed */
    char path[4096], temporary[4096 + 16];
} hd_file_writer;
hd_status hd_file_begin(hd_file_writer *w, const char *path, hd_error *err);
hd_status hd_file_put(hd_file_writer *w, const void *data, size_t bytes, hd_error *err);
hd_status hd_file_put_at(hd_file_writer *w, int64_t offset, const void *data, size_t bytes,
                         hd_error *err);
hd_status hd_file_commit(hd_file_writer *w, hd_error *err);
void      hd_file_abort(hd_file_writer *w);

HD_END_C
#endif
