#!/usr/bin/env python3
"""`hadal compare`: two runs, a run and a file, two files; where they are equal nothing differs, and
where one was changed the first step that differs is the changed one.
usage: test_cli_compare.py [HADAL]"""
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
SCRATCH = pathlib.Path(tempfile.mkdtemp(prefix="hadal-compare-"))
IDS = ["--ids", "0,2042,433,77,1012"]


def hadal(*args):
    done = subprocess.run([HADAL, *map(str, args)], stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=600)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def compare(*args):
    status, out, err = hadal("compare", *args, "--json", "--quiet")
    assert err == "" and status in (0, 1), (args, status, err)
    result = json.loads(out)
    assert (status == 1) == (result["first_above_tolerance"] is not None), result
    return result


def refused(*args, says, status=1):
    got, out, err = hadal("compare", *args, "--quiet")
    assert got == status and out == "" and err.count("\n") == 1 and says in err, (args, got, err)


def dump(name, model, *args):
    path = SCRATCH / name
    status, _, err = hadal("trace", model, *args, "--quiet", "--dump", path)
    assert status == 0, err
    return path


def row(result, tensor):
    return next(t for t in result["tensors"] if t["tensor"] == tensor)


def assert_equal(result):
    assert result["first_different"] is None and result["first_above_tolerance"] is None, result
    assert all(t["different"] == 0 and t["error"] == 0 for t in result["tensors"])


class Header:
    """A safetensors file that can be changed."""

    def __init__(self, path):
        self.path, self.blob = path, bytearray(path.read_bytes())
        self.base = 8 + struct.unpack("<Q", self.blob[:8])[0]
        self.tensors = json.loads(self.blob[8:self.base])

    def floats(self, name):
        begin, end = (self.base + o for o in self.tensors[name]["data_offsets"])
        return list(struct.unpack(f"<{(end - begin) // 4}f", self.blob[begin:end])), begin

    def set(self, name, at, value):
        begin = self.base + self.tensors[name]["data_offsets"][0] + 4 * at
        self.blob[begin:begin + 4] = struct.pack("<f", value)

    def write(self, path):
        path.write_bytes(self.blob)
        return path


def spoiled(model, name, factor):
    """A copy of a model with a scalar multiplied."""
    folder = SCRATCH / "spoiled"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(model, folder)
    for path in folder.glob("*.safetensors"):
        f = Header(path)
        if name in f.tensors:
            f.set(name, 0, f.floats(name)[0][0] * factor)
            f.write(path)
            return folder
    raise AssertionError(name)


# ---- equal sides --------------------------------------------------------------------------


def test_a_run_equals_itself():
    """Two runs at the same time, a run and its file both ways round, two files."""
    a, b = dump("a.safetensors", DEMO, *IDS), dump("b.safetensors", DEMO, *IDS)
    assert a.read_bytes() == b.read_bytes()
    live = compare(DEMO, *IDS)
    assert_equal(live)
    assert live["only_a"] == live["only_b"] == live["misfits"] == 0
    for sides in ((DEMO, a), (a, DEMO), (a, b)):
        result = compare(*sides)
        assert_equal(result)
        assert result["misfits"] == 0
        # Files also hold the streams, which no single step leaves.
        names = {t["tensor"] for t in result["tensors"]} - {"streams"}
        assert names == {t["tensor"] for t in live["tensors"]}, sides
        assert row(result, "L01.kv.y")["kernels"] == row(live, "L01.kv.y")["kernels"]
    assert row(live, "logits")["kl_max"] == 0 and row(live, "mtp.logits")["top1"] == 1


def test_formats_of_equal_values():
    """Other kernels, the same values: in exact mode the bits are the same."""
    subprocess.run([sys.executable, "scripts/make_families.py", "build/families"], cwd=ROOT,
                   check=True)
    result = compare(OFFICIAL, ROOT / "build/families/nvfp4-official", "--act", "exact", *IDS)
    assert_equal(result)
    a, b = row(result, "L01.w1_w3.y")["kernels"]
    assert a.startswith("grouped_gemm_mxfp4") and b.startswith("grouped_gemm_nvfp4")


# ---- sides that differ --------------------------------------------------------------------


def test_changed_checkpoint():
    """One scale twice as large: cosine 1 at its matrix, so error and ratio must tell."""
    folder = spoiled(DEMO, "model.layers.2.self_attn.o_b_proj.weight_scale_2", 2)
    result = compare(folder, DEMO, *IDS)
    assert result["first_different"] == result["first_above_tolerance"] == "L02.o_b.y", result
    first = row(result, "L02.o_b.y")
    assert abs(first["error"] - 1) < 1e-6 and abs(first["ratio"] - 2) < 1e-6, first
    assert first["cosine"] > 1 - 1e-9 and first["row_error"] >= first["error"] - 1e-9
    before = [t["tensor"] for t in result["tensors"]].index("L02.o_b.y")
    assert before > 50 and all(t["different"] == 0 for t in result["tensors"][:before])
    assert row(result, "logits")["kl_mean"] > 0


def test_activation_modes():
    result = compare(DEMO, "--act", "nvfp4", "--act-b", "exact", *IDS)
    assert result["first_different"] == "L00.comp_kv.y", result["first_different"]
    assert result["only_a"] > 100 and result["only_b"] == 0  # the roundings
    assert 0 < row(result, "logits")["kl_mean"] < 0.01


def test_cache_formats():
    result = compare(DEMO, "--act", "exact", "--kv-b", "fp8", *IDS)
    assert result["first_different"] == "L00.attn.y", result["first_different"]
    assert row(result, "L00.kv_rope.x")["different"] == 0


def test_changed_file():
    """One value of one row, also against a run: its place and both values are told."""
    path = dump("whole.safetensors", DEMO, *IDS)
    f = Header(path)
    values, _ = f.floats("L03.kv.y")
    width = f.tensors["L03.kv.y"]["shape"][1]
    f.set("L03.kv.y", 2 * width + 7, values[2 * width + 7] + 100)
    changed = f.write(SCRATCH / "changed.safetensors")
    for sides in ((changed, path), (changed, DEMO)):
        result = compare(*sides)
        hit = row(result, "L03.kv.y")
        assert result["first_different"] == "L03.kv.y" and hit["different"] == 1, hit
        assert hit["worst_at"] == [2, 7] and hit["worst_row"] == 2, hit
        assert abs(hit["worst_a"] - hit["worst_b"] - 100) < 1e-4, hit
    f.set("L03.kv.y", 0, float("nan"))
    hit = row(compare(f.write(changed), DEMO), "L03.kv.y")
    assert hit["bad"] == [1, 0] and hit["error"] is None, hit


def test_files_of_other_programs():
    """Names as ours, no metadata, other shapes and precision, in any order."""
    f = Header(dump("ours.safetensors", DEMO, *IDS))
    names = ["logits", "L04.attn_norm.y", "L01.hc_ffn_post.s"]
    header, data = {}, b""
    for name in names:
        values, _ = f.floats(name)
        raw = struct.pack(f"<{len(values)}e", *values) if name != "logits" else \
            struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32" if name == "logits" else "F16", "shape": [len(values)]
                        if name == "L01.hc_ffn_post.s" else f.tensors[name]["shape"],
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    other = SCRATCH / "other.safetensors"
    other.write_bytes(struct.pack("<Q", len(text)) + text + data)
    result = compare(DEMO, other, *IDS)
    assert [t["tensor"] for t in result["tensors"]] == names[::-1][:1] + names[1:2] + names[:1]
    assert row(result, "logits")["error"] == 0
    assert 0 < row(result, "L04.attn_norm.y")["error"] < 1e-3  # halves have 11 bits
    assert result["first_above_tolerance"] is None and result["only_a"] > 400
    refused(DEMO, other, says="its metadata has no `ids`")


# ---- the report ---------------------------------------------------------------------------


def test_text():
    status, out, err = hadal("compare", DEMO, "--act-b", "exact", "--quiet", *IDS)
    assert status == 1 and err == ""
    assert re.search(r"^A: .*models/demo, live, activations nvfp4, KV f32$", out, re.M), out
    assert len(re.findall(r"^L0\d +L0\d\.hc_ffn_post\.s ", out, re.M)) == 6
    assert re.search(r"^first step with different values: L00\.comp_kv\.y \(gemm_nvfp4_\w+ \| "
                     r"gemm_nvfp4_\w+\), relative error 0\.\d+, \d+ of 640 values, the first at "
                     r"\[0, 0\], row \d worst with 0\.\d+$", out, re.M), out
    assert re.search(r"^logits: KL divergence \S+ nats, at most \S+ in row \d; the same best token "
                     r"in \d+\.\d\d % of rows", out, re.M), out
    assert "\nthe worst\n" in out
    steps = hadal("compare", DEMO, "--quiet", "--all", "--steps", "L0[12].kv", *IDS)[1]
    assert re.findall(r"^(L\S+) +0 +1\.0+ ", steps, re.M) == ["L01.kv.y", "L02.kv.y"]
    assert "2 tensors on both sides, 0 only on A's, 0 only on B's" in steps


def test_tolerance():
    args = (DEMO, "--act-b", "exact", "--quiet", *IDS)
    assert hadal("compare", *args, "--tolerance", "1")[0] == 0
    assert hadal("compare", *args, "--tolerance", "0.001")[0] == 1
    assert hadal("compare", *args, "--steps", "logits", "--tolerance", "0.1")[0] == 0


def test_prompts():
    """-p on both sides; a file brings its own tokens."""
    path = dump("prompt.safetensors", DEMO, "-p", "What is the capital of France?")
    assert_equal(compare(DEMO, path))
    assert_equal(compare(DEMO, path, "-p", "What is the capital of France?"))
    assert row(compare(DEMO, path, "--steps", "logits"), "logits")["different"] == 0


def test_refusals():
    path = dump("five.safetensors", DEMO, *IDS)
    refused(DEMO, path, "--ids", "1,2", says="nothing fits")
    refused(DEMO, *IDS, "--steps", "L99.*", says="no tensor is on both sides that fits L99.*")
    refused(DEMO, SCRATCH / "none.safetensors", *IDS, says="none.safetensors")
    refused(DEMO, SCRATCH / "nowhere", *IDS, says="nowhere")
    refused(DEMO, "--ids", "0,99999", says="id 99999")
    (SCRATCH / "bad.safetensors").write_bytes(b"\xff" * 64)
    refused(DEMO, SCRATCH / "bad.safetensors", *IDS, says="bad.safetensors")
    refused(path, says="no B given", status=2)
    refused(path, path, *IDS, says="no prompt is wanted", status=2)
    refused(DEMO, DEMO, DEMO, *IDS, says="one too many", status=2)
    refused(says="no A given", status=2)
    refused(DEMO, *IDS, "-p", "x", says="--ids is the whole prompt", status=2)
    refused(DEMO, *IDS, "--act-b", "w8", says="wanted one of", status=2)


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(suite.run(globals(), SCRATCH))
