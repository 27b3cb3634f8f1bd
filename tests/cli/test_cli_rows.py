#!/usr/bin/env python3
"""`hadal prompt --jsonl` and `hadal parse --jsonl` on all recorded rows.

usage: test_cli_rows.py [HADAL]     default: build/hadal"""
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HADAL = sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/hadal"
ENCODING = ROOT / "tests/golden/encoding"


def hadal(*arguments, stdin=b""):
    done = subprocess.run([HADAL, *arguments], input=stdin, capture_output=True)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def answer(rows, *arguments):
    """Answers by id, in the order of the rows."""
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    status, out, err = hadal(*arguments, "--jsonl", stdin=text.encode())
    answers = [json.loads(line) for line in out.splitlines()]
    if status or err or [a["id"] for a in answers] != [row["id"] for row in rows]:
        sys.exit(f"{arguments}: status {status}, {len(answers)} answers of {len(rows)}: {err}")
    return answers


def read(name):
    return [json.loads(line) for line in (ENCODING / name).read_text().split("\n") if line]


def agrees(row, got):
    want = row["expected"]
    if "error" in want:
        return isinstance(got.get("error"), str)
    if "not_utf8" in want or row.get("quirk") == "official_defect":
        return "prompt" in got  # refused or mended by choice: tests/unit/test_chat.c
    return all(got.get(key) == want[key] for key in want)


def check_prompts():
    rows = read("prompts.jsonl")
    for row, got in zip(rows, answer(rows, "prompt")):
        if not agrees(row, got):
            sys.exit(f"{row['id']}:\n want {row['expected']}\n got  {got}")
    for row, says in [({"dialect": "ga", "call": "encode", "input": {}}, "call: encode"),
                      ({"dialect": "v5", "input": {}}, "dialect: v5"),
                      ({"dialect": "ga_api", "input": {}}, "encode_messages"),
                      ({"dialect": "ga"}, "input: missing")]:
        got, = answer([{"id": 7} | row], "prompt")
        if says not in got["error"]:
            sys.exit(f"{row}: {got}")
    return len(rows) + 4


def check_answers():
    rows = read("answers.jsonl")
    for cut in ([], ["--cut", "1"], ["--cut", "7"]):
        for row, got in zip(rows, answer(rows, "parse", *cut)):
            want = row["want"]
            calls = want.get("tool_calls") or []
            finish = "length" if row["finish"] == "length" else "tool_calls" if calls else "stop"
            want = {"id": row["id"], "reasoning_content": want.get("reasoning_content") or "",
                    "content": want.get("content") or "", "tool_calls": calls,
                    "unparsed": want.get("unparsed") or None, "finish_reason": finish}
            if got != want:
                sys.exit(f"{row['id']} {cut}:\n want {want}\n got  {got}")
    return 3 * len(rows)


def check_usage():
    cases = [(["prompt"], "no FILE given"), (["parse", "--jsonl", "x"], "one too many: 'x'"),
             (["prompt", "--jsonl", "-"], "one too many: '-'")]
    for arguments, says in cases:
        status, out, err = hadal(*arguments)
        if status != 2 or out or says not in err:
            sys.exit(f"{arguments}: status {status}: {err}")
    return len(cases)


def main():
    passed = check_prompts() + check_answers() + check_usage()
    print(f"{passed} passed, 0 failed")


if __name__ == "__main__":
    main()
