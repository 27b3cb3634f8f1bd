#!/usr/bin/env python3
"""Hadal's NVFP4 linear and a layer of routed experts on torch tensors.

    make CUDA=1 shared && examples/ops_torch.py build/cuda/libhadal.so
    make shared        && examples/ops_torch.py build/libhadal.so --small

On a GPU the calls are captured into a torch.cuda.CUDAGraph, which is replayed on new input; on a
CPU they run directly.  Results are compared with torch's own products of the decoded weights; the
program fails when a row differs by more than 1e-5 of its largest value.
"""
import argparse
import sys

import torch

from hadal_ops import GPU, HOST, SM90, Gemm, GroupedGemm, MoeSum, Ops, Router, SwiGLU

E2M1 = [0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6]


class Matrices:
    """e random NVFP4 matrices [n, k] as checkpoints hold them: codes, E4M3 scales, one scale; `w`
    and `w_sf` are the same in the order that the kernels take."""

    def __init__(self, ops, e, n, k, device):
        self.n, self.k, self.scale = n, k, 1 / 2048
        self.codes = torch.randint(0, 256, (e, n, k // 2), dtype=torch.uint8)
        self.sf = torch.randint(0x28, 0x40, (e, n, k // 16), dtype=torch.uint8)
        self.w, self.w_sf = self.codes, self.sf
        if ops.in_tiles:
            self.w, self.w_sf = torch.empty_like(self.codes), torch.empty_like(self.sf)
            for i in range(e):
                ops.to_tiles(n, k, self.codes[i].data_ptr(), self.sf[i].data_ptr(),
                             self.w[i].data_ptr(), self.w_sf[i].data_ptr())
        self.codes, self.sf = self.codes.to(device), self.sf.to(device)
        self.w, self.w_sf = self.w.to(device), self.w_sf.to(device)

    def decode(self, i):
        table = torch.tensor(E2M1, device=self.codes.device)
        low, high = table[(self.codes[i] & 15).long()], table[(self.codes[i] >> 4).long()]
        values = torch.stack((low, high), -1).view(self.n, self.k // 16, 16)
        scales = self.sf[i].view(torch.float8_e4m3fn).float() * self.scale
        return (values * scales[..., None]).view(self.n, self.k)

    def pointers(self, of):
        """The array of one address for each matrix that grouped ops take."""
        step = of.stride(0)
        return torch.tensor([of.data_ptr() + i * step for i in range(len(of))], device=of.device)


class Steps:
    """Calls with their kernels chosen, ready to be run again and again."""

    def __init__(self, ops):
        self.ops, self.calls = ops, []

    def add(self, op, args):
        kernel = self.ops.choose(op, args)
        print(f"  {op:20} {self.ops.name(kernel)}")
        self.calls.append((kernel, args))

    def run(self, stream=None):
        for kernel, args in self.calls:
            self.ops.launch(kernel, args, stream)


def linear(ops, t, n, k, device):
    """Returns steps, input, output and the function that torch computes instead."""
    w = Matrices(ops, 1, n, k, device)
    x, y = torch.zeros(t, k, device=device), torch.zeros(t, n, device=device)
    steps = Steps(ops)
    steps.add(f"gemm_nvfp4{ops.suffix}", Gemm(x=x.data_ptr(), w=w.w.data_ptr(), sf=w.w_sf.data_ptr(),
                                              y=y.data_ptr(), t=t, n=n, k=k, g=1, w_scale=w.scale))
    return steps, x, y, lambda: x @ w.decode(0).T, w


def experts(ops, t, e, s, d, h, device):
    """Router, gate and up, SwiGLU, down, weighted sum: a layer's routed experts."""
    w1, w3, w2 = (Matrices(ops, e, n, k, device) for n, k in ((h, d), (h, d), (d, h)))
    real = dict(device=device, dtype=torch.float32)
    x, out, none = (torch.zeros(t, d, **real) for _ in range(3))
    gate = torch.randn(e, d, **real) / d ** .5
    logits, bias = torch.zeros(t, e, **real), torch.zeros(e, **real)
    ids = torch.zeros(t, s, dtype=torch.int32, device=device)
    weight = torch.zeros(t, s, **real)
    a, b, y = (torch.zeros(t, s, n, **real) for n in (h, h, d))
    scale = torch.full((e,), w1.scale, **real)
    keep = [scale, bias]

    def product(w, x, xs, y):
        lists = [w.pointers(w.w), w.pointers(w.w_sf)]
        keep.extend(lists)
        return GroupedGemm(x=x.data_ptr(), ids=ids.data_ptr(), w=lists[0].data_ptr(),
                           sf=lists[1].data_ptr(), w_scale=scale.data_ptr(), y=y.data_ptr(), t=t,
                           s=s, xs=xs, n=w.n, k=w.k, e=e)

    steps = Steps(ops)
    steps.add("gemm_f32", Gemm(x=x.data_ptr(), w=gate.data_ptr(), y=logits.data_ptr(), t=t, n=e,
                               k=d, g=1))
    steps.add("router", Router(logits=logits.data_ptr(), bias=bias.data_ptr(), ids=ids.data_ptr(),
                               w=weight.data_ptr(), t=t, s=s, e=e, scale=1.5, scoring=0))
    steps.add(f"grouped_gemm_nvfp4{ops.suffix}", product(w1, x, 1, a))
    steps.add(f"grouped_gemm_nvfp4{ops.suffix}", product(w3, x, 1, b))
    steps.add("swiglu", SwiGLU(gate=a.data_ptr(), up=b.data_ptr(), y=a.data_ptr(), r=t * s, n=h,
                               limit=10))
    steps.add(f"grouped_gemm_nvfp4{ops.suffix}", product(w2, a, s, y))
    steps.add("moe_sum", MoeSum(y=y.data_ptr(), w=weight.data_ptr(), shared=none.data_ptr(),
                                out=out.data_ptr(), t=t, s=s, d=d, has_w=True))

    def expected():
        score = torch.nn.functional.softplus(x @ gate.T).sqrt()
        best, picked = score.topk(s)
        share = best / best.sum(-1, keepdim=True) * 1.5
        want = torch.zeros_like(x)
        for i in range(t):
            for j in range(s):
                e_id = int(picked[i, j])
                g = (w1.decode(e_id) @ x[i]).clamp(max=10)
                u = (w3.decode(e_id) @ x[i]).clamp(-10, 10)
                want[i] += share[i, j] * (w2.decode(e_id) @ (torch.nn.functional.silu(g) * u))
        return want

    return steps, x, out, expected, (w1, w2, w3, keep, gate, logits, ids, weight, a, b, y,
                                   none)


def check(name, steps, x, y, expected):
    """Captures the steps where there is a GPU, runs them on three inputs, compares each row."""
    graph = None
    if x.is_cuda:
        steps.run(torch.cuda.current_stream().cuda_stream)  # what is loaded on first use
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            steps.run(torch.cuda.current_stream().cuda_stream)
    worst = 0.
    for _ in range(3):
        x.copy_(torch.randn_like(x))
        graph.replay() if graph else steps.run()
        want = expected()
        if not torch.isfinite(y).all():
            sys.exit(f"{name}: not finite")
        worst = max(worst, float(((y - want).abs().amax(-1) / want.abs().amax(-1)).max()))
    print(f"{name}: worst row differs by {worst:.1e} of its largest value"
          f"{', replayed as a CUDA graph' if graph else ''}")
    if not worst < 1e-5:
        sys.exit(f"{name}: that is too much")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("library", help="libhadal.so")
    parser.add_argument("--small", action="store_true", help="sizes for a CPU")
    parser.add_argument("--tiles", action="store_true", help="weights in tiles, as Hopper's kernels "
                        "take them, also elsewhere")
    parser.add_argument("--tokens", type=int, default=4)
    o = parser.parse_args()
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = False
    device = "cuda" if torch.cuda.is_available() else "cpu"
    ops = Ops(o.library, GPU if device == "cuda" else HOST)
    ops.in_tiles = o.tiles or bool(ops.isa & SM90)
    ops.suffix = "_tiles" if ops.in_tiles else ""
    t = o.tokens
    print(f"on {device}, {t} tokens")
    steps, x, y, expected, _keep = linear(ops, t, *((256, 512) if o.small else (16384, 7168)),
                                          device)
    check("NVFP4 linear", steps, x, y, expected)
    # DeepSeek-V4-Flash: 256 experts, 6 a token, 4096 wide, 2048 inside.
    size = (16, 4, 256, 128) if o.small else (256, 6, 4096, 2048)
    steps, x, y, expected, _keep = experts(ops, t, *size, device)
    check("expert layer", steps, x, y, expected)


if __name__ == "__main__":
    main()
