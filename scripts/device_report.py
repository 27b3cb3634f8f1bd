#!/usr/bin/env python3
"""Checks a CUDA build on the GPU of this machine and writes what it saw.

    scripts/device_report.py BUILD OUT.json        BUILD holds hadal and tests/kernels/test_kernels

Kernels against their references, whole passes against the expected values of tests/golden/model, the
host's text against the GPU's, and the time of a decoded token.  Needs numpy and safetensors."""
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
from safetensors.numpy import load_file

# model, expected values, activation mode, allowed relative error end to end
CASES = [("models/demo", "demo", "exact", 1e-5),
         ("models/demo", "demo.w4a4", "nvfp4", 2e-2),
         ("tests/models/tiny512-official", "tiny512-official", "exact", 1e-5),
         ("tests/models/tiny512-official", "tiny512-official.w8", "official", 0.15),
         ("tests/models/tiny512-nvfp4", "tiny512-nvfp4", "exact", 1e-5),
         ("tests/models/tiny512-nvfp4", "tiny512-nvfp4.w4a4", "nvfp4", 0.15)]
PROMPTS = ("short", "edge", "long")
QUESTIONS = ("What is the capital of France?", "Name the capital city of Egypt.", "Count from 1 to 10.")


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def worst_row(got, want):
    got, want = got.reshape(-1, want.shape[-1]), want.reshape(-1, want.shape[-1])
    error = np.linalg.norm(got - want, axis=1) / np.linalg.norm(want, axis=1)
    return float(np.max(np.where(np.isfinite(error), error, np.inf)))


def check_kernels(build, family):
    code, out, err = run(f"{build}/tests/kernels/test_kernels", "--isa", family)
    last = (out.strip().splitlines() or [""])[-1]
    return {"status": code, "closing": last, "lines": out.splitlines()[:-1]}


def check_passes(build, family, folder):
    rows = []
    for model, golden, act, allowed in CASES:
        want = load_file(f"tests/golden/model/{golden}.safetensors")
        for prompt in PROMPTS:
            if f"{prompt}.tokens" not in want:
                continue
            ids = ",".join(map(str, want[f"{prompt}.tokens"]))
            path = os.path.join(folder, "trace.safetensors")
            code, _, err = run(f"{build}/hadal", "trace", model, "--ids", ids, "--act", act, "--isa", family,
                               "--dump", path)
            if code:
                rows.append({"case": golden, "prompt": prompt, "error": err.strip(), "ok": False})
                continue
            got = load_file(path)
            logits, streams = want[f"{prompt}.logits"], want[f"{prompt}.streams"]
            flat = streams.reshape(*streams.shape[:2], -1)
            row = {"case": golden, "prompt": prompt, "allowed": allowed,
                   "logits": worst_row(got["logits"][-len(logits):], logits),
                   "streams": worst_row(got["streams"][:, -streams.shape[1]:].reshape(flat.shape), flat)}
            if f"{prompt}.mtp.logits" in want:
                row["mtp"] = worst_row(got["mtp.logits"][-2:], want[f"{prompt}.mtp.logits"])
            # Where roundings flip, a late stream may be further off than the logits that follow.
            judged = ("logits", "mtp") if allowed > 1e-5 else ("logits", "streams", "mtp")
            row["ok"] = all(row[k] <= allowed for k in judged if k in row)
            rows.append(row)
    return rows


def compare_texts(build, family):
    rows = []
    for question in QUESTIONS:
        answers = {}
        for isa in (family, "ref"):
            code, out, err = run(f"{build}/hadal", "run", "models/demo", "-p", question, "--json", "--isa", isa,
                                 "-n", "200")
            answers[isa] = json.loads(out) if code == 0 else {"error": err.strip()}
        here, there = answers[family], answers["ref"]
        rows.append({"question": question, "text": here.get("text"), "error": here.get("error"),
                     "equal": "ids" in here and here["ids"] == there.get("ids"),
                     "tokens_per_s": here.get("timings", {}).get("tokens_per_s")})
    return rows


def main():
    build, out = sys.argv[1], sys.argv[2]
    report = {"commit": os.environ.get("COMMIT", "")}
    gpu = run("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")[1].strip()
    report["gpu"] = gpu
    with tempfile.TemporaryDirectory() as folder:
        for family in ("cuda", "sm90"):
            report[family] = {"kernels": check_kernels(build, family),
                              "passes": check_passes(build, family, folder),
                              "texts": compare_texts(build, family)}
    with open(out, "w", encoding="utf-8") as f:
        json.dump(report, f, indent=1)
    failed = 0
    for family in ("cuda", "sm90"):
        part = report[family]
        print(family, "kernels:", part["kernels"]["closing"])
        for row in part["passes"]:
            failed += not row["ok"]
            print(" ", *(f"{k} {v:.2e}" if isinstance(v, float) else f"{v}" for k, v in row.items()))
        for row in part["texts"]:
            failed += not row["equal"]
            print(" ", row)
        failed += part["kernels"]["status"] != 0
    print(f"{gpu}: {failed} of the checks failed")
    return 1 if failed else 0


sys.exit(main())
