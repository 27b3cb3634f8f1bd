#ifndef HD_SERVER_ROUTE_H
#define HD_SERVER_ROUTE_H

#include "server/api.h"
#include "server/http_parse.h"

/* What is to be had where. */

HD_BEGIN_C

struct hd_server;

/* An answer that is whole at once. */
typedef struct hd_response {
    int         status; /* 0: 200                           */
    const char *type;   /* NULL: application/json           */
    const char *fields; /* further header fields, static; or NULL */
    hd_buffer   body;   /* owned                            */
} hd_response;

typedef struct hd_route {
    hd_http_method method;  /* GET also answers HEAD */
    const char    *path;    /* without /v1; one that ends with '*' stands for all that go on so */
    bool           has_v1;  /* also with /v1 in front */
    bool           is_open; /* also without a key     */
    /* Exactly one of these.  `now` is answered in the loop's thread, so it is to be short; `work`
     * and `api` read a JSON body in the thread that prepares requests. */
    void (*now)(struct hd_server *s, const hd_http_request *r, hd_response *out);
    hd_status (*work)(struct hd_server *s, const hd_fields *b, hd_response *out);
    const hd_api *api;
    /* The shape of refusals; NULL: OpenAI's. */
    void (*write_error)(hd_buffer *out, const hd_api_error *e, const char *id);
} hd_route;

extern const hd_route hd_routes[];
extern const int32_t  hd_n_routes;

typedef enum hd_route_found { HD_ROUTE_FOUND, HD_ROUTE_NO_PATH, HD_ROUTE_NO_METHOD } hd_route_found;
/* *out is the route; of NO_METHOD one that has the path, of NO_PATH NULL. */
hd_route_found hd_route_find(hd_http_method method, const char *path, const hd_route **out);
/* What stands in the place of the '*' of the route's path. */
const char *hd_route_tail(const hd_route *route, const char *path);

HD_END_C
#endif
