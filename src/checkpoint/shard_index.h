#ifndef HD_CHECKPOINT_SHARD_INDEX_H
#define HD_CHECKPOINT_SHARD_INDEX_H

#include "checkpoint/name_map.h"

/* model.safetensors.index.json: which tensor lies in which shard. */

HD_BEGIN_C

#define HD_MAX_SHARDS 10000

typedef struct hd_index_entry {
    const char *name;  /* owned by the pool */
    int32_t     shard; /* index of shards   */
} hd_index_entry;

typedef struct hd_shard_index {
    const char    **shards;  /* [n_shards] file names in one folder, sorted, each once */
    hd_index_entry *entries; /* [n_entries] */
    int32_t         n_shards, n_entries;
} hd_shard_index;

/* Parses the index; a shard name that could leave the folder is refused.
 * owns     everything in *out belongs to `pool`
 * returns  HD_ERR_FORMAT, HD_ERR_MEMORY; `what` names the file in messages */
hd_status hd_shard_index_parse(hd_shard_index *out, const char *json, size_t bytes,
                               const char *what, hd_pool *pool, hd_error *err);

HD_END_C
#endif
