#include "tokenizer/chat_body.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

hd_status hd_body_fail(const hd_chat_body *b, const json_object *found, const char *wanted)
{
    HD_FAIL(b->err, HD_ERR_FORMAT, "%s: found %s, wanted %s", b->path,
            json_type_to_name(json_object_get_type(found)), wanted);
}

hd_status hd_body_fail_memory(const hd_chat_body *b)
{
    HD_FAIL(b->err, HD_ERR_MEMORY, "%s: out of memory", *b->path ? b->path : "messages");
}

size_t hd_body_enter(hd_chat_body *b, const char *name)
{
    size_t const n = strlen(b->path);
    snprintf(b->path + n, sizeof b->path - n, "%s%s", n ? "." : "", name);
    return n;
}

size_t hd_body_enter_item(hd_chat_body *b, size_t index)
{
    size_t const n = strlen(b->path);
    snprintf(b->path + n, sizeof b->path - n, "[%zu]", index);
    return n;
}

void hd_body_leave(hd_chat_body *b, size_t length) { b->path[length] = 0; }

hd_status hd_body_put(const hd_chat_body *b, json_object *object, const char *name,
                      json_object *value)
{
    if (value && json_object_object_add(object, name, value) == 0) return HD_OK;
    json_object_put(value);
    return hd_body_fail_memory(b);
}

hd_status hd_body_append(const hd_chat_body *b, json_object *list, json_object *value)
{
    if (value && json_object_array_add(list, value) == 0) return HD_OK;
    json_object_put(value);
    return hd_body_fail_memory(b);
}

json_object *hd_body_share(const json_object *v)
{
    return json_object_get((json_object *)(uintptr_t)v);
}

static bool has_odd_item(const json_object *list)
{
    size_t const n = json_object_array_length(list);
    for (size_t i = 0; i < n; i++)
        if (hd_body_has_odd_number(json_object_array_get_idx(list, i))) return true;
    return false;
}

bool hd_body_has_odd_number(const json_object *v)
{
    if (json_object_is_type(v, json_type_double)) return !isfinite(json_object_get_double(v));
    if (json_object_is_type(v, json_type_array)) return has_odd_item(v);
    if (!json_object_is_type(v, json_type_object)) return false;
    json_object_object_foreach(v, key, member)
    {
        (void)key;
        if (hd_body_has_odd_number(member)) return true;
    }
    return false;
}
