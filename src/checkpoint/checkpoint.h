#ifndef HD_CHECKPOINT_CHECKPOINT_H
#define HD_CHECKPOINT_CHECKPOINT_H

#include "base/log.h"
#include "checkpoint/config.h"
#include "checkpoint/fault.h"
#include "checkpoint/safetensors.h"

/* A model folder: its config and every tensor of its shards under its official name. */

HD_BEGIN_C

typedef struct hd_tensor {
    hd_st_tensor st;     /* st.name is what the file calls it, for messages   */
    const char  *name;   /* official; owned by the checkpoint                 */
    int32_t      shard;  /* for hd_checkpoint_file_name                       */
    int32_t      ticked; /* uses counted by the loader: each must end up at 1 */
} hd_tensor;

typedef struct hd_checkpoint hd_checkpoint;

/* Opens `folder` and reads all headers, no weights.  Shards are those of
 * model.safetensors.index.json, else model.safetensors, else every *.safetensors.  The index
 * only lists shards: tensors it omits are used too, tensors it invents are an error.
 * log      may be NULL
 * owns     *out is the caller's, closed by hd_checkpoint_close (NULL is fine)
 * returns  HD_ERR_IO, HD_ERR_FORMAT, HD_ERR_UNSUPPORTED, HD_ERR_MEMORY                   */
hd_status hd_checkpoint_open(hd_checkpoint **out, const char *folder, const hd_log *log,
                             hd_error *err);
/* Opens what can be opened of a folder and tells every fault: shards that cannot be read are
 * left out (as empty ones), of a tensor in two places the first stays, and without a readable
 * config.json the config is all zero.  What is not the folder's fault still fails.
 * on_fault NULL: as hd_checkpoint_open */
hd_status hd_checkpoint_survey(hd_checkpoint **out, const char *folder, hd_fault_fn *on_fault,
                               void *user, const hd_log *log, hd_error *err);
void      hd_checkpoint_close(hd_checkpoint *c);

const hd_config *hd_checkpoint_config(const hd_checkpoint *c);
const char      *hd_checkpoint_folder(const hd_checkpoint *c);
int32_t          hd_checkpoint_count(const hd_checkpoint *c); /* tensors */
/* Tensor 0 <= i < count, shard by shard in the order of their data. */
hd_tensor *hd_checkpoint_at(const hd_checkpoint *c, int32_t i);
/* Returns NULL when there is none.  The tensor is the checkpoint's; ticking it is not safe
 * from two threads. */
hd_tensor *hd_checkpoint_find(const hd_checkpoint *c, const char *official_name);
/* The tensors whose official name begins with `prefix`, by name, one a call; *at starts at -1.
 * Returns NULL behind the last one. */
hd_tensor  *hd_checkpoint_next(const hd_checkpoint *c, const char *prefix, int32_t *at);
int32_t     hd_checkpoint_shards(const hd_checkpoint *c);
const char *hd_checkpoint_file_name(const hd_checkpoint *c, int32_t shard); /* in the folder */
int64_t     hd_checkpoint_bytes(const hd_checkpoint *c); /* of all tensors, headers apart */

/* Lets go of the pages of all files; what is read again is mapped again.  Reading a page maps some
 * around it too, so whoever reads all once calls this now and then.  Any thread. */
void hd_checkpoint_release(const hd_checkpoint *c);

/* Frees names and tables once no tensor is to be looked up any more: there are none then, and
 * the data stays mapped.  Keeps what hd_checkpoint_digest reads.  returns  HD_ERR_MEMORY */
hd_status hd_checkpoint_settle(hd_checkpoint *c, hd_error *err);
/* Goes on with a digest over each tensor's name, dtype and shape and the 64 bytes in its middle,
 * where another fine-tune has others; of a settled checkpoint.  Reads a page of every tensor. */
uint64_t hd_checkpoint_digest(const hd_checkpoint *c, uint64_t digest);

HD_END_C
#endif
