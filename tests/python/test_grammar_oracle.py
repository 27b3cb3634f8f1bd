#!/usr/bin/env python3
"""Holds answers drawn at random under grammars against the PyPI package jsonschema.

Each schema is walked many times; every walk must end, parse and validate.  Texts made by changing
such answers, which a grammar must refuse unless they validate, go the other way; and answers that
are written down here must be taken.  Tool calls are taken apart and their arguments validated.

Needs jsonschema, and build/libhadal.a."""
import argparse
import datetime
import decimal
import ipaddress
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import urllib.parse
import uuid

import jsonschema

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

# ---- formats ----

decimal.getcontext().prec = 100
CHECKER = jsonschema.FormatChecker(formats=())


def check(name):
    def register(function):
        CHECKER.checks(name, raises=Exception)(lambda v: not isinstance(v, str) or bool(function(v)))
        return function
    return register


check("date")(lambda v: datetime.date.fromisoformat(v) and len(v) == 10)
check("time")(lambda v: re.fullmatch(r"\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", v)
              and datetime.time.fromisoformat(re.sub(r"(\.\d{1,6})\d*", r"\1", v[:8])))
check("date-time")(lambda v: datetime.date.fromisoformat(v[:10]) and v[10] == "T"
                   and datetime.time.fromisoformat(v[11:19])
                   and re.fullmatch(r"(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)", v[19:]))
check("ipv4")(ipaddress.IPv4Address)
check("ipv6")(ipaddress.IPv6Address)
check("uuid")(lambda v: str(uuid.UUID(v)) == v.lower())
check("email")(lambda v: re.fullmatch(r"[^@\s\"(),:;<>\[\]\\]+@[A-Za-z0-9.-]+", v) and ".." not in v)
check("hostname")(lambda v: len(v) < 254 and all(
    re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?", p) for p in v.split(".")))
check("uri")(lambda v: urllib.parse.urlsplit(v).scheme and re.fullmatch(r"[!-~]+", v)
             and not re.search(r"[\"<>\\^`{|}]", v))
check("duration")(lambda v: re.fullmatch(
    r"P(?!$)((\d+W)|(\d+Y)?(\d+M)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+S)?)?)", v))

# ---- schemas that are written down, each with answers that it takes ----

S, I, N, B = {"type": "string"}, {"type": "integer"}, {"type": "number"}, {"type": "boolean"}


def obj(properties, required=None, **more):
    return {"type": "object", "properties": properties,
            "required": list(properties) if required is None else required, **more}


WRITTEN = [
    (True, ["1", "null", '"x"', "[1, {}]", '{"a": [true]}']),
    ({}, ["-12.5e3", "[]", '{"a":{"b":null}}']),
    ({"type": "null"}, ["null"]),
    ({"type": "boolean"}, ["true", "false"]),
    (I, ["0", "-1", "123456789012345678"]),
    (N, ["0", "-0.5", "1e10", "2.5E-3", "100000000000000000.000001"]),
    (S, ['""', '"a\\u00e9\\ud83d\\ude00"', '"\u4f60\u597d"', '"\\/\\b\\f\\n\\r\\t\\"\\\\"']),
    ({"type": ["string", "null"]}, ["null", '"x"']),
    ({"type": ["integer", "string"], "minimum": 3, "minLength": 2}, ["3", '"ab"']),
    ({"type": "string", "minLength": 3}, ['"abc"', '"\U0001f600\U0001f600\U0001f600"', '"\\u0041bc"']),
    ({"type": "string", "maxLength": 3}, ['""', '"a\\nb"', '"\U0001f600\u00e9x"']),
    ({"type": "string", "minLength": 2, "maxLength": 2}, ['"ab"', '"\\ud83d\\ude00a"']),
    ({"type": "string", "minLength": 200, "maxLength": 300}, ['"' + "x" * 250 + '"']),
    ({"type": "string", "maxLength": 100000}, ['"' + "ab" * 900 + '"']),
    ({"type": "string", "pattern": "^a+b*$"}, ['"a"', '"aabb"']),
    ({"type": "string", "pattern": "b"}, ['"abc"', '"b"']),
    ({"type": "string", "pattern": "^x"}, ['"xyz\\n"']),
    ({"type": "string", "pattern": "x$"}, ['"zyx"']),
    ({"type": "string", "pattern": "^(a|b)|c$"}, ['"azz"', '"zzc"']),
    ({"type": "string", "pattern": "^\\d{3}-[A-F]{2,}$"}, ['"123-ABC"']),
    ({"type": "string", "pattern": "^[^a-z\"\\\\]{1,4}$"}, ['"ABC"', '"\u00e9"', '"\\n"']),
    ({"type": "string", "pattern": "^\\w+@\\w+\\.(com|org)$"}, ['"a@b.org"']),
    ({"type": "string", "pattern": "^[\\w-.]+$"}, ['"a-b.c"']),
    ({"type": "string", "pattern": "^\\u00e9[\u4e00-\u9fff]\\x41\\t$"}, ['"\u00e9\u4f60A\\t"']),
    ({"type": "string", "pattern": "^\\{[^{}]*\\}$", "maxLength": 6}, ['"{}"', '"{abcd}"']),
    ({"type": "string", "pattern": "^(ab)*$", "minLength": 3, "maxLength": 7}, ['"abab"', '"ababab"']),
    ({"type": "string", "pattern": "^.{2}$"}, ['"ab"', '"\\"\\\\"']),
    ({"type": "string", "pattern": "^(?:a|(?<n>b)){2}c??$"}, ['"ab"', '"bbc"']),
    ({"type": "string", "pattern": "^\\s\\S$"}, ['" x"']),
    ({"type": "string", "pattern": "^\\p{4}$".replace("\\p", "p")}, ['"pppp"']),
    ({"allOf": [{"type": "string", "pattern": "^a"}, {"pattern": "z$"}]}, ['"az"', '"abz"']),
    ({"enum": ["red", 3, None, True, 1.5, [1, "a"], {"k": "v"}]},
     ['"red"', "3", "null", "true", "1.5", '[1, "a"]', '{"k": "v"}']),
    ({"const": "a\"b\\c\n\u00e9"}, ['"a\\"b\\\\c\\n\u00e9"']),
    ({"const": None}, ["null"]),
    ({"type": "string", "enum": ["a", "bb", "ccc", 4], "minLength": 2}, ['"bb"', '"ccc"']),
    ({"type": "integer", "enum": [1, 5, 9, "x"], "minimum": 4, "multipleOf": 3}, ["9"]),
    ({"enum": [1, 2], "anyOf": [{"const": 2}, {"const": 3}]}, ["2"]),
    ({"type": "integer", "minimum": 5}, ["5", "17", "100"]),
    ({"type": "integer", "maximum": -5}, ["-5", "-123"]),
    ({"type": "integer", "minimum": -12, "maximum": 345}, ["-12", "-3", "0", "345", "99"]),
    ({"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 4}, ["2", "3"]),
    ({"type": "integer", "minimum": 1.5, "maximum": 4.5}, ["2", "4"]),
    ({"type": "integer", "minimum": 1000, "maximum": 1002}, ["1000", "1001", "1002"]),
    ({"type": "integer", "multipleOf": 7, "minimum": -20, "maximum": 20}, ["-14", "0", "7"]),
    ({"type": "number", "minimum": 0, "maximum": 1}, ["0", "1", "0.5", "1.000"]),
    ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}, ["0.001", "0.999"]),
    ({"type": "number", "minimum": -1.25, "exclusiveMaximum": 2.5}, ["-1.25", "2.49", "0"]),
    ({"type": "number", "minimum": 1e3}, ["1000", "1000.5", "20000"]),
    ({"type": "number", "multipleOf": 0.25, "minimum": 0, "maximum": 9}, ["0.25", "8.75", "3", "1.50"]),
    ({"type": "number", "multipleOf": 5}, ["0", "-15", "20"]),
    ({"type": "array"}, ["[]", '[1, "a", [null]]']),
    ({"type": "array", "items": I}, ["[]", "[1]", "[1, -2,\n  3]"]),
    ({"type": "array", "items": B, "minItems": 2, "maxItems": 3}, ["[true,false]", "[true, true, true]"]),
    ({"type": "array", "items": {"enum": [1]}, "minItems": 50, "maxItems": 60}, ["[" + ",".join("1" * 55) + "]"]),
    ({"type": "array", "items": False}, ["[]"]),
    ({"type": "array", "maxItems": 0}, ["[]", "[ ]"]),
    ({"type": "array", "prefixItems": [I, S], "items": False}, ["[]", "[1]", '[1,"a"]']),
    ({"type": "array", "prefixItems": [I, S], "items": B, "minItems": 1, "maxItems": 4},
     ["[1]", '[1, "x", true, false]']),
    ({"type": "array", "prefixItems": [I, S], "minItems": 2, "maxItems": 2}, ['[1,"a"]']),
    ({"type": "array", "items": I, "maxItems": 1000000000}, ["[1,2,3]"]),
    (obj({}), ["{}", "{ }", "{\n}"]),
    (obj({"a": I, "b": S}), ['{"a": 1, "b": "x"}', '{\n  "a": 1,\n  "b": "x"\n}']),
    (obj({"a": I, "b": S, "c": B}, []), ["{}", '{"b":"x"}', '{"a":1,"c":true}', '{"a":1,"b":"","c":true}']),
    (obj({"a": I, "b": S, "c": B}, ["b"]), ['{"b":"x"}', '{"a":1,"b":"x"}', '{"b":"","c":false}']),
    (obj({"a": False, "b": I}, []), ["{}", '{"b":1}']),
    (obj({"a\"b": I, "\u00e9": I}), ['{"a\\"b":1,"\u00e9":2}']),
    ({"type": "object"}, ["{}", '{"x":1,"y":{"z":[]}}']),
    ({"type": "object", "additionalProperties": I}, ["{}", '{"x":1,"":2}']),
    ({"type": "object", "additionalProperties": I, "minProperties": 1}, ['{"x":1}']),
    ({"type": "object", "additionalProperties": I, "maxProperties": 2}, ["{}", '{"x":1, "y":2}']),
    ({"type": "object", "additionalProperties": False}, ["{}"]),
    (obj({"a": I}, additionalProperties=S), ['{"a":1}', '{"a":1,"b":"x","ab":"y"}']),
    (obj({"a": I}, [], additionalProperties={"type": "null"}), ["{}", '{"aa":null}']),
    ({"type": "object", "patternProperties": {"^s_": S, "^i_": I}}, ["{}", '{"s_x":"1","i_":2}']),
    ({"type": "object", "patternProperties": {"^a": I, "z$": {"minimum": 5, "type": "integer"}},
      "additionalProperties": False}, ["{}", '{"ab":1,"bz":6,"az":7}']),
    (obj({"foo": I}, [], patternProperties={"^f": {"minimum": 10}}, additionalProperties=B),
     ['{"foo":12}', '{"foo":10,"x":true}']),
    ({"type": "object", "propertyNames": {"pattern": "^[a-c]+$"}, "additionalProperties": I}, ['{"abc":1}']),
    ({"type": "object", "propertyNames": {"enum": ["x", "y"]}, "additionalProperties": I}, ['{"x":1,"y":2}']),
    ({"type": "object", "propertyNames": {"maxLength": 2, "minLength": 1}, "additionalProperties": I}, ['{"ab":1}']),
    ({"type": "object", "required": ["k"]}, ['{"k":[1]}']),
    ({"properties": {"x": I}, "required": ["x"]}, ['{"x":1}']),
    ({"anyOf": [I, S]}, ["1", '"a"']),
    ({"anyOf": [obj({"t": {"const": "a"}, "x": I}), obj({"t": {"const": "b"}, "y": S})]},
     ['{"t":"a","x":1}', '{"t":"b","y":"z"}']),
    ({"oneOf": [obj({"a": I}), obj({"a": S, "b": B})]}, ['{"a":1}', '{"a":"x","b":true}']),
    ({"allOf": [obj({"a": I}), obj({"b": S})]}, ['{"a":1,"b":"x"}']),
    ({"allOf": [{"minimum": 3}, {"maximum": 5}], "type": "integer"}, ["3", "5"]),
    ({"type": "object", "properties": {"a": I, "b": I}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
     ['{"a":1}', '{"b":1}', '{"a":1,"b":2}']),
    ({"allOf": [{"anyOf": [{"const": 1}, {"const": 2}]}, {"anyOf": [{"const": 2}, {"const": 3}]}]}, ["2"]),
    ({"$ref": "#/$defs/x", "$defs": {"x": I}}, ["1"]),
    ({"$ref": "#/definitions/a~1b%25", "definitions": {"a/b%": S}}, ['"x"']),
    ({"$defs": {"n": obj({"v": I, "next": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}})},
      "$ref": "#/$defs/n"}, ['{"v":1,"next":{"v":2,"next":null}}']),
    ({"type": "array", "items": {"$ref": "#"}}, ["[]", "[[],[[]]]"]),
    ({"$defs": {"e": {"anyOf": [I, obj({"op": {"enum": ["+", "-"]}, "l": {"$ref": "#/$defs/e"},
                                        "r": {"$ref": "#/$defs/e"}})]}}, "$ref": "#/$defs/e"},
     ["1", '{"op":"+","l":1,"r":{"op":"-","l":2,"r":3}}']),
    ({"title": "T", "description": "\"|{}", "default": 3, "examples": [1], "x-foo": 1, "type": "integer"}, ["3"]),
    ({"type": "string", "format": "date"}, ['"2024-02-29"', '"1999-12-31"']),
    ({"type": "string", "format": "time"}, ['"23:59:59Z"', '"01:02:03.5+05:30"']),
    ({"type": "string", "format": "date-time"}, ['"2031-05-17T08:30:00Z"', '"2000-02-29T00:00:00.123-08:00"']),
    ({"type": "string", "format": "duration"}, ['"P1Y2M3D"', '"PT5M"', '"P3W"', '"P1DT2H"']),
    ({"type": "string", "format": "email"}, ['"a.b@example.org"', '"x+y@mail.example.co.uk"']),
    ({"type": "string", "format": "hostname"}, ['"example.org"', '"localhost"']),
    ({"type": "string", "format": "ipv4"}, ['"192.168.0.1"', '"255.255.255.255"']),
    ({"type": "string", "format": "ipv6"}, ['"::1"', '"fe80::1:2"', '"1:2:3:4:5:6:7:8"', '"::"']),
    ({"type": "string", "format": "uuid"}, ['"123e4567-e89b-12d3-a456-426614174000"']),
    ({"type": "string", "format": "uri"},
     ['"https://example.org/a/b?q=1#f"', '"mailto:a@b.org"', '"urn:isbn:0451450523"', '"http://x.y:80"']),
    ({"type": "string", "format": "unheard-of"}, ['"x"']),
    ({"type": "string", "format": "date", "pattern": "^2024"}, ['"2024-01-01"']),
]

REFUSED = [
    ({"not": {}}, "unsupported"), ({"type": "strnig"}, "format"), ({"$ref": "#"}, "format"),
    ({"$ref": "#/$defs/none"}, "format"), ({"$ref": "https://example.org/x"}, "unsupported"),
    ({"anyOf": [{"$ref": "#"}]}, "format"), ({"type": "array", "uniqueItems": True}, "unsupported"),
    ({"type": "array", "contains": {}}, "unsupported"), ({"if": {}, "then": {}}, "unsupported"),
    ({"enum": []}, "format"), ({"anyOf": []}, "format"), ({"properties": []}, "format"),
    ({"required": "x"}, "format"), ({"minLength": -1}, "format"), ({"minLength": 1.5}, "format"),
    ({"type": "string", "pattern": "("}, "format"), ({"type": "string", "pattern": "[b-a]"}, "format"),
    ({"type": "string", "pattern": "*"}, "format"), ({"type": "string", "pattern": "a{2,1}"}, "format"),
    ({"type": "string", "pattern": "(a)\\1"}, "unsupported"), ({"type": "string", "pattern": "(?=a)"}, "unsupported"),
    ({"type": "string", "pattern": "\\bx"}, "unsupported"), ({"type": "string", "pattern": "\\p{L}"}, "unsupported"),
    (False, "unsupported"), ({"type": "string", "enum": [1]}, "unsupported"),
    ({"type": "integer", "minimum": 3, "maximum": 2}, "unsupported"),
    ({"type": "string", "minLength": 3, "maxLength": 2}, "unsupported"),
    ({"type": "string", "pattern": "^a$", "minLength": 2}, "unsupported"),
    (obj({"a": False}), "unsupported"), ({"type": "array", "items": False, "minItems": 1}, "unsupported"),
    ({"allOf": [{"type": "string"}, {"type": "integer"}]}, "unsupported"),
    ({"$defs": {"x": obj({"x": {"$ref": "#/$defs/x"}})}, "$ref": "#/$defs/x"}, "unsupported"),
    ({"type": "object", "minProperties": 2, "additionalProperties": I}, "unsupported"),
    ({"type": "integer", "multipleOf": 123457}, "unsupported"), (3, "format"), (None, "format"),
]

# ---- schemas made at random ----


def random_schema(rng, depth=0):
    kinds = ["s", "s", "i", "n", "b", "null", "enum", "const", "pattern", "format"]
    kind = rng.choice(kinds if depth > 2 else kinds + ["o"] * 6 + ["a"] * 4 + ["any"] * 3 + ["all"])
    if kind == "s":
        low = rng.randrange(4)
        return rng.choice([{"type": "string"}, {"type": "string", "minLength": low},
                           {"type": "string", "minLength": low, "maxLength": low + rng.randrange(9)}])
    if kind in "in":
        bounds = {}
        low = rng.choice([0, 1, -5, 17, -1000, 99]) if kind == "i" else rng.choice([0, -1.5, 0.125, 10, 99.99])
        if rng.random() < 0.7:
            bounds[rng.choice(["minimum", "exclusiveMinimum"])] = low
        if rng.random() < 0.7:
            bounds[rng.choice(["maximum", "exclusiveMaximum"])] = low + rng.choice([2, 9, 250, 12345])
        if rng.random() < 0.2 and kind == "i":
            bounds["multipleOf"] = rng.choice([1, 2])
        return {"type": "integer" if kind == "i" else "number", **bounds}
    if kind in ("b", "null"):
        return {"type": "boolean" if kind == "b" else "null"}
    if kind == "enum":
        return {"enum": rng.sample(["a", "ab", "abc", 1, 12, 2.5, None, True, "\u00e9\n", "x y", ""], rng.randint(1, 6))}
    if kind == "const":
        return {"const": rng.choice(["k", 7, None, False, "a/b", [1, 2], {"z": "\""}])}
    if kind == "pattern":
        return {"type": "string", "pattern": rng.choice(
            ["^[a-z]{1,8}$", "\\d", "^(x|yz)+$", "^[A-Z]\\w*$", "[aeiou]$", "^.?$", "^-?\\d+(\\.\\d+)?$"])}
    if kind == "format":
        return {"type": "string", "format": rng.choice(["date", "time", "date-time", "uuid", "ipv4", "ipv6"])}
    if kind == "o":
        return random_object(rng, depth)
    if kind == "a":
        low = rng.randrange(3)
        more = rng.choice([{}, {"minItems": low}, {"minItems": low, "maxItems": low + rng.randrange(1, 4)}])
        prefix = {"prefixItems": [random_schema(rng, depth + 1) for _ in range(rng.randint(1, 2))]}
        return {"type": "array", "items": random_schema(rng, depth + 1), **more,
                **(prefix if rng.random() < 0.3 else {})}
    if kind == "any":
        name = rng.choice(["anyOf", "anyOf", "oneOf"])
        return {name: [random_schema(rng, depth + 1) for _ in range(rng.randint(1, 4))]}
    return {"allOf": [random_object(rng, depth), random_object(rng, depth)]}


def random_object(rng, depth):
    names = rng.sample(["a", "b", "ab", "name", "x-1", "\u00fc", "q\"", "list", "next"], rng.randint(0, 5))
    properties = {n: random_schema(rng, depth + 1) for n in names}
    more = rng.choice([{}, {}, {"additionalProperties": False},
                       {"additionalProperties": random_schema(rng, depth + 2)},
                       {"patternProperties": {"^p": random_schema(rng, depth + 2)}}])
    return obj(properties, [n for n in names if rng.random() < 0.6], **more)


# ---- running ----


def build(library, folder):
    program = folder / "grammar_walk"
    subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-D_GNU_SOURCE", f"-I{ROOT}/include",
                    f"-I{ROOT}/src", "-o", program, ROOT / "tests/python/grammar_walk.c", library,
                    "-ljson-c", "-lhwloc", "-lm", "-lpthread"], check=True)
    return program


def run(program, tokenizer, cases, walks, seed):
    lines = "\n".join(json.dumps(c, ensure_ascii=False) for c in cases) + "\n"
    done = subprocess.run([program, tokenizer, str(walks), str(seed)], input=lines.encode(), capture_output=True)
    assert done.returncode == 0 and not done.stderr, done.stderr.decode()
    answers = [json.loads(line) for line in done.stdout.decode().splitlines()]
    assert len(answers) == len(cases), (len(answers), len(cases))
    return answers


def load(text):
    return json.loads(text, parse_float=decimal.Decimal)


def python_pattern(pattern):
    """What ECMAScript and Python spell otherwise, as far as it stands above."""
    return pattern.replace("(?<", "(?P<").replace("[\\w-.]", "[\\w.-]").replace("$", "\\Z")


def for_python(schema):
    """oneOf is taken as anyOf (doc/grammar.md)."""
    if isinstance(schema, list):
        return [for_python(v) for v in schema]
    if not isinstance(schema, dict):
        return schema
    out = {}
    for key, value in schema.items():
        if key == "patternProperties":
            value = {python_pattern(k): for_python(v) for k, v in value.items()}
        elif key == "pattern" and isinstance(value, str):
            value = python_pattern(value)
        elif key not in ("enum", "const", "examples", "default"):
            value = for_python(value)
        out["anyOf" if key == "oneOf" else key] = value
    return out


def validator(schema):
    decimals = load(json.dumps(for_python(schema)))
    return jsonschema.Draft202012Validator(decimals, format_checker=CHECKER)


def is_valid(check, text):
    try:
        return check.is_valid(load(text))
    except json.JSONDecodeError:
        return False


def change(rng, text):
    at = rng.randrange(len(text) + 1)
    piece = rng.choice(["", "0", "9", "-", ".", "\"", ",", "{", "}", "[", "]", "a", " ", "\\", "null", "1e5", ":"])
    return text[:at] + piece + text[at + rng.randrange(3):]


# ---- tests ----


def test_written(o):
    answers = run(o.program, o.tokenizer, [{"schema": s, "try": t} for s, t in WRITTEN], o.walks, o.seed)
    for (schema, texts), answer in zip(WRITTEN, answers):
        assert "error" not in answer, (schema, answer)
        check = validator(schema)
        for text in answer["texts"]:
            assert is_valid(check, text), (schema, text)
        for text, is_taken in zip(texts, answer["tried"]):
            assert is_valid(check, text), ("the test is wrong", schema, text)
            assert is_taken, (schema, text)


def test_refused(o):
    for (schema, name), answer in zip(REFUSED, run(o.program, o.tokenizer, [{"schema": s} for s, _ in REFUSED], 1, 1)):
        assert answer.get("error", "").startswith(name + ": schema"), (schema, answer)


def is_refusal(error):
    """Schemas made at random may be without a value, or hold an enum's lists against keywords."""
    return "no value fits" in error or "of `enum` or `const`" in error


def test_random_schemas(o):
    rng = random.Random(o.seed)
    schemas = [random_schema(rng) for _ in range(o.count)]
    n = refused = 0
    answers = run(o.program, o.tokenizer, [{"schema": s} for s in schemas], 6, o.seed)
    for schema, answer in zip(schemas, answers):
        check = validator(schema)
        if "error" in answer:
            assert is_refusal(answer["error"]), (schema, answer)
            refused += 1
        for text in answer.get("texts", []):
            assert is_valid(check, text), (schema, text)
            n += 1
    assert n > 4 * o.count, n
    print(f"{o.count} schemas, {refused} of them refused, {n} answers")
    taken = compare_changed(o, rng, [(s, a["texts"]) for s, a in zip(schemas, answers) if "texts" in a])
    print(f"{taken} of the changed answers are answers as well")


def compare_changed(o, rng, pairs):
    """What a grammar takes must validate, however it came about."""
    cases = [{"schema": s, "try": [change(rng, t) for t in texts for _ in range(6)]} for s, texts in pairs]
    taken = 0
    for case, answer in zip(cases, run(o.program, o.tokenizer, cases, 1, 1)):
        check = validator(case["schema"])
        for text, is_taken in zip(case["try"], answer["tried"]):
            assert not is_taken or is_valid(check, text), (case["schema"], text)
            taken += is_taken
    return taken


TAGS = [("tool_calls", "invoke", "parameter", "\n")] * 2 + [("tool_calls", "invoke", "parameter", ""),
                                                            (" calls", " invoke", " parameter", "\n")]


def read_calls(text, dialect):
    """Takes a whole block of calls apart, strictly."""
    block, invoke, parameter, blank = TAGS[dialect]
    m = "｜DSML｜"
    head = f"\n\n<{m}{block}>\n"
    assert text.startswith(head) and text.endswith(f"</{m}{block}>"), text
    rest, calls = text[len(head):-len(f"</{m}{block}>")], []
    while rest:
        got = re.match(f"<{m}{invoke} name=\"([^\"]+)\">\n", rest)
        assert got, rest
        rest, arguments = rest[got.end():], {}
        while True:
            one = re.match(f"<{m}{parameter} name=\"([^\"]+)\" string=\"(true|false)\">(.*?)</{m}{parameter}>\n", rest, re.S)
            if not one:
                break
            assert one[1] not in arguments
            arguments[one[1]] = one[3] if one[2] == "true" else load(one[3])
            assert one[2] == "true" or not isinstance(arguments[one[1]], str), text
            rest = rest[one.end():]
        rest = rest if arguments else rest.removeprefix(blank)
        tail = f"</{m}{invoke}>\n"
        assert rest.startswith(tail), (text, rest)
        rest = rest[len(tail):]
        calls.append((got[1], arguments))
    return calls


def random_tools(rng):
    tools = []
    for i in range(rng.randint(1, 4)):
        function = {"name": f"tool_{i}"}
        if rng.random() < 0.9:
            function["parameters"] = obj(
                {n: random_schema(rng, 1) for n in rng.sample(["city", "days", "x", "text"], rng.randint(0, 4))})
            if rng.random() < 0.5:
                function["parameters"]["required"] = function["parameters"]["required"][1:]
        tools.append({"type": "function", "function": function})
    return tools


def test_calls(o):
    rng = random.Random(o.seed)
    cases = [{"tools": random_tools(rng), "dialect": rng.randrange(4), "is_single": rng.randrange(2)}
             for _ in range(o.count // 2)]
    n = endless = 0
    for case in cases[::3]:
        case["function"] = "tool_0"
    for case, answer in zip(cases, run(o.program, o.tokenizer, cases, 4, o.seed)):
        if "error" in answer:
            assert is_refusal(answer["error"]), (case, answer)
            continue
        schemas = {t["function"]["name"]: t["function"].get("parameters", obj({})) for t in case["tools"]}
        for text in answer["texts"]:
            # Chance may not find the end of a text that a pattern wants to end in some way.
            endless += text.endswith("<<it does not end>>")
            if text.endswith("<<it does not end>>") and "<<matcher" not in text:
                continue
            calls = read_calls(text, case["dialect"])
            assert calls and (len(calls) == 1 or not case["is_single"]), text
            for name, arguments in calls:
                assert name == case.get("function", name) and validator(schemas[name]).is_valid(arguments), (case, text)
                n += 1
    assert n > o.count and endless < n // 50, (n, endless)
    print(f"{len(cases)} lists of tools, {n} calls, {endless} without an end")


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--library", default=ROOT / "build/libhadal.a")
    options.add_argument("--tokenizer", type=pathlib.Path, default=ROOT / "models/demo/tokenizer.json")
    options.add_argument("--count", type=int, default=300)
    options.add_argument("--walks", type=int, default=12)
    options.add_argument("--seed", type=int, default=1)
    o = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        o.program = build(o.library, pathlib.Path(folder))
        tests = [test_written, test_refused, test_random_schemas, test_calls]
        for test in tests:
            test(o)
        print(f"{len(tests)} passed, 0 failed")


if __name__ == "__main__":
    sys.exit(main())
