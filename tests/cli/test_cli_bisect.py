#!/usr/bin/env python3
"""`hadal bisect`: of two settings it names the difference that counts, as text and as JSON; equal ones
are refused.  Faulty kernels are planted in tests/model/test_bisect.c.
usage: test_cli_bisect.py [HADAL]"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/support"))
import suite  # behind the path
HADAL = str(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/hadal").resolve())
DEMO = ROOT / "models/demo"
SCRATCH = pathlib.Path(tempfile.mkdtemp(prefix="hadal-bisect-"))
IDS = ["--ids", "0,2042,433,77,1012"]


def hadal(*args):
    done = subprocess.run([HADAL, *map(str, args)], stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=600)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def bisect(*args):
    status, out, err = hadal("bisect", DEMO, *IDS, *args, "--json", "--quiet")
    assert err == "" and status in (0, 1), (args, status, err)
    result = json.loads(out)
    assert (status == 1) == bool(result["culprits"]), result
    return result


def refused(*args, says, status=1):
    got, out, err = hadal("bisect", *args, "--quiet")
    assert got == status and out == "" and err.count("\n") == 1 and says in err, (args, got, err)


def test_cache_rows_count_and_kernels_do_not():
    result = bisect("--good", "isa=ref", "--bad", "kv=nvfp4", "--act", "exact")
    assert result["good"] == {"act": "exact", "kv": "f32", "isa": "ref"}, result
    assert result["bad"]["kv"] == "nvfp4"
    names = {d["name"] for d in result["differences"]}
    assert "kv" in names and "act" not in names, names
    [culprit] = result["culprits"]
    [part] = culprit["parts"]
    assert part["kind"] == part["name"] == "kv" and part["good"] == "f32" and part["bad"] == "nvfp4"
    assert culprit["error"] == part["alone"] > 0.01 > culprit["rest"], culprit
    assert result["error"] > 0.01


def test_the_tolerance_decides():
    args = ("--good", "kv=f32", "--bad", "kv=bf16", "--act", "exact")
    error = bisect(*args, "--tolerance", "1")["error"]
    assert 0 < error < 0.1, error
    assert bisect(*args, "--tolerance", "1")["culprits"] == []
    assert len(bisect(*args, "--tolerance", str(error / 2))["culprits"]) == 1


def test_text():
    status, out, err = hadal("bisect", DEMO, *IDS, "--good", "act=nvfp4", "--bad", "act=exact,kv=f32",
                             "--quiet")
    assert status == 1 and err == "", (status, err)
    assert re.search(r"^good: +activations nvfp4, KV f32, kernels ref\S*$", out, re.M), out
    assert re.search(r"^1 difference: act$", out, re.M), out
    assert re.search(r"^culprit, relative error 0\.\d+\n  act +nvfp4 \| exact\n"
                     r"without it, relative error 0$", out, re.M), out
    assert re.search(r"^2 trials of 5 tokens$", out, re.M), out


def test_refusals():
    same = ("bisect: --good and --bad are the same setting")
    refused(DEMO, *IDS, says=same, status=2)
    refused(DEMO, *IDS, "--good", "act=exact", "--bad", "act=exact", says=same, status=2)
    refused(DEMO, *IDS, "--bad", "act=nvfp4", says="the same kernels, activations and KV rows")
    for bad in ("exact", "act", "act=", "mode=exact", "act=w8", "kv=f64", "isa=sse", "act=exact,",
                "act=exact kv=f32", "isa=" + "x" * 99, ""):
        refused(DEMO, *IDS, "--bad", bad, says="hadal: bisect: ", status=2)
    refused(DEMO, *IDS, "--bad", "what=is", says="wanted NAME=VALUE,... of act, kv and isa", status=2)
    refused(DEMO, "--ids", "0,99999", "--bad", "kv=fp8", says="id 99999")
    refused(SCRATCH / "nowhere", *IDS, "--bad", "kv=fp8", says="nowhere")


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(suite.run(globals(), SCRATCH))
