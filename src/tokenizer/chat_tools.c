#include <stdio.h>
#include <string.h>

#include "tokenizer/chat.h"
#include "tokenizer/chat_tokens.h"

/* Tags differ between dialects: in fixed texts these stand for their names. */
#define CALLS     "\1"
#define INVOKE    "\2"
#define PARAMETER "\3"

static const char tools_head[] =
    "## Tools\n\n"
    "You have access to a set of tools to help answer the user's question. You can invoke tools "
    "by writing a \"<｜DSML｜" CALLS ">\" block like the following:\n\n"
    "<｜DSML｜" CALLS ">\n"
    "<｜DSML｜" INVOKE " name=\"$TOOL_NAME\">\n"
    "<｜DSML｜" PARAMETER " name=\"$PARAMETER_NAME\" string=\"true|false\">$PARAMETER_VALUE"
    "</｜DSML｜" PARAMETER ">\n"
    "...\n"
    "</｜DSML｜" INVOKE ">\n"
    "<｜DSML｜" INVOKE " name=\"$TOOL_NAME2\">\n"
    "...\n"
    "</｜DSML｜" INVOKE ">\n"
    "</｜DSML｜" CALLS ">\n\n"
    "String parameters should be specified as is and set `string=\"true\"`. For all other types "
    "(numbers, booleans, arrays, objects), pass the value in JSON format and set "
    "`string=\"false\"`.\n\n"
    "If thinking_mode is enabled (triggered by <think>), you MUST output your complete reasoning "
    "inside <think>...</think> BEFORE any tool calls or final response.\n\n"
    "Otherwise, output directly after </think> with tool calls or final response.\n\n"
    "### Available Tool Schemas\n\n";
static const char tools_tail[] = "\n\nYou MUST strictly follow the above defined tool name and "
                                 "parameter schemas to invoke tool calls.\n";

static void write_fixed(hd_prompt_text *out, const char *text, const hd_chat_rules *rules)
{
    const char *const names[] = {rules->calls, rules->invoke, rules->parameter};
    while (*text) {
        size_t const n = strcspn(text, CALLS INVOKE PARAMETER);
        hd_prompt_text_fixed(out, text, n);
        text += n;
        if (*text) hd_buffer_text(&out->text, names[*text++ - 1]);
    }
}

hd_status hd_chat_write_tools(hd_prompt_text *out, const json_object *tools,
                              const hd_chat_source *from, const hd_chat_rules *rules, hd_error *err)
{
    if (!json_object_is_type(tools, json_type_array))
        return hd_chat_fail(from, "tools", tools, "a list", err);
    size_t const n = json_object_array_length(tools);
    write_fixed(out, tools_head, rules);
    for (size_t i = 0; i < n; i++) {
        const json_object *const tool = json_object_array_get_idx(tools, i);
        json_object             *function = NULL;
        if (!json_object_is_type(tool, json_type_object) ||
            !json_object_object_get_ex(tool, "function", &function))
            HD_FAIL(err, HD_ERR_FORMAT, "%s[%d].tools[%zu].function is missing", from->list,
                    from->index, i);
        if (i) hd_buffer_add(&out->text, "\n", 1);
        hd_python_write_json(&out->text, function, rules->spelling);
    }
    write_fixed(out, tools_tail, rules);
    return HD_OK;
}

typedef struct calls {
    hd_prompt_text      *out;
    const hd_chat_rules *rules;
    hd_error            *err;
    char                 path[96]; /* of the call being written */
} calls;

static void write_parameter(calls *c, const char *key, const json_object *value)
{
    hd_buffer *const text = &c->out->text;
    bool const       is_text = json_object_is_type(value, json_type_string);
    write_fixed(c->out, "<" HD_TOKEN_DSML PARAMETER " name=\"", c->rules);
    hd_buffer_text(text, key);
    hd_buffer_text(text, is_text ? "\" string=\"true\">" : "\" string=\"false\">");
    if (is_text)
        hd_python_write_str(text, value);
    else
        hd_python_write_json(text, value, c->rules->spelling);
    write_fixed(c->out, "</" HD_TOKEN_DSML PARAMETER ">\n", c->rules);
}

/* Arguments come as JSON text.  What is no text or no JSON becomes one parameter named
 * "arguments"; JSON that is no object has no names and is refused. */
static hd_status write_arguments(calls *c, const json_object *arguments)
{
    size_t            bytes = 0;
    const char *const text = hd_json_text(arguments, &bytes);
    json_object      *parsed = NULL;
    hd_status const   status =
        text ? hd_json_parse(&parsed, text, bytes, HD_JSON_PYTHON, c->path, NULL) : HD_ERR_FORMAT;
    if (status == HD_ERR_MEMORY) HD_FAIL(c->err, status, "%s: out of memory", c->path);
    if (status != HD_OK) {
        write_parameter(c, "arguments", arguments);
        return HD_OK;
    }
    if (!json_object_is_type(parsed, json_type_object)) {
        json_object_put(parsed);
        HD_FAIL(c->err, HD_ERR_FORMAT, "%s: JSON, but no object", c->path);
    }
    json_object_object_foreach(parsed, key, value) { write_parameter(c, key, value); }
    if (json_object_object_length(parsed) == 0 && !c->rules->closes_tight)
        hd_buffer_add(&c->out->text, "\n", 1);
    json_object_put(parsed);
    return HD_OK;
}

static hd_status write_call(calls *c, const json_object *call)
{
    const json_object *const function = hd_json_member(call, "function");
    json_object             *name = NULL, *arguments = NULL;
    if (!json_object_is_type(function, json_type_object))
        HD_FAIL(c->err, HD_ERR_FORMAT, "%s.function is missing or no object", c->path);
    if (!json_object_object_get_ex(function, "name", &name))
        HD_FAIL(c->err, HD_ERR_FORMAT, "%s.function.name is missing", c->path);
    if (!json_object_object_get_ex(function, "arguments", &arguments))
        HD_FAIL(c->err, HD_ERR_FORMAT, "%s.function.arguments is missing", c->path);
    write_fixed(c->out, "<" HD_TOKEN_DSML INVOKE " name=\"", c->rules);
    hd_python_write_str(&c->out->text, name);
    hd_buffer_text(&c->out->text, "\">\n");
    HD_TRY(write_arguments(c, arguments));
    write_fixed(c->out, "</" HD_TOKEN_DSML INVOKE ">\n", c->rules);
    return HD_OK;
}

void hd_chat_open_calls(hd_prompt_text *out, const hd_chat_rules *rules)
{
    write_fixed(out, "\n\n<" HD_TOKEN_DSML CALLS ">\n", rules);
}

hd_status hd_chat_write_calls(hd_prompt_text *out, const json_object *list,
                              const hd_chat_source *from, const hd_chat_rules *rules, hd_error *err)
{
    calls c = {.out = out, .rules = rules, .err = err};
    if (!json_object_is_type(list, json_type_array))
        return hd_chat_fail(from, "tool_calls", list, "a list", err);
    size_t const n = json_object_array_length(list);
    hd_chat_open_calls(out, rules);
    for (size_t i = 0; i < n; i++) {
        snprintf(c.path, sizeof c.path, "%s[%d].tool_calls[%zu]", from->list, from->index, i);
        HD_TRY(write_call(&c, json_object_array_get_idx(list, i)));
    }
    if (n == 0) hd_buffer_add(&out->text, "\n", 1);
    write_fixed(out, "</" HD_TOKEN_DSML CALLS ">", rules);
    return HD_OK;
}
