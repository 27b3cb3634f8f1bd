#ifndef HD_OPS_CUDA_ATTN_WGMMA_LOAD_CUH
#define HD_OPS_CUDA_ATTN_WGMMA_LOAD_CUH

#include "attn_wgmma_keys.cuh"
#include "turn.cuh"

/* The warpgroup of attn_sparse_wgmma.cu that loads: keys of one token after another. */

static __device__ __forceinline__ int32_t hd_aw_rank(void)
{
    return (int32_t)blockIdx.x % HD_AW_PEERS;
}

/* Clusters that a token's heads need. */
static __host__ __device__ __forceinline__ int32_t hd_aw_clusters(int32_t h)
{
    return (h + HD_AW_PEERS * HD_AW_HEADS - 1) / (HD_AW_PEERS * HD_AW_HEADS);
}

/* An item is a token and the heads of a cluster; a cluster takes every hd_aw_step()-th. */
static __device__ __forceinline__ int32_t hd_aw_items(const hd_attn_sparse_args *a)
{
    return a->t * hd_aw_clusters(a->h);
}

static __device__ __forceinline__ int32_t hd_aw_step(void)
{
    return (int32_t)gridDim.x / HD_AW_PEERS;
}

/* The part of the block in an item.
 * p, seq  of its token */
static __device__ __forceinline__ hd_attn_task hd_aw_task_of(const hd_attn_sparse_args *a,
                                                             int32_t item, int32_t p, int32_t seq)
{
    int32_t const clusters = hd_aw_clusters(a->h);
    hd_attn_task  k = {};
    k.t = item / clusters;
    k.h0 = (item % clusters * HD_AW_PEERS + hd_aw_rank()) * HD_AW_HEADS;
    k.p = p;
    k.seq = seq;
    k.n_win = min(p + 1, a->window);
    k.end = k.n_win + (a->group <= 0 ? 0 : a->k > 0 ? a->k : (p + 1) / a->group);
    return k;
}

/* The thread, among those that load. */
static __device__ __forceinline__ int32_t hd_aw_loader(void) { return hd_thread() - HD_AW_ATTENDS; }

/* Brings queries and the list of an item nearer, into the second cache. */
static __device__ __forceinline__ void hd_aw_fetch_item(const hd_attn_sparse_args *a, int32_t item)
{
    int32_t const clusters = hd_aw_clusters(a->h), i = hd_aw_loader();
    int32_t const h0 = (item % clusters * HD_AW_PEERS + hd_aw_rank()) * HD_AW_HEADS;
    int64_t const t = item / clusters;
    int32_t const n = min(HD_AW_HEADS, a->h - h0) * HD_KEY_WIDTH;
    for (int32_t c = i * 32; c < n; c += HD_AW_LOADS * 32)
        hd_fetch_line(a->q + (t * a->h + h0) * HD_KEY_WIDTH + c);
    for (int32_t c = i * 32; a->group > 0 && c < a->k; c += HD_AW_LOADS * 32)
        hd_fetch_line(a->ids + t * a->k + c);
}

/* The turns of the block's n-th token, a thread one pair. */
static __device__ __forceinline__ void hd_aw_store_turns(const hd_attn_sparse_args *a, int32_t p,
                                                         float freq, int32_t n, hd_aw_shared *s)
{
    int32_t const i = hd_aw_loader();
    if (i >= a->dr / 2) return;
    hd_turn const back = hd_turn_back(hd_turn_of(p, freq));
    s->turn[n % HD_AW_TOKENS][i] = {back.cosine, back.sine};
}

/* ---- keys ---- */

#define HD_AW_RUN (32 / HD_AW_WARP_KEYS) /* tiles whose keys a warp looks up at once */

/* The list place of the key that this lane looks up in a run of tiles: lane 8 i + j has the warp's
 * key j of tile i. */
static __device__ __forceinline__ int32_t hd_aw_own(int32_t run)
{
    int32_t const i = hd_aw_loader(), tile = run * HD_AW_RUN + i % 32 / HD_AW_WARP_KEYS;
    return (tile * HD_AW_PEERS + hd_aw_rank()) * (HD_AW_KEYS / HD_AW_PEERS) +
           i / 32 * HD_AW_WARP_KEYS + i % HD_AW_WARP_KEYS;
}

/* By its list place and its row; what is no key has the token's own row, which is one. */
static __device__ __forceinline__ hd_aw_key hd_aw_place(const hd_attn_job *j, const hd_attn_task *k,
                                                        int32_t at, int32_t row)
{
    bool const         is_key = row >= 0;
    hd_key_place const place =
        hd_attn_place_key(j, k, is_key ? at : 0, is_key ? row : k->p % j->a.win_cap);
    return {place.data, (int32_t)(place.scales - place.data), is_key};
}

/* Brings a lane's key nearer, into the second cache. */
template <hd_row_format format>
static __device__ __forceinline__ void hd_aw_fetch(const hd_attn_job *j, const hd_aw_key &key)
{
    int32_t const bytes = hd_key_bytes<format>(&j->win);
    if (!key.is_key) return;
    for (int32_t at = 0; at < bytes; at += 128) hd_fetch_line(key.data + at);
    hd_fetch_line(key.data + bytes - 1);
    if (format != HD_ROW_BF16) hd_fetch_line(key.data + key.scales);
}

/* What is known of the keys ahead, a lane its own. */
typedef struct hd_aw_ahead {
    hd_aw_key key, next; /* of this run of tiles and of the one behind */
    int32_t   row;       /* of the one behind that                     */
} hd_aw_ahead;

template <hd_row_format format>
static __device__ __forceinline__ hd_aw_ahead hd_aw_look_up(const hd_attn_job  *j,
                                                            const hd_attn_task *k)
{
    int32_t const   row = hd_attn_find_row(j, k, hd_aw_own(0));
    int32_t const   next = hd_attn_find_row(j, k, hd_aw_own(1));
    hd_aw_key const key = hd_aw_place(j, k, hd_aw_own(0), row);
    hd_aw_fetch<format>(j, key);
    return {key, key, next};
}

/* Of a run that begins. */
template <hd_row_format format>
static __device__ __forceinline__ void hd_aw_look_ahead(const hd_attn_job *j, const hd_attn_task *k,
                                                        int32_t run, hd_aw_ahead &ahead)
{
    ahead.next = hd_aw_place(j, k, hd_aw_own(run + 1), ahead.row);
    hd_aw_fetch<format>(j, ahead.next);
    ahead.row = hd_attn_find_row(j, k, hd_aw_own(run + 2));
}

/* From an address in this block to that of the same place in the other. */
static __device__ __forceinline__ uint32_t hd_aw_peer(const hd_aw_shared *s)
{
    return hd_cluster_address(s, (uint32_t)hd_aw_rank() ^ 1) - hd_shared_address(s);
}

/* Where a block is: what its warps count alike. */
typedef struct hd_aw_turn {
    uint32_t peer;
    int32_t  n;    /* tokens before */
    int32_t  made; /* tiles before  */
} hd_aw_turn;

/* What is loaded next: the token's keys, and the token behind it. */
typedef struct hd_aw_walk {
    hd_attn_task k;
    hd_aw_ahead  ahead;
    int32_t      item, p, seq; /* of the token behind */
    float        freq;         /* of the thread's pair */
} hd_aw_walk;

/* Begins with the token behind: its keys become those of the run that comes next. */
template <hd_row_format format>
static __device__ __forceinline__ void hd_aw_begin(const hd_attn_job *j, hd_aw_walk *w)
{
    w->k = hd_aw_task_of(&j->a, w->item, w->p, w->seq);
    hd_aw_ahead const first = hd_aw_look_up<format>(j, &w->k);
    w->ahead.next = first.key;
    w->ahead.row = first.row;
}

/* Looks for the token behind one that begins. */
static __device__ __forceinline__ void hd_aw_look_behind(const hd_attn_sparse_args *a,
                                                         hd_aw_walk                *w)
{
    int32_t const clusters = hd_aw_clusters(a->h);
    w->item += hd_aw_step();
    if (w->item >= hd_aw_items(a)) return;
    w->p = a->pos[w->item / clusters];
    w->seq = a->seq[w->item / clusters];
    hd_aw_fetch_item(a, w->item);
}

/* A token's keys, of which the first are on their way; leaves those of the token behind so.  Keys
 * are looked up two runs ahead, brought to the second cache one ahead, and to registers a tile
 * ahead. */
template <hd_row_format format, bool is_wide>
static __device__ __forceinline__ void hd_aw_load_keys(const hd_attn_job *j, hd_aw_walk *w,
                                                       hd_aw_shared *s, hd_aw_turn *turn,
                                                       hd_aw_bits<format> &bits)
{
    constexpr int keys = hd_aw_bits<format>::keys, batches = HD_AW_WARP_KEYS / keys;
    int32_t const tiles = (w->k.end + HD_AW_KEYS - 1) / HD_AW_KEYS;
    int32_t const line0 = hd_aw_rank() * (HD_AW_KEYS / HD_AW_PEERS);
    int32_t const line = line0 + hd_aw_loader() / 32 * HD_AW_WARP_KEYS, p = w->k.p;
    for (int32_t i = 0; i < tiles; i++, turn->made++) {
        int32_t const  slot = turn->made % HD_AW_SLOTS, own = i % HD_AW_RUN * HD_AW_WARP_KEYS;
        uint32_t const is_key = __ballot_sync(0xffffffffu, w->ahead.key.is_key) >> own;
        bool const     is_last = i + 1 == tiles;
        if (is_last && w->item < hd_aw_items(&j->a))
            hd_aw_begin<format>(j, w);
        else if (i % HD_AW_RUN == 0 && i + HD_AW_RUN < tiles)
            hd_aw_look_ahead<format>(j, &w->k, i / HD_AW_RUN, w->ahead);
        hd_barrier_wait(&s->empty[slot], (uint32_t)(turn->made / HD_AW_SLOTS + 1) % 2);
        if (i == 0) hd_aw_store_turns(&j->a, p, w->freq, turn->n, s);
#pragma unroll
        for (int b = 0; b < batches; b++) {
            bool const    ends = is_last && b + 1 == batches;
            int32_t const then = ends ? 0 : (own + (b + 1) * keys) % 32;
            if (then == 0) w->ahead.key = w->ahead.next;
            hd_aw_lines const to = {s->keys[slot], s->key[slot], line + b * keys,
                                    is_key >> (b * keys)};
            hd_aw_store<format, is_wide>(j, bits, to, w->ahead.key, then);
        }
        hd_wgmma_publish();
        hd_aw_meet_loaders();
        if (hd_thread() % 32 == 0) hd_aw_give(s, slot, hd_aw_loader() / 32, line0, turn->peer);
    }
}

/* ---- all tokens of a block ---- */

template <hd_row_format format, bool is_wide>
static __device__ __forceinline__ void hd_aw_load_all(const hd_attn_job *j, hd_aw_shared *s)
{
    const hd_attn_sparse_args *const a = &j->a;
    int32_t const items = hd_aw_items(a), first = (int32_t)blockIdx.x / HD_AW_PEERS;
    int32_t const t = first / hd_aw_clusters(a->h);
    hd_aw_turn    turn = {hd_aw_peer(s), 0, 0};
    hd_aw_walk    w = {.item = first, .p = a->pos[t], .seq = a->seq[t]};
    if (hd_aw_loader() < a->dr / 2) w.freq = a->freq[hd_aw_loader()];
    hd_aw_bits<format> bits;
    hd_aw_begin<format>(j, &w);
    w.ahead.key = w.ahead.next;
    hd_aw_load<format, is_wide>(j, w.ahead.key, 0, bits);
    for (int32_t item = first; item < items; item += hd_aw_step(), turn.n++) {
        hd_aw_look_behind(a, &w);
        hd_aw_load_keys<format, is_wide>(j, &w, s, &turn, bits);
    }
}

#endif
