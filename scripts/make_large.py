#!/usr/bin/env python3
"""Writes a checkpoint of DeepSeek-V4-Pro's or Flash's size without its weights, or with some.

    scripts/make_large.py [FOLDER]                   default: build/pro
    scripts/make_large.py --flash [FOLDER]           default: build/flash
    scripts/make_large.py --small [FOLDER]           default: build/pro-small
    scripts/make_large.py --flash --layers 3 --data FOLDER

The config, the index and the headers of all shards are real: names, dtypes and shapes of Pro's
145,116 tensors, 864,704,792,696 bytes of them, or of Flash's 69,187 and 159,609,485,896.  The
data is a hole in each file, so that the folder takes some 30 MB on a file system with sparse files.

--layers N  keeps the first N layers, and the MTP block.
--data      writes all data: a few megabytes of random numbers, over and over.
--small     keeps Pro's layers, experts and names, and so the number of tensors; the dimensions are
            small and all data is there: 330 MB of random numbers that a model can be run with.

The tokenizer is that of models/demo.  bench/bench_open.c reads the first and the third.
"""
import argparse
import array
import json
import math
import os
import random
import shutil
import sys

LAYERS, D, HEADS, HEAD, Q, GROUPS, O_RANK = 61, 7168, 128, 512, 1536, 16, 1024
INTER, EXPERTS, USED, VOCAB, HASH = 3072, 384, 6, 129280, 3
INDEX_HEADS, INDEX, INDEX_TOPK, SCALE = 64, 128, 1024, 2.5
RATIOS = [128, 128] + [4, 128] * 29 + [4] + [0]
WIDTH = {"I8": 1, "F8_E4M3": 1, "F8_E8M0": 1, "BF16": 2, "F32": 4, "I64": 8}
N_TENSORS, N_BYTES = 145116, 864704792696
FLASH = {"LAYERS": 43, "D": 4096, "HEADS": 64, "Q": 1024, "GROUPS": 8, "INTER": 2048,
         "EXPERTS": 256, "INDEX_TOPK": 512, "SCALE": 1.5,
         "RATIOS": [0, 0] + [4, 128] * 20 + [4] + [0], "N_TENSORS": 69187, "N_BYTES": 159609485896}
SMALL = {"D": 128, "HEADS": 2, "HEAD": 128, "Q": 128, "GROUPS": 2, "O_RANK": 32, "INTER": 64,
         "VOCAB": 2048, "INDEX_HEADS": 2, "INDEX": 64}
PATTERN = 1 << 20  # elements that --data repeats


class Shard(dict):
    def bf16(self, name, *shape):
        self[name] = "BF16", shape

    def f32(self, name, *shape):
        self[name] = "F32", shape

    def fp8(self, name, n, k):
        self[name + ".weight"] = "F8_E4M3", (n, k)
        self[name + ".scale"] = "F8_E8M0", (-(-n // 128), -(-k // 128))

    def fp4(self, name, n, k):
        self[name + ".weight"] = "I8", (n, k // 2)
        self[name + ".scale"] = "F8_E8M0", (n, k // 32)


def add_hc(s, name, outputs, scales):
    s.f32(name + "_fn", outputs, 4 * D)
    s.f32(name + "_base", outputs)
    s.f32(name + "_scale", scales)


def add_compressor(s, p, ratio, head):
    width = 2 * head if ratio == 4 else head
    s.f32(p + ".ape", ratio, width)
    s.bf16(p + ".wkv.weight", width, D)
    s.bf16(p + ".wgate.weight", width, D)
    s.bf16(p + ".norm.weight", head)


def add_attention(s, p, ratio):
    s.f32(p + "attn_sink", HEADS)
    s.bf16(p + "q_norm.weight", Q)
    s.bf16(p + "kv_norm.weight", HEAD)
    s.fp8(p + "wq_a", Q, D)
    s.fp8(p + "wq_b", HEADS * HEAD, Q)
    s.fp8(p + "wkv", HEAD, D)
    s.fp8(p + "wo_a", GROUPS * O_RANK, HEADS * HEAD // GROUPS)
    s.fp8(p + "wo_b", D, GROUPS * O_RANK)
    if ratio:
        add_compressor(s, p + "compressor", ratio, HEAD)
    if ratio == 4:
        s.fp8(p + "indexer.wq_b", INDEX_HEADS * INDEX, Q)
        s.bf16(p + "indexer.weights_proj.weight", INDEX_HEADS, D)
        add_compressor(s, p + "indexer.compressor", 4, INDEX)


def add_experts(s, p, is_hash):
    s.bf16(p + "gate.weight", EXPERTS, D)
    if is_hash:
        s[p + "gate.tid2eid"] = "I64", (VOCAB, USED)
    else:
        s.f32(p + "gate.bias", EXPERTS)
    for e in range(EXPERTS):
        for w, n, k in (("w1", INTER, D), ("w3", INTER, D), ("w2", D, INTER)):
            s.fp4(f"{p}experts.{e}.{w}", n, k)
    for w, n, k in (("w1", INTER, D), ("w3", INTER, D), ("w2", D, INTER)):
        s.fp8(f"{p}shared_experts.{w}", n, k)


def add_layer(s, p, ratio, is_hash):
    s.bf16(p + "attn_norm.weight", D)
    s.bf16(p + "ffn_norm.weight", D)
    add_hc(s, p + "hc_attn", 24, 3)
    add_hc(s, p + "hc_ffn", 24, 3)
    add_attention(s, p + "attn.", ratio)
    add_experts(s, p + "ffn.", is_hash)


def make_shards():
    first, last, mtp = Shard(), Shard(), Shard()
    first.bf16("embed.weight", VOCAB, D)
    last.bf16("head.weight", VOCAB, D)
    last.bf16("norm.weight", D)
    add_hc(last, "hc_head", 4, 1)
    add_layer(mtp, "mtp.0.", 0, False)
    for name in ("e_proj", "h_proj"):
        mtp.fp8("mtp.0." + name, D, D)
    for name in ("enorm", "hnorm", "norm"):
        mtp.bf16(f"mtp.0.{name}.weight", D)
    add_hc(mtp, "mtp.0.hc_head", 4, 1)
    layers = [Shard() for _ in range(LAYERS)]
    for i, s in enumerate(layers):
        add_layer(s, f"layers.{i}.", RATIOS[i], i < HASH)
    return [first, *layers, last, mtp]


def make_data(dtype, n, rng):
    """n elements: codes of any kind, scales of 1/16 to 1, small numbers, ids of experts."""
    if dtype in ("I8", "F8_E4M3"):
        return bytes(b & 0xF7 for b in rng.randbytes(n))  # no NaN
    if dtype == "F8_E8M0":
        return bytes(123 + (b & 3) for b in rng.randbytes(n))
    if dtype == "I64":
        return array.array("q", (rng.randrange(EXPERTS) for _ in range(n))).tobytes()
    if dtype == "F32":
        return array.array("f", (rng.uniform(-0.1, 0.1) for _ in range(n))).tobytes()
    high = (0x3C + (b & 0x83) for b in rng.randbytes(n))
    return b"".join(bytes((0, b)) for b in high)  # BF16, 2^-7 to 2^-1


class Random:
    """Every element anew."""

    def __init__(self):
        self.rng = random.Random(4)

    def write(self, f, dtype, n):
        f.write(make_data(dtype, n, self.rng))


class Pattern:
    """The same elements of a dtype over and over."""

    def __init__(self):
        rng = random.Random(4)
        self.data = {dtype: make_data(dtype, PATTERN, rng) for dtype in WIDTH}

    def write(self, f, dtype, n):
        for _ in range(n // PATTERN):
            f.write(self.data[dtype])
        f.write(self.data[dtype][:n % PATTERN * WIDTH[dtype]])


def write_shard(path, shard, data):
    """Returns the bytes of its tensors; without `data` they are a hole."""
    header, at = {"__metadata__": {"format": "pt"}}, 0
    counts = {}
    for name, (dtype, shape) in shard.items():
        n = counts[name] = math.prod(shape)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + n * WIDTH[dtype]]}
        at += n * WIDTH[dtype]
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        if data:
            for name, (dtype, _) in shard.items():
                data.write(f, dtype, counts[name])
        else:
            f.truncate(8 + len(text) + at)
    return at


def config():
    return {
        "model_type": "deepseek_v4", "architectures": ["DeepseekV4ForCausalLM"],
        "hidden_size": D, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
        "num_key_value_heads": 1, "head_dim": HEAD, "qk_rope_head_dim": 64, "q_lora_rank": Q,
        "o_groups": GROUPS, "o_lora_rank": O_RANK, "moe_intermediate_size": INTER,
        "n_routed_experts": EXPERTS, "num_experts_per_tok": USED, "n_shared_experts": 1,
        "num_hash_layers": HASH, "routed_scaling_factor": SCALE, "scoring_func": "sqrtsoftplus",
        "topk_method": "noaux_tc", "norm_topk_prob": True, "hidden_act": "silu",
        "swiglu_limit": 10.0, "index_n_heads": INDEX_HEADS, "index_head_dim": INDEX,
        "index_topk": INDEX_TOPK, "compress_ratios": RATIOS, "sliding_window": 128,
        "vocab_size": VOCAB, "hc_mult": 4, "hc_sinkhorn_iters": 20, "hc_eps": 1e-6,
        "rms_norm_eps": 1e-6, "rope_theta": 10000, "compress_rope_theta": 160000,
        "rope_scaling": {"type": "yarn", "factor": 16, "beta_fast": 32, "beta_slow": 1,
                         "original_max_position_embeddings": 65536},
        "max_position_embeddings": 1048576, "num_nextn_predict_layers": 1,
        "tie_word_embeddings": False, "bos_token_id": 0, "eos_token_id": 1,
        "expert_dtype": "fp4",
        "quantization_config": {"quant_method": "fp8", "activation_scheme": "dynamic",
                                "fmt": "e4m3", "scale_fmt": "ue8m0",
                                "weight_block_size": [128, 128]}}


def write_json(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
        json.dump(value, f, indent=2)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--flash", action="store_true")
    size.add_argument("--small", action="store_true")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--data", action="store_true")
    parser.add_argument("folder", nargs="?")
    return parser.parse_args()


def set_size(o):
    """Returns the folder to write."""
    globals().update(SMALL if o.small else FLASH if o.flash else {})
    if o.layers:
        globals().update(LAYERS=o.layers, HASH=min(HASH, o.layers),
                         RATIOS=RATIOS[:o.layers] + RATIOS[-1:])
    return o.folder or ("build/pro-small" if o.small else "build/flash" if o.flash else "build/pro")


def main():
    o = parse_arguments()
    folder = set_size(o)
    os.makedirs(folder, exist_ok=True)
    shards, total, where = make_shards(), 0, {}
    data = Random() if o.small else Pattern() if o.data else None
    for i, shard in enumerate(shards, 1):
        name = f"model-{i:05}-of-{len(shards):05}.safetensors"
        total += write_shard(os.path.join(folder, name), shard, data)
        where.update(dict.fromkeys(shard, name))
    if not o.layers and (len(where) != N_TENSORS or (not o.small and total != N_BYTES)):
        sys.exit(f"make_large: {len(where)} tensors of {total} bytes: wanted {N_TENSORS} "
                 f"of {N_BYTES}")
    write_json(folder, "model.safetensors.index.json",
               {"metadata": {"total_size": total}, "weight_map": where})
    write_json(folder, "config.json", config())
    shutil.copy(os.path.join(os.path.dirname(__file__), "../models/demo/tokenizer.json"), folder)
    print(f"{folder}: {len(where)} tensors, {total} bytes, {len(shards)} shards")


if __name__ == "__main__":
    main()
