#include <math.h>
#include <string.h>

#include "engine/engine.h"

hd_status hd_session_open(hd_session **out, hd_engine *e, hd_error *err)
{
    hd_session *found = NULL;
    pthread_mutex_lock(&e->lock);
    for (int32_t i = 0; i < e->options.n_sessions && !found; i++)
        if (!e->sessions[i].is_open) found = &e->sessions[i];
    if (found) found->is_open = true;
    pthread_mutex_unlock(&e->lock);
    if (!found) HD_FAIL(err, HD_ERR_LIMIT, "all %d sessions are in use", e->options.n_sessions);
    hd_session_reset(found);
    *out = found;
    return HD_OK;
}

void hd_session_empty(hd_session *s)
{
    hd_session_reset(s);
    for (int32_t l = 0; l < hd_engine_layers(s->engine); l++)
        hd_cache_return(&s->engine->model.caches[l], s->seq);
}

void hd_session_close(hd_session *s)
{
    if (!s) return;
    hd_session_empty(s);
    pthread_mutex_lock(&s->engine->lock);
    s->is_open = false;
    pthread_mutex_unlock(&s->engine->lock);
}

int32_t hd_session_length(const hd_session *s) { return s->length; }

static hd_status check_tokens(const hd_session *s, const int32_t *tokens, int32_t n, hd_error *err)
{
    const hd_engine *const e = s->engine;
    int32_t const          vocab = e->model.config->n_vocab, limit = e->options.max_tokens;
    if (n < 0 || (n > 0 && !tokens)) HD_FAIL(err, HD_ERR_INVALID, "%d tokens given", n);
    for (int32_t i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= vocab)
            HD_FAIL(err, HD_ERR_INVALID, "token %d has id %d, the vocabulary is 0 .. %d", i,
                    tokens[i], vocab - 1);
    if (n > limit - s->length)
        HD_FAIL(err, HD_ERR_LIMIT, "%d tokens after %d do not fit a context of %d", n, s->length,
                limit);
    return HD_OK;
}

/* Natural logarithm of the probability of `id` under a row of logits. */
static float log_probability(const float *logits, int32_t n, int32_t id)
{
    double largest = -INFINITY, sum = 0;
    for (int32_t i = 0; i < n; i++)
        if (logits[i] > largest) largest = logits[i];
    for (int32_t i = 0; i < n; i++) sum += exp(logits[i] - largest);
    return (float)(logits[id] - largest - log(sum));
}

/* Scores of a chunk: its first token by the logits kept from before, the others by the pass. */
static void score_chunk(const hd_session *s, const int32_t *tokens, int32_t n, float *logprob)
{
    int32_t const vocab = s->engine->model.config->n_vocab;
    for (int32_t i = 1; i < n; i++)
        logprob[i] =
            log_probability(s->engine->logits + (int64_t)(i - 1) * vocab, vocab, tokens[i]);
}

void hd_session_advance(hd_session *s, const int32_t *tokens, int32_t n)
{
    memcpy(s->tokens + s->length, tokens, (size_t)n * sizeof *tokens);
    s->length += n;
}

static hd_status eval_chunk(hd_session *s, const int32_t *tokens, int32_t n, hd_logits_rows rows,
                            const hd_row_ask *ask, hd_error *err)
{
    hd_pass_run const run = {
        .tokens = tokens, .n = n, .seq = s->seq, .pos = s->length, .rows = rows, .asks = ask};
    HD_TRY(hd_engine_run(s->engine, &run, err));
    hd_session_advance(s, tokens, n);
    HD_TRY(hd_session_mark(s, s->length - n, err));
    s->has_logits = rows != HD_LOGITS_NONE;
    if (!s->has_logits) return HD_OK;
    int64_t const vocab = s->engine->model.config->n_vocab;
    const float  *last = s->engine->logits + (rows == HD_LOGITS_ALL ? (n - 1) * vocab : 0);
    memcpy(s->logits, last, (size_t)vocab * sizeof *last);
    return HD_OK;
}

/* All chunks; with logprob every row of logits is needed, else the last one's, of which `ask` may
 * want a token. */
static hd_status eval_chunks(hd_session *s, const int32_t *tokens, int32_t n, float *logprob,
                             const hd_row_ask *ask, hd_error *err)
{
    int32_t const vocab = s->engine->model.config->n_vocab;
    for (int32_t done = 0, step; done < n; done += step) {
        step = n - done < s->engine->options.chunk ? n - done : s->engine->options.chunk;
        bool const     is_last = done + step == n;
        hd_logits_rows rows = logprob ? HD_LOGITS_ALL : is_last ? HD_LOGITS_LAST : HD_LOGITS_NONE;
        if (logprob)
            logprob[done] = s->has_logits ? log_probability(s->logits, vocab, tokens[done]) : NAN;
        HD_TRY(eval_chunk(s, tokens + done, step, rows, is_last ? ask : NULL, err));
        if (logprob) score_chunk(s, tokens + done, step, logprob + done);
        hd_log_progress(&s->engine->log, "reading", done + step, n);
    }
    return HD_OK;
}

hd_status hd_session_score(hd_session *s, const int32_t *tokens, int32_t n, float *logprob,
                           hd_error *err)
{
    HD_TRY(check_tokens(s, tokens, n, err));
    if (n > 0 && !logprob) HD_FAIL(err, HD_ERR_INVALID, "nowhere to write the scores");
    pthread_mutex_lock(&s->engine->lock);
    hd_status const status = eval_chunks(s, tokens, n, logprob, NULL, err);
    pthread_mutex_unlock(&s->engine->lock);
    return status;
}

hd_status hd_session_eval(hd_session *s, const int32_t *tokens, int32_t n, hd_error *err)
{
    HD_TRY(check_tokens(s, tokens, n, err));
    pthread_mutex_lock(&s->engine->lock);
    hd_status const status = eval_chunks(s, tokens, n, NULL, NULL, err);
    pthread_mutex_unlock(&s->engine->lock);
    return status;
}

hd_status hd_session_eval_draw(hd_session *s, const int32_t *tokens, int32_t n,
                               const hd_sample_ask *draw, hd_token_prob *drawn, hd_error *err)
{
    hd_row_ask const ask = {*draw, true}; /* who goes on later draws from the logits */
    HD_TRY(check_tokens(s, tokens, n, err));
    pthread_mutex_lock(&s->engine->lock);
    hd_status status = eval_chunks(s, tokens, n, NULL, &ask, err);
    if (status == HD_OK) status = hd_engine_drawn(s->engine, 0, drawn, err);
    pthread_mutex_unlock(&s->engine->lock);
    return status;
}

hd_status hd_session_logits(hd_session *s, const float **logits, hd_error *err)
{
    if (!s->has_logits) HD_FAIL(err, HD_ERR_INVALID, "no token has been evaluated yet");
    *logits = s->logits;
    return HD_OK;
}
