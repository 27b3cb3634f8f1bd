#ifndef HD_SERVER_PROBES_H
#define HD_SERVER_PROBES_H

#include "server/route.h"

/* How the server is, and what it serves. */

HD_BEGIN_C

void hd_probe_health(struct hd_server *s, const hd_http_request *r, hd_response *out);
void hd_probe_ready(struct hd_server *s, const hd_http_request *r, hd_response *out);
void hd_probe_metrics(struct hd_server *s, const hd_http_request *r, hd_response *out);
void hd_probe_props(struct hd_server *s, const hd_http_request *r, hd_response *out);
void hd_probe_models(struct hd_server *s, const hd_http_request *r, hd_response *out);
void hd_probe_model(struct hd_server *s, const hd_http_request *r, hd_response *out);

HD_END_C
#endif
