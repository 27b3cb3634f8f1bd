#include "server/http_write.h"

const char *hd_http_reason(int status)
{
    switch (status) {
    case 200: return "OK";
    case 204: return "No Content";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 413: return "Content Too Large";
    case 415: return "Unsupported Media Type";
    case 417: return "Expectation Failed";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 505: return "HTTP Version Not Supported";
    case 529: return "Site is overloaded";
    default: return "Unknown";
    }
}

void hd_http_write_head(hd_buffer *out, const hd_http_head *h)
{
    hd_buffer_printf(out, "HTTP/1.1 %d %s\r\n", h->status, hd_http_reason(h->status));
    if (h->type) hd_buffer_printf(out, "Content-Type: %s\r\n", h->type);
    if (!h->is_streamed && h->status != 204)
        hd_buffer_printf(out, "Content-Length: %zu\r\n", h->body_bytes);
    if (h->is_streamed && h->is_11) hd_buffer_text(out, "Transfer-Encoding: chunked\r\n");
    hd_buffer_printf(out, "Connection: %s\r\n", h->is_kept ? "keep-alive" : "close");
    if (h->fields) hd_buffer_text(out, h->fields);
    hd_buffer_text(out, "\r\n");
}

void hd_http_write_chunk(hd_buffer *out, const char *data, size_t bytes)
{
    if (bytes == 0) return;
    hd_buffer_printf(out, "%zx\r\n", bytes);
    hd_buffer_add(out, data, bytes);
    hd_buffer_text(out, "\r\n");
}

void hd_http_write_last_chunk(hd_buffer *out) { hd_buffer_text(out, "0\r\n\r\n"); }
