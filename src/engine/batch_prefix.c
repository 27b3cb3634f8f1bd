/* Which states a batch keeps, and who waits for one.
 *
 * A prompt is looked up when its request starts.  Kept are the states from which a later prompt is
 * likely to go on:
 *
 *   - behind its last token but one: the same prompt again has only the last one to read, and a
 *     template that changes what stands behind the start of the answer leaves this much;
 *   - where the last question of the user begins, for another question in its place, and where the
 *     first answer to it does: once there is a newer question, the reasoning behind is dropped;
 *   - where it leaves the pages of other prompts, which is the end of what they share;
 *   - a few page edges, for prompts that part from it anywhere;
 *   - at the end of the answer, for the next turn.
 *
 * Who could have much of a prompt that is being read waits until its state is kept there. */
#include <string.h>

#include "engine/batch.h"
#include "tokenizer/chat_tokens.h"

/* Page edges kept of what is new in a prompt. */
#define N_EDGES 8

bool hd_job_keep_at(hd_job *j, int32_t at)
{
    int32_t i = j->n_kept;
    while (i < j->n_keep && j->keep_at[i] < at) i++;
    if (i < j->n_keep && j->keep_at[i] == at) return true;
    if (j->n_keep == HD_MAX_KEEP) return false;
    for (int32_t k = j->n_keep++; k > i; k--) j->keep_at[k] = j->keep_at[k - 1];
    j->keep_at[i] = at;
    return true;
}

/* ---- where ---- */

static int32_t control_id(const hd_engine *e, const char *text)
{
    return hd_tokenizer_control_id(e->tokenizer, text, strlen(text));
}

/* The last place of a token in the first n; -1: none. */
static int32_t find_last(const int32_t *tokens, int32_t n, int32_t id)
{
    while (n > 0 && tokens[n - 1] != id) n--;
    return n - 1;
}

static void keep_turns(const hd_batch *b, hd_job *j, int32_t n_cached)
{
    const int32_t *const tokens = j->asked.prompt;
    int32_t const        n = j->asked.n_prompt;
    int32_t const        user = find_last(tokens, n, control_id(b->engine, HD_TOKEN_USER));
    int32_t const        answer = control_id(b->engine, HD_TOKEN_ASSISTANT);
    int32_t              at = user + 1;
    if (user < 0) return;
    while (at < n && tokens[at] != answer) at++;
    if (user > n_cached) hd_job_keep_at(j, user);
    if (at + 1 < n && at + 1 > n_cached) hd_job_keep_at(j, at + 1);
}

static void keep_edges(hd_job *j, int32_t n_cached)
{
    int32_t const n = j->asked.n_prompt, most = N_EDGES * HD_CACHE_EDGE;
    int32_t const step = (n - n_cached + most - 1) / most * HD_CACHE_EDGE;
    for (int64_t at = (int64_t)(n_cached / step + 1) * step; at < n; at += step)
        hd_job_keep_at(j, (int32_t)at);
}

/* Those that were asked for while it waited are further on, or came too late. */
static void plan_keeping(const hd_batch *b, hd_job *j, int32_t n_cached, int32_t n_shared)
{
    while (j->n_kept < j->n_keep && j->keep_at[j->n_kept] <= n_cached) j->n_kept++;
    if (!b->prefix || !j->asked.is_kept) return;
    if (j->asked.n_prompt - 1 > n_cached) hd_job_keep_at(j, j->asked.n_prompt - 1);
    if (n_shared > n_cached) hd_job_keep_at(j, n_shared);
    keep_turns(b, j, n_cached);
    keep_edges(j, n_cached);
}

/* ---- waiting for another's state ---- */

static int32_t common_length(const hd_job *a, const hd_job *b)
{
    int32_t const na = a->asked.n_prompt - 1, nb = b->asked.n_prompt - 1;
    int32_t       n = 0;
    while (n < na && n < nb && a->asked.prompt[n] == b->asked.prompt[n]) n++;
    return n;
}

/* Whether one that started earlier is about to read at least a page that this one would read, or,
 * once it waits, anything; it is to keep its state there. */
static bool is_worth_waiting(hd_batch *b, const hd_job *j, int32_t n_found)
{
    int32_t const least = j->has_waited ? 1 : HD_CACHE_EDGE;
    for (int32_t i = 0; i < b->stats.n_running && b->running[i] != j; i++) {
        hd_job *const r = b->running[i];
        if (r->state == HD_JOB_DRAWING || !r->asked.is_kept) continue;
        int32_t const n = common_length(r, j);
        if (n >= n_found + least && n > r->session->length && hd_job_keep_at(r, n)) return true;
    }
    return false;
}

/* ---- starting ---- */

/* A state that cannot be read is gone, and the next best one is tried; without memory to read one
 * the prompt is read. */
static hd_status restore(hd_batch *b, hd_job *j, hd_kept *state, int32_t *n_shared, hd_error *err)
{
    hd_error why = {0};
    while (state && hd_prefix_restore(b->prefix, state, j->session, &why) != HD_OK) {
        if (why.code == HD_ERR_DEVICE) HD_FAIL(err, HD_ERR_DEVICE, "%s", why.message);
        hd_log_print(&b->engine->log, HD_LOG_WARNING, "%s", why.message);
        if (why.code == HD_ERR_MEMORY) return HD_OK;
        state = hd_prefix_find(b->prefix, j->asked.prompt, j->asked.n_prompt - 1, n_shared);
    }
    return HD_OK;
}

/* A prompt that is scored is read as a whole. */
static hd_status look_up(hd_batch *b, hd_job *j, int32_t *n_shared, bool *waits, hd_error *err)
{
    *n_shared = 0;
    *waits = false;
    if (!b->prefix || j->asked.is_scored) return HD_OK;
    hd_kept *const state =
        hd_prefix_find(b->prefix, j->asked.prompt, j->asked.n_prompt - 1, n_shared);
    *waits = is_worth_waiting(b, j, state ? state->at : 0);
    return *waits ? HD_OK : restore(b, j, state, n_shared, err);
}

hd_status hd_job_begin(hd_batch *b, hd_job *j, hd_error *err)
{
    int32_t n_shared;
    bool    waits;
    HD_TRY(look_up(b, j, &n_shared, &waits, err));
    if (waits) {
        j->has_waited = true;
        return HD_OK;
    }
    j->state = HD_JOB_READING;
    j->end.n_cached = j->session->length;
    plan_keeping(b, j, j->end.n_cached, n_shared);
    return HD_OK;
}

/* ---- keeping ---- */

hd_status hd_job_keep(hd_batch *b, hd_job *j, hd_error *err)
{
    if (!b->prefix) return HD_OK;
    while (j->n_kept < j->n_keep && j->keep_at[j->n_kept] <= j->session->length)
        HD_TRY(hd_prefix_keep(b->prefix, j->session, j->keep_at[j->n_kept++], err));
    return HD_OK;
}

hd_status hd_job_keep_end(hd_batch *b, const hd_job *j, hd_error *err)
{
    if (!b->prefix || !j->asked.is_kept || j->state != HD_JOB_DRAWING) return HD_OK;
    return hd_prefix_keep(b->prefix, j->session, j->session->length, err);
}
