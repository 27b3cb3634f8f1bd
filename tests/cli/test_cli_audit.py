#!/usr/bin/env python3
"""`hadal audit`: healthy checkpoints of all families raise no alarm, and every fault planted into
one is found under its own name.  usage: test_cli_audit.py [HADAL]

Faults that users of other engines met (LOAD, NUM: the cases that tests of this project carry) are
in PLANTS; those that do not live in a checkpoint are tested where they do."""
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
NVFP4 = ROOT / "tests/models/tiny512-nvfp4"  # one shard, Hugging Face names
OFFICIAL = ROOT / "tests/models/tiny512-official"  # four shards, FP8 and MXFP4
SCRATCH = pathlib.Path(tempfile.mkdtemp(prefix="hadal-audit-"))
WIDTH = {"I8": 1, "U8": 1, "F8_E4M3": 1, "F8_E8M0": 1, "BF16": 2, "F16": 2, "F32": 4, "I64": 8}


def hadal(*args):
    done = subprocess.run([HADAL, *map(str, args)], stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=600)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def audit(folder, *args):
    """Exit status and the JSON object; nothing may come on standard error."""
    status, out, err = hadal("audit", folder, "--json", "--quiet", *args)
    assert err == "", (folder, err)
    assert out.count("\n") == 1, out
    return status, json.loads(out)


def found(result, severity=None, kind=None, tensor=None):
    return [f for f in result["findings"]
            if (severity in (None, f["severity"])) and (kind in (None, f["kind"])) and
            (tensor in (None, f["tensor"]))]


def loader_says(folder):
    """What an engine says about the folder; None when it opens it, whatever it answers then."""
    status, _, err = hadal("run", folder, "--raw", "-p", "a", "-n", "1", "--quiet")
    return None if status == 0 or "no token can be drawn" in err else err


# ---- checkpoints to plant faults in -------------------------------------------------------


class Folder:
    """Tensors of a model folder by name: [dtype, shape, bytes], and the shard of each."""

    def __init__(self, source):
        self.source, self.tensors, self.shard = source, {}, {}
        self.config = json.loads((source / "config.json").read_text())
        self.index, self.texts = True, {}
        for path in sorted(source.glob("*.safetensors")):
            blob = path.read_bytes()
            n = int.from_bytes(blob[:8], "little")
            for name, t in json.loads(blob[8:8 + n]).items():
                if name == "__metadata__":
                    continue
                begin, end = t["data_offsets"]
                self.tensors[name] = [t["dtype"], t["shape"],
                                      bytearray(blob[8 + n + begin:8 + n + end])]
                self.shard[name] = path.name

    def put(self, name, dtype, shape, data, like=None):
        self.tensors[name] = [dtype, list(shape), bytearray(data)]
        self.shard[name] = self.shard[like] if like else self.shard.get(name, self.some_shard())

    def some_shard(self):
        return min(self.shard.values())

    def drop(self, pattern):
        names = [n for n in self.tensors if re.search(pattern, n)]
        assert names, pattern
        for name in names:
            del self.tensors[name], self.shard[name]

    def data(self, name):
        return self.tensors[name][2]

    def set_float(self, name, value):
        assert self.tensors[name][0] == "F32"
        struct.pack_into("<f", self.data(name), 0, value)

    def float(self, name):
        return struct.unpack_from("<f", self.data(name))[0]

    def write(self, name):
        to = SCRATCH / name
        shutil.rmtree(to, ignore_errors=True)
        to.mkdir()
        for path in self.source.iterdir():
            if path.name not in ("config.json", "model.safetensors.index.json") and \
                    not path.name.endswith(".safetensors"):
                shutil.copy(path, to)
        (to / "config.json").write_text(json.dumps(self.config))
        for name, text in self.texts.items():
            (to / name).write_text(text)
        for shard in sorted(set(self.shard.values())):
            names = sorted((n for n in self.tensors if self.shard[n] == shard),
                           key=lambda n: -WIDTH[self.tensors[n][0]])
            header, at = {}, 0
            for n in names:
                dtype, shape, data = self.tensors[n]
                header[n] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
                at += len(data)
            text = json.dumps(header).encode()
            with open(to / shard, "wb") as f:
                f.write(len(text).to_bytes(8, "little") + text)
                for n in names:
                    f.write(self.data(n))
        if self.index and len(set(self.shard.values())) > 1:
            (to / "model.safetensors.index.json").write_text(
                json.dumps({"weight_map": self.shard}))
        return to


EXPERT = "model.layers.2.mlp.experts.3.gate_proj"  # of tiny512-nvfp4
UP = EXPERT.replace("gate_proj", "up_proj")
DENSE = "layers.1.attn.wq_b"  # of tiny512-official
MXFP4 = "layers.3.ffn.experts.6.w2"


def set_byte(name, at, value):
    def plant(f):
        f.data(name)[at] = value
    return plant


def set_float(name, value):
    return lambda f: f.set_float(name, value)


def drop(pattern):
    return lambda f: f.drop(pattern)


def rewrite(name, dtype, shape, make):
    def plant(f):
        f.put(name, dtype, shape, make(f.data(name)))
    return plant


def set_config(**keys):
    return lambda f: f.config.update(keys)


def fp8_codes(f):
    """Labelled NVFP4, holds FP8."""
    n, k = f.tensors[EXPERT + ".weight"][1]
    f.put(EXPERT + ".weight", "F8_E4M3", [n, 2 * k], bytes(2 * n * k))


def padded_scales(f):
    n, k = f.tensors[EXPERT + ".weight_scale"][1]
    old = f.data(EXPERT + ".weight_scale")
    rows = b"".join(bytes(old[r * k:(r + 1) * k]) + b"\x7f\x7f\x7f" for r in range(n))
    f.put(EXPERT + ".weight_scale", "F8_E4M3", [n, k + 3], rows)


def odd_columns(f):
    """A row of codes that is no whole number of blocks."""
    n, k = f.tensors[EXPERT + ".weight"][1]
    f.put(EXPERT + ".weight", "U8", [n, k - 4], bytes(n * (k - 4)))


def bf16_scalar(f):
    f.put(EXPERT + ".weight_scale_2", "BF16", [], f.data(EXPERT + ".weight_scale_2")[2:4])


def uneven_scales(f):
    """FP8 scales in F32 with mantissa bits, under a config that says powers of two."""
    shape = f.tensors[DENSE + ".scale"][1]
    values = [0.01] * (shape[0] * shape[1])
    f.put(DENSE + ".scale", "F32", shape, struct.pack(f"<{len(values)}f", *values))


def other_draft_index(f):
    for name in [n for n in f.tensors if n.startswith("mtp.0.")]:
        f.put(name.replace("mtp.0.", "mtp.4."), *f.tensors[name], like=name)
    f.drop(r"^mtp\.0\.")


def all_blocks(name, value):
    def plant(f):
        f.data(name)[:] = bytes([value]) * len(f.data(name))
    return plant


def two_places(f):
    f.put("model.layers.1.attn_norm.weight", *f.tensors["layers.1.attn_norm.weight"],
          like="head.weight")


def torn(f):
    f.shard[DENSE + ".scale"] = next(s for s in sorted(f.shard.values(), reverse=True)
                                     if s != f.shard[DENSE + ".weight"])


def wide_scales(f):
    f.data(MXFP4 + ".scale")[0] = 100
    f.data(MXFP4 + ".scale")[1] = 127


def small_input(f):
    f.set_float(EXPERT + ".input_scale", f.float(EXPERT + ".input_scale") * 1e-5)


def quantized_list(f):
    f.config["quantization_config"] = {
        "quant_method": "fp8", "moe_quant_algo": "NVFP4",
        "quantized_layers": {"layers.1.ffn.experts": {"quant_algo": "NVFP4"}}}


def ignored(*modules):
    def plant(f):
        f.config["quantization_config"]["ignore"] = ["lm_head", "re:.*norm.*", "model", "", ".", "x" * 600,
                                                       7, None, *modules]
    return plant


def quant_config(**keys):
    """hf_quant_config.json beside a healthy config.json."""
    return lambda f: f.texts.update({"hf_quant_config.json": json.dumps({"quantization": keys})})


def groups(target, **weights):
    """What compressed-tensors calls a group."""
    def plant(f):
        f.config["quantization_config"] = {
            "quant_method": "compressed-tensors", "ignore": ["re:.*wkv$"], "config_groups": {"g": {
                "targets": [target, "Linear", 7],
                "weights": {"type": "float", "strategy": "block", **weights}}}}
    return plant


def name_too_long(f):
    f.put("x" * 600, "F32", [1], bytes(4))


def not_finite(name, at, value):
    def plant(f):
        struct.pack_into("<f" if f.tensors[name][0] == "F32" else "<H", f.data(name), at, value)
    return plant


# name: (source, planting, what must be found: severity, kind, tensor, part of the message,
#        whether an engine refuses to load it)
PLANTS = {
    "LOAD-01": (NVFP4, drop(re.escape(EXPERT) + ".input_scale"), "error", "input-scale",
                "layers.2.ffn.experts.3.w1", "lacks its input_scale, 7 of 8", True),
    "LOAD-02": (NVFP4, drop(r"input_scale$"), "note", "input-scale", None,
                "142 of 142 NVFP4 matrices have no input_scale", False),
    "LOAD-04": (NVFP4, drop(re.escape(EXPERT) + ".weight_scale_2"), "error", "missing",
                "layers.2.ffn.experts.3.w1.weight_scale_2", "wanted F32", True),
    "LOAD-05": (NVFP4, set_float(EXPERT + ".weight_scale_2", 2.0**-2), "note", "gate-up",
                "layers.2.ffn.experts.3.w1", "times apart", False),
    "LOAD-06": (NVFP4, set_float("model.layers.1.self_attn.kv_proj.weight_scale_2", 2.0**-4),
                "note", "q-kv", "layers.1.attn.wq_a", "times apart", False),
    "LOAD-08": (NVFP4, set_float(EXPERT + ".weight_scale_2", 2048), "warning", "tensor-scale",
                EXPERT + ".weight_scale_2", "is it a reciprocal", False),
    "LOAD-10": (NVFP4, fp8_codes, "error", "shape", EXPERT + ".weight", "wanted U8", True),
    "LOAD-12": (OFFICIAL, other_draft_index, "error", "extra", "mtp.4.attn.wq_a.weight",
                "wanted none", True),
    "LOAD-13": (NVFP4, odd_columns, "error", "shape", EXPERT + ".weight", "wanted U8", True),
    "LOAD-14": (OFFICIAL, set_byte(MXFP4 + ".scale", 77, 0xFF), "error", "scale-nan",
                MXFP4 + ".scale", "the first is number 77", True),
    "LOAD-17": (OFFICIAL, drop(r"layers\.3\.ffn\.gate\.bias"), "error", "missing",
                "layers.3.ffn.gate.bias", "is missing", True),
    "LOAD-20": (OFFICIAL, set_config(expert_dtype="fp8"), "warning", "config-says",
                "layers.0.ffn.experts.0.w1", "expert_dtype", False),
    "NUM-01 codes": (OFFICIAL, set_byte(DENSE + ".scale", 3, 0xFF), "error", "scale-nan",
                     DENSE + ".scale", "the first is number 3", True),
    "NUM-01 scales": (OFFICIAL, uneven_scales, "warning", "config-says", DENSE + ".scale",
                      "no powers of two", False),
    "NUM-02": (NVFP4, bf16_scalar, "note", "tensor-scale-dtype", EXPERT + ".weight_scale_2",
               "BF16", False),
    "NUM-04": (NVFP4, padded_scales, "error", "shape", EXPERT + ".weight_scale", "wanted F8_E4M3",
               True),
    "NUM-05 denormal": (NVFP4, set_float(EXPERT + ".input_scale", 1e-42), "error", "input-scale",
                        EXPERT + ".input_scale", "1.0", True),
    "NUM-05 zero": (NVFP4, set_float(EXPERT + ".input_scale", 0), "error", "input-scale",
                    EXPERT + ".input_scale", " is 0", True),
    "NUM-05 inf": (NVFP4, set_float(EXPERT + ".input_scale", float("inf")), "error",
                   "input-scale", EXPERT + ".input_scale", "inf", True),
    "NUM-05 nan": (NVFP4, set_float(EXPERT + ".weight_scale_2", float("nan")), "error",
                   "tensor-scale", EXPERT + ".weight_scale_2", "nan", True),
    "NUM-13": (OFFICIAL, set_byte("layers.0.ffn.gate.tid2eid", 8 * 10, 99), "error", "table",
               "layers.0.ffn.gate.tid2eid", "the first is number 10", True),
    "a small input": (NVFP4, small_input, "warning", "input-scale", "layers.2.ffn.experts.3.w1",
                      "neighbours' median", False),
    "NaN block scale": (NVFP4, set_byte(EXPERT + ".weight_scale", 500, 0x7F), "error",
                        "scale-nan", EXPERT + ".weight_scale", "1 of 1024", True),
    "negative block scale": (NVFP4, set_byte(EXPERT + ".weight_scale", 9, 0x90), "error",
                             "scale-negative", EXPERT + ".weight_scale", "number 9", True),
    "zero block scale": (NVFP4, set_byte(EXPERT + ".weight_scale", 1000, 0), "warning",
                         "scale-zero", EXPERT + ".weight_scale", "number 1000", False),
    "denormal block scale": (NVFP4, set_byte(EXPERT + ".weight_scale", 4, 3), "note",
                             "scale-denormal", EXPERT + ".weight_scale", "number 4", False),
    "saturated blocks": (NVFP4, all_blocks(EXPERT + ".weight_scale", 0x7E), "warning",
                         "scale-saturated", EXPERT + ".weight_scale", "448", False),
    "NaN code": (OFFICIAL, set_byte(DENSE + ".weight", 70000, 0xFF), "error", "nan",
                 DENSE + ".weight", "the first is number 70000", False),
    "infinite BF16": (OFFICIAL, not_finite("embed.weight", 2 * 777, 0x7F80), "error", "nan",
                      "embed.weight", "the first is number 777", False),
    "NaN in F32": (OFFICIAL, not_finite("layers.1.attn.attn_sink", 4, float("nan")), "error",
                   "nan", "layers.1.attn.attn_sink", "the first is number 1", True),
    "all zero": (NVFP4, all_blocks(EXPERT + ".weight", 0x88), "warning", "zero",
                 EXPERT + ".weight", "weights are 0", False),
    "two places": (OFFICIAL, two_places, "error", "duplicate", None, "is there twice", True),
    "scales apart": (OFFICIAL, torn, "note", "torn", "layers.1.attn.wq_b", "1 matrix", False),
    "MXFP4 too wide": (OFFICIAL, wide_scales, "note", "exact", MXFP4, "cannot hold it", False),
    "layer list": (OFFICIAL, quantized_list, "warning", "config-says", "layers.1.ffn.experts",
                   "quantized_layers", False),
    "an ignored module": (NVFP4, ignored("model.layers.1.self_attn.q_a_proj"), "warning",
                          "config-says", "model.layers.1.self_attn.q_a_proj", "not quantized",
                          False),
    "ignored modules": (NVFP4, ignored("*.experts.*"), "warning", "config-says",
                        "layers.0.ffn.experts.0.w1", "not quantized", False),
    "ignored by expression": (NVFP4, ignored(r"re:.*experts\.\d+\.up_proj$"), "warning", "config-says",
                              "layers.0.ffn.experts.0.w3", "not quantized (ignore)", False),
    "official spelling": (NVFP4, ignored(r"re:layers\.2\.attn\.wq_[ab]"), "warning",
                          "config-says", "layers.2.attn.wq_a", "not quantized (ignore)", False),
    "an unknown expression": (NVFP4, ignored(r"re:(?!lm_head).*"), "note", "config-says", None,
                              "an expression that is not read here", False),
    "a group of FP8": (NVFP4, groups(r"re:.*self_attn.*(q|kv)_[ab_]*proj$", num_bits=8,
                                     group_size=None), "warning", "config-says",
                       "layers.0.attn.wq_a", "are FP8 (config_groups)", False),
    "a group of NVFP4": (OFFICIAL, groups(r"re:.*experts\.\d+\.w[123]$", num_bits=4, group_size=16),
                         "warning", "config-says", "layers.0.ffn.experts.0.w1",
                         "are NVFP4 (config_groups), yet 120 are not", False),
    "hf_quant_config: nothing is": (OFFICIAL, quant_config(quant_algo="NVFP4"), "warning",
                                    "config-says", None,
                                    'hf_quant_config.json says quant_algo "NVFP4", yet no', False),
    "hf_quant_config: layers": (OFFICIAL, quant_config(
        quant_algo="MIXED_PRECISION",
        quantized_layers={"layers.3.ffn.experts": {"quant_algo": "W4A16_NVFP4"}}), "warning",
        "config-says", "layers.3.ffn.experts", "hf_quant_config.json says", False),
    "hf_quant_config: excluded": (NVFP4, quant_config(
        quant_algo="NVFP4", exclude_modules=["lm_head", "*.self_attn.*"]), "warning",
        "config-says", "layers.0.attn.wq_a", "not quantized (exclude_modules)", False),
    "hf_quant_config: blocks": (NVFP4, quant_config(quant_algo="NVFP4", group_size=32), "warning",
                                "config-says", None, "group_size 32", False),
    "hf_quant_config: the rest": (NVFP4, quant_config(
        quant_algo="NVFP4", exclude_modules=["lm_head", "model.embed_tokens", "*.mlp.gate",
                                             "mtp.0.self_attn"]), "note",
        "config-says", "mtp.0.e_proj", "more matrices are not", False),
    "a name of no end": (OFFICIAL, name_too_long, "error", "name", "x" * 600, "too long", True),
    "a mixed layer": (NVFP4, drop(r"layers\.2\.mlp\.experts\.3\.gate_proj\.weight_scale$"),
                      "error", "missing", "layers.2.ffn.experts.3.w1.weight_scale", "missing",
                      True),
    "an odd shape": (OFFICIAL, rewrite("norm.weight", "BF16", [64], lambda d: d[:128]), "error",
                     "shape", "norm.weight", "wanted", True),
}


def test_plants():
    for name, (source, plant, severity, kind, tensor, part, is_refused) in PLANTS.items():
        f = Folder(source)
        plant(f)
        folder = f.write("plant")
        status, result = audit(folder)
        hits = [x for x in found(result, severity, kind) if tensor in (None, x["tensor"])]
        assert hits, (name, severity, kind, tensor, result["findings"])
        assert any(part in x["message"] for x in hits), (name, part, hits)
        assert status == (1 if result["errors"] else 0), name
        refusal = loader_says(folder)
        assert (refusal is not None) == is_refused, (name, refusal)
        assert not is_refused or result["errors"], name
        # A planted fault brings no crowd: whoever reads the report sees it.
        errors = {x["tensor"] for x in found(result, "error")}
        assert len(errors) <= 1 or kind == "extra", (name, errors)


def test_several_faults_at_once():
    f = Folder(NVFP4)
    f.set_float(EXPERT + ".input_scale", 0)
    f.data(EXPERT + ".weight_scale")[5] = 0x7F
    f.drop(r"layers\.1\.mlp\.gate\.e_score")
    f.put("model.surplus.weight", "F32", [3], bytes(12))
    _, result = audit(f.write("several"))
    assert {x["kind"] for x in found(result, "error")} == {
        "input-scale", "scale-nan", "missing", "extra"}, result["findings"]


def test_two_kinds_of_scales():
    """One fault: the siblings that sort behind the second kind of scales are not missing."""
    f = Folder(NVFP4)
    f.put(EXPERT + ".scale", *f.tensors[EXPERT + ".weight_scale"], like=EXPERT + ".weight")
    _, result = audit(f.write("two-scales"))
    errors = [(x["kind"], x["tensor"]) for x in found(result, "error")]
    assert sorted(errors) == [("extra", EXPERT + ".weight_scale"),
                              ("siblings", "layers.2.ffn.experts.3.w1")], result["findings"]


# ---- healthy checkpoints ------------------------------------------------------------------

# What families of scripts/make_families.py are told of; all others have no error or warning.
TOLD = {
    "bad-architecture": ("error", "config"), "bad-bias-gone": ("error", "missing"),
    "bad-dead-experts": ("error", "input-scale"), "bad-extra": ("error", "extra"),
    "bad-global-scale-gone": ("error", "missing"), "bad-mixed-experts": ("error", "mixed-experts"),
    "bad-mixed-gate-up": ("error", "mixed-experts"),
    "bad-model-type": ("error", "config"), "bad-norm-nan": ("error", "nan"),
    "bad-one-input-scale": ("error", "input-scale"), "bad-router-id": ("error", "table"),
    "bad-v41": ("error", "config"), "config-wrong-hints": ("warning", "config-says"),
    "nan-embedding": ("error", "nan"),
}


def families():
    subprocess.run([sys.executable, "scripts/make_families.py", "build/families"], cwd=ROOT,
                   check=True)
    return sorted(p for p in (ROOT / "build/families").iterdir() if p.is_dir())


def test_families():
    folders = families()
    assert len(folders) > 30 and set(TOLD) <= {f.name for f in folders}
    for folder in folders:
        status, result = audit(folder)
        if folder.name in TOLD:
            severity, kind = TOLD[folder.name]
            assert found(result, severity, kind), (folder, result["findings"])
            assert status == (severity == "error"), folder
        elif folder.name.startswith("bad-"):
            assert status == 1 and result["errors"], folder
        else:
            assert status == 0 and result["errors"] == result["warnings"] == 0, (
                folder, result["findings"])


def test_healthy_models():
    for folder, family, drafter in (
            (ROOT / "models/demo", "NVFP4 x 412, BF16 x 9", "mtp"),
            (NVFP4, None, "mtp"), (OFFICIAL, None, "mtp")):
        status, result = audit(folder, "--all")
        assert status == 0 and result["errors"] == result["warnings"] == 0, result["findings"]
        assert family in (None, result["family"]) and result["drafter"] == drafter
        assert result["tensors"] == len(Folder(folder).tensors)
        assert sum(g["n"] for g in result["groups"]) == len(result["items"])
        assert not [i for i in result["items"] if i["not_finite"]]


# ---- values -------------------------------------------------------------------------------


def e2m1(code):
    return (0, 0.5, 1, 1.5, 2, 3, 4, 6)[code & 7]


def e4m3(code):
    exponent, mantissa = code >> 3 & 15, code & 7
    return mantissa * 2.0**-9 if exponent == 0 else (8 + mantissa) * 2.0**(exponent - 10)


def test_values_of_one_matrix():
    """Largest weight, range of block scales and input, computed here once more."""
    f = Folder(NVFP4)
    codes, scales = f.data(EXPERT + ".weight"), f.data(EXPERT + ".weight_scale")
    largest = max(e4m3(scales[i]) * max(max(e2m1(b), e2m1(b >> 4)) for b in codes[8 * i:8 * i + 8])
                  for i in range(len(scales)))
    item = next(i for i in audit(NVFP4, "--all")[1]["items"]
                if i["name"] == "layers.2.ffn.experts.3.w1")
    close = lambda a, b: abs(a - b) <= 1e-6 * abs(b)  # nine digits are printed
    assert close(item["amax"], largest * f.float(EXPERT + ".weight_scale_2")), item
    assert close(item["scale_max"], max(map(e4m3, scales))), item
    assert close(item["scale_min"], min(e4m3(s) for s in scales if s)), item
    assert close(item["input_amax"], f.float(EXPERT + ".input_scale") * 2688), item
    assert item["blocks"] == len(scales) and item["zero"] == scales.count(0), item


def test_against():
    same = audit(NVFP4, "--against", NVFP4)[1]
    assert same["warnings"] == 0 and len(same["against"]) > 200
    assert all(d["error"] == 0 and abs(d["cosine"] - 1) < 1e-12 for d in same["against"])
    # One expert at twice its scale: a cosine of 1 would have hidden it.
    f = Folder(NVFP4)
    f.set_float(EXPERT + ".weight_scale_2", 2 * f.float(EXPERT + ".weight_scale_2"))
    status, result = audit(f.write("doubled"), "--against", NVFP4)
    worst = result["against"][0]
    assert status == 0 and worst["name"] == "layers.2.ffn.experts.3.w1", worst
    assert abs(worst["error"] - 1) < 1e-9 and abs(worst["ratio"] - 2) < 1e-9, worst
    assert abs(worst["cosine"] - 1) < 1e-9 and result["against"][1]["error"] == 0
    assert found(result, "warning", "differs", EXPERT + ".weight"), result["findings"]


def test_against_shuffled_scales():
    """LOAD-09: scales that a tensor core wants in another order; nothing else can tell them."""
    f = Folder(NVFP4)
    scales = f.data(EXPERT + ".weight_scale")
    n, k = f.tensors[EXPERT + ".weight_scale"][1]
    scales[:] = b"".join(bytes([scales[r * k + c]]) for c in range(k) for r in range(n))
    status, result = audit(f.write("shuffled"), "--against", NVFP4)
    assert status == 0 and found(result, "warning", "differs", EXPERT + ".weight")
    assert result["against"][0]["name"] == "layers.2.ffn.experts.3.w1"


def test_against_another_format():
    """Families of one source hold the same values in other formats."""
    families()
    for other in ("nvfp4-official", "ct-nvfp4", "base", "bf16-dense", "names-hugging-face"):
        result = audit(OFFICIAL, "--against", ROOT / "build/families" / other)[1]
        assert result["against"] and all(d["error"] == 0 for d in result["against"]), other
    gone = audit(OFFICIAL, "--against", ROOT / "build/families/mtp-absent")[1]
    assert found(gone, "note", "only-here", "mtp.0.enorm.weight")


# ---- folders that nothing opens -----------------------------------------------------------


def damaged(name, change, source=OFFICIAL):
    folder = Folder(source).write(name)
    change(folder)
    return folder


def cut(path, n):
    path.write_bytes(path.read_bytes()[:n])


SHARD = "model-00002-of-00004.safetensors"


def test_broken_folders():
    for change, kind, part in [
            (lambda d: cut(d / SHARD, 100), "shard", "header"),
            (lambda d: cut(d / SHARD, (d / SHARD).stat().st_size - 5), "shard", "data_offsets"),
            (lambda d: (d / SHARD).write_bytes(b""), "shard", "0 bytes"),
            (lambda d: (d / SHARD).write_bytes(b"\xff" * 4096), "shard", "header of"),
            (lambda d: (d / SHARD).write_bytes(struct.pack("<Q", 6) + b"{\"a\":}"), "shard", SHARD),
            (lambda d: (d / SHARD).unlink(), "shard", "missing, although"),
            (lambda d: (d / "config.json").write_text("{"), "config", "config.json"),
            (lambda d: (d / "config.json").unlink(), "config", "config.json"),
            (lambda d: (d / "config.json").write_text("[]"), "config", "not a JSON object"),
            (lambda d: (d / "model.safetensors.index.json").write_text("[]"), "index",
             "weight_map"),
    ]:
        folder = damaged("broken", change)
        status, result = audit(folder)
        assert status == 1, part
        hits = found(result, "error", kind)
        assert len(hits) == 1 and part in hits[0]["message"], (part, hits)
        assert kind == "index" or loader_says(folder), part
        # The rest was read all the same.
        assert result["tensors"] > 100 and result["groups"], part


def test_index_that_lies():
    def change(folder):
        path = folder / "model.safetensors.index.json"
        index = json.loads(path.read_text())
        index["weight_map"]["layers.9.nothing"] = SHARD
        path.write_text(json.dumps(index))
    status, result = audit(damaged("index", change))
    assert status == 1 and found(result, "error", "index", "layers.9.nothing")


def test_empty_and_absent_folders():
    empty = SCRATCH / "empty"
    empty.mkdir()
    status, result = audit(empty)
    assert status == 1 and {"config", "shard"} <= {f["kind"] for f in result["findings"]}
    status, out, err = hadal("audit", SCRATCH / "nowhere")
    assert (status, out) == (1, "") and err == f"hadal: {SCRATCH}/nowhere: no such folder\n"
    status, out, err = hadal("audit", OFFICIAL, "--against", SCRATCH / "nowhere")
    assert (status, out) == (1, "") and "no such folder" in err


def test_no_model_at_all():
    """Without a config every matrix is still told by its siblings."""
    folder = damaged("bare", lambda d: (d / "config.json").unlink(), NVFP4)
    result = audit(folder)[1]
    assert {f["kind"] for f in found(result, "error")} == {"config"}, result["findings"]
    assert any(g["format"].startswith("NVFP4") for g in result["groups"])


# ---- the program --------------------------------------------------------------------------


def test_threads_change_nothing():
    f = Folder(NVFP4)
    for i in range(8):
        f.data(f"model.layers.1.mlp.experts.{i}.up_proj.weight_scale")[i] = 0x7F
    folder = f.write("threads")
    outputs = {hadal("audit", folder, "--all", "--json", "--quiet", "--threads", n)[1]
               for n in (1, 2, 7, 16)}
    assert len(outputs) == 1


def test_text():
    status, out, err = hadal("audit", ROOT / "models/demo")
    assert (status, err) == (0, "")
    assert "NVFP4 x 412, BF16 x 9; drafter: mtp" in out.splitlines()[0]
    assert re.search(r"^layers\.\*\.ffn\.experts\.\*\.w1 +NVFP4 \[128, 256\] +96  ", out, re.M), out
    assert re.search(r"^note +gate-up +scales of gate and up differ in 117 of 119 pairs", out, re.M)
    assert out.splitlines()[-1] == "0 errors, 0 warnings, 4 notes"
    f = Folder(NVFP4)
    for i in range(8):
        for m in ("up_proj", "gate_proj"):
            f.data(f"model.layers.1.mlp.experts.{i}.{m}.weight_scale")[i] = 0x7F
    folder = f.write("many")
    out = hadal("audit", folder)[1]
    assert len(re.findall("^error +scale-nan +tensor ", out, re.M)) == 10
    assert re.search(r"^error +scale-nan +\.\.\. and 6 more like these$", out, re.M), out
    assert len(re.findall("^error +scale-nan +tensor ", hadal("audit", folder, "--all")[1],
                          re.M)) == 16


def test_misuse():
    for args, part in [((), "no MODEL given"), ((OFFICIAL, OFFICIAL), "one MODEL only"),
                       ((OFFICIAL, "--threads", "0"), "1 .. 16"), ((OFFICIAL, "--csv"), "--csv")]:
        status, out, err = hadal("audit", *args)
        assert status == 2 and out == "" and part in err, (args, err)


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(suite.run(globals(), SCRATCH))
