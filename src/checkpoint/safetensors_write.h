#ifndef HD_CHECKPOINT_SAFETENSORS_WRITE_H
#define HD_CHECKPOINT_SAFETENSORS_WRITE_H

#include "checkpoint/safetensors.h"

/* Writes a safetensors file whose tensors are known before their data.  The file appears at
 * commit, whole, or never. */

HD_BEGIN_C

typedef struct hd_st_writer {
    hd_file_writer file;
    struct hd_st_slot {
        int64_t offset;         /* in the file */
        size_t  bytes, written; /* in all; so far */
    } * slots;                  /* [n_slots] owned by pool */
    int32_t n_slots;
    hd_pool pool;
} hd_st_writer;

typedef struct hd_st_layout {
    const hd_st_tensor *tensors; /* [n_tensors] `data` and `bytes` of each are ignored */
    int32_t             n_tensors;
    int32_t             n_meta;
    const hd_st_meta   *meta; /* [n_meta] strings of __metadata__; NULL when n_meta is 0 */
} hd_st_layout;

/* Starts `path` and writes its header, tensors in the order given.  The layout may go once
 * this returns.
 * owns     on success *w is closed by hd_st_writer_commit or _abort; on failure it is closed
 * returns  HD_ERR_INVALID (name twice or not UTF-8, shape), HD_ERR_LIMIT (header too long),
 *          HD_ERR_IO, HD_ERR_MEMORY                                                        */
hd_status hd_st_writer_begin(hd_st_writer *w, const char *path, const hd_st_layout *layout,
                             hd_error *err);
/* Writes the data of tensor i, in any order, each once.
 * returns  HD_ERR_INVALID when `bytes` is not its size or it was written before */
hd_status hd_st_writer_put(hd_st_writer *w, int32_t i, const void *data, size_t bytes,
                           hd_error *err);
/* Writes bytes [at, at + bytes) of tensor i; its parts may come in any order, each once, and two
 * threads may write different tensors.
 * returns  HD_ERR_INVALID when they do not lie in it or more came than it has */
hd_status hd_st_writer_put_part(hd_st_writer *w, int32_t i, size_t at, const void *data,
                                size_t bytes, hd_error *err);
/* Closes the file; HD_ERR_INVALID (and no file) when a tensor was not written. */
hd_status hd_st_writer_commit(hd_st_writer *w, hd_error *err);
void      hd_st_writer_abort(hd_st_writer *w); /* a zeroed or committed one is fine */

HD_END_C
#endif
