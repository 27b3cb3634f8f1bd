#include "base/json.h"

#include <json-c/json_visit.h>
#include <limits.h>
#include <string.h>

#include "base/json_scan.h"

static hd_status fail_memory(const hd_json_scan *s, const char *doing)
{
    HD_FAIL(s->err, HD_ERR_MEMORY, "%s: out of memory %s %zu bytes of JSON", s->what, doing,
            s->bytes);
}

static hd_status scan_all(hd_json_scan *s)
{
    hd_json_piece p = {.kind = HD_JSON_WORD};
    while (p.kind != HD_JSON_END) HD_TRY(hd_json_scan_next(s, &p));
    return HD_OK;
}

static int unmark_big(json_object *v, int flags, json_object *parent, const char *key,
                      size_t *index, void *user)
{
    (void)parent, (void)key, (void)index, (void)user;
    if (flags & JSON_C_VISIT_SECOND || !json_object_is_type(v, json_type_double))
        return JSON_C_VISIT_RETURN_CONTINUE;
    char *const  source = json_object_get_userdata(v);
    size_t const n = source ? strlen(source) : 0;
    if (n && source[n - 1] == '.') source[n - 1] = 0;
    return JSON_C_VISIT_RETURN_CONTINUE;
}

/* A number at the very end is only known to be complete when something follows it. */
static json_object *build_tree(json_tokener *tok, const char *text, size_t bytes)
{
    json_object *v = json_tokener_parse_ex(tok, text, (int)bytes);
    if (json_tokener_get_error(tok) == json_tokener_continue)
        v = json_tokener_parse_ex(tok, "\n", 1);
    return v;
}

static hd_status build(json_object **out, const hd_json_scan *s)
{
    json_tokener *const tok = json_tokener_new_ex(s->deepest + 2);
    if (!tok) return fail_memory(s, "reading");
    json_tokener_set_flags(tok, JSON_TOKENER_STRICT);
    const bool         is_marked = s->copied > 0;
    json_object *const v =
        build_tree(tok, is_marked ? s->copy.data : s->text, is_marked ? s->copy.used : s->bytes);
    enum json_tokener_error const failure = json_tokener_get_error(tok);
    json_tokener_free(tok);
    /* The text was checked, so only memory is left to fail. */
    if (failure != json_tokener_success) return fail_memory(s, "reading");
    if (is_marked) json_c_visit(v, 0, unmark_big, NULL);
    *out = v;
    return HD_OK;
}

hd_status hd_json_parse(json_object **out, const char *text, size_t bytes, unsigned flags,
                        const char *what, hd_error *err)
{
    if (bytes >= INT_MAX)
        HD_FAIL(err, HD_ERR_LIMIT, "%s: %zu bytes of JSON; at most %d can be read", what, bytes,
                INT_MAX - 1);
    hd_json_scan s = {.text = text, .bytes = bytes, .flags = flags, .what = what, .err = err};
    hd_status    status = scan_all(&s);
    if (status == HD_OK && s.copy.used >= INT_MAX) status = fail_memory(&s, "copying");
    if (status == HD_OK) status = build(out, &s);
    hd_json_scan_close(&s);
    return status;
}

bool hd_json_is_valid(const char *text, size_t bytes)
{
    hd_json_scan s = {.text = text, .bytes = bytes, .is_check = true, .what = ""};
    bool const   is_valid = scan_all(&s) == HD_OK;
    hd_json_scan_close(&s);
    return is_valid;
}

/* json-c's getters take pointers to non-const but change nothing that we see. */
static json_object *unconst(const json_object *v) { return (json_object *)(uintptr_t)v; }

const char *hd_json_big_integer(const json_object *v)
{
    if (!json_object_is_type(v, json_type_double)) return NULL;
    /* json-c keeps the text of a double that it parsed as the object's userdata. */
    const char *const source = json_object_get_userdata(unconst(v));
    return source && source[strspn(source, "-0123456789")] == 0 ? source : NULL;
}

const char *hd_json_text(const json_object *v, size_t *bytes)
{
    if (!json_object_is_type(v, json_type_string)) return NULL;
    if (bytes) *bytes = (size_t)json_object_get_string_len(v);
    return json_object_get_string(unconst(v));
}

bool hd_json_equals(const json_object *v, const char *text)
{
    size_t            bytes;
    const char *const s = hd_json_text(v, &bytes);
    return s && bytes == strlen(text) && memcmp(s, text, bytes) == 0;
}

const json_object *hd_json_member(const json_object *v, const char *name)
{
    json_object *member = NULL;
    if (json_object_is_type(v, json_type_object)) json_object_object_get_ex(v, name, &member);
    return member;
}
