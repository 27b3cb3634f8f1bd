#!/usr/bin/env python3
"""`hadal bench`: rows have the numbers that they promise, and bad requests end before anything is
measured.  How fast something is, is not judged here.
usage: test_cli_bench.py [HADAL]"""
import csv
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/support"))
import suite  # behind the path
HADAL = str(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/hadal").resolve())
DEMO = ROOT / "models/demo"
SCRATCH = pathlib.Path(tempfile.mkdtemp(prefix="hadal-bench-"))
FIELDS = {"name", "op", "kernel", "shape", "tokens", "median_us", "bytes", "gb_s", "read_pct", "gflop_s",
          "peak_pct", "tokens_per_s"}
SMALL = ["--op", "rmsnorm,router,hc_post", "--context", "512", "--threads", "2", "--quiet"]


def hadal(*args):
    done = subprocess.run([HADAL, "bench", *map(str, args)], stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=900)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def bench(*args):
    status, out, err = hadal(*args, "--json")
    assert status == 0 and err == "", (args, err)
    result = json.loads(out)
    assert all(set(row) == FIELDS for row in result["rows"]), result
    return result


def near(a, b, share=1e-3):
    return abs(a - b) <= share * abs(b)


def test_kernels():
    result = bench("kernels", *SMALL, "--tokens", 3)
    machine, rows = result["machine"], {row["op"]: row for row in result["rows"]}
    assert result["bench"] == "kernels" and machine["name"] == "host" and machine["threads"] == 2, machine
    assert machine["read_gb_s"] > 0 and machine["handover_us"] > 0, machine
    assert set(rows) == {"rmsnorm", "router", "hc_post"}, rows
    norm = rows["rmsnorm"]
    assert norm["tokens"] == 3 and norm["shape"] == "3 x 4096", norm
    assert norm["bytes"] == (3 * 2 + 1) * 4096 * 4, norm
    assert near(norm["gb_s"], norm["bytes"] / norm["median_us"] / 1e3), norm
    assert norm["read_pct"] > 0 and norm["gflop_s"] is None and norm["peak_pct"] is None, norm


def test_products():
    rows = bench("kernels", "--op", "gemm_bf16", "--quiet", "--threads", 1)["rows"]
    square = next(row for row in rows if row["shape"] == "4096 x 4096")
    assert square["bytes"] == 4096 * 4096 * 2 + 2 * 4096 * 4, square
    assert near(square["gflop_s"], 2 * 4096 * 4096 / square["median_us"] / 1e3), square
    assert square["kernel"].startswith("gemm_bf16_"), square


def test_chosen_kernels():
    rows = bench("kernels", *SMALL, "--isa", "ref")["rows"]
    assert rows and all(row["kernel"].endswith("_ref") for row in rows), rows


def test_engine():
    result = bench("engine", DEMO, "--context", 512, "--quiet")
    rows = result["rows"]
    assert [row["name"] for row in rows] == [f"{op} {n - 5 * (op == 'prefill')}" for n in (128, 256, 512)
                                             for op in ("prefill", "decode")], rows
    assert all(row["tokens_per_s"] > 0 and row["bytes"] is None for row in rows), rows
    assert all(near(row["tokens_per_s"], row["tokens"] / row["median_us"] * 1e6) for row in rows), rows


def test_layer():
    """Each kind of compression has its steps; what they read is what the whole reads, and its parts."""
    result = bench("layer", "--family", "nvfp4", "--context", 512, "--quiet")
    rows = [row for row in result["rows"] if row["op"] == "layer"]
    assert [row["name"] for row in rows] == [f"nvfp4 r{r} {part}" for r in (0, 4, 128)
                                             for part in ("attention", "ffn", "layer")], rows
    wholes = rows[2::3]
    for whole, parts in zip(wholes, (rows[i:i + 2] for i in (0, 3, 6))):
        kind = whole["name"].rsplit(" ", 1)[0] + " "
        steps = [row for row in result["rows"] if row["name"].startswith(kind) and row["op"] != "layer"]
        assert near(sum(row["bytes"] for row in steps), whole["bytes"], 1e-4), whole
        assert near(sum(row["bytes"] for row in parts), whole["bytes"], 1e-4), parts
        names = {row["name"][len(kind):] for row in steps}
        assert {"q_a", "attn", "router", "w1_w3", "w2", "moe_sum", "hc_ffn_post"} <= names, names
        assert ("index_topk" in names) == (" r4 " in kind) and ("comp_pool" in names) == (" r0 " not in kind)
    # Six experts of three matrices, of four bits and a scale for 16: most of what is read.
    assert 6 * 3 * 4096 * 2048 * 9 / 16 < wholes[0]["bytes"] < 200e6, wholes[0]


def test_contexts():
    """Whole layers, each kind at every context up to the one asked for, and a curve for each kind."""
    path = SCRATCH / "contexts.svg"
    result = bench("contexts", "--family", "nvfp4", "--context", 2048, "--quiet", "--svg", path)
    rows = [(row["name"], row["shape"]) for row in result["rows"]]
    assert rows == [(f"nvfp4 r{r} layer", f"flash at {n}") for r in (0, 4, 128) for n in (1024, 2048)], rows
    read = {(row["name"], row["shape"]): row["bytes"] for row in result["rows"]}
    assert read["nvfp4 r4 layer", "flash at 2048"] > read["nvfp4 r4 layer", "flash at 1024"], read
    svg = xml.etree.ElementTree.parse(path).getroot()
    path.unlink()
    curves = [e.get("points").split() for e in svg if e.tag.endswith("polyline")]
    assert [len(points) for points in curves] == [2, 2, 2], curves


def test_table_and_csv():
    status, out, err = hadal("kernels", *SMALL)
    lines = out.splitlines()
    assert status == 0 and re.match(r"host, kernels ref\S*, 2 threads; reads \d+\.\d GB/s", lines[0]), out
    assert lines[1].split()[:5] == ["what", "kernel", "shape", "t", "us"] and len(lines) == 5, out
    status, out, _ = hadal("kernels", *SMALL, "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert status == 0 and len(rows) == 3 and set(rows[0]) == FIELDS, out
    assert all(float(row["median_us"]) > 0 and row["gflop_s"] == "" for row in rows), rows


def test_pictures():
    for what, marks in (("kernels", 3), ("engine", 6)):
        path = SCRATCH / f"{what}.svg"
        args = SMALL if what == "kernels" else [DEMO, "--context", "512", "--quiet"]
        assert hadal(what, *args, "--svg", path)[0] == 0
        svg = xml.etree.ElementTree.parse(path).getroot()
        bars = [e for e in svg if e.tag.endswith("rect")][1:]
        assert len(bars) == marks and max(float(e.get("width")) for e in bars) == 500, path.read_text()
    assert sorted(p.name for p in SCRATCH.iterdir()) == ["engine.svg", "kernels.svg"]


def test_refusals():
    for args, says in (((), "what to measure"), (("speed",), "'speed'"), (("engine",), "MODEL"),
                       (("kernels", DEMO), "only engine"), (("kernels", "--tokens", 0), "--tokens"),
                       (("kernels", "--context", 511), "--context"), (("layer", "--shape", "huge"), "--shape"),
                       (("kernels", "--json", "--csv"), "exclude")):
        status, out, err = hadal(*args)
        assert status == 2 and out == "" and says in err and "hadal help bench" in err, (args, err)
    for args, says in ((("kernels", "--op", "gemm_int3"), "'gemm_int3' is none"),
                       (("kernels", "--op", "rmsnorm,"), "'' is none"), (("kernels", "--op", ""), "'' is none"),
                       (("layer", "--family", "nvfp4,int8"), "'int8' is none"),
                       (("layer", "--tokens", 513, "--context", 512), "do not fit"),
                       (("engine", SCRATCH / "nothing"), "nothing"),
                       (("kernels", *SMALL, "--svg", SCRATCH / "no/where.svg"), "no/where.svg")):
        status, out, err = hadal(*args)
        assert status == 1 and out == "" and err.startswith("hadal: ") and says in err, (args, err)
        assert err.count("\n") == 1, err


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(suite.run(globals(), SCRATCH))
