#include <string.h>
#include <strings.h>

#include "server/server_state.h"

/* ---- answers ---- */

void hd_dispatch_fields(hd_server *s, const hd_exchange *x, const char *id, hd_buffer *out)
{
    hd_buffer_printf(out, "x-request-id: %s\r\nrequest-id: req_%s\r\n", id, id);
    hd_gate_write_fields(&s->gate, hd_exchange_request(x), out);
}

void hd_dispatch_reply(hd_server *s, hd_exchange *x, const char *id, const hd_response *r)
{
    hd_buffer   fields = {0};
    int const   status = r->body.failed ? 503 : r->status ? r->status : 200;
    const char *type = r->type ? r->type : "application/json";
    hd_dispatch_fields(s, x, id, &fields);
    if (r->fields) hd_buffer_text(&fields, r->fields);
    hd_exchange_reply(x, &(hd_http_reply){.status = status,
                                          .type = status == 204 ? NULL : type,
                                          .fields = fields.failed ? NULL : fields.data,
                                          .body = r->body.data,
                                          .body_bytes = r->body.failed ? 0 : r->body.used});
    hd_buffer_free(&fields);
}

/* Answers at once, and frees the response. */
static void finish(hd_server *s, hd_exchange *x, const char *id, hd_response *r)
{
    int const status = r->status ? r->status : 200;
    hd_metrics_take_status(&s->metrics, status);
    hd_log_request(s, x, id, status);
    hd_dispatch_reply(s, x, id, r);
    hd_buffer_free(&r->body);
}

static void refuse(hd_server *s, hd_exchange *x, const char *id, const hd_route *route,
                   const hd_api_error *e)
{
    hd_response r = {.status = e->status};
    void (*write)(hd_buffer *, const hd_api_error *, const char *) = NULL;
    if (route) write = route->api ? route->api->write_error : route->write_error;
    if (write)
        write(&r.body, e, id);
    else
        hd_api_write_error(&r.body, e);
    if (e->status == 401) r.fields = "WWW-Authenticate: Bearer\r\n";
    finish(s, x, id, &r);
}

/* ---- checks ---- */

static hd_status find_route(const hd_http_request *r, const hd_route **route, hd_api_error *e)
{
    bool const           is_preflight = r->method == HD_HTTP_OPTIONS;
    hd_route_found const found = hd_route_find(r->method, r->path, route);
    if (found == HD_ROUTE_FOUND || (found == HD_ROUTE_NO_METHOD && is_preflight)) return HD_OK;
    if (found == HD_ROUTE_NO_PATH)
        return hd_api_fail(e, 404, hd_api_type_of(404), "not_found", "there is no %.200s here",
                           r->path);
    return hd_api_fail(e, 405, hd_api_type_of(405), "method_not_allowed", "%.200s wants %s",
                       r->path, hd_http_method_name((*route)->method));
}

/* A page of any origin may send a form or a plain text, but no JSON, without being asked whether it
 * may; so a body is JSON by name, too. */
static hd_status check_type(const hd_http_request *r, hd_api_error *e)
{
    static const char json[] = "application/json";
    const char *const type = hd_http_field_find(r, "Content-Type");
    size_t const      n = sizeof json - 1;
    if (type && strncasecmp(type, json, n) == 0 && (!type[n] || strchr("; \t", type[n])))
        return HD_OK;
    return hd_api_fail(e, 415, hd_api_type_of(415), "unsupported_media_type",
                       "Content-Type: wanted application/json");
}

static hd_status check(hd_server *s, const hd_http_request *r, const hd_route **route,
                       hd_api_error *e)
{
    HD_TRY(hd_gate_check_origin(&s->gate, r, e));
    HD_TRY(find_route(r, route, e));
    if (r->method == HD_HTTP_OPTIONS) return HD_OK;
    if (!(*route)->is_open) HD_TRY(hd_gate_check_key(&s->gate, r, e));
    return (*route)->now ? HD_OK : check_type(r, e);
}

/* ---- hooks ---- */

void hd_dispatch(void *server, hd_exchange *x)
{
    hd_server *const             s = server;
    const hd_http_request *const r = hd_exchange_request(x);
    const hd_route              *route = NULL;
    hd_api_error                 e = {0};
    hd_response                  response = {0};
    char                         id[33];
    hd_make_id(id);
    if (check(s, r, &route, &e) != HD_OK) {
        refuse(s, x, id, route, &e);
    } else if (r->method == HD_HTTP_OPTIONS) {
        response.status = 204;
        finish(s, x, id, &response);
    } else if (route->now) {
        route->now(s, r, &response);
        finish(s, x, id, &response);
    } else {
        hd_call_start(s, x, route, id);
    }
}

void hd_dispatch_broken(void *server, int status, const char *why, hd_buffer *body)
{
    hd_server *const s = server;
    hd_api_error     e;
    hd_api_fail(&e, status, hd_api_type_of(status), NULL, "%s", why);
    hd_metrics_take_status(&s->metrics, status);
    hd_log_event(s, "refused", "%s", why);
    hd_api_write_error(body, &e);
}
