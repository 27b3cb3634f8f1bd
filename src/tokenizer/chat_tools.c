#include <stdio.h>

#include "tokenizer/chat.h"
#include "tokenizer/chat_tokens.h"
#include "tokenizer/python_json.h"

static const char tools_head[] =
    "## Tools\n\n"
    "You have access to a set of tools to help answer the user's question. You can invoke tools "
    "by writing a \"<｜DSML｜tool_calls>\" block like the following:\n\n"
    "<｜DSML｜tool_calls>\n"
    "<｜DSML｜invoke name=\"$TOOL_NAME\">\n"
    "<｜DSML｜parameter name=\"$PARAMETER_NAME\" string=\"true|false\">$PARAMETER_VALUE"
    "</｜DSML｜parameter>\n"
    "...\n"
    "</｜DSML｜invoke>\n"
    "<｜DSML｜invoke name=\"$TOOL_NAME2\">\n"
    "...\n"
    "</｜DSML｜invoke>\n"
    "</｜DSML｜tool_calls>\n\n"
    "String parameters should be specified as is and set `string=\"true\"`. For all other types "
    "(numbers, booleans, arrays, objects), pass the value in JSON format and set "
    "`string=\"false\"`.\n\n"
    "If thinking_mode is enabled (triggered by <think>), you MUST output your complete reasoning "
    "inside <think>...</think> BEFORE any tool calls or final response.\n\n"
    "Otherwise, output directly after </think> with tool calls or final response.\n\n"
    "### Available Tool Schemas\n\n";
static const char tools_tail[] = "\n\nYou MUST strictly follow the above defined tool name and "
                                 "parameter schemas to invoke tool calls.\n";

hd_status hd_chat_write_tools(hd_prompt_text *out, const json_object *tools,
                              const hd_chat_source *from, hd_error *err)
{
    if (!json_object_is_type(tools, json_type_array))
        return hd_chat_fail(from, "tools", tools, "a list", err);
    size_t const n = json_object_array_length(tools);
    hd_prompt_text_fixed(out, tools_head);
    for (size_t i = 0; i < n; i++) {
        const json_object *const tool = json_object_array_get_idx(tools, i);
        json_object             *function = NULL;
        if (!json_object_is_type(tool, json_type_object) ||
            !json_object_object_get_ex(tool, "function", &function))
            HD_FAIL(err, HD_ERR_FORMAT, "%s[%d].tools[%zu].function is missing", from->list,
                    from->index, i);
        if (i) hd_buffer_add(&out->text, "\n", 1);
        hd_python_write_json(&out->text, function);
    }
    hd_prompt_text_fixed(out, tools_tail);
    return HD_OK;
}

static void write_parameter(hd_prompt_text *out, const char *key, const json_object *value)
{
    bool const is_text = json_object_is_type(value, json_type_string);
    hd_prompt_text_fixed(out, "<" HD_TOKEN_DSML "parameter name=\"");
    hd_buffer_text(&out->text, key);
    hd_buffer_text(&out->text, is_text ? "\" string=\"true\">" : "\" string=\"false\">");
    if (is_text)
        hd_python_write_str(&out->text, value);
    else
        hd_python_write_json(&out->text, value);
    hd_prompt_text_fixed(out, "</" HD_TOKEN_DSML "parameter>");
}

/* Arguments come as JSON text.  What is no text or no JSON becomes one parameter named
 * "arguments"; JSON that is no object has no names and is refused. */
static hd_status write_arguments(hd_prompt_text *out, const json_object *arguments,
                                 const char *path, hd_error *err)
{
    size_t            bytes = 0;
    const char *const text = hd_json_text(arguments, &bytes);
    json_object      *parsed = NULL;
    hd_status const   status =
        text ? hd_json_parse(&parsed, text, bytes, HD_JSON_PYTHON, path, NULL) : HD_ERR_FORMAT;
    if (status == HD_ERR_MEMORY) HD_FAIL(err, status, "%s: out of memory", path);
    if (status != HD_OK) {
        write_parameter(out, "arguments", arguments);
        return HD_OK;
    }
    if (!json_object_is_type(parsed, json_type_object)) {
        json_object_put(parsed);
        HD_FAIL(err, HD_ERR_FORMAT, "%s: JSON, but no object", path);
    }
    bool is_first = true;
    json_object_object_foreach(parsed, key, value)
    {
        if (!is_first) hd_buffer_add(&out->text, "\n", 1);
        is_first = false;
        write_parameter(out, key, value);
    }
    json_object_put(parsed);
    return HD_OK;
}

static hd_status write_call(hd_prompt_text *out, const json_object *call, const char *path,
                            hd_error *err)
{
    const json_object *const function = hd_json_member(call, "function");
    json_object             *name = NULL, *arguments = NULL;
    if (!json_object_is_type(function, json_type_object))
        HD_FAIL(err, HD_ERR_FORMAT, "%s.function is missing or no object", path);
    if (!json_object_object_get_ex(function, "name", &name))
        HD_FAIL(err, HD_ERR_FORMAT, "%s.function.name is missing", path);
    if (!json_object_object_get_ex(function, "arguments", &arguments))
        HD_FAIL(err, HD_ERR_FORMAT, "%s.function.arguments is missing", path);
    hd_prompt_text_fixed(out, "<" HD_TOKEN_DSML "invoke name=\"");
    hd_python_write_str(&out->text, name);
    hd_buffer_text(&out->text, "\">\n");
    HD_TRY(write_arguments(out, arguments, path, err));
    hd_prompt_text_fixed(out, "\n</" HD_TOKEN_DSML "invoke>");
    return HD_OK;
}

hd_status hd_chat_write_calls(hd_prompt_text *out, const json_object *calls,
                              const hd_chat_source *from, hd_error *err)
{
    if (!json_object_is_type(calls, json_type_array))
        return hd_chat_fail(from, "tool_calls", calls, "a list", err);
    size_t const n = json_object_array_length(calls);
    hd_prompt_text_fixed(out, "\n\n<" HD_TOKEN_DSML "tool_calls>\n");
    for (size_t i = 0; i < n; i++) {
        char path[96];
        snprintf(path, sizeof path, "%s[%d].tool_calls[%zu]", from->list, from->index, i);
        if (i) hd_buffer_add(&out->text, "\n", 1);
        HD_TRY(write_call(out, json_object_array_get_idx(calls, i), path, err));
    }
    hd_prompt_text_fixed(out, "\n</" HD_TOKEN_DSML "tool_calls>");
    return HD_OK;
}
