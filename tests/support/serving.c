#include "serving.h"

#include <string.h>

#include "base/digest.h"

static uint32_t mix(uint32_t x)
{
    x ^= x >> 16;
    x *= 0x7FEB352Du;
    x ^= x >> 15;
    x *= 0x846CA68Bu;
    return x ^ x >> 16;
}

/* Lengths around edges of groups, windows and pages are as likely as any. */
static int32_t length_of(int32_t i)
{
    static const int32_t edges[] = {1, 3, 4, 5, 127, 128, 129, 130, 255, 256, 257, 300};
    int32_t const        n = (int32_t)(sizeof edges / sizeof edges[0]);
    uint32_t const       r = mix((uint32_t)i + 77);
    return r % 4 == 0 ? edges[r / 4 % (uint32_t)n] : 1 + (int32_t)(r / 4 % 60);
}

static hd_sampling sampling_of(int32_t i, hd_logit_bias *bias)
{
    *bias = (hd_logit_bias){i % 50 + 5, 3.5f};
    switch (i % 5) {
    case 1: return (hd_sampling){.temperature = 1, .seed = (uint64_t)i};
    case 2: return (hd_sampling){.temperature = 0.8f, .top_k = 20, .top_p = 0.9f, .seed = 5};
    case 3: return (hd_sampling){.repetition_penalty = 1.3f, .presence_penalty = 0.5f};
    case 4: return (hd_sampling){.temperature = 1.5f, .min_p = 0.01f, .bias = bias, .n_bias = 1};
    default: return (hd_sampling){0};
    }
}

void make_request(hd_request *out, int32_t i, int32_t *prompt, hd_logit_bias *bias, int32_t n_vocab)
{
    int32_t const n = length_of(i);
    for (int32_t t = 0; t < n; t++)
        prompt[t] = (int32_t)(mix((uint32_t)(i * 1000 + t)) % (uint32_t)(n_vocab - 3)) + 3;
    *out = (hd_request){.prompt = prompt,
                        .n_prompt = n,
                        .generate = {.sampling = sampling_of(i, bias),
                                     .max_new = 1 + (int32_t)(mix((uint32_t)i) % 12),
                                     .n_top = i % 4,
                                     .is_raw = i % 3 != 0,
                                     .start = HD_START_CONTENT,
                                     .ignore_eos = true},
                        .is_scored = i % 7 == 0,
                        .on_event = hear_answer};
}

static void add_sampled(heard *h, const hd_sampled *s)
{
    h->digest = hd_digest_add(h->digest ? h->digest : HD_DIGEST_START, &s->token, sizeof s->token);
    h->digest = hd_digest_add(h->digest, s->top, (size_t)s->n_top * sizeof s->top[0]);
}

static void add_text(heard *h, const hd_parse_event *e)
{
    size_t const used = strlen(h->text), room = sizeof h->text - 1 - used;
    size_t const n = e->text_bytes < room ? e->text_bytes : room;
    memcpy(h->text + used, e->text, n);
    h->text[used + n] = 0;
}

bool hear_answer(void *user, const hd_answer_event *e)
{
    heard *const h = user;
    if (e->prompt) {
        h->n_prompt++;
        add_sampled(h, e->prompt);
    }
    if (e->parse) add_text(h, e->parse);
    if (e->end) {
        h->n_ends++;
        h->end = *e->end;
    }
    if (!e->token) return true;
    if (h->n_tokens < (int32_t)(sizeof h->ids / sizeof h->ids[0]))
        h->ids[h->n_tokens] = e->token->token.id;
    h->n_tokens++;
    add_sampled(h, e->token);
    return h->leave_at == 0 || h->n_tokens < h->leave_at;
}
