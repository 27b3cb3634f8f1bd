#include <stdlib.h>
#include <string.h>

#include "checkpoint/shard_index.h"

/* No accepted shard name leaves its folder, and every entry has a shard. */
static void check_index(const hd_shard_index *x)
{
    for (int32_t i = 0; i < x->n_shards; i++)
        if (strchr(x->shards[i], '/') || x->shards[i][0] == '.') abort();
    for (int32_t i = 0; i < x->n_entries; i++)
        if (x->entries[i].shard < 0 || x->entries[i].shard >= x->n_shards) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    hd_pool        pool = {0};
    hd_shard_index x;
    hd_error       err = {0};
    if (hd_shard_index_parse(&x, (const char *)data, size, "fuzz", &pool, &err) == HD_OK)
        check_index(&x);
    else if (!err.message[0])
        abort();
    hd_pool_free(&pool);
    return 0;
}
