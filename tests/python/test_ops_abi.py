#!/usr/bin/env python3
"""The ops through hadal_ops.h from another language: examples/hadal_ops.py on numpy arrays."""
import ctypes
import os
import sys

import numpy as np

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "examples"))
from hadal_ops import HOST, Gemm, GroupedGemm, MoeSum, Ops, Router, SwiGLU  # noqa: E402

E2M1 = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6])
FAILED = []
PASSED = 0


def expect(name, is_right):
    global PASSED
    if is_right:
        PASSED += 1
    else:
        FAILED.append(name)
        print(f"FAILED {name}")


def e4m3(bytes_):
    """Positive numbers only."""
    exponent, mantissa = bytes_ >> 3, bytes_ & 7
    return np.where(exponent > 0, (8 + mantissa) * 2. ** (exponent - 10.), mantissa * 2. ** -9)


class Matrix:
    def __init__(self, rng, n, k):
        self.codes = rng.integers(0, 256, (n, k // 2), dtype=np.uint8)
        self.sf = rng.integers(0x28, 0x40, (n, k // 16), dtype=np.uint8)
        values = np.empty((n, k))
        values[:, 0::2], values[:, 1::2] = E2M1[self.codes & 15], E2M1[self.codes >> 4]
        self.values = values * np.repeat(e4m3(self.sf.astype(int)), 16, axis=1) / 512


def at(a):
    return a.ctypes.data


def differs(got, want):
    return np.abs(got - want).max() / np.abs(want).max()


def refused(call, *words):
    try:
        call()
    except RuntimeError as why:
        return all(w in str(why) for w in words)
    return False


def test_linear(ops, rng):
    for t, n, k in ((1, 7, 16), (3, 64, 512), (5, 33, 1040)):
        w = Matrix(rng, n, k)
        x = rng.standard_normal((t, k), dtype=np.float32)
        y = np.full((t, n), np.nan, np.float32)
        a = Gemm(x=at(x), w=at(w.codes), sf=at(w.sf), y=at(y), t=t, n=n, k=k, g=1, w_scale=1 / 512)
        ops.launch(ops.choose("gemm_nvfp4", a), a)
        expect(f"linear {t} {n} {k}", differs(y, x.astype(float) @ w.values.T) < 1e-5)


def test_tiles(ops, rng):
    for t, n, k in ((1, 32, 64), (3, 96, 320)):
        w = Matrix(rng, n, k)
        codes, sf = np.empty_like(w.codes), np.empty_like(w.sf)
        ops.to_tiles(n, k, at(w.codes), at(w.sf), at(codes), at(sf))
        x = rng.standard_normal((t, k), dtype=np.float32)
        y = np.full((t, n), np.nan, np.float32)
        a = Gemm(x=at(x), w=at(codes), sf=at(sf), y=at(y), t=t, n=n, k=k, g=1, w_scale=1 / 512)
        ops.launch(ops.choose("gemm_nvfp4_tiles", a), a)
        expect(f"tiles {t} {n} {k}", differs(y, x.astype(float) @ w.values.T) < 1e-5)


def test_experts(ops, rng):
    t, e, s, d, h = 3, 8, 2, 64, 32
    layers = [[Matrix(rng, n, k) for _ in range(e)] for n, k in ((h, d), (h, d), (d, h))]
    x = rng.standard_normal((t, d), dtype=np.float32)
    logits = rng.standard_normal((t, e), dtype=np.float32)
    bias = np.zeros(e, np.float32)
    scale = np.full(e, 1 / 512, np.float32)
    ids, weight = np.zeros((t, s), np.int32), np.zeros((t, s), np.float32)
    gate, up = (np.full((t, s, h), np.nan, np.float32) for _ in range(2))
    y, out, shared = np.empty((t, s, d), np.float32), np.empty((t, d), np.float32), np.ones((t, d),
                                                                                           np.float32)
    lists = []

    def product(layer, x, xs, y, n, k):
        codes = np.array([at(m.codes) for m in layer], np.uintp)
        scales = np.array([at(m.sf) for m in layer], np.uintp)
        lists.extend((codes, scales))
        return GroupedGemm(x=at(x), ids=at(ids), w=at(codes), sf=at(scales), w_scale=at(scale),
                           y=at(y), t=t, s=s, xs=xs, n=n, k=k, e=e)

    for op, a in (
            ("router", Router(logits=at(logits), bias=at(bias), ids=at(ids), w=at(weight), t=t, s=s,
                              e=e, scale=1.5)),
            ("grouped_gemm_nvfp4", product(layers[0], x, 1, gate, h, d)),
            ("grouped_gemm_nvfp4", product(layers[1], x, 1, up, h, d)),
            ("swiglu", SwiGLU(gate=at(gate), up=at(up), y=at(gate), r=t * s, n=h, limit=10)),
            ("grouped_gemm_nvfp4", product(layers[2], gate, s, y, d, h)),
            ("moe_sum", MoeSum(y=at(y), w=at(weight), shared=at(shared), out=at(out), t=t, s=s,
                               d=d, has_w=True))):
        ops.launch(ops.choose(op, a), a)
    score = np.sqrt(np.log1p(np.exp(logits.astype(float))))
    want = shared.astype(float)
    for i in range(t):
        best = np.argsort(-score[i])[:s]
        for j in best:
            g = np.minimum(layers[0][j].values @ x[i], 10)
            u = np.clip(layers[1][j].values @ x[i], -10, 10)
            share = score[i, j] / score[i, best].sum() * 1.5
            want[i] += share * (layers[2][j].values @ (g / (1 + np.exp(-g)) * u))
    expect("expert layer", differs(out, want) < 1e-5)


def test_refusals(ops):
    x = np.zeros((1, 64), np.float32)
    good = dict(x=at(x), w=at(x), sf=at(x), y=at(x), t=1, n=1, k=16, g=1, w_scale=1)
    expect("unknown op", refused(lambda: ops.choose("gemm_fp3", Gemm()), "gemm_fp3"))
    expect("other size", refused(lambda: ops.choose("gemm_nvfp4", SwiGLU()), "bytes"))
    expect("k", refused(lambda: ops.choose("gemm_nvfp4", Gemm(**{**good, "k": 24})), "k % 16"))
    expect("t", refused(lambda: ops.choose("gemm_nvfp4", Gemm(**{**good, "t": -1})), "negative"))
    kernel = ops.choose("gemm_nvfp4", Gemm(**good))
    expect("NULL", refused(lambda: ops.launch(kernel, Gemm(**{**good, "sf": None})), "sf", "NULL"))
    ops.isa = 0x38
    expect("families", refused(lambda: ops.choose("gemm_nvfp4", Gemm(**good)), "does not run"))


def main():
    path = os.path.join(ROOT, "build", "libhadal.so")
    rng = np.random.default_rng(3)
    families = ctypes.CDLL(path).hd_ops_families()
    for isa in (1 << b for b in range(3) if families & HOST & 1 << b):
        # A family alone has not every op: what it lacks, the reference computes.
        ops = Ops(path, isa | 1)
        test_linear(ops, rng)
        test_experts(ops, rng)
    test_tiles(Ops(path, HOST), rng)
    test_refusals(Ops(path, HOST))
    print(f"{PASSED} passed, {len(FAILED)} failed")
    sys.exit(bool(FAILED))


if __name__ == "__main__":
    main()
