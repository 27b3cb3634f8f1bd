#include <math.h>

#include "cli/eval_job.h"

/* How well the model predicts a text: every token once, given those before it in its window. */

typedef struct text_sum {
    int32_t *ids;     /* [n] owned */
    int32_t *window;  /* [context] owned: begin-of-sentence, then tokens */
    float   *logprob; /* [context] owned */
    int32_t  n, context;
    int32_t  n_windows;
    double   nll; /* sum, in nats */
} text_sum;

static hd_status encode(const hd_eval_job *j, text_sum *t, hd_error *err)
{
    const hd_tokenizer *const tokenizer = hd_engine_tokenizer(j->engine);
    const char *const         text = j->source.used ? j->source.data : "";
    t->ids = hd_memory_alloc(j->source.used * sizeof *t->ids);
    t->window = hd_memory_alloc((size_t)t->context * sizeof *t->window);
    t->logprob = hd_memory_alloc((size_t)t->context * sizeof *t->logprob);
    if (!t->ids || !t->window || !t->logprob)
        HD_FAIL(err, HD_ERR_MEMORY, "%s: no memory for its tokens", j->text);
    HD_TRY(hd_tokenizer_encode(tokenizer, text, j->source.used, false, t->ids,
                               (int32_t)j->source.used, &t->n, err));
    if (t->n == 0) HD_FAIL(err, HD_ERR_FORMAT, "%s: an empty text", j->text);
    return HD_OK;
}

static hd_status score(hd_eval_job *j, text_sum *t, hd_error *err)
{
    for (int32_t at = 0, n; at < t->n; at += n) {
        n = t->n - at < t->context - 1 ? t->n - at : t->context - 1;
        for (int32_t i = 0; i < n; i++) t->window[i + 1] = t->ids[at + i];
        hd_session_reset(j->session);
        HD_TRY(hd_session_score(j->session, t->window, n + 1, t->logprob, err));
        for (int32_t i = 1; i <= n; i++) t->nll -= (double)t->logprob[i];
        t->n_windows++;
        hd_screen_progress(&j->screen, "scoring", at + n, t->n);
    }
    if (!isfinite(t->nll)) HD_FAIL(err, HD_ERR_NUMERIC, "the mean NLL is not a finite number");
    return HD_OK;
}

static void print(hd_eval_job *j, const text_sum *t, const hd_engine_info *info)
{
    double const mean = t->nll / t->n, perplexity = exp(mean);
    if (j->is_json)
        hd_buffer_printf(&j->out,
                         "{\"tokens\": %d, \"windows\": %d, \"nll\": %.9g, \"perplexity\": %.9g, "
                         "\"act\": \"%s\"}\n",
                         t->n, t->n_windows, mean, perplexity, hd_act_name(info->act));
    else
        hd_buffer_printf(&j->out,
                         "tokens      %d\nwindows     %d\nmean NLL    %.6f\nperplexity  %.6f\n",
                         t->n, t->n_windows, mean, perplexity);
}

static hd_status measure(hd_eval_job *j, text_sum *t, const hd_engine_info *info, hd_error *err)
{
    HD_TRY(encode(j, t, err));
    t->window[0] = info->bos;
    HD_TRY(score(j, t, err));
    print(j, t, info);
    return HD_OK;
}

hd_status hd_eval_text(hd_eval_job *j, hd_error *err)
{
    hd_engine_info info;
    hd_engine_info_get(j->engine, &info);
    if (info.max_tokens < 2)
        HD_FAIL(err, HD_ERR_INVALID, "--context 1: a window needs room for 2 tokens");
    text_sum        t = {.context = info.max_tokens};
    hd_status const s = measure(j, &t, &info, err);
    hd_memory_free(t.ids);
    hd_memory_free(t.window);
    hd_memory_free(t.logprob);
    return s;
}
