#include <stdlib.h>
#include <string.h>

#include "checkpoint/names.h"
#include "checkpoint/safetensors.h"

/* Whatever was accepted must lie in the file, cover it, and be found under its name. */
static void check_file(const hd_st_file *f, const uint8_t *data, size_t size)
{
    const uint8_t *at = f->n_tensors ? f->tensors[0].data : data + size;
    for (int32_t i = 0; i < f->n_tensors; i++) {
        const hd_st_tensor *const t = f->tensors + i;
        char                      name[HD_NAME_MAX];
        size_t                    bytes;
        if (t->data != at || hd_st_find(f, t->name) != t) abort();
        if (!hd_st_tensor_bytes(t->dtype, t->rank, t->shape, &bytes) || bytes != t->bytes) abort();
        if (hd_name_official(name, sizeof name, t->name) && strlen(name) >= sizeof name) abort();
        at += bytes;
    }
    if (at != data + size) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    hd_st_file f = {0};
    hd_error   err = {0};
    if (hd_st_parse(&f, data, size, "fuzz", &err) == HD_OK)
        check_file(&f, data, size);
    else if (!err.message[0] || f.n_tensors)
        abort();
    hd_st_close(&f);
    return 0;
}
