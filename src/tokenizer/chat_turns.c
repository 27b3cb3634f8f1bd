#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/chat.h"
#include "tokenizer/python_json.h"

static const char *describe_type(const json_object *v)
{
    switch (json_object_get_type(v)) {
    case json_type_null: return "null";
    case json_type_boolean: return "a boolean";
    case json_type_int:
    case json_type_double: return "a number";
    case json_type_string: return "text";
    case json_type_array: return "a list";
    case json_type_object: return "an object";
    }
    return "something else";
}

hd_status hd_chat_fail(const hd_chat_source *from, const char *key, const json_object *found,
                       const char *wanted, hd_error *err)
{
    HD_FAIL(err, HD_ERR_FORMAT, "%s[%d]%s%s: found %s, wanted %s", from->list, from->index,
            *key ? "." : "", key, describe_type(found), wanted);
}

static hd_chat_role read_role(const json_object *role)
{
    static const struct {
        const char  *name;
        hd_chat_role role;
    } roles[] = {
        {"system", HD_ROLE_SYSTEM},
        {"developer", HD_ROLE_DEVELOPER},
        {"user", HD_ROLE_USER},
        {"tool", HD_ROLE_USER},
        {"assistant", HD_ROLE_ASSISTANT},
        {"latest_reminder", HD_ROLE_LATEST_REMINDER},
        {"direct_search_results", HD_ROLE_SEARCH_RESULTS},
    };
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
        if (hd_json_equals(role, roles[i].name)) return roles[i].role;
    return HD_ROLE_UNKNOWN;
}

static bool is_tool(const json_object *message)
{
    return hd_json_equals(hd_json_member(message, "role"), "tool");
}

/* ---- the order of results ---- */

/* Maps the id of each call of an assistant message to its place.  A new message with calls
 * replaces the map of the one before.
 * owns     the result is the caller's; NULL when memory was short */
static json_object *map_calls(const json_object *calls)
{
    json_object *const map = json_object_new_object();
    size_t const       n = json_object_array_length(calls);
    for (size_t i = 0; map && i < n; i++) {
        const json_object *const call = json_object_array_get_idx(calls, i);
        const json_object       *id = hd_json_member(call, "id");
        if (!hd_python_is_true(id)) id = hd_json_member(hd_json_member(call, "function"), "id");
        const char *const name = hd_json_text(id, NULL);
        if (!name || !*name) continue;
        json_object *const place = json_object_new_int((int32_t)i);
        if (!place || json_object_object_add(map, name, place) != 0) {
            json_object_put(place);
            json_object_put(map);
            return NULL;
        }
    }
    return map;
}

/* An unknown or missing id counts as the first call, as in the official encoder. */
static int32_t find_order(const json_object *map, const json_object *id)
{
    const char *const name = hd_json_text(id, NULL);
    return name ? json_object_get_int(hd_json_member(map, name)) : 0;
}

static int compare_results(const void *a, const void *b)
{
    const hd_chat_block *const x = a, *const y = b;
    if (x->order != y->order) return x->order < y->order ? -1 : 1;
    return x->from.index < y->from.index ? -1 : x->from.index > y->from.index;
}

/* Sorts the results of a turn by their calls; texts keep their slots. */
static hd_status sort_results(hd_chat_turn *turn, const json_object *map, hd_pool *pool,
                              hd_error *err)
{
    size_t               n = 0;
    size_t const         bytes = (size_t)turn->n_blocks * sizeof *turn->blocks;
    hd_chat_block *const sorted = hd_pool_alloc(pool, bytes);
    if (!sorted) HD_FAIL(err, HD_ERR_MEMORY, "prompt: out of memory for its messages");
    for (int32_t i = 0; i < turn->n_blocks; i++) {
        hd_chat_block *const b = &turn->blocks[i];
        if (!b->is_result) continue;
        b->order = find_order(map, hd_json_member(b->from.message, "tool_call_id"));
        sorted[n++] = *b;
    }
    qsort(sorted, n, sizeof *sorted, compare_results);
    const hd_chat_block *next = sorted;
    for (int32_t i = 0; i < turn->n_blocks; i++)
        if (turn->blocks[i].is_result) turn->blocks[i] = *next++;
    return HD_OK;
}

static hd_status order_results(hd_chat *chat, hd_pool *pool, hd_error *err)
{
    json_object *map = NULL;
    hd_status    status = HD_OK;
    for (int32_t i = 0; status == HD_OK && i < chat->n_turns; i++) {
        hd_chat_turn *const      turn = &chat->turns[i];
        const json_object *const calls = hd_json_member(turn->from.message, "tool_calls");
        if (turn->role == HD_ROLE_USER && map && json_object_object_length(map) > 0) {
            status = sort_results(turn, map, pool, err);
        } else if (turn->role == HD_ROLE_ASSISTANT && hd_python_is_true(calls)) {
            json_object_put(map);
            map = NULL;
            if (!json_object_is_type(calls, json_type_array))
                status = hd_chat_fail(&turn->from, "tool_calls", calls, "a list", err);
            else if (!(map = map_calls(calls)))
                status = hd_error_set(err, HD_ERR_MEMORY, -1, "prompt: out of memory");
        }
    }
    json_object_put(map);
    return status;
}

/* ---- merging ---- */

static void start_turn(hd_chat *chat, const hd_chat_source *from, hd_chat_block *blocks)
{
    bool const tool = is_tool(from->message);
    chat->turns[chat->n_turns++] = (hd_chat_turn){
        .from = *from,
        .role = read_role(hd_json_member(from->message, "role")),
        .task = tool ? NULL : hd_json_member(from->message, "task"),
        .blocks = blocks,
    };
}

/* A result joins any user turn before it, a text only one without a task. */
static void add_message(hd_chat *chat, int32_t first, const hd_chat_source *from,
                        hd_chat_block **free_block)
{
    bool const          is_result = is_tool(from->message);
    bool const          is_user = read_role(hd_json_member(from->message, "role")) == HD_ROLE_USER;
    hd_chat_turn *const last = chat->n_turns > first ? &chat->turns[chat->n_turns - 1] : NULL;
    bool const joins = is_user && last && last->role == HD_ROLE_USER && (is_result || !last->task);
    if (!joins) start_turn(chat, from, *free_block);
    if (!is_user) return;
    *(*free_block)++ = (hd_chat_block){.from = *from, .is_result = is_result};
    chat->turns[chat->n_turns - 1].n_blocks++;
}

static hd_status add_list(hd_chat *chat, const json_object *list, const char *name,
                          hd_chat_block **free_block, hd_error *err)
{
    int32_t const first = chat->n_turns;
    size_t const  n = list ? json_object_array_length(list) : 0;
    for (size_t i = 0; i < n; i++) {
        hd_chat_source const from = {json_object_array_get_idx(list, i), name, (int32_t)i};
        if (!json_object_is_type(from.message, json_type_object))
            return hd_chat_fail(&from, "", from.message, "an object", err);
        add_message(chat, first, &from, free_block);
    }
    return HD_OK;
}

hd_status hd_chat_merge(hd_chat *out, const json_object *context, const json_object *messages,
                        hd_pool *pool, hd_error *err)
{
    size_t const n = (context ? json_object_array_length(context) : 0) +
                     (messages ? json_object_array_length(messages) : 0);
    if (n > INT32_MAX) HD_FAIL(err, HD_ERR_LIMIT, "messages: %zu of them, at most 2^31", n);
    hd_chat        chat = {.turns = hd_pool_alloc(pool, n * sizeof(hd_chat_turn))};
    hd_chat_block *blocks = hd_pool_alloc(pool, n * sizeof(hd_chat_block));
    if (!chat.turns || !blocks)
        HD_FAIL(err, HD_ERR_MEMORY, "prompt: out of memory for %zu messages", n);
    HD_TRY(add_list(&chat, context, "context", &blocks, err));
    chat.n_context = chat.n_turns;
    HD_TRY(add_list(&chat, messages, "messages", &blocks, err));
    HD_TRY(order_results(&chat, pool, err));
    *out = chat;
    return HD_OK;
}

int32_t hd_chat_last_user(const hd_chat *chat)
{
    int32_t i = chat->n_turns - 1;
    while (i >= 0 && chat->turns[i].role != HD_ROLE_USER &&
           chat->turns[i].role != HD_ROLE_DEVELOPER)
        i--;
    return i;
}

void hd_chat_forget(hd_chat *chat)
{
    int32_t const last_user = hd_chat_last_user(chat);
    int32_t       kept = 0, kept_context = 0;
    for (int32_t i = 0; i < chat->n_turns; i++) {
        hd_chat_role const role = chat->turns[i].role;
        if (i < last_user && (role == HD_ROLE_DEVELOPER || role == HD_ROLE_UNKNOWN)) continue;
        kept_context += i < chat->n_context;
        chat->turns[kept++] = chat->turns[i];
    }
    chat->n_turns = kept;
    chat->n_context = kept_context;
}
