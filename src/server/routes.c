#include "server/anthropic_messages.h"
#include "server/probes.h"
#include "server/route.h"
#include "server/token_routes.h"
#include "server/web_page.h"

const hd_route hd_routes[] = {
    {HD_HTTP_POST, "/chat/completions", .has_v1 = true, .api = &hd_api_openai_chat},
    {HD_HTTP_POST, "/completions", .has_v1 = true, .api = &hd_api_openai_completions},
    {HD_HTTP_POST, "/responses", .has_v1 = true, .api = &hd_api_openai_responses},
    {HD_HTTP_POST, "/messages", .has_v1 = true, .api = &hd_api_anthropic_messages},
    {HD_HTTP_POST, "/messages/count_tokens", .has_v1 = true, .work = hd_anthropic_count_tokens,
     .write_error = hd_anthropic_write_error},
    {HD_HTTP_GET, "/models", .has_v1 = true, .now = hd_probe_models},
    {HD_HTTP_GET, "/models/*", .has_v1 = true, .now = hd_probe_model},
    {HD_HTTP_POST, "/tokenize", .work = hd_route_tokenize},
    {HD_HTTP_POST, "/detokenize", .work = hd_route_detokenize},
    {HD_HTTP_GET, "/tokenizer_info", .now = hd_route_tokenizer_info},
    {HD_HTTP_GET, "/health", .is_open = true, .now = hd_probe_health},
    {HD_HTTP_GET, "/ready", .is_open = true, .now = hd_probe_ready},
    {HD_HTTP_GET, "/metrics", .now = hd_probe_metrics},
    {HD_HTTP_GET, "/props", .now = hd_probe_props},
    {HD_HTTP_GET, "/openapi.json", .is_open = true, .now = hd_web_openapi},
    {HD_HTTP_GET, "/", .is_open = true, .now = hd_web_index},
    {HD_HTTP_GET, "/web/*", .is_open = true, .now = hd_web_file},
};
const int32_t hd_n_routes = sizeof hd_routes / sizeof hd_routes[0];
