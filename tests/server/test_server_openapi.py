#!/usr/bin/env python3
"""/openapi.json: it names every route, and requests made up from it are answered as it says.

usage: test_server_openapi.py [HADAL [MODEL]]     defaults: build/hadal models/demo"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import jsonschema

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/support"))
import suite  # behind the path
from served import FRANCE, Server
HADAL = str(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/hadal").resolve())
MODEL = str(pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else ROOT / "models/demo").resolve())
SCRATCH = pathlib.Path(tempfile.mkdtemp(prefix="hadal-openapi-"))
SERVER = Server(HADAL, MODEL, "--context", "256")  # short answers, however they are asked for
DOCUMENT = SERVER.get("/openapi.json")


def test_it_names_every_route():
    routes = re.findall(r'\{HD_HTTP_(GET|POST), "([^"]*)"(.*?)\}[,;]', (ROOT / "src/server/routes.c").read_text(), re.S)
    assert len(routes) > 10
    told = {(method.upper(), re.sub(r"\{\w+\}", "*", path)) for path, methods in DOCUMENT["paths"].items() for method in methods}
    assert told == {(method, ("/v1" if "has_v1" in rest else "") + path) for method, path, rest in routes}


def check(name, value):
    schema = {"$ref": f"#/components/schemas/{name}", "components": DOCUMENT["components"]}
    jsonschema.Draft202012Validator(schema).validate(value)


def test_answers_fit_their_schemas():
    messages = [{"role": "user", "content": FRANCE}]
    for path, request, answer, body in (
            ("/v1/chat/completions", "ChatRequest", "ChatCompletion", {"messages": messages, "max_tokens": 40}),
            ("/v1/completions", "CompletionRequest", "Completion", {"prompt": FRANCE, "max_tokens": 8, "logprobs": 1}),
            ("/v1/responses", "ResponsesRequest", "Response", {"input": FRANCE, "max_output_tokens": 40}),
            ("/v1/messages", "MessagesRequest", "AnthropicMessage", {"messages": messages, "max_tokens": 40}),
            ("/tokenize", "TokenizeRequest", "Tokens", {"prompt": FRANCE, "return_token_strs": True})):
        check(request, body)
        check(answer, SERVER.post(path, body))
    check("Props", SERVER.get("/props"))
    check("Error", {"error": SERVER.refused("/v1/chat/completions", {})})


def test_schemathesis():
    """Requests that fit the schemas and some that do not: never a failure of the server, never a status, a type or
    a body that the document does not name."""
    report = SCRATCH / "report"
    done = subprocess.run(
        [str(pathlib.Path(sys.executable).parent / "schemathesis"), "run", SERVER.url + "/openapi.json", "--max-examples", "6",
         "--phases", "fuzzing", "--mode", "all", "--seed", "1", "--request-timeout", "120", "--suppress-health-check", "all", "--no-color",
         "--generation-database", "none",
         "--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"],
        capture_output=True, text=True, timeout=900, cwd=SCRATCH, env={**os.environ, "HOME": str(SCRATCH)})
    report.write_text(done.stdout)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert SERVER.get("/health") == {"status": "ok"}


def main():
    status = suite.run(globals(), SCRATCH)
    SERVER.stop()
    return status


if __name__ == "__main__":
    sys.exit(main())
