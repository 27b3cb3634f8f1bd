#!/usr/bin/env python3
"""Checks and times a CUDA build on the GPU of this machine and writes what it saw.

    scripts/device_report.py BUILD FOLDER      BUILD holds hadal and tests/kernels/test_kernels
    scripts/device_report.py --check | --time BUILD FOLDER      only one of the two

checks.json   kernels against their references, on cases and on models' own values, whole passes against the expected
              values of tests/golden/model, the host's text against the GPU's (needs numpy and safetensors)
h200.json     what was reached of what is wanted, from
times.csv     all rows of hadal bench, and of PyTorch's products in bf16 where it is there
COMMIT in the environment names what was built."""
import csv
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

# Model, expected values, activation mode, allowed relative error end to end.  Not among them are the models of random
# weights with roundings, where one that falls to the other side leads anywhere: selftest holds their kernels step by step.
CASES = [("models/demo", "demo", "exact", 1e-5),
         ("models/demo", "demo.w4a4", "nvfp4", 2e-2),
         ("tests/models/tiny512-official", "tiny512-official", "exact", 1e-5),
         ("tests/models/tiny512-nvfp4", "tiny512-nvfp4", "exact", 1e-5)]
SELF_TESTED = ("models/demo", "tests/models/tiny512-official", "tests/models/tiny512-nvfp4")
PROMPTS = ("short", "edge", "long")
QUESTIONS = ("What is the capital of France?", "Name the capital city of Egypt.", "Count from 1 to 10.")


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


# ---- checks ----

def worst_row(got, want):
    import numpy as np
    got, want = got.reshape(-1, want.shape[-1]), want.reshape(-1, want.shape[-1])
    error = np.linalg.norm(got - want, axis=1) / np.linalg.norm(want, axis=1)
    return float(np.max(np.where(np.isfinite(error), error, np.inf)))


def check_kernels(build, family):
    """Ops side by side: most of the time the host computes what is expected."""
    program = f"{build}/tests/kernels/test_kernels"
    with open("src/ops/kernels.def", encoding="utf-8") as f:
        ops = re.findall(r"^OP\((\w+)\)", f.read(), re.M)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        done = list(pool.map(lambda op: run(program, "--isa", family, "--op", op), ops))
    lines = [line for _, out, _ in done for line in out.splitlines()]
    # A program that tested nothing, for want of a kernel of this family, ends with 1 as well.
    return {"status": max(code for code, out, _ in done if out.splitlines()[-1:] != ["0 passed, 0 failed"]),
            "lines": [line for line in lines if " passed, " not in line],
            "closing": [sum(int(line.split()[i]) for line in lines if " passed, " in line) for i in (0, 2)]}


def check_passes(build, family, folder):
    from safetensors.numpy import load_file
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


def test_themselves(build, family):
    rows = []
    for model in SELF_TESTED:
        code, out, err = run(f"{build}/hadal", "selftest", model, "--isa", family, "--tokens", "24")
        rows.append({"selftest": model, "closing": (out or err).splitlines()[-1:], "ok": code == 0})
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


def check_all(build):
    report = {}
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for family in ("cuda", "sm90"):
            part = report[family] = {"kernels": check_kernels(build, family),
                                     "passes": check_passes(build, family, folder),
                                     "selftests": test_themselves(build, family),
                                     "texts": compare_texts(build, family)}
            print(family, "kernels: {} passed, {} failed".format(*part["kernels"]["closing"]))
            failed += part["kernels"]["status"] != 0
            for row in part["passes"] + part["selftests"] + part["texts"]:
                is_bad = not row.get("ok", row.get("equal"))
                failed += is_bad
                if is_bad:
                    print(" ", row)
    print(f"{failed} of the checks failed")
    return report, failed


# ---- times ----

LARGE = "16384 x 7168"
FEW, MANY = (1, 4, 8, 16), (64, 256, 512, 8192)
BATCHES = (1, 8, 32, 128)
PROMPTS_AT = (4096, 16384)  # tokens behind which 4,096 more are read
# Layers of Flash by their ratio of compression.
LAYERS = {"r4": 21, "r128": 20, "r0": 2}
PRODUCTS = """
import sys, torch
n, k = 16384, 7168
for t in map(int, sys.argv[1:]):
    w = [torch.randn(n, k, device="cuda", dtype=torch.bfloat16) for _ in range(4)]
    x = torch.randn(t, k, device="cuda", dtype=torch.bfloat16)
    y = torch.empty(t, n, device="cuda", dtype=torch.bfloat16)
    torch.mm(x, w[0].t(), out=y)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        for m in w: torch.mm(x, m.t(), out=y)
    times = []
    for _ in range(9):
        a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        a.record(); g.replay(); b.record(); b.synchronize()
        times.append(a.elapsed_time(b) * 1000 / len(w))
    print(t, sorted(times)[4])
"""


def bench(build, what, *options):
    code, out, err = run(f"{build}/hadal", "bench", what, "--isa", "sm90", "--csv", *map(str, options))
    if code:
        print(f"bench {what} {options}: {err.strip()}")
        return []
    rows = list(csv.DictReader(io.StringIO(out)))
    for row in rows:
        row["options"] = " ".join(map(str, (what, *options)))
    return rows


def time_products(tokens):
    """Microseconds of cuBLAS in bf16; none where PyTorch is missing."""
    code, out, _ = run(sys.executable, "-c", PRODUCTS, *map(str, tokens))
    return {int(t): float(us) for t, us in (line.split() for line in out.splitlines())} if code == 0 else {}


def find(rows, **wanted):
    """The time of the row whose fields are these, in us."""
    for row in rows:
        if all(row[k] == str(v) for k, v in wanted.items()):
            return float(row["median_us"])
    return None


class Targets(dict):
    def note(self, name, got, want, higher=False):
        if got is not None:
            self[name] = {"got": float(f"{got:.4g}"), "want": want, "higher": higher}


def note_products(targets, rows, peer):
    for t in FEW:
        for name in ("large", "large w4a4"):
            us = find(rows, name=name, op="gemm_nvfp4_tiles", tokens=t)
            gb_s = next((float(r["gb_s"]) for r in rows if r["name"] == name and r["tokens"] == str(t)
                         and r["op"] == "gemm_nvfp4_tiles"), None)
            if us:
                targets.note(f"nvfp4 linear {LARGE}{name[5:]}, M = {t}, GB/s", gb_s, 3900, True)
    for t in MANY:
        for name, x in (("large", "bf16 activations"), ("large w4a4", "activations as codes")):
            us = find(rows, name=name, op="gemm_nvfp4_tiles", tokens=t)
            if us and t in peer:
                targets.note(f"nvfp4 linear {LARGE}, {x}, M = {t}, share of cuBLAS bf16", peer[t] / us, 0.85, True)


def note_layers(targets, layers):
    at = {}
    for (family, tokens, context), rows in layers.items():
        for ratio in LAYERS:
            for part in ("attention", "ffn", "layer", "w1_w3", "w2", "hc_attn_pre", "hc_attn_post",
                         "hc_ffn_pre", "hc_ffn_post", "index_score", "index_topk"):
                at[family, tokens, context, ratio, part] = find(rows, name=f"{family} {ratio} {part}")
    for family, title in (("nvfp4", "NVFP4"), ("official", "MXFP4")):
        for tokens, want in ((1, 30), (8, 180), (64, 950)):
            parts = [at.get((family, tokens, 1024, "r4", p)) for p in ("w1_w3", "w2")]
            if None not in parts:
                targets.note(f"Flash experts {title} (w1, w3, w2), T = {tokens}, us", sum(parts), want)
    for context in (1024, 32768):
        for ratio, title, want in (("r4", "CSA", 55), ("r128", "HCA", 45)):
            for family in ("nvfp4", "official"):
                targets.note(f"attention module with mHC, {title}, {family}, context {context}, batch 1, us",
                             at.get((family, 1, context, ratio, "attention")), want)
    sites = [at.get(("nvfp4", 1, 1024, "r4", f"hc_{site}"))
             for site in ("attn_pre", "attn_post", "ffn_pre", "ffn_post")]
    if None not in sites:
        targets.note("mHC, both sites, 1 token, us", sum(sites), 8)
    for tokens, want in zip(BATCHES, (3.6, 11, 33, 45)):
        parts = {r: at.get(("nvfp4", tokens, 1024, r, "layer")) for r in LAYERS}
        if None not in parts.values():
            targets.note(f"Flash step without head, NVFP4, batch {tokens}, context 1024, ms",
                         sum(n * parts[r] for r, n in LAYERS.items()) / 1000, want)


def note_index(targets, rows):
    for context in (131072, 1048576):
        both = [r for r in rows if r["op"] in ("index_score", "topk") and r["options"].endswith(str(context))]
        if len(both) == 2:
            us, bytes_ = (sum(float(r[k]) for r in both) for k in ("median_us", "bytes"))
            targets.note(f"indexer and top-k, context {context}, 1 token, share of 4.2 TB/s",
                         bytes_ / us / 4.2e6, 0.8, True)


def time_all(build):
    kernels = [row for t in FEW for row in bench(build, "kernels", "--op", "gemm_nvfp4_tiles", "--tokens", t)]
    kernels += [row for t in MANY
                for row in bench(build, "kernels", "--op", "gemm_nvfp4_tiles", "--bf16", "--tokens", t)]
    peer = time_products(MANY)
    index = [row for context in (131072, 1048576)
             for row in bench(build, "kernels", "--op", "index_score,topk", "--tokens", 1, "--context", context)]
    runs = [("nvfp4", t, 1024) for t in (*BATCHES, 64)] + [("nvfp4", 1, 32768)]
    runs += [("official", t, 1024) for t in (1, 8, 64)] + [("official", 1, 32768)]
    runs += [("nvfp4", 4096, c) for c in PROMPTS_AT]
    layers = {(f, t, c): bench(build, "layer", "--family", f, "--tokens", t, "--context", c) for f, t, c in runs}
    pro = [row for t in (1, 32) for row in bench(build, "layer", "--shape", "pro", "--family", "nvfp4", "--tokens", t)]
    engine = bench(build, "engine", "models/demo")
    targets = Targets()
    note_products(targets, kernels, peer)
    note_layers(targets, layers)
    note_index(targets, index)
    cublas = [{"name": f"large, bf16, cuBLAS, {t} tokens", "median_us": us} for t, us in peer.items()]
    return targets, kernels + index + [row for rows in layers.values() for row in rows] + pro + engine + cublas


def write_rows(rows, path):
    with open(path, "w", encoding="utf-8", newline="") as f:
        out = csv.DictWriter(f, ["options", *(k for k in rows[0] if k != "options")], restval="", lineterminator="\n")
        out.writeheader()
        out.writerows(rows)


# ---- both ----

def main():
    options = [a for a in sys.argv[1:] if a.startswith("--")]
    build, folder = [a for a in sys.argv[1:] if not a.startswith("--")]
    gpu = run("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")[1].strip()
    about = {"commit": os.environ.get("COMMIT", ""), "gpu": gpu}
    failed = 0
    if options != ["--time"]:
        report, failed = check_all(build)
        with open(f"{folder}/checks.json", "w", encoding="utf-8") as f:
            json.dump({**about, **report}, f, indent=1)
    if options != ["--check"]:
        targets, rows = time_all(build)
        write_rows(rows, f"{folder}/times.csv")
        with open(f"{folder}/h200.json", "w", encoding="utf-8") as f:
            json.dump({**about, "targets": targets}, f, indent=1)
        for name, t in targets.items():
            print(f"{t['got']:>9g}  wanted {t['want']:<6g} {name}")
    return 1 if failed else 0


sys.exit(main())
