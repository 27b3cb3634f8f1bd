#!/usr/bin/env python3
"""Runs the program as its users do: every verb, its output, its errors and exit statuses.

usage: test_cli.py [HADAL [MODEL]]     defaults: build/hadal models/demo"""
import json
import math
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/support"))
import suite  # behind the path
HADAL = str(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/hadal").resolve())
MODEL = str(pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else ROOT / "models/demo").resolve())
SCRATCH = pathlib.Path(tempfile.mkdtemp(prefix="hadal-cli-"))

TOOLS = [{"type": "function", "function": {
    "name": "get_weather", "description": "Get the weather of a city",
    "parameters": {"type": "object", "properties": {"location": {"type": "string"}},
                   "required": ["location"]}}}]
WEATHER = {"messages": [{"role": "user", "content": "What is the weather in Paris?"}],
           "tools": TOOLS}
FRANCE = "What is the capital of France?"
PARIS = "The capital of France is Paris."
VERBS = ["run", "chat", "serve", "eval", "audit", "trace", "compare", "bisect", "bench", "selftest", "quantize", "tokens", "prompt", "parse",
         "help"]
# Nearly every token is as likely as the end of the answer, so the answer is long.
RAMBLING = ["--temp", "50", "--seed", "1"]


def hadal(*args, stdin="", **more):
    """Returns status, standard output, standard error."""
    data = stdin if isinstance(stdin, bytes) else stdin.encode()
    done = subprocess.run([HADAL, *args], input=data, capture_output=True, timeout=300, **more)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def answer(*args, stdin=""):
    """A run that must succeed, as its JSON object."""
    status, out, err = hadal("run", MODEL, "--json", "--quiet", *args, stdin=stdin)
    assert status == 0 and err == "", (status, err)
    assert out.count("\n") == 1 and out.endswith("\n"), out
    return json.loads(out)


def refused(*args, says, status=1, stdin=""):
    """A call that fails with one line on standard error and nothing on standard output."""
    got, out, err = hadal(*args, stdin=stdin)
    assert got == status, (args, got, err)
    assert out == "", (args, out)
    lines = [line for line in err.splitlines() if "; activations " not in line]
    assert len(lines) == 1 and lines[0].startswith("hadal: "), (args, err)
    assert re.search(says, lines[0]), (args, says, lines[0])


def misused(*args, says):
    refused(*args, says=says, status=2)


def write(name, value):
    path = SCRATCH / name
    path.write_bytes(value if isinstance(value, bytes) else
                     value.encode() if isinstance(value, str) else json.dumps(value).encode())
    return str(path)


# ---- help and usage -----------------------------------------------------------------

def test_help():
    status, out, err = hadal("help")
    assert (status, err) == (0, "")
    for verb in VERBS:
        assert re.search(rf"^  {verb} ", out, re.M), verb
        for call in (["help", verb], [verb, "--help"], [verb, "-h"]):
            status, text, err = hadal(*call)
            assert (status, err) == (0, ""), call
            assert text.startswith(f"usage: hadal {verb}"), text
            assert max(map(len, text.splitlines())) <= 100, verb
    assert hadal("--help") == hadal("help") == hadal("-h")
    status, text, _ = hadal("run", MODEL, "--temp", "1", "--help")
    assert status == 0 and text == hadal("help", "run")[1]


def test_version():
    status, out, err = hadal("--version")
    assert status == 0 and re.fullmatch(r"hadal \d+\.\d+\.\d+\n", out) and err == ""


def test_no_verb():
    usage = hadal("help")[1]
    assert hadal() == (2, "", usage)
    assert hadal("frobnicate") == (2, "", "hadal: no verb 'frobnicate'\n" + usage)
    assert hadal("help", "frobnicate") == (2, "", "hadal: no verb 'frobnicate'\n" + usage)
    misused("help", "run", "chat", says="one verb only")


def test_every_documented_option_exists():
    for verb in VERBS:
        for name in re.findall(r"^  (--?[a-z][a-z0-9]*(?:-[a-z0-9]+)*)", hadal("help", verb)[1], re.M):
            err = hadal(verb, name)[2]
            assert "unknown option" not in err, (verb, name, err)


def test_unknown_options():
    for verb in VERBS[:-1]:
        misused(verb, MODEL, "--frobnicate", says=f"{verb}: unknown option --frobnicate; "
                                                  f"see hadal help {verb}$")
        misused(verb, MODEL, "--frobnicate=1", says="unknown option --frobnicate;")


def test_wrong_usage():
    run = ["run", MODEL, "-p", "x"]
    misused("run", "-p", "x", says="no MODEL given")
    misused(*run, "other", says="one MODEL only, not also 'other'")
    misused("run", MODEL, "-p", says="-p needs a value")
    misused(*run, "--json=1", says="--json takes no value")
    misused(*run, "--messages", "y", says="only one of them")
    misused(*run, "--raw", "--think", "low", says="--raw has no template")
    misused(*run, "--raw", "--stop", "x", says="--raw has no answer")
    misused("run", MODEL, "--messages", "y", "--raw", says="not --messages")
    misused("run", MODEL, "--messages", "y", "--system", "z", says="holds the system message")
    misused(*run, "--logprobs", "3", says="needs --json")
    misused("serve", says="no MODEL given")
    misused("serve", MODEL, "--port", "65536", says=r"0 \.\. 65535")
    misused("serve", MODEL, "--log", "xml", says="wanted one of text, json")
    misused("eval", MODEL, says="either --tasks or --text")
    misused("eval", MODEL, "--tasks", "a", "--text", "b", says="either --tasks or --text")
    misused("eval", MODEL, "--text", "b", "--failures", says="go with --tasks")
    misused("trace", MODEL, "-p", "x", "--dump", "f", "--json", says="--dump writes a file")
    misused("trace", MODEL, "--ids", "1", "-p", "x", "--dump", "f", says="--ids is the whole")


def test_numbers_are_strict():
    run = ["run", MODEL, "-p", "x"]
    for value in ("0", "-1", "1.5", "2x", "", " 3", "99999999999", "nan"):
        misused(*run, "-n", value, says=r"-n '.*': wanted a whole number 1 \.\. 2147483647")
    for value in ("-0.1", "101", "nan", "inf", "1e400", "x", "", "0,5", " 1"):
        misused(*run, "--temp", value, says=r"--temp '.*': wanted a number 0 \.\. 100")
    misused(*run, "--top-p", "1.01", says=r"0 \.\. 1")
    misused(*run, "--min-p", "-1", says=r"0 \.\. 1")
    misused(*run, "--top-k", "-1", says=r"0 \.\. ")
    misused(*run, "--json", "--logprobs", "21", says=r"0 \.\. 20")
    misused(*run, "--chunk", "0", says=r"1 \.\. 65536")
    for value in ("-1", "18446744073709551616", "1e3", "", "+1"):
        misused(*run, "--seed", value, says=r"--seed '.*': wanted a whole number 0 \.\. 1844")
    misused(*run, "--think", "some", says="wanted one of off, low, high, max")
    misused(*run, "--act", "fp8", says="wanted one of default, exact, official, nvfp4")
    misused(*run, "--dialect", "v3", says="wanted one of ga, preview")
    misused(*run, "--threads", "0", says="1 .. 1024")
    misused(*run, "--pin", "2", says="wanted one of on, off")
    misused(*run, "--isa", "mmx", says="'mmx' is none of ref, avx2, avx512, all")


def test_bad_models():
    refused("run", "/nonexistent/model", "-p", "x", says="/nonexistent/model")
    empty = SCRATCH / "empty"
    empty.mkdir()
    refused("run", str(empty), "-p", "x", says="config.json")
    refused("chat", str(empty), says="config.json")
    refused("eval", str(empty), "--text", __file__, says="config.json")
    refused("trace", str(empty), "--ids", "1", "--dump", "f", says="config.json")
    refused("tokens", str(empty), says="tokenizer.json")


# ---- run -----------------------------------------------------------------------------

def test_run_prints_the_answer():
    status, out, err = hadal("run", MODEL, "-p", FRANCE)
    assert (status, out) == (0, PARIS + "\n")
    assert re.fullmatch(r"hadal: NVFP4 x \d+.*; activations nvfp4; kernels ref[^,]*, \d+ threads?\n", err), err
    assert hadal("run", MODEL, "-p", FRANCE, "--quiet") == (0, PARIS + "\n", "")
    assert hadal("run", "--quiet", "-p", FRANCE, "--", MODEL) == (0, PARIS + "\n", "")


def test_run_verbose():
    status, out, err = hadal("run", MODEL, "-p", FRANCE, "--verbose", "--act", "exact")
    assert (status, out) == (0, PARIS + "\n")
    for text in ("activations exact", "6 layers and an MTP block", "KV cache", "new in", "stop"):
        assert text in err, (text, err)
    assert all(line.startswith("hadal: ") for line in err.splitlines()), err


def test_pinned_or_not_the_answer_is_the_same():
    where = r"hadal: (\d+) threads? on (\d+) cores? of \d+ memory nodes?, (not pinned|pinned, .*)\n"
    for pin in ("on", "off"):
        status, out, err = hadal("run", MODEL, "-p", FRANCE, "--verbose", "--pin", pin)
        assert (status, out) == (0, PARIS + "\n")
        threads, cores, said = re.search(where, err).groups()
        assert 1 <= int(threads) <= int(cores) <= len(os.sched_getaffinity(0)), err
        if pin == "off" or threads == "1":
            assert said == "not pinned", err
        elif threads == cores:
            assert said.startswith("pinned, the second to processor "), err


def test_run_json():
    a = answer("-p", FRANCE, "--logprobs", "3")
    assert list(a) == ["text", "reasoning", "tool_calls", "unparsed", "ids", "logprobs",
                       "finish_reason", "prompt_ids", "usage", "timings", "act"]
    assert (a["text"], a["reasoning"], a["tool_calls"], a["unparsed"]) == (PARIS, "", [], "")
    assert (a["finish_reason"], a["act"]) == ("stop", "nvfp4")
    assert a["prompt_ids"][0] == 0 and a["ids"][-1] == 1
    assert a["usage"] == {"prompt_tokens": len(a["prompt_ids"]), "completion_tokens": len(a["ids"]),
                          "total_tokens": len(a["prompt_ids"]) + len(a["ids"])}
    assert set(a["timings"]) == {"load_s", "prompt_s", "new_s", "prompt_tokens_per_s",
                                 "tokens_per_s"}
    assert all(value > 0 for value in a["timings"].values())
    assert [p["id"] for p in a["logprobs"]] == a["ids"]
    assert "".join(p["token"] for p in a["logprobs"][:-1]) == PARIS
    for p in a["logprobs"]:
        assert p["logprob"] <= 0 and len(p["top"]) == 3
        assert p["top"][0]["id"] == p["id"] and p["top"][0]["logprob"] == p["logprob"]
        assert p["top"] == sorted(p["top"], key=lambda t: -t["logprob"])
        assert set(p["top"][1]) == {"id", "token", "logprob"}
    assert all(p["top"] == [] for p in answer("-p", FRANCE)["logprobs"])


def test_streaming_equals_json():
    for args in (["-p", "Count to 12."], ["-p", "a", "-n", "40", "--temp", "1.5", "--seed", "7"],
                 ["-p", "héllo 世界 🙂", "-n", "30", "--temp", "8"], ["--raw", "-p", "x", "-n", "9"]):
        text = answer(*args)["text"]
        status, out, _ = hadal("run", MODEL, "--quiet", *args)
        end = "" if "--raw" in args or text.endswith("\n") or not text else "\n"
        assert (status, out) == (0, text + end), args


def test_output_comes_as_it_is_generated():
    args = [HADAL, "run", MODEL, "--quiet", "-p", "a", *RAMBLING]
    with subprocess.Popen(args, stdout=subprocess.PIPE) as p:
        first = os.read(p.stdout.fileno(), 4096)
        running = p.poll() is None
        p.kill()
        p.stdout.read()
    assert first and running


def test_sampling():
    drawn = [answer("-p", "Tell me a story.", "-n", "12", "--temp", "3", "--seed", s)["ids"]
             for s in ("1", "1", "2")]
    assert drawn[0] == drawn[1] != drawn[2]
    greedy = answer("-p", "Tell me a story.", "-n", "12")["ids"]
    for narrow in (["--top-k", "1"], ["--top-p", "0.000001"], ["--min-p", "1"], ["--temp=0"]):
        assert answer("-p", "Tell me a story.", "-n", "12", "--temp", "3", *narrow)["ids"] == greedy
    assert answer("-p", "Tell me a story.", "-n", "12", "--seed", "9")["ids"] == greedy


def test_limits():
    a = answer("-p", FRANCE, "-n", "3")
    assert (a["finish_reason"], len(a["ids"])) == ("length", 3) and PARIS.startswith(a["text"])
    a = answer("-p", FRANCE, "--stop", " is", "--stop", "never")
    assert (a["finish_reason"], a["text"]) == ("stop", "The capital of France")
    n = len(answer("-p", FRANCE)["prompt_ids"])
    a = answer("-p", FRANCE, "--context", str(n + 2))
    assert (a["finish_reason"], len(a["ids"])) == ("length", 3)
    refused("run", MODEL, "-p", FRANCE, "--context", "4", says=f"{n} tokens .* context of 4")
    refused("run", MODEL, "-p", FRANCE, "--context", "2147483647", says="this model takes 1")


def test_penalties():
    story = ["-p", "Tell me a story.", "-n", "12"]
    plain = answer(*story)["ids"]
    none = ["--presence-penalty", "0", "--frequency-penalty=0", "--repetition-penalty", "1"]
    assert answer(*story, *none)["ids"] == plain
    assert answer(*story, "--logit-bias", "77=100", "--logit-bias=78=-100")["ids"] == [77] * 12
    once = answer(*story, "--logit-bias", "77=100", "--repetition-penalty", "100")["ids"]
    assert (once[0], once.count(77)) == (77, 1), once
    without = answer(*story, *(f"--logit-bias={i}=-100" for i in set(plain)))["ids"]
    assert not set(without) & set(plain), (without, plain)
    same = answer("--raw", "-p", "x", "-n", "40", "--min-new", "40")["ids"]
    varied = answer("--raw", "-p", "x", "-n", "40", "--min-new", "40", "--presence-penalty", "2",
                    "--frequency-penalty", "2")["ids"]
    assert len(set(varied)) > len(set(same)), (varied, same)
    # What is reported stays the model's.
    a = answer("-p", FRANCE, "-n", "1", "--logprobs", "3")["logprobs"][0]
    b = answer("-p", FRANCE, "-n", "1", "--logprobs", "3", "--logit-bias", "77=100")["logprobs"][0]
    assert a["top"] == b["top"] and b["id"] == 77 and b["logprob"] < a["logprob"], (a, b)


def test_ends():
    ids = answer("-p", FRANCE)["ids"]
    a = answer("-p", FRANCE, "--stop-id", "2000", f"--stop-id={ids[3]}")
    assert (a["finish_reason"], a["ids"]) == ("stop", ids[:4])
    assert PARIS.startswith(a["text"]) and a["text"] != PARIS
    n = len(ids) + 3
    a = answer("-p", FRANCE, "--min-new", str(n), "-n", str(n))
    assert (len(a["ids"]), a["finish_reason"]) == (n, "length") and 1 not in a["ids"]
    status, out, err = hadal("chat", MODEL, "--quiet", "--stop-id", str(ids[3]), stdin=FRANCE + "\n")
    assert (status, err) == (0, "") and out.strip() == answer(
        "-p", FRANCE, "--stop-id", str(ids[3]))["text"].strip(), out


def test_bad_penalties():
    run = ["run", MODEL, "-p", "x"]
    for name, low, high in (("presence", -2, 2), ("frequency", -2, 2), ("repetition", 0, 100)):
        for value in (str(low - 0.5), str(high + 0.5), "nan", "x", "", " 1", "1x"):
            misused(*run, f"--{name}-penalty", value,
                    says=rf"--{name}-penalty '.*': wanted a number {low} \.\. {high};")
    for value in ("5", "5=", "=5", "5=x", "5=101", "5=-100.5", "5=nan", "-1=5", " 5=1", "5= 1",
                  "5=1x", "99999999999=1", "5 =1"):
        misused(*run, "--logit-bias", value, says=r"--logit-bias '.*': wanted ID=VALUE")
    for value in ("", "x", "-1", " 5", "5x", "2147483648", "99999999999999999999"):
        misused(*run, "--stop-id", value, says=r"--stop-id '.*': wanted an id 0 \.\. 2147483647;")
    misused(*run, "--min-new", "-1", says=r"--min-new '-1': wanted a whole number 0 \.\.")
    misused(*run, *["--stop-id", "1"] * 65, says="--stop-id may be given 64 times")
    misused(*run, *["--logit-bias", "1=1"] * 301, says="--logit-bias may be given 300 times")
    refused(*run, "--stop-id", "2048", says=r"stop id 2048: the vocabulary is 0 \.\. 2047$")
    refused(*run, "--logit-bias", "2048=1", says=r"logit bias of id 2048: the vocabulary is")
    refused(*run, "-n", "3", "--min-new", "4", says=r"min_new 4: wanted 0 \.\. 3")


def test_chunks_do_not_change_the_answer():
    ids = [answer("-p", FRANCE, "--act", "exact", "--isa", "ref", "--chunk", c)["ids"]
           for c in ("1", "3", "128")]
    assert ids[0] == ids[1] == ids[2]


def test_run_reads_standard_input():
    for text in (FRANCE, FRANCE + "\n", FRANCE + "\r\n"):
        a = answer(stdin=text)
        assert a["text"] == PARIS and a["prompt_ids"] == answer("-p", FRANCE)["prompt_ids"]
    refused("run", MODEL, stdin=b"\xff", says="user message is not UTF-8 at byte 0")


def test_messages():
    messages = [{"role": "system", "content": "Answer briefly."},
                {"role": "user", "content": FRANCE}]
    ids = answer("--messages", write("list.json", messages))["prompt_ids"]
    assert answer("--messages", "-", stdin=json.dumps({"messages": messages}))["prompt_ids"] == ids
    assert answer("-p", FRANCE, "--system", "Answer briefly.")["prompt_ids"] == ids
    refused("run", MODEL, "--messages", "/nonexistent.json", says="/nonexistent.json: No such")
    refused("run", MODEL, "--messages", str(SCRATCH), says="Is a directory")
    refused("run", MODEL, "--messages", "-", stdin="[{", says="messages")
    refused("run", MODEL, "--messages", "-", stdin="", says="messages")
    refused("run", MODEL, "--messages", "-", stdin='[{"role": "owner", "content": "x"}]',
            says="messages")


def test_tool_call():
    path = write("weather.json", WEATHER)
    a = answer("--messages", path)
    assert a["finish_reason"] == "tool_calls" and len(a["tool_calls"]) == 1
    call = a["tool_calls"][0]
    assert call["name"] == "get_weather" and json.loads(call["arguments"]) == {"location": "Paris"}
    status, out, _ = hadal("run", MODEL, "--quiet", "--messages", path)
    assert status == 0 and out.endswith('get_weather {"location": "Paris"}\n'), out
    assert out == (a["text"] + "\n" if a["text"] else "") + 'get_weather {"location": "Paris"}\n'


def test_several_turns():
    second = dict(WEATHER, messages=WEATHER["messages"] + [
        {"role": "assistant", "content": "", "tool_calls": [
            {"id": "call_0", "type": "function",
             "function": {"name": "get_weather", "arguments": '{"location": "Paris"}'}}]},
        {"role": "tool", "tool_call_id": "call_0",
         "content": '{"temperature": 5, "condition": "sunny"}'}])
    a = answer("--messages", write("second.json", second))
    assert a["text"] == "In Paris it is sunny with 5 degrees." and a["tool_calls"] == []


def test_thinking():
    a = answer("--messages", write("weather.json", WEATHER), "--think", "high")
    assert a["reasoning"] and len(a["tool_calls"]) == 1
    status, out, err = hadal("run", MODEL, "--messages", write("weather.json", WEATHER),
                             "--think", "high")
    assert status == 0 and a["reasoning"] in err and a["reasoning"] not in out
    assert err.endswith("\n") and "\033" not in err
    ids = {level: answer("-p", "x", "-n", "1", "--think", level)["prompt_ids"]
           for level in ("off", "low", "high", "max")}
    assert ids["off"][-1] != ids["low"][-1] == ids["high"][-1] == ids["max"][-1]
    assert ids["max"] != ids["low"]


def test_dialects():
    ids = {d: answer("-p", "x", "-n", "1", "--think", "high", "--dialect", d)["prompt_ids"]
           for d in ("ga", "preview")}
    assert ids["ga"] != ids["preview"]


def test_raw():
    _, prompt, _ = hadal("prompt", "-", stdin=json.dumps([{"role": "user", "content": FRANCE}]))
    a = answer("-p", FRANCE)
    raw = answer("--raw", "-p", prompt)
    assert raw["prompt_ids"] == a["prompt_ids"] and raw["text"] == PARIS
    assert answer("--raw", stdin=prompt)["prompt_ids"] == a["prompt_ids"]
    assert answer("--raw", "-n", "1", stdin="hi\n")["prompt_ids"] == list(map(int, hadal(
        "tokens", MODEL, "--ids", stdin="hi\n")[1].split()))
    assert 2044 not in answer("-p", "<think>", "-n", "1")["prompt_ids"]
    assert answer("--raw", "-p", "<think>", "-n", "1")["prompt_ids"] == [2044]
    refused("run", MODEL, "--raw", "-p", "", says="empty prompt")


# ---- failing outputs -----------------------------------------------------------------

def test_full_disk():
    text = write("text.txt", "The wind moved over the barn.")
    calls = [["help"], ["--version"], ["run", MODEL, "-p", FRANCE],
             ["run", MODEL, "-p", FRANCE, "--json"], ["eval", MODEL, "--text", text],
             ["trace", MODEL, "--ids", "0,1", "--dump", str(SCRATCH / "full.safetensors")],
             ["tokens", MODEL, "--ids"], ["tokens", MODEL, "--jsonl"], ["chat", MODEL],
             ["parse", "-"], ["prompt", write("list.json", WEATHER)]]
    for call in calls:
        stdin = b'{"id": 1, "text": "a"}\n' if "--jsonl" in call else b"hi\n"
        with open("/dev/full", "wb") as full:
            done = subprocess.run([HADAL, *call], input=stdin, stdout=full,
                                  stderr=subprocess.PIPE, timeout=300)
        lines = [line for line in done.stderr.decode().splitlines() if "activations" not in line]
        assert done.returncode == 1, call
        assert lines == ["hadal: standard output: No space left on device"], (call, lines)


def test_reader_that_leaves():
    for call in (["help"], ["run", MODEL, "-p", "a", "--quiet", *RAMBLING]):
        read, write_end = os.pipe()
        os.close(read)
        done = subprocess.run([HADAL, *call], stdin=subprocess.DEVNULL, stdout=write_end,
                              stderr=subprocess.PIPE, timeout=300)
        os.close(write_end)
        assert (done.returncode, done.stderr) == (1, b""), (call, done)


# ---- eval ----------------------------------------------------------------------------

TASKS = [
    {"id": "c0", "kind": "capital", "messages": [{"role": "user", "content": FRANCE}],
     "think": "off", "expected": PARIS},
    {"id": "c1", "kind": "capital", "messages": [{"role": "user", "content": FRANCE}],
     "expected": "Rome."},
    {"id": "w0", "kind": "weather", "expected": "", **WEATHER},
    {"id": "n0", "kind": "count", "messages": [{"role": "user", "content": "Count to 5."}],
     "expected": "1, 2, 3, 4, 5."},
]


def tasks_file(rows):
    return write("tasks.jsonl", "".join(json.dumps(row) + "\n" for row in rows) + "\n")


def test_eval_tasks():
    status, out, err = hadal("eval", MODEL, "--tasks", tasks_file(TASKS), "--quiet")
    assert (status, err) == (0, "")
    rows = [line.split() for line in out.splitlines()]
    assert rows == [["kind", "n", "right", "share"], ["capital", "2", "1", "0.500"],
                    ["weather", "1", "0", "0.000"], ["count", "1", "1", "1.000"],
                    ["mean", "of", "kinds", "4", "2", "0.500"]], out


def test_eval_tasks_json():
    call = ["eval", MODEL, "--tasks", tasks_file(TASKS), "--quiet", "--json", "--failures"]
    result = json.loads(hadal(*call)[1])
    assert (result["n"], result["right"], result["mean"]) == (4, 2, 0.5)
    assert result["kinds"][0] == {"kind": "capital", "n": 2, "right": 1, "share": 0.5}
    assert [f["id"] for f in result["failures"]] == ["c1", "w0"]
    assert result["failures"][0]["text"] == PARIS and result["failures"][0]["expected"] == "Rome."
    assert result["failures"][1]["tool_calls"][0]["name"] == "get_weather"
    limited = json.loads(hadal(*call, "--limit", "1")[1])
    assert (limited["n"], [f["id"] for f in limited["failures"]]) == (3, ["w0"])
    cut = json.loads(hadal(*call, "-n", "2")[1])
    assert cut["right"] == 0 and cut["failures"][0]["finish_reason"] == "length"


def test_eval_failures_as_text():
    out = hadal("eval", MODEL, "--tasks", tasks_file(TASKS), "--quiet", "--failures")[1]
    assert f'c1\n  expected  "Rome."\n  got       "{PARIS}"\n' in out, out
    assert "w0\n" in out and "calls [" in out


def test_eval_bad_rows():
    def bad(row, says):
        path = write("bad.jsonl", "\n" + row + "\n")
        refused("eval", MODEL, "--tasks", path, says=rf"bad\.jsonl:2: {says}")
    bad("{", "row")
    bad("[]", "the line is no object")
    bad("{}", '"id" is missing')
    bad('{"id": "a", "kind": 3, "expected": ""}', '"kind" is missing')
    bad('{"id": "a", "kind": "k", "expected": "", "think": "deep"}', '"think" is none')
    bad('{"id": "a", "kind": "k", "expected": ""}', "messages")
    bad(json.dumps({"id": "a", "kind": "k" * 64, "expected": ""}), '"kind" has 64 bytes')
    refused("eval", MODEL, "--tasks", write("none.jsonl", "\n"), says="no rows")


def test_eval_text():
    text = "The wind moved over the barn and the fox slept. " * 4
    path = write("text.txt", text)
    call = ["eval", MODEL, "--text", path, "--quiet", "--act", "exact"]
    whole = json.loads(hadal(*call, "--json")[1])
    ids = hadal("tokens", MODEL, "--plain", "--ids", stdin=text)[1].split()
    assert (whole["tokens"], whole["windows"], whole["act"]) == (len(ids), 1, "exact")
    assert abs(whole["perplexity"] / 2.718281828459045 ** whole["nll"] - 1) < 1e-6
    chunked = json.loads(hadal(*call, "--json", "--chunk", "7")[1])
    assert abs(chunked["nll"] - whole["nll"]) < 1e-4
    small = json.loads(hadal(*call, "--json", "--context", "9")[1])
    assert small["windows"] == -(-len(ids) // 8) and small["nll"] > whole["nll"]
    out = hadal(*call)[1]
    assert [line.split()[0] for line in out.splitlines()] == ["tokens", "windows", "mean",
                                                              "perplexity"]
    refused("eval", MODEL, "--text", write("none.txt", ""), says="an empty text")
    refused("eval", MODEL, "--text", path, "--context", "1", says="room for 2")


def test_eval_text_agrees_with_logprobs():
    a = answer("-p", FRANCE, "--act", "exact", "--isa", "ref")
    first = a["logprobs"][0]
    raw = answer("--raw", "--act", "exact", "--isa", "ref", "-n", "1", "-p",
                 hadal("prompt", "-", stdin=json.dumps([{"role": "user", "content": FRANCE}]))[1])
    assert abs(raw["logprobs"][0]["logprob"] - first["logprob"]) < 1e-5


# ---- trace ---------------------------------------------------------------------------

def tensors(path):
    with open(path, "rb") as f:
        return json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))


def test_trace():
    dump = str(SCRATCH / "trace.safetensors")
    status, out, err = hadal("trace", MODEL, "--ids", "0,2042,433", "--act", "exact", "--quiet",
                             "--dump", dump)
    assert status == 0, err
    assert re.fullmatch(re.escape(dump) + r": 3 tokens, \d+ steps, \d+ tensors, \d+ bytes; "
                        r"greedy next token \d+\n", out), out
    names = tensors(dump)
    assert names["logits"]["shape"] == [3, 2048] and names["streams"]["shape"][:2] == [6, 3]
    assert "mtp.logits" in names


def test_trace_of_a_text():
    dump = str(SCRATCH / "text.safetensors")
    n = len(answer("-p", FRANCE, "-n", "1")["prompt_ids"])
    status, out, _ = hadal("trace", MODEL, "-p", FRANCE, "--dump", dump)
    assert status == 0 and f" {n} tokens, " in out, out
    first = answer("-p", FRANCE, "-n", "1")["ids"][0]
    assert out.endswith(f"greedy next token {first}\n"), (out, first)


def test_w4a4_multiplies_codes():
    """Rounded activations reach the products as codes, and only where they are rounded."""
    dump = str(SCRATCH / "codes.safetensors")
    trace = ["trace", MODEL, "--ids", "0,2042", "--quiet", "--steps", "L00.*", "--dump", dump]
    for act, coded in (("nvfp4", True), ("exact", False)):
        assert hadal(*trace, "--act", act)[0] == 0
        kernels = tensors(dump)["__metadata__"]
        for step, op in (("q_a", "gemm_nvfp4"), ("w1_w3", "grouped_gemm_nvfp4"), ("w2", "grouped_gemm_nvfp4")):
            name = kernels[f"kernel.L00.{step}"]
            assert name.startswith(f"{op}_w4a4") == coded or name == f"{op}_ref", (act, step, name)


def test_trace_of_some_steps():
    dump = str(SCRATCH / "some.safetensors")
    trace = ["trace", MODEL, "--ids", "0,2042,433", "--quiet", "--isa", "ref", "--dump", dump]
    assert hadal(*trace)[0] == 0
    whole = tensors(dump)
    assert whole["__metadata__"]["kernel.L00.attn_norm"] == "rmsnorm_nvfp4_ref"
    assert whole["__metadata__"]["ids"] == "0,2042,433"
    for glob, wanted in (("L02.*", r"L02\."), ("*.kv_rope", r"(L..|mtp)\.kv_rope\."),
                         ("logits", "logits$"), ("streams", "streams$")):
        assert hadal(*trace, "--steps", glob)[0] == 0
        some = tensors(dump)
        del some["__metadata__"]
        assert set(some) == {n for n in whole if re.match(wanted, n)}, glob
    os.unlink(dump)
    refused(*trace, "--steps", "L99.*", says="no step is called L99")
    assert not os.path.exists(dump)
    refused("trace", MODEL, "--ids", "0", "--quiet", "--steps", "x", says="no step is called x")


def rows_of_trace(*args):
    status, out, err = hadal("trace", MODEL, "--ids", "0,2042,433", "--quiet", "--json", *args)
    assert status == 0 and err == "", err
    return json.loads(out)


def test_trace_report():
    """Ranges are those of the values that --dump writes."""
    dump = SCRATCH / "report.safetensors"
    assert hadal("trace", MODEL, "--ids", "0,2042,433", "--quiet", "--dump", str(dump))[0] == 0
    header, blob = tensors(str(dump)), dump.read_bytes()
    base = 8 + struct.unpack("<Q", blob[:8])[0]
    report = rows_of_trace()
    assert report["tokens"] == 3 and report["stopped"] is None and report["greedy"] >= 0
    seen = 0
    for row in report["steps"]:
        info = header[f"{row['step']}.{row['operand']}"]
        begin, end = info["data_offsets"]
        kind = {"F32": "f", "I32": "i"}[info["dtype"]]
        x = struct.unpack(f"<{(end - begin) // 4}{kind}", blob[base + begin:base + end])
        rms = math.sqrt(sum(v * v for v in x) / len(x))
        assert row["count"] == len(x) and row["bad"] == 0 and row["shape"] == info["shape"], row
        for key, value in (("min", min(x)), ("max", max(x)), ("rms", rms)):
            assert abs(row[key] - value) <= 1e-8 * abs(value), (row, key, value)
        if row["operand"] == "saturated":
            assert row["saturated"] == sum(x), row
        seen += 1
    assert seen > 400
    # Bytes of caches are codes, not values; all else is there.
    caches = {n for n in header if header[n].get("dtype") == "U8"}
    assert len(header) - len(caches) == seen + 1 + 3, (len(header), len(caches), seen)
    some = rows_of_trace("--steps", "L01.w2*")["steps"]
    assert some == [r for r in report["steps"] if r["step"].startswith("L01.w2")] and some
    text = hadal("trace", MODEL, "--ids", "0,2042,433", "--quiet")[1]
    assert re.search(r"^L01\.attn_norm +y +\[3, 256\] .* rmsnorm_", text, re.M), text
    assert text.splitlines()[-1].endswith(f"all finite; greedy next token {report['greedy']}")


def spoiled(name, change):
    """The demo model with one scalar tensor changed."""
    folder = SCRATCH / "spoiled"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(MODEL, folder)
    for path in folder.glob("*.safetensors"):
        blob = bytearray(path.read_bytes())
        base = 8 + struct.unpack("<Q", blob[:8])[0]
        info = json.loads(blob[8:base]).get(name)
        if info:
            begin, end = (base + o for o in info["data_offsets"])
            value, = struct.unpack("<f", blob[begin:end])
            blob[begin:end] = struct.pack("<f", change(value))
            path.write_bytes(blob)
            return str(folder)
    raise AssertionError(name)


def test_trace_names_the_first_bad_step():
    """A scale beyond every activation: the product overflows in this matrix and no other."""
    matrix = "model.layers.3.self_attn.o_b_proj"
    folder = spoiled(f"{matrix}.weight_scale_2", lambda _: 3e38)
    status, out, err = hadal("trace", folder, "--ids", "0,2042,433", "--quiet", "--json")
    stopped = json.loads(out)["stopped"]
    assert status == 1 and err == "" and stopped["step"] == "L03.o_b", (err, stopped)
    assert stopped["operand"] == "y" and stopped["kernel"].startswith("gemm_nvfp4"), stopped
    assert stopped["bad"] > 0 and len(stopped["at"]) == 2, stopped
    x = next(i for i in stopped["inputs"] if i["operand"] == "x")
    assert x["from"] == "L03.o_b_in" and x["bad"] == 0 and x["max"] > 0, x
    status, out, err = hadal("trace", folder, "--ids", "0,2042,433", "--steps", "L00.gate")
    lines = out.splitlines()
    assert status == 1 and lines[1].startswith("L00.gate ") and lines[2].startswith("L03.o_b ")
    assert re.fullmatch(r"step L03\.o_b \(gemm_nvfp4_\w+\): \d+ of 768 values of y are NaN or "
                        r"infinite, the first at \[\d, \d+\]; the steps before left none",
                        lines[4]), lines[4]
    assert "of step L03.o_b_in" in out


def test_trace_counts_saturated_blocks():
    folder = spoiled("model.layers.2.self_attn.kv_proj.input_scale", lambda x: x / 64)
    out = hadal("trace", folder, "--ids", "0,2042,433", "--quiet", "--json")[1]
    counts = {r["step"]: r["saturated"] for r in json.loads(out)["steps"] if "saturated" in r}
    healthy = {r["step"]: r["saturated"] for r in rows_of_trace()["steps"] if "saturated" in r}
    assert healthy["L02.attn_norm"] == 0 and counts["L02.attn_norm"] > 10, counts


def test_trace_refusals():
    dump = str(SCRATCH / "refused.safetensors")
    trace = ["trace", MODEL, "--dump", dump, "--ids"]
    refused(*trace, "0,2048", says="id 2048")
    for ids in ("", "1,", ",1", "1,,2", "x", "-1", "1 2", "99999999999"):
        refused(*trace, ids, says="is no token id")
    assert not os.path.exists(dump)
    refused("trace", MODEL, "--ids", "0", "--dump", "/nonexistent/x", says="/nonexistent/x")


# ---- tokens, prompt, parse -----------------------------------------------------------

def test_tokens():
    ids = hadal("tokens", MODEL, "--ids", stdin=FRANCE)[1]
    assert hadal("tokens", MODEL, "--decode", stdin=ids) == (0, FRANCE, "")
    assert '2044\t"<think>"\n' in hadal("tokens", MODEL, stdin="<think>")[1]
    refused("tokens", MODEL, "--decode", stdin="x", says="no token id")


def test_prompt_and_parse():
    status, out, _ = hadal("prompt", write("weather.json", WEATHER))
    assert status == 0 and out.startswith("<｜begin▁of▁sentence｜>") and out.endswith("</think>")
    status, out, _ = hadal("parse", "-", stdin="why</think>because<｜end▁of▁sentence｜>")
    parsed = json.loads(out)
    assert status == 0 and (parsed["reasoning_content"], parsed["content"]) == ("why", "because")


# ---- chat ----------------------------------------------------------------------------

def test_chat_on_a_pipe():
    lines = ["/tokens", FRANCE, "", "/tokens", "What is the capital of Ghana?", "/new", "/tokens"]
    status, out, err = hadal("chat", MODEL, "--quiet", stdin="\n".join(lines))
    assert (status, err) == (0, "")
    got = out.splitlines()
    assert (got[0], got[1], got[3], got[4]) == (
        "0 of 4096 tokens", PARIS, "The capital of Ghana is Accra.", "0 of 4096 tokens"), got
    prompt = answer("-p", FRANCE)
    assert got[2] == f"{len(prompt['prompt_ids']) + len(prompt['ids']) - 1} of 4096 tokens"


def test_chat_keeps_the_conversation():
    turns = [{"role": "user", "content": FRANCE}, {"role": "assistant", "content": PARIS},
             {"role": "user", "content": "Count to 3."}]
    whole = answer("--messages", write("turns.json", turns))
    out = hadal("chat", MODEL, "--quiet", stdin=f"{FRANCE}\nCount to 3.\n/tokens\n")[1].splitlines()
    n = whole["usage"]["total_tokens"] - 1
    assert out[1:] == [whole["text"], f"{n} of 4096 tokens"], out


def test_chat_commands():
    status, out, err = hadal("chat", MODEL, stdin="/help\n/frob\n/think deep\n/think high\n"
                                                  "/system Answer briefly.\n/quit\nnot read\n")
    assert status == 1 and "/system TEXT" in out
    assert "no command '/frob'" in err and "/think 'deep'" in err
    systems = "/system Answer briefly.\nCount to 3.\n/tokens\n"
    flagged = hadal("chat", MODEL, "--system", "Answer briefly.", stdin="Count to 3.\n/tokens\n")
    assert hadal("chat", MODEL, stdin=systems)[1] == flagged[1]


def test_chat_survives_a_failed_turn():
    status, out, err = hadal("chat", MODEL, "--context", "30", "--quiet", "-n", "4",
                             stdin=b"\xff\n" + b"word " * 40 + b"\nCount to 3.\n")
    assert status == 1
    assert "not UTF-8" in err and "the context 30: /new starts over" in err, err
    assert out == "1, 2\n" or out.startswith("1"), out


class Terminal:
    """The program on a terminal of its own."""

    def __init__(self, *args, **environment):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(HADAL, [HADAL, *args],
                      os.environ | {"TERM": "xterm", "LC_ALL": "C.UTF-8", "NO_COLOR": ""} |
                      environment)
        self.seen = ""

    def wait_for(self, pattern, seconds=60):
        """Reads until pattern appears behind what was waited for before; returns the match."""
        end = time.monotonic() + seconds
        while not (found := re.search(pattern, self.seen, re.S)):
            ready, _, _ = select.select([self.fd], [], [], max(0, end - time.monotonic()))
            assert ready, (pattern, self.seen[-500:])
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                data = b""
            assert data, (pattern, self.seen[-500:])
            self.seen += data.decode(errors="replace")
        self.seen = self.seen[found.end():]
        return found

    def wait_for_prompt(self, before=""):
        """Waits for a prompt that reads keys: the line editor shows it before it takes over."""
        self.wait_for(before + "> ")
        end = time.monotonic() + 60
        while termios.tcgetattr(self.fd)[3] & termios.ICANON:
            assert time.monotonic() < end, "the line editor does not take over"
            time.sleep(0.01)

    def type(self, text):
        os.write(self.fd, text.encode())

    def finish(self):
        """Reads to the end; returns the exit status."""
        try:
            while os.read(self.fd, 65536):
                pass
        except OSError:
            pass
        status = os.waitpid(self.pid, 0)[1]
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)


def test_chat_on_a_terminal():
    t = Terminal("chat", MODEL)
    t.wait_for_prompt()
    t.type(FRANCE + "\r")
    t.wait_for_prompt(re.escape(PARIS) + "\r\n.*")
    t.type("\x1b[A\x7f!\r")  # the line before, its last character changed
    t.wait_for_prompt(r"What is the capital of France\?[^\n]*!\r\n.*")
    t.type("Grüße 世界\r")
    t.wait_for("Grüße 世界")
    t.wait_for_prompt()
    t.type("\x04")
    assert t.finish() == 0


def test_chat_interrupts_an_answer():
    t = Terminal("chat", MODEL, *RAMBLING)
    t.wait_for_prompt()
    t.type("Hello.\r")
    t.wait_for(r"Hello\.\r\n[^\r]{20}")
    t.type("\x03")
    t.wait_for_prompt("hadal: stopped\r\n.*")
    t.type("/tokens\r")
    assert int(t.wait_for(r"(\d+) of 4096 tokens").group(1)) < 4000
    t.wait_for_prompt()
    t.type("nonsense\x03/quit\r")  # at the prompt Ctrl-C clears the line
    assert t.finish() == 0


def test_run_on_a_terminal_uses_colour():
    path = write("weather.json", WEATHER)
    call = ["run", MODEL, "--messages", path, "--think", "high"]
    t = Terminal(*call)
    t.wait_for("\033\\[2m")
    t.wait_for("get_weather")
    assert t.finish() == 0
    t = Terminal(*call, NO_COLOR="1")
    assert "\033[2m" not in t.wait_for("^.*get_weather").group()
    assert t.finish() == 0


def test_run_needs_a_prompt_on_a_terminal():
    t = Terminal("run", MODEL)
    t.wait_for("no prompt: give -p, --messages, or text on standard input; see hadal help run")
    assert t.finish() == 2


def test_run_dies_of_an_interrupt():
    with subprocess.Popen([HADAL, "run", MODEL, "--quiet", "-p", "a", *RAMBLING],
                          stdout=subprocess.PIPE) as p:
        p.stdout.read(1)
        p.send_signal(signal.SIGINT)
        p.stdout.read()
    assert p.returncode == -signal.SIGINT


def copy_model(name):
    """The model in a folder of its own."""
    folder = SCRATCH / name
    folder.mkdir()
    for file in pathlib.Path(MODEL).iterdir():
        shutil.copyfile(file, folder / file.name)
    return folder


def test_model_that_is_cut_while_it_runs():
    folder = copy_model("cut")
    with subprocess.Popen([HADAL, "chat", str(folder), "--quiet", "--threads", "4"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
        p.stdin.write(FRANCE.encode() + b"\n")
        p.stdin.flush()
        assert p.stdout.readline().decode() == PARIS + "\n"
        shard = sorted(folder.glob("*.safetensors"))[1]
        os.truncate(shard, 4096)
        out, err = p.communicate(b"What is the capital of Ghana?\n", timeout=60)
    assert (p.returncode, out) == (1, b""), (p.returncode, out)
    assert err.decode() == f"hadal: {shard}: cut while in use, or its disk failed\n", err


def test_dump_of_a_model_that_is_cut():
    """Neither the dump nor a part of it stays."""
    folder = copy_model("cut-dump")
    dump = SCRATCH / "cut.safetensors"
    ids = ",".join(str(7 * i % 2000) for i in range(600))
    with subprocess.Popen([HADAL, "trace", str(folder), "--quiet", "--ids", ids, "--isa", "ref",
                           "--dump", str(dump)], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
        while p.poll() is None and not list(SCRATCH.glob("cut.safetensors.part-*")):
            time.sleep(0.001)
        for shard in folder.glob("*.safetensors"):
            os.truncate(shard, 4096)
        out, err = p.communicate(timeout=600)
    assert (p.returncode, out) == (1, b""), (p.returncode, out)
    assert err.decode().endswith(": cut while in use, or its disk failed\n"), err
    assert list(SCRATCH.glob("cut.safetensors*")) == []


def test_trust():
    folder = copy_model("nan")
    shard, at = next((path, 8 + struct.unpack("<Q", open(path, "rb").read(8))[0] + begin)
                     for path in sorted(folder.glob("*.safetensors"))
                     for name, t in tensors(path).items() if name.endswith(".weight_scale")
                     for begin in [t["data_offsets"][0]])
    with open(shard, "r+b") as f:
        f.seek(at)
        f.write(b"\x7f")
    refused("run", str(folder), "-p", FRANCE, says=r"block scale 0 is 0x7f \(NaN\)$")
    status, out, _ = hadal("run", str(folder), "--memory", "--quiet")
    assert status == 0 and "weights" in out
    # It is read after all when it is used, and to the references it is NaN.
    refused("run", str(folder), "-p", FRANCE, "--trust", "--isa", "ref",
            says="logit 0 of 2048 is -?nan: no token can be drawn$")


def test_model_that_is_replaced_while_it_runs():
    folder = copy_model("replaced")
    with subprocess.Popen([HADAL, "chat", str(folder), "--quiet"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
        p.stdin.write(FRANCE.encode() + b"\n")
        p.stdin.flush()
        assert p.stdout.readline().decode() == PARIS + "\n"
        for shard in folder.glob("*.safetensors"):
            (folder / "new").write_bytes(b"")
            (folder / "new").replace(shard)
        out, err = p.communicate(FRANCE.encode() + b"\n", timeout=60)
    assert (p.returncode, out, err) == (0, PARIS.encode() + b"\n", b""), (out, err)


def test_other_bus_errors_stay():
    with subprocess.Popen([HADAL, "chat", MODEL, "--quiet"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as p:
        p.stdin.write(b"/tokens\n")
        p.stdin.flush()
        assert p.stdout.readline() == b"0 of 4096 tokens\n"
        p.send_signal(signal.SIGBUS)
        p.wait(60)
    assert p.returncode == -signal.SIGBUS


def main():
    if not os.access(HADAL, os.X_OK):
        sys.exit(f"test_cli: no program at {HADAL}")
    return suite.run(globals(), SCRATCH)


if __name__ == "__main__":
    sys.exit(main())
