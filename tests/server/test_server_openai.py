#!/usr/bin/env python3
"""OpenAI's own client against the server: streams, tools in a loop, reasoning, structure, errors.

usage: test_server_openai.py [HADAL [MODEL]]     defaults: build/hadal models/demo"""
import asyncio
import json
import pathlib
import sys
import tempfile
import typing

import openai
import pydantic

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/support"))
import suite  # behind the path
from served import FRANCE, PARIS, TOOLS, Server, call
HADAL = str(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/hadal").resolve())
MODEL = str(pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else ROOT / "models/demo").resolve())
SCRATCH = pathlib.Path(tempfile.mkdtemp(prefix="hadal-openai-"))
KEYS = SCRATCH / "keys"
KEYS.write_text("secret\n")
SERVER = Server(HADAL, MODEL, "--keys", str(KEYS))
CLIENT = openai.OpenAI(base_url=SERVER.url + "/v1", api_key="secret", max_retries=0, timeout=120)
SYSTEM = {"role": "system", "content": "You are a helpful assistant."}
OFF = {"thinking": {"type": "disabled"}}
ON = {"thinking": {"type": "enabled"}}


def user(text):
    return {"role": "user", "content": text}


def chat(messages, thinking=OFF, **more):
    return CLIENT.chat.completions.create(model="demo", messages=messages, temperature=0, extra_body=thinking, **more)


def refused(kind, **more):
    try:
        chat(**{"messages": [user(FRANCE)], **more})
    except kind as e:
        return e
    raise AssertionError(f"taken: {more}")


# ---- answers -------------------------------------------------------------------------

def test_models():
    models = CLIENT.models.list().data
    assert [m.id for m in models] == ["demo"] and models[0].object == "model"
    assert CLIENT.models.retrieve("demo").id == "demo"
    try:
        CLIENT.models.retrieve("other")
        raise AssertionError("there is another model")
    except openai.NotFoundError as e:
        assert e.code == "model_not_found"


def test_answer():
    answer = chat([user(FRANCE)])
    choice = answer.choices[0]
    assert (choice.message.content, choice.finish_reason, choice.message.tool_calls) == (PARIS, "stop", None)
    assert answer.object == "chat.completion" and answer.id.startswith("chatcmpl-")
    u = answer.usage
    assert u.prompt_tokens + u.completion_tokens == u.total_tokens and u.completion_tokens == 8


def test_stream():
    chunks = list(chat([user(FRANCE)], stream=True, stream_options={"include_usage": True}))
    assert "".join(c.choices[0].delta.content or "" for c in chunks[:-1]) == PARIS
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [c.choices[0].finish_reason for c in chunks[:-1]] == [None] * (len(chunks) - 2) + ["stop"]
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == 8
    assert all(c.usage is None for c in chunks[:-1])
    assert len({(c.id, c.created, c.model, c.object) for c in chunks}) == 1


def test_client_that_stops_reading():
    stream = CLIENT.chat.completions.create(model="demo", messages=[user("Tell me a story.")], stream=True, seed=1,
                                            extra_body={**OFF, "ignore_eos": True})
    for n, _ in enumerate(stream):
        if n == 5:
            break
    stream.close()
    assert SERVER.logged(status=499)["new"] < 4000


def test_many_at_once():
    client = openai.AsyncOpenAI(base_url=SERVER.url + "/v1", api_key="secret", max_retries=0, timeout=120)

    async def ask(n):
        answer = await client.chat.completions.create(
            model="demo", messages=[user(f"Count to {n}.")], temperature=0, extra_body=OFF)
        return answer.choices[0].message.content

    async def ask_all():
        return await asyncio.gather(*(ask(n) for n in range(3, 15)))

    for n, text in zip(range(3, 15), asyncio.run(ask_all())):
        assert text == ", ".join(map(str, range(1, n + 1))) + ".", (n, text)


# ---- tools ---------------------------------------------------------------------------

def run_tools(question, thinking=OFF, **more):
    """Asks, runs what is called, and asks again until there is an answer; returns it with the calls."""
    messages, called = [SYSTEM, user(question)], []
    for _ in range(5):
        answer = chat(messages, thinking, tools=TOOLS, **more).choices[0]
        if not answer.message.tool_calls:
            assert answer.finish_reason == "stop"
            return answer.message.content, called
        assert answer.finish_reason == "tool_calls"
        messages.append(answer.message.model_dump(exclude_none=True))
        for c in answer.message.tool_calls:
            called.append((c.function.name, json.loads(c.function.arguments)))
            messages.append({"role": "tool", "tool_call_id": c.id,
                             "content": call(c.function.name, c.function.arguments)})
    raise AssertionError(called)


def test_tools_in_a_loop():
    assert run_tools("What is the weather in Athens?") == (
        "In Athens it is sunny with 6 degrees.", [("get_weather", {"location": "Athens"})])
    assert run_tools("What is 27 times 38?") == ("27 times 38 is 1026.", [("calculate", {"a": 27, "b": 38})])


def test_two_calls_at_once():
    text, called = run_tools("What is the weather in Athens and Ottawa?")
    assert called == [("get_weather", {"location": "Athens"}), ("get_weather", {"location": "Ottawa"})]
    assert "Athens" in text and "Ottawa" in text


def test_tools_with_reasoning():
    text, called = run_tools("What is the weather in Paris?", ON)
    assert called == [("get_weather", {"location": "Paris"})] and "Paris" in text


def test_streamed_calls():
    whole = chat([SYSTEM, user("What is the weather in Athens and Ottawa?")], tools=TOOLS).choices[0].message
    names, arguments, ids = {}, {}, {}
    for chunk in chat([SYSTEM, user("What is the weather in Athens and Ottawa?")], tools=TOOLS, stream=True):
        for c in chunk.choices[0].delta.tool_calls or []:
            if c.id:
                ids[c.index], names[c.index] = c.id, c.function.name
            arguments[c.index] = arguments.get(c.index, "") + c.function.arguments
        finish = chunk.choices[0].finish_reason
    assert finish == "tool_calls" and len(set(ids.values())) == 2
    assert [names[i] for i in (0, 1)] == [c.function.name for c in whole.tool_calls]
    assert [arguments[i] for i in (0, 1)] == [c.function.arguments for c in whole.tool_calls]
    assert sorted(ids.values()) == [ids[0], ids[1]]


def test_forced_calls():
    for thinking in (OFF, ON):
        answer = chat([user("Hello!")], thinking, tools=TOOLS, tool_choice="required").choices[0]
        assert answer.finish_reason == "tool_calls" and not answer.message.content
        answer = chat([user(FRANCE)], thinking, tools=TOOLS, tool_choice={
            "type": "function", "function": {"name": "calculate"}}).choices[0]
        assert [c.function.name for c in answer.message.tool_calls] == ["calculate"]
        given = json.loads(answer.message.tool_calls[0].function.arguments)
        assert set(given) == {"a", "b"} and all(isinstance(v, int) for v in given.values()), given


def test_arguments_have_the_names_of_the_schema():
    """No call wraps its arguments in a further `arguments`, unless a parameter is called so."""
    for name in ("room", "arguments"):
        tool = {"type": "function", "function": {"name": "store", "parameters": {
            "type": "object", "properties": {name: {"enum": ["hall", "attic"]}}, "required": [name],
            "additionalProperties": False}}}
        answer = chat([user("Hello!")], tools=[tool], tool_choice="required", parallel_tool_calls=False).choices[0]
        given = json.loads(answer.message.tool_calls[0].function.arguments)
        assert list(given) == [name] and given[name] in ("hall", "attic"), given


def test_no_calls():
    answer = chat([user("What is the weather in Paris?")], tools=TOOLS, tool_choice="none").choices[0]
    assert answer.finish_reason == "stop" and answer.message.tool_calls is None
    answer = chat([user("What is the weather in Athens and Ottawa?")], tools=TOOLS, parallel_tool_calls=False)
    assert len(answer.choices[0].message.tool_calls) == 1


# ---- reasoning -----------------------------------------------------------------------

def test_reasoning():
    answer = chat([user(FRANCE)], ON)
    message = answer.choices[0].message
    assert message.content == PARIS and "France" in message.reasoning_content
    n = answer.usage.completion_tokens_details.reasoning_tokens
    assert 0 < n < answer.usage.completion_tokens
    said = {"content": "", "reasoning_content": ""}
    for chunk in chat([user(FRANCE)], ON, stream=True):
        delta = chunk.choices[0].delta.model_dump(exclude_unset=True)
        for name in said:
            said[name] += delta.get(name) or ""
    assert said == {"content": PARIS, "reasoning_content": message.reasoning_content}


def test_reasoning_effort():
    off = chat([user(FRANCE)], {}, reasoning_effort="none").choices[0].message
    assert getattr(off, "reasoning_content", None) is None
    for effort in ("minimal", "low", "medium", "high", "xhigh"):
        assert chat([user(FRANCE)], {}, reasoning_effort=effort).choices[0].message.reasoning_content
    assert chat([user(FRANCE)], {}).choices[0].message.reasoning_content  # thinks unless told otherwise
    kwargs = {"chat_template_kwargs": {"enable_thinking": False}}
    assert getattr(chat([user(FRANCE)], kwargs).choices[0].message, "reasoning_content", None) is None


# ---- structure -----------------------------------------------------------------------

class Capital(pydantic.BaseModel):
    country: typing.Literal["France", "Spain"]
    capital: str = pydantic.Field(max_length=12)
    letters: int = pydantic.Field(ge=1, le=99)
    neighbours: list[typing.Literal["Spain", "Italy", "Belgium"]] = pydantic.Field(max_length=3)


def test_structured_output():
    for thinking in (OFF, ON):
        parsed = CLIENT.chat.completions.parse(
            model="demo", messages=[user(FRANCE)], temperature=0, extra_body=thinking, response_format=Capital,
            max_tokens=400)
        assert isinstance(parsed.choices[0].message.parsed, Capital), parsed
        with CLIENT.chat.completions.stream(model="demo", messages=[user(FRANCE)], temperature=0, extra_body=thinking,
                                            response_format=Capital) as stream:
            assert stream.get_final_completion().choices[0].message.parsed == parsed.choices[0].message.parsed


Number = pydantic.RootModel[typing.Annotated[int, pydantic.Field(ge=0, le=9999)]]


def test_structured_output_beside_tools():
    """The demo never learnt to answer in objects, but begins what it says of sums with a number."""
    schema = {"type": "json_schema", "json_schema": {"name": "number", "schema": Number.model_json_schema()}}
    asked = chat([SYSTEM, user("What is the weather in Athens?")], tools=TOOLS, response_format=schema).choices[0]
    assert asked.finish_reason == "tool_calls" and json.loads(asked.message.tool_calls[0].function.arguments) == {"location": "Athens"}
    text, called = run_tools("What is 17 + 25?", response_format=schema)
    assert called == [] and Number.model_validate_json(text)
    chunks = list(chat([SYSTEM, user("What is 17 + 25?")], tools=TOOLS, response_format=schema, stream=True))
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == text


def test_calls_or_structure():
    weather = [SYSTEM, user("What is the weather in Athens and Ottawa?")]
    tools = [{**t, "function": {**t["function"], "strict": True, "parameters": {
        **t["function"]["parameters"], "additionalProperties": False}}} for t in TOOLS]
    parse = lambda messages, thinking=OFF, **more: CLIENT.chat.completions.parse(
        model="demo", messages=messages, temperature=0, extra_body=thinking, tools=tools, response_format=Capital,
        max_tokens=400, **more).choices[0]
    for thinking in (OFF, ON):
        calls = parse(weather, thinking)
        assert calls.finish_reason == "tool_calls" and calls.message.parsed is None and not calls.message.content
        assert {c.function.parsed_arguments["location"] for c in calls.message.tool_calls} <= {"Athens", "Ottawa"}
        forced = parse([user(FRANCE)], thinking, tool_choice="required")
        assert forced.finish_reason == "tool_calls" and not forced.message.content
    assert len(parse(weather, parallel_tool_calls=False).message.tool_calls) == 1
    ids = SERVER.post("/tokenize", {"prompt": "\n\n"}, Authorization="Bearer secret")["tokens"]
    for more in ({"logit_bias": {str(ids[0]): -100}}, {"tool_choice": "none"}):  # who may not begin a block says it in the schema
        said = parse(weather, **more)
        assert said.finish_reason == "stop" and not said.message.tool_calls and isinstance(said.message.parsed, Capital)


def test_what_a_schema_says_in_words_is_no_grammar():
    schema = {"type": "object", "description": 'say "x" | {"y": [', "required": ["a"], "additionalProperties": False,
              "properties": {"a": {"type": "integer", "description": "`)(*&^%$\u0000\n\"", "minimum": 0, "maximum": 9}}}
    answer = chat([user(FRANCE)], response_format={
        "type": "json_schema", "json_schema": {"name": "x", "schema": schema}}).choices[0]
    assert 0 <= json.loads(answer.message.content)["a"] <= 9


def test_json_object():
    for thinking in (OFF, ON):
        answer = chat([user("Reply with JSON: what is the capital of France?")], thinking, max_tokens=600,
                      response_format={"type": "json_object"}).choices[0]
        if answer.finish_reason == "stop":
            assert isinstance(json.loads(answer.message.content), dict)
        else:
            assert answer.finish_reason == "length" and answer.message.content.startswith("{")


def test_schema_that_is_none():
    for schema, says in (({"type": "strnig"}, "strnig"), ({"type": "string", "pattern": "("}, "pattern"),
                         ({"$ref": "#/$defs/missing"}, "missing")):
        e = refused(openai.BadRequestError, response_format={
            "type": "json_schema", "json_schema": {"name": "x", "schema": schema}})
        assert says in e.message, (schema, e.message)
    odd = {"type": "function", "function": {"name": "odd", "parameters": {"properties": {"a": {"not": {}}}}}}
    assert chat([user(FRANCE)], tools=[odd], max_tokens=3)  # free text needs no grammar; a schema does
    e = refused(openai.BadRequestError, tools=[odd], response_format={"type": "json_object"})
    assert "tools[0].function.parameters.properties.a.not" in e.message, e.message


# ---- drawing -------------------------------------------------------------------------

def test_logprobs():
    answer = chat([user(FRANCE)], logprobs=True, top_logprobs=3).choices[0]
    tokens = answer.logprobs.content
    assert bytes(b for t in tokens[:-1] for b in t.bytes).decode() == PARIS
    assert all(len(t.top_logprobs) == 3 and t.top_logprobs[0].token == t.token for t in tokens)
    assert all(-100 < t.logprob <= 0 for t in tokens)
    streamed = [t for c in chat([user(FRANCE)], logprobs=True, top_logprobs=3, stream=True)
                for t in (c.choices[0].logprobs.content if c.choices[0].logprobs else [])]
    assert streamed == tokens
    thought = chat([user(FRANCE)], ON, logprobs=True).choices[0].logprobs
    assert bytes(b for t in thought.content[:-1] for b in t.bytes).decode() == PARIS
    assert len(thought.reasoning_content) > 3


def test_choices_and_seeds():
    ask = dict(messages=[user("Tell me a story.")], model="demo", extra_body=OFF, max_tokens=12, temperature=1.5)
    three = CLIENT.chat.completions.create(**ask, n=3, seed=7).choices
    assert [c.index for c in three] == [0, 1, 2]
    alone = [CLIENT.chat.completions.create(**ask, seed=7 + i).choices[0].message.content for i in range(3)]
    assert [c.message.content for c in three] == alone and len(set(alone)) > 1
    seed = int(three[1].hadal["seed"])
    assert seed == 8
    texts = {0: "", 1: "", 2: ""}
    for chunk in CLIENT.chat.completions.create(**ask, n=3, seed=7, stream=True):
        for c in chunk.choices:
            texts[c.index] += c.delta.content or ""
    assert list(texts.values()) == alone


def test_ends():
    answer = chat([user("Count to 9.")], stop=["x", ", 5"]).choices[0]
    assert (answer.message.content, answer.finish_reason) == ("1, 2, 3, 4", "stop")
    assert answer.hadal["stop"] == ", 5"
    answer = chat([user("Count to 9.")], max_completion_tokens=4, max_tokens=2)
    assert answer.choices[0].finish_reason == "length" and answer.usage.completion_tokens == 4
    ids = SERVER.post("/tokenize", {"prompt": " Paris"}, Authorization="Bearer secret")["tokens"]
    answer = chat([user(FRANCE)], {**OFF, "stop_token_ids": ids}).choices[0]
    assert (answer.message.content, answer.finish_reason) == ("The capital of France is", "stop")
    answer = chat([user(FRANCE)], {**OFF, "ignore_eos": True}, max_tokens=20)
    assert answer.usage.completion_tokens == 20
    answer = chat([user(FRANCE)], {**OFF, "min_tokens": 15}, max_tokens=20)
    assert answer.usage.completion_tokens >= 15


def test_bias_and_penalties():
    ids = SERVER.post("/tokenize", {"prompt": " Paris"}, Authorization="Bearer secret")["tokens"]
    banned = chat([user(FRANCE)], logit_bias={str(ids[0]): -100}).choices[0].message.content
    assert "Paris" not in banned
    plain = chat([user("Tell me a story.")], max_tokens=100).choices[0].message.content
    for more in ({"frequency_penalty": 2}, {"presence_penalty": 2}, {"repetition_penalty": 3}):
        assert chat([user("Tell me a story.")], {**OFF, **more}, max_tokens=100).choices[0].message.content != plain
    for more in ({"top_k": 1}, {"min_p": 1.0}):
        answer = CLIENT.chat.completions.create(model="demo", messages=[user(FRANCE)], temperature=2, seed=3,
                                                extra_body={**OFF, **more})
        assert answer.choices[0].message.content == PARIS
    answer = CLIENT.chat.completions.create(model="demo", messages=[user(FRANCE)], temperature=2, top_p=0, seed=3,
                                            extra_body=OFF)
    assert answer.choices[0].message.content == PARIS


# ---- text completions ----------------------------------------------------------------

def complete(prompt, **more):
    return CLIENT.completions.create(model="demo", prompt=prompt, temperature=0, **more)


def test_completion():
    answer = complete("The capital of France is", max_tokens=2)
    assert answer.object == "text_completion" and answer.choices[0].text == " Paris."
    assert complete("The capital of France is").usage.completion_tokens == 16
    streamed = "".join(c.choices[0].text for c in complete("The capital of France is", max_tokens=2, stream=True))
    assert streamed == " Paris."
    answer = complete("The capital of France is", stop=".")
    assert (answer.choices[0].text, answer.choices[0].finish_reason) == (" Paris", "stop")


def test_completions_of_a_list():
    answer = complete(["The capital of France is", "The capital of Spain is"], max_tokens=1, n=2)
    assert [c.index for c in answer.choices] == [0, 1, 2, 3]
    assert [c.text for c in answer.choices] == [" Paris"] * 2 + [" Madrid"] * 2
    ids = SERVER.post("/tokenize", {"prompt": "The capital of France is", "add_special_tokens": True},
                      Authorization="Bearer secret")["tokens"]
    assert complete([ids], max_tokens=1).choices[0].text == " Paris"
    assert complete(ids, max_tokens=1).choices[0].text == " Paris"


def test_a_sequence_begins_once():
    """Who renders a template writes the token that begins sequences; it is not put there twice."""
    text = "<｜begin▁of▁sentence｜><｜User｜>" + FRANCE + "<｜Assistant｜></think>"
    encoded = {n: SERVER.post("/tokenize", {"prompt": text, "add_special_tokens": n}, Authorization="Bearer secret")
               for n in (True, False)}
    assert encoded[True] == encoded[False]
    ids = encoded[True]["tokens"]
    assert ids[0] == 0 and ids.count(0) == 1
    asked = {"max_tokens": 10, "echo": True, "logprobs": 1}
    spelled, plain, counted = (complete(p, **asked) for p in (text, text[len("<｜begin▁of▁sentence｜>"):], ids))
    assert spelled.usage.prompt_tokens == plain.usage.prompt_tokens == counted.usage.prompt_tokens == len(ids)
    assert spelled.choices[0].text == counted.choices[0].text
    assert spelled.choices[0].logprobs == counted.choices[0].logprobs
    # What the server put there itself is not told.
    assert plain.choices[0].logprobs.tokens == counted.choices[0].logprobs.tokens[1:]


def test_echo_and_logprobs():
    """As evaluation harnesses ask: the prompt's own probabilities, with or without a token more."""
    ids = SERVER.post("/tokenize", {"prompt": "The capital of France is Paris."},
                      Authorization="Bearer secret")["tokens"]
    for prompt in (ids, [ids], "The capital of France is Paris."):
        scored = complete(prompt, max_tokens=0, echo=True, logprobs=1).choices[0]
        assert scored.text == "The capital of France is Paris."
        p = scored.logprobs
        assert "".join(p.tokens) == scored.text and len(p.token_logprobs) == len(p.tokens) == len(p.text_offset)
        assert all(scored.text[o:].startswith(t) for o, t in zip(p.text_offset, p.tokens))
        assert (p.token_logprobs[0] is None) == (not isinstance(prompt, str))
        assert all(x <= 0 for x in p.token_logprobs[1:])
    more = complete(ids, max_tokens=1, echo=True, logprobs=1).choices[0].logprobs
    alone = complete(ids, max_tokens=0, echo=True, logprobs=1).choices[0].logprobs
    assert more.token_logprobs[:-1] == alone.token_logprobs and len(more.tokens) == len(alone.tokens) + 1
    parts = [c.choices[0] for c in complete(ids, max_tokens=3, echo=True, logprobs=1, stream=True)]
    whole = complete(ids, max_tokens=3, echo=True, logprobs=1).choices[0]
    assert "".join(c.text for c in parts) == whole.text
    for name in ("tokens", "token_logprobs", "text_offset", "top_logprobs"):
        assert sum((getattr(c.logprobs, name) for c in parts), []) == getattr(whole.logprobs, name), name


# ---- errors --------------------------------------------------------------------------

def test_errors():
    e = refused(openai.BadRequestError, max_tokens=0)
    assert (e.param, e.type, e.code) == ("max_tokens", "invalid_request_error", None)
    e = refused(openai.BadRequestError, messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {
        "url": "data:,"}}]}])
    assert e.param.startswith("messages[0]"), e.param
    e = refused(openai.BadRequestError, messages=[user("x " * 5000)])
    # Clients know it by these words.
    assert e.code == "context_length_exceeded" and "prompt is too long" in e.message, e
    e = refused(openai.BadRequestError, messages=[user(FRANCE)], max_tokens=100000)
    assert e.code == "context_length_exceeded"
    e = refused(openai.BadRequestError, tools=TOOLS, tool_choice={"type": "function", "function": {"name": "x"}})
    assert e.param == "tool_choice"
    try:
        CLIENT.with_options(api_key="wrong").models.list()
        raise AssertionError("any key is taken")
    except openai.AuthenticationError as e:
        assert e.code == "invalid_api_key"
    try:
        CLIENT.chat.completions.create(model="other", messages=[user(FRANCE)])
        raise AssertionError("any model is taken")
    except openai.NotFoundError as e:
        assert (e.code, e.param) == ("model_not_found", "model")


def test_streamed_error_comes_as_a_status():
    """Nothing was said yet, so the client learns it from the status."""
    e = refused(openai.BadRequestError, stream=True, max_tokens=100000)
    assert e.code == "context_length_exceeded"


def test_the_server_ends_well():
    SERVER.stop()


sys.exit(suite.run(globals(), SCRATCH))
