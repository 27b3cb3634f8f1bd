#!/usr/bin/env python3
"""What `hadal tokens` prints, where, and how it exits.  usage: test_cli_tokens.py [HADAL]"""
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HADAL = sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/hadal"
MODEL = ROOT / "models/demo"

# arguments, standard input, exit status, standard output, part of standard error
CASES = [
    ([], b"<think>", 0, b'2044\t"<think>"\n', b""),
    (["--ids"], b"<think></think>", 0, b"2044 2045\n", b""),
    (["--ids"], b"", 0, b"\n", b""),
    ([], b"", 0, b"", b""),
    ([], b'"\x00', 0, b'4\t"\\""\n191\t"\\u0000"\n', b""),
    ([], "🤔".encode(), 0, b'175\t"\\xF0"\n256\t"\\x9F"\n100\t"\\xA4"\n245\t"\\x94"\n', b""),
    (["--plain", "--ids"], b"<", 0, b"30\n", b""),
    (["--decode"], b"2044 67\n4,", 0, b'<think>a"', b""),
    (["--decode"], b"175 256 67", 0, "\ufffda".encode(), b""),
    (["--decode"], b"", 0, b"", b""),
    (["--decode"], b"2048", 1, b"", b"hadal: no token has id 2048"),
    (["--decode"], b"12x", 1, b"", b"hadal: '12x' is no token id"),
    (["--decode"], b"-1", 1, b"", b"hadal: '-1' is no token id"),
    (["--decode"], b"99999999999999999999", 1, b"", b"is no token id"),
    (["--decode"], b"1\x002", 1, b"", b"NUL"),
    ([], b"ab\xff", 1, b"", b"hadal: text is not UTF-8: byte FF at offset 2"),
    (["--nonsense"], b"", 2, b"", b"--nonsense"),
    (["--ids", "--decode"], b"", 2, b"", b"--decode"),
    (["another"], b"", 2, b"", b"another"),
]

LINES = [
    ({"id": 7, "text": "<think>"}, {"id": 7, "ids": [2044]}),
    ({"id": "a\"/ü", "text": ""}, {"id": "a\"/ü", "ids": []}),
    ({"text": "<", "plain": True}, {"id": None, "ids": [30]}),
    ({"id": None, "text": "a\0"}, {"id": None, "ids": [67, 191]}),
    ({"id": 1}, {"id": 1, "error": "text: missing or no string"}),
    ({"id": 1, "text": 5}, {"id": 1, "error": "text: missing or no string"}),
    ({"id": 1, "text": "a", "plain": 0}, {"id": 1, "error": "plain: neither true nor false"}),
]


def run(arguments, text):
    command = [HADAL, "tokens", *arguments]
    return subprocess.run(command, input=text, capture_output=True, timeout=60)


def check(arguments, text, status, out, err):
    got = run([MODEL, *arguments], text)
    if (got.returncode, got.stdout) != (status, out) or err not in got.stderr:
        sys.exit(f"tokens {arguments} on {text!r}: {got}")
    if (status == 0) != (got.stderr == b"") or got.stderr.count(b"\n") > 1:
        sys.exit(f"tokens {arguments} on {text!r}: standard error is {got.stderr!r}")


def check_lines():
    text = "\n".join(json.dumps(line, ensure_ascii=False) for line, _ in LINES) + "\nnot json\n"
    got = run([MODEL, "--jsonl"], text.encode())
    answers = [json.loads(line) for line in got.stdout.decode().splitlines()]
    if answers[:-1] != [answer for _, answer in LINES] or "error" not in answers[-1]:
        sys.exit(f"tokens --jsonl: {answers}")
    if got.returncode != 0 or got.stderr:
        sys.exit(f"tokens --jsonl: {got}")


def check_dialogue():
    """Each line is answered before the next one comes."""
    with subprocess.Popen([HADAL, "tokens", MODEL, "--jsonl"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as child:
        for i in range(3):
            child.stdin.write(json.dumps({"id": i, "text": "a"}).encode() + b"\n")
            child.stdin.flush()
            if json.loads(child.stdout.readline()) != {"id": i, "ids": [67]}:
                sys.exit("tokens --jsonl: no dialogue")
        child.stdin.close()


def main():
    for case in CASES:
        check(*case)
    check_lines()
    check_dialogue()
    for arguments, status in ([], 2), (["no/such/model"], 1), ([ROOT / "Makefile"], 1):
        got = run(arguments, b"")
        if got.returncode != status or not got.stderr.startswith(b"hadal: ") or got.stdout:
            sys.exit(f"tokens {arguments}: {got}")
    print(f"{len(CASES) + len(LINES) + 4} passed, 0 failed")


if __name__ == "__main__":
    main()
