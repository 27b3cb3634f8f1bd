#include "server/route.h"

#include <string.h>

static const char *skip_v1(const hd_route *r, const char *path)
{
    return r->has_v1 && strncmp(path, "/v1/", 4) == 0 ? path + 3 : path;
}

static bool has_path(const hd_route *r, const char *path)
{
    size_t const n = strlen(r->path);
    if (r->path[n - 1] == '*') return strncmp(path, r->path, n - 1) == 0;
    return strcmp(path, r->path) == 0;
}

static bool has_method(const hd_route *r, hd_http_method method)
{
    return r->method == method || (r->method == HD_HTTP_GET && method == HD_HTTP_HEAD);
}

hd_route_found hd_route_find(hd_http_method method, const char *path, const hd_route **out)
{
    *out = NULL;
    for (int32_t i = 0; i < hd_n_routes; i++) {
        const hd_route *const r = &hd_routes[i];
        if (!has_path(r, skip_v1(r, path))) continue;
        *out = r;
        if (has_method(r, method)) return HD_ROUTE_FOUND;
    }
    return *out ? HD_ROUTE_NO_METHOD : HD_ROUTE_NO_PATH;
}

const char *hd_route_tail(const hd_route *route, const char *path)
{
    return skip_v1(route, path) + strlen(route->path) - 1;
}
