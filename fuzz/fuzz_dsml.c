#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/utf8_scan.h"

typedef struct result {
    hd_buffer text[HD_PARSE_UNPARSED + 1]; /* by kind; of calls: names and arguments */
    int32_t   n_calls;
    hd_finish finish;
} result;

static void collect(void *user, const hd_parse_event *e)
{
    result *const r = user;
    if (e->text_bytes == 0 || hd_utf8_scan_check(e->text, e->text_bytes) != e->text_bytes) abort();
    if (e->kind == HD_PARSE_CALL) {
        if (e->index != r->n_calls++ || e->name_bytes == 0) abort();
        if (!hd_json_is_valid(e->text, e->text_bytes)) abort();
        hd_buffer_add(&r->text[e->kind], e->name, e->name_bytes);
        hd_buffer_add(&r->text[e->kind], "\n", 1);
    }
    hd_buffer_add(&r->text[e->kind], e->text, e->text_bytes);
}

static result parse(const char *text, size_t size, unsigned how, size_t piece)
{
    static const char *const stop[] = {"STOP", "\n\n", "é"};

    result            r = {0};
    hd_parser        *p = NULL;
    hd_parser_options options = {.start = (hd_parse_start)(how % (HD_START_TOOL_CALLS + 1)),
                                 .has_tools = (how & 0x10) == 0,
                                 .stop = stop,
                                 .n_stop = how & 0x20 ? 3 : 0,
                                 .on_event = collect,
                                 .user = &r};
    if (hd_parser_open(&p, &options, NULL) != HD_OK) abort();
    for (size_t at = 0; at < size; at += piece)
        if (hd_parser_push_text(p, text + at, size - at < piece ? size - at : piece, NULL) != HD_OK)
            abort();
    if (hd_parser_finish(p, how & 0x40, &r.finish, NULL) != HD_OK) abort();
    hd_parser_close(p);
    return r;
}

static void free_result(result *r)
{
    for (int i = 0; i <= HD_PARSE_UNPARSED; i++) hd_buffer_free(&r->text[i]);
}

/* The first byte says how, the rest is the answer; every way of cutting it must agree. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) return 0;
    const char *const text = (const char *)data + 1;
    result            whole = parse(text, size - 1, data[0], size - 1);
    for (size_t piece = 1; piece <= 7; piece += 3) {
        result cut = parse(text, size - 1, data[0], piece);
        if (cut.finish != whole.finish || cut.n_calls != whole.n_calls) abort();
        for (int i = 0; i <= HD_PARSE_UNPARSED; i++)
            if (cut.text[i].used != whole.text[i].used ||
                (cut.text[i].used &&
                 memcmp(cut.text[i].data, whole.text[i].data, cut.text[i].used) != 0))
                abort();
        free_result(&cut);
    }
    free_result(&whole);
    return 0;
}
