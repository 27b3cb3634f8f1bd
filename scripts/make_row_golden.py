#!/usr/bin/env python3
"""Writes tests/golden/kv_rows.safetensors: rows of KV caches and the bytes of the pools that hold
them, with ml_dtypes as the oracle (pip install ml_dtypes numpy safetensors).

`NAME.x` f32 [rows, d], `NAME.pool` u8 [bytes], `NAME.y` f32 [rows, d] what the pool reads as, for
NAME = FORMAT.d.tail.page.  Offsets are written out here as the published layouts give them, not
computed as the program does.
"""
import ml_dtypes as ml
import numpy as np
from safetensors.numpy import save_file

E4M3, E2M1 = ml.float8_e4m3fn, ml.float4_e2m1fn
rng = np.random.default_rng(7)


def bf16(x):
    b = x.astype(ml.bfloat16)
    return b.view(np.uint8), b.astype(np.float32)


def codes_e2m1(v):
    return np.clip(v, -6, 6).astype(E2M1).view(np.uint8) & 15


def pack(codes):
    return codes[0::2] | codes[1::2] << 4


def blockwise(x, size, encode):
    """Bytes, scales and values of all blocks of a row."""
    data, scales, values = [], [], []
    for block in x.astype(np.float64).reshape(-1, size):
        d, s, v = encode(block, np.max(np.abs(block)) if np.isfinite(block).all() else np.nan)
        data.append(d), scales.append(s), values.append(v)
    join = lambda parts, t: np.concatenate(parts).astype(t) if parts else np.zeros(0, t)
    return join(data, np.uint8), np.array(scales, np.uint8), join(values, np.float32)


def fp8_tile(x, amax):
    if np.isnan(amax):
        return np.full(len(x), 0x7F, np.uint8), 0xFF, x * np.nan
    e = int(np.ceil(np.log2(max(amax, 1e-4) / 448)))
    q = np.clip(x / 2.0**e, -448, 448).astype(E4M3)
    return q.view(np.uint8), e + 127, q.astype(np.float64) * 2.0**e


def nvfp4_block(x, amax):
    scale = np.float64(np.nan) if np.isnan(amax) else min(amax / 6, 448)
    code = np.asarray(scale).astype(E4M3)
    s = float(code)
    codes = codes_e2m1(x / s) if s > 0 else np.zeros(len(x), np.uint8)
    return pack(codes), int(code.view(np.uint8)) & 0x7F, codes.view(E2M1).astype(np.float64) * s


def mxfp4_block(x, amax):
    if np.isnan(amax):
        return np.zeros(len(x) // 2, np.uint8), 0xFF, x * np.nan
    e = max(-127, int(np.ceil(np.log2(amax / 6)))) if amax > 0 else 0
    codes = codes_e2m1(x / 2.0**e)
    return pack(codes), e + 127, codes.view(E2M1).astype(np.float64) * 2.0**e


CODED = {"fp8": (64, fp8_tile), "nvfp4": (16, nvfp4_block), "mxfp4": (32, mxfp4_block)}


def row(fmt, x, tail):
    """Data bytes, scale bytes and values of one row."""
    if fmt == "f32":
        return x.view(np.uint8), np.zeros(0, np.uint8), x
    if fmt == "bf16":
        b, v = bf16(x)
        return b, np.zeros(0, np.uint8), v
    size, encode = CODED[fmt]
    data, scales, values = blockwise(x[:len(x) - tail], size, encode)
    b, v = bf16(x[len(x) - tail:])
    return np.concatenate([data, b]), scales, np.concatenate([values, v])


#        format  d    tail page  data of a row, scales of a row, page stride
POOLS = [("f32", 5, 0, 3, 20, 0, 60),
         ("bf16", 128, 0, 2, 256, 0, 512),
         ("fp8", 512, 64, 2, 576, 8, 1728),
         ("fp8", 512, 64, 64, 576, 8, 37440),
         ("fp8", 128, 64, 4, 192, 8, 960),
         ("nvfp4", 512, 64, 2, 352, 32, 768),
         ("nvfp4", 128, 64, 3, 160, 8, 504),
         ("mxfp4", 128, 0, 64, 64, 4, 4352)]


def rows_of(d):
    """Ordinary rows, ties, sizes far apart, zeros, and rows with a NaN, an infinity."""
    normal = rng.standard_normal((3, d))
    ties = rng.integers(-64, 65, (1, d)) / 8
    wide = rng.standard_normal((1, d)) * 2.0 ** rng.integers(-20, 6, (1, d))
    small = rng.standard_normal((1, d)) * 2.0**-18
    broken = rng.standard_normal((2, d))
    broken[0, d // 3], broken[1, d - 1] = np.nan, np.inf
    inside = rng.standard_normal((1, d))
    inside[0, 1] = -np.inf
    return np.concatenate([normal, ties, wide, small, np.zeros((1, d)), broken, inside]).astype(
        np.float32)


def pool(fmt, d, tail, page, data_bytes, scale_bytes, stride):
    x = rows_of(d)
    out = np.zeros((-(-len(x) // page)) * stride, np.uint8)
    values = np.zeros_like(x)
    for i in range(len(x)):
        data, scales, values[i] = row(fmt, x[i], tail)
        assert len(data) == data_bytes and len(scales) <= scale_bytes
        start = i // page * stride
        at, behind = start + i % page * data_bytes, start + page * data_bytes
        out[at:at + data_bytes] = data
        out[behind + i % page * scale_bytes:][:len(scales)] = scales
    return x, out, values


def main():
    tensors = {}
    for spec in POOLS:
        name = ".".join(str(s) for s in spec[:4])
        with np.errstate(invalid="ignore"):
            x, bytes_, y = pool(*spec)
        used = bytes_ if spec[3] < 10 else bytes_[:spec[6]]
        tensors.update({name + ".x": x, name + ".pool": used, name + ".y": y})
    save_file(tensors, "tests/golden/kv_rows.safetensors")


main()
