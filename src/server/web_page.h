#ifndef HD_SERVER_WEB_PAGE_H
#define HD_SERVER_WEB_PAGE_H

#include "server/route.h"

/* The web page: the files of src/server/web, which are part of the program. */

HD_BEGIN_C

/* GET / */
void hd_web_index(struct hd_server *s, const hd_http_request *r, hd_response *out);
/* GET /web/NAME */
void hd_web_file(struct hd_server *s, const hd_http_request *r, hd_response *out);
/* GET /openapi.json */
void hd_web_openapi(struct hd_server *s, const hd_http_request *r, hd_response *out);

HD_END_C
#endif
