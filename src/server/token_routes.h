#ifndef HD_SERVER_TOKEN_ROUTES_H
#define HD_SERVER_TOKEN_ROUTES_H

#include "server/route.h"

/* Texts to ids and back. */

HD_BEGIN_C

hd_status hd_route_tokenize(struct hd_server *s, const hd_fields *b, hd_response *out);
hd_status hd_route_detokenize(struct hd_server *s, const hd_fields *b, hd_response *out);
void      hd_route_tokenizer_info(struct hd_server *s, const hd_http_request *r, hd_response *out);

HD_END_C
#endif
