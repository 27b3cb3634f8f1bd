#ifndef HD_ENGINE_REPLY_H
#define HD_ENGINE_REPLY_H

#include "engine/engine.h"
#include "hadal_serve.h"

/* One answer being drawn: from logits to a token, from tokens to text and calls, up to its end.
 * Who evaluates the tokens is another matter: hd_generate does it for one session, a batch for
 * many. */

HD_BEGIN_C

typedef struct hd_reply {
    const hd_engine           *engine;
    const hd_generate_options *opt;    /* borrowed; on_event hears tokens and what is parsed */
    hd_parser                 *parser; /* owned; NULL in raw mode */
    hd_utf8_stream             utf8;   /* raw mode */
    hd_sampled                 drawn;
    int32_t                    ends[HD_MAX_EOS + HD_MAX_STOP_IDS]; /* [n_ends] ids that end it */
    int32_t                    n_ends;
    int32_t                    n_before; /* tokens of the sequence before the first draw */
    int32_t                    n_new, n_reasoning;
    int32_t                    think_end; /* the token that ends reasoning; -1: none */
    bool                       is_reasoning;
    bool has_text, has_unparsed; /* content or calls were given out; something unparsed was */
    bool is_done;                /* the model ended it, not a limit */
    bool is_cancelled;           /* on_event said so */
} hd_reply;

/* Whether an engine can answer with these options.  returns  HD_ERR_INVALID naming the option */
hd_status hd_reply_check(const hd_generate_options *opt, int32_t n_vocab, hd_error *err);

/* `a` stays where it is while it is open: its parser points to it.
 * owns     nothing after a failure; else hd_reply_close */
hd_status hd_reply_open(hd_reply *a, const hd_engine *e, const hd_generate_options *opt,
                        hd_error *err);
void      hd_reply_close(hd_reply *a); /* a zeroed or closed one is fine */

/* Most tokens that may be drawn behind n that were read. */
int32_t hd_reply_room(const hd_reply *a, int32_t n);

/* Draws a token behind those of `s`, and hands it on.  The first draw counts the tokens of `s` as
 * the prompt.
 * logits   [n_vocab] after the last token of `s`
 * allowed  as in hd_draw; where only the end is, min_new yields
 * returns  HD_ERR_NUMERIC, HD_ERR_MEMORY */
hd_status hd_reply_draw(hd_reply *a, const hd_session *s, const float *logits,
                        const uint32_t *allowed, hd_error *err);
/* Whether the next token may be drawn where the logits are instead, and how: when the host's words
 * are not needed.  The one place that decides.
 * is_free  no grammar says what may come */
bool hd_reply_ask(const hd_reply *a, bool is_free, hd_sample_ask *out);
/* The same as hd_reply_draw with a token that was drawn so. */
hd_status hd_reply_take(hd_reply *a, const hd_session *s, hd_token_prob token, hd_error *err);
/* Whether the token ends the answer. */
bool hd_reply_ends(const hd_reply *a, int32_t id);
/* Gives out what was held back, once, at the end. */
hd_status hd_reply_finish(hd_reply *a, hd_finish *finish, hd_error *err);

/* Behind hd_reply_finish: which stop string ended the answer (-1: none), and why it is blank. */
int32_t  hd_reply_stop(const hd_reply *a);
hd_blank hd_reply_blank(const hd_reply *a);

/* Seconds of a clock that only goes forward. */
double hd_reply_now(void);

HD_END_C
#endif
