#!/usr/bin/env python3
"""Compares the safetensors reader and writer with the PyPI package safetensors: files that one
writes the other reads, and what the reference refuses is refused here too.

Needs numpy and safetensors, and build/libhadal.a."""
import argparse
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

import numpy
import safetensors
import safetensors.numpy

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DTYPES = ["float64", "float32", "float16", "int64", "uint64", "int32", "uint32", "int16", "uint16",
          "int8", "uint8", "bool", "complex64"]
PIECES = ["0", "1", "4", "8", "-1", "[", "]", "{", "}", ",", ":", '"', "null", "1.5", "1e2", '"U8"',
          '"F4"', "18446744073709551616", " ", "\\u0061", "true"]


def build(library, folder):
    program = folder / "st_echo"
    subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-D_GNU_SOURCE", f"-I{ROOT}/include",
                    f"-I{ROOT}/src", "-o", program, ROOT / "tests/python/st_echo.c", library,
                    "-ljson-c", "-lhwloc", "-lm", "-lpthread"], check=True)
    return program


def random_tensors(rng):
    tensors = {}
    for i in range(rng.randrange(12)):
        shape = tuple(rng.choice([0, 1, 2, 3, 5]) for _ in range(rng.randrange(4)))
        data = numpy.frombuffer(rng.randbytes(int(numpy.prod(shape)) * 16), dtype="uint8")
        name = rng.choice(["layers.%d.w", "x%d", "é \"%d\\", "名%d\n"]) % i
        kind = numpy.dtype(rng.choice(DTYPES))
        count = int(numpy.prod(shape))
        raw = data[:count * kind.itemsize] & (1 if kind == bool else 255)
        tensors[name] = numpy.frombuffer(raw.tobytes(), dtype=kind).reshape(shape)
    return tensors


def check_copy(program, folder, rng):
    source, copy = folder / "in.safetensors", folder / "out.safetensors"
    tensors = random_tensors(rng)
    meta = {"format": "np", "é\"": "\n\\"} if rng.random() < 0.5 else None
    safetensors.numpy.save_file(tensors, source, metadata=meta)
    subprocess.run([program, "copy", source, copy], check=True)
    with safetensors.safe_open(copy, "np") as f:
        assert f.metadata() == meta, (f.metadata(), meta)
        assert set(f.keys()) == set(tensors)
        for name, want in tensors.items():
            got = f.get_tensor(name)
            assert got.dtype == want.dtype and got.shape == want.shape, name
            assert got.tobytes() == want.tobytes(), name


def seed_header(rng):
    """A good header with its count of data bytes."""
    header, at = {}, 0
    if rng.random() < 0.3:
        header["__metadata__"] = {"a": "b"}
    for i in range(rng.randrange(4)):
        shape = [rng.choice([0, 1, 2, 4]) for _ in range(rng.randrange(3))]
        size = {"U8": 8, "BF16": 16, "F8_E4M3": 8, "F4": 4, "F64": 64}
        dtype = rng.choice(list(size))
        end = at + int(numpy.prod(shape)) * size[dtype] // 8
        header[f"t{i}"] = {"dtype": dtype, "shape": shape, "data_offsets": [at, end]}
        at = end
    return json.dumps(header), at


def mutate(rng):
    text, size = seed_header(rng)
    for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
        i = rng.randrange(len(text))
        text = text[:i] + rng.choice(PIECES) + text[i + rng.choice([0, 1, 1, 2, 5]):]
    raw = text.encode()
    size += rng.choice([0, 0, 0, 0, 1, -1])
    return struct.pack("<Q", len(raw) + rng.choice([0] * 20 + [1, -1])) + raw + bytes(max(size, 0))


def reference_accepts(data):
    try:
        safetensors.deserialize(data)
        return True
    except safetensors.SafetensorError:
        return False


def check_verdicts(program, folder, rng, count):
    """Returns how many files both accept.  Here more may be refused than there, but only for
    the reasons below."""
    paths, verdicts = [], []
    for i in range(count):
        data = mutate(rng)
        paths.append(folder / f"{i}.safetensors")
        paths[-1].write_bytes(data)
        verdicts.append(reference_accepts(data))
    out = subprocess.run([program, "check", *paths], check=True, capture_output=True).stdout
    stricter = ("do not end on a byte", "is there twice")
    for path, accepts, line in zip(paths, verdicts, out.decode().splitlines(), strict=True):
        is_ok = line.startswith("ok")
        if is_ok and not accepts or accepts and not is_ok and not any(s in line for s in stricter):
            sys.exit(f"reference {accepts}, here: {line}\n{path.read_bytes()}")
        path.unlink()
    return sum(verdicts)


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--library", default=ROOT / "build/libhadal.a")
    options.add_argument("--copies", type=int, default=200)
    options.add_argument("--mutants", type=int, default=20000)
    options.add_argument("--seed", type=int, default=1)
    o = options.parse_args()
    rng = random.Random(o.seed)
    accepted = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        program = build(o.library, folder)
        for _ in range(o.copies):
            check_copy(program, folder, rng)
        for _ in range(o.mutants // 500):
            accepted += check_verdicts(program, folder, rng, 500)
    print(f"safetensors oracle: {o.copies} copies equal, {o.mutants} verdicts agree, "
          f"{accepted} of them good files, seed {o.seed}")
    print(f"{o.copies + o.mutants} passed, 0 failed")


if __name__ == "__main__":
    main()
