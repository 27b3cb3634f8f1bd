#include "server/web_page.h"

#include <string.h>

/* The assembler takes a file's bytes in as they are; they end with a zero that is not counted. */
#define EMBED(symbol, file)                                             \
    __asm__(".section .rodata\n"                                        \
            ".global hd_web_" #symbol ", hd_web_" #symbol "_end\n"      \
            "hd_web_" #symbol ": .incbin \"src/server/web/" file "\"\n" \
            "hd_web_" #symbol "_end: .byte 0\n"                         \
            ".text\n");                                                 \
    extern const char hd_web_##symbol[], hd_web_##symbol##_end[]

EMBED(index_html, "index.html");
EMBED(style_css, "style.css");
EMBED(icon_svg, "icon.svg");
EMBED(answer_js, "answer.js");
EMBED(api_js, "api.js");
EMBED(app_js, "app.js");
EMBED(dom_js, "dom.js");
EMBED(facts_js, "facts.js");
EMBED(markdown_js, "markdown.js");
EMBED(options_js, "options.js");
EMBED(store_js, "store.js");
EMBED(view_js, "view.js");
EMBED(openapi_json, "openapi.json");

typedef struct web_file {
    const char *name, *type, *data, *end;
} web_file;

#define CSS  "text/css; charset=utf-8"
#define HTML "text/html; charset=utf-8"
#define JS   "text/javascript; charset=utf-8"

static const web_file files[] = {
    {"index.html", HTML, hd_web_index_html, hd_web_index_html_end},
    {"style.css", CSS, hd_web_style_css, hd_web_style_css_end},
    {"icon.svg", "image/svg+xml", hd_web_icon_svg, hd_web_icon_svg_end},
    {"answer.js", JS, hd_web_answer_js, hd_web_answer_js_end},
    {"api.js", JS, hd_web_api_js, hd_web_api_js_end},
    {"app.js", JS, hd_web_app_js, hd_web_app_js_end},
    {"dom.js", JS, hd_web_dom_js, hd_web_dom_js_end},
    {"facts.js", JS, hd_web_facts_js, hd_web_facts_js_end},
    {"markdown.js", JS, hd_web_markdown_js, hd_web_markdown_js_end},
    {"options.js", JS, hd_web_options_js, hd_web_options_js_end},
    {"store.js", JS, hd_web_store_js, hd_web_store_js_end},
    {"view.js", JS, hd_web_view_js, hd_web_view_js_end},
    {"openapi.json", "application/json", hd_web_openapi_json, hd_web_openapi_json_end},
};

/* Nothing but this server's own files runs or is fetched, whatever an answer says. */
static const char fields[] =
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Cache-Control: no-cache\r\n";

static void reply_file(const char *name, hd_response *out)
{
    size_t i = 0;
    while (i < sizeof files / sizeof files[0] && strcmp(files[i].name, name) != 0) i++;
    if (i == sizeof files / sizeof files[0]) {
        hd_api_error e;
        out->status = 404;
        hd_api_fail(&e, 404, hd_api_type_of(404), "not_found", "there is no file %.100s", name);
        hd_api_write_error(&out->body, &e);
        return;
    }
    out->type = files[i].type;
    out->fields = fields;
    hd_buffer_add(&out->body, files[i].data, (size_t)(files[i].end - files[i].data));
}

void hd_web_index(struct hd_server *s, const hd_http_request *r, hd_response *out)
{
    (void)s, (void)r;
    reply_file("index.html", out);
}

void hd_web_file(struct hd_server *s, const hd_http_request *r, hd_response *out)
{
    const char *const name = strrchr(r->path, '/');
    (void)s;
    reply_file(name ? name + 1 : "", out);
}

void hd_web_openapi(struct hd_server *s, const hd_http_request *r, hd_response *out)
{
    (void)s, (void)r;
    reply_file("openapi.json", out);
}
