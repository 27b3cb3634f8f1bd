#include "server/metrics.h"

#include <stdio.h>
#include <string.h>

#include "base/json_write.h"

/* Seconds. */
static const double bounds[HD_N_BUCKETS] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                            0.25,  0.5,    1,     2.5,  10,    60,   600};

void hd_histogram_add(hd_histogram *h, double value)
{
    for (int i = 0; i < HD_N_BUCKETS; i++) h->counts[i] += value <= bounds[i];
    h->n++;
    h->sum += value;
}

void hd_metrics_take_end(hd_metrics *m, const hd_answer_end *e, bool has_unparsed)
{
    m->n_numeric += e->error.code == HD_ERR_NUMERIC;
    m->reasoning_tokens += e->n_reasoning;
    m->n_unparsed += has_unparsed;
    if (e->error.code != HD_OK) return;
    m->finished[e->finish]++;
    m->blank[e->blank]++;
    hd_histogram_add(&m->wait_s, e->wait_s);
    hd_histogram_add(&m->prompt_s, e->prompt_s);
    hd_histogram_add(&m->new_s, e->new_s);
}

void hd_metrics_take_status(hd_metrics *m, int status)
{
    if (status == 499)
        m->n_left++;
    else if (status >= 100 && status < 600)
        m->responses[status / 100]++;
}

/* ---- Prometheus' text ---- */

typedef struct writer {
    hd_buffer  *out;
    const char *model;
} writer;

/* The label is a JSON string, whose escapes Prometheus reads as we mean them. */
static void write_label(const writer *w)
{
    hd_buffer_text(w->out, "model_name=");
    hd_json_write_string(w->out, w->model, strlen(w->model));
}

static void write_type(const writer *w, const char *name, const char *type, const char *help)
{
    hd_buffer_printf(w->out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void write_value(const writer *w, const char *name, double value)
{
    hd_buffer_printf(w->out, "%s{", name);
    write_label(w);
    hd_buffer_printf(w->out, "} %.17g\n", value);
}

static void write_one(const writer *w, const char *name, const char *type, const char *help,
                      double value)
{
    write_type(w, name, type, help);
    write_value(w, name, value);
}

static void write_labelled(const writer *w, const char *name, const char *label, const char *word,
                           int64_t value)
{
    hd_buffer_printf(w->out, "%s{", name);
    write_label(w);
    hd_buffer_printf(w->out, ",%s=\"%s\"} %lld\n", label, word, (long long)value);
}

static void write_histogram(const writer *w, const char *name, const char *help,
                            const hd_histogram *h)
{
    char bound[32];
    write_type(w, name, "histogram", help);
    for (int i = 0; i <= HD_N_BUCKETS; i++) {
        hd_buffer_printf(w->out, "%s_bucket{", name);
        write_label(w);
        if (i < HD_N_BUCKETS)
            snprintf(bound, sizeof bound, "%g", bounds[i]);
        else
            snprintf(bound, sizeof bound, "+Inf");
        hd_buffer_printf(w->out, ",le=\"%s\"} %lld\n", bound,
                         (long long)(i < HD_N_BUCKETS ? h->counts[i] : h->n));
    }
    hd_buffer_printf(w->out, "%s_sum{", name);
    write_label(w);
    hd_buffer_printf(w->out, "} %.17g\n%s_count{", h->sum, name);
    write_label(w);
    hd_buffer_printf(w->out, "} %lld\n", (long long)h->n);
}

/* Names that load testers look for. */
static void write_common(const writer *w, const hd_metrics *m, const hd_metrics_now *now)
{
    const hd_batch_stats *const b = &now->batch;
    write_one(w, "vllm:num_requests_running", "gauge", "Requests in the batch.", b->n_running);
    write_one(w, "vllm:num_requests_waiting", "gauge", "Requests that wait for a place.",
              b->n_waiting);
    write_one(w, "vllm:prompt_tokens_total", "counter", "Tokens of prompts.",
              (double)b->prompt_tokens);
    write_one(w, "vllm:generation_tokens_total", "counter", "Tokens drawn.", (double)b->new_tokens);
    write_one(w, "vllm:prefix_cache_queries_total", "counter", "Tokens of prompts looked up.",
              (double)b->prompt_tokens);
    write_one(w, "vllm:prefix_cache_hits_total", "counter",
              "Tokens of prompts taken from kept ones.", (double)b->cached_tokens);
    write_type(w, "vllm:request_success_total", "counter", "Answers by how they finished.");
    for (int f = HD_FINISH_STOP; f <= HD_FINISH_TOOL_CALLS; f++)
        write_labelled(w, "vllm:request_success_total", "finished_reason",
                       hd_finish_name((hd_finish)f), m->finished[f]);
    write_histogram(w, "vllm:time_to_first_token_seconds", "From a request to its first token.",
                    &m->first_token_s);
    write_histogram(w, "vllm:inter_token_latency_seconds", "From a token to the next.",
                    &m->next_token_s);
    write_histogram(w, "vllm:e2e_request_latency_seconds", "From a request to its end.",
                    &m->whole_s);
    write_histogram(w, "vllm:request_queue_time_seconds", "In the queue.", &m->wait_s);
    write_histogram(w, "vllm:request_prefill_time_seconds", "Reading the prompt.", &m->prompt_s);
    write_histogram(w, "vllm:request_decode_time_seconds", "Drawing the answer.", &m->new_s);
}

static void write_answers(const writer *w, const hd_metrics *m)
{
    static const char *const classes[] = {"", "1xx", "2xx", "3xx", "4xx", "5xx"};
    write_type(w, "hadal_blank_answers_total", "counter", "Answers without text, by the reason.");
    for (int b = HD_BLANK_REASONING; b <= HD_BLANK_UNPARSED; b++)
        write_labelled(w, "hadal_blank_answers_total", "reason", hd_blank_name((hd_blank)b),
                       m->blank[b]);
    write_one(w, "hadal_unparsed_answers_total", "counter",
              "Answers with a tool call that does not parse.", (double)m->n_unparsed);
    write_one(w, "hadal_numeric_failures_total", "counter", "Answers that met NaN or infinity.",
              (double)m->n_numeric);
    write_one(w, "hadal_reasoning_tokens_total", "counter", "Tokens drawn as reasoning.",
              (double)m->reasoning_tokens);
    write_type(w, "hadal_http_responses_total", "counter", "Responses by the class of status.");
    for (int i = 2; i <= 5; i++)
        write_labelled(w, "hadal_http_responses_total", "class", classes[i], m->responses[i]);
    write_one(w, "hadal_clients_left_total", "counter", "Clients gone before their answer.",
              (double)m->n_left);
}

static void write_own(const writer *w, const hd_metrics_now *now)
{
    const hd_batch_stats *const b = &now->batch;
    write_one(w, "hadal_connections", "gauge", "Open connections.", now->n_connections);
    write_one(w, "hadal_sessions", "gauge", "Requests that can run at once.", now->n_sessions);
    write_one(w, "hadal_context_tokens", "gauge", "Most tokens of a request.", now->max_tokens);
    write_one(w, "hadal_passes_total", "counter", "Passes of the engine.", (double)b->n_passes);
    write_one(w, "hadal_requests_total", "counter", "Requests given to the engine.",
              (double)b->n_requests);
    write_one(w, "hadal_failed_requests_total", "counter", "Of these, failed or cancelled.",
              (double)b->n_failed);
    write_one(w, "hadal_kept_states", "gauge", "Kept states in memory.", (double)b->kept_states);
    write_one(w, "hadal_kept_bytes", "gauge", "Their bytes.", (double)b->kept_bytes);
    write_one(w, "hadal_disk_states", "gauge", "Kept states on disk.", (double)b->disk_states);
    write_one(w, "hadal_disk_bytes", "gauge", "Their bytes.", (double)b->disk_bytes);
    write_one(w, "hadal_evicted_states_total", "counter", "Kept states given up for room.",
              (double)b->n_evicted);
    write_one(w, "hadal_damaged_states_total", "counter", "Kept states found broken on disk.",
              (double)b->n_damaged);
}

void hd_metrics_write(const hd_metrics *m, const hd_metrics_now *now, hd_buffer *out)
{
    writer const w = {out, now->model};
    write_common(&w, m, now);
    write_answers(&w, m);
    write_own(&w, now);
}
