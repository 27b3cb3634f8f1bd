#include "server/http_parse.h"

#include <string.h>
#include <strings.h>

/* ---- characters ---- */

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool is_token(char c)
{
    if (is_digit(c) || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z')) return true;
    return c && strchr("!#$%&'*+-.^_`|~", c);
}

/* Visible, or above ASCII. */
static bool is_visible(char c) { return (unsigned char)c > 0x20 && c != 0x7F; }

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

static bool refuse(hd_http_parser *p, int status, const char *why)
{
    p->state = HD_HTTP_BROKEN;
    p->status = status;
    p->why = why;
    return false;
}

/* ---- the request line ---- */

static const char *const method_names[] = {"GET", "HEAD", "POST", "DELETE", "OPTIONS", "OTHER"};

const char *hd_http_method_name(hd_http_method m) { return method_names[m]; }

static hd_http_method find_method(const char *name)
{
    for (int i = 0; i < HD_HTTP_OTHER; i++)
        if (strcmp(name, method_names[i]) == 0) return (hd_http_method)i;
    return HD_HTTP_OTHER;
}

/* Cuts the text at the first space: returns what follows, NULL when there is none. */
static char *cut_word(char *text)
{
    char *const space = strchr(text, ' ');
    if (!space) return NULL;
    *space = 0;
    return space + 1;
}

static bool read_version(hd_http_parser *p, const char *version)
{
    hd_http_request *const r = &p->request;
    if (strncmp(version, "HTTP/", 5) != 0 || !is_digit(version[5]) || version[6] != '.' ||
        !is_digit(version[7]) || version[8])
        return refuse(p, 400, "the request line ends with no HTTP version");
    if (version[5] != '1') return refuse(p, 505, "only HTTP/1.0 and HTTP/1.1 are spoken here");
    r->is_11 = version[7] != '0';
    r->is_kept = r->is_11;
    return true;
}

/* Leaves the path of "/path", of "http://host/path" and of "*". */
static bool read_target(hd_http_parser *p, char *target)
{
    hd_http_request *const r = &p->request;
    for (const char *c = target; *c; c++)
        if (!is_visible(*c)) return refuse(p, 400, "the target holds a control character");
    if (strncasecmp(target, "http://", 7) == 0 || strncasecmp(target, "https://", 8) == 0) {
        target = strchr(strchr(target, '/') + 2, '/');
        if (!target) return refuse(p, 400, "the target has no path");
    }
    if (target[0] != '/' && strcmp(target, "*") != 0)
        return refuse(p, 400, "the target is no path");
    char *const question = strchr(target, '?');
    if (question) *question = 0;
    r->path = target;
    r->query = question ? question + 1 : "";
    return true;
}

static bool read_request_line(hd_http_parser *p, char *line)
{
    char *const target = cut_word(line);
    char *const version = target ? cut_word(target) : NULL;
    if (!version) return refuse(p, 400, "the request line is not: method, target, version");
    if (!*line) return refuse(p, 400, "the request line begins with a space");
    for (const char *c = line; *c; c++)
        if (!is_token(*c)) return refuse(p, 400, "the method is no word");
    p->request.method = find_method(line);
    return read_version(p, version) && read_target(p, target);
}

/* ---- fields ---- */

const char *hd_http_field_find(const hd_http_request *r, const char *name)
{
    for (int32_t i = 0; i < r->n_fields; i++)
        if (strcasecmp(r->fields[i].name, name) == 0) return r->fields[i].value;
    return NULL;
}

static int32_t count_fields(const hd_http_request *r, const char *name)
{
    int32_t n = 0;
    for (int32_t i = 0; i < r->n_fields; i++) n += strcasecmp(r->fields[i].name, name) == 0;
    return n;
}

static bool read_field(hd_http_parser *p, char *line)
{
    hd_http_request *const r = &p->request;
    char                  *c = line;
    while (is_token(*c)) c++;
    if (c == line || *c != ':') return refuse(p, 400, "a header field is not: name, colon, value");
    *c++ = 0;
    while (is_blank(*c)) c++;
    char *end = c + strlen(c);
    while (end > c && is_blank(end[-1])) end--;
    *end = 0;
    for (const char *v = c; *v; v++)
        if (!is_visible(*v) && !is_blank(*v))
            return refuse(p, 400, "a header field holds a control character");
    if (r->n_fields == HD_HTTP_MAX_FIELDS) return refuse(p, 431, "more than 100 header fields");
    r->fields[r->n_fields++] = (hd_http_field){line, c};
    return true;
}

/* Whether the comma-separated value names the word. */
static bool has_word(const char *value, const char *word)
{
    size_t const n = strlen(word);
    while (value && *value) {
        value += strspn(value, " \t,");
        size_t const bytes = strcspn(value, " \t,");
        if (bytes == n && strncasecmp(value, word, n) == 0) return true;
        value += bytes;
    }
    return false;
}

static void read_connection(hd_http_request *r)
{
    for (int32_t i = 0; i < r->n_fields; i++) {
        if (strcasecmp(r->fields[i].name, "Connection") != 0) continue;
        if (has_word(r->fields[i].value, "keep-alive")) r->is_kept = true;
    }
    for (int32_t i = 0; i < r->n_fields; i++)
        if (strcasecmp(r->fields[i].name, "Connection") == 0 &&
            has_word(r->fields[i].value, "close"))
            r->is_kept = false;
}

static bool check_host(hd_http_parser *p)
{
    const hd_http_request *const r = &p->request;
    int32_t const                n = count_fields(r, "Host");
    if (n > 1) return refuse(p, 400, "more than one Host");
    if (n == 0 && r->is_11) return refuse(p, 400, "no Host");
    const char *const host = hd_http_field_find(r, "Host");
    if (host && strpbrk(host, " \t/@?#,")) return refuse(p, 400, "Host is no host");
    return true;
}

static bool check_expect(hd_http_parser *p)
{
    const char *const expect = hd_http_field_find(&p->request, "Expect");
    if (!expect) return true;
    if (strcasecmp(expect, "100-continue") != 0)
        return refuse(p, 417, "Expect knows 100-continue only");
    p->request.continues = p->request.is_11;
    return true;
}

static bool read_length(hd_http_parser *p, const char *digits)
{
    size_t n = 0;
    if (!*digits) return refuse(p, 400, "Content-Length is empty");
    for (const char *c = digits; *c; c++) {
        if (!is_digit(*c)) return refuse(p, 400, "Content-Length is no number");
        if (!hd_size_mul(n, 10, &n) || !hd_size_add(n, (size_t)(*c - '0'), &n))
            return refuse(p, 413, "the body is too long");
    }
    if (n > p->max_body) return refuse(p, 413, "the body is too long");
    p->left = n;
    p->state = n > 0 ? HD_HTTP_IN_BODY : HD_HTTP_WHOLE;
    return true;
}

/* How long the body is; where two fields could say so in two ways, neither is believed. */
static bool read_framing(hd_http_parser *p)
{
    const hd_http_request *const r = &p->request;
    int32_t const                n_length = count_fields(r, "Content-Length");
    int32_t const                n_coding = count_fields(r, "Transfer-Encoding");
    if (n_length > 1) return refuse(p, 400, "more than one Content-Length");
    if (n_coding > 0 && n_length > 0)
        return refuse(p, 400, "Transfer-Encoding together with Content-Length");
    if (n_coding > 1) return refuse(p, 400, "more than one Transfer-Encoding");
    if (n_coding > 0) {
        if (!r->is_11) return refuse(p, 400, "Transfer-Encoding in HTTP/1.0");
        if (strcasecmp(hd_http_field_find(r, "Transfer-Encoding"), "chunked") != 0)
            return refuse(p, 501, "Transfer-Encoding knows chunked only");
        p->state = HD_HTTP_IN_CHUNK_SIZE;
        return true;
    }
    if (n_length > 0) return read_length(p, hd_http_field_find(r, "Content-Length"));
    p->state = HD_HTTP_WHOLE;
    return true;
}

/* ---- the head ---- */

/* Cuts the line that ends with CRLF: returns the next one. */
static char *cut_line(char *line)
{
    char *const end = strstr(line, "\r\n");
    *end = 0;
    return end + 2;
}

/* The head is whole, ends with an empty line, and is ours to cut. */
static bool read_head(hd_http_parser *p)
{
    hd_http_request *const r = &p->request;
    char                  *line = r->head.data;
    if (memchr(line, 0, r->head.used)) return refuse(p, 400, "the header holds a NUL");
    char *next = cut_line(line);
    if (!read_request_line(p, line)) return false;
    for (line = next; line[0] != '\r' || line[1] != '\n'; line = next) {
        next = cut_line(line);
        if (!read_field(p, line)) return false;
    }
    read_connection(r);
    return check_host(p) && check_expect(p) && read_framing(p);
}

/* Where the empty line ends, 0 while there is none; a line that ends with LF alone breaks. */
static size_t find_head_end(hd_http_parser *p)
{
    const hd_buffer *const h = &p->request.head;
    for (; p->scanned < h->used; p->scanned++) {
        size_t const at = p->scanned;
        if (h->data[at] != '\n') continue;
        if (at == 0 || h->data[at - 1] != '\r') {
            refuse(p, 400, "a line ends without CR");
            return 0;
        }
        if (at >= 3 && h->data[at - 2] == '\n') return at + 1;
    }
    return 0;
}

static size_t push_head(hd_http_parser *p, const char *data, size_t bytes)
{
    hd_buffer *const head = &p->request.head;
    size_t           blank = 0;
    if (head->used == 0) /* as RFC 9112 2.2 asks: empty lines in front of a request */
        while (blank < bytes && (data[blank] == '\r' || data[blank] == '\n')) blank++;
    size_t const before = head->used;
    size_t const room = HD_HTTP_MAX_HEAD - before;
    size_t const n = bytes - blank < room ? bytes - blank : room;
    hd_buffer_add(head, data + blank, n);
    if (head->failed) {
        refuse(p, 500, "no memory for the header");
        return bytes;
    }
    size_t const end = find_head_end(p);
    if (end == 0) {
        if (p->state == HD_HTTP_IN_HEAD && head->used == HD_HTTP_MAX_HEAD)
            refuse(p, 431, "the header is longer than 64 KiB");
        return bytes;
    }
    head->used = end;
    head->data[end] = 0;
    read_head(p);
    return blank + end - before;
}

/* ---- the body ---- */

static size_t push_body(hd_http_parser *p, const char *data, size_t bytes)
{
    size_t const n = bytes < p->left ? bytes : p->left;
    hd_buffer_add(&p->request.body, data, n);
    p->left -= n;
    if (p->request.body.failed)
        refuse(p, 500, "no memory for the body");
    else if (p->left == 0)
        p->state = p->state == HD_HTTP_IN_BODY ? HD_HTTP_WHOLE : HD_HTTP_IN_CHUNK_END;
    return n;
}

/* Collects a line into p->line up to its LF, without CRLF; *is_whole tells whether it is. */
static size_t push_line(hd_http_parser *p, const char *data, size_t bytes, bool *is_whole)
{
    const char *const lf = memchr(data, '\n', bytes);
    size_t const      n = lf ? (size_t)(lf - data) + 1 : bytes;
    hd_buffer_add(&p->line, data, n);
    p->trailer_bytes += n;
    *is_whole = false;
    if (p->line.failed)
        refuse(p, 500, "no memory for a line of the body");
    else if (p->trailer_bytes > HD_HTTP_MAX_HEAD)
        refuse(p, 431, "trailers and sizes of chunks are longer than 64 KiB");
    else if (lf && (p->line.used < 2 || p->line.data[p->line.used - 2] != '\r'))
        refuse(p, 400, "a line of a chunk ends without CR");
    else if (lf)
        *is_whole = true;
    return n;
}

static int hex_value(char c)
{
    if (is_digit(c)) return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Extensions behind a ';' are allowed and mean nothing. */
static void read_chunk_size(hd_http_parser *p)
{
    const char *const s = p->line.data;
    size_t            n = 0, at = 0;
    for (; hex_value(s[at]) >= 0; at++) {
        if (at == 15) {
            refuse(p, 413, "a chunk is too long");
            return;
        }
        n = n * 16 + (size_t)hex_value(s[at]);
    }
    if (at == 0 || (s[at] != '\r' && s[at] != ';'))
        refuse(p, 400, "the size of a chunk is no number");
    else if (n > p->max_body - p->request.body.used)
        refuse(p, 413, "the body is too long");
    else
        p->state = n > 0 ? HD_HTTP_IN_CHUNK : HD_HTTP_IN_TRAILERS;
    p->left = n;
}

static size_t push_framed_line(hd_http_parser *p, const char *data, size_t bytes)
{
    bool         is_whole;
    size_t const n = push_line(p, data, bytes, &is_whole);
    if (!is_whole) return n;
    bool const is_empty = p->line.used == 2;
    switch (p->state) {
    case HD_HTTP_IN_CHUNK_SIZE: read_chunk_size(p); break;
    case HD_HTTP_IN_CHUNK_END:
        if (is_empty)
            p->state = HD_HTTP_IN_CHUNK_SIZE;
        else
            refuse(p, 400, "a chunk is longer than it says");
        break;
    default: /* trailers are read over */
        if (is_empty) p->state = HD_HTTP_WHOLE;
        break;
    }
    hd_buffer_clear(&p->line);
    return n;
}

/* ---- the whole ---- */

static size_t push_some(hd_http_parser *p, const char *data, size_t bytes)
{
    switch (p->state) {
    case HD_HTTP_IN_HEAD: return push_head(p, data, bytes);
    case HD_HTTP_IN_BODY:
    case HD_HTTP_IN_CHUNK: return push_body(p, data, bytes);
    default: return push_framed_line(p, data, bytes);
    }
}

size_t hd_http_parser_push(hd_http_parser *p, const char *data, size_t bytes)
{
    size_t used = 0;
    while (used < bytes && p->state < HD_HTTP_WHOLE)
        used += push_some(p, data + used, bytes - used);
    return used;
}

bool hd_http_parser_is_fresh(const hd_http_parser *p)
{
    return p->state == HD_HTTP_IN_HEAD && p->request.head.used == 0;
}

void hd_http_parser_reset(hd_http_parser *p)
{
    hd_buffer_free(&p->request.head);
    hd_buffer_free(&p->request.body);
    hd_buffer_free(&p->line);
    *p = (hd_http_parser){.max_body = p->max_body};
}
