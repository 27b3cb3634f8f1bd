#!/usr/bin/env python3
"""`hadal selftest`: healthy models pass every check, whatever their options, and a model that
computes no numbers fails.  Faulty kernels are planted in tests/unit/test_kernel_check.c.
usage: test_cli_selftest.py [HADAL]"""
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/support"))
import suite  # behind the path
HADAL = str(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/hadal").resolve())
DEMO = ROOT / "models/demo"
OFFICIAL = ROOT / "tests/models/tiny512-official"
SCRATCH = pathlib.Path(tempfile.mkdtemp(prefix="hadal-selftest-"))
BITS = ["the same tokens twice", "prefill is decode", "pieces of any size",
        "beside another sequence", "in a fork", "end of the context"]


def hadal(*args):
    done = subprocess.run([HADAL, *map(str, args)], stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=900)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def selftest(*args):
    status, out, err = hadal("selftest", *args, "--json", "--quiet")
    assert err == "", (args, err)
    result = json.loads(out)
    assert status == (1 if result["failed"] else 0), (args, result)
    assert result["passed"] == sum(c["ok"] for c in result["checks"]), result
    assert result["passed"] + result["failed"] == len(result["checks"]), result
    return result


def test_healthy():
    result = selftest(DEMO, "--tokens", 11)
    checks = {c["check"]: c for c in result["checks"]}
    assert result["failed"] == 0 and result["tokens"] == 11, result
    assert [c for c in checks if " " in c] == BITS, checks
    kernels = {c.rsplit("_", 1)[0] for c in checks if " " not in c}
    assert {"rmsnorm", "gemm_nvfp4", "grouped_gemm_nvfp4", "attn_sparse", "head_rows", "topk",
            "router", "quant_nvfp4", "add_streams"} <= kernels, kernels
    # Layers have one attention each; passes: 8 tokens at once, the MTP block, 3 alone.
    assert checks["attn_sparse_ref"]["n"] == 6 * 4 + 1, checks["attn_sparse_ref"]
    assert checks["prefill is decode"]["n"] == 10, checks["prefill is decode"]  # 1-5, 7-11


def test_options():
    for model, options in ((OFFICIAL, ["--kv", "fp8"]), (DEMO, ["--act", "exact", "--kv", "nvfp4"])):
        result = selftest(model, "--tokens", 5, *options)
        assert result["failed"] == 0 and result["passed"] > 20, (options, result)


def test_edges():
    """What is beyond the tokens is said and not counted."""
    short, longer = selftest(OFFICIAL, "--tokens", 4), selftest(OFFICIAL, "--tokens", 8)
    n = [next(c["n"] for c in r["checks"] if c["check"] == "prefill is decode")
         for r in (short, longer)]
    assert n[0] < n[1] and short["unreached"] > longer["unreached"] > 0, (short, longer)
    status, out, _ = hadal("selftest", OFFICIAL, "--tokens", 4, "--quiet")
    assert status == 0
    assert re.search(r"^\d+ lengths around an edge are beyond 4 tokens: not tried$", out, re.M), out
    assert re.fullmatch(r"\d+ checks passed, 0 failed", out.splitlines()[-1]), out


def test_no_numbers():
    """A scale beyond every activation: the logits are no numbers, which no repetition excuses."""
    folder = SCRATCH / "spoiled"
    shutil.copytree(DEMO, folder)
    name = "model.layers.3.self_attn.o_b_proj.weight_scale_2"
    for path in folder.glob("*.safetensors"):
        blob = bytearray(path.read_bytes())
        base = 8 + struct.unpack("<Q", blob[:8])[0]
        info = json.loads(blob[8:base]).get(name)
        if info:
            at = base + info["data_offsets"][0]
            blob[at:at + 4] = struct.pack("<f", 3e38)
            path.write_bytes(blob)
    result = selftest(folder, "--tokens", 4)
    faults = [c["fault"] for c in result["checks"] if c["check"] == "prefill is decode"]
    assert result["failed"] >= 5 and re.match(r"length 1: logit 0 is -?nan", faults[0]), faults


def test_misuse():
    for args, part in [((), "no MODEL given"), ((DEMO, "--tokens", "3"), "4 .. 100000"),
                       ((DEMO, "-p", "x"), "unknown option -p")]:
        status, out, err = hadal("selftest", *args)
        assert status == 2 and out == "" and part in err, (args, err)
    status, out, err = hadal("selftest", SCRATCH / "nowhere", "--quiet")
    assert status == 1 and out == "" and "nowhere" in err, err


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(suite.run(globals(), SCRATCH))
