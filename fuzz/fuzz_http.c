#include <stdlib.h>
#include <string.h>

#include "server/gate.h"

/* What a client may send, cut at places that the first byte chooses: the parser must see the same
 * requests however they come, and keep its bounds; then the checks that look at a request. */

enum { MAX_BODY = 4096 };

typedef struct seen {
    hd_http_state  state;
    int            status;
    size_t         used;
    hd_http_method method;
    char           path[256];
    size_t         body_bytes;
    unsigned       body_sum;
} seen;

static void check_request(const hd_http_request *r)
{
    static const char *const keys[] = {"key", "another"};
    hd_gate const gate = {.keys = (const char **)(uintptr_t)keys, .n_keys = 2, .is_local = true};
    hd_api_error  e;
    hd_buffer     out = {0};
    for (int32_t i = 0; i < r->n_fields; i++)
        if (strpbrk(r->fields[i].name, " \t\r\n:") || strpbrk(r->fields[i].value, "\r\n")) abort();
    if (r->path[0] != '/' && strcmp(r->path, "*") != 0) abort();
    if (r->body.used > MAX_BODY) abort();
    hd_gate_check_key(&gate, r, &e);
    hd_gate_check_origin(&gate, r, &e);
    hd_gate_write_fields(&gate, r, &out);
    hd_buffer_free(&out);
}

static seen look(const hd_http_parser *p, size_t used)
{
    seen s = {.state = p->state, .status = p->status, .used = used};
    if (p->state != HD_HTTP_WHOLE) return s;
    s.method = p->request.method;
    strncpy(s.path, p->request.path, sizeof s.path - 1);
    s.body_bytes = p->request.body.used;
    for (size_t i = 0; i < s.body_bytes; i++)
        s.body_sum = s.body_sum * 31 + (unsigned char)p->request.body.data[i];
    return s;
}

/* The first request of the bytes, in pieces of this size. */
static seen read_one(const uint8_t *data, size_t size, size_t piece)
{
    hd_http_parser p = {.max_body = MAX_BODY};
    size_t         at = 0;
    while (at < size && p.state < HD_HTTP_WHOLE) {
        size_t const n = size - at < piece ? size - at : piece;
        size_t const used = hd_http_parser_push(&p, (const char *)data + at, n);
        if (used > n || (used < n && p.state < HD_HTTP_WHOLE)) abort();
        at += used;
    }
    if (p.state == HD_HTTP_BROKEN && (p.status < 400 || !p.why)) abort();
    if (p.state == HD_HTTP_WHOLE) check_request(&p.request);
    /* How much of a refused request was read before it was refused depends on the cut. */
    seen const s = look(&p, p.state == HD_HTTP_BROKEN ? 0 : at);
    hd_http_parser_reset(&p);
    return s;
}

static bool is_same(const seen *a, const seen *b)
{
    return a->state == b->state && a->status == b->status && a->used == b->used &&
           a->method == b->method && strcmp(a->path, b->path) == 0 &&
           a->body_bytes == b->body_bytes && a->body_sum == b->body_sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) return 0;
    size_t const piece = data[0] % 64 + 1;
    data++, size--;
    while (size > 0) {
        seen const whole = read_one(data, size, size);
        seen const pieces = read_one(data, size, piece);
        seen const bytes = read_one(data, size, 1);
        if (!is_same(&whole, &pieces) || !is_same(&whole, &bytes)) abort();
        if (whole.state != HD_HTTP_WHOLE) break;
        data += whole.used;
        size -= whole.used;
    }
    return 0;
}
