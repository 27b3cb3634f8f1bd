#include "engine/reply.h"

#include <time.h>

#include "engine/sampler.h"
#include "tokenizer/chat_tokens.h"
#include "tokenizer/parser.h"

double hd_reply_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- options ---- */

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

hd_status hd_reply_check(const hd_generate_options *o, int32_t n_vocab, hd_error *err)
{
    if (o->max_new < 0) HD_FAIL(err, HD_ERR_INVALID, "max_new %d: wanted 0 or more", o->max_new);
    if (o->min_new < 0) HD_FAIL(err, HD_ERR_INVALID, "min_new %d: wanted 0 or more", o->min_new);
    if (o->max_new > 0 && o->min_new > o->max_new)
        HD_FAIL(err, HD_ERR_INVALID, "min_new %d: wanted 0 .. %d, which is max_new", o->min_new,
                o->max_new);
    HD_TRY(check_stops(o, n_vocab, err));
    return hd_sampler_check(&o->sampling, o->n_top, n_vocab, err);
}

/* ---- what is handed on ---- */

static void emit(hd_reply *a, const hd_sampled *token, const hd_parse_event *parse)
{
    hd_generate_event const e = {token, parse};
    if (a->is_cancelled || !a->opt->on_event) return;
    if (!a->opt->on_event(a->opt->user, &e)) a->is_cancelled = true;
}

static void pass_on(void *user, const hd_parse_event *parse)
{
    hd_reply *const a = user;
    if (parse->kind == HD_PARSE_UNPARSED) a->has_unparsed = true;
    if (parse->kind == HD_PARSE_CONTENT || parse->kind == HD_PARSE_CALL) a->has_text = true;
    emit(a, NULL, parse);
}

static void emit_raw(hd_reply *a, const char *text, size_t bytes)
{
    hd_parse_event const e = {.kind = HD_PARSE_CONTENT, .text = text, .text_bytes = bytes};
    if (bytes) pass_on(a, &e);
}

/* Longest bytes of a token in raw mode; a longer one is handed on in pieces. */
#define RAW_PIECE 256

static hd_status hand_on(hd_reply *a, int32_t id, hd_error *err)
{
    const hd_tokenizer *const t = a->engine->tokenizer;
    size_t                    bytes = 0;
    const char *const         text = hd_tokenizer_bytes(t, id, &bytes);
    if (!text) return HD_OK; /* an id that the model has and the tokenizer has not */
    if (a->parser)
        return hd_parser_push_token(a->parser, text, bytes, hd_tokenizer_is_control(t, id), err);
    for (size_t at = 0; at < bytes; at += RAW_PIECE) {
        char         out[3 * (RAW_PIECE + 3)];
        size_t const n = bytes - at < RAW_PIECE ? bytes - at : RAW_PIECE;
        emit_raw(a, out, hd_utf8_push(&a->utf8, text + at, n, out));
    }
    return HD_OK;
}

/* ---- open and close ---- */

static void collect_ends(hd_reply *a)
{
    const hd_config *const c = a->engine->model.config;
    for (int32_t i = 0; i < a->opt->n_stop_ids; i++) a->ends[a->n_ends++] = a->opt->stop_ids[i];
    for (int32_t i = 0; i < c->n_eos && !a->opt->ignore_eos; i++) a->ends[a->n_ends++] = c->eos[i];
}

hd_status hd_reply_open(hd_reply *a, const hd_engine *e, const hd_generate_options *opt,
                        hd_error *err)
{
    *a = (hd_reply){.engine = e, .opt = opt};
    a->think_end =
        hd_tokenizer_control_id(e->tokenizer, HD_TOKEN_THINK_END, sizeof HD_TOKEN_THINK_END - 1);
    a->is_reasoning = !opt->is_raw && (opt->start == HD_START_REASONING ||
                                       opt->start == HD_START_REASONING_CONTINUATION);
    collect_ends(a);
    if (opt->is_raw) return HD_OK;
    hd_parser_options const p = {.start = opt->start,
                                 .has_tools = opt->has_tools,
                                 .stop = opt->stop,
                                 .n_stop = opt->n_stop,
                                 .on_event = pass_on,
                                 .user = a};
    return hd_parser_open(&a->parser, &p, err);
}

void hd_reply_close(hd_reply *a)
{
    hd_parser_close(a->parser);
    a->parser = NULL;
}

/* ---- drawing ---- */

int32_t hd_reply_room(const hd_reply *a, int32_t n)
{
    int32_t const most = a->engine->options.max_tokens - n + 1;
    return a->opt->max_new > 0 && a->opt->max_new < most ? a->opt->max_new : most;
}

static bool is_eos(const hd_engine *e, int32_t id)
{
    for (int32_t i = 0; i < e->model.config->n_eos; i++)
        if (e->model.config->eos[i] == id) return true;
    return false;
}

bool hd_reply_ends(const hd_reply *a, int32_t id)
{
    for (int32_t i = 0; i < a->n_ends; i++)
        if (a->ends[i] == id) return true;
    return false;
}

/* Whether something else than the end is allowed. */
static bool may_go_on(const hd_reply *a, const uint32_t *allowed)
{
    int32_t const n = a->engine->model.config->n_vocab;
    if (!allowed) return true;
    for (int32_t id = 0; id < n; id++)
        if ((allowed[id / 32] >> (id % 32) & 1) && !hd_reply_ends(a, id)) return true;
    return false;
}

static hd_status draw(hd_reply *a, const hd_session *s, const float *logits,
                      const uint32_t *allowed, hd_error *err)
{
    bool const    is_early = a->n_new < a->opt->min_new && may_go_on(a, allowed);
    hd_draw const d = {.logits = logits,
                       .n = a->engine->model.config->n_vocab,
                       .n_top = a->opt->n_top,
                       .step = (uint64_t)a->n_new,
                       .past = s->tokens,
                       .n_past = s->length,
                       .n_prompt = a->n_before,
                       .banned = a->ends,
                       .n_banned = is_early ? a->n_ends : 0,
                       .allowed = allowed,
                       .scratch = s->scratch,
                       .changed = s->changed};
    return hd_sample(&a->drawn, &a->opt->sampling, &d, err);
}

bool hd_reply_ask(const hd_reply *a, bool is_free, hd_sample_ask *out)
{
    bool const is_plain = is_free && a->opt->n_top == 0 && a->n_new >= a->opt->min_new;
    return hd_sampler_ask(&a->opt->sampling, (uint64_t)a->n_new, a->engine->model.config->n_vocab,
                          out) &&
           is_plain;
}

/* What comes of the token drawn. */
static hd_status take_drawn(hd_reply *a, hd_error *err)
{
    int32_t const id = a->drawn.token.id;
    a->n_new++;
    if (id == a->think_end) a->is_reasoning = false;
    if (a->is_reasoning) a->n_reasoning++;
    emit(a, &a->drawn, NULL);
    a->is_done = hd_reply_ends(a, id);
    /* An ignored EOS is no text either. */
    if (a->is_done || a->is_cancelled || is_eos(a->engine, id)) return HD_OK;
    HD_TRY(hand_on(a, id, err));
    a->is_done = a->parser && hd_parser_is_done(a->parser);
    return HD_OK;
}

hd_status hd_reply_draw(hd_reply *a, const hd_session *s, const float *logits,
                        const uint32_t *allowed, hd_error *err)
{
    if (a->n_new == 0) a->n_before = s->length;
    HD_TRY(draw(a, s, logits, allowed, err));
    return take_drawn(a, err);
}

hd_status hd_reply_take(hd_reply *a, const hd_session *s, hd_token_prob token, hd_error *err)
{
    if (a->n_new == 0) a->n_before = s->length;
    a->drawn = (hd_sampled){.token = token};
    return take_drawn(a, err);
}

hd_status hd_reply_finish(hd_reply *a, hd_finish *finish, hd_error *err)
{
    char tail[9];
    if (a->parser) return hd_parser_finish(a->parser, !a->is_done, finish, err);
    emit_raw(a, tail, hd_utf8_flush(&a->utf8, tail));
    *finish = a->is_done ? HD_FINISH_STOP : HD_FINISH_LENGTH;
    return HD_OK;
}

/* ---- how it ended ---- */

int32_t hd_reply_stop(const hd_reply *a)
{
    return a->parser ? hd_parser_stop_index(a->parser) : -1;
}

hd_blank hd_reply_blank(const hd_reply *a)
{
    if (a->has_text) return HD_BLANK_NO;
    if (a->has_unparsed) return HD_BLANK_UNPARSED;
    if (!a->is_done) return a->is_reasoning ? HD_BLANK_REASONING : HD_BLANK_NO;
    if (hd_reply_stop(a) >= 0 || !is_eos(a->engine, a->drawn.token.id)) return HD_BLANK_STOP;
    return HD_BLANK_EOS;
}

const char *hd_blank_name(hd_blank b)
{
    static const char *const names[] = {"no", "reasoning", "eos", "stop", "unparsed"};
    return (size_t)b < sizeof names / sizeof names[0] ? names[b] : "unknown";
}
