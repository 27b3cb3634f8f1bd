#include "server/probes.h"

#include <string.h>

#include "base/json_write.h"
#include "server/server_state.h"

/* ---- health ---- */

static void write_status(hd_response *out, int status, const char *word)
{
    out->status = status;
    hd_buffer_printf(&out->body, "{\"status\":\"%s\"}", word);
}

/* The process works: whoever watches it need not start it again. */
void hd_probe_health(hd_server *s, const hd_http_request *r, hd_response *out)
{
    (void)r;
    bool const is_dead = hd_flag_is_raised(&s->has_died);
    write_status(out, is_dead ? 503 : 200, is_dead ? "dead" : "ok");
}

/* It takes requests: whoever spreads them may send some. */
void hd_probe_ready(hd_server *s, const hd_http_request *r, hd_response *out)
{
    (void)r;
    bool const is_ready = !hd_flag_is_raised(&s->has_died) && s->stopped_s == 0;
    write_status(out, is_ready ? 200 : 503, is_ready ? "ready" : "stopping");
}

void hd_probe_metrics(hd_server *s, const hd_http_request *r, hd_response *out)
{
    (void)r;
    hd_metrics_now now = {.model = s->context.model,
                          .n_connections = hd_http_n_connections(s->http),
                          .n_sessions = s->options.n_sessions,
                          .max_tokens = s->context.max_tokens};
    hd_batch_stats_get(s->batch, &now.batch);
    out->type = "text/plain; version=0.0.4; charset=utf-8";
    hd_metrics_write(&s->metrics, &now, &out->body);
}

/* ---- models ---- */

static void write_member(hd_buffer *out, const char *name, const char *text)
{
    hd_buffer_printf(out, "\"%s\":", name);
    hd_json_write_string(out, text, strlen(text));
}

static void write_model(const hd_server *s, hd_buffer *out)
{
    hd_buffer_text(out, "{");
    write_member(out, "id", s->context.model);
    hd_buffer_printf(out,
                     ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"hadal\","
                     "\"max_model_len\":%d}",
                     (long long)s->started, s->context.max_tokens);
}

void hd_probe_models(hd_server *s, const hd_http_request *r, hd_response *out)
{
    (void)r;
    hd_buffer_text(&out->body, "{\"object\":\"list\",\"data\":[");
    write_model(s, &out->body);
    hd_buffer_text(&out->body, "]}");
}

void hd_probe_model(hd_server *s, const hd_http_request *r, hd_response *out)
{
    const hd_route *route = NULL;
    hd_api_error    e;
    hd_route_find(r->method, r->path, &route);
    const char *const id = hd_route_tail(route, r->path);
    if (strcmp(id, s->context.model) == 0) {
        write_model(s, &out->body);
        return;
    }
    hd_api_fail(&e, 404, hd_api_type_of(404), "model_not_found", "there is no %.100s here, only %s",
                id, s->context.model);
    out->status = e.status;
    hd_api_write_error(&out->body, &e);
}

/* ---- what runs ---- */

void hd_probe_props(hd_server *s, const hd_http_request *r, hd_response *out)
{
    static const char *const    dialects[] = {"ga", "preview", "ga_api", "v41_api"};
    const hd_engine_info *const i = &s->info;
    hd_batch_stats              stats;
    (void)r;
    hd_batch_stats_get(s->batch, &stats);
    hd_buffer_text(&out->body, "{");
    write_member(&out->body, "model", s->context.model);
    hd_buffer_text(&out->body, ",");
    write_member(&out->body, "formats", i->family);
    hd_buffer_printf(&out->body,
                     ",\"activations\":\"%s\",\"kv\":\"%s\",\"dialect\":\"%s\",\"layers\":%d,"
                     "\"vocabulary\":%d,\"context\":%d,\"users\":%d,\"threads\":%d,",
                     hd_act_name(i->act), hd_kv_name(i->kv), dialects[s->context.dialect],
                     i->n_layers, i->n_vocab, i->max_tokens, s->options.n_sessions, i->n_threads);
    hd_buffer_printf(&out->body,
                     "\"memory\":{\"weights\":%lld,\"kv\":%lld,\"activations\":%lld,\"kept\":%lld},"
                     "\"bytes_per_token\":%.9g,\"temperature\":%.9g}",
                     (long long)i->weight_bytes, (long long)i->kv_bytes, (long long)i->act_bytes,
                     (long long)stats.kept_bytes, i->token_bytes,
                     (double)s->context.default_temperature);
}
