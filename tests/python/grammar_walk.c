/* Random answers under a grammar, for test_grammar_oracle.py.
 * Usage: grammar_walk TOKENIZER WALKS SEED < CASES
 * A case is a line of JSON: {"schema": ...}, or {"tools": [...], "dialect": 0..3, "start": 0..4}
 * with `function`, `is_single`, `is_optional`; `try` is a list of texts.  Prints a line for each:
 * {"error": "name: message"} or {"texts": [...], "tried": [...]}: random answers, in which a
 * control token stands by its spelling, and whether each text of the list is an answer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/json_write.h"
#include "hadal_serve.h"

static uint64_t state;

static uint32_t draw(uint32_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((state >> 33) % n);
}

static bool is_allowed(const uint32_t *mask, int32_t id) { return mask[id / 32] >> id % 32 & 1; }

/* A token of those allowed; with `is_short` mostly one that leads to the end of things, or else one
 * of a single byte. */
static int32_t choose(const hd_tokenizer *t, const uint32_t *mask, int32_t n, bool is_short)
{
    static const char *const orders[] = {"<", "/", "}]\",0123456789 ", "\"}],0123456789 "};
    uint32_t const           order = draw(8);
    const char *const        closing = orders[order < 3 ? order : 3];
    int32_t *const           found = malloc((size_t)n * sizeof *found);
    int32_t                  count = 0, n_single = 0, best = -1;
    size_t                   rank = strlen(closing);
    for (int32_t id = 0; id < n; id++) {
        size_t            bytes;
        const char *const s = hd_tokenizer_bytes(t, id, &bytes);
        if (!is_allowed(mask, id)) continue;
        found[count] = id;
        if (bytes == 1 && *s > 0) found[count] = found[n_single], found[n_single++] = id;
        count++;
        const char *const at = bytes == 1 && *s ? strchr(closing, *s) : NULL;
        if (at && (size_t)(at - closing) < rank) rank = (size_t)(at - closing), best = id;
        if (hd_tokenizer_is_control(t, id)) rank = 0, best = id; /* the marker of a tag */
    }
    int32_t id = found[draw((uint32_t)count)];
    if (is_short && best >= 0 && draw(4))
        id = best;
    else if (is_short && n_single)
        id = found[draw((uint32_t)n_single)];
    free(found);
    return id;
}

/* One answer.  returns  false when it does not end */
static bool walk(const hd_tokenizer *t, const hd_grammar *g, hd_parse_start start, hd_buffer *out)
{
    hd_error       err = {0};
    hd_matcher    *m = NULL;
    int32_t const  n = hd_tokenizer_vocab(t), end = 1;
    uint32_t      *mask = calloc((size_t)n / 32 + 1, sizeof *mask);
    bool           is_over = false;
    hd_status      status = hd_matcher_open(&m, g, start, &err);
    uint32_t const patience = draw(60), haste = draw(4);
    for (uint32_t i = 0; status == HD_OK && !is_over && i < 10000; i++) {
        status = hd_matcher_mask(m, mask, n, &end, 1, &err);
        if (status != HD_OK) break;
        is_over = is_allowed(mask, end) && (i > patience || draw(3) == 0);
        int32_t const id = is_over ? end : choose(t, mask, n, i > patience || draw(4) < haste);
        size_t        bytes;
        const char   *s = hd_tokenizer_bytes(t, id, &bytes);
        is_over = id == end;
        if (is_over) break;
        hd_buffer_add(out, s, bytes);
        status = hd_matcher_accept(m, id, &err);
    }
    if (status != HD_OK) hd_buffer_printf(out, "<<%s>>", err.message);
    hd_matcher_close(m);
    free(mask);
    return is_over;
}

static int32_t number(const json_object *v, const char *name)
{
    return (int32_t)json_object_get_int((json_object *)(uintptr_t)hd_json_member(v, name));
}

/* Whether a text, as the tokenizer cuts it, is an answer. */
static bool is_answer(const hd_tokenizer *t, const hd_grammar *g, hd_parse_start start,
                      const json_object *v)
{
    size_t            bytes;
    const char *const text = hd_json_text(v, &bytes);
    hd_matcher       *m = NULL;
    int32_t const     n_vocab = hd_tokenizer_vocab(t), end = 1;
    int32_t          *ids = malloc((bytes + 1) * sizeof *ids), n = 0;
    uint32_t         *mask = calloc((size_t)n_vocab / 32 + 1, sizeof *mask);
    hd_status         status = hd_matcher_open(&m, g, start, NULL);
    if (status == HD_OK)
        status = hd_tokenizer_encode(t, text, bytes, true, ids, (int32_t)bytes + 1, &n, NULL);
    for (int32_t i = 0; i < n && status == HD_OK; i++) {
        status = hd_matcher_mask(m, mask, n_vocab, &end, 1, NULL);
        bool const is_in_mask = status == HD_OK && is_allowed(mask, ids[i]);
        if (status == HD_OK) status = hd_matcher_accept(m, ids[i], NULL);
        if (is_in_mask != (status == HD_OK)) fprintf(stderr, "mask and matcher differ: %s\n", text);
    }
    if (status == HD_OK) status = hd_matcher_mask(m, mask, n_vocab, &end, 1, NULL);
    bool const is_over = status == HD_OK && is_allowed(mask, end);
    hd_matcher_close(m);
    free(ids);
    free(mask);
    return is_over;
}

static void run_case(const hd_tokenizer *t, const json_object *c, int walks)
{
    hd_error           err = {0};
    hd_grammar        *g = NULL;
    json_object *const tools = (json_object *)(uintptr_t)hd_json_member(c, "tools");
    json_object       *schema = NULL;
    json_object_object_get_ex(c, "schema", &schema);
    const char *const        json = json_object_to_json_string(tools ? tools : schema);
    hd_grammar_options const opt = {.kind = tools ? HD_GRAMMAR_TOOL_CALLS : HD_GRAMMAR_SCHEMA,
                                    .json = json,
                                    .json_bytes = strlen(json),
                                    .function = hd_json_text(hd_json_member(c, "function"), NULL),
                                    .is_single = number(c, "is_single"),
                                    .is_optional = number(c, "is_optional"),
                                    .dialect = (hd_dialect)number(c, "dialect")};
    hd_buffer                line = {0};
    if (hd_grammar_open(&g, t, &opt, &err) != HD_OK) {
        hd_buffer_printf(&line, "%s: %s", hd_status_name(err.code), err.message);
        fputs("{\"error\": ", stdout);
        hd_buffer quoted = {0};
        hd_json_write_string(&quoted, line.data, line.used);
        printf("%s}\n", quoted.data);
        hd_buffer_free(&quoted);
        hd_buffer_free(&line);
        return;
    }
    hd_buffer_text(&line, "{\"texts\": [");
    hd_parse_start const start =
        hd_json_member(c, "start") ? (hd_parse_start)number(c, "start") : HD_START_CONTENT;
    for (int i = 0; i < walks; i++) {
        hd_buffer text = {0};
        if (!walk(t, g, start, &text)) hd_buffer_text(&text, "<<it does not end>>");
        if (i) hd_buffer_text(&line, ", ");
        hd_json_write_string(&line, text.data ? text.data : "", text.used);
        hd_buffer_free(&text);
    }
    hd_buffer_text(&line, "], \"tried\": [");
    const json_object *const list = hd_json_member(c, "try");
    size_t const             n = list ? json_object_array_length(list) : 0;
    for (size_t i = 0; i < n; i++)
        hd_buffer_printf(&line, "%s%s", i ? ", " : "",
                         is_answer(t, g, start, json_object_array_get_idx(list, i)) ? "true"
                                                                                    : "false");
    printf("%s]}\n", line.data);
    hd_buffer_free(&line);
    hd_grammar_close(g);
}

int main(int argc, char **argv)
{
    hd_error      err = {0};
    hd_tokenizer *t = NULL;
    char         *line = NULL;
    size_t        cap = 0;
    ssize_t       n;
    if (argc != 4 || hd_tokenizer_open(&t, argv[1], &err) != HD_OK) {
        fprintf(stderr, "grammar_walk TOKENIZER WALKS SEED: %s\n", err.message);
        return 2;
    }
    state = strtoull(argv[3], NULL, 10);
    while ((n = getline(&line, &cap, stdin)) > 0) {
        json_object *c = NULL;
        if (hd_json_parse(&c, line, (size_t)n, HD_JSON_PYTHON, "case", &err) != HD_OK) {
            fprintf(stderr, "%s\n", err.message);
            return 1;
        }
        run_case(t, c, atoi(argv[2]));
        json_object_put(c);
    }
    free(line);
    hd_tokenizer_close(t);
    return 0;
}
