/* Time of masks on one thread.  Usage: bench_grammar MODEL [--rounds N]
 * Follows five answers, each under a grammar that it fits, token by token: a mask, then the token.
 * Prints for each answer: milliseconds to open the grammar; steps; microseconds of a mask, as
 * median, 99th percentile and most, when every state is met for the first time (cold, in a grammar
 * just opened; all rounds together) and when it was met before (warm). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "hadal_serve.h"

#define MAX_ROUNDS 99
#define MAX_IDS    4096

typedef struct sample {
    const char     *name;
    hd_grammar_kind kind;
    const char     *json;
    hd_parse_start  start;
    const char     *answer;
} sample;

static const sample samples[] = {
    {"object", HD_GRAMMAR_JSON, NULL, HD_START_CONTENT,
     "{\"name\": \"Ada Lovelace\", \"born\": 1815, \"fields\": [\"mathematics\", \"computing\"], "
     "\"notes\": {\"title\": \"Sketch of the Analytical Engine\", \"letters\": [1, 2.5, null, "
     "true]}, \"quote\": \"That brain of mine is something more than merely mortal; as time will "
     "show.\"}"},
    {"person", HD_GRAMMAR_SCHEMA,
     "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"age\":{\"type\":"
     "\"integer\",\"minimum\":0,\"maximum\":150},\"email\":{\"type\":\"string\",\"format\":"
     "\"email\"},\"tags\":{\"type\":\"array\",\"items\":{\"type\":\"string\",\"maxLength\":20},"
     "\"maxItems\":8},\"role\":{\"enum\":[\"admin\",\"editor\",\"viewer\"]}},\"required\":["
     "\"name\",\"age\",\"role\"],\"additionalProperties\":false}",
     HD_START_CONTENT,
     "{\"name\": \"Grace Hopper\", \"age\": 85, \"email\": \"grace.hopper@navy.example.org\", "
     "\"tags\": [\"compilers\", \"COBOL\", \"nanoseconds\"], \"role\": \"admin\"}"},
    {"tree", HD_GRAMMAR_SCHEMA,
     "{\"$defs\":{\"node\":{\"type\":\"object\",\"properties\":{\"label\":{\"type\":\"string\"},"
     "\"weight\":{\"type\":\"number\"},\"children\":{\"type\":\"array\",\"items\":{\"$ref\":"
     "\"#/$defs/node\"}}},\"required\":[\"label\",\"children\"],\"additionalProperties\":false}},"
     "\"$ref\":\"#/$defs/node\"}",
     HD_START_CONTENT,
     "{\n  \"label\": \"root\",\n  \"weight\": 1.25,\n  \"children\": [\n    {\n      \"label\": "
     "\"left hand side\",\n      \"children\": []\n    },\n    {\n      \"label\": \"right hand "
     "side\",\n      \"weight\": -3e-2,\n      \"children\": [{\"label\": \"leaf\", \"children\": "
     "[]}]\n    }\n  ]\n}"},
    {"choices", HD_GRAMMAR_SCHEMA,
     "{\"type\":\"object\",\"properties\":{\"steps\":{\"type\":\"array\",\"items\":{\"anyOf\":[{"
     "\"type\":\"object\",\"properties\":{\"kind\":{\"const\":\"read\"},\"path\":{\"type\":"
     "\"string\",\"pattern\":\"^[a-z/._]+$\"}},\"required\":[\"kind\",\"path\"]},{\"type\":"
     "\"object\",\"properties\":{\"kind\":{\"const\":\"write\"},\"path\":{\"type\":\"string\"},"
     "\"text\":{\"type\":\"string\"}},\"required\":[\"kind\",\"path\",\"text\"]},{\"type\":"
     "\"object\",\"properties\":{\"kind\":{\"const\":\"wait\"},\"until\":{\"type\":\"string\","
     "\"format\":\"date-time\"}},\"required\":[\"kind\",\"until\"]}]}}},\"required\":[\"steps\"]}",
     HD_START_CONTENT,
     "{\"steps\": [{\"kind\": \"read\", \"path\": \"src/main.c\"}, {\"kind\": \"write\", \"path\": "
     "\"notes.txt\", \"text\": \"All tests pass; nothing is left to do.\"}, {\"kind\": \"wait\", "
     "\"until\": \"2031-05-17T08:30:00Z\"}]}"},
    {"calls", HD_GRAMMAR_TOOL_CALLS,
     "[{\"type\":\"function\",\"function\":{\"name\":\"write_file\",\"parameters\":{\"type\":"
     "\"object\",\"properties\":{\"path\":{\"type\":\"string\"},\"content\":{\"type\":\"string\"},"
     "\"mode\":{\"type\":\"integer\"}},\"required\":[\"path\",\"content\"]}}},{\"type\":"
     "\"function\",\"function\":{\"name\":\"run\",\"parameters\":{\"type\":\"object\","
     "\"properties\":{\"argv\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}}},\"required\":["
     "\"argv\"]}}}]",
     HD_START_TOOL_CALLS,
     "<｜DSML｜invoke name=\"write_file\">\n<｜DSML｜parameter name=\"path\" string=\"true\">src/"
     "hello.c</｜DSML｜parameter>\n<｜DSML｜parameter name=\"content\" string=\"true\">#include "
     "<stdio.h>\n\nint main(void)\n{\n    printf(\"hello, world\\n\");\n    return 0;\n}\n</"
     "｜DSML｜parameter>\n<｜DSML｜parameter name=\"mode\" "
     "string=\"false\">420</｜DSML｜parameter>\n"
     "</｜DSML｜invoke>\n<｜DSML｜invoke name=\"run\">\n<｜DSML｜parameter name=\"argv\" "
     "string=\"false\">[\"cc\", \"-o\", \"hello\", \"src/hello.c\"]</｜DSML｜parameter>\n"
     "</｜DSML｜invoke>\n</｜DSML｜tool_calls>"},
};

typedef struct bench {
    const hd_tokenizer *t;
    int32_t             ids[MAX_IDS], n;
    uint32_t           *mask;
    hd_buffer           cold, warm; /* double: seconds of each mask */
    double              open_s;
} bench;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare_times(const void *a, const void *b)
{
    double const x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static hd_status follow(bench *b, const sample *s, const hd_grammar *g, hd_buffer *times,
                        hd_error *err)
{
    hd_matcher   *m = NULL;
    int32_t const n_vocab = hd_tokenizer_vocab(b->t), end = 1;
    HD_TRY(hd_matcher_open(&m, g, s->start, err));
    hd_status status = HD_OK;
    for (int32_t i = 0; i <= b->n && status == HD_OK; i++) {
        double const start = now_s();
        status = hd_matcher_mask(m, b->mask, n_vocab, &end, 1, err);
        double const took = now_s() - start;
        hd_buffer_add(times, &took, sizeof took);
        if (status == HD_OK && i < b->n) status = hd_matcher_accept(m, b->ids[i], err);
    }
    if (status == HD_OK && !(b->mask[0] & 2)) {
        fprintf(stderr, "%s: the answer may not end\n", s->name);
        status = HD_ERR_INVALID;
    }
    hd_matcher_close(m);
    return status;
}

static hd_status run_round(bench *b, const sample *s, hd_error *err)
{
    hd_grammar              *g = NULL;
    hd_grammar_options const opt = {
        .kind = s->kind, .json = s->json, .json_bytes = s->json ? strlen(s->json) : 0};
    double const start = now_s();
    HD_TRY(hd_grammar_open(&g, b->t, &opt, err));
    b->open_s = now_s() - start;
    hd_status status = follow(b, s, g, &b->cold, err);
    if (status == HD_OK) status = follow(b, s, g, &b->warm, err);
    hd_grammar_close(g);
    return status;
}

static void print_times(hd_buffer *times)
{
    double *const t = (double *)(void *)times->data;
    size_t const  n = times->used / sizeof *t;
    qsort(t, n, sizeof *t, compare_times);
    printf("  %8.1f %8.1f %8.1f", t[n / 2] * 1e6, t[n * 99 / 100] * 1e6, t[n - 1] * 1e6);
    hd_buffer_clear(times);
}

static hd_status bench_sample(bench *b, const sample *s, int rounds, hd_error *err)
{
    HD_TRY(
        hd_tokenizer_encode(b->t, s->answer, strlen(s->answer), true, b->ids, MAX_IDS, &b->n, err));
    for (int i = 0; i < rounds; i++) HD_TRY(run_round(b, s, err));
    printf("%-8s %7.2f %6d", s->name, b->open_s * 1e3, b->n + 1);
    print_times(&b->cold);
    print_times(&b->warm);
    printf("\n");
    return HD_OK;
}

int main(int argc, char **argv)
{
    hd_error      err = {0};
    hd_tokenizer *t = NULL;
    int const     rounds = argc == 4 && strcmp(argv[2], "--rounds") == 0 ? atoi(argv[3]) : 5;
    if ((argc != 2 && argc != 4) || rounds < 1 || rounds > MAX_ROUNDS) {
        fprintf(stderr, "usage: bench_grammar MODEL [--rounds N]\n");
        return 2;
    }
    hd_status    status = hd_tokenizer_open(&t, argv[1], &err);
    static bench b;
    b.t = t;
    if (status == HD_OK) b.mask = calloc((size_t)hd_tokenizer_vocab(t) / 32 + 1, sizeof *b.mask);
    printf("%-8s %7s %6s  %26s  %26s\n", "", "open ms", "steps", "cold us: median p99 most",
           "warm us: median p99 most");
    for (size_t i = 0; i < sizeof samples / sizeof samples[0] && status == HD_OK; i++)
        status = bench_sample(&b, &samples[i], rounds, &err);
    if (status != HD_OK) fprintf(stderr, "bench_grammar: %s\n", err.message);
    hd_buffer_free(&b.cold);
    hd_buffer_free(&b.warm);
    free(b.mask);
    hd_tokenizer_close(t);
    return status != HD_OK;
}
