#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "engine/batch.h"
#include "engine/sampler.h"

static int32_t vocab_of(const hd_engine *e) { return e->model.config->n_vocab; }

/* ---- checks ---- */

static hd_status check_prompt(const hd_engine *e, const hd_request *r, hd_error *err)
{
    int32_t const vocab = vocab_of(e);
    if (r->n_prompt < 1 || !r->prompt)
        HD_FAIL(err, HD_ERR_INVALID, "a prompt of %d tokens: wanted at least one", r->n_prompt);
    for (int32_t i = 0; i < r->n_prompt && i < e->options.max_tokens; i++)
        if (r->prompt[i] < 0 || r->prompt[i] >= vocab)
            HD_FAIL(err, HD_ERR_INVALID,
                    "token %d of the prompt has id %d, the vocabulary is 0 .. %d", i, r->prompt[i],
                    vocab - 1);
    return HD_OK;
}

/* Prompt and answer fit the context; the last token drawn is not read. */
static hd_status check_length(const hd_engine *e, const hd_request *r, hd_error *err)
{
    int32_t const context = e->options.max_tokens;
    int64_t const over =
        (int64_t)r->n_prompt + r->generate.max_new - context - (r->generate.max_new > 0 ? 1 : 0);
    if (r->n_prompt > context)
        HD_FAIL(err, HD_ERR_LIMIT, "the prompt is too long: %d tokens, the context is %d, %d less",
                r->n_prompt, context, r->n_prompt - context);
    if (r->generate.max_new > 0 && over > 0)
        HD_FAIL(err, HD_ERR_LIMIT,
                "a prompt of %d tokens and max_new %d: %" PRId64 " more than the context of %d",
                r->n_prompt, r->generate.max_new, over, context);
    return HD_OK;
}

static hd_status check_request(const hd_engine *e, const hd_request *r, hd_error *err)
{
    hd_generate_options g = r->generate;
    if (!r->on_event) HD_FAIL(err, HD_ERR_INVALID, "a request whose answer nobody hears");
    if (r->is_scored && g.max_new == -1) g.max_new = 0;
    HD_TRY(hd_reply_check(&g, vocab_of(e), err));
    if (g.n_stop > 0 && !g.stop)
        HD_FAIL(err, HD_ERR_INVALID, "%d stop strings: none given", g.n_stop);
    if (r->grammar && g.ignore_eos)
        HD_FAIL(err, HD_ERR_INVALID, "a grammar with ignore_eos: what is complete could not end");
    HD_TRY(check_prompt(e, r, err));
    return check_length(e, r, err);
}

/* Rows of every token that may be evaluated. */
static hd_status make_promise(hd_job *j, const hd_batch *b, hd_error *err)
{
    const hd_engine *const e = b->engine;
    int32_t const          room = e->options.max_tokens - j->asked.n_prompt;
    int32_t const          most = j->asked.generate.max_new;
    int32_t const          more = !j->is_drawn ? 0 : most > 0 && most - 1 < room ? most - 1 : room;
    j->promise = hd_model_rows_bytes(&e->model, j->asked.n_prompt + more);
    if (j->promise > b->options.kv_bytes)
        HD_FAIL(err, HD_ERR_LIMIT,
                "a prompt of %d tokens and an answer of up to %d take %" PRId64
                " bytes of KV rows, all that run may take %" PRId64,
                j->asked.n_prompt, more + j->is_drawn, j->promise, b->options.kv_bytes);
    return HD_OK;
}

/* ---- copies ---- */

/* A copy of n elements in the job's pool; none for none. */
static bool copy_array(hd_job *j, const void *from, int32_t n, size_t bytes, const void **out)
{
    size_t total;
    *out = NULL;
    if (n <= 0) return true;
    void *const to = hd_size_mul((size_t)n, bytes, &total) ? hd_pool_alloc(&j->pool, total) : NULL;
    if (to) memcpy(to, from, total);
    *out = to;
    return to != NULL;
}

static bool copy_stops(hd_job *j, const hd_generate_options *from)
{
    const char **const stops = hd_pool_alloc(&j->pool, (size_t)from->n_stop * sizeof *stops);
    bool               is_whole = stops != NULL;
    for (int32_t i = 0; i < from->n_stop && is_whole; i++) {
        stops[i] = hd_pool_copy(&j->pool, from->stop[i], strlen(from->stop[i]));
        is_whole = stops[i] != NULL;
    }
    j->asked.generate.stop = stops;
    return is_whole;
}

/* Everything that the request points to, but the grammar. */
static hd_status copy_request(hd_job *j, const hd_request *r, hd_error *err)
{
    const hd_generate_options *const g = &r->generate;
    const void                      *prompt, *bias, *stop_ids;
    j->asked = *r;
    bool const is_whole =
        copy_array(j, r->prompt, r->n_prompt, sizeof *r->prompt, &prompt) &&
        copy_array(j, g->sampling.bias, g->sampling.n_bias, sizeof *g->sampling.bias, &bias) &&
        copy_array(j, g->stop_ids, g->n_stop_ids, sizeof *g->stop_ids, &stop_ids) &&
        copy_stops(j, g);
    if (!is_whole) HD_FAIL(err, HD_ERR_MEMORY, "no memory for a request of %d tokens", r->n_prompt);
    j->asked.prompt = prompt;
    j->asked.generate.sampling.bias = bias;
    j->asked.generate.stop_ids = stop_ids;
    return HD_OK;
}

/* ---- events ---- */

static void send(hd_job *j, const hd_answer_event *e)
{
    if (!j->asked.on_event(j->asked.user, e)) j->reply.is_cancelled = true;
}

/* What the answer says, as an event of the request. */
static bool pass_on(void *user, const hd_generate_event *e)
{
    hd_job *const         j = user;
    hd_answer_event const event = {.token = e->token, .parse = e->parse};
    send(j, &event);
    return !j->reply.is_cancelled;
}

/* ---- making ---- */

static hd_status open_matcher(hd_job *j, const hd_engine *e, hd_error *err)
{
    size_t const words = ((size_t)vocab_of(e) + 31) / 32;
    if (!j->asked.grammar) return HD_OK;
    j->allowed = hd_pool_alloc(&j->pool, words * sizeof *j->allowed);
    if (!j->allowed) HD_FAIL(err, HD_ERR_MEMORY, "no memory for a grammar's tokens");
    return hd_matcher_open(&j->matcher, j->asked.grammar, j->asked.generate.start, err);
}

static hd_status fill_job(hd_job *j, const hd_batch *b, const hd_request *r, hd_error *err)
{
    HD_TRY(copy_request(j, r, err));
    j->is_drawn = !(r->is_scored && r->generate.max_new == -1);
    if (!j->is_drawn) j->asked.generate.max_new = 0;
    j->asked.generate.on_event = pass_on;
    j->asked.generate.user = j;
    HD_TRY(make_promise(j, b, err));
    HD_TRY(open_matcher(j, b->engine, err));
    j->asked_at = hd_reply_now();
    j->end.n_prompt = r->n_prompt;
    return hd_reply_open(&j->reply, b->engine, &j->asked.generate, err);
}

hd_status hd_job_make(hd_job **out, hd_batch *b, const hd_request *r, hd_error *err)
{
    HD_TRY(check_request(b->engine, r, err));
    hd_job *const j = hd_memory_alloc(sizeof *j);
    if (!j) HD_FAIL(err, HD_ERR_MEMORY, "no memory for a request");
    hd_status const s = fill_job(j, b, r, err);
    if (s == HD_OK)
        *out = j;
    else
        hd_job_free(j);
    return s;
}

void hd_job_free(hd_job *j)
{
    if (!j) return;
    hd_reply_close(&j->reply);
    hd_matcher_close(j->matcher);
    hd_pool_free(&j->pool);
    hd_memory_free(j);
}

/* ---- drawing ---- */

static bool is_free(const hd_job *j) { return !j->matcher || hd_matcher_is_free(j->matcher); }

/* The tokens that the grammar allows; NULL for all. */
static hd_status make_mask(hd_job *j, const uint32_t **allowed, hd_error *err)
{
    const hd_reply *const a = &j->reply;
    *allowed = NULL;
    if (is_free(j)) return HD_OK;
    HD_TRY(hd_matcher_mask(j->matcher, j->allowed, vocab_of(a->engine), a->ends, a->n_ends, err));
    *allowed = j->allowed;
    return HD_OK;
}

bool hd_job_ask(const hd_job *j, hd_sample_ask *out)
{
    return hd_reply_ask(&j->reply, is_free(j), out);
}

/* The grammar hears of the token. */
static hd_status accept_drawn(hd_job *j, hd_error *err)
{
    hd_reply *const a = &j->reply;
    if (!j->matcher || hd_reply_ends(a, a->drawn.token.id)) return HD_OK;
    return hd_matcher_accept(j->matcher, a->drawn.token.id, err);
}

hd_status hd_job_draw(hd_job *j, const float *logits, hd_error *err)
{
    const uint32_t *allowed;
    HD_TRY(make_mask(j, &allowed, err));
    HD_TRY(hd_reply_draw(&j->reply, j->session, logits, allowed, err));
    return accept_drawn(j, err);
}

hd_status hd_job_take(hd_job *j, hd_token_prob token, hd_error *err)
{
    HD_TRY(hd_reply_take(&j->reply, j->session, token, err));
    return accept_drawn(j, err);
}

bool hd_job_is_done(const hd_job *j)
{
    const hd_reply *const a = &j->reply;
    return a->is_done || a->is_cancelled || !j->is_drawn ||
           a->n_new >= hd_reply_room(a, j->asked.n_prompt);
}

/* ---- scoring ---- */

hd_status hd_job_score(hd_job *j, int32_t first, int32_t n, const float *logits, hd_error *err)
{
    int32_t const         vocab = vocab_of(j->reply.engine);
    hd_sampled            s = {.token = {j->asked.prompt[0], NAN}};
    hd_answer_event const event = {.prompt = &s};
    if (first == 0) send(j, &event);
    for (int32_t i = 0; i < n && first + i + 1 < j->asked.n_prompt; i++) {
        const float *const row = logits + (int64_t)i * vocab;
        HD_TRY(hd_sampler_check_logits(row, vocab, err));
        if (j->reply.is_cancelled) return HD_OK;
        hd_sampler_report(&s, row, vocab, j->asked.prompt[first + i + 1], j->asked.generate.n_top);
        send(j, &event);
    }
    return HD_OK;
}

/* ---- the end ---- */

static void describe_end(hd_job *j)
{
    const hd_reply *const a = &j->reply;
    hd_answer_end *const  e = &j->end;
    double const          now = hd_reply_now();
    double const          started = j->started_at > 0 ? j->started_at : now;
    double const          drawing = j->drawing_at > 0 ? j->drawing_at : now;
    e->n_new = a->n_new;
    e->n_reasoning = a->n_reasoning;
    e->stop = hd_reply_stop(a);
    e->wait_s = started - j->asked_at;
    e->prompt_s = drawing > started ? drawing - started : 0;
    e->new_s = now - drawing;
    if (e->error.code != HD_OK) return;
    e->blank = j->is_drawn ? hd_reply_blank(a) : HD_BLANK_NO;
}

/* The answer's last words.  One that only scores a prompt has none, and ended as it should. */
static void finish_answer(hd_job *j, hd_error *why)
{
    if (!j->is_drawn)
        j->end.finish = HD_FINISH_STOP;
    else
        hd_reply_finish(&j->reply, &j->end.finish, why);
}

void hd_job_finish(hd_job *j)
{
    hd_error *const why = &j->end.error;
    *why = j->failure;
    if (why->code == HD_OK) finish_answer(j, why);
    if (why->code == HD_OK && j->reply.is_cancelled)
        hd_error_set(why, HD_ERR_CANCELLED, -1, "stopped by its user");
    if (why->code != HD_OK) j->end.finish = HD_FINISH_NONE;
    describe_end(j);
}

void hd_job_report(hd_job *j)
{
    hd_answer_event const event = {.end = &j->end};
    j->asked.on_event(j->asked.user, &event);
}
