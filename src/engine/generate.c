#include <time.h>

#include "engine/engine.h"
#include "engine/sampler.h"

/* What one generation carries from token to token. */
typedef struct generation {
    hd_session                *s;
    const hd_generate_options *opt;
    hd_parser                 *parser; /* NULL in raw mode */
    hd_utf8_stream             utf8;   /* raw mode */
    hd_sampled                 drawn;
    int32_t                    ends[HD_MAX_EOS + HD_MAX_STOP_IDS]; /* [n_ends] ids that end it */
    int32_t                    n_ends;
    int32_t                    n_before; /* tokens of the session before the first draw */
    bool                       is_cancelled;
} generation;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void emit(generation *g, const hd_sampled *token, const hd_parse_event *parse)
{
    hd_generate_event const e = {token, parse};
    if (g->is_cancelled || !g->opt->on_event) return;
    if (!g->opt->on_event(g->opt->user, &e)) g->is_cancelled = true;
}

static void pass_on(void *user, const hd_parse_event *parse) { emit(user, NULL, parse); }

static void emit_raw(generation *g, const char *text, size_t bytes)
{
    hd_parse_event const e = {.kind = HD_PARSE_CONTENT, .text = text, .text_bytes = bytes};
    if (bytes) emit(g, NULL, &e);
}

static bool is_eos(const hd_engine *e, int32_t id)
{
    for (int32_t i = 0; i < e->model.config->n_eos; i++)
        if (e->model.config->eos[i] == id) return true;
    return false;
}

static bool ends_answer(const generation *g, int32_t id)
{
    for (int32_t i = 0; i < g->n_ends; i++)
        if (g->ends[i] == id) return true;
    return false;
}

static void collect_ends(generation *g)
{
    const hd_config *const c = g->s->engine->model.config;
    for (int32_t i = 0; i < g->opt->n_stop_ids; i++) g->ends[g->n_ends++] = g->opt->stop_ids[i];
    for (int32_t i = 0; i < c->n_eos && !g->opt->ignore_eos; i++) g->ends[g->n_ends++] = c->eos[i];
}

/* Longest bytes of a token in raw mode; a longer one is handed on in pieces. */
#define RAW_PIECE 256

static hd_status hand_on(generation *g, int32_t id, hd_error *err)
{
    const hd_tokenizer *const t = g->s->engine->tokenizer;
    size_t                    bytes = 0;
    const char *const         text = hd_tokenizer_bytes(t, id, &bytes);
    if (!text) return HD_OK; /* an id that the model has and the tokenizer has not */
    if (g->parser)
        return hd_parser_push_token(g->parser, text, bytes, hd_tokenizer_is_control(t, id), err);
    for (size_t at = 0; at < bytes; at += RAW_PIECE) {
        char         out[3 * (RAW_PIECE + 3)];
        size_t const n = bytes - at < RAW_PIECE ? bytes - at : RAW_PIECE;
        emit_raw(g, out, hd_utf8_push(&g->utf8, text + at, n, out));
    }
    return HD_OK;
}

/* Draws and hands on one token; *done when it ends the answer. */
static hd_status draw_one(generation *g, int32_t step, bool *done, hd_error *err)
{
    const hd_session *const s = g->s;
    hd_draw const           d = {.logits = s->logits,
                                 .n = s->engine->model.config->n_vocab,
                                 .n_top = g->opt->n_top,
                                 .step = (uint64_t)step,
                                 .past = s->tokens,
                                 .n_past = s->length,
                                 .n_prompt = g->n_before,
                                 .banned = g->ends,
                                 .n_banned = step < g->opt->min_new ? g->n_ends : 0,
                                 .scratch = s->scratch,
                                 .changed = s->changed};
    HD_TRY(hd_sample(&g->drawn, &g->opt->sampling, &d, err));
    int32_t const id = g->drawn.token.id;
    emit(g, &g->drawn, NULL);
    *done = ends_answer(g, id);
    /* An ignored EOS is no text either. */
    if (*done || g->is_cancelled || is_eos(s->engine, id)) return HD_OK;
    HD_TRY(hand_on(g, id, err));
    *done = g->parser && hd_parser_is_done(g->parser);
    return HD_OK;
}

/* *is_cut stays true when a limit ends the answer. */
static hd_status draw_all(generation *g, hd_generate_result *out, bool *is_cut, hd_error *err)
{
    hd_engine *const e = g->s->engine;
    int32_t          most = e->options.max_tokens - g->s->length + 1;
    if (g->opt->max_new > 0 && g->opt->max_new < most) most = g->opt->max_new;
    bool done = false;
    while (out->n_new < most && !done && !g->is_cancelled) {
        if (out->n_new > 0) HD_TRY(hd_session_eval(g->s, &g->drawn.token.id, 1, err));
        HD_TRY(draw_one(g, out->n_new, &done, err));
        out->n_new++;
    }
    *is_cut = !done;
    return HD_OK;
}

static hd_status finish(generation *g, bool is_cut, hd_finish *finish, hd_error *err)
{
    char tail[9];
    if (g->parser) return hd_parser_finish(g->parser, is_cut, finish, err);
    emit_raw(g, tail, hd_utf8_flush(&g->utf8, tail));
    *finish = is_cut ? HD_FINISH_LENGTH : HD_FINISH_STOP;
    return HD_OK;
}

static hd_status generate(generation *g, const int32_t *prompt, int32_t n_prompt,
                          hd_generate_result *out, hd_error *err)
{
    double const start = now();
    bool         is_cut = true;
    HD_TRY(hd_session_eval(g->s, prompt, n_prompt, err));
    if (!g->s->has_logits) HD_FAIL(err, HD_ERR_INVALID, "an empty prompt: nothing to continue");
    out->n_prompt = n_prompt;
    out->prompt_s = now() - start;
    g->n_before = g->s->length;
    collect_ends(g);
    HD_TRY(draw_all(g, out, &is_cut, err));
    out->new_s = now() - start - out->prompt_s;
    HD_TRY(finish(g, is_cut, &out->finish, err));
    if (g->is_cancelled) HD_FAIL(err, HD_ERR_CANCELLED, "stopped by the caller");
    return HD_OK;
}

static hd_status check_stops(const hd_generate_options *o, int32_t n_vocab, hd_error *err)
{
    if (o->n_stop < 0) HD_FAIL(err, HD_ERR_INVALID, "%d stop strings: wanted 0 or more", o->n_stop);
    if (o->is_raw && o->n_stop > 0)
        HD_FAIL(err, HD_ERR_INVALID, "%d stop strings: raw output is not searched for them",
                o->n_stop);
    if (o->n_stop_ids < 0 || o->n_stop_ids > HD_MAX_STOP_IDS || (o->n_stop_ids && !o->stop_ids))
        HD_FAIL(err, HD_ERR_INVALID, "%d stop ids: wanted 0 .. %d", o->n_stop_ids, HD_MAX_STOP_IDS);
    for (int32_t i = 0; i < o->n_stop_ids; i++)
        if (o->stop_ids[i] < 0 || o->stop_ids[i] >= n_vocab)
            HD_FAIL(err, HD_ERR_INVALID, "stop id %d: the vocabulary is 0 .. %d", o->stop_ids[i],
                    n_vocab - 1);
    return HD_OK;
}

static hd_status check_options(const hd_generate_options *o, int32_t n_vocab, hd_error *err)
{
    if (o->max_new < 0) HD_FAIL(err, HD_ERR_INVALID, "max_new %d: wanted 0 or more", o->max_new);
    if (o->min_new < 0) HD_FAIL(err, HD_ERR_INVALID, "min_new %d: wanted 0 or more", o->min_new);
    if (o->max_new > 0 && o->min_new > o->max_new)
        HD_FAIL(err, HD_ERR_INVALID, "min_new %d: wanted 0 .. %d, which is max_new", o->min_new,
                o->max_new);
    HD_TRY(check_stops(o, n_vocab, err));
    return hd_sampler_check(&o->sampling, o->n_top, n_vocab, err);
}

hd_status hd_generate(hd_session *s, const int32_t *prompt, int32_t n_prompt,
                      const hd_generate_options *opt, hd_generate_result *out, hd_error *err)
{
    generation g = {.s = s, .opt = opt};
    HD_TRY(check_options(opt, s->engine->model.config->n_vocab, err));
    *out = (hd_generate_result){0};
    if (!opt->is_raw) {
        hd_parser_options const p = {.start = opt->start,
                                     .has_tools = opt->has_tools,
                                     .stop = opt->stop,
                                     .n_stop = opt->n_stop,
                                     .on_event = pass_on,
                                     .user = &g};
        HD_TRY(hd_parser_open(&g.parser, &p, err));
    }
    hd_status const status = generate(&g, prompt, n_prompt, out, err);
    hd_parser_close(g.parser);
    return status;
}
