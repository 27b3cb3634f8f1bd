#ifndef HD_ENGINE_PREFIX_DISK_H
#define HD_ENGINE_PREFIX_DISK_H

#include "base/file.h"
#include "engine/prefix.h"

/* The folder of kept prefixes from inside.  A file is a node: NAME.kept, where NAME is the SHA-256
 * of the page before and the node's tokens, and that of the first ones is of all that says how
 * tokens become state: model, activations, rows.
 *
 *   header    136 bytes, below
 *   tokens    [n] int32
 *   payload   rows of these tokens layer by layer, then a state's rings, as kv/cache.h lists them
 *
 * Everything is little endian; nothing depends on context or chunk. */

HD_BEGIN_C

typedef struct hd_kept_header {
    char     magic[8];
    uint32_t version;
    uint32_t bytes;   /* of this header         */
    uint64_t model;   /* digest of what was run */
    uint32_t act, kv; /* hd_act, hd_kv          */
    uint8_t  name[HD_SHA256_BYTES], above[HD_SHA256_BYTES];
    int32_t  at, n;
    uint32_t is_state, has_mtp;
    uint64_t stamp;   /* rises with each use that wrote */
    uint64_t payload; /* bytes behind the tokens        */
    uint64_t digest;  /* hd_digest_run of what is in front of it, tokens, payload */
} hd_kept_header;

typedef enum hd_kept_origin {
    HD_KEPT_OURS,
    HD_KEPT_FOREIGN, /* of another model, other options or another version */
    HD_KEPT_BROKEN
} hd_kept_origin;

struct hd_prefix_disk {
    const hd_engine *engine; /* identified */
    char             folder[4096];
    int              held; /* owned; -1: none */
    int64_t          limit;
    hd_buffer        foreign; /* names with a NUL each, the first gone_foreign bytes are gone */
    size_t           gone_foreign;

    pthread_t       thread;
    pthread_mutex_t mutex; /* over what follows */
    pthread_cond_t  changed;
    bool            has_mutex, has_changed, has_thread;
    bool            is_stopping, is_writing;
    hd_kept        *queue, *queue_end; /* to be written */
    hd_kept        *done, *done_end;
    hd_error        error; /* of the last file that could not be written */
};

/* ---- prefix_file.c ---- */

/* Room for folder, name and ending. */
#define HD_KEPT_PATH (4096 + 2 * HD_SHA256_BYTES + 16)
void hd_kept_path(const hd_prefix_disk *d, const uint8_t name[HD_SHA256_BYTES],
                  char out[HD_KEPT_PATH]);
/* The name of no tokens. */
void    hd_kept_root_name(const hd_engine *e, uint8_t out[HD_SHA256_BYTES]);
void    hd_kept_name(const uint8_t above[HD_SHA256_BYTES], const int32_t *tokens, int32_t n,
                     bool is_state, uint8_t out[HD_SHA256_BYTES]);
int64_t hd_kept_file_bytes(const hd_kept *k);
/* Reads only what does not change while a node is in the writer's queue. */
hd_status hd_kept_write(const hd_prefix_disk *d, const hd_kept *k, hd_error *err);
/* Whether a file of so many bytes with this header can be ours, but for its tokens and payload. */
hd_kept_origin hd_kept_judge(const hd_engine *e, const hd_kept_header *h, int64_t file_bytes);
/* Whether these are the tokens of the header's name. */
bool hd_kept_has_tokens(const hd_engine *e, const hd_kept_header *h, const int32_t *tokens);
/* Reads the payload of a node.
 * bytes    [k->size] caller's; anything after a failure
 * returns  HD_ERR_FORMAT when the file is not what was written, HD_ERR_IO */
hd_status hd_kept_read(const hd_prefix_disk *d, const hd_kept *k, uint8_t *bytes, hd_error *err);

/* ---- prefix_scan.c ---- */

/* Makes the tree of what stands in the folder; what is broken or leads nowhere is removed. */
hd_status hd_prefix_scan(hd_prefix *p, hd_error *err);

/* ---- prefix_writer.c ---- */

hd_status hd_prefix_writer_open(hd_prefix_disk *d, hd_error *err);
/* Writes what is in the queue first. */
void hd_prefix_writer_close(hd_prefix_disk *d);
void hd_prefix_writer_add(hd_prefix_disk *d, hd_kept *k);
/* What was written since the last call, in the order of adding, linked by `next`.
 * why      the last failure, if there was any; its code is HD_OK else */
hd_kept *hd_prefix_writer_take(hd_prefix_disk *d, bool waits, hd_error *why);

HD_END_C
#endif
