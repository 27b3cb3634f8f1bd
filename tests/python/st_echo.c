/* Reads safetensors files as the library does, for a comparison with the reference reader.
 *   st_echo copy IN OUT      writes the tensors of IN to OUT
 *   st_echo check FILE ...   prints a line for each: the status, then the message */
#include <stdio.h>
#include <string.h>

#include "checkpoint/safetensors_write.h"

static hd_status copy_tensors(hd_st_writer *w, const hd_st_file *f, hd_error *err)
{
    for (int32_t i = f->n_tensors - 1; i >= 0; i--)
        HD_TRY(hd_st_writer_put(w, i, f->tensors[i].data, f->tensors[i].bytes, err));
    return HD_OK;
}

static hd_status copy_file(const hd_st_file *f, const char *to, hd_error *err)
{
    hd_st_layout const layout = {f->tensors, f->n_tensors, f->n_meta, f->meta};
    hd_st_writer       w;
    HD_TRY(hd_st_writer_begin(&w, to, &layout, err));
    hd_status const s = copy_tensors(&w, f, err);
    if (s == HD_OK) return hd_st_writer_commit(&w, err);
    hd_st_writer_abort(&w);
    return s;
}

static int check_files(int n, char **paths)
{
    for (int i = 0; i < n; i++) {
        hd_st_file      f = {0};
        hd_error        err = {0};
        hd_status const s = hd_st_open(&f, paths[i], &err);
        printf("%s %s\n", hd_status_name(s), err.message);
        hd_st_close(&f);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "check") == 0) return check_files(argc - 2, argv + 2);
    if (argc != 4 || strcmp(argv[1], "copy") != 0) return 2;
    hd_st_file f = {0};
    hd_error   err = {0};
    hd_status  s = hd_st_open(&f, argv[2], &err);
    if (s == HD_OK) s = copy_file(&f, argv[3], &err);
    hd_st_close(&f);
    if (s != HD_OK) fprintf(stderr, "%s\n", err.message);
    return s != HD_OK;
}
