#include "st_image.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

st_image st_image_make(const char *header, size_t data_bytes)
{
    size_t const   n = strlen(header);
    st_image       m = {malloc(8 + n + data_bytes), 8 + n + data_bytes};
    uint8_t *const data = m.data + 8 + n;
    assert_non_null(m.data);
    st_image_set_length(&m, n);
    memcpy(m.data + 8, header, n);
    for (size_t i = 0; i < data_bytes; i++) data[i] = (uint8_t)i;
    return m;
}

void st_image_set_length(st_image *m, uint64_t length)
{
    for (int i = 0; i < 8; i++) m->data[i] = (uint8_t)(length >> 8 * i);
}

void st_image_free(st_image *m) { free(m->data); }

void temp_folder_make(temp_folder *t)
{
    snprintf(t->path, sizeof t->path, "/tmp/hadal-test-XXXXXX");
    assert_non_null(mkdtemp(t->path));
}

void temp_folder_path(const temp_folder *t, const char *name, char *out, size_t cap)
{
    int const n = snprintf(out, cap, "%s/%s", t->path, name);
    assert_true(n > 0 && (size_t)n < cap);
}

void temp_folder_remove(temp_folder *t)
{
    DIR *const dir = opendir(t->path);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));) {
        char path[512];
        temp_folder_path(t, e->d_name, path, sizeof path);
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) unlink(path);
    }
    closedir(dir);
    assert_int_equal(rmdir(t->path), 0);
}

void temp_folder_write(const temp_folder *t, const char *name, const void *data, size_t bytes)
{
    char path[512];
    temp_folder_path(t, name, path, sizeof path);
    FILE *const f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
}

void temp_folder_write_text(const temp_folder *t, const char *name, const char *text)
{
    temp_folder_write(t, name, text, strlen(text));
}

void temp_folder_write_st(const temp_folder *t, const char *name, const char *header,
                          size_t data_bytes)
{
    st_image m = st_image_make(header, data_bytes);
    temp_folder_write(t, name, m.data, m.bytes);
    st_image_free(&m);
}

bool is_there(const char *path) { return access(path, F_OK) == 0; }

char *read_golden(const char *path, size_t *bytes)
{
    FILE *const f = fopen(path, "rb");
    if (!f) fail_msg("%s: cannot open; tests run in the repository's root", path);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    long const size = ftell(f);
    assert_true(size >= 0);
    char *const text = malloc((size_t)size + 1);
    assert_non_null(text);
    rewind(f);
    assert_int_equal(fread(text, 1, (size_t)size, f), (size_t)size);
    fclose(f);
    text[size] = 0;
    if (bytes) *bytes = (size_t)size;
    return text;
}
