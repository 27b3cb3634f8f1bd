#!/usr/bin/env python3
"""Anthropic's own client against the server: streams, tools in a loop, thinking, errors.

usage: test_server_anthropic.py [HADAL [MODEL]]     defaults: build/hadal models/demo"""
import json
import pathlib
import sys
import tempfile

import anthropic

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/support"))
import suite  # behind the path
from served import FRANCE, PARIS, Server, call
from served import TOOLS as CHAT_TOOLS
HADAL = str(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/hadal").resolve())
MODEL = str(pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else ROOT / "models/demo").resolve())
SCRATCH = pathlib.Path(tempfile.mkdtemp(prefix="hadal-anthropic-"))
KEYS = SCRATCH / "keys"
KEYS.write_text("secret\n")
SERVER = Server(HADAL, MODEL, "--keys", str(KEYS))
KEY = {"x-api-key": "secret"}
CLIENT = anthropic.Anthropic(base_url=SERVER.url, api_key="secret", max_retries=0, timeout=120)
TOOLS = [{"name": t["function"]["name"], "description": t["function"]["description"],
          "input_schema": t["function"]["parameters"]} for t in CHAT_TOOLS]
SYSTEM = "You are a helpful assistant."
THINKING = {"type": "enabled", "budget_tokens": 1024}


def user(content):
    return {"role": "user", "content": content}


def body(messages=FRANCE, **more):
    messages = [user(messages)] if isinstance(messages, str) else messages
    return {"model": "demo", "max_tokens": 200, "messages": messages, "temperature": 0, **more}


def by_client(messages=FRANCE, extra_body={}, **more):
    """The same for the client, which no longer knows of temperatures."""
    sent = body(messages, **more)
    sent["extra_body"] = {"temperature": sent.pop("temperature"), **extra_body}
    return sent


def ask(messages=FRANCE, **more):
    return CLIENT.messages.create(**by_client(messages, **more))


def refused(status=400, path="/v1/messages", **more):
    """The message of a request that must be refused, in Anthropic's shape."""
    got, fields, data = SERVER.ask("POST", path, {**body(), **more}, KEY)
    assert got == status, (more, got, data)
    error = json.loads(data)
    assert error["type"] == "error" and set(error) == {"type", "error", "request_id"}, error
    assert error["request_id"] == fields["request-id"] and error["request_id"].startswith("req_")
    assert set(error["error"]) == {"type", "message"}
    assert status != 400 or error["error"]["type"] == "invalid_request_error"
    return error["error"]["message"]


def events(**more):
    """Names and objects of a stream, as they come."""
    status, fields, data = SERVER.ask("POST", "/v1/messages", {**body(), "stream": True, **more}, KEY)
    assert status == 200 and fields["Content-Type"].startswith("text/event-stream"), data
    parts = data.decode().split("\n\n")
    assert parts.pop() == ""
    out = []
    for part in parts:
        name, _, value = part.partition("\n")
        value = json.loads(value.removeprefix("data: "))
        assert name == "event: " + value["type"], part
        if value["type"] != "ping" or len(out) == 1:  # later ones are sent during silence
            out.append(value)
    return out


# ---- answers -------------------------------------------------------------------------

def test_answer():
    answer = ask()
    assert answer.id.startswith("msg_") and (answer.type, answer.role, answer.model) == ("message", "assistant", "demo")
    assert [b.model_dump(exclude_none=True) for b in answer.content] == [{"type": "text", "text": PARIS}]
    assert (answer.stop_reason, answer.stop_sequence) == ("end_turn", None)
    assert answer.usage.output_tokens == 8 and answer.usage.cache_creation_input_tokens == 0
    assert answer.usage.input_tokens + answer.usage.cache_read_input_tokens == 11
    assert answer._request_id.startswith("req_")


def test_system_is_told():
    n = CLIENT.messages.count_tokens(model="demo", messages=[user(FRANCE)]).input_tokens
    with_text = CLIENT.messages.count_tokens(model="demo", messages=[user(FRANCE)], system=SYSTEM).input_tokens
    blocks = [{"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral"}}]
    with_blocks = CLIENT.messages.count_tokens(model="demo", messages=[user(FRANCE)], system=blocks).input_tokens
    assert n == 11 and n < with_text == with_blocks
    assert ask(system=blocks).usage.input_tokens <= with_blocks


def test_order_of_events():
    got = events(thinking=THINKING)
    assert [e["type"] for e in got[:2]] == ["message_start", "ping"]
    assert [e["type"] for e in got[-2:]] == ["message_delta", "message_stop"]
    assert got[0]["message"]["content"] == [] and got[0]["message"]["stop_reason"] is None
    blocks = [e for e in got if e["type"].startswith("content_block")]
    for index, kind in enumerate(("thinking", "text")):
        of_block = [e for e in blocks if e["index"] == index]
        assert of_block[0]["type"] == "content_block_start" and of_block[0]["content_block"]["type"] == kind
        assert of_block[-1]["type"] == "content_block_stop"
        deltas = [e["delta"]["type"] for e in of_block[1:-1]]
        last = ["signature_delta"] if kind == "thinking" else ["text_delta"]
        assert deltas[-1:] == last and set(deltas[:-1]) == {kind + "_delta"}
    assert [e["index"] for e in blocks] == sorted(e["index"] for e in blocks)
    usage = got[-2]["usage"]
    assert usage["output_tokens"] > 8 and usage["input_tokens"] + usage["cache_read_input_tokens"] == 11


def plain(message):
    blocks = [b.model_dump(exclude_none=True) for b in message.content]
    for b in blocks:
        b.pop("id", None), b.pop("caller", None)
    return blocks, message.stop_reason, message.stop_sequence, message.usage.output_tokens


def test_stream_says_what_the_whole_says():
    for more in ({}, {"thinking": THINKING}, {"tools": TOOLS, "messages": "What is the weather in Athens and Ottawa?"},
                 {"stop_sequences": [" is"]}, {"max_tokens": 3}):
        with CLIENT.messages.stream(**by_client(**more)) as stream:
            streamed = stream.get_final_message()
        assert plain(streamed) == plain(ask(**more)), more


def test_thinking_comes_back():
    first = ask(thinking=THINKING)
    thinking, text = first.content
    assert thinking.type == "thinking" and thinking.thinking and thinking.signature.startswith("hadal-")
    assert text.text == PARIS
    turn = {"role": "assistant", "content": [b.model_dump() for b in first.content]}
    again = [user(FRANCE), turn, user("What is the capital of Greece?")]
    assert "Athens" in ask(again, thinking=THINKING).content[-1].text
    # With tools at hand the dialect keeps past reasoning, so it must be in the prompt.
    bare = {"role": "assistant", "content": PARIS}
    count = lambda turn: CLIENT.messages.count_tokens(
        model="demo", messages=[user(FRANCE), turn, user(FRANCE)], tools=TOOLS, thinking=THINKING).input_tokens
    assert count(turn) > count(bare)
    assert ask(thinking={"type": "adaptive"}).content[0].type == "thinking"
    assert ask(thinking={"type": "disabled"}).content[0].type == "text"


def test_ends():
    cut = ask(max_tokens=3)
    assert (cut.stop_reason, cut.usage.output_tokens) == ("max_tokens", 3)
    stopped = ask(stop_sequences=["nowhere", " is"])
    assert (stopped.stop_reason, stopped.stop_sequence, stopped.content[0].text) == (
        "stop_sequence", " is", "The capital of France")
    blank = ask(thinking=THINKING, max_tokens=2)
    assert blank.stop_reason == "max_tokens" and blank.model_extra["hadal"]["blank"] == "reasoning"
    long = ask("Tell me a story.", max_tokens=100000, extra_body={"ignore_eos": True})
    assert long.stop_reason == "model_context_window_exceeded"
    assert long.usage.input_tokens + long.usage.cache_read_input_tokens + long.usage.output_tokens == 4096


def test_answer_that_goes_on():
    answer = ask([user(FRANCE), {"role": "assistant", "content": "The capital of France"}])
    assert answer.content[0].text == " is Paris."


# ---- tools ---------------------------------------------------------------------------

def run_tools(question, **more):
    messages, called = [user(question)], []
    for _ in range(5):
        answer = ask(messages, system=SYSTEM, tools=TOOLS, **more)
        uses = [b for b in answer.content if b.type == "tool_use"]
        if not uses:
            assert answer.stop_reason == "end_turn"
            return answer.content[-1].text, called
        assert answer.stop_reason == "tool_use" and all(u.id.startswith("toolu_") for u in uses)
        called += [(u.name, u.input) for u in uses]
        messages.append({"role": "assistant", "content": answer.content})
        messages.append(user([{"type": "tool_result", "tool_use_id": u.id,
                               "content": [{"type": "text", "text": call(u.name, json.dumps(u.input))}]} for u in uses]))
    raise AssertionError(called)


def test_tools_in_a_loop():
    assert run_tools("What is the weather in Athens?") == (
        "In Athens it is sunny with 6 degrees.", [("get_weather", {"location": "Athens"})])
    assert run_tools("What is 27 times 38?") == ("27 times 38 is 1026.", [("calculate", {"a": 27, "b": 38})])


def test_tools_with_thinking():
    text, called = run_tools("What is the weather in Paris?", thinking=THINKING)
    assert called == [("get_weather", {"location": "Paris"})] and "Paris" in text


def test_streamed_calls():
    with CLIENT.messages.stream(**by_client("What is the weather in Athens and Ottawa?", system=SYSTEM, tools=TOOLS)) as stream:
        message = stream.get_final_message()
    uses = [b for b in message.content if b.type == "tool_use"]
    assert [(u.name, u.input) for u in uses] == [("get_weather", {"location": "Athens"}), ("get_weather", {"location": "Ottawa"})]
    assert len({u.id for u in uses}) == 2


def test_choice_of_tools():
    forced = ask("Hello.", tools=TOOLS, tool_choice={"type": "tool", "name": "calculate"})
    assert [b.name for b in forced.content if b.type == "tool_use"] == ["calculate"] and forced.stop_reason == "tool_use"
    assert set(forced.content[-1].input) == {"a", "b"}
    some = ask("Hello.", tools=TOOLS, tool_choice={"type": "any"})
    assert some.stop_reason == "tool_use"
    none = ask("What is the weather in Athens?", tools=TOOLS, tool_choice={"type": "none"})
    assert none.stop_reason != "tool_use"
    single = ask("What is the weather in Athens and Ottawa?", system=SYSTEM, tools=TOOLS,
                 tool_choice={"type": "auto", "disable_parallel_tool_use": True})
    assert len([b for b in single.content if b.type == "tool_use"]) == 1


def test_failed_tool():
    messages = [user("What is the weather in Paris?"),
                {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"location": "Paris"}}]}]
    count = lambda **result: CLIENT.messages.count_tokens(model="demo", tools=TOOLS, messages=messages + [user(
        [{"type": "tool_result", "tool_use_id": "toolu_1", **result}])]).input_tokens
    assert count(content="no network", is_error=True) > count(content="no network") > count(content="")
    assert count(is_error=True) > count()


def test_format():
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
    answer = ask(max_tokens=100, extra_body={"output_config": {"format": {"type": "json_schema", "schema": schema}}})
    if answer.stop_reason == "end_turn":
        assert set(json.loads(answer.content[0].text)) == {"city"}
    assert answer.content[0].text.startswith("{")


def test_format_beside_tools():
    """The demo begins what it says of sums with a number."""
    number = {"output_config": {"format": {"type": "json_schema", "schema": {"type": "integer", "maximum": 9999}}}}
    text, called = run_tools("What is 17 + 25?", extra_body=number)
    assert called == [] and isinstance(json.loads(text), int)
    answer = ask("What is the weather in Athens?", tools=TOOLS, extra_body=number)
    assert [(b.name, b.input) for b in answer.content] == [("get_weather", {"location": "Athens"})]


# ---- refusals ------------------------------------------------------------------------

def test_errors_of_the_client():
    for kind, more in ((anthropic.BadRequestError, {"temperature": 7}), (anthropic.NotFoundError, {"model": "other"})):
        try:
            ask(**more)
            raise AssertionError(more)
        except kind as e:
            assert e.body["error"]["message"] and e.request_id.startswith("req_")
    try:
        anthropic.Anthropic(base_url=SERVER.url, api_key="wrong", max_retries=0).messages.create(**by_client())
        raise AssertionError("a wrong key was taken")
    except anthropic.AuthenticationError as e:
        assert e.body["error"]["type"] == "authentication_error"


def test_refusals_name_the_place():
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}
    for wanted, more in {
            "max_tokens: ": {"max_tokens": None}, "messages: found nothing": {"messages": None}, "messages: the list is empty": {"messages": []},
            "messages[0]: found int": {"messages": [1]}, "messages[0].role: ": {"messages": [{"role": "tool", "content": ""}]},
            "messages[0].content[1].type: image ": {"messages": [user([{"type": "text", "text": "a"}, image])]},
            "messages[0].content: says nothing": {"messages": [user("")]}, "messages[0].content: found nothing": {"messages": [{"role": "user"}]},
            "messages[0].content[0].text: found int": {"messages": [user([{"type": "text", "text": 1}])]},
            "messages[0].content[0].tool_use_id: ": {"messages": [user([{"type": "tool_result"}])]},
            "messages[0].content[0].input: ": {"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "b", "input": "c"}]}]},
            "system[0].type: image": {"system": [image]}, "tools[0].type: web_search": {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
            "tools[0].input_schema: ": {"tools": [{"name": "a"}]}, "tool_choice.type: some": {"tools": TOOLS, "tool_choice": {"type": "some"}},
            "tool_choice: there is no tool x": {"tools": TOOLS, "tool_choice": {"type": "tool", "name": "x"}},
            "thinking.type: on": {"thinking": {"type": "on"}}, "output_config.effort: ": {"output_config": {"effort": "huge"}},
            "output_config.format.type: xml": {"output_config": {"format": {"type": "xml"}}}, "container: ": {"container": "c"},
            "stop_sequences: ": {"stop_sequences": [""]}}.items():
        said = refused(**more)
        assert said.startswith(wanted), (wanted, said)


def test_other_shapes_of_errors():
    assert "other" in refused(404, model="other")
    assert "prompt is too long" in refused(400, messages=[user("x " * 5000)])  # clients know it by these words
    assert refused(400, "/v1/messages/count_tokens", messages=[])
    status, _, data = SERVER.ask("POST", "/v1/messages", "{", KEY)
    assert status == 400 and json.loads(data)["type"] == "error"
    status, _, data = SERVER.ask("POST", "/v1/messages", body())
    assert status == 401 and json.loads(data)["error"]["type"] == "authentication_error"


def test_what_clients_send_besides():
    status, _, data = SERVER.ask("POST", "/v1/messages?beta=true", {
        **body(), "metadata": {"user_id": "u"}, "service_tier": "auto", "context_management": {"edits": []}},
        {"Authorization": "Bearer secret", "anthropic-version": "2023-06-01", "anthropic-beta": "claude-code-20250219,other"})
    assert status == 200 and json.loads(data)["content"][0]["text"] == PARIS
    counted = SERVER.post("/v1/messages/count_tokens?beta=true", {"model": "demo", "messages": [user(FRANCE)]}, **KEY)
    assert counted == {"input_tokens": 11}


def main():
    status = suite.run(globals(), SCRATCH)
    SERVER.stop()
    return status


if __name__ == "__main__":
    sys.exit(main())
