/* The engine as a program sees it, on the demo model: options, sessions, generation, refusals and
 * short memory. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../support/fail_each.h"
#include "../support/golden.h"
#include "base/cpu.h"

#define DEMO     "models/demo"
#define N_VOCAB  2048
#define MOST     512 /* tokens of any prompt here */
#define QUESTION "[{\"role\": \"user\", \"content\": \"What is the capital of France?\"}]"
#define ANSWER   "The capital of France is Paris."
#define EOS_TEXT    \
    "<\xEF\xBD\x9C" \
    "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"

static const char weather[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"You are a helpful assistant.\"},"
    " {\"role\": \"user\", \"content\": \"What is the weather in Beijing?\"}],"
    " \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"get_weather\","
    " \"description\": \"Get the weather of a city\", \"parameters\": {\"type\": \"object\","
    " \"properties\": {\"location\": {\"type\": \"string\"}}, \"required\": [\"location\"]}}},"
    " {\"type\": \"function\", \"function\": {\"name\": \"calculate\","
    " \"description\": \"Multiply two numbers\", \"parameters\": {\"type\": \"object\","
    " \"properties\": {\"a\": {\"type\": \"integer\"}, \"b\": {\"type\": \"integer\"}},"
    " \"required\": [\"a\", \"b\"]}}}]}";

/* One engine for all tests that do not need their own; sessions are closed by each test. */
static hd_engine *shared;

static int open_shared(void **state)
{
    hd_options const o = {.model = DEMO, .max_tokens = MOST, .n_sessions = 2, .chunk = 64};
    hd_error         err = {0};
    (void)state;
    if (hd_engine_open(&shared, &o, &err) != HD_OK) fail_msg("%s", err.message);
    return 0;
}

static int close_shared(void **state)
{
    (void)state;
    hd_engine_close(shared);
    return 0;
}

static hd_session *open_session(hd_engine *e)
{
    hd_session *s = NULL;
    hd_error    err = {0};
    if (hd_session_open(&s, e, &err) != HD_OK) fail_msg("%s", err.message);
    assert_int_equal(hd_session_length(s), 0);
    return s;
}

/* ---- sessions ---- */

static const int32_t some[] = {0, 17, 450, 3, 2047, 88, 9, 9};
#define N_SOME ((int32_t)(sizeof some / sizeof some[0]))

static void eval(hd_session *s, const int32_t *tokens, int32_t n)
{
    hd_error err = {0};
    if (hd_session_eval(s, tokens, n, &err) != HD_OK) fail_msg("%s", err.message);
}

static void copy_logits(hd_session *s, float *out)
{
    const float *logits = NULL;
    assert_int_equal(hd_session_logits(s, &logits, NULL), HD_OK);
    memcpy(out, logits, N_VOCAB * sizeof *out);
}

static void check_logits(hd_session *s, const float *want)
{
    float got[N_VOCAB];
    copy_logits(s, got);
    assert_memory_equal(got, want, sizeof got);
}

static void test_info(void **state)
{
    hd_engine_info i;
    (void)state;
    hd_engine_info_get(shared, &i);
    assert_string_equal(i.family, "NVFP4 x 412, BF16 x 9");
    assert_int_equal(i.act, HD_ACT_NVFP4);
    assert_int_equal(i.isa, hd_cpu_isa()); /* nobody chose: all that the machine has */
    assert_int_equal(i.n_layers, 6);
    assert_int_equal(i.n_vocab, N_VOCAB);
    assert_int_equal(i.max_tokens, MOST);
    assert_int_equal(i.bos, 0);
    assert_int_equal(i.eos, 1);
    assert_true(i.has_mtp);
    assert_in_range(i.weight_bytes, 12000000, 13000000);
    assert_true(i.kv_bytes > 0 && i.act_bytes > 0);
    assert_int_equal(i.dialect, HD_DIALECT_PREVIEW);
    assert_int_equal(hd_tokenizer_vocab(hd_engine_tokenizer(shared)), N_VOCAB);
}

typedef struct steps {
    int64_t done, total;
    int32_t n;
} steps;

static void count_steps(void *user, const char *what, int64_t done, int64_t total)
{
    steps *const s = user;
    if (strcmp(what, "loading weights") != 0) return;
    assert_true(done >= s->done && done <= total && (!s->n || total == s->total));
    *s = (steps){done, total, s->n + 1};
}

/* Loading shows that it goes on, once for each projection of the experts of a layer. */
static void test_progress(void **state)
{
    steps            s = {0};
    hd_engine       *e = NULL;
    hd_options const o = {.model = DEMO, .max_tokens = 8, .progress = count_steps, .user = &s};
    (void)state;
    assert_int_equal(hd_engine_open(&e, &o, NULL), HD_OK);
    assert_int_equal(s.done, s.total);
    assert_int_equal(s.n, 3 * (6 + 1) + 1);
    hd_engine_close(e);
}

static void test_session_limit(void **state)
{
    hd_session *const a = open_session(shared), *const b = open_session(shared);
    hd_session *c = NULL;
    hd_error    err = {0};
    (void)state;
    assert_ptr_not_equal(a, b);
    assert_int_equal(hd_session_open(&c, shared, &err), HD_ERR_LIMIT);
    assert_string_equal(err.message, "all 2 sessions are in use");
    assert_null(c);
    hd_session_close(a);
    c = open_session(shared);
    hd_session_close(b);
    hd_session_close(c);
    hd_session_close(NULL);
}

/* What a refused call must leave: length, logits and the next token's logits. */
static void check_refused(hd_session *s, const int32_t *tokens, int32_t n, hd_status code,
                          const char *message)
{
    float         before[N_VOCAB], score[4];
    hd_error      err = {0};
    int32_t const length = hd_session_length(s);
    copy_logits(s, before);
    assert_int_equal(hd_session_eval(s, tokens, n, &err), code);
    assert_string_equal(err.message, message);
    assert_int_equal(hd_session_score(s, tokens, n, score, NULL), code);
    assert_int_equal(hd_session_eval(s, tokens, n, NULL), code);
    assert_int_equal(hd_session_length(s), length);
    check_logits(s, before);
}

/* NUM-13: ids outside the vocabulary, wherever they stand; nothing is evaluated. */
static void test_bad_ids(void **state)
{
    static const int32_t low[] = {5, -1, 6}, high[] = {5, 6, 2048}, wild[] = {INT32_MIN};
    float                want[N_VOCAB];
    hd_session *const    s = open_session(shared);
    (void)state;
    eval(s, some, N_SOME);
    copy_logits(s, want);
    hd_session_reset(s);
    eval(s, some, 4);
    check_refused(s, low, 3, HD_ERR_INVALID, "token 1 has id -1, the vocabulary is 0 .. 2047");
    check_refused(s, high, 3, HD_ERR_INVALID, "token 2 has id 2048, the vocabulary is 0 .. 2047");
    check_refused(s, wild, 1, HD_ERR_INVALID,
                  "token 0 has id -2147483648, the vocabulary is 0 .. 2047");
    check_refused(s, some, -1, HD_ERR_INVALID, "-1 tokens given");
    check_refused(s, NULL, 3, HD_ERR_INVALID, "3 tokens given");
    eval(s, some + 4, N_SOME - 4);
    check_logits(s, want);
    hd_session_close(s);
}

static void test_context_overflow(void **state)
{
    enum { CONTEXT = 20 };
    int32_t           many[CONTEXT + 1] = {0};
    hd_engine *const  e = open_engine(DEMO, HD_ACT_DEFAULT, CONTEXT, 16);
    hd_session *const s = open_session(e);
    (void)state;
    eval(s, some, N_SOME);
    check_refused(s, many, CONTEXT - N_SOME + 1, HD_ERR_LIMIT,
                  "13 tokens after 8 do not fit a context of 20");
    check_refused(s, many, CONTEXT + 1, HD_ERR_LIMIT,
                  "21 tokens after 8 do not fit a context of 20");
    eval(s, many, CONTEXT - N_SOME);
    assert_int_equal(hd_session_length(s), CONTEXT);
    check_refused(s, some, 1, HD_ERR_LIMIT, "1 tokens after 20 do not fit a context of 20");
    hd_session_close(s);
    hd_engine_close(e);
}

/* Reset, and a place that another session had before, give the bits of a fresh one. */
static void test_reuse(void **state)
{
    float             want[N_VOCAB];
    int32_t           other[140];
    hd_session *const s = open_session(shared);
    (void)state;
    for (int32_t i = 0; i < 140; i++) other[i] = (i * 37) % N_VOCAB;
    eval(s, some, N_SOME);
    copy_logits(s, want);
    hd_session_reset(s);
    assert_int_equal(hd_session_length(s), 0);
    eval(s, other, 140);
    hd_session_reset(s);
    eval(s, some, N_SOME);
    check_logits(s, want);
    hd_session_close(s);
    hd_session *const again = open_session(shared);
    eval(again, some, 3);
    eval(again, some + 3, N_SOME - 3);
    check_logits(again, want);
    hd_session_close(again);
}

static void test_nothing_evaluated(void **state)
{
    const float      *logits = NULL;
    hd_error          err = {0};
    hd_session *const s = open_session(shared);
    (void)state;
    assert_int_equal(hd_session_logits(s, &logits, &err), HD_ERR_INVALID);
    assert_string_equal(err.message, "no token has been evaluated yet");
    assert_null(logits);
    eval(s, NULL, 0);
    assert_int_equal(hd_session_logits(s, &logits, NULL), HD_ERR_INVALID);
    eval(s, some, 2);
    assert_int_equal(hd_session_logits(s, &logits, NULL), HD_OK);
    eval(s, NULL, 0);
    assert_int_equal(hd_session_length(s), 2);
    hd_session_reset(s);
    assert_int_equal(hd_session_logits(s, &logits, NULL), HD_ERR_INVALID);
    hd_session_close(s);
}

/* ---- options ---- */

static void test_bad_options(void **state)
{
    static const struct {
        hd_options  o;
        hd_status   code;
        const char *message;
    } cases[] = {
        {{.model = NULL}, HD_ERR_INVALID, "no model named"},
        {{.model = "models/none"}, HD_ERR_IO, "models/none: no such folder"},
        {{.model = "README.md"}, HD_ERR_IO, "README.md: no such folder"},
        {{.model = "models"}, HD_ERR_IO, "models/config.json: No such file or directory"},
        {{.model = DEMO, .max_tokens = -1},
         HD_ERR_INVALID,
         "context of -1 tokens: this model takes 1 .. 1048576"},
        {{.model = DEMO, .max_tokens = 1048577},
         HD_ERR_INVALID,
         "context of 1048577 tokens: this model takes 1 .. 1048576"},
        {{.model = DEMO, .n_sessions = -1}, HD_ERR_INVALID, "-1 sessions: wanted 1 .. 4096"},
        {{.model = DEMO, .n_sessions = 4097}, HD_ERR_INVALID, "4097 sessions: wanted 1 .. 4096"},
        {{.model = DEMO, .chunk = -5}, HD_ERR_INVALID, "chunk of -5 tokens: wanted 1 .. 65536"},
        {{.model = DEMO, .chunk = 65537},
         HD_ERR_INVALID,
         "chunk of 65537 tokens: wanted 1 .. 65536"},
        {{.model = DEMO, .act = (hd_act)9}, HD_ERR_INVALID, "activation mode 9: wanted 0 .. 3"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hd_engine *e = NULL;
        hd_error   err = {0};
        assert_int_equal(hd_engine_open(&e, &cases[i].o, &err), cases[i].code);
        assert_string_equal(err.message, cases[i].message);
        assert_null(e);
        assert_int_equal(hd_engine_open(&e, &cases[i].o, NULL), cases[i].code);
    }
    hd_engine_close(NULL);
}

static void test_act_names(void **state)
{
    hd_act act = HD_ACT_DEFAULT;
    (void)state;
    for (hd_act a = HD_ACT_DEFAULT; a <= HD_ACT_NVFP4; a++) {
        assert_true(hd_act_from_name(&act, hd_act_name(a)));
        assert_int_equal(act, a);
    }
    assert_false(hd_act_from_name(&act, "fp8"));
    assert_string_equal(hd_act_name((hd_act)9), "unknown");
}

/* ---- generation ---- */

typedef struct heard {
    char    content[4096], reasoning[1024], calls[256];
    int32_t n_tokens, n_calls, last, most; /* most tokens before the callback says no; 0: all */
    int32_t n_top;                         /* of each token                                  */
    int32_t ids[MOST];
    bool    content_before_reasoning;
} heard;

static void append(char *to, size_t cap, const char *text, size_t bytes)
{
    size_t const used = strlen(to);
    assert_true(used + bytes < cap);
    memcpy(to + used, text, bytes);
    to[used + bytes] = 0;
}

static void hear_parse(heard *h, const hd_parse_event *e)
{
    if (e->kind == HD_PARSE_CONTENT) append(h->content, sizeof h->content, e->text, e->text_bytes);
    if (e->kind == HD_PARSE_REASONING) {
        h->content_before_reasoning |= h->content[0] != 0;
        append(h->reasoning, sizeof h->reasoning, e->text, e->text_bytes);
    }
    if (e->kind != HD_PARSE_CALL) return;
    append(h->calls, sizeof h->calls, e->name, e->name_bytes);
    append(h->calls, sizeof h->calls, e->text, e->text_bytes);
    assert_int_equal(e->index, h->n_calls);
    h->n_calls++;
}

static bool hear(void *user, const hd_generate_event *e)
{
    heard *const h = user;
    assert_true((e->token != NULL) != (e->parse != NULL));
    if (e->parse) hear_parse(h, e->parse);
    if (!e->token) return true;
    assert_true(h->most == 0 || h->n_tokens < h->most);
    h->n_top = e->token->n_top;
    h->last = e->token->token.id;
    h->ids[h->n_tokens++] = h->last;
    return h->most == 0 || h->n_tokens < h->most;
}

typedef struct asked {
    int32_t ids[MOST];
    int32_t n;
    bool    has_tools;
} asked;

static hd_status try_ask(asked *a, const char *messages, hd_think think, hd_error *err)
{
    hd_prompt p = {0};
    HD_TRY(hd_prompt_chat(&p, messages, strlen(messages), HD_DIALECT_PREVIEW, think, err));
    a->has_tools = p.has_tools;
    hd_status const s = hd_prompt_encode(&p, hd_engine_tokenizer(shared), a->ids, MOST, &a->n, err);
    hd_prompt_free(&p);
    return s;
}

static asked ask(const char *messages, hd_think think)
{
    asked    a = {.n = 0};
    hd_error err = {0};
    if (try_ask(&a, messages, think, &err) != HD_OK) fail_msg("%s", err.message);
    return a;
}

static hd_generate_options options_for(const asked *a, heard *h)
{
    return (hd_generate_options){
        .start = HD_START_CONTENT, .has_tools = a->has_tools, .on_event = hear, .user = h};
}

static hd_generate_result generate(hd_session *s, const asked *a, const hd_generate_options *o)
{
    hd_error           err = {0};
    hd_generate_result r = {.n_new = 0};
    if (hd_generate(s, a->ids, a->n, o, &r, &err) != HD_OK) fail_msg("%s", err.message);
    assert_int_equal(r.n_prompt, a->n);
    assert_true(r.prompt_s >= 0 && r.new_s >= 0);
    return r;
}

/* Up to the end of the sentence, which is counted and no text. */
static void test_answer(void **state)
{
    heard               h = {.last = -1};
    asked const         a = ask(QUESTION, HD_THINK_OFF);
    hd_generate_options o = options_for(&a, &h);
    hd_session *const   s = open_session(shared);
    (void)state;
    o.n_top = 3;
    hd_generate_result const r = generate(s, &a, &o);
    assert_string_equal(h.content, ANSWER);
    assert_int_equal(r.finish, HD_FINISH_STOP);
    assert_int_equal(r.n_new, h.n_tokens);
    assert_int_equal(h.last, 1);
    assert_int_equal(h.n_top, 3);
    assert_int_equal(hd_session_length(s), a.n + r.n_new - 1);
    hd_session_close(s);
}

static void test_raw(void **state)
{
    heard               h = {.last = -1};
    asked const         a = ask(QUESTION, HD_THINK_OFF);
    hd_generate_options o = options_for(&a, &h);
    hd_session *const   s = open_session(shared);
    (void)state;
    o.is_raw = true;
    assert_int_equal(generate(s, &a, &o).finish, HD_FINISH_STOP);
    assert_string_equal(h.content, ANSWER);
    hd_session_close(s);
}

/* The end is passed over, in the text too, with and without the parser. */
static void test_ignore_eos(void **state)
{
    asked const       a = ask(QUESTION, HD_THINK_OFF);
    hd_session *const s = open_session(shared);
    (void)state;
    for (int raw = 0; raw <= 1; raw++) {
        heard               h = {.last = -1};
        hd_generate_options o = options_for(&a, &h);
        o.is_raw = raw != 0;
        o.ignore_eos = true;
        o.max_new = 30;
        hd_session_reset(s);
        hd_generate_result const r = generate(s, &a, &o);
        assert_int_equal(r.n_new, 30);
        assert_int_equal(r.finish, HD_FINISH_LENGTH);
        assert_memory_equal(h.content, ANSWER, strlen(ANSWER));
        assert_null(strstr(h.content, EOS_TEXT));
    }
    hd_session_close(s);
}

static void test_limits(void **state)
{
    asked const         a = ask(QUESTION, HD_THINK_OFF);
    heard               h = {.last = -1};
    hd_generate_options o = options_for(&a, &h);
    (void)state;
    o.max_new = 3;
    hd_session *s = open_session(shared);
    assert_int_equal(generate(s, &a, &o).finish, HD_FINISH_LENGTH);
    assert_int_equal(h.n_tokens, 3);
    assert_int_equal(hd_session_length(s), a.n + 2);
    hd_session_close(s);

    /* The context ends two tokens behind the prompt: a third is drawn and not read. */
    hd_engine *const small = open_engine(DEMO, HD_ACT_DEFAULT, a.n + 2, 16);
    s = open_session(small);
    h = (heard){.last = -1};
    o.max_new = 0;
    assert_int_equal(generate(s, &a, &o).finish, HD_FINISH_LENGTH);
    assert_int_equal(h.n_tokens, 3);
    assert_int_equal(hd_session_length(s), a.n + 2);

    hd_error           err = {0};
    hd_generate_result r;
    assert_int_equal(hd_generate(s, a.ids, a.n, &o, &r, &err), HD_ERR_LIMIT);
    assert_int_equal(hd_session_length(s), a.n + 2);
    hd_session_close(s);
    hd_engine_close(small);
}

static void test_stop_strings(void **state)
{
    static const char *const stops[] = {"Berlin", " of Fr"};
    asked const              a = ask(QUESTION, HD_THINK_OFF);
    heard                    h = {.last = -1};
    hd_generate_options      o = options_for(&a, &h);
    hd_session *const        s = open_session(shared);
    (void)state;
    o.stop = stops;
    o.n_stop = 2;
    assert_int_equal(generate(s, &a, &o).finish, HD_FINISH_STOP);
    assert_string_equal(h.content, "The capital");
    assert_int_not_equal(h.last, 1);
    hd_session_close(s);
}

/* A stop id ends the answer where it is drawn, and is no text; EOS need not be the end for it. */
static void test_stop_ids(void **state)
{
    asked const         a = ask(QUESTION, HD_THINK_OFF);
    heard               all = {.last = -1};
    hd_generate_options o = options_for(&a, &all);
    hd_session *const   s = open_session(shared);
    (void)state;
    generate(s, &a, &o);
    for (int raw = 0; raw <= 1; raw++) {
        int32_t const ids[] = {2047, all.ids[2]};
        heard         h = {.last = -1};
        o = options_for(&a, &h);
        o.is_raw = raw != 0;
        o.ignore_eos = raw != 0;
        o.stop_ids = ids;
        o.n_stop_ids = 2;
        hd_session_reset(s);
        hd_generate_result const r = generate(s, &a, &o);
        assert_int_equal(r.finish, HD_FINISH_STOP);
        assert_int_equal(r.n_new, 3);
        assert_memory_equal(h.ids, all.ids, 3 * sizeof *h.ids);
        size_t      bytes = 0;
        const char *third = hd_tokenizer_bytes(hd_engine_tokenizer(shared), all.ids[2], &bytes);
        assert_true(strncmp(h.content, ANSWER, strlen(h.content)) == 0);
        assert_true(strncmp(&ANSWER[strlen(h.content)], third, bytes) == 0);
    }
    hd_session_close(s);
}

/* Neither EOS nor a stop id is drawn before min_new; the token after may be one. */
static void test_min_new(void **state)
{
    asked const         a = ask(QUESTION, HD_THINK_OFF);
    heard               all = {.last = -1}, h = {.last = -1};
    hd_generate_options o = options_for(&a, &all);
    hd_session *const   s = open_session(shared);
    (void)state;
    int32_t const n = generate(s, &a, &o).n_new;
    o.user = &h;
    o.min_new = n + 5;
    o.stop_ids = &all.ids[2];
    o.n_stop_ids = 1;
    hd_session_reset(s);
    hd_generate_result const r = generate(s, &a, &o);
    assert_true(r.n_new > n + 5 || r.finish == HD_FINISH_LENGTH);
    assert_memory_equal(h.ids, all.ids, 2 * sizeof *h.ids);
    for (int32_t i = 0; i < n + 5; i++) assert_true(h.ids[i] != 1 && h.ids[i] != all.ids[2]);
    /* As many as it has anyway change nothing. */
    h = (heard){.last = -1};
    o.min_new = n - 1;
    o.n_stop_ids = 0;
    hd_session_reset(s);
    assert_int_equal(generate(s, &a, &o).n_new, n);
    assert_memory_equal(h.ids, all.ids, (size_t)n * sizeof *h.ids);
    hd_session_close(s);
}

/* Greedy too: a bias decides the token, a penalty takes it away again once it was drawn, and
 * repetition counts the prompt. */
static void test_penalties(void **state)
{
    hd_logit_bias const bias[] = {{1234, 100}};
    asked const         a = ask(QUESTION, HD_THINK_OFF);
    hd_session *const   s = open_session(shared);
    (void)state;
    for (int i = 0; i < 3; i++) {
        heard               h = {.last = -1};
        hd_generate_options o = options_for(&a, &h);
        o.is_raw = true;
        o.max_new = 12;
        o.sampling.bias = bias;
        o.sampling.n_bias = 1;
        if (i == 1) o.sampling.repetition_penalty = 50;
        if (i == 2) o.sampling.presence_penalty = o.sampling.frequency_penalty = 2;
        hd_session_reset(s);
        generate(s, &a, &o);
        int32_t seen = 0;
        for (int j = 0; j < h.n_tokens; j++) seen += h.ids[j] == 1234;
        assert_int_equal(h.ids[0], 1234);
        if (i != 1) assert_int_equal(seen, 12);
        if (i == 1) assert_int_equal(seen, 1);
    }
    hd_session_close(s);
}

/* Frequency alone breaks a loop that greedy decoding stays in. */
static void test_frequency(void **state)
{
    asked const       a = ask(QUESTION, HD_THINK_OFF);
    hd_session *const s = open_session(shared);
    int32_t           most[2] = {0};
    (void)state;
    for (int i = 0; i < 2; i++) {
        int32_t             counts[N_VOCAB] = {0};
        heard               h = {.last = -1};
        hd_generate_options o = options_for(&a, &h);
        o.is_raw = o.ignore_eos = true;
        o.max_new = 200;
        o.sampling.frequency_penalty = i ? 2 : 0;
        hd_session_reset(s);
        generate(s, &a, &o);
        for (int j = 0; j < h.n_tokens; j++)
            if (++counts[h.ids[j]] > most[i]) most[i] = counts[h.ids[j]];
    }
    print_message("most of one token: %d, with the penalty %d\n", most[0], most[1]);
    assert_true(most[1] < most[0]);
    hd_session_close(s);
}

/* A prompt that fills the context: one token is drawn, and there is no room to read it. */
static void test_end_of_context(void **state)
{
    asked const         a = ask(QUESTION, HD_THINK_OFF);
    heard               h = {.last = -1};
    hd_generate_options o = options_for(&a, &h);
    hd_engine *const    small = open_engine(DEMO, HD_ACT_DEFAULT, a.n, 16);
    hd_session *const   s = open_session(small);
    hd_error            err = {0};
    char                want[128];
    (void)state;
    o.min_new = 9;
    hd_generate_result const r = generate(s, &a, &o);
    assert_int_equal(r.finish, HD_FINISH_LENGTH);
    assert_int_equal(r.n_new, 1);
    assert_int_equal(hd_session_length(s), a.n);
    snprintf(want, sizeof want, "1 tokens after %d do not fit a context of %d", a.n, a.n);
    assert_int_equal(hd_session_eval(s, &h.last, 1, &err), HD_ERR_LIMIT);
    assert_string_equal(err.message, want);
    hd_session_close(s);
    hd_engine_close(small);
}

static void test_cancel(void **state)
{
    asked const         a = ask(QUESTION, HD_THINK_OFF);
    heard               all = {.last = -1}, h = {.most = 2}, rest = {.last = -1};
    hd_generate_options o = options_for(&a, &all);
    hd_session *const   s = open_session(shared);
    hd_error            err = {0};
    hd_generate_result  r;
    (void)state;
    generate(s, &a, &o);
    hd_session_reset(s);
    o.user = &h;
    assert_int_equal(hd_generate(s, a.ids, a.n, &o, &r, &err), HD_ERR_CANCELLED);
    assert_string_equal(err.message, "stopped by the caller");
    assert_int_equal(h.n_tokens, 2);
    assert_int_equal(hd_session_length(s), a.n + 1);
    /* The session goes on with the token that was not read yet. */
    o.user = &rest;
    assert_int_equal(hd_generate(s, &h.last, 1, &o, &r, &err), HD_OK);
    assert_int_equal(rest.n_tokens, all.n_tokens - 2);
    assert_memory_equal(rest.ids, all.ids + 2, (size_t)rest.n_tokens * sizeof *rest.ids);
    hd_session_close(s);
}

static void test_tool_call(void **state)
{
    asked const         a = ask(weather, HD_THINK_OFF);
    heard               h = {.last = -1};
    hd_generate_options o = options_for(&a, &h);
    hd_session *const   s = open_session(shared);
    (void)state;
    assert_true(a.has_tools);
    assert_int_equal(generate(s, &a, &o).finish, HD_FINISH_TOOL_CALLS);
    assert_string_equal(h.calls, "get_weather{\"location\": \"Beijing\"}");
    assert_int_equal(h.n_calls, 1);
    hd_session_close(s);
}

static void test_reasoning(void **state)
{
    asked const         a = ask(QUESTION, HD_THINK_HIGH);
    heard               h = {.last = -1};
    hd_generate_options o = options_for(&a, &h);
    hd_session *const   s = open_session(shared);
    (void)state;
    o.start = HD_START_REASONING;
    assert_int_equal(generate(s, &a, &o).finish, HD_FINISH_STOP);
    assert_true(h.reasoning[0] != 0);
    assert_null(strstr(h.reasoning, "think>"));
    assert_string_equal(h.content, ANSWER);
    assert_false(h.content_before_reasoning);
    hd_session_close(s);
}

static void test_seeds(void **state)
{
    asked const       a = ask(QUESTION, HD_THINK_OFF);
    heard             h[3];
    hd_session *const s = open_session(shared);
    (void)state;
    for (int i = 0; i < 3; i++) {
        h[i] = (heard){.last = -1};
        hd_generate_options o = options_for(&a, &h[i]);
        o.sampling = (hd_sampling){.temperature = 3, .seed = i == 2 ? 8 : 7};
        o.max_new = 20;
        o.ignore_eos = true;
        hd_session_reset(s);
        generate(s, &a, &o);
    }
    assert_memory_equal(h[0].ids, h[1].ids, 20 * sizeof *h[0].ids);
    assert_memory_not_equal(h[0].ids, h[2].ids, 20 * sizeof *h[0].ids);
    hd_session_close(s);
}

/* Nothing to continue is an error; what is there already can be continued without a prompt. */
static void test_empty_prompt(void **state)
{
    asked const         a = ask(QUESTION, HD_THINK_OFF);
    heard               h = {.last = -1};
    hd_generate_options o = options_for(&a, &h);
    hd_session *const   s = open_session(shared);
    hd_error            err = {0};
    hd_generate_result  r;
    (void)state;
    assert_int_equal(hd_generate(s, NULL, 0, &o, &r, &err), HD_ERR_INVALID);
    assert_string_equal(err.message, "an empty prompt: nothing to continue");
    assert_int_equal(h.n_tokens, 0);
    eval(s, a.ids, a.n);
    assert_int_equal(hd_generate(s, NULL, 0, &o, &r, NULL), HD_OK);
    assert_string_equal(h.content, ANSWER);
    hd_session_close(s);
}

/* Refused before the prompt is read. */
static void test_bad_generation(void **state)
{
    static const char *const stops[] = {"x"};
    asked const              a = ask(QUESTION, HD_THINK_OFF);
    heard                    h = {.last = -1};
    static const int32_t     ids[] = {3, 2048}, low = -1;
    static const char *const messages[] = {
        "max_new -1: wanted 0 or more",
        "-2 stop strings: wanted 0 or more",
        "1 stop strings: raw output is not searched for them",
        "temperature -1: wanted 0 or more",
        "21 alternatives: wanted 0 .. 20",
        "min_new -1: wanted 0 or more",
        "min_new 4: wanted 0 .. 3, which is max_new",
        "stop id 2048: the vocabulary is 0 .. 2047",
        "stop id -1: the vocabulary is 0 .. 2047",
        "65 stop ids: wanted 0 .. 64",
        "1 stop ids: wanted 0 .. 64",
        "logit bias of id 2048: the vocabulary is 0 .. 2047",
    };
    enum { N_BAD = sizeof messages / sizeof messages[0] };
    hd_generate_options o[N_BAD];
    hd_session *const   s = open_session(shared);
    (void)state;
    for (int i = 0; i < N_BAD; i++) o[i] = options_for(&a, &h);
    o[0].max_new = -1;
    o[1].n_stop = -2;
    o[2].is_raw = true, o[2].stop = stops, o[2].n_stop = 1;
    o[3].sampling.temperature = -1;
    o[4].n_top = 21;
    o[5].min_new = -1;
    o[6].min_new = 4, o[6].max_new = 3;
    o[7].stop_ids = ids, o[7].n_stop_ids = 2;
    o[8].stop_ids = &low, o[8].n_stop_ids = 1;
    o[9].stop_ids = ids, o[9].n_stop_ids = 65;
    o[10].n_stop_ids = 1;
    o[11].sampling.bias = &(const hd_logit_bias){2048, 1}, o[11].sampling.n_bias = 1;
    for (int i = 0; i < N_BAD; i++) {
        hd_error           err = {0};
        hd_generate_result r;
        assert_int_equal(hd_generate(s, a.ids, a.n, &o[i], &r, &err), HD_ERR_INVALID);
        assert_string_equal(err.message, messages[i]);
        assert_int_equal(hd_session_length(s), 0);
    }
    assert_int_equal(h.n_tokens, 0);
    hd_session_close(s);
}

/* ---- memory ---- */

/* After open nothing allocates: prefill of every chunk size, 100 tokens of decode, scores and
 * raw generation.  A sealed allocator ends the test. */
static void test_sealed(void **state)
{
    int32_t          tokens[400];
    float            score[40];
    heard            h = {.last = -1};
    hd_engine *const e = open_engine(DEMO, HD_ACT_DEFAULT, 400, 16);
    (void)state;
    for (int32_t i = 0; i < 400; i++) tokens[i] = (i * 131) % N_VOCAB;
    int64_t const before = hd_memory_count();
    hd_memory_seal();
    hd_session *const s = open_session(e);
    for (int32_t n = 1; n <= 16; n++) eval(s, tokens + hd_session_length(s), n);
    for (int32_t i = 0; i < 100; i++) {
        const float *logits;
        hd_sampled   drawn;
        assert_int_equal(hd_session_logits(s, &logits, NULL), HD_OK);
        hd_draw const d = {
            .logits = logits, .n = N_VOCAB, .n_top = 5, .step = (uint64_t)i, .scratch = s->scratch};
        assert_int_equal(hd_sample(&drawn, &(hd_sampling){.temperature = 1}, &d, NULL), HD_OK);
        eval(s, &drawn.token.id, 1);
    }
    assert_int_equal(hd_session_score(s, tokens, 40, score, NULL), HD_OK);
    hd_sampling const         changed = {.presence_penalty = 1,
                                         .repetition_penalty = 1.1f,
                                         .bias = &(const hd_logit_bias){3, 1},
                                         .n_bias = 1};
    hd_generate_options const o = {.sampling = changed,
                                   .is_raw = true,
                                   .max_new = 10,
                                   .min_new = 10,
                                   .ignore_eos = true,
                                   .on_event = hear,
                                   .user = &h};
    hd_generate_result        r;
    assert_int_equal(hd_generate(s, tokens, 33, &o, &r, NULL), HD_OK);
    hd_session_close(s);
    hd_memory_unseal();
    assert_int_equal(hd_memory_count(), before);
    assert_int_equal(h.n_tokens, 10);
    hd_engine_close(e);
}

static hd_status open_once(void *user, hd_error *err)
{
    hd_options const o = {.model = DEMO, .max_tokens = 64, .chunk = 8, .has_mtp = true};
    hd_engine      **e = user;
    HD_TRY(hd_engine_open(e, &o, err));
    hd_engine_close(*e);
    return HD_OK;
}

static void check_not_open(void *user, const hd_error *err)
{
    hd_engine *const *e = user;
    (void)err;
    assert_null(*e);
}

/* Every allocation of an open in turn fails once; a sanitizer sees what leaks. */
static void test_open_short_of_memory(void **state)
{
    hd_engine *e = NULL;
    (void)state;
    assert_in_range(fail_each(&(fail_each_call){hd_memory_fail_at, HD_ERR_MEMORY, open_once,
                                                check_not_open, &e}),
                    10, 10000);
}

static hd_status ask_once(void *user, hd_error *err)
{
    asked a = {.n = 0};
    (void)user;
    return try_ask(&a, weather, HD_THINK_HIGH, err);
}

/* The same for a prompt, which no model need read. */
static void test_prompt_short_of_memory(void **state)
{
    (void)state;
    assert_in_range(
        fail_each(&(fail_each_call){hd_memory_fail_at, HD_ERR_MEMORY, ask_once, NULL, NULL}), 4,
        1000);
}

typedef struct answering {
    asked       a;
    hd_session *s;
} answering;

static hd_status answer_once(void *user, hd_error *err)
{
    static const char *const stops[] = {"Berlin", "Rome"};
    const answering *const   x = user;
    heard                    h = {.last = -1};
    hd_generate_options      o = options_for(&x->a, &h);
    hd_generate_result       r;
    o.has_tools = true;
    o.stop = stops;
    o.n_stop = 2;
    hd_session_reset(x->s);
    HD_TRY(hd_generate(x->s, x->a.ids, x->a.n, &o, &r, err));
    assert_string_equal(h.content, ANSWER);
    return HD_OK;
}

/* And for an answer; the session goes on afterwards. */
static void test_answer_short_of_memory(void **state)
{
    answering x = {.a = ask(QUESTION, HD_THINK_OFF), .s = open_session(shared)};
    (void)state;
    assert_in_range(
        fail_each(&(fail_each_call){hd_memory_fail_at, HD_ERR_MEMORY, answer_once, NULL, &x}), 4,
        1000);
    hd_session_close(x.s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_info),
        cmocka_unit_test(test_progress),
        cmocka_unit_test(test_session_limit),
        cmocka_unit_test(test_bad_ids),
        cmocka_unit_test(test_context_overflow),
        cmocka_unit_test(test_reuse),
        cmocka_unit_test(test_nothing_evaluated),
        cmocka_unit_test(test_bad_options),
        cmocka_unit_test(test_act_names),
        cmocka_unit_test(test_answer),
        cmocka_unit_test(test_raw),
        cmocka_unit_test(test_ignore_eos),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_stop_strings),
        cmocka_unit_test(test_stop_ids),
        cmocka_unit_test(test_min_new),
        cmocka_unit_test(test_penalties),
        cmocka_unit_test(test_frequency),
        cmocka_unit_test(test_end_of_context),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_tool_call),
        cmocka_unit_test(test_reasoning),
        cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_empty_prompt),
        cmocka_unit_test(test_bad_generation),
        cmocka_unit_test(test_sealed),
        cmocka_unit_test(test_open_short_of_memory),
        cmocka_unit_test(test_prompt_short_of_memory),
        cmocka_unit_test(test_answer_short_of_memory),
    };
    return cmocka_run_group_tests(tests, open_shared, close_shared);
}
