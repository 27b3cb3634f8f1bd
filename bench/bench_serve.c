/* Tokens a second of 1, 8 and 32 answers at a time, and how long the others wait while a long
 * prompt is read.
 *
 *     make build/bench/bench_serve && build/bench/bench_serve [MODEL [PROMPT [NEW]]]
 *
 * All numbers of one run are of one process, one after the other. */
#include <stdio.h>
#include <stdlib.h>

#include "hadal_serve.h"

#include <time.h>

#define MOST_AT_ONCE 32

typedef struct asked {
    int32_t n_tokens;
    bool    has_ended;
    double  last, longest; /* seconds: of the last token, between two */
} asked;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void stop(const char *what, const hd_error *err)
{
    fprintf(stderr, "bench_serve: %s: %s\n", what, err->message);
    exit(1);
}

static bool hear(void *user, const hd_answer_event *e)
{
    asked *const a = user;
    if (e->end && e->end->error.code != HD_OK) stop("answer", &e->end->error);
    if (e->end) a->has_ended = true;
    if (!e->token) return true;
    double const at = now();
    if (a->n_tokens > 0 && at - a->last > a->longest) a->longest = at - a->last;
    a->last = at;
    a->n_tokens++;
    return true;
}

static void submit(hd_batch *b, asked *a, int32_t n_prompt, int32_t n_new, int32_t n_vocab)
{
    int32_t *const prompt = malloc((size_t)n_prompt * sizeof *prompt);
    hd_error       err = {0};
    if (!prompt) exit(1);
    for (int32_t i = 0; i < n_prompt; i++) prompt[i] = 3 + rand() % (n_vocab - 3);
    hd_request const r = {
        .prompt = prompt,
        .n_prompt = n_prompt,
        .generate = {.max_new = n_new, .is_raw = true, .ignore_eos = true},
        .on_event = hear,
        .user = a,
    };
    if (hd_batch_submit(b, &r, NULL, &err) != HD_OK) stop("request", &err);
    free(prompt);
}

static void run(hd_batch *b)
{
    hd_error err = {0};
    bool     is_idle = false;
    while (!is_idle)
        if (hd_batch_step(b, &is_idle, &err) != HD_OK) stop("pass", &err);
}

static void measure(hd_batch *b, int32_t at_once, int32_t n_prompt, int32_t n_new, int32_t n_vocab)
{
    asked        a[MOST_AT_ONCE] = {{0}};
    double const start = now();
    for (int32_t i = 0; i < at_once; i++) submit(b, &a[i], n_prompt, n_new, n_vocab);
    run(b);
    double const took = now() - start;
    printf("%2d at once: %7.1f tokens/s drawn, %8.1f tokens/s read and drawn\n", at_once,
           at_once * n_new / took, at_once * (double)(n_new + n_prompt) / took);
}

/* The longest pause of 4 answers, alone and while a prompt of `n` tokens is read. */
static void measure_pause(hd_batch *b, int32_t n, int32_t n_new, int32_t n_vocab)
{
    for (int is_read = 0; is_read < 2; is_read++) {
        asked   a[5] = {{0}};
        double  longest = 0;
        int32_t n_started = 0;
        for (int32_t i = 0; i < 4; i++) submit(b, &a[i], 4, n_new, n_vocab);
        while (n_started < 4) {
            hd_error err = {0};
            bool     is_idle;
            if (hd_batch_step(b, &is_idle, &err) != HD_OK) stop("pass", &err);
            for (n_started = 0; n_started < 4 && a[n_started].n_tokens > 0;) n_started++;
        }
        if (is_read) submit(b, &a[4], n, 1, n_vocab);
        run(b);
        for (int32_t i = 0; i < 4; i++) longest = a[i].longest > longest ? a[i].longest : longest;
        printf("longest pause of 4 answers, %s: %.1f ms\n",
               is_read ? "while a long prompt is read" : "alone", longest * 1e3);
    }
}

int main(int argc, char **argv)
{
    int32_t const          n_prompt = argc > 2 ? atoi(argv[2]) : 128;
    int32_t const          n_new = argc > 3 ? atoi(argv[3]) : 64;
    int32_t const          n_long = 4096;
    hd_options const       o = {.model = argc > 1 ? argv[1] : "models/demo",
                                .n_sessions = MOST_AT_ONCE,
                                .max_tokens = n_long + n_prompt + n_new,
                                .marks = -1};
    hd_batch_options const bo = {.ram_bytes = -1};
    hd_engine             *e = NULL;
    hd_batch              *b = NULL;
    hd_error               err = {0};
    hd_engine_info         info;
    if (n_prompt < 1 || n_new < 1 || n_prompt > 1 << 20 || n_new > 1 << 20) return 2;
    if (hd_engine_open(&e, &o, &err) != HD_OK) stop("model", &err);
    if (hd_batch_open(&b, e, &bo, &err) != HD_OK) stop("batch", &err);
    hd_engine_info_get(e, &info);
    printf("prompts of %d tokens, answers of %d, %d threads\n", n_prompt, n_new, info.n_threads);
    for (int32_t n = 1; n <= MOST_AT_ONCE; n *= n == 1 ? 8 : 4)
        measure(b, n, n_prompt, n_new, info.n_vocab);
    measure_pause(b, n_long, 2 * n_new, info.n_vocab);
    hd_batch_close(b);
    hd_engine_close(e);
    return 0;
}
