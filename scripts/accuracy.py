#!/usr/bin/env python3
"""Measures what activations and rows of the KV cache cost in accuracy, and prints a table.

    scripts/accuracy.py [--hadal PROGRAM] [--acts LIST] [--kvs LIST] [--limit N] [-n N] [--rows N]
                        [--out FILE] MODEL...

For each model, each --act and each --kv, or those in the lists with commas (an act may be
`default`, what the checkpoint was made for):

  nll          mean negative logarithm of the probability of tests/golden/eval/text.txt (nats)
  kl           mean over positions of KL(p || q), p being with the same activations and f32 rows
  kl_exact     the same, p being with exact activations and f32 rows
  top1         share of positions where the likeliest token is that of exact, f32
  KIND, tasks  share of right answers among the first N (--limit) of each kind in
               tests/golden/eval/tasks.jsonl, and the mean of the kinds, answers of at most -n
               tokens (default 256); --limit 0 leaves them out

Positions are those of the text in pieces of --rows tokens (default 256), each read in one pass
from an empty sequence.  Needs numpy.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
EVAL = pathlib.Path("tests/golden/eval")
TEXT, TASKS = EVAL / "text.txt", EVAL / "tasks.jsonl"
ACTS = ["exact", "official", "nvfp4"]
KVS = ["f32", "bf16", "fp8", "nvfp4"]


def call(args, stdin=None):
    done = subprocess.run([str(a) for a in args], input=stdin, capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"accuracy: {' '.join(map(str, args))}: {done.stderr.decode().strip()}")
    return done.stdout.decode()


def read_logits(path):
    """Tensor `logits` of a safetensors file, as log probabilities in float64."""
    blob = path.read_bytes()
    n = int.from_bytes(blob[:8], "little")
    info = json.loads(blob[8:8 + n])["logits"]
    begin, end = info["data_offsets"]
    x = np.frombuffer(blob[8 + n + begin:8 + n + end], "<f4").reshape(info["shape"]).astype("f8")
    x -= x.max(axis=1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=1, keepdims=True))


class Model:
    def __init__(self, hadal, folder, rows):
        self.hadal, self.folder = hadal, folder
        ids = call([hadal, "tokens", folder, "--plain", "--ids"], TEXT.read_bytes()).split()
        ids = [i.strip(",") for i in ids]
        self.pieces = [ids[i:i + rows] for i in range(0, len(ids), rows)]

    def log_probs(self, act, kv):
        rows = []
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "trace.safetensors"
            for piece in self.pieces:
                call([self.hadal, "trace", self.folder, "--ids", ",".join(piece), "--dump", path,
                      "--act", act, "--kv", kv, "--quiet"])
                rows.append(read_logits(path))
        return np.concatenate(rows)

    def nll(self, act, kv):
        return json.loads(call([self.hadal, "eval", self.folder, "--text", TEXT, "--json",
                                "--act", act, "--kv", kv, "--quiet"]))["nll"]

    def tasks(self, act, kv, limit, most):
        if not limit:
            return {}
        got = json.loads(call([self.hadal, "eval", self.folder, "--tasks", TASKS, "--json",
                               "--limit", limit, "-n", most, "--act", act, "--kv", kv,
                               "--quiet"]))
        return {**{k["kind"]: k["share"] for k in got["kinds"]}, "tasks": got["mean"]}


def kl(p, q):
    return float((np.exp(p) * (p - q)).sum(axis=1).mean())


def measure(model, o):
    exact = model.log_probs("exact", "f32")
    for act in o.acts.split(","):
        f32 = exact if act == "exact" else model.log_probs(act, "f32")
        for kv in o.kvs.split(","):
            found = f32 if kv == "f32" else model.log_probs(act, kv)
            same = found.argmax(axis=1) == exact.argmax(axis=1)
            yield {"model": model.folder, "act": act, "kv": kv, "positions": len(found),
                   "nll": round(model.nll(act, kv), 5), "kl": f"{kl(f32, found):.2e}",
                   "kl_exact": f"{kl(exact, found):.2e}", "top1": round(float(same.mean()), 4),
                   **model.tasks(act, kv, o.limit, o.n)}


def show(value):
    return f"{value:.3f}" if isinstance(value, float) and value in (0.0, 1.0) else str(value)


def write(rows, out, command):
    columns = list(dict.fromkeys(k for row in rows for k in row))
    lines = [f"# {command}", ",".join(columns)]
    lines += [",".join(show(row.get(c, "")) for c in columns) for row in rows]
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if out:
        pathlib.Path(out).write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hadal", default="build/hadal")
    parser.add_argument("--acts", default=",".join(ACTS))
    parser.add_argument("--kvs", default=",".join(KVS))
    parser.add_argument("--limit", type=int, default=10)
    parser.add_argument("-n", type=int, default=256)
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--out")
    parser.add_argument("models", nargs="+")
    o = parser.parse_args()
    os.chdir(ROOT)
    rows = []
    for folder in o.models:
        for row in measure(Model(o.hadal, folder, o.rows), o):
            print(" ".join(f"{k}={show(v)}" for k, v in row.items()), file=sys.stderr, flush=True)
            rows.append(row)
    write(rows, o.out, f"scripts/accuracy.py --acts {o.acts} --kvs {o.kvs} --limit {o.limit} "
          f"-n {o.n} --rows {o.rows} " + " ".join(o.models))


if __name__ == "__main__":
    main()
