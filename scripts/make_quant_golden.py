#!/usr/bin/env python3
"""Writes tests/golden/quant_codes.txt with ml_dtypes as the oracle (pip install ml_dtypes numpy).

Lines, all numbers in hexadecimal:
  c <f32 bits> <e4m3 code> <e2m1 code> <bf16 bits>       one value; NaN has no e2m1 code: ff
  n <f32 scale bits> <16 f32 bits> <16 codes> <e4m3 code> <saturated>   one NVFP4 block
  m <32 f32 bits> <32 codes> <e8m0 code>                 one MXFP4 block
"""
import sys

import ml_dtypes as ml
import numpy as np

E4M3, E2M1 = ml.float8_e4m3fn, ml.float4_e2m1fn
rng = np.random.default_rng(4)


def bits(x):
    return np.asarray(x, np.float32).view(np.uint32)


def e4m3(x):
    """Saturating, while ml_dtypes overflows to NaN."""
    return np.clip(np.asarray(x, np.float64), -448, 448).astype(E4M3).view(np.uint8)


def e2m1(x):
    return np.clip(np.asarray(x, np.float64), -6, 6).astype(E2M1).view(np.uint8) & 15


def around(points):
    """Each point and its f32 neighbours, with both signs."""
    points = np.asarray(points, np.float32)
    up, down = np.nextafter(points, np.float32(np.inf)), np.nextafter(points, np.float32(-np.inf))
    all_ = np.concatenate([points, up, down])
    return np.concatenate([all_, -all_])


def interesting():
    steps8 = np.arange(0x7F, dtype=np.uint8).view(E4M3).astype(np.float64)
    steps4 = np.arange(8, dtype=np.uint8).view(E2M1).astype(np.float64)
    middle = [(s[1:] + s[:-1]) / 2 for s in (steps8, steps4)]
    special = [0.0, 2.0**-149, 2.0**-126, 448, 464, 465, 480, 6, 7, 1e30, 3.4028235e38, np.inf]
    tied_bf16 = np.array([0x3F808000, 0x3F818000, 0x3F80FFFF, 0x7F7F8000, 0x00008000, 0x00018000],
                         np.uint32).view(np.float32)
    random = rng.integers(0, 0x7F800000, 600, dtype=np.uint32).view(np.float32)
    return np.concatenate([around(steps8), around(middle[0]), around(middle[1]), around(special),
                           around(tied_bf16), random, np.float32([np.nan])])


def nvfp4_line(x, scale):
    amax = np.max(np.abs(x.astype(np.float64)))
    wanted = amax / 6 / np.float64(scale)
    code = e4m3(wanted)
    s = np.float64(code.view(E4M3)) * np.float64(scale)
    codes = e2m1(x.astype(np.float64) / s) if s > 0 else np.zeros(16, np.uint8)
    return f"n {bits(scale):x} " + row(x, codes) + f" {int(code):x} {int(wanted > 448):x}"


def mxfp4_line(x):
    amax = np.max(np.abs(x.astype(np.float64)))
    exponent = max(-127, int(np.ceil(np.log2(amax / 6)))) if amax > 0 else 0
    return "m " + row(x, e2m1(x.astype(np.float64) / 2.0**exponent)) + f" {exponent + 127:x}"


def row(x, codes):
    return " ".join(f"{b:x}" for b in bits(x)) + " " + " ".join(f"{c:x}" for c in codes)


def blocks(n):
    for i in range(24):
        size = np.float32(2.0 ** rng.integers(-30, 30))
        yield (rng.standard_normal(n) * size).astype(np.float32)
    yield np.zeros(n, np.float32)
    yield np.full(n, 6, np.float32)
    yield np.float32(rng.integers(-24, 25, n)) / 4
    yield np.float32(rng.integers(-100, 101, n) * 2.0**-149)


def main():
    out = []
    for x in np.unique(bits(interesting())).view(np.float32):
        fp4 = 0xFF if np.isnan(x) else int(e2m1(x))
        fp8 = 0x7F if np.isnan(x) else int(e4m3(x))
        bf16 = int(np.float32(x).astype(ml.bfloat16).view(np.uint16))
        out.append(f"c {bits(x):x} {fp8:x} {fp4:x} {bf16:x}")
    for i, x in enumerate(blocks(16)):
        amax = max(float(np.max(np.abs(x))), 1e-30)
        scale = np.float32(amax / 2688 * [1, 1, 0.25, 40, 3000][i % 5])
        out.append(nvfp4_line(x, scale))
    out.extend(mxfp4_line(x) for x in blocks(32))
    with open(sys.argv[1] if len(sys.argv) > 1 else "tests/golden/quant_codes.txt", "w") as f:
        f.write("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
