#!/usr/bin/env python3
"""OpenAI's Responses API, by its own client and by the bytes: items, events, tools in a loop, errors.

usage: test_server_responses.py [HADAL [MODEL]]     defaults: build/hadal models/demo"""
import json
import pathlib
import sys
import tempfile

import openai

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/support"))
import suite  # behind the path
from served import FRANCE, PARIS, Server, call
from served import TOOLS as CHAT_TOOLS
HADAL = str(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/hadal").resolve())
MODEL = str(pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else ROOT / "models/demo").resolve())
SCRATCH = pathlib.Path(tempfile.mkdtemp(prefix="hadal-responses-"))
SERVER = Server(HADAL, MODEL)
CLIENT = openai.OpenAI(base_url=SERVER.url + "/v1", api_key="none", max_retries=0, timeout=120)
TOOLS = [{"type": "function", **t["function"], "strict": False} for t in CHAT_TOOLS]
SYSTEM = "You are a helpful assistant."
OFF, ON = {"effort": "none"}, {"effort": "high"}


def body(input=FRANCE, **more):
    return {"model": "demo", "input": input, "temperature": 0, "reasoning": OFF, **more}


def ask(input=FRANCE, **more):
    return CLIENT.responses.create(**body(input, **more))


def refused(status=400, **more):
    return SERVER.refused("/v1/responses", {**body(), **more}, status)["message"]


def events(**more):
    status, fields, data = SERVER.ask("POST", "/v1/responses", {**body(), "stream": True, **more})
    assert status == 200 and fields["Content-Type"].startswith("text/event-stream"), data
    parts = data.decode().split("\n\n")
    assert parts.pop() == ""
    out = []
    for part in parts:
        if part.startswith(":"):
            continue  # sent during silence
        name, _, value = part.partition("\n")
        value = json.loads(value.removeprefix("data: "))
        assert name == "event: " + value["type"], part
        out.append(value)
    assert [e["sequence_number"] for e in out] == list(range(len(out)))
    return out


# ---- answers -------------------------------------------------------------------------

def test_answer():
    answer = ask()
    assert answer.output_text == PARIS and answer.id.startswith("resp_") and answer.status == "completed"
    assert [i.type for i in answer.output] == ["message"] and answer.output[0].id.startswith("msg_")
    u = answer.usage
    assert (u.output_tokens, u.total_tokens) == (8, u.input_tokens + 8) and u.output_tokens_details.reasoning_tokens == 0
    assert answer.error is None and answer.incomplete_details is None and answer.store is False


def test_members_that_a_response_must_have():
    answer = SERVER.post("/v1/responses", body(tools=TOOLS, metadata={"a": "b"}, instructions=SYSTEM))
    for name in ("id", "object", "created_at", "status", "model", "output", "error", "incomplete_details", "instructions", "metadata",
                 "parallel_tool_calls", "temperature", "tool_choice", "tools", "top_p", "usage", "text", "reasoning", "truncation"):
        assert name in answer, name
    assert (answer["instructions"], answer["metadata"], answer["tools"]) == (SYSTEM, {"a": "b"}, TOOLS)


def test_events_build_the_response():
    for more in ({}, {"reasoning": ON}, {"tools": TOOLS, "input": "What is the weather in Athens and Ottawa?"}, {"max_output_tokens": 3},
                 {"include": ["message.output_text.logprobs"], "top_logprobs": 2}):
        got = events(**more)
        last = {"max_output_tokens": "response.incomplete"}.get(next(iter(more), ""), "response.completed")
        assert [e["type"] for e in got[:2]] + [got[-1]["type"]] == ["response.created", "response.in_progress", last]
        items = {}
        for e in got[2:-1]:
            kind, index = e["type"], e["output_index"]
            if kind == "response.output_item.added":
                assert index == len(items) and e["item"]["status"] == "in_progress"
                items[index] = {"id": e["item"]["id"], "text": "", "is_done": False, "parts": 0}
                continue
            item = items[index]
            assert not item["is_done"] and e.get("item_id", item["id"]) == item["id"]
            if kind == "response.content_part.added":
                item["parts"] += 1
            elif kind.endswith(".delta"):
                assert item["parts"] == 1 or "arguments" in kind
                item["text"] += e["delta"]
            elif kind == "response.output_item.done":
                item["is_done"] = e["item"]
            elif kind != "response.content_part.done":
                assert (e["arguments"] if "arguments" in kind else e["text"]) == item["text"], e
        final = got[-1]["response"]
        assert final["output"] == [i["is_done"] for i in items.values()], more
        whole = SERVER.post("/v1/responses", {**body(), **more})
        assert strip(whole["output"]) == strip(final["output"]) and whole["usage"]["output_tokens"] == final["usage"]["output_tokens"]


def strip(items):
    return [{k: v for k, v in i.items() if k not in ("id", "call_id")} for i in items]


def test_stream_of_the_client():
    with CLIENT.responses.stream(**body(reasoning=ON)) as stream:
        kinds = {e.type for e in stream}
        final = stream.get_final_response()
    assert final.output_text == PARIS and [i.type for i in final.output] == ["reasoning", "message"]
    assert {"response.output_text.delta", "response.reasoning_text.delta", "response.completed"} <= kinds
    assert final.usage.output_tokens_details.reasoning_tokens > 0


def test_incomplete():
    answer = ask(max_output_tokens=3)
    assert answer.status == "incomplete" and answer.incomplete_details.reason == "max_output_tokens"
    blank = ask(reasoning=ON, max_output_tokens=2)
    assert blank.status == "incomplete" and blank.model_extra["hadal"]["blank"] == "reasoning" and blank.output_text == ""


def test_logprobs():
    part = ask(include=["message.output_text.logprobs"], top_logprobs=2, reasoning=ON).output[-1].content[0]
    assert "".join(p.token for p in part.logprobs).startswith(part.text) and all(len(p.top_logprobs) == 2 for p in part.logprobs)
    assert ask().output[-1].content[0].logprobs == []


# ---- items ---------------------------------------------------------------------------

def test_input_of_items():
    text = lambda kind, value: [{"type": kind, "text": value}]
    for first in ({"role": "user", "content": FRANCE}, {"type": "message", "role": "user", "content": text("input_text", FRANCE)}):
        assert ask([first]).output_text == PARIS
    past = [{"role": "user", "content": FRANCE}, {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant",
                                                  "content": text("output_text", PARIS)}]
    assert "Athens" in ask(past + [{"role": "user", "content": "What is the capital of Greece?"}]).output_text
    with_role = ask([{"role": "developer", "content": SYSTEM}, {"role": "user", "content": FRANCE}])
    assert with_role.usage.input_tokens == ask(instructions=SYSTEM).usage.input_tokens > ask().usage.input_tokens


def test_reasoning_belongs_to_its_turn():
    call_item = {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": '{"location": "Paris"}'}
    rest = [call_item, {"type": "function_call_output", "call_id": "call_1", "output": "sunny"}]
    question = {"role": "user", "content": "What is the weather in Paris?"}
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "I ask the tool."}]}
    count = lambda items: ask(items, tools=TOOLS, reasoning=ON, max_output_tokens=1).usage.input_tokens
    without = count([question, *rest])
    assert count([question, reasoning, *rest]) > without
    assert count([question, {**reasoning, "content": None, "summary": [{"type": "summary_text", "text": "I ask the tool."}]}, *rest]) > without
    assert count([question, {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}, *rest]) == without


def run_tools(question, **more):
    items, called = [{"role": "user", "content": question}], []
    for _ in range(5):
        answer = ask(items, instructions=SYSTEM, tools=TOOLS, **more)
        calls = [i for i in answer.output if i.type == "function_call"]
        if not calls:
            return answer.output_text, called
        items += [i.model_dump(exclude_none=True) for i in answer.output]
        for c in calls:
            called.append((c.name, json.loads(c.arguments)))
            items.append({"type": "function_call_output", "call_id": c.call_id, "output": call(c.name, c.arguments)})
    raise AssertionError(called)


def test_tools_in_a_loop():
    for reasoning in (OFF, ON):
        text, called = run_tools("What is the weather in Athens?", reasoning=reasoning)
        assert called == [("get_weather", {"location": "Athens"})] and "Athens" in text
    assert run_tools("What is 27 times 38?") == ("27 times 38 is 1026.", [("calculate", {"a": 27, "b": 38})])


def test_choice_of_tools():
    forced = ask("Hello.", tools=TOOLS, tool_choice={"type": "function", "name": "calculate"})
    assert [i.name for i in forced.output if i.type == "function_call"] == ["calculate"]
    assert any(i.type == "function_call" for i in ask("Hello.", tools=TOOLS, tool_choice="required").output)
    assert not any(i.type == "function_call" for i in ask("What is the weather in Athens?", tools=TOOLS, tool_choice="none").output)


def test_format():
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 99}}, "required": ["n"], "additionalProperties": False}
    answer = ask(text={"format": {"type": "json_schema", "name": "number", "schema": schema, "strict": True}}, max_output_tokens=60)
    assert set(json.loads(answer.output_text)) == {"n"}
    assert ask(text={"format": {"type": "json_object"}}, max_output_tokens=40).output_text.startswith("{")


def test_format_beside_tools():
    """The demo begins what it says of sums with a number."""
    text = {"format": {"type": "json_schema", "name": "number", "schema": {"type": "integer", "maximum": 9999}, "strict": True}}
    said, called = run_tools("What is 17 + 25?", text=text)
    assert called == [] and isinstance(json.loads(said), int)
    calls = ask("What is the weather in Athens?", tools=TOOLS, text=text).output
    assert [(c.name, json.loads(c.arguments)) for c in calls] == [("get_weather", {"location": "Athens"})]
    forced = ask("Hello.", tools=TOOLS, tool_choice="required", text=text)
    assert not forced.output_text and any(i.type == "function_call" for i in forced.output)
    unasked = ask("What is the weather in Athens?", tools=TOOLS, tool_choice="none", text=text)
    assert [i.type for i in unasked.output] == ["message"] and isinstance(json.loads(unasked.output_text), int)


# ---- refusals ------------------------------------------------------------------------

def test_refusals_name_the_place():
    for wanted, more in {
            "input: found nothing": {"input": None}, "input: the list is empty": {"input": []}, "input[0]: found int": {"input": [1]},
            "input[0].type: item_reference": {"input": [{"type": "item_reference", "id": "x"}]}, "input[0].role: ": {"input": [{"role": "tool", "content": ""}]},
            "input[0].content[0].type: input_image": {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]},
            "input[0].call_id: no call": {"input": [{"type": "function_call_output", "call_id": "x", "output": ""}]},
            "input[0].arguments: ": {"input": [{"type": "function_call", "call_id": "x", "name": "f"}]},
            "previous_response_id: ": {"previous_response_id": "resp_1"}, "conversation: ": {"conversation": "c"}, "background: ": {"background": True},
            "truncation: ": {"truncation": "auto"}, "tools[0].type: web_search": {"tools": [{"type": "web_search"}]},
            "tool_choice.type: mcp": {"tools": TOOLS, "tool_choice": {"type": "mcp"}}, "text.format.type: xml": {"text": {"format": {"type": "xml"}}},
            "text.format.schema: ": {"text": {"format": {"type": "json_schema", "name": "a"}}}, "reasoning_effort: ": {"reasoning": {"effort": "huge"}},
            "max_output_tokens: ": {"max_output_tokens": 0}}.items():
        said = refused(**more)
        assert said.startswith(wanted), (wanted, said)
    assert "other" in refused(404, model="other")


def test_what_clients_send_besides():
    answer = ask(store=False, include=["reasoning.encrypted_content"], extra_body={"prompt_cache_key": "k", "client_metadata": {}})
    assert answer.output_text == PARIS
    assert ask(previous_response_id=None).output_text == PARIS


def main():
    status = suite.run(globals(), SCRATCH)
    SERVER.stop()
    return status


if __name__ == "__main__":
    sys.exit(main())
