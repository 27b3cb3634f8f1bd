#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "server/http_parse.h"
#include "server/http_write.h"

/* ---- feeding ---- */

/* Pushes text in pieces; returns how many bytes were used until the request was whole or broken. */
static size_t feed(hd_http_parser *p, const char *text, size_t bytes, size_t piece)
{
    size_t at = 0;
    while (at < bytes && p->state < HD_HTTP_WHOLE) {
        size_t const n = bytes - at < piece ? bytes - at : piece;
        /* A copy of the exact size lets the sanitizer see a read past the end. */
        char *const copy = malloc(n);
        memcpy(copy, text + at, n);
        at += hd_http_parser_push(p, copy, n);
        free(copy);
    }
    return at;
}

static const size_t pieces[] = {100000, 1, 2, 3, 7};

/* ---- requests that are well formed ---- */

typedef struct good {
    const char *text;
    const char *path, *query, *body;
    bool        is_kept;
    const char *rest; /* what belongs to the next request */
} good;

static const good goods[] = {
    {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "/", "", "", true, ""},
    {"GET /x?a=b HTTP/1.1\r\nHost: a\r\n\r\nGET", "/x", "a=b", "", true, "GET"},
    {"\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", "/", "", "", true, ""},
    {"GET / HTTP/1.0\r\n\r\n", "/", "", "", false, ""},
    {"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", "/", "", "", true, ""},
    {"GET / HTTP/1.1\r\nHost: a\r\nConnection: x, close\r\n\r\n", "/", "", "", false, ""},
    {"GET http://a/b?c HTTP/1.1\r\nHost: a\r\n\r\n", "/b", "c", "", true, ""},
    {"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "*", "", "", true, ""},
    {"POST / HTTP/1.1\r\nHost:a\r\nContent-Length:  3 \r\n\r\nabcGET", "/", "", "abc", true, "GET"},
    {"POST / HTTP/1.1\r\nHost: a\r\ncontent-length: 0\r\n\r\nx", "/", "", "", true, "x"},
    {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n"
     "3\r\nabc\r\n0A;x=y\r\n0123456789\r\n0\r\nTrailer: t\r\n\r\nGET",
     "/", "", "abc0123456789", true, "GET"},
    {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "/", "", "", true,
     ""},
    {"GET / HTTP/1.1\r\nHost: [::1]:80\r\nX-Empty:\r\nX: \xC3\xA9\r\n\r\n", "/", "", "", true, ""},
};

static void check_good(const good *g, size_t piece)
{
    hd_http_parser p = {.max_body = 1000};
    assert_true(hd_http_parser_is_fresh(&p));
    size_t const used = feed(&p, g->text, strlen(g->text), piece);
    if (p.state != HD_HTTP_WHOLE) fail_msg("%s: state %d, %s", g->text, (int)p.state, p.why);
    assert_string_equal(p.request.path, g->path);
    assert_string_equal(p.request.query, g->query);
    assert_int_equal(p.request.body.used, strlen(g->body));
    if (*g->body) assert_memory_equal(p.request.body.data, g->body, strlen(g->body));
    assert_int_equal(p.request.is_kept, g->is_kept);
    assert_string_equal(g->text + used, g->rest);
    hd_http_parser_reset(&p);
    assert_true(hd_http_parser_is_fresh(&p));
}

static void test_good(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof goods / sizeof goods[0]; i++)
        for (size_t k = 0; k < sizeof pieces / sizeof pieces[0]; k++)
            check_good(&goods[i], pieces[k]);
}

/* ---- and such that are not ---- */

typedef struct bad {
    const char *text;
    int         status;
} bad;

#define POST "POST / HTTP/1.1\r\nHost: a\r\n"

static const bad bads[] = {
    {"GET / HTTP/1.1\r\n\r\n", 400}, /* no Host */
    {"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
    {"GET / HTTP/1.1\nHost: a\n\n", 400}, /* lines without CR */
    {"GET / HTTP/1.1\r\nHost: a\r\nX: 1\n\r\n", 400},
    {"GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n 2\r\n\r\n", 400}, /* folded */
    {"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\n: a\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n", 400},
    {"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505},
    {"GET / HTTP/1.1x\r\nHost: a\r\n\r\n", 400},
    {"GET /\r\nHost: a\r\n\r\n", 400},
    {"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
    {"GET x HTTP/1.1\r\nHost: a\r\n\r\n", 400},
    {"GET http://a HTTP/1.1\r\nHost: a\r\n\r\n", 400},
    {"G@T / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
    {" / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
    {POST "Content-Length: 1\r\nContent-Length: 1\r\n\r\na", 400},
    {POST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
    {POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
    {POST "Transfer-Encoding: gzip, chunked\r\n\r\n", 501},
    {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
    {POST "Content-Length: +1\r\n\r\n", 400},
    {POST "Content-Length: -1\r\n\r\n", 400},
    {POST "Content-Length: 0x1\r\n\r\n", 400},
    {POST "Content-Length: 1, 1\r\n\r\n", 400},
    {POST "Content-Length:\r\n\r\n", 400},
    {POST "Content-Length: 1001\r\n\r\n", 413},
    {POST "Content-Length: 99999999999999999999999999\r\n\r\n", 413},
    {POST "Expect: the unexpected\r\n\r\n", 417},
    {POST "Transfer-Encoding: chunked\r\n\r\nx\r\n", 400},
    {POST "Transfer-Encoding: chunked\r\n\r\n-1\r\n", 400},
    {POST "Transfer-Encoding: chunked\r\n\r\n 1\r\n", 400},
    {POST "Transfer-Encoding: chunked\r\n\r\n1\na\r\n", 400},
    {POST "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", 400},
    {POST "Transfer-Encoding: chunked\r\n\r\n3E9\r\n", 413},
    {POST "Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\n", 413},
    {POST "Transfer-Encoding: chunked\r\n\r\n3E8\r\n", 0}, /* as long as may be: not over yet */
};

static void test_bad(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bads / sizeof bads[0]; i++)
        for (size_t k = 0; k < sizeof pieces / sizeof pieces[0]; k++) {
            hd_http_parser p = {.max_body = 1000};
            feed(&p, bads[i].text, strlen(bads[i].text), pieces[k]);
            if (p.status != bads[i].status)
                fail_msg("%s: status %d, wanted %d", bads[i].text, p.status, bads[i].status);
            assert_int_equal(p.state == HD_HTTP_BROKEN, bads[i].status != 0);
            if (bads[i].status) assert_true(strlen(p.why) > 5);
            hd_http_parser_reset(&p);
        }
}

static void test_nul(void **state)
{
    (void)state;
    static const char text[] = "GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n";
    hd_http_parser    p = {.max_body = 1000};
    feed(&p, text, sizeof text - 1, 100);
    assert_int_equal(p.status, 400);
    hd_http_parser_reset(&p);
}

/* ---- limits ---- */

static void check_flood(const char *start, const char *more, int status)
{
    hd_http_parser p = {.max_body = 1000};
    feed(&p, start, strlen(start), 1000);
    for (int i = 0; i < 100000 && p.state < HD_HTTP_WHOLE; i++) feed(&p, more, strlen(more), 1000);
    assert_int_equal(p.status, status);
    assert_true(p.request.head.used <= HD_HTTP_MAX_HEAD);
    hd_http_parser_reset(&p);
}

static void test_floods(void **state)
{
    (void)state;
    check_flood("GET /", "aaaaaaaaaa", 431);
    check_flood("GET / HTTP/1.1\r\nHost: a\r\n", "X: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n", 431);
    check_flood(POST "Transfer-Encoding: chunked\r\n\r\n0;", "aaaaaaaaaa", 431);
    check_flood(POST "Transfer-Encoding: chunked\r\n\r\n0\r\n", "X: aaaaaaaaa\r\n", 431);
    check_flood(POST "Transfer-Encoding: chunked\r\n\r\n", "8\r\naaaaaaaa\r\n", 413);
}

static void test_many_fields(void **state)
{
    (void)state;
    for (int n = HD_HTTP_MAX_FIELDS - 1; n <= HD_HTTP_MAX_FIELDS; n++) {
        hd_http_parser p = {.max_body = 1000};
        hd_buffer      text = {0};
        hd_buffer_text(&text, "GET / HTTP/1.1\r\nHost: a\r\n");
        for (int i = 0; i < n; i++) hd_buffer_printf(&text, "X-%d: y\r\n", i);
        hd_buffer_text(&text, "\r\n");
        feed(&p, text.data, text.used, 1000);
        assert_int_equal(p.status, n < HD_HTTP_MAX_FIELDS ? 0 : 431);
        hd_buffer_free(&text);
        hd_http_parser_reset(&p);
    }
}

static void test_fields_are_found(void **state)
{
    (void)state;
    static const char text[] = "GET / HTTP/1.1\r\nHost: a\r\nX-API-Key: \t k 1\t\r\n\r\n";
    hd_http_parser    p = {.max_body = 1000};
    feed(&p, text, sizeof text - 1, 100);
    assert_string_equal(hd_http_field_find(&p.request, "x-api-key"), "k 1");
    assert_null(hd_http_field_find(&p.request, "x-api"));
    hd_http_parser_reset(&p);
}

static void test_no_memory(void **state)
{
    (void)state;
    static const char text[] = POST "Content-Length: 3\r\n\r\nabc";
    for (int n = 1; n <= 2; n++) {
        hd_http_parser p = {.max_body = 1000};
        hd_memory_fail_at(n);
        feed(&p, text, sizeof text - 1, 1000);
        hd_memory_fail_at(0);
        assert_int_equal(p.status, 500);
        hd_http_parser_reset(&p);
    }
}

/* ---- answers ---- */

static void test_heads(void **state)
{
    (void)state;
    hd_buffer out = {0};
    hd_http_write_head(&out, &(hd_http_head){.status = 200,
                                             .type = "text/plain",
                                             .fields = "X: y\r\n",
                                             .is_kept = true,
                                             .is_11 = true,
                                             .body_bytes = 5});
    assert_string_equal(out.data, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
                                  "Content-Length: 5\r\nConnection: keep-alive\r\nX: y\r\n\r\n");
    hd_buffer_clear(&out);
    hd_http_write_head(&out, &(hd_http_head){.status = 200, .is_11 = true, .is_streamed = true});
    assert_string_equal(out.data, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"
                                  "Connection: close\r\n\r\n");
    hd_buffer_clear(&out);
    hd_http_write_chunk(&out, "", 0);
    hd_http_write_chunk(&out, "0123456789abcdef", 16);
    hd_http_write_last_chunk(&out);
    assert_string_equal(out.data, "10\r\n0123456789abcdef\r\n0\r\n\r\n");
    hd_buffer_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_nul),         cmocka_unit_test(test_floods),
        cmocka_unit_test(test_many_fields), cmocka_unit_test(test_fields_are_found),
        cmocka_unit_test(test_no_memory),   cmocka_unit_test(test_heads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
