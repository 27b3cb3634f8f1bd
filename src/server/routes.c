#include "server/probes.h"
#include "server/route.h"
#include "server/token_routes.h"

const hd_route hd_routes[] = {
    {HD_HTTP_POST, "/chat/completions", .has_v1 = true, .api = &hd_api_openai_chat},
    {HD_HTTP_POST, "/completions", .has_v1 = true, .api = &hd_api_openai_completions},
    {HD_HTTP_GET, "/models", .has_v1 = true, .now = hd_probe_models},
    {HD_HTTP_GET, "/models/*", .has_v1 = true, .now = hd_probe_model},
    {HD_HTTP_POST, "/tokenize", .work = hd_route_tokenize},
    {HD_HTTP_POST, "/detokenize", .work = hd_route_detokenize},
    {HD_HTTP_GET, "/tokenizer_info", .now = hd_route_tokenizer_info},
    {HD_HTTP_GET, "/health", .is_open = true, .now = hd_probe_health},
    {HD_HTTP_GET, "/ready", .is_open = true, .now = hd_probe_ready},
    {HD_HTTP_GET, "/metrics", .now = hd_probe_metrics},
    {HD_HTTP_GET, "/props", .now = hd_probe_props},
};
const int32_t hd_n_routes = sizeof hd_routes / sizeof hd_routes[0];
