#ifndef HD_SERVER_API_ERROR_H
#define HD_SERVER_API_ERROR_H

#include "base/memory.h"

/* Why a request is refused, before an API gives it its shape. */

HD_BEGIN_C

typedef struct hd_api_error {
    int         status;       /* of HTTP; 0: no error                                  */
    const char *type;         /* as OpenAI's API names it, static                      */
    const char *code;         /* NULL: none; static                                    */
    char        param[96];    /* path of the member that is wrong; "": none            */
    char        message[512]; /* one line                                              */
    int32_t     retry_s;      /* to wait before another try; 0: says nothing           */
} hd_api_error;

/* Sets *e for a member of the body and returns HD_ERR_FORMAT: status 400, invalid_request_error. */
hd_status hd_api_refuse(hd_api_error *e, const char *param, const char *fmt, ...) HD_PRINTF(3, 4);
/* Any status; returns HD_ERR_FORMAT. */
hd_status hd_api_fail(hd_api_error *e, int status, const char *type, const char *code,
                      const char *fmt, ...) HD_PRINTF(5, 6);
/* What the library refused or failed at; returns why->code. */
hd_status hd_api_pass_on(hd_api_error *e, const hd_error *why);
/* The type of an error with this status, when nothing more is known. */
const char *hd_api_type_of(int status);

/* Adds {"error": {...}} as OpenAI's API has it. */
void hd_api_write_error(hd_buffer *out, const hd_api_error *e);

HD_END_C
#endif
