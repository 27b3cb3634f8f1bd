#include "engine/reply.h"

/* Evaluates n tokens and takes the one drawn behind them, which an accelerator draws itself. */
static hd_status draw_behind(hd_reply *a, hd_session *s, const int32_t *tokens, int32_t n,
                             hd_error *err)
{
    hd_sample_ask ask;
    hd_token_prob drawn;
    if (n > 0 && s->engine->draws && hd_reply_ask(a, true, &ask)) {
        HD_TRY(hd_session_eval_draw(s, tokens, n, &ask, &drawn, err));
        return hd_reply_take(a, s, drawn, err);
    }
    HD_TRY(hd_session_eval(s, tokens, n, err));
    if (!s->has_logits) HD_FAIL(err, HD_ERR_INVALID, "an empty prompt: nothing to continue");
    return hd_reply_draw(a, s, s->logits, NULL, err);
}

/* *out counts also when this fails. */
static hd_status draw_all(hd_reply *a, hd_session *s, hd_generate_result *out, hd_error *err)
{
    int32_t const most = hd_reply_room(a, s->length);
    while (a->n_new < most && !a->is_done && !a->is_cancelled) {
        HD_TRY(draw_behind(a, s, &a->drawn.token.id, 1, err));
        out->n_new = a->n_new;
    }
    return HD_OK;
}

static hd_status generate(hd_reply *a, hd_session *s, const int32_t *prompt, int32_t n_prompt,
                          hd_generate_result *out, hd_error *err)
{
    double const start = hd_reply_now();
    HD_TRY(draw_behind(a, s, prompt, n_prompt, err));
    out->n_prompt = n_prompt;
    out->n_new = a->n_new;
    out->prompt_s = hd_reply_now() - start;
    HD_TRY(draw_all(a, s, out, err));
    out->new_s = hd_reply_now() - start - out->prompt_s;
    HD_TRY(hd_reply_finish(a, &out->finish, err));
    if (a->is_cancelled) HD_FAIL(err, HD_ERR_CANCELLED, "stopped by the caller");
    return HD_OK;
}

hd_status hd_generate(hd_session *s, const int32_t *prompt, int32_t n_prompt,
                      const hd_generate_options *opt, hd_generate_result *out, hd_error *err)
{
    hd_reply a;
    HD_TRY(hd_reply_check(opt, s->engine->model.config->n_vocab, err));
    *out = (hd_generate_result){0};
    HD_TRY(hd_reply_open(&a, s->engine, opt, err));
    hd_status const status = generate(&a, s, prompt, n_prompt, out, err);
    hd_reply_close(&a);
    return status;
}
