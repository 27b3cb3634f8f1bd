#ifndef HD_ENGINE_PREFIX_H
#define HD_ENGINE_PREFIX_H

#include "base/digest.h"
#include "engine/engine.h"

/* Kept prefixes: the states of sequences at some of their tokens, so that a prompt which begins as
 * one did before need not be read again.
 *
 *   prefix.c        keeping and restoring, and room in memory
 *   prefix_tree.c   which tokens lead where
 *   prefix_disk.c   the folder: what stands there, room in it, reading
 *   prefix_file.c   one file: how it looks, and whether it is whole
 *   prefix_scan.c   from files to a tree, at open
 *   prefix_writer.c the thread that writes
 *
 * States hang in a tree.  A *page* is HD_CACHE_EDGE tokens behind another page, with the compressed
 * rows that they completed; what was shared is stored once.  A *state* is fewer tokens behind a
 * page, with their rows, and the rings behind the last of them: all that the next token looks at.
 * Nodes are found by their tokens themselves, never by a digest of them, and never change.
 *
 * A node's bytes are in memory, in a file, or both.  The node used longest ago gives way first; a
 * page counts as used when anything below it is, so what hangs below always goes before it.
 *
 * All of it belongs to one thread, but the writer, which reads nodes that are on their way into a
 * file: those stay as they are until it is done. */

HD_BEGIN_C

typedef enum hd_kept_file { HD_KEPT_UNWRITTEN, HD_KEPT_QUEUED, HD_KEPT_WRITTEN } hd_kept_file;

typedef struct hd_kept {
    struct hd_kept *above;         /* the page before; NULL: this is the root, which is empty */
    struct hd_kept *below;         /* the first node behind this page                         */
    struct hd_kept *beside;        /* the next one behind the same page                       */
    struct hd_kept *older, *newer; /* by use                                                  */
    struct hd_kept *next;          /* the writer's: in its queue, or among those it is done with */
    uint64_t        used;          /* clock of the last use                                   */
    uint64_t        stamp;         /* what its file says of it: clock of the use that wrote it */
    int32_t         at, n;         /* tokens up to its end; its own                           */
    bool            is_state;
    bool            is_good; /* the writer's: the file is whole */
    hd_kept_file    file;
    uint8_t        *bytes; /* [size] owned: rows, then a state's rings; NULL: in the file only */
    int64_t         size;
    uint8_t         name[HD_SHA256_BYTES]; /* of all tokens up to here and what read them */
    int32_t         tokens[];              /* [n] */
} hd_kept;

typedef struct hd_prefix_disk hd_prefix_disk;

typedef struct hd_prefix_counts {
    int64_t states, bytes;           /* in memory */
    int64_t disk_states, disk_bytes; /* in the folder */
    int64_t n_evicted, n_damaged;    /* states given up for room; files found broken */
} hd_prefix_counts;

typedef struct hd_prefix {
    hd_engine       *engine;
    int64_t          ram_limit; /* bytes */
    hd_kept         *root;      /* owned, with all below it */
    hd_kept         *oldest, *newest;
    uint64_t         clock;
    hd_prefix_counts counts;
    hd_prefix_disk  *disk; /* owned; NULL: memory only */
} hd_prefix;

typedef struct hd_prefix_options {
    int64_t     ram_bytes;  /* 0: none */
    const char *folder;     /* NULL: none */
    int64_t     disk_bytes; /* of the folder */
} hd_prefix_options;

/* returns  HD_ERR_MEMORY, HD_ERR_IO about the folder, also when another process has it */
hd_status hd_prefix_open(hd_prefix **out, hd_engine *e, const hd_prefix_options *opt,
                         hd_error *err);
/* Waits until what is to be written is. */
void hd_prefix_close(hd_prefix *p); /* NULL is fine */

/* The state that the most of tokens [n_max] lead to; NULL when there is none.
 * n_shared  tokens of them that stand in pages, with or without a state */
hd_kept *hd_prefix_find(const hd_prefix *p, const int32_t *tokens, int32_t n_max,
                        int32_t *n_shared);
/* Makes a session the sequence of a state; after a failure it is empty.
 * returns  HD_ERR_FORMAT or HD_ERR_IO when a file was damaged: it and what needs it are gone then,
 *          and another find is in order; HD_ERR_MEMORY, HD_ERR_DEVICE */
hd_status hd_prefix_restore(hd_prefix *p, hd_kept *state, hd_session *s, hd_error *err);
/* Keeps the state of a session behind its first n tokens, of which the last were in the pass that
 * just ran.  Where there is no room, or no memory, nothing is kept.
 * returns  HD_ERR_DEVICE */
hd_status hd_prefix_keep(hd_prefix *p, const hd_session *s, int32_t n, hd_error *err);
/* Takes over what the writer has done since. */
void hd_prefix_settle(hd_prefix *p);

/* ---- prefix_tree.c ---- */

/* A node behind page `above`, with its tokens, without bytes.
 * owns     the tree's, once it is linked; NULL when memory is short */
hd_kept *hd_kept_make(hd_kept *above, const int32_t *tokens, int32_t n, bool is_state);
void     hd_kept_free(hd_kept *k);
/* The node behind `above` with these tokens; NULL: none. */
hd_kept *hd_kept_find(const hd_kept *above, const int32_t *tokens, int32_t n, bool is_state);
void     hd_prefix_link(hd_prefix *p, hd_kept *k);
/* Takes a node that has nothing below it out of the tree and frees it. */
void hd_prefix_unlink(hd_prefix *p, hd_kept *k);
/* Marks a node and all pages above it as used now. */
void hd_prefix_touch(hd_prefix *p, hd_kept *k);

/* ---- prefix.c, for the folder ---- */

/* Bytes of a node's rows and rings. */
int64_t hd_kept_size(const hd_engine *e, int32_t at, int32_t n, bool is_state);
/* Takes a node and all below it out of the tree; the writer is idle. */
void hd_prefix_drop(hd_prefix *p, hd_kept *k);

/* ---- prefix_disk.c ---- */

hd_status hd_prefix_disk_open(hd_prefix *p, const hd_prefix_options *opt, hd_error *err);
void      hd_prefix_disk_close(hd_prefix *p);
/* Gives a new node its name. */
void hd_prefix_disk_name(const hd_prefix *p, hd_kept *k);
/* Has a node written, where there is room. */
void hd_prefix_disk_put(hd_prefix *p, hd_kept *k);
/* Reads a node's file.
 * bytes    [k->size] caller's
 * returns  HD_ERR_FORMAT, HD_ERR_IO */
hd_status hd_prefix_disk_get(const hd_prefix *p, const hd_kept *k, uint8_t *bytes, hd_error *err);
/* Removes a node's file, as far as the system lets it. */
void hd_prefix_disk_remove(hd_prefix *p, hd_kept *k);
/* What the writer has done; `waits`: until it has done all. */
void hd_prefix_disk_settle(hd_prefix *p, bool waits);

HD_END_C
#endif
