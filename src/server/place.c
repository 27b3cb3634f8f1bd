#include "server/place.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void add(hd_place *p, int written)
{
    size_t const room = sizeof p->path - p->used;
    if (written < 0) return;
    p->used += (size_t)written < room ? (size_t)written : room - 1;
}

size_t hd_place_member(hd_place *p, const char *name)
{
    size_t const before = p->used;
    add(p, snprintf(p->path + p->used, sizeof p->path - p->used, "%s%s", p->used ? "." : "", name));
    return before;
}

size_t hd_place_entry(hd_place *p, size_t index)
{
    size_t const before = p->used;
    add(p, snprintf(p->path + p->used, sizeof p->path - p->used, "[%zu]", index));
    return before;
}

void hd_place_leave(hd_place *p, size_t before)
{
    p->used = before;
    p->path[before] = 0;
}

hd_status hd_place_refuse(const hd_place *p, const char *fmt, ...)
{
    char    text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return hd_api_refuse(p->error, p->path, "%s", text);
}

hd_status hd_place_wrong(const hd_place *p, const json_object *found, const char *wanted)
{
    const char *const type = found ? json_type_to_name(json_object_get_type(found)) : "nothing";
    return hd_place_refuse(p, "found %s, wanted %s", type, wanted);
}

hd_status hd_place_text(hd_place *p, const json_object *v, const char *name, const char **text,
                        size_t *bytes)
{
    const json_object *const found = hd_json_member(v, name);
    size_t const             before = hd_place_member(p, name);
    *text = hd_json_text(found, bytes);
    hd_status const s = *text ? HD_OK : hd_place_wrong(p, found, "a string");
    hd_place_leave(p, before);
    return s;
}

bool hd_place_is_type(const json_object *v, const char *type)
{
    return hd_json_equals(hd_json_member(v, "type"), type);
}

hd_status hd_place_refuse_type(hd_place *p, const json_object *v, const char *wanted)
{
    const char *type = NULL;
    if (!json_object_is_type(v, json_type_object)) return hd_place_wrong(p, v, "an object");
    HD_TRY(hd_place_text(p, v, "type", &type, NULL));
    hd_place_member(p, "type");
    return hd_place_refuse(p, "%.60s is not to be had here, only %s", type, wanted);
}

void hd_place_write_value(hd_buffer *out, const json_object *v)
{
    const char *const text = json_object_to_json_string_ext(
        (json_object *)(uintptr_t)v, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
    if (text)
        hd_buffer_text(out, text);
    else
        out->failed = true;
}

hd_status hd_place_write_tools(hd_buffer *out, hd_place *p, const json_object *tools,
                               hd_place_write_fn *write)
{
    if (!tools) return HD_OK;
    size_t const before = hd_place_member(p, "tools");
    if (!json_object_is_type(tools, json_type_array)) return hd_place_wrong(p, tools, "a list");
    size_t const n = json_object_array_length(tools);
    hd_buffer_text(out, ", \"tools\": [");
    for (size_t i = 0; i < n; i++) {
        size_t const list = hd_place_entry(p, i);
        if (i) hd_buffer_text(out, ", ");
        HD_TRY(write(out, p, json_object_array_get_idx(tools, i)));
        hd_place_leave(p, list);
    }
    hd_buffer_text(out, "]");
    hd_place_leave(p, before);
    return HD_OK;
}
