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
/* Of mapped bytes that are about to be read once, and that were: whoever reads a file larger
 * than memory says so, and holds only what is in between.  Both are hints; neither fails. */
void hd_file_expect(const void *data, size_t bytes);
void hd_file_release(const void *data, size_t bytes);

/* Reads a whole file of at most `max_bytes`; adds a NUL that *bytes does not count.
 * owns     *out belongs to `pool` */
hd_status hd_file_read(char **out, size_t *bytes, const char *path, size_t max_bytes, hd_pool *pool,
                       hd_error *err);
/* A file that is read from its beginning on, in pieces; its size is known. */
typedef struct hd_file_reader {
    int         fd;
    const char *path; /* borrowed */
    size_t      bytes;
} hd_file_reader;
hd_status hd_file_open(hd_file_reader *out, const char *path, hd_error *err);
/* The next bytes, all of them.  returns HD_ERR_IO, also when there are fewer */
hd_status hd_file_take(hd_file_reader *r, void *to, size_t bytes, hd_error *err);
void      hd_file_close(hd_file_reader *r);
/* Makes operation number `n` from now (1 is the next) fail with EIO: each open, look at a file's
 * size or existence, map, read, entry of a folder, write, sync, rename, removal and folder made is
 * one.  0 switches it off.  For tests. */
void hd_file_fail_at(int64_t n);

/* What stands at `path`.  returns HD_ERR_IO when the system cannot tell; that there is nothing
 * is an answer. */
typedef enum hd_file_kind { HD_FILE_NONE, HD_FILE_FOLDER, HD_FILE_OTHER } hd_file_kind;
hd_status hd_file_look(hd_file_kind *out, const char *path, hd_error *err);
/* Adds to `names` the names in `folder` with this ending, each with its NUL and none with a dot
 * in front, in the order of the system; stops behind `most`.
 * returns  HD_ERR_IO, HD_ERR_MEMORY; the message names the folder */
hd_status hd_file_list(hd_buffer *names, int32_t *n, const char *folder, const char *ending,
                       int32_t most, hd_error *err);

/* ---- folders that are filled ---- */

/* Makes a folder; one that is there is fine. */
hd_status hd_folder_make(const char *path, hd_error *err);
/* Gives a folder another name, at which nothing may stand. */
hd_status hd_folder_rename(const char *from, const char *to, hd_error *err);
/* Removes an empty folder, or a file; there may be none. */
hd_status hd_file_remove(const char *path, hd_error *err);
/* Keeps other processes from holding the same folder, until hd_folder_let_go or the process ends.
 * returns  HD_ERR_INVALID when one does, HD_ERR_IO */
hd_status hd_folder_hold(int *fd, const char *path, hd_error *err);
void      hd_folder_let_go(int fd); /* -1 is fine */
/* Bytes that may be written where `path` is. */
hd_status hd_folder_space(int64_t *bytes, const char *path, hd_error *err);

/* ---- files that are written ---- */

/* Writes a file that appears whole or not at all: begin creates a temporary beside `path`,
 * commit renames it, abort (also after a failure) removes it. */
typedef struct hd_file_writer {
    int  fd;    /* -1 when closed */
    int  place; /* in the list that hd_file_abandon goes through; -1: it was full */
    char path[4096], temporary[4096 + 16];
} hd_file_writer;
hd_status hd_file_begin(hd_file_writer *w, const char *path, hd_error *err);
hd_status hd_file_put(hd_file_writer *w, const void *data, size_t bytes, hd_error *err);
hd_status hd_file_put_at(hd_file_writer *w, int64_t offset, const void *data, size_t bytes,
                         hd_error *err);
hd_status hd_file_commit(hd_file_writer *w, hd_error *err);
void      hd_file_abort(hd_file_writer *w);
/* Removes the temporaries of all writers that are open, up to 16, for a program that is about to
 * end: nothing but system calls, so that a signal handler may call it. */
void hd_file_abandon(void);
/* All of that at once. */
hd_status hd_file_save(const char *path, const void *data, size_t bytes, hd_error *err);

HD_END_C
#endif
