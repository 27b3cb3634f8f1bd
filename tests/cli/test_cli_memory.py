#!/usr/bin/env python3
"""`hadal run MODEL --memory` and --kv: what is printed adds up, formats order as their bytes do,
and answers stay the same where they must.  usage: test_cli_memory.py [HADAL]"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HADAL = sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/hadal"
DEMO = ROOT / "models/demo"
OFFICIAL = ROOT / "tests/models/tiny512-official"
UNITS = {"MiB": 1.0, "GiB": 1024.0}
failures = []
passed = 0


def check(name, ok, found=""):
    global passed
    passed += bool(ok)
    if not ok:
        failures.append(name)
        print(f"FAILED {name}: {found}")


def hadal(*args):
    r = subprocess.run([HADAL, *map(str, args)], stdin=subprocess.DEVNULL, capture_output=True)
    return r.returncode, r.stdout.decode(), r.stderr.decode()


def report(*args):
    """Bytes a token, {part: MiB}, {context: fits?}."""
    status, out, err = hadal("run", *args, "--memory", "--quiet")
    check(f"status of {args}", status == 0, err)
    token = float(re.search(r"([0-9.]+) bytes a token", out)[1])
    parts = {n: float(v) * UNITS[u]
             for n, v, u in re.findall(r"^(\S.*?) +([0-9.]+) (MiB|GiB) ", out, re.M)}
    fits = dict(re.findall(r"^ +(\d+) .*? (fits|does not fit)$", out, re.M))
    return token, parts, fits


def test_report():
    token, parts, fits = report(DEMO, "--context", 65536)
    total = parts.pop("total")
    check("parts add up", abs(total - sum(parts.values())) < 0.05 * len(parts), parts)
    check("rows are what tokens cost", abs(parts["KV rows"] - token * 65536 / 2**20) < 0.1, parts)
    check("all contexts", list(fits) == [str(4096 << i) for i in range(9)], fits)
    check("the first fits", fits["4096"] == "fits", fits)


def test_formats():
    tokens = [report(OFFICIAL, "--kv", kv)[0] for kv in ("f32", "bf16", "fp8", "nvfp4")]
    check("bf16 is half of f32", tokens[0] == 2 * tokens[1], tokens)
    # Two layers of ratio 4: a page of 64 rows and one of indexer rows for 256 tokens each; one
    # layer of ratio 128: a page of 2.
    check("fp8", tokens[2] == round((2 * (37440 + 4352) + 1728) / 256, 1), tokens)
    check("nvfp4", tokens[3] == round((2 * (64 * 384 + 4352) + 768) / 256, 1), tokens)


def test_answers():
    ask = ["run", OFFICIAL, "--act", "official", "--raw", "-p", "the", "-n", 12, "--quiet"]
    plain = hadal(*ask)
    check("plain answer", plain[0] == 0, plain)
    for kv in ("bf16", "fp8"):
        check(f"official answer with {kv} rows", hadal(*ask, "--kv", kv) == plain)
    ask = ["run", DEMO, "-p", "What is the capital of France?", "--quiet"]
    for kv in ("f32", "bf16", "fp8", "nvfp4"):
        found = hadal(*ask, "--kv", kv)
        check(f"answer with {kv} rows", found == (0, "The capital of France is Paris.\n", ""), found)


def test_misuse():
    for args, part in [(("--kv", "q8"), "q8"), (("--memory", "-p", "x"), "--memory"),
                       (("--memory", "--json"), "--memory")]:
        status, out, err = hadal("run", DEMO, *args)
        check(f"misuse {args}", status == 2 and not out and part in err, (status, err))
    status, out, err = hadal("run", DEMO, "--memory", "--context", 1 << 21)
    check("too long", status == 1 and not out and "2097152" in err, (status, err))


for test in (test_report, test_formats, test_answers, test_misuse):
    test()
print(f"{passed} passed, {len(failures)} failed")
sys.exit(bool(failures))
