#include "server/api_error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/json_write.h"

static const char invalid[] = "invalid_request_error";

static void set_param(hd_api_error *e, const char *param, size_t bytes)
{
    if (bytes >= sizeof e->param) bytes = sizeof e->param - 1;
    memcpy(e->param, param, bytes);
    e->param[bytes] = 0;
}

hd_status hd_api_refuse(hd_api_error *e, const char *param, const char *fmt, ...)
{
    va_list ap;
    *e = (hd_api_error){.status = 400, .type = invalid};
    set_param(e, param, strlen(param));
    int const used = snprintf(e->message, sizeof e->message, "%s: ", e->param);
    va_start(ap, fmt);
    vsnprintf(e->message + used, sizeof e->message - (size_t)used, fmt, ap);
    va_end(ap);
    return HD_ERR_FORMAT;
}

hd_status hd_api_fail(hd_api_error *e, int status, const char *type, const char *code,
                      const char *fmt, ...)
{
    va_list ap;
    *e = (hd_api_error){.status = status, .type = type, .code = code};
    va_start(ap, fmt);
    vsnprintf(e->message, sizeof e->message, fmt, ap);
    va_end(ap);
    return HD_ERR_FORMAT;
}

const char *hd_api_type_of(int status)
{
    switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 429: return "rate_limit_error";
    case 500:
    case 503: return "server_error";
    default: return invalid;
    }
}

/* Messages about a value begin with its path: "messages[3].content: found ...". */
static size_t measure_path(const char *message)
{
    size_t const n = strspn(message, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                     "0123456789_$.[]/-");
    return message[n] == ':' && message[n + 1] == ' ' ? n : 0;
}

hd_status hd_api_pass_on(hd_api_error *e, const hd_error *why)
{
    bool const is_full = why->code == HD_ERR_LIMIT && why->where == 1;
    *e = (hd_api_error){.status = 400, .type = invalid};
    snprintf(e->message, sizeof e->message, "%s", why->message);
    switch (why->code) {
    case HD_ERR_FORMAT:
    case HD_ERR_INVALID:
    case HD_ERR_UNSUPPORTED: set_param(e, why->message, measure_path(why->message)); break;
    case HD_ERR_LIMIT:
        if (!is_full) {
            e->code = "context_length_exceeded";
            break;
        }
        e->status = 429;
        e->code = "queue_full";
        e->retry_s = 1;
        break;
    case HD_ERR_NUMERIC:
        e->status = 500;
        e->code = "numeric_error";
        break;
    case HD_ERR_MEMORY:
    case HD_ERR_CANCELLED:
    case HD_ERR_DEVICE:
    case HD_ERR_IO:
    case HD_OK: e->status = 503; break;
    }
    if (e->status != 400) e->type = hd_api_type_of(e->status);
    return why->code;
}

static void write_or_null(hd_buffer *out, const char *name, const char *text)
{
    hd_buffer_printf(out, ",\"%s\":", name);
    if (text && *text)
        hd_json_write_string(out, text, strlen(text));
    else
        hd_buffer_text(out, "null");
}

void hd_api_write_error(hd_buffer *out, const hd_api_error *e)
{
    hd_buffer_text(out, "{\"error\":{\"message\":");
    hd_json_write_string(out, e->message, strlen(e->message));
    write_or_null(out, "type", e->type);
    write_or_null(out, "param", e->param);
    write_or_null(out, "code", e->code);
    hd_buffer_text(out, "}}");
}
