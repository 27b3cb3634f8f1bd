#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static atomic_llong count;
static atomic_llong fail_at; /* operation number that fails; 0: none */

void hd_file_fail_at(int64_t n) { atomic_store(&fail_at, n > 0 ? atomic_load(&count) + n : 0); }

/* Stands before each operation: false when this one is to fail. */
static bool may(void)
{
    long long const now = atomic_fetch_add(&count, 1) + 1;
    if (now != atomic_load(&fail_at)) return true;
    errno = EIO;
    return false;
}

/* Opens a regular file for reading; anything else (a folder, a device that never ends) is an
 * error of its own. */
static hd_status open_regular(int *fd, size_t *bytes, const char *path, hd_error *err)
{
    *fd = may() ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (*fd < 0) HD_FAIL(err, HD_ERR_IO, "%s: %s", path, strerror(errno));
    struct stat st;
    int const   bad = !may() || fstat(*fd, &st) != 0;
    if (bad || !S_ISREG(st.st_mode)) {
        hd_error_set(err, HD_ERR_IO, -1, "%s: %s", path,
                     bad ? strerror(errno) : "not a regular file");
        close(*fd);
        return HD_ERR_IO;
    }
    *bytes = (size_t)st.st_size;
    return HD_OK;
}

hd_status hd_file_map(hd_file *out, const char *path, hd_error *err)
{
    int    fd = -1;
    size_t bytes = 0;
    HD_TRY(open_regular(&fd, &bytes, path, err));
    void *data = NULL;
    if (bytes) data = may() ? mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    int const why = errno;
    close(fd);
    if (data == MAP_FAILED) HD_FAIL(err, HD_ERR_IO, "%s: cannot map: %s", path, strerror(why));
    *out = (hd_file){data, bytes};
    return HD_OK;
}

void hd_file_unmap(hd_file *f)
{
    if (f->data) munmap((void *)(uintptr_t)f->data, f->bytes);
    *f = (hd_file){0};
}

/* Whole pages, also those shared with neighbours: they are read again from the cache. */
static void advise(const void *data, size_t bytes, int advice)
{
    uintptr_t const page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t const begin = (uintptr_t)data / page * page;
    if (bytes) (void)madvise((void *)begin, (uintptr_t)data + bytes - begin, advice);
}

void hd_file_expect(const void *data, size_t bytes) { advise(data, bytes, MADV_WILLNEED); }

void hd_file_release(const void *data, size_t bytes) { advise(data, bytes, MADV_DONTNEED); }

static hd_status read_all(int fd, char *to, size_t bytes, const char *path, hd_error *err)
{
    for (size_t got = 0; got < bytes;) {
        ssize_t const n = may() ? read(fd, to + got, bytes - got) : -1;
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
            HD_FAIL(err, HD_ERR_IO, "%s: read %zu of %zu bytes: %s", path, got, bytes,
                    n < 0 ? strerror(errno) : "the file became shorter");
        got += (size_t)n;
    }
    return HD_OK;
}

hd_status hd_file_read(char **out, size_t *bytes, const char *path, size_t max_bytes, hd_pool *pool,
                       hd_error *err)
{
    int    fd = -1;
    size_t size = 0;
    HD_TRY(open_regular(&fd, &size, path, err));
    hd_status s = HD_OK;
    char     *data = NULL;
    if (size > max_bytes)
        s = hd_error_set(err, HD_ERR_FORMAT, -1, "%s: %zu bytes, at most %zu are read", path, size,
                         max_bytes);
    else if (!(data = hd_pool_alloc(pool, size + 1)))
        s = hd_error_set(err, HD_ERR_MEMORY, -1, "%s: no memory for %zu bytes", path, size);
    else
        s = read_all(fd, data, size, path, err);
    close(fd);
    HD_TRY(s);
    *out = data;
    *bytes = size;
    return HD_OK;
}

hd_status hd_file_open(hd_file_reader *out, const char *path, hd_error *err)
{
    out->path = path;
    return open_regular(&out->fd, &out->bytes, path, err);
}

hd_status hd_file_take(hd_file_reader *r, void *to, size_t bytes, hd_error *err)
{
    return read_all(r->fd, to, bytes, r->path, err);
}

void hd_file_close(hd_file_reader *r) { close(r->fd); }

hd_status hd_file_look(hd_file_kind *out, const char *path, hd_error *err)
{
    struct stat st;
    if (may() && stat(path, &st) == 0)
        *out = S_ISDIR(st.st_mode) ? HD_FILE_FOLDER : HD_FILE_OTHER;
    else if (errno == ENOENT || errno == ENOTDIR)
        *out = HD_FILE_NONE;
    else
        HD_FAIL(err, HD_ERR_IO, "%s: %s", path, strerror(errno));
    return HD_OK;
}

static bool has_ending(const char *name, const char *ending)
{
    size_t const n = strlen(name), e = strlen(ending);
    return name[0] != '.' && n > e && strcmp(name + n - e, ending) == 0;
}

/* The next entry; NULL at the end, and with errno when the system fails. */
static const struct dirent *next_entry(DIR *dir)
{
    errno = 0;
    return may() ? readdir(dir) : NULL;
}

hd_status hd_file_list(hd_buffer *names, int32_t *n, const char *folder, const char *ending,
                       int32_t most, hd_error *err)
{
    DIR *const dir = may() ? opendir(folder) : NULL;
    if (!dir) HD_FAIL(err, HD_ERR_IO, "%s: %s", folder, strerror(errno));
    *n = 0;
    const struct dirent *e = next_entry(dir);
    for (; e && *n < most; e = next_entry(dir)) {
        if (!has_ending(e->d_name, ending)) continue;
        hd_buffer_add(names, e->d_name, strlen(e->d_name) + 1);
        ++*n;
    }
    int const why = e ? 0 : errno;
    closedir(dir);
    if (why) HD_FAIL(err, HD_ERR_IO, "%s: %s", folder, strerror(why));
    if (names->failed) HD_FAIL(err, HD_ERR_MEMORY, "%s: no memory for its file names", folder);
    return HD_OK;
}

/* ---- folders that are filled ---- */

hd_status hd_folder_make(const char *path, hd_error *err)
{
    hd_file_kind found;
    if (may() && mkdir(path, 0777) == 0) return HD_OK;
    int const why = errno;
    if (why == EEXIST && hd_file_look(&found, path, err) == HD_OK && found == HD_FILE_FOLDER)
        return HD_OK;
    HD_FAIL(err, HD_ERR_IO, "%s: cannot make this folder: %s", path, strerror(why));
}

/* A file system that cannot refuse by itself is asked before. */
static bool rename_to_free(const char *from, const char *to)
{
    struct stat st;
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) return true;
    if (errno != EINVAL && errno != ENOSYS) return false;
    if (lstat(to, &st) != 0) return rename(from, to) == 0;
    errno = EEXIST;
    return false;
}

hd_status hd_folder_rename(const char *from, const char *to, hd_error *err)
{
    if (may() && rename_to_free(from, to)) return HD_OK;
    HD_FAIL(err, HD_ERR_IO, "%s: cannot become %s: %s", from, to, strerror(errno));
}

hd_status hd_file_remove(const char *path, hd_error *err)
{
    if (may() && (remove(path) == 0 || errno == ENOENT)) return HD_OK;
    HD_FAIL(err, HD_ERR_IO, "%s: cannot be removed: %s", path, strerror(errno));
}

hd_status hd_folder_hold(int *fd, const char *path, hd_error *err)
{
    *fd = may() ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (*fd < 0) HD_FAIL(err, HD_ERR_IO, "%s: %s", path, strerror(errno));
    if (flock(*fd, LOCK_EX | LOCK_NB) == 0) return HD_OK;
    int const why = errno;
    hd_folder_let_go(*fd);
    *fd = -1;
    if (why == EWOULDBLOCK)
        HD_FAIL(err, HD_ERR_INVALID, "%s: another process is at work there", path);
    HD_FAIL(err, HD_ERR_IO, "%s: cannot be held: %s", path, strerror(why));
}

void hd_folder_let_go(int fd)
{
    if (fd >= 0) close(fd);
}

hd_status hd_folder_space(int64_t *bytes, const char *path, hd_error *err)
{
    struct statvfs s;
    if (!may() || statvfs(path, &s) != 0) HD_FAIL(err, HD_ERR_IO, "%s: %s", path, strerror(errno));
    *bytes = s.f_bavail > (uint64_t)INT64_MAX / s.f_frsize ? INT64_MAX
                                                           : (int64_t)(s.f_bavail * s.f_frsize);
    return HD_OK;
}

/* ---- files that are written ---- */

/* ---- temporaries of open writers ---- */

#define MAX_OPEN 16
typedef enum place_state { PLACE_FREE, PLACE_TAKEN, PLACE_OPEN } place_state;
/* Paths are copied, for the writers lie wherever their owners put them. */
static struct {
    atomic_int state; /* PLACE_OPEN: the path is whole, and its file may be removed */
    char       path[sizeof((hd_file_writer *)0)->temporary];
} open_files[MAX_OPEN];

static int note_open(const char *path)
{
    for (int i = 0; i < MAX_OPEN; i++) {
        int is = PLACE_FREE;
        if (!atomic_compare_exchange_strong(&open_files[i].state, &is, PLACE_TAKEN)) continue;
        snprintf(open_files[i].path, sizeof open_files[i].path, "%s", path);
        atomic_store(&open_files[i].state, PLACE_OPEN);
        return i;
    }
    return -1;
}

static void forget_open(const hd_file_writer *w)
{
    if (w->place >= 0) atomic_store(&open_files[w->place].state, PLACE_FREE);
}

void hd_file_abandon(void)
{
    for (int i = 0; i < MAX_OPEN; i++)
        if (atomic_load(&open_files[i].state) == PLACE_OPEN) unlink(open_files[i].path);
}

hd_status hd_file_begin(hd_file_writer *w, const char *path, hd_error *err)
{
    w->fd = -1;
    int const n = snprintf(w->path, sizeof w->path, "%s", path);
    if (n < 0 || (size_t)n >= sizeof w->path)
        HD_FAIL(err, HD_ERR_INVALID, "output path is too long");
    snprintf(w->temporary, sizeof w->temporary, "%s.part-%ld", path, (long)getpid());
    w->fd = may() ? open(w->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666) : -1;
    if (w->fd < 0) HD_FAIL(err, HD_ERR_IO, "%s: cannot create: %s", w->temporary, strerror(errno));
    w->place = note_open(w->temporary);
    return HD_OK;
}

static hd_status put_failed(const hd_file_writer *w, hd_error *err)
{
    HD_FAIL(err, HD_ERR_IO, "%s: write failed: %s", w->path, strerror(errno));
}

hd_status hd_file_put(hd_file_writer *w, const void *data, size_t bytes, hd_error *err)
{
    for (const char *p = data; bytes;) {
        ssize_t const n = may() ? write(w->fd, p, bytes) : -1;
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return put_failed(w, err);
        p += n;
        bytes -= (size_t)n;
    }
    return HD_OK;
}

hd_status hd_file_put_at(hd_file_writer *w, int64_t offset, const void *data, size_t bytes,
                         hd_error *err)
{
    for (const char *p = data; bytes;) {
        ssize_t const n = may() ? pwrite(w->fd, p, bytes, (off_t)offset) : -1;
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return put_failed(w, err);
        p += n;
        offset += n;
        bytes -= (size_t)n;
    }
    return HD_OK;
}

hd_status hd_file_commit(hd_file_writer *w, hd_error *err)
{
    bool const synced = may() && fsync(w->fd) == 0;
    bool const closed = close(w->fd) == 0;
    w->fd = -1;
    if (synced && closed && may() && rename(w->temporary, w->path) == 0) {
        forget_open(w);
        return HD_OK;
    }
    hd_status const s = put_failed(w, err);
    unlink(w->temporary);
    forget_open(w);
    return s;
}

void hd_file_abort(hd_file_writer *w)
{
    if (w->fd < 0) return;
    close(w->fd);
    w->fd = -1;
    unlink(w->temporary);
    forget_open(w);
}

hd_status hd_file_save(const char *path, const void *data, size_t bytes, hd_error *err)
{
    hd_file_writer w;
    HD_TRY(hd_file_begin(&w, path, err));
    hd_status s = hd_file_put(&w, data, bytes, err);
    if (s == HD_OK) s = hd_file_commit(&w, err);
    if (s != HD_OK) hd_file_abort(&w);
    return s;
}
