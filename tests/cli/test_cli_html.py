#!/usr/bin/env python3
"""`--html` of audit, trace, compare and quantize: pages that nest, point nowhere, hold what the JSON says, and
show the names of hostile files as text.
usage: test_cli_html.py [HADAL]"""
import html.parser
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
SCRATCH = pathlib.Path(tempfile.mkdtemp(prefix="hadal-html-"))
IDS = ["--ids", "0,2042,433,77,1012"]
TAGS = {"html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "p", "figure", "figcaption",
        "svg", "text", "rect", "line", "div", "table", "thead", "tbody", "tr", "th", "td"}
ATTRIBUTES = {"lang", "charset", "name", "content", "http-equiv", "class", "viewbox", "role",
              "aria-label", "x", "y", "x1", "x2", "y1", "y2", "width", "height"}


class Page(html.parser.HTMLParser):
    """Parses strictly: only tags that we write, closed in order."""

    def __init__(self, path):
        super().__init__(convert_charrefs=True)
        self.open, self.cells, self.rows, self.text, self.tags = [], [], [], "", []
        raw = path.read_bytes()
        self.raw = raw.decode("utf-8")  # strictly
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", self.raw)
        assert not re.search(r"(?i)https?://|url\(|@import|javascript:", self.raw), path
        self.feed(self.raw)
        self.close()
        assert self.open == [], self.open
        assert self.raw.startswith("<!DOCTYPE html>\n") and self.tags.count("h1") == 1

    def handle_starttag(self, tag, attributes):
        assert tag in TAGS, tag
        assert {a for a, _ in attributes} <= ATTRIBUTES, (tag, attributes)
        self.tags.append(tag)
        if tag == "meta":
            return
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, (tag, self.open)

    def handle_data(self, data):
        self.text += data
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data

    def count(self, tag):
        return self.tags.count(tag)


def page(verb, *args, status=0, out="page.html"):
    path = SCRATCH / out
    done = subprocess.run([HADAL, verb, *map(str, args), "--quiet", "--html", str(path)],
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=600)
    assert done.returncode == status and done.stderr == b"", (verb, args, done)
    return Page(path), done.stdout.decode()


def assert_numbers_match(row, wanted):
    assert abs(float(row) - wanted) <= 1e-3 * abs(wanted), (row, wanted)


def test_compare():
    shown, out = page("compare", DEMO, "--act-b", "exact", *IDS, "--json", status=1)
    result = json.loads(out)
    assert "They differ by more than 0.01." in shown.text
    assert f"first step with different values: {result['first_different']} " in shown.text
    worst = sorted((t for t in result["tensors"]), key=lambda t: -t["error"])[:10]
    for t in worst:
        [row] = [r for r in shown.rows if r[0] == t["tensor"] and len(r) == 3]
        assert_numbers_match(row[1], t["error"])
        assert all(k in row[2] for k in t["kernels"]), row
    # A cell for each tensor in the heat map, and its legend.
    assert shown.raw.count("<rect ") >= len(result["tensors"]) + 11
    by_layer = max(t["error"] for t in result["tensors"] if t["tensor"].startswith("L03."))
    [row] = [r for r in shown.rows if r[0] == "3" and len(r) == 3]
    assert_numbers_match(row[2], by_layer)
    assert shown.count("svg") == 4


def test_compare_equal():
    shown, _ = page("compare", DEMO, *IDS)
    assert "No difference above 0.01." in shown.text
    assert "first step with different values: none" in shown.text


def test_trace():
    shown, out = page("trace", DEMO, *IDS, "--json")
    result = json.loads(out)
    assert "All steps are finite." in shown.text
    assert f"Greedy next token: {result['greedy']}" in shown.text
    floats = [s for s in result["steps"] if "saturated" not in s and not s["operand"].startswith("id")]
    most = max(floats, key=lambda s: max(abs(s["min"]), abs(s["max"])))
    name = f"{most['step']}.{most['operand']}"
    row = next(r for r in shown.rows if r[0] == name)
    assert_numbers_match(row[1], max(abs(most["min"]), abs(most["max"])))


def changed(folder, name, raw):
    """A copy of the demo model with the first bytes of a tensor replaced."""
    shutil.copytree(DEMO, folder)
    for path in folder.glob("*.safetensors"):
        blob = bytearray(path.read_bytes())
        base = 8 + struct.unpack("<Q", blob[:8])[0]
        header = json.loads(blob[8:base])
        if name in header:
            at = base + header[name]["data_offsets"][0]
            blob[at:at + len(raw)] = raw
            path.write_bytes(blob)
            return folder
    raise AssertionError("no such tensor")


def test_trace_stops():
    """A tensor scale near the largest float: the product overflows."""
    folder = changed(SCRATCH / "huge", "model.layers.3.self_attn.o_b_proj.weight_scale_2",
                     struct.pack("<f", 1e38))
    shown, _ = page("trace", folder, *IDS, status=1)
    assert "A step left values that are not finite." in shown.text
    assert "step L03.o_b (gemm_nvfp4_" in shown.text and "of step L03.o_b_in" in shown.text
    assert next(r for r in shown.rows if r[0] == "L03.o_b.y")[1] == "inf"
    assert next(r for r in shown.rows if r[0] == "3" and len(r) == 3) == ["3", "o_b.y", "inf"]


def test_audit():
    shown, out = page("audit", DEMO, "--json")
    result = json.loads(out)
    assert "0 errors, 0 warnings" in shown.text
    for finding in result["findings"]:
        assert any(r[1:2] == [finding["kind"]] and r[3] == finding["message"] for r in shown.rows)
    # Every block scale above 0 is in one bin.
    bins = [int(r[1]) for r in shown.rows if len(r) == 2 and r[0].startswith("2^")]
    blocks = sum(g["blocks"] - g["zero"] for g in result["groups"])
    scales = sum(1 for g in result["groups"] for _ in range(g["n"]) if g["tensor_scale"])
    assert sum(bins) == blocks + scales, (sum(bins), blocks, scales)


def test_audit_against():
    other = changed(SCRATCH / "nan", "model.layers.2.input_layernorm.weight", b"\xc0\x7f")
    shown, out = page("audit", DEMO, "--against", other, "--json")
    worst = json.loads(out)["against"][0]
    assert worst["name"] == "layers.2.attn_norm.weight" and worst["error"] is None, worst
    assert next(r for r in shown.rows if r[0] == worst["name"])[1] == "inf"


HOSTILE = ["</title><script>alert(1)</script>", "\"><img src=x onerror=alert(1)>", "layers.3.</svg>&lt;",
           "\u202egnp.exe", "a\u0001b\u007fc\u0085d", "layers.0.'-->", "<!--", "]]>", "x" * 4000,
           "layers.1.\U0001F433"]


def test_hostile_names():
    folder = SCRATCH / "hostile"
    shutil.copytree(DEMO, folder)
    header = {name: {"dtype": "F32", "shape": [1], "data_offsets": [4 * i, 4 * i + 4]}
              for i, name in enumerate(HOSTILE)}
    text = json.dumps(header).encode()
    (folder / "model-00009-of-00009.safetensors").write_bytes(
        struct.pack("<Q", len(text)) + text + struct.pack(f"<{len(HOSTILE)}f", *[1e9] * len(HOSTILE)))
    index = folder / "model.safetensors.index.json"
    listed = json.loads(index.read_text())
    listed["weight_map"].update({n: "model-00009-of-00009.safetensors" for n in HOSTILE})
    index.write_text(json.dumps(listed))
    shown, _ = page("audit", folder, "--all", status=1)
    for name in HOSTILE[:3] + HOSTILE[5:8] + HOSTILE[9:]:
        assert any(name in cell for row in shown.rows for cell in row), name
    assert any("\ufffdgnp.exe" in cell for row in shown.rows for cell in row)
    # The same in a dump that is compared with itself.
    dump = folder / "model-00009-of-00009.safetensors"
    shown, _ = page("compare", dump, dump)
    assert "No difference" in shown.text
    assert any(HOSTILE[0] in cell for row in shown.rows for cell in row)


def test_quantize():
    target = SCRATCH / "quantized"
    shown, out = page("quantize", ROOT / "tests" / "models" / "tiny512-official", target, "--to", "nvfp4", "--json")
    result = json.loads(out)
    [made] = [c for c in result["converted"] if c["from"] == "FP8"]
    assert f"{made['n']} matrices FP8" in shown.text and "Against the other checkpoint" in shown.text
    worst = result["worst"][0]
    [row] = [r for r in shown.rows if r[0] == worst["matrix"] and len(r) >= 2][:1]
    assert_numbers_match(row[1], worst["error"])
    assert shown.count("svg") >= 4
    assert target.is_dir() and not (SCRATCH / "quantized.part").exists()


def refused(*args, says, status=1):
    done = subprocess.run([HADAL, *map(str, args), "--quiet"], stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=600)
    err = done.stderr.decode()
    assert done.returncode == status and err.count("\n") == 1 and says in err, (args, done)


def test_refusals():
    nowhere = SCRATCH / "nowhere" / "page.html"
    for verb, args in (("audit", []), ("trace", IDS), ("compare", IDS)):
        refused(verb, DEMO, *args, "--html", nowhere, says="nowhere")
    refused("trace", DEMO, *IDS, "--html", "x", "--dump", "y", says="--dump writes a file, not --html",
            status=2)
    assert not nowhere.parent.exists()


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(suite.run(globals(), SCRATCH))
