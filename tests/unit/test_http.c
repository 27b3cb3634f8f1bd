#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "server/http.h"

/* Connections over real sockets, server and clients in one thread: a client acts, then the loop
 * runs until there is nothing to do. */

typedef struct fixture {
    struct event_base *base;
    hd_http           *http;
    hd_exchange       *held; /* a request of /hold, not answered yet */
    int                n_requests, n_gone, n_broken;
} fixture;

/* ---- the server ---- */

static void on_request(void *user, hd_exchange *x)
{
    fixture *const               f = user;
    const hd_http_request *const r = hd_exchange_request(x);
    f->n_requests++;
    if (strcmp(r->path, "/hold") == 0) {
        f->held = x;
    } else if (strcmp(r->path, "/stream") == 0) {
        hd_exchange_begin(x, &(hd_http_reply){.status = 200, .type = "text/plain"});
        if (hd_exchange_write(x, "one", 3) && hd_exchange_write(x, "two", 3)) hd_exchange_end(x);
    } else {
        hd_buffer body = hd_exchange_take_body(x);
        hd_buffer_text(&body, r->path);
        hd_exchange_reply(x, &(hd_http_reply){.status = 200,
                                              .type = "text/plain",
                                              .body = body.data,
                                              .body_bytes = body.used});
        hd_buffer_free(&body);
    }
}

static void on_gone(void *user, hd_exchange *x)
{
    fixture *const f = user;
    f->n_gone++;
    if (f->held == x) f->held = NULL;
}

static void on_broken(void *user, int status, const char *why, hd_buffer *body)
{
    fixture *const f = user;
    f->n_broken++;
    hd_buffer_printf(body, "%d: %s", status, why);
}

static hd_http_options const usual = {.host = "127.0.0.1",
                                      .max_body = 1000000,
                                      .max_connections = 4,
                                      .max_unsent = 100000,
                                      .head_s = 60,
                                      .body_s = 60,
                                      .idle_s = 60,
                                      .unread_s = 60};

static void open_with(fixture *f, const hd_http_options *o)
{
    hd_error            err = {0};
    hd_http_hooks const hooks = {on_request, on_gone, on_broken, f};
    *f = (fixture){.base = event_base_new()};
    if (hd_http_open(&f->http, f->base, o, &hooks, &err) != HD_OK) fail_msg("%s", err.message);
}

static void close_all(fixture *f)
{
    hd_http_close(f->http);
    event_base_free(f->base);
}

/* ---- a client ---- */

static void pump(fixture *f, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        event_base_loop(f->base, EVLOOP_NONBLOCK);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

static int dial(fixture *f)
{
    struct sockaddr_in const a = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)hd_http_port(f->http)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int const                fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&a, sizeof a), 0);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    pump(f, 2);
    return fd;
}

static void say(fixture *f, int fd, const char *text)
{
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    pump(f, 4);
}

/* All that is there to read; *is_closed tells whether the end is, too. */
static const char *hear(int fd, bool *is_closed)
{
    static char text[65536];
    size_t      used = 0;
    ssize_t     n;
    while ((n = read(fd, text + used, sizeof text - 1 - used)) > 0) used += (size_t)n;
    *is_closed = n == 0;
    text[used] = 0;
    return text;
}

static int count(const char *text, const char *word)
{
    int n = 0;
    while ((text = strstr(text, word))) {
        n++;
        text += strlen(word);
    }
    return n;
}

#define HOST "Host: a\r\n"

/* ---- requests one after the other ---- */

static void test_kept(void **state)
{
    (void)state;
    fixture f;
    bool    is_closed;
    open_with(&f, &usual);
    int const fd = dial(&f);
    for (int i = 0; i < 3; i++) {
        say(&f, fd, "POST /x HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\nab");
        const char *const text = hear(fd, &is_closed);
        assert_non_null(strstr(text, "\r\n\r\nab/x"));
        assert_non_null(strstr(text, "Connection: keep-alive"));
        assert_false(is_closed);
    }
    say(&f, fd, "GET /x HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
    hear(fd, &is_closed);
    assert_true(is_closed);
    assert_int_equal(hd_http_n_connections(f.http), 0);
    close(fd);
    close_all(&f);
}

static void test_pipelined(void **state)
{
    (void)state;
    fixture f;
    bool    is_closed;
    open_with(&f, &usual);
    int const fd = dial(&f);
    say(&f, fd,
        "GET /1 HTTP/1.1\r\n" HOST "\r\nGET /hold HTTP/1.1\r\n" HOST "\r\nGET /3 HTTP/1.1\r\n" HOST
        "\r\n");
    assert_int_equal(f.n_requests, 2); /* the third waits for the second's answer */
    hd_exchange_reply(f.held, &(hd_http_reply){.status = 200, .body = "2", .body_bytes = 1});
    pump(&f, 4);
    const char *const text = hear(fd, &is_closed);
    assert_int_equal(count(text, "HTTP/1.1 200"), 3);
    assert_true(strstr(text, "/1") < strstr(text, "/3"));
    assert_false(is_closed);
    close(fd);
    close_all(&f);
}

static void test_head_and_old_clients(void **state)
{
    (void)state;
    fixture f;
    bool    is_closed;
    open_with(&f, &usual);
    int fd = dial(&f);
    say(&f, fd, "HEAD /x HTTP/1.1\r\n" HOST "\r\n");
    const char *text = hear(fd, &is_closed);
    assert_non_null(strstr(text, "Content-Length: 2\r\n"));
    assert_string_equal(strstr(text, "\r\n\r\n"), "\r\n\r\n");
    say(&f, fd, "GET /stream HTTP/1.1\r\n" HOST "\r\n");
    text = hear(fd, &is_closed);
    assert_string_equal(strstr(text, "\r\n\r\n"), "\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n");
    close(fd);
    fd = dial(&f); /* HTTP/1.0 knows no chunks: the end of the connection is the end */
    say(&f, fd, "GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    text = hear(fd, &is_closed);
    assert_string_equal(strstr(text, "\r\n\r\n"), "\r\n\r\nonetwo");
    assert_null(strstr(text, "chunked"));
    assert_true(is_closed);
    close(fd);
    close_all(&f);
}

static void test_continue(void **state)
{
    (void)state;
    fixture f;
    bool    is_closed;
    open_with(&f, &usual);
    int const fd = dial(&f);
    say(&f, fd, "POST /x HTTP/1.1\r\n" HOST "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n");
    assert_string_equal(hear(fd, &is_closed), "HTTP/1.1 100 Continue\r\n\r\n");
    say(&f, fd, "ab");
    assert_non_null(strstr(hear(fd, &is_closed), "ab/x"));
    say(&f, fd,
        "POST /x HTTP/1.1\r\n" HOST "Content-Length: 9999999\r\nExpect: 100-continue\r\n\r\n");
    assert_int_equal(strncmp(hear(fd, &is_closed), "HTTP/1.1 413 ", 13), 0);
    close(fd);
    close_all(&f);
}

/* A client may close its half behind its request: what was answered at once still comes. */
static void test_half_closed(void **state)
{
    (void)state;
    fixture f;
    bool    is_closed;
    open_with(&f, &usual);
    int const fd = dial(&f);
    assert_true(write(fd, "GET /x HTTP/1.1\r\n" HOST "\r\n", 28) == 28);
    shutdown(fd, SHUT_WR);
    pump(&f, 4);
    assert_non_null(strstr(hear(fd, &is_closed), "/x"));
    assert_true(is_closed);
    close(fd);
    close_all(&f);
}

/* ---- clients that leave or sleep ---- */

static void test_gone(void **state)
{
    (void)state;
    fixture f;
    open_with(&f, &usual);
    int fd = dial(&f);
    say(&f, fd, "GET /hold HTTP/1.1\r\n" HOST "\r\nGET /x HTTP/1.1\r\n"); /* and a bit ahead */
    assert_non_null(f.held);
    assert_int_equal(hd_http_n_busy(f.http), 1);
    close(fd);
    pump(&f, 4);
    assert_int_equal(f.n_gone, 1);
    assert_int_equal(hd_http_n_connections(f.http), 0);
    assert_int_equal(hd_http_n_busy(f.http), 0);
    fd = dial(&f); /* in the middle of a stream */
    say(&f, fd, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
    hd_exchange_begin(f.held, &(hd_http_reply){.status = 200});
    assert_true(hd_exchange_write(f.held, "x", 1));
    pump(&f, 2);
    close(fd);
    pump(&f, 4);
    assert_int_equal(f.n_gone, 2);
    close_all(&f);
}

static void test_reads_too_slowly(void **state)
{
    (void)state;
    static const char piece[10000] = {'x'};
    fixture           f;
    int               n = 0;
    open_with(&f, &usual);
    int const fd = dial(&f);
    say(&f, fd, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
    hd_exchange_begin(f.held, &(hd_http_reply){.status = 200});
    while (n < 100000 && hd_exchange_write(f.held, piece, sizeof piece)) {
        event_base_loop(f.base, EVLOOP_NONBLOCK);
        n++;
    }
    assert_in_range(n, 10, 99999); /* what the kernel takes, and max_unsent more */
    assert_int_equal(f.n_gone, 1);
    assert_null(f.held);
    assert_int_equal(hd_http_n_connections(f.http), 0);
    close(fd);
    close_all(&f);
}

static void test_broken_off(void **state)
{
    (void)state;
    fixture f;
    bool    is_closed;
    open_with(&f, &usual);
    int const fd = dial(&f);
    say(&f, fd, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
    hd_exchange_begin(f.held, &(hd_http_reply){.status = 200});
    hd_exchange_write(f.held, "half", 4);
    hd_exchange_break(f.held);
    pump(&f, 4);
    const char *const text = hear(fd, &is_closed);
    assert_non_null(strstr(text, "half"));
    assert_null(strstr(text, "0\r\n\r\n")); /* so the client knows that it is not whole */
    assert_true(is_closed);
    close(fd);
    close_all(&f);
}

static void test_sends_too_slowly(void **state)
{
    (void)state;
    fixture         f;
    bool            is_closed;
    hd_http_options o = usual;
    o.head_s = 1;
    o.idle_s = 1;
    open_with(&f, &o);
    int const slow = dial(&f), silent = dial(&f), idle = dial(&f);
    say(&f, slow, "GET / HTTP/1.1\r\n");
    say(&f, idle, "GET /x HTTP/1.1\r\n" HOST "\r\n");
    pump(&f, 1300);
    assert_int_equal(strncmp(hear(slow, &is_closed), "HTTP/1.1 408 ", 13), 0);
    assert_true(is_closed);
    assert_string_equal(hear(silent, &is_closed), "");
    assert_true(is_closed);
    assert_non_null(strstr(hear(idle, &is_closed), "/x"));
    assert_true(is_closed);
    close(slow);
    close(silent);
    close(idle);
    close_all(&f);
}

/* ---- what is no request ---- */

/* The refusal is read although more came than the server wanted. */
static void test_refused(void **state)
{
    (void)state;
    fixture f;
    bool    is_closed;
    open_with(&f, &usual);
    int const fd = dial(&f);
    say(&f, fd, "POST / HTTP/1.1\r\n" HOST "Content-Length: 1\r\nContent-Length: 1\r\n\r\n");
    for (int i = 0; i < 50; i++) say(&f, fd, "more and more and more");
    const char *const text = hear(fd, &is_closed);
    assert_int_equal(strncmp(text, "HTTP/1.1 400 ", 13), 0);
    assert_non_null(strstr(text, "\r\n\r\n400: more than one Content-Length"));
    assert_non_null(strstr(text, "Connection: close"));
    assert_true(is_closed);
    assert_int_equal(f.n_broken, 1);
    assert_int_equal(f.n_requests, 0);
    close(fd);
    pump(&f, 4);
    assert_int_equal(hd_http_n_connections(f.http), 0);
    close_all(&f);
}

static void test_too_many(void **state)
{
    (void)state;
    fixture f;
    bool    is_closed;
    int     fds[5];
    open_with(&f, &usual);
    for (int i = 0; i < 5; i++) fds[i] = dial(&f);
    assert_int_equal(hd_http_n_connections(f.http), 4);
    hear(fds[4], &is_closed);
    assert_true(is_closed);
    hear(fds[0], &is_closed);
    assert_false(is_closed);
    for (int i = 0; i < 5; i++) close(fds[i]);
    pump(&f, 4);
    assert_int_equal(hd_http_n_connections(f.http), 0);
    close_all(&f);
}

/* ---- the end ---- */

static void test_stop(void **state)
{
    (void)state;
    fixture f;
    bool    is_closed;
    open_with(&f, &usual);
    int const busy = dial(&f), idle = dial(&f);
    say(&f, busy, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
    hd_http_stop(f.http);
    pump(&f, 4);
    hear(idle, &is_closed);
    assert_true(is_closed);
    hd_exchange_reply(f.held, &(hd_http_reply){.status = 200, .body = "late", .body_bytes = 4});
    pump(&f, 4);
    const char *const text = hear(busy, &is_closed);
    assert_non_null(strstr(text, "late"));
    assert_non_null(strstr(text, "Connection: close"));
    assert_true(is_closed);
    assert_int_equal(hd_http_n_connections(f.http), 0);
    close(busy);
    close(idle);
    close_all(&f);
}

static void test_bad_addresses(void **state)
{
    (void)state;
    fixture         f;
    hd_error        err = {0};
    hd_http        *second = NULL;
    hd_http_options o = usual;
    open_with(&f, &usual);
    o.port = hd_http_port(f.http);
    assert_int_equal(hd_http_open(&second, f.base, &o, &(hd_http_hooks){0}, &err), HD_ERR_IO);
    assert_non_null(strstr(err.message, "127.0.0.1"));
    o.host = "no such host";
    assert_int_equal(hd_http_open(&second, f.base, &o, &(hd_http_hooks){0}, &err), HD_ERR_IO);
    assert_non_null(strstr(err.message, "no such host"));
    close_all(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kept),
        cmocka_unit_test(test_pipelined),
        cmocka_unit_test(test_head_and_old_clients),
        cmocka_unit_test(test_continue),
        cmocka_unit_test(test_half_closed),
        cmocka_unit_test(test_gone),
        cmocka_unit_test(test_reads_too_slowly),
        cmocka_unit_test(test_broken_off),
        cmocka_unit_test(test_sends_too_slowly),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_bad_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
