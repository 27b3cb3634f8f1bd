#include "server/probes.h"

#include <string.h>

#include "base/json_write.h"
#include "server/server_state.h"

/* ---- health ---- */

static void write_status(hd_response *out, int status, const char *word)
{
    out->status = status;
    hd_json_write_open(&out->body, NULL, '{');
    hd_json_write_text(&out->body, "status", word);
    hd_buffer_text(&out->body, "}");
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

static void write_model(const hd_server *s, hd_buffer *out)
{
    hd_json_write_open(out, NULL, '{');
    hd_json_write_text(out, "id", s->context.model);
    hd_json_write_text(out, "object", "model");
    hd_json_write_count(out, "created", s->started);
    hd_json_write_text(out, "owned_by", "hadal");
    hd_json_write_count(out, "max_model_len", s->context.max_tokens);
    hd_buffer_text(out, "}");
}

void hd_probe_models(hd_server *s, const hd_http_request *r, hd_response *out)
{
    (void)r;
    hd_json_write_open(&out->body, NULL, '{');
    hd_json_write_text(&out->body, "object", "list");
    hd_json_write_open(&out->body, "data", '[');
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

static void write_engine(const hd_server *s, hd_buffer *out)
{
    static const char *const    dialects[] = {"ga", "preview", "ga_api", "v41_api"};
    const hd_engine_info *const i = &s->info;
    hd_json_write_text(out, "model", s->context.model);
    hd_json_write_text(out, "formats", i->family);
    hd_json_write_text(out, "activations", hd_act_name(i->act));
    hd_json_write_text(out, "kv", hd_kv_name(i->kv));
    hd_json_write_text(out, "dialect", dialects[s->context.dialect]);
    hd_json_write_count(out, "layers", i->n_layers);
    hd_json_write_count(out, "vocabulary", i->n_vocab);
    hd_json_write_count(out, "context", i->max_tokens);
    hd_json_write_count(out, "users", s->options.n_sessions);
    hd_json_write_count(out, "threads", i->n_threads);
}

static void write_memory(const hd_server *s, hd_buffer *out)
{
    const hd_engine_info *const i = &s->info;
    hd_batch_stats              stats;
    hd_batch_stats_get(s->batch, &stats);
    hd_json_write_open(out, "memory", '{');
    hd_json_write_count(out, "weights", i->weight_bytes);
    hd_json_write_count(out, "kv", i->kv_bytes);
    hd_json_write_count(out, "activations", i->act_bytes);
    hd_json_write_count(out, "kept", stats.kept_bytes);
    hd_buffer_text(out, "}");
}

void hd_probe_props(hd_server *s, const hd_http_request *r, hd_response *out)
{
    (void)r;
    hd_json_write_open(&out->body, NULL, '{');
    write_engine(s, &out->body);
    write_memory(s, &out->body);
    hd_json_write_number(&out->body, "bytes_per_token", s->info.token_bytes);
    hd_json_write_number(&out->body, "temperature", s->context.default_temperature);
    hd_buffer_text(&out->body, "}");
}
