#include "server/fields.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/json_scan.h"

hd_status hd_fields_open(hd_fields *b, const char *text, size_t bytes, hd_api_error *error)
{
    hd_error err = {0};
    *b = (hd_fields){.text = text, .bytes = bytes, .error = error};
    hd_status const s = hd_json_parse(&b->root, text, bytes, HD_JSON_PYTHON, "body", &err);
    if (s != HD_OK) {
        hd_api_pass_on(error, &err);
        error->param[0] = 0;
        return s;
    }
    if (json_object_is_type(b->root, json_type_object)) return HD_OK;
    hd_fields_close(b);
    return hd_api_fail(error, 400, hd_api_type_of(400), NULL, "the body is no JSON object");
}

void hd_fields_close(hd_fields *b)
{
    json_object_put(b->root);
    b->root = NULL;
}

const json_object *hd_fields_find(const hd_fields *b, const char *name)
{
    return hd_json_member(b->root, name);
}

hd_status hd_fields_wrong(const hd_fields *b, const char *path, const json_object *found,
                          const char *wanted)
{
    const char *const type = found ? json_type_to_name(json_object_get_type(found)) : "nothing";
    return hd_api_refuse(b->error, path, "found %s, wanted %s", type, wanted);
}

hd_status hd_fields_bool(const hd_fields *b, const char *name, bool *out)
{
    const json_object *const v = hd_fields_find(b, name);
    if (!v) return HD_OK;
    if (!json_object_is_type(v, json_type_boolean))
        return hd_fields_wrong(b, name, v, "true or false");
    *out = json_object_get_boolean(v);
    return HD_OK;
}

bool hd_json_whole(const json_object *v, int64_t *out)
{
    double const limit = 9007199254740992.0; /* 2^53: above it not every integer is a double */
    if (json_object_is_type(v, json_type_int)) {
        uint64_t const u = json_object_get_uint64(v);
        *out = json_object_get_int64(v);
        return u <= INT64_MAX || *out < 0;
    }
    double const x = json_object_is_type(v, json_type_double) ? json_object_get_double(v) : NAN;
    if (!(fabs(x) <= limit) || x != trunc(x)) return false;
    *out = (int64_t)x;
    return true;
}

hd_status hd_fields_integer(const hd_fields *b, const char *name, int64_t least, int64_t most,
                            int64_t *out)
{
    const json_object *const v = hd_fields_find(b, name);
    int64_t                  n = 0;
    if (!v) return HD_OK;
    if (!hd_json_whole(v, &n)) return hd_fields_wrong(b, name, v, "a whole number");
    if (n < least || n > most)
        return hd_api_refuse(b->error, name, "%lld is not in %lld .. %lld", (long long)n,
                             (long long)least, (long long)most);
    *out = n;
    return HD_OK;
}

hd_status hd_fields_real(const hd_fields *b, const char *name, double least, double most,
                         float *out)
{
    const json_object *const v = hd_fields_find(b, name);
    if (!v) return HD_OK;
    if (!json_object_is_type(v, json_type_double) && !json_object_is_type(v, json_type_int))
        return hd_fields_wrong(b, name, v, "a number");
    double const x = json_object_get_double(v);
    if (!(x >= least && x <= most))
        return hd_api_refuse(b->error, name, "%g is not in %g .. %g", x, least, most);
    *out = (float)x;
    return HD_OK;
}

hd_status hd_fields_text(const hd_fields *b, const char *name, const char **out, size_t *bytes)
{
    const json_object *const v = hd_fields_find(b, name);
    if (!v) return HD_OK;
    if (!json_object_is_type(v, json_type_string)) return hd_fields_wrong(b, name, v, "a string");
    *out = hd_json_text(v, bytes);
    return HD_OK;
}

hd_status hd_fields_word(const hd_fields *b, const char *name, const char *const *words, int *out)
{
    const json_object *const v = hd_fields_find(b, name);
    if (!v) return HD_OK;
    if (!json_object_is_type(v, json_type_string)) return hd_fields_wrong(b, name, v, "a string");
    for (int i = 0; words[i]; i++) {
        if (!hd_json_equals(v, words[i])) continue;
        *out = i;
        return HD_OK;
    }
    return hd_api_refuse(b->error, name, "unknown word %.60s", hd_json_text(v, NULL));
}

/* ---- members as they were spelled ---- */

static bool is_named(const hd_json_scan *s, const hd_json_piece *name, const char *wanted)
{
    size_t const n = strlen(wanted);
    return name->span.bytes == n + 2 && memcmp(s->text + name->span.at + 1, wanted, n) == 0;
}

/* Of members with one name the last, as the tree has it. */
static hd_status find_spans(hd_json_scan *s, const char *const *names, int32_t n, hd_json_span *out)
{
    hd_json_piece name, value;
    hd_json_span  span;
    HD_TRY(hd_json_scan_next(s, &name)); /* the brace */
    for (;;) {
        HD_TRY(hd_json_scan_next(s, &name));
        if (name.kind == HD_JSON_CLOSE) return HD_OK;
        if (name.has_escape)
            HD_FAIL(s->err, HD_ERR_FORMAT, "%s: byte %zu: the name of a member holds an escape",
                    s->what, name.span.at);
        HD_TRY(hd_json_scan_next(s, &value));
        HD_TRY(hd_json_scan_rest(s, &value, &span));
        for (int32_t i = 0; i < n; i++)
            if (is_named(s, &name, names[i])) out[i] = span;
    }
}

static hd_status scan_spans(const hd_fields *b, const char *const *names, int32_t n,
                            hd_json_span *out)
{
    hd_error     err = {0};
    hd_json_scan scan = {
        .text = b->text, .bytes = b->bytes, .flags = HD_JSON_PYTHON, .what = "body", .err = &err};
    hd_status const s = find_spans(&scan, names, n, out);
    hd_json_scan_close(&scan);
    return s == HD_OK ? HD_OK : hd_api_pass_on(b->error, &err);
}

hd_status hd_fields_copy(const hd_fields *b, const char *const *names, int32_t n, hd_buffer *out)
{
    hd_json_span spans[HD_FIELDS_MOST_COPIED] = {{0}};
    bool         is_first = true;
    assert(n <= HD_FIELDS_MOST_COPIED);
    HD_TRY(scan_spans(b, names, n, spans));
    for (int32_t i = 0; i < n; i++) {
        if (spans[i].bytes == 0) continue;
        hd_buffer_printf(out, "%s\"%s\": ", is_first ? "" : ", ", names[i]);
        hd_buffer_add(out, b->text + spans[i].at, spans[i].bytes);
        is_first = false;
    }
    return HD_OK;
}

hd_status hd_fields_span(const hd_fields *b, const char *name, const char **text, size_t *bytes)
{
    hd_json_span span = {0};
    HD_TRY(scan_spans(b, &name, 1, &span));
    *text = b->text + span.at;
    *bytes = span.bytes;
    return HD_OK;
}
