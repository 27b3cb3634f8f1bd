#!/usr/bin/env python3
"""Derives model folders in all published families from tests/models/tiny512-official.

    scripts/make_families.py [FOLDER]      default: build/families

Every family has exactly the weights of its source in other formats, names, files or keys, so
the source's expected values (tests/golden/model/tiny512-official.safetensors) are its own.
Each cast is decoded again and compared with the source; a difference ends the script.  The
folders bad-* are to be refused.  Needs numpy; does nothing when the folder is up to date.
"""
import fcntl
import hashlib
import json
import os
import re
import shutil
import sys

import numpy as np

SOURCE = "tests/models/tiny512-official"
BLOCK = 128  # rows and columns that share an FP8 scale


class Tensor:
    """Raw bytes as an array of u1, u2 or u4 in the tensor's shape, with the file's dtype."""

    def __init__(self, dtype, data):
        self.dtype, self.data = dtype, data


WIDTH = {"I8": 1, "U8": 1, "F8_E4M3": 1, "F8_E8M0": 1, "BF16": 2, "F16": 2, "F32": 4, "I64": 8}


def scalar(value, shape=()):
    return Tensor("F32", np.full(shape, value, "<f4").view("<u4"))


# ---- files --------------------------------------------------------------------------------


def read_shard(path):
    with open(path, "rb") as f:
        blob = f.read()
    n = int.from_bytes(blob[:8], "little")
    header = json.loads(blob[8 : 8 + n])
    tensors = {}
    for name, t in header.items():
        if name == "__metadata__":
            continue
        begin, end = t["data_offsets"]
        raw = np.frombuffer(blob[8 + n + begin : 8 + n + end], f"<u{WIDTH[t['dtype']]}")
        tensors[name] = Tensor(t["dtype"], raw.reshape(t["shape"]))
    return tensors


def write_shard(path, tensors):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    # Wide elements first, as the common writer sorts them: scalars stay aligned.
    order = sorted(tensors, key=lambda name: (-WIDTH[tensors[name].dtype], name))
    for name in order:
        t = tensors[name]
        header[name] = {
            "dtype": t.dtype,
            "shape": list(t.data.shape),
            "data_offsets": [at, at + t.data.nbytes],
        }
        at += t.data.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for name in order:
            f.write(tensors[name].data.tobytes())


# ---- number formats -----------------------------------------------------------------------

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def make_e4m3():
    code = np.arange(256)
    exponent, mantissa = (code >> 3) & 15, code & 7
    value = np.where(
        exponent == 0, mantissa * 2.0**-9, (8 + mantissa) * 2.0 ** (exponent.astype(float) - 10)
    )
    value[(code & 127) == 127] = np.nan
    return np.where(code & 128, -value, value)


E4M3 = make_e4m3()
E4M3_CODE = {value: code for code, value in enumerate(E4M3[:127])}


def e8m0(code):
    return 2.0 ** (code.astype(float) - 127)


def to_e4m3(x):
    """Codes of values that E4M3 holds exactly; KeyError for any other."""
    magnitude, where = np.unique(np.abs(x), return_inverse=True)
    codes = np.array([E4M3_CODE[v] for v in magnitude], np.uint8)[where.reshape(x.shape)]
    return codes | (np.signbit(x).astype(np.uint8) << 7)


def to_bf16(x):
    bits = x.astype("<f4").view("<u4")
    assert not (bits & 0xFFFF).any(), "not exact in BF16"
    return (bits >> 16).astype("<u2")


def from_bf16(bits):
    return (bits.astype("<u4") << 16).view("<f4")


def unpack(codes):
    nibbles = np.stack([codes & 15, codes >> 4], axis=-1)
    return E2M1[nibbles.reshape(codes.shape[0], -1)]


def spread(scale, rows, cols, shape):
    return np.repeat(np.repeat(scale, rows, 0), cols, 1)[: shape[0], : shape[1]]


def decode_mxfp4(weight, scale):
    return unpack(weight.data) * np.repeat(e8m0(scale.data), 32, 1)


def decode_fp8(weight, scale):
    return E4M3[weight.data] * spread(e8m0(scale.data), BLOCK, BLOCK, weight.data.shape)


def check_equal(name, got, want):
    assert np.array_equal(got, want), f"{name}: the cast is not exact"


def mxfp4_to_nvfp4(name, weight, scale):
    """The largest block gets the scale 2^8; spans of up to 17 powers of two are exact."""
    k = scale.data.astype(int) - 127
    tensor_scale = 2.0 ** (k.max() - 8)
    # A block of zeros may have any scale.
    blocks = np.repeat(to_e4m3(np.maximum(2.0**k / tensor_scale, 2.0**-9)), 2, 1)
    got = unpack(weight.data) * np.repeat(E4M3[blocks], 16, 1) * tensor_scale
    check_equal(name, got, decode_mxfp4(weight, scale))
    return Tensor("U8", weight.data), Tensor("F8_E4M3", blocks), tensor_scale


def mxfp4_to_fp8(name, weight, scale):
    """Scales of 2^-6 of the block's largest, so that 6 becomes 384; in F32."""
    want = decode_mxfp4(weight, scale)
    rows, cols = want.shape
    largest = e8m0(scale.data).reshape(rows // BLOCK, BLOCK, cols // BLOCK, BLOCK // 32)
    block = largest.max((1, 3)) * 2.0**-6
    codes = to_e4m3(want / spread(block, BLOCK, BLOCK, want.shape))
    check_equal(name, E4M3[codes] * spread(block, BLOCK, BLOCK, want.shape), want)
    return Tensor("F8_E4M3", codes), Tensor("F32", block.astype("<f4").view("<u4"))


# ---- what a family changes ----------------------------------------------------------------
# Each takes the tensors of one shard and gives those of the new one; `m` is a matrix's name
# without its suffix.


def matrices(tensors, pattern):
    """Names of all matrices with scales whose name fits."""
    found = [n[: -len(".weight")] for n in tensors if n.endswith(".weight")]
    return [m for m in found if m + ".scale" in tensors and re.fullmatch(pattern, m)]


MAIN_EXPERTS = r"layers\.\d+\.ffn\.experts\.\d+\.w[123]"
MTP_EXPERTS = r"mtp\.\d+\.ffn\.experts\.\d+\.w[123]"
ALL_EXPERTS = r".*\.ffn\.experts\.\d+\.w[123]"
NOT_EXPERTS = r"(?!.*\.experts\.).*"


def experts_nvfp4(pattern, scalar_shape=(), has_input=True):
    def change(t):
        for m in matrices(t, pattern):
            w, blocks, s = mxfp4_to_nvfp4(m, t.pop(m + ".weight"), t.pop(m + ".scale"))
            t[m + ".weight"], t[m + ".weight_scale"] = w, blocks
            t[m + ".weight_scale_2"] = scalar(s, scalar_shape)
            if has_input:
                t[m + ".input_scale"] = scalar(0.0078125, scalar_shape)

    return change


def experts_compressed_tensors(t):
    for m in matrices(t, ALL_EXPERTS):
        w, blocks, s = mxfp4_to_nvfp4(m, t.pop(m + ".weight"), t.pop(m + ".scale"))
        t[m + ".weight_packed"], t[m + ".weight_scale"] = w, blocks
        t[m + ".weight_global_scale"] = scalar(1 / s, (1,))
        t[m + ".input_global_scale"] = scalar(128, (1,))


def experts_fp8(t):
    for m in matrices(t, ALL_EXPERTS):
        w, s = mxfp4_to_fp8(m, t[m + ".weight"], t[m + ".scale"])
        t[m + ".weight"], t[m + ".scale"] = w, s


def dense_scales(dtype, suffix):
    """FP8 scales as F32 or BF16 under the name that this family gives them."""

    def change(t):
        for m in matrices(t, NOT_EXPERTS):
            s = e8m0(t.pop(m + ".scale").data)
            bits = to_bf16(s) if dtype == "BF16" else s.astype("<f4").view("<u4")
            t[m + "." + suffix] = Tensor(dtype, bits)

    return change


def dense_bf16(pattern):
    def change(t):
        for m in matrices(t, pattern):
            want = decode_fp8(t[m + ".weight"], t.pop(m + ".scale"))
            t[m + ".weight"] = Tensor("BF16", to_bf16(want))
            check_equal(m, from_bf16(t[m + ".weight"].data), want)

    return change


def scales_as_bytes(t):
    """E8M0 written by tools that do not know the dtype."""
    for m in matrices(t, ALL_EXPERTS):
        t[m + ".scale"] = Tensor("U8", t[m + ".scale"].data)
        t[m + ".weight"] = Tensor("U8", t[m + ".weight"].data)


def gates(dtype):
    def change(t):
        for name in [n for n in t if n.endswith(".ffn.gate.weight")]:
            x = from_bf16(t[name].data)
            if dtype == "F32":
                t[name] = Tensor("F32", x.view("<u4"))
            elif np.array_equal(x.astype("<f2").astype("<f4"), x):
                t[name] = Tensor("F16", x.astype("<f2").view("<u2"))

    return change


def vectors_f32(t):
    for name in [n for n in t if t[n].dtype == "BF16" and "norm" in n]:
        t[name] = Tensor("F32", from_bf16(t[name].data).view("<u4"))


def drop(pattern):
    def change(t):
        for name in [n for n in t if re.search(pattern, n)]:
            del t[name]

    return change


def copy_tensor(source, name):
    def change(t):
        if source in t:
            t[name] = t[source]

    return change


def set_tensor(name, tensor):
    def change(t):
        if name in t:
            t[name] = tensor

    return change


def add_beside(anchor, name, tensor):
    def change(t):
        if anchor in t:
            t[name] = tensor

    return change


def dspark(t):
    """Three drafter stages made of the MTP block's layer, which no program can run as MTP."""
    outer = [n for n in t if re.match(r"mtp\.0\.(e_proj|h_proj|enorm|hnorm|norm|hc_head)", n)]
    if not outer:
        return
    last = {n: t.pop(n) for n in outer}
    stage = {n: t[n] for n in t if n.startswith("mtp.0.")}
    for name, tensor in stage.items():
        for i in (1, 2):
            t[name.replace("mtp.0.", f"mtp.{i}.")] = tensor
    for name, tensor in last.items():
        if ".norm." in name or "hc_head" in name:
            t[name.replace("mtp.0.", "mtp.2.")] = tensor
    e_proj, row = last["mtp.0.e_proj.weight"].data, last["mtp.0.e_proj.scale"].data
    t["mtp.0.main_proj.weight"] = Tensor("F8_E4M3", np.hstack([e_proj] * 3))
    t["mtp.0.main_proj.scale"] = Tensor("F8_E8M0", np.hstack([row] * 3))
    t["mtp.0.main_norm.weight"] = last["mtp.0.norm.weight"]
    zeros = np.zeros((2048, 16), "<u2")
    t["mtp.2.markov_head.markov_w1.weight"] = Tensor("BF16", zeros)
    t["mtp.2.markov_head.markov_w2.weight"] = Tensor("BF16", zeros)
    t["mtp.2.confidence_head.proj.weight"] = Tensor("BF16", zeros[:1])


def spoil_router(t):
    """Expert 8 of 8 for the last token."""
    name = "layers.0.ffn.gate.tid2eid"
    if name in t:
        data = t[name].data.copy()
        data[-1, -1] = 8
        t[name] = Tensor("I64", data)


def spoil_element(t, name, at):
    if name in t:
        data = t[name].data.copy()
        data[at] = 0x7FC0
        t[name] = Tensor(t[name].dtype, data)


def spoil_scale(t):
    """A NaN in the block scales of one expert."""
    name = "layers.2.ffn.experts.3.w1.weight_scale"
    if name in t:
        data = t[name].data.copy()
        data[7, 3] = 0x7F
        t[name] = Tensor(t[name].dtype, data)


def spoil_norm(t):
    spoil_element(t, "layers.2.attn.kv_norm.weight", 500)


def spoil_embedding(t):
    spoil_element(t, "embed.weight", (77, 5))


# ---- names --------------------------------------------------------------------------------

HUGGING_FACE = [
    (r"^(layers\.\d+|mtp\.\d+)\.attn_norm\.", r"\1.input_layernorm."),
    (r"^(layers\.\d+|mtp\.\d+)\.ffn_norm\.", r"\1.post_attention_layernorm."),
    (r"\.hc_(attn|ffn)_(fn|base|scale)$", r".\1_hc.\2"),
    (r"(^|\.)hc_head_(fn|base|scale)$", r"\1hc_head.hc_\2"),
    (r"\.indexer\.compressor\.", r".compressor.indexer."),
    (r"\.attn\.indexer\.wq_b\.", r".attn.compressor.indexer.q_b_proj."),
    (r"\.attn\.indexer\.weights_proj\.", r".attn.compressor.indexer.scorer.weights_proj."),
    (r"\.wgate\.", ".gate_proj."),
    (r"\.(compressor|indexer)\.norm\.", r".\1.kv_norm."),
    (r"\.ape$", ".position_bias"),
    (r"\.attn_sink$", ".sinks"),
    (r"\.wq_a\.", ".q_a_proj."),
    (r"\.wq_b\.", ".q_b_proj."),
    (r"\.q_norm\.", ".q_a_norm."),
    (r"\.wkv\.", ".kv_proj."),
    (r"\.wo_a\.", ".o_a_proj."),
    (r"\.wo_b\.", ".o_b_proj."),
    (r"\.w1\.", ".gate_proj."),
    (r"\.w3\.", ".up_proj."),
    (r"\.w2\.", ".down_proj."),
    (r"\.gate\.bias$", ".gate.e_score_correction_bias"),
    (r"\.attn\.", ".self_attn."),
    (r"\.ffn\.", ".mlp."),
    (r"\.(?<!_hc\.)scale$", ".weight_scale_inv"),
    (r"^embed\.", "embed_tokens."),
    (r"^head\.", "lm_head."),
    (r"^(?!lm_head|mtp)", "model."),
]
EXPORT = [
    (r"\.kv_norm\.", ".norm."),
    (r"(^|\.)hc_head_(fn|base|scale)$", r"\1hc_head.hc_\2"),
    (r"^embed\.", "embed_tokens."),
    (r"^(?!head|mtp)", "model."),
]


def renamed(rules):
    def change(t):
        for name in list(t):
            new = name
            for pattern, to in rules:
                new = re.sub(pattern, to, new)
            t[new] = t.pop(name)

    return change


def kv_cache_scales(t):
    for name in [n for n in t if n.endswith(".self_attn.sinks")]:
        layer = name[: -len("sinks")]
        t[layer + "k_proj.k_scale"] = t[layer + "v_proj.v_scale"] = scalar(1)


# ---- configs ------------------------------------------------------------------------------


def set_keys(**keys):
    def change(c):
        for key, value in keys.items():
            if value is None:
                c.pop(key, None)
            else:
                c[key] = value

    return change


def no_scale_format(c):
    del c["quantization_config"]["scale_fmt"]


def wrong_hints(c):
    """All that a config can say wrongly about numbers that are not what it says."""
    c["quantization_config"] = {
        "quant_method": "modelopt",
        "quant_algo": "NVFP4",
        "moe_quant_algo": "FP8",
        "weight_block_size": [32, 32],
    }
    c["expert_dtype"] = "fp8"
    c["tie_word_embeddings"] = True
    c["torch_dtype"] = "float16"


def transformers_keys(c):
    kinds = {0: "sliding", 4: "compressed_sparse", 128: "heavily_compressed"}
    c["layer_types"] = [kinds[r] + "_attention" for r in c.pop("compress_ratios")[:4]]
    c["mlp_layer_types"] = ["hash_moe"] * c.pop("num_hash_layers") + ["moe"] * 3
    main = {"rope_type": "default", "rope_theta": float(c.pop("rope_theta"))}
    yarn = c.pop("rope_scaling")
    yarn["rope_type"] = yarn["type"]
    yarn["rope_theta"] = float(c.pop("compress_rope_theta"))
    c["rope_parameters"] = {"main": main, "compress": yarn}
    c["compress_rates"] = {"compressed_sparse_attention": 4, "heavily_compressed_attention": 128}


OFFICIAL_KEYS = {
    "vocab_size": "vocab_size",
    "hidden_size": "dim",
    "moe_intermediate_size": "moe_inter_dim",
    "num_hidden_layers": "n_layers",
    "num_hash_layers": "n_hash_layers",
    "num_nextn_predict_layers": "n_mtp_layers",
    "num_attention_heads": "n_heads",
    "n_routed_experts": "n_routed_experts",
    "n_shared_experts": "n_shared_experts",
    "num_experts_per_tok": "n_activated_experts",
    "scoring_func": "score_func",
    "routed_scaling_factor": "route_scale",
    "swiglu_limit": "swiglu_limit",
    "q_lora_rank": "q_lora_rank",
    "head_dim": "head_dim",
    "qk_rope_head_dim": "rope_head_dim",
    "o_groups": "o_groups",
    "o_lora_rank": "o_lora_rank",
    "sliding_window": "window_size",
    "rope_theta": "rope_theta",
    "compress_rope_theta": "compress_rope_theta",
    "index_n_heads": "index_n_heads",
    "index_head_dim": "index_head_dim",
    "index_topk": "index_topk",
    "hc_mult": "hc_mult",
    "hc_sinkhorn_iters": "hc_sinkhorn_iters",
    "compress_ratios": "compress_ratios",
}


def official_keys(c):
    """inference/config.json of the released code."""
    yarn = c["rope_scaling"]
    new = {to: c[key] for key, to in OFFICIAL_KEYS.items()}
    new.update(dtype="fp8", expert_dtype="fp4", scale_fmt="ue8m0", rope_factor=yarn["factor"])
    new.update(original_seq_len=yarn["original_max_position_embeddings"])
    new.update(beta_fast=yarn["beta_fast"], beta_slow=yarn["beta_slow"])
    c.clear()
    c.update(new)


# ---- the families -------------------------------------------------------------------------
# name: (changes of tensors, changes of the config, how the files are written)
# "shards": with an index; "bare": shards alone; "one": a single file; "short": an index that
# omits every scale.

NVFP4_KEYS = set_keys(quantization_config={"quant_method": "fp8", "moe_quant_algo": "NVFP4"})
NO_MTP = drop(r"^mtp\.")

FAMILIES = {
    "nvfp4-official": ([experts_nvfp4(MAIN_EXPERTS)], [NVFP4_KEYS], "shards"),
    "nvfp4-scalars-1": ([experts_nvfp4(ALL_EXPERTS, (1,))], [], "shards"),
    "nvfp4-mtp": ([experts_nvfp4(MTP_EXPERTS)], [], "shards"),
    "nvfp4-w4a16": ([experts_nvfp4(ALL_EXPERTS, has_input=False)], [NVFP4_KEYS], "one"),
    "ct-nvfp4": (
        [
            NO_MTP,
            experts_compressed_tensors,
            dense_bf16(r".*\.shared_experts\.w[123]"),
            dense_scales("BF16", "weight_scale"),
        ],
        [set_keys(quantization_config={"quant_method": "compressed-tensors"}, expert_dtype=None)],
        "shards",
    ),
    "base": (
        [
            experts_fp8,
            dense_scales("F32", "scale"),
            copy_tensor("head.weight", "mtp.0.head.weight"),
        ],
        [set_keys(expert_dtype="fp8")],
        "shards",
    ),
    "base-scale-inv": (
        [
            experts_fp8,
            dense_scales("F32", "weight_scale_inv"),
            renamed([(r"(\.experts\..*)\.scale$", r"\1.weight_scale_inv")]),
        ],
        [set_keys(expert_dtype=None)],
        "bare",
    ),
    "bf16-dense": ([dense_bf16(NOT_EXPERTS), vectors_f32], [], "shards"),
    "mtp-absent": ([NO_MTP], [], "shards"),
    "mtp-copies": (
        [
            copy_tensor("head.weight", "mtp.0.head.weight"),
            copy_tensor("embed.weight", "mtp.0.emb.tok_emb.weight"),
        ],
        [],
        "bare",
    ),
    "dspark": ([dspark], [set_keys(dspark_block_size=5)], "shards"),
    "names-model-prefix": ([renamed([(r"^(?!mtp)", "model.")])], [], "shards"),
    "names-hugging-face": ([renamed(HUGGING_FACE), kv_cache_scales], [transformers_keys], "one"),
    "names-export": (
        [NO_MTP, experts_nvfp4(ALL_EXPERTS), renamed(EXPORT)],
        [transformers_keys],
        "one",
    ),
    "files-one": ([], [], "one"),
    "files-bare": ([], [], "bare"),
    "files-short-index": ([], [], "short"),
    "bytes-e8m0": ([scales_as_bytes], [], "shards"),
    "gate-f32": ([gates("F32")], [], "shards"),
    "gate-f16": ([gates("F16")], [], "shards"),
    "config-transformers": ([], [transformers_keys], "shards"),
    "config-official": ([], [official_keys], "shards"),
    "config-no-scale-fmt": ([], [no_scale_format], "shards"),
    "config-wrong-hints": ([], [wrong_hints], "shards"),
    "config-no-expert-dtype": (
        [],
        [set_keys(expert_dtype=None, quantization_config=None)],
        "shards",
    ),
    # 1 says window-only, as 0 does; 1,024 rows are more than any prompt of the tests has.
    "config-ratio-1": ([], [set_keys(compress_ratios=[1, 128, 4, 4, 1])], "shards"),
    "config-select-all": ([], [set_keys(index_topk=1024)], "shards"),
    "bad-one-input-scale": (
        [experts_nvfp4(MAIN_EXPERTS), drop(r"layers\.1\.ffn\.experts\.5\.w2\.input_scale")],
        [],
        "shards",
    ),
    "bad-dead-experts": (
        [
            experts_nvfp4(MAIN_EXPERTS),
            set_tensor("layers.0.ffn.experts.1.w1.input_scale", scalar(1e-42)),
            set_tensor("layers.0.ffn.experts.2.w1.input_scale", scalar(0)),
            set_tensor("layers.2.ffn.experts.3.w3.input_scale", scalar(np.inf)),
            set_tensor("layers.3.ffn.experts.7.w2.input_scale", scalar(np.nan)),
        ],
        [],
        "shards",
    ),
    "bad-global-scale-gone": (
        [experts_nvfp4(MAIN_EXPERTS), drop(r"layers\.2\.ffn\.experts\.3\.w1\.weight_scale_2")],
        [],
        "shards",
    ),
    "bad-mixed-experts": ([experts_nvfp4(r"layers\.1\.ffn\.experts\.6\.w3")], [], "shards"),
    "bad-mixed-gate-up": ([experts_nvfp4(r"layers\.1\.ffn\.experts\.\d+\.w3")], [], "shards"),
    "bad-bias-gone": ([drop(r"layers\.3\.ffn\.gate\.bias")], [], "shards"),
    "bad-extra": (
        [add_beside("norm.weight", "layers.2.attn.wq_c.weight", scalar(1))],
        [],
        "shards",
    ),
    "bad-block-scale": ([experts_nvfp4(MAIN_EXPERTS), spoil_scale], [], "shards"),
    "bad-router-id": ([spoil_router], [], "shards"),
    "bad-norm-nan": ([spoil_norm], [], "shards"),
    "bad-v41": ([], [set_keys(model_type="deepseek_v41")], "shards"),
    "bad-model-type": ([], [set_keys(model_type="llama")], "shards"),
    "bad-architecture": ([], [set_keys(architectures=["LlamaForCausalLM"])], "shards"),
    "nan-embedding": ([spoil_embedding], [], "shards"),
}


# ---- folders ------------------------------------------------------------------------------


def link(path, target):
    os.symlink(os.path.relpath(target, os.path.dirname(path)), path)


def is_scale(name):
    return name.endswith((".scale", "weight_scale", "weight_scale_inv")) and "_hc" not in name


def write_index(folder, shards, how):
    weight_map = {n: f for f, t in shards.items() for n in t if how != "short" or not is_scale(n)}
    total = sum(t.data.nbytes for s in shards.values() for t in s.values())
    with open(f"{folder}/model.safetensors.index.json", "w") as f:
        json.dump({"metadata": {"total_size": total}, "weight_map": weight_map}, f)


def write_weights(folder, source, changes, how):
    shards = {}
    for file, tensors in source.items():
        shards[file] = dict(tensors)
        for change in changes:
            change(shards[file])
    if how == "one":
        all_tensors = {n: t for s in shards.values() for n, t in s.items()}
        write_shard(f"{folder}/model.safetensors", all_tensors)
        return
    for file, tensors in shards.items():
        if tensors == source[file]:
            link(f"{folder}/{file}", f"{SOURCE}/{file}")
        else:
            write_shard(f"{folder}/{file}", tensors)
    if how != "bare":
        write_index(folder, shards, how)


def write_family(folder, source, config, family):
    changes, config_changes, how = family
    os.makedirs(folder)
    write_weights(folder, source, changes, how)
    new = json.loads(config)
    for change in config_changes:
        change(new)
    with open(f"{folder}/config.json", "w") as f:
        json.dump(new, f, indent=2)
    for file in ("generation_config.json", "tokenizer.json", "tokenizer_config.json"):
        link(f"{folder}/{file}", f"{SOURCE}/{file}")


def fingerprint():
    digest = hashlib.sha256()
    for path in [__file__] + sorted(f"{SOURCE}/{f}" for f in os.listdir(SOURCE)):
        with open(path, "rb") as f:
            digest.update(f.read())
    return digest.hexdigest()


def update(target):
    stamp, mark = f"{target}/made-from", fingerprint()
    if os.path.exists(stamp):
        with open(stamp) as f:
            if f.read() == mark:
                return
    shutil.rmtree(target, ignore_errors=True)
    names = sorted(f for f in os.listdir(SOURCE) if f.endswith(".safetensors"))
    source = {f: read_shard(f"{SOURCE}/{f}") for f in names}
    with open(f"{SOURCE}/config.json") as f:
        config = f.read()
    for name, family in FAMILIES.items():
        write_family(f"{target}/{name}", source, config, family)
    with open(stamp, "w") as f:
        f.write(mark)


def main():
    target = sys.argv[1] if len(sys.argv) > 1 else "build/families"
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    os.makedirs(os.path.dirname(target) or ".", exist_ok=True)
    with open(f"{target}.lock", "w") as lock:  # tests may run side by side
        fcntl.flock(lock, fcntl.LOCK_EX)
        update(target)


if __name__ == "__main__":
    main()
