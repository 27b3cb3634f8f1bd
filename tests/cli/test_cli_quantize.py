#!/usr/bin/env python3
"""`hadal quantize`: every byte of a result against the format's definitions in numpy, runs that are
killed and taken up, and what is refused.  usage: test_cli_quantize.py [HADAL]"""
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/support"))
import suite  # behind the path
HADAL = str(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/hadal").resolve())
OFFICIAL = ROOT / "tests/models/tiny512-official"  # four shards, FP8 and MXFP4
NVFP4 = ROOT / "tests/models/tiny512-nvfp4"
SCRATCH = pathlib.Path(tempfile.mkdtemp(prefix="hadal-quantize-"))
EXPERT = r"layers\.\d+\.ffn\.experts\.\d+\.w[123]"
WIDTH = {"I8": 1, "U8": 1, "F8_E4M3": 1, "F8_E8M0": 1, "BF16": 2, "F16": 2, "F32": 4, "I64": 8}


def hadal(*args, **more):
    done = subprocess.run([HADAL, *map(str, args)], stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=600, **more)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def fresh(name):
    path = SCRATCH / name
    for old in (path, path.with_name(name + ".part")):
        shutil.rmtree(old, ignore_errors=True)
    return path


def quantize(source, name, *args):
    """The new folder and the report; there must be no error, and nothing left beside it."""
    target = fresh(name)
    status, out, err = hadal("quantize", source, target, "--json", "--quiet", *args)
    assert (status, err) == (0, ""), (status, err)
    assert not target.with_name(name + ".part").exists()
    return target, json.loads(out)


def refused(source, target, *args, want):
    status, out, err = hadal("quantize", source, target, "--quiet", *args)
    assert status == 1 and out == "", (status, out, err)
    assert err.startswith("hadal: ") and err.count("\n") == 1, err
    assert re.search(want, err), (want, err)
    assert target == source or not target.exists()
    return err


# ---- folders and number formats, from their definitions -----------------------------------


def read(folder):
    """Tensors by name: (dtype, shape, bytes)."""
    tensors = {}
    for path in sorted(folder.glob("*.safetensors")):
        blob = path.read_bytes()
        n = int.from_bytes(blob[:8], "little")
        for name, t in json.loads(blob[8:8 + n]).items():
            if name != "__metadata__":
                begin, end = t["data_offsets"]
                assert name not in tensors
                tensors[name] = (t["dtype"], t["shape"], blob[8 + n + begin:8 + n + end])
    return tensors


def write(folder, tensors, shards=1, config=None):
    """A model folder of these tensors, with the other files of tiny512-official."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        shutil.copy(OFFICIAL / name, folder)
    (folder / "config.json").write_text(json.dumps(config or json.loads(
        (OFFICIAL / "config.json").read_text())))
    names, index = sorted(tensors), {}
    for i in range(shards):
        shard = f"model-{i + 1:05}-of-{shards:05}.safetensors" if shards > 1 else \
            "model.safetensors"
        header, at = {}, 0
        mine = sorted(names[i::shards], key=lambda n: -WIDTH[tensors[n][0]])
        for n in mine:
            dtype, shape, data = tensors[n]
            header[n] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
            at += len(data)
            index[n] = shard
        text = json.dumps(header).encode()
        (folder / shard).write_bytes(len(text).to_bytes(8, "little") + text +
                                     b"".join(tensors[n][2] for n in mine))
    if shards > 1:
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    return folder


E2M1 = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6], "f4")


def make_e4m3():
    code = np.arange(256)
    e, m = (code >> 3) & 15, code & 7
    x = np.where(e == 0, m * 2.0**-9, (8 + m) * 2.0**(e - 10.0))
    x[(code & 127) == 127] = np.nan
    return np.where(code & 128, -x, x).astype("f4")


E4M3 = make_e4m3()


def unpack(data, shape):
    codes = np.frombuffer(data, "u1").reshape(shape)
    return E2M1[np.stack([codes & 15, codes >> 4], -1).reshape(shape[0], -1)]


def scalar(t):
    assert t[0] == "F32" and t[1] == [], t[:2]
    return np.frombuffer(t[2], "<f4")[0]


def decode_nvfp4(t, m):
    """W = e2m1 * e4m3(weight_scale) * weight_scale_2, low nibble first, 16 columns to a scale."""
    dtype, shape, data = t[m + ".weight"]
    sdtype, sshape, scales = t[m + ".weight_scale"]
    assert dtype == "U8" and sdtype == "F8_E4M3" and sshape == [shape[0], shape[1] // 8]
    s = E4M3[np.frombuffer(scales, "u1")].reshape(sshape)
    return unpack(data, shape).astype("f8") * np.repeat(s, 16, 1) * float(
        scalar(t[m + ".weight_scale_2"]))


def decode_mxfp4(t, m):
    _, shape, data = t[m + ".weight"]
    scale = np.frombuffer(t[m + ".scale"][2], "u1").reshape(t[m + ".scale"][1])
    return unpack(data, shape).astype("f8") * np.repeat(2.0**(scale.astype(int) - 127), 32, 1)


def decode_fp8(t, m):
    _, shape, data = t[m + ".weight"]
    scale = np.frombuffer(t[m + ".scale"][2], "u1").reshape(t[m + ".scale"][1])
    s = np.repeat(np.repeat(2.0**(scale.astype(int) - 127), 128, 0), 128, 1)
    return E4M3[np.frombuffer(data, "u1")].reshape(shape).astype("f8") * s[:shape[0], :shape[1]]


def decode_bf16(t, m):
    _, shape, data = t[m + ".weight"]
    return (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4").reshape(shape)


def to_bf16(x):
    bits = x.astype("<f4").view("<u4")
    assert not (bits & 0xFFFF).any(), "not exact in BF16"
    return (bits >> 16).astype("<u2").tobytes()


def make_bf16_tensors():
    """tiny512-official with every matrix in BF16, which holds its weights exactly."""
    t = read(OFFICIAL)
    for m in [n[:-len(".scale")] for n in t if n.endswith(".scale")]:
        x = decode_mxfp4(t, m) if t[m + ".weight"][0] == "I8" else decode_fp8(t, m)
        t[m + ".weight"] = ("BF16", list(x.shape), to_bf16(x))
        del t[m + ".scale"]
    return t


def plain_config():
    c = json.loads((OFFICIAL / "config.json").read_text())
    del c["quantization_config"], c["expert_dtype"]
    return c


def bf16_source(shards=3):
    path = SCRATCH / f"bf16-{shards}"
    if not path.exists():
        write(path, make_bf16_tensors(), shards, plain_config())
    return path


# ---- a second quantizer, as ModelOpt defines it -------------------------------------------


def nearest(x, grid):
    """Index of the nearest value of a rising grid, ties to the even index, for x >= 0."""
    at = np.clip(np.searchsorted(grid, x), 1, len(grid) - 1)
    low, high = x - grid[at - 1], grid[at] - x
    down = (low < high) | ((low == high) & ((at - 1) % 2 == 0))
    return np.where(down, at - 1, at)


def quantize_nvfp4(x, amax):
    """Codes, block scales and the tensor's scale of f32 weights, all arithmetic in f32."""
    x = x.astype("f4")
    s2 = np.float32(amax) / np.float32(6 * 448)
    blocks = x.reshape(x.shape[0], -1, 16)
    largest = np.abs(blocks).max(2)
    wanted = largest / (np.float32(6) * s2)
    scales = nearest(np.clip(wanted, 2.0**-9, 448).astype("f8"), E4M3[:127].astype("f8"))
    scales = np.where(largest == 0, 0x38, scales).astype("u1")
    q = blocks / (E4M3[scales] * s2)[..., None]
    codes = nearest(np.abs(q).astype("f8"), E2M1[:8].astype("f8")) | (np.signbit(q) << 3)
    codes = codes.reshape(x.shape).astype("u1")
    return (codes[:, ::2] | codes[:, 1::2] << 4).tobytes(), scales.tobytes(), s2


PAIRS = [(r"\.w1$", ".w3"), (r"\.attn\.wq_a$", ".attn.wkv"),
         (r"\.compressor\.wkv$", ".compressor.wgate")]


def partner(m):
    for a, b in [*PAIRS, *((re.escape(b) + "$", a[:-1].replace("\\", "")) for a, b in PAIRS)]:
        if re.search(a, m):
            return re.sub(a, b, m)
    return m


HUGGING_FACE = [
    (r"\.attn_norm\.", ".input_layernorm."), (r"\.ffn_norm\.", ".post_attention_layernorm."),
    (r"\.hc_(attn|ffn)_(fn|base|scale)$", r".\1_hc.\2"),
    (r"(^|\.)hc_head_(fn|base|scale)$", r"\1hc_head.hc_\2"),
    (r"\.indexer\.compressor\.", ".compressor.indexer."),
    (r"\.attn\.indexer\.wq_b\.", ".attn.compressor.indexer.q_b_proj."),
    (r"\.attn\.indexer\.weights_proj\.", ".attn.compressor.indexer.scorer.weights_proj."),
    (r"\.wgate\.", ".gate_proj."), (r"\.(compressor|indexer)\.norm\.", r".\1.kv_norm."),
    (r"\.ape$", ".position_bias"), (r"\.attn_sink$", ".sinks"), (r"\.wq_a\.", ".q_a_proj."),
    (r"\.wq_b\.", ".q_b_proj."), (r"\.q_norm\.", ".q_a_norm."), (r"\.wkv\.", ".kv_proj."),
    (r"\.wo_a\.", ".o_a_proj."), (r"\.wo_b\.", ".o_b_proj."), (r"\.w1\.", ".gate_proj."),
    (r"\.w3\.", ".up_proj."), (r"\.w2\.", ".down_proj."),
    (r"\.gate\.bias$", ".gate.e_score_correction_bias"), (r"\.attn\.", ".self_attn."),
    (r"\.ffn\.", ".mlp."), (r"^embed\.", "embed_tokens."), (r"^head\.", "lm_head."),
    (r"^(?!lm_head|mtp)", "model."),
]


def hugging_face(name):
    for pattern, to in HUGGING_FACE:
        name = re.sub(pattern, to, name)
    return name


def linear(t):
    """Matrices that a folder which is NVFP4 altogether has in NVFP4."""
    return [n[:-len(".weight")] for n in t if n.endswith(".weight") and len(t[n][1]) == 2 and
            not re.search(r"^(embed|head)\.|\.ffn\.gate\.", n)]


# ---- what becomes of the weights ----------------------------------------------------------


def test_mxfp4_is_cast_exactly():
    target, report = quantize(OFFICIAL, "experts", "--to", "nvfp4-experts")
    old, new = read(OFFICIAL), read(target)
    experts = [n[:-len(".scale")] for n in old if re.fullmatch(EXPERT + r"\.scale", n)]
    assert len(experts) == 96
    for m in experts:
        assert np.array_equal(decode_nvfp4(new, m), decode_mxfp4(old, m)), m
        assert new[m + ".weight"][2] == old[m + ".weight"][2], m
        assert scalar(new[m + ".weight_scale_2"]) == scalar(new[partner(m) + ".weight_scale_2"])
    rest = {n for n in old if not re.match(EXPERT + r"\.", n)}
    assert all(new[n] == old[n] for n in rest)
    assert set(new) == rest | {m + s for m in experts
                               for s in (".weight", ".weight_scale", ".weight_scale_2")}
    assert report["converted"] == [{"from": "MXFP4", "n": 96, "exact": 96, "error_mean": 0,
                                    "error_max": 0}]
    assert report["kept"]["tensors"] == len(rest) and report["worst"] == []
    assert report["bytes"] == {k: sum(len(t[2]) for t in s.values())
                               for k, s in (("source", old), ("result", new))}


def test_folder_of_experts():
    """Shards as before, an index that is right, and configs that say what was done."""
    target = SCRATCH / "experts"
    names = sorted(p.name for p in OFFICIAL.iterdir())
    assert sorted(p.name for p in target.iterdir()) == sorted([*names, "hf_quant_config.json"])
    index = json.loads((target / "model.safetensors.index.json").read_text())
    new = read(target)
    assert set(index["weight_map"]) == set(new)
    assert index["metadata"]["total_size"] == sum(len(t[2]) for t in new.values())
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        assert (target / name).read_bytes() == (OFFICIAL / name).read_bytes()
    c, old = (json.loads((f / "config.json").read_text()) for f in (target, OFFICIAL))
    q, was = c.pop("quantization_config"), old.pop("quantization_config")
    assert c == old
    assert {k: q[k] for k in was} == was
    layers = {f"layers.{i}.ffn.experts": {"quant_algo": "W4A16_NVFP4", "group_size": 16}
              for i in range(4)}
    assert q["moe_quant_algo"] == "NVFP4" and q["quant_algo"] == "MIXED_PRECISION"
    assert q["quantized_layers"] == layers
    assert q["ignore"] == ["*.attn.*", "*.ffn.shared_experts.*", "head", "mtp.*"]
    assert "input_activations" not in q["config_groups"]["group_0"]
    h = json.loads((target / "hf_quant_config.json").read_text())
    assert h["quantization"] == {"kv_cache_quant_algo": None, "quant_algo": "MIXED_PRECISION",
                                 "group_size": 16, "quantized_layers": layers,
                                 "exclude_modules": q["ignore"]}
    status, out, _ = hadal("audit", target, "--json", "--quiet")
    assert status == 0 and json.loads(out)["warnings"] == 0, out


def test_all_matrices_to_the_bit():
    """Names, codes and scales of a second quantizer; pairs that engines stack share a scale."""
    target, report = quantize(bf16_source(), "all", "--to", "nvfp4")
    old, new = read(bf16_source()), read(target)
    matrices = linear(old)
    weights = {m: decode_bf16(old, m) for m in matrices}
    n_shared = 0
    for m in matrices:
        amax = max(np.abs(weights[m]).max(), np.abs(weights[partner(m)]).max())
        n_shared += amax > np.abs(weights[m]).max()
        codes, scales, s2 = quantize_nvfp4(weights[m], amax)
        hf = hugging_face(m + ".")
        assert new[hf + "weight"][2] == codes, m
        assert new[hf + "weight_scale"][2] == scales, m
        assert scalar(new[hf + "weight_scale_2"]) == s2, m
        error = decode_nvfp4(new, hf[:-1]) - weights[m]
        assert np.linalg.norm(error) < 0.13 * np.linalg.norm(weights[m]), m
    assert n_shared > 10
    kept = [n for n in old if n[:-len(".weight")] not in weights]
    assert all(new[hugging_face(n)] == old[n] for n in kept)
    assert len(new) == len(kept) + 3 * len(matrices)
    assert report["converted"][0]["from"] == "BF16" and report["converted"][0]["n"] == len(matrices)
    c = json.loads((target / "config.json").read_text())
    assert c.pop("quantization_config")["quant_algo"] == "W4A16_NVFP4" and c == plain_config()


def test_errors_are_measured():
    """The report's errors are those of numpy."""
    target = SCRATCH / "all"
    out = hadal("audit", target, "--against", bf16_source(), "--json", "--all")[1]
    report = {a["name"]: a for a in json.loads(out)["against"]}
    old, new = read(bf16_source()), read(target)
    for m in ("layers.2.attn.indexer.wq_b", "layers.1.ffn.experts.5.w2", "mtp.0.e_proj"):
        w = decode_bf16(old, m)
        error = np.linalg.norm(decode_nvfp4(new, hugging_face(m + ".")[:-1]) - w)
        assert abs(error / np.linalg.norm(w) - report[m]["error"]) < 1e-6, m


def test_official_to_all():
    target, report = quantize(OFFICIAL, "official-all", "--to", "nvfp4")
    by_format = {c["from"]: c for c in report["converted"]}
    assert by_format["MXFP4"]["exact"] == by_format["MXFP4"]["n"] == 120
    assert by_format["FP8"]["exact"] == 0 and 0.05 < by_format["FP8"]["error_mean"] < 0.12
    old, new = read(OFFICIAL), read(target)
    for m in ("layers.0.attn.wo_b", "mtp.0.h_proj"):
        amax = np.abs(decode_fp8(old, m)).max()
        codes, scales, s2 = quantize_nvfp4(decode_fp8(old, m), amax)
        hf = hugging_face(m + ".")
        assert (new[hf + "weight"][2], new[hf + "weight_scale"][2]) == (codes, scales)
    assert not any(n.endswith(".scale") and "_hc." not in n for n in new)


def test_search_is_closer():
    target, report = quantize(bf16_source(), "mse", "--to", "nvfp4", "--scales", "mse")
    old, by_max, by_mse = read(bf16_source()), read(SCRATCH / "all"), read(target)
    for m in linear(old):
        hf, w = hugging_face(m + ".")[:-1], decode_bf16(old, m)
        a, b = (((decode_nvfp4(t, hf) - w)**2).sum() for t in (by_max, by_mse))
        assert b < a, m
        assert by_max[hf + ".weight_scale_2"] == by_mse[hf + ".weight_scale_2"]


def test_what_does_not_fit():
    """A block 2^20 below the largest of its matrix: told, and nothing else is touched."""
    t = read(OFFICIAL)
    m = "layers.1.ffn.experts.2.w2"
    scales = bytearray(t[m + ".scale"][2])
    scales[5] = max(scales) - 20
    t[m + ".scale"] = (*t[m + ".scale"][:2], bytes(scales))
    source = write(SCRATCH / "wide", t, 2)
    target, report = quantize(source, "wide-out", "--to", "nvfp4-experts")
    c = report["converted"][0]
    assert (c["n"], c["exact"]) == (96, 95) and 0 < c["error_max"] < 1e-5
    assert [w["matrix"] for w in report["worst"]] == [m]
    new, want = read(target), decode_mxfp4(t, m)
    got = decode_nvfp4(new, m)
    other = np.ones(want.shape, bool)
    row, col = divmod(5, t[m + ".scale"][1][1])
    other[row, 32 * col:32 * col + 32] = False
    assert np.array_equal(got[other], want[other]) and not np.array_equal(got, want)


def test_keep():
    target, report = quantize(bf16_source(), "kept", "--to", "nvfp4", "--keep", "mtp.*",
                              "--keep", "*.weights_proj")
    old, new = read(bf16_source()), read(target)
    kept = [m for m in linear(old) if m.startswith("mtp.") or m.endswith("weights_proj")]
    assert all(new[hugging_face(m + ".weight")] == old[m + ".weight"] for m in kept)
    assert report["converted"][0]["n"] == len(linear(old)) - len(kept)
    q = json.loads((target / "config.json").read_text())["quantization_config"]
    assert "mtp.0.mlp.experts" in q["ignore"] and "mtp.0.self_attn.q_a_proj" in q["ignore"]
    assert "model.layers.2.self_attn.compressor.indexer.scorer.weights_proj" in q["ignore"]


def same(a, b):
    names = sorted(p.name for p in a.iterdir())
    return names == sorted(p.name for p in b.iterdir()) and \
        all((a / n).read_bytes() == (b / n).read_bytes() for n in names)


def test_threads_change_nothing():
    for n in (1, 5):
        target, _ = quantize(bf16_source(), f"threads-{n}", "--to", "nvfp4", "--threads", n)
        assert same(target, SCRATCH / "all")


# ---- calibration --------------------------------------------------------------------------


def texts(name, *rows):
    path = SCRATCH / name
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return path


def trace(source, ids):
    path = SCRATCH / "trace.safetensors"
    path.unlink(missing_ok=True)
    status, _, err = hadal("trace", source, "--ids", ",".join(map(str, ids)), "--dump", path,
                           "--act", "exact", "--quiet")
    assert status == 0, err
    blob = path.read_bytes()
    n = int.from_bytes(blob[:8], "little")
    got = {}
    for name, t in json.loads(blob[8:8 + n]).items():
        if name != "__metadata__":
            begin, end = t["data_offsets"]
            dtype = {"F32": "<f4", "I32": "<i4", "U8": "u1"}[t["dtype"]]
            got[name] = np.frombuffer(blob[8 + n + begin:8 + n + end], dtype).reshape(t["shape"])
    return got


def test_calibration():
    """Input scales are the largest inputs that a dump of the same pass holds, over 6 * 448."""
    source, text = bf16_source(), "The quick brown fox jumps over the lazy dog, then sleeps."
    target, report = quantize(source, "calibrated", "--to", "nvfp4", "--calibrate",
                              texts("one.jsonl", {"text": text}))
    ids = [int(i) for i in subprocess.run(
        [HADAL, "tokens", source, "--plain", "--ids"], input=text.encode(), capture_output=True,
        check=True).stdout.decode().replace(",", " ").split()]
    dump, new = trace(source, [0, *ids]), read(target)
    inputs = report["input_scales"]
    assert inputs["texts"] == 1 and inputs["tokens"] == len(ids) + 1
    scale = {n[:-len(".input_scale")]: scalar(new[n]) for n in new if n.endswith(".input_scale")}
    assert len(scale) == len(linear(read(source))) == inputs["n"]

    def expect(official, x):
        want = np.abs(x).max().astype("f4") / np.float32(6 * 448)
        assert scale[hugging_face(official + ".")[:-1]] == want, official

    for layer in range(4):
        at, name = f"L{layer:02}.", f"layers.{layer}."
        expect(name + "attn.wq_a", dump[at + "attn_norm.y"])
        expect(name + "attn.wkv", dump[at + "attn_norm.y"])
        expect(name + "attn.wq_b", dump[at + "q_norm.y"])
        expect(name + "attn.wo_b", dump[at + "o_a.y"])
        expect(name + "ffn.shared_experts.w1", dump[at + "ffn_norm.y"])
        expect(name + "ffn.shared_experts.w2", dump[at + "shared_swiglu.y"])
    chosen, x, h = (dump["L01." + n] for n in ("router.ids", "ffn_norm.y", "swiglu.y"))
    h = h.reshape(*chosen.shape, -1)
    seen = sorted(set(chosen.ravel()))
    for e in seen:
        rows = (chosen == e).any(1)
        expect(f"layers.1.ffn.experts.{e}.w1", x[rows])
        expect(f"layers.1.ffn.experts.{e}.w2", h[chosen == e])
    assert {scale[f"model.layers.1.mlp.experts.{e}.down_proj"] for e in range(8)
            if e not in seen} <= {max(scale[f"model.layers.1.mlp.experts.{e}.down_proj"]
                                      for e in seen)}


def test_experts_that_no_token_reached():
    """One token sees three experts of eight a layer; the others get the largest input of these."""
    source = bf16_source()
    target, report = quantize(source, "one-token", "--to", "nvfp4-experts", "--calibrate",
                              texts("token.jsonl", {"text": ""}))
    assert report["input_scales"]["filled"] == 4 * 3 * 5, report["input_scales"]
    new = read(target)
    for w in ("w1", "w2", "w3"):
        s = [scalar(new[f"layers.2.ffn.experts.{e}.{w}.input_scale"]) for e in range(8)]
        assert s.count(max(s)) >= 6, s
    q = json.loads((target / "config.json").read_text())["quantization_config"]
    assert q["quant_method"] == "modelopt"
    assert q["quantized_layers"]["layers.0.ffn.experts"]["quant_algo"] == "NVFP4"
    assert q["config_groups"]["group_0"]["input_activations"]["num_bits"] == 4
    status, _, err = hadal("run", target, "--raw", "-p", "a", "-n", "1")
    assert "activations nvfp4" in err, err


def test_messages_and_windows():
    """A chat is read as the prompt that it becomes, and what is long in pieces."""
    row = {"messages": [{"role": "user", "content": "word " * 50}]}
    _, whole = quantize(bf16_source(), "m1", "--to", "nvfp4", "--calibrate",
                        texts("m.jsonl", row, {"text": "short"}))
    _, cut = quantize(bf16_source(), "m2", "--to", "nvfp4", "--window", 16, "--calibrate",
                      SCRATCH / "m.jsonl")
    n = whole["input_scales"]["tokens"]
    assert whole["input_scales"]["texts"] == 2 and n > 50
    assert cut["input_scales"]["texts"] > 4
    assert cut["input_scales"]["tokens"] == n + cut["input_scales"]["texts"] - 2


def test_bad_texts():
    source, target = bf16_source(), fresh("bad-texts")
    for rows, want in (("", r"no rows"), ('{"text": 5}\n', r"x\.jsonl:1: neither"),
                       ('{"text": "a"}\n\n[1]\n', r"x\.jsonl:3: "), ("{", r"x\.jsonl:1: "),
                       ('{"messages": [{"role": "nobody"}]}\n', r"x\.jsonl:1: .*role")):
        (SCRATCH / "x.jsonl").write_text(rows)
        refused(source, target, "--to", "nvfp4", "--calibrate", SCRATCH / "x.jsonl", want=want)
        assert not target.with_name("bad-texts.part").exists()
    refused(source, target, "--to", "nvfp4", "--calibrate", SCRATCH / "nope", want="nope: No such")


# ---- runs that are stopped ----------------------------------------------------------------


def start(target, *args, **more):
    return subprocess.Popen([HADAL, "quantize", str(bf16_source(6)), str(target), "--to", "nvfp4",
                             "--quiet", *args], stdout=subprocess.DEVNULL, **more)


def whole_shards(target):
    model = target.with_name(target.name + ".part") / "model"
    return len([p for p in model.glob("*.safetensors")]) if model.exists() else 0


def uninterrupted():
    target = SCRATCH / "whole"
    if not target.exists():
        quantize(bf16_source(6), "whole", "--to", "nvfp4", "--scales", "mse")
    return target


def test_killed_and_taken_up():
    """kill -9 once, twice, behind each shard: in the end the bytes are those of one run."""
    caught = 0
    for n in range(6):
        target = fresh("killed")
        for more in (n, n + 1) if n % 2 else (n,):
            p = start(target, "--scales", "mse", "--threads", "1")
            while p.poll() is None and whole_shards(target) < more:
                time.sleep(0.0005)
            p.send_signal(signal.SIGKILL)
            caught += p.wait() == -signal.SIGKILL
            if target.exists():
                break
            assert not (target / "config.json").exists()
        if not target.exists():
            p = start(target, "--scales", "mse")
            assert p.wait() == 0
        assert same(target, uninterrupted()), n
        assert not target.with_name("killed.part").exists()
    assert caught >= 4, caught


def test_killed_inside_a_shard():
    """The system ends a process that writes past its limit, in the middle of a file."""
    sizes = sorted(p.stat().st_size for p in uninterrupted().glob("*.safetensors"))
    target = fresh("limit")
    for limit in (1000, sizes[0] // 2, sizes[-1] - 100):
        def set_limit():
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        p = start(target, "--scales", "mse", preexec_fn=set_limit)
        assert p.wait() == -signal.SIGXFSZ, p.returncode
        assert list((SCRATCH / "limit.part/model").glob("*.part-*"))
        assert not target.exists()
    assert start(target, "--scales", "mse").wait() == 0
    assert same(target, uninterrupted())


def test_want_of_space():
    """A write that fails is one line, what was whole stays, and the next run goes on."""
    sizes = sorted(p.stat().st_size for p in uninterrupted().glob("*.safetensors"))
    target = fresh("full")

    def set_limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (sizes[-1] - 1, sizes[-1] - 1))
    p = start(target, "--scales", "mse", stderr=subprocess.PIPE, preexec_fn=set_limit,
              restore_signals=False)
    err = p.communicate()[1].decode()
    assert p.returncode == 1 and err.count("\n") == 1, err
    assert re.fullmatch(r"hadal: .*full\.part/model/.*: write failed: File too large\n", err), err
    assert not list((SCRATCH / "full.part/model").glob("*.part-*"))
    assert not target.exists()
    assert start(target, "--scales", "mse").wait() == 0
    assert same(target, uninterrupted())


def test_calibration_is_kept():
    """What the texts showed is not read again when a run is taken up."""
    text = texts("kept.jsonl", {"text": "Some words."})
    target = fresh("kept-run")
    args = ["--calibrate", str(text)]
    p = start(target, *args)
    while p.poll() is None and whole_shards(target) < 1:
        time.sleep(0.0005)
    p.send_signal(signal.SIGKILL)
    p.wait()
    note = SCRATCH / "kept-run.part/calibration.safetensors"
    if not target.exists():
        before = note.stat().st_mtime_ns
        assert before
        # Doubled inputs in the note show in the result.
        blob = bytearray(note.read_bytes())
        n = int.from_bytes(blob[:8], "little")
        x = np.frombuffer(blob[8 + n:], "<f4") * np.float32(2)
        note.write_bytes(bytes(blob[:8 + n]) + x.tobytes())
        for shard in (SCRATCH / "kept-run.part/model").glob("*.safetensors"):
            shard.unlink()
        assert start(target, *args).wait() == 0
    else:
        raise AssertionError("the run was over before it could be stopped")
    plain, _ = quantize(bf16_source(6), "kept-plain", "--to", "nvfp4", *args)
    a, b = read(target), read(plain)
    names = [k for k in a if k.endswith(".input_scale")]
    assert names and all(scalar(a[k]) == 2 * scalar(b[k]) for k in names)


# ---- what is refused ----------------------------------------------------------------------


def test_other_options_do_not_go_on():
    target = fresh("begun")
    p = start(target, "--scales", "mse", "--threads", "1")
    while p.poll() is None and whole_shards(target) < 1:
        time.sleep(0.0005)
    p.send_signal(signal.SIGKILL)
    p.wait()
    before = sorted((SCRATCH / "begun.part/model").iterdir())
    for args in (["--scales", "max"], ["--scales", "mse", "--keep", "mtp.*"]):
        refused(bf16_source(6), target, "--to", "nvfp4", *args,
                want=r"begun\.part was begun from other weights or with other options; remove it")
    refused(bf16_source(), target, "--to", "nvfp4", "--scales", "mse", want="other weights")
    assert sorted((SCRATCH / "begun.part/model").iterdir()) == before
    strange = fresh("strange")
    (SCRATCH / "strange.part/model").mkdir(parents=True)
    refused(bf16_source(), strange, "--to", "nvfp4", want="not of this program")


def test_two_at_once():
    target = fresh("twice")
    p = start(target, "--scales", "mse", "--threads", "1")
    while p.poll() is None and whole_shards(target) < 1:
        time.sleep(0.0005)
    os.kill(p.pid, signal.SIGSTOP)
    refused(bf16_source(6), target, "--to", "nvfp4", "--scales", "mse",
            want="another process is at work there")
    os.kill(p.pid, signal.SIGCONT)
    assert p.wait() == 0
    assert same(target, uninterrupted())


def test_refusals():
    target = fresh("never")
    source = bf16_source()
    refused(source, source, "--to", "nvfp4", want="is there already")
    (SCRATCH / "file").write_text("")
    assert "is there already" in hadal("quantize", source, SCRATCH / "file", "--to", "nvfp4")[2]
    refused(SCRATCH / "nope", target, "--to", "nvfp4", want="nope: no such folder")
    refused(source, SCRATCH / "nope/out", "--to", "nvfp4", want="cannot make this folder")
    refused(NVFP4, target, "--to", "nvfp4-experts", want=r"nothing to convert \(NVFP4 x")
    refused(NVFP4, target, "--to", "nvfp4", want="NVFP4 already and has an input_scale")
    refused(OFFICIAL, target, "--to", "nvfp4", "--keep", "mtp.*",
            want=r"matrix mtp\.0\.\S+ is (FP8|MXFP4) and would stay so")
    refused(OFFICIAL, target, "--to", "nvfp4-experts", "--keep", "*.experts.3.w2",
            want=r"of the experts layers\.0\.ffn\.experts\.2\.w2 and \S+3\.w2 only one")
    refused(OFFICIAL, target, "--to", "nvfp4-experts", "--keep", "*.experts.*.w3",
            want=r"of the experts layers\.0\.ffn\.experts\.7\.w1 and \S+0\.w3 only one")
    c = json.loads((OFFICIAL / "config.json").read_text())
    c["quantization_config"]["quant_method"] = "compressed-tensors"
    other = write(SCRATCH / "other-words", read(OFFICIAL), 1, c)
    refused(other, target, "--to", "nvfp4-experts", want='quant_method "compressed-tensors"')
    assert not target.with_name("never.part").exists()
    for args in ([source], [source, target], [source, target, "--to", "int4"],
                 [source, target, "--to", "nvfp4", "--window", "5"],
                 [source, target, target, "--to", "nvfp4"]):
        status, out, err = hadal("quantize", *args)
        assert status == 2 and err.startswith("hadal: quantize: ") and out == "", (args, err)


def test_broken_sources():
    """One line that names the tensor; where nothing was written nothing stays."""
    plants = []

    def plant(name, at, data):
        def change(t):
            blob = bytearray(t[name][2])
            blob[at:at + len(data)] = data
            t[name] = (*t[name][:2], bytes(blob))
        return change
    plants.append((make_bf16_tensors, plant("layers.2.attn.wq_b.weight", 100, b"\xc0\x7f"),
                   r"tensor layers\.2\.attn\.wq_b\.weight .*: 1 values are NaN or infinite, the "
                   r"first is number 50"))
    plants.append((lambda: read(OFFICIAL), plant("layers.1.ffn.experts.7.w3.scale", 3, b"\xff"),
                   r"tensor layers\.1\.ffn\.experts\.7\.w3\.scale .*: 1 scales are NaN"))
    plants.append((make_bf16_tensors, lambda t: t.pop("layers.3.attn.wkv.weight"),
                   r"tensor layers\.3\.attn\.wkv\.weight is missing"))
    plants.append((make_bf16_tensors, lambda t: t.update({"x.weight": ("U8", [2], b"ab")}),
                   r"tensor x\.weight .* is unexpected"))
    for i, (make, change, want) in enumerate(plants):
        t = make()
        change(t)
        source = write(SCRATCH / f"broken-{i}", t)
        to = "nvfp4-experts" if "experts" in want else "nvfp4"
        for threads in (1, 4):
            refused(source, fresh("from-broken"), "--to", to, "--threads", threads, want=want)
            assert not (SCRATCH / "from-broken.part").exists()


def test_an_error_that_only_the_audit_sees():
    """NaN in what is only copied: the result is refused its name, and said where it is."""
    t = make_bf16_tensors()
    data = bytearray(t["layers.0.ffn.gate.weight"][2])
    data[0:2] = b"\xc0\x7f"
    t["layers.0.ffn.gate.weight"] = (*t["layers.0.ffn.gate.weight"][:2], bytes(data))
    source, target = write(SCRATCH / "nan-gate", t, 1, plain_config()), fresh("nan-out")
    status, out, err = hadal("quantize", source, target, "--to", "nvfp4", "--quiet")
    assert status == 1 and not target.exists()
    assert "error: tensor model.layers.0.mlp.gate.weight" in out, out
    assert re.fullmatch(r"hadal: the audit found errors: \S+nan-out stays in \S+\.part\n", err), err
    assert (SCRATCH / "nan-out.part/model/model.safetensors").exists()


def test_text():
    status, out, err = hadal("quantize", OFFICIAL, fresh("text"), "--to", "nvfp4-experts")
    assert status == 0 and err == "", err
    assert "96 matrices MXFP4 -> NVFP4: all exactly" in out, out
    assert "audit: 0 errors, 0 warnings" in out and "no input scales" in out, out


if __name__ == "__main__":
    sys.exit(suite.run(globals(), SCRATCH))
