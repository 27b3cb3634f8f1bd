#include "server/gate.h"

#include <string.h>
#include <strings.h>

#include "base/file.h"

enum { MAX_KEY_FILE = 1 << 20 };

/* ---- keys ---- */

static bool is_key(const char *line)
{
    for (const char *c = line; *c; c++)
        if ((unsigned char)*c <= ' ' || *c == 0x7F) return false;
    return true;
}

static char *cut_line(char **rest)
{
    char *const line = *rest;
    char *const end = strchr(line, '\n');
    size_t      n = end ? (size_t)(end - line) : strlen(line);
    *rest = end ? end + 1 : NULL;
    while (n > 0 && (line[n - 1] == '\r' || line[n - 1] == ' ')) n--;
    line[n] = 0;
    return line;
}

static int32_t count_lines(const char *text)
{
    int32_t n = 1;
    for (; *text; text++) n += *text == '\n';
    return n;
}

hd_status hd_gate_read_keys(hd_gate *g, const char *path, hd_error *err)
{
    char  *text = NULL;
    size_t bytes = 0;
    HD_TRY(hd_file_read(&text, &bytes, path, MAX_KEY_FILE, &g->pool, err));
    if (strlen(text) != bytes) HD_FAIL(err, HD_ERR_FORMAT, "%s: it holds a NUL", path);
    g->keys = hd_pool_alloc(&g->pool, (size_t)count_lines(text) * sizeof *g->keys);
    if (!g->keys) HD_FAIL(err, HD_ERR_MEMORY, "%s: no memory for its keys", path);
    for (int32_t n = 1; text; n++) {
        const char *const line = cut_line(&text);
        if (!*line || *line == '#') continue;
        if (!is_key(line)) HD_FAIL(err, HD_ERR_FORMAT, "%s: line %d is no key", path, n);
        g->keys[g->n_keys++] = line;
    }
    if (g->n_keys == 0) HD_FAIL(err, HD_ERR_FORMAT, "%s: it holds no key", path);
    return HD_OK;
}

void hd_gate_close(hd_gate *g) { hd_pool_free(&g->pool); }

/* Looks at every byte of what was given, whatever differs before. */
static bool is_equal(const char *key, const char *given)
{
    size_t const      n = strlen(key), n_given = strlen(given);
    volatile unsigned differs = n != n_given;
    for (size_t i = 0; i < n_given; i++)
        differs |= (unsigned char)given[i] ^ (unsigned char)key[n ? i % n : 0];
    return differs == 0;
}

static const char *find_key(const hd_http_request *r)
{
    const char *const field = hd_http_field_find(r, "Authorization");
    if (!field) return hd_http_field_find(r, "x-api-key");
    if (strncasecmp(field, "Bearer ", 7) != 0) return NULL;
    return field + 7 + strspn(field + 7, " ");
}

hd_status hd_gate_check_key(const hd_gate *g, const hd_http_request *r, hd_api_error *e)
{
    const char *const given = g->n_keys ? find_key(r) : NULL;
    bool              is_known = false;
    if (g->n_keys == 0) return HD_OK;
    for (int32_t i = 0; given && i < g->n_keys; i++) is_known |= is_equal(g->keys[i], given);
    if (is_known) return HD_OK;
    return hd_api_fail(e, 401, hd_api_type_of(401), "invalid_api_key",
                       given ? "this key is not known here"
                             : "a key is wanted: Authorization: Bearer KEY, or x-api-key: KEY");
}

/* ---- origins ---- */

bool hd_gate_is_loopback(const char *host)
{
    return strcasecmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 ||
           strcmp(host, "::1") == 0;
}

/* Whether a Host field, with or without a port, names this machine. */
static bool is_own_name(const char *host)
{
    char         name[64];
    bool const   is_v6 = host[0] == '[';
    size_t const n = is_v6 ? strcspn(host + 1, "]") : strcspn(host, ":");
    if (n >= sizeof name) return false;
    memcpy(name, host + is_v6, n);
    name[n] = 0;
    return hd_gate_is_loopback(name);
}

static bool is_listed(const hd_gate *g, const char *origin)
{
    for (int32_t i = 0; i < g->n_origins; i++)
        if (strcmp(g->origins[i], "*") == 0 || strcasecmp(g->origins[i], origin) == 0) return true;
    return false;
}

/* An origin is scheme, "://", host and port. */
static bool is_same_origin(const char *origin, const char *host)
{
    const char *const at = strstr(origin, "://");
    return at && host && strcasecmp(at + 3, host) == 0;
}

hd_status hd_gate_check_origin(const hd_gate *g, const hd_http_request *r, hd_api_error *e)
{
    const char *const origin = hd_http_field_find(r, "Origin");
    const char *const host = hd_http_field_find(r, "Host");
    if (g->n_keys == 0 && g->is_local && host && !is_own_name(host))
        return hd_api_fail(e, 403, hd_api_type_of(403), "host_not_allowed",
                           "this server answers to the names of this machine only");
    if (!origin || is_listed(g, origin) || is_same_origin(origin, host)) return HD_OK;
    return hd_api_fail(e, 403, hd_api_type_of(403), "origin_not_allowed",
                       "pages of this origin may not ask here");
}

void hd_gate_write_fields(const hd_gate *g, const hd_http_request *r, hd_buffer *out)
{
    const char *const origin = hd_http_field_find(r, "Origin");
    if (!origin || !is_listed(g, origin)) return;
    hd_buffer_printf(out,
                     "Access-Control-Allow-Origin: %s\r\nVary: Origin\r\n"
                     "Access-Control-Expose-Headers: x-request-id\r\n",
                     origin);
    if (r->method != HD_HTTP_OPTIONS) return;
    hd_buffer_text(out, "Access-Control-Allow-Methods: GET, POST, OPTIONS\r\n"
                        "Access-Control-Allow-Headers: Authorization, Content-Type, x-api-key, "
                        "anthropic-version, anthropic-beta\r\n"
                        "Access-Control-Max-Age: 600\r\n");
}
