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
static hd_status draw_one(generation *g, int32_t step, int32_t *scratch, bool *done, hd_error *err)
{
    hd_engine *const e = g->s->engine;
    HD_TRY(hd_sample(&g->drawn, g->s->logits, e->model.config->n_vocab, &g->opt->sampling,
                     (uint64_t)step, g->opt->n_top, scratch, err));
    emit(g, &g->drawn, NULL);
    bool const at_eos = is_eos(e, g->drawn.token.id);
    *done = at_eos && !g->opt->ignore_eos;
    if (at_eos || g->is_cancelled) return HD_OK; /* an ignored EOS is no text either */
    HD_TRY(hand_on(g, g->drawn.token.id, err));
    *done = g->parser && hd_parser_is_done(g->parser);
    return HD_OK;
}

/* *is_cut stays true when a limit ends the answer. */
static hd_status draw_all(generation *g, hd_generate_result *out, bool *is_cut, hd_error *err)
{
    hd_engine *const e = g->s->engine;
    int32_t          most = e->options.max_tokens - g->s->length + 1;
    if (g->opt->max_new > 0 && g->opt->max_new < most) most = g->opt->max_new;
    int32_t *const scratch = g->s->scratch;
    bool           done = false;
    while (out->n_new < most && !done && !g->is_cancelled) {
        if (out->n_new > 0) HD_TRY(hd_session_eval(g->s, &g->drawn.token.id, 1, err));
        HD_TRY(draw_one(g, out->n_new, scratch, &done, err));
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
    HD_TRY(draw_all(g, out, &is_cut, err));
    out->new_s = now() - start - out->prompt_s;
    HD_TRY(finish(g, is_cut, &out->finish, err));
    if (g->is_cancelled) HD_FAIL(err, HD_ERR_CANCELLED, "stopped by the caller");
    return HD_OK;
}

static hd_status check_options(const hd_generate_options *o, hd_error *err)
{
    if (o->max_new < 0) HD_FAIL(err, HD_ERR_INVALID, "max_new %d: wanted 0 or more", o->max_new);
    if (o->n_stop < 0) HD_FAIL(err, HD_ERR_INVALID, "%d stop strings: wanted 0 or more", o->n_stop);
    if (o->is_raw && o->n_stop > 0)
        HD_FAIL(err, HD_ERR_INVALID, "%d stop strings: raw output is not searched for them",
                o->n_stop);
    return hd_sampler_check(&o->sampling, o->n_top, err);
}

hd_status hd_generate(hd_session *s, const int32_t *prompt, int32_t n_prompt,
                      const hd_generate_options *opt, hd_generate_result *out, hd_error *err)
{
    generation g = {.s = s, .opt = opt};
    HD_TRY(check_options(opt, err));
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
