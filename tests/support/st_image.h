#ifndef HD_SUPPORT_ST_IMAGE_H
#define HD_SUPPORT_ST_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Safetensors files for tests, good and hostile, and folders that hold them. */

typedef struct st_image {
    uint8_t *data; /* owned, exactly `bytes` long, so that a sanitizer sees a read past it */
    size_t   bytes;
} st_image;

/* Length, header text, then `data_bytes` bytes 0, 1, 2, ... */
st_image st_image_make(const char *header, size_t data_bytes);
void     st_image_set_length(st_image *m, uint64_t length); /* of the header, as written */
void     st_image_free(st_image *m);

typedef struct temp_folder {
    char path[64];
} temp_folder;

void temp_folder_make(temp_folder *t);
void temp_folder_remove(temp_folder *t); /* with its files */
void temp_folder_path(const temp_folder *t, const char *name, char *out, size_t cap);
void temp_folder_write(const temp_folder *t, const char *name, const void *data, size_t bytes);
void temp_folder_write_text(const temp_folder *t, const char *name, const char *text);
/* A safetensors file as st_image_make makes it. */
void temp_folder_write_st(const temp_folder *t, const char *name, const char *header,
                          size_t data_bytes);

bool is_there(const char *path); /* a file or a folder of this name */

/* A whole file with a NUL behind it; owned by the caller, freed with free(). */
char *read_golden(const char *path, size_t *bytes);

#endif
