#!/usr/bin/env python3
"""The names that scripts/dump_transformers.py writes are names that `hadal trace --dump` writes, and the
shapes of both go together, as far as the script needs neither torch nor a model to tell.
usage: test_dump_names.py [HADAL]"""
import pathlib
import re
import subprocess
import sys
import tempfile

from safetensors import safe_open

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/support"))
import suite  # behind the path
HADAL = str(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/hadal").resolve())
SCRATCH = pathlib.Path(tempfile.mkdtemp(prefix="hadal-names-"))


def names():
    done = subprocess.run([sys.executable, str(ROOT / "scripts/dump_transformers.py"), "--names"],
                          check=True, capture_output=True, timeout=60)
    return [line.split()[0] for line in done.stdout.decode().splitlines()]


def dumped():
    path = SCRATCH / "dump.safetensors"
    subprocess.run([HADAL, "trace", str(ROOT / "models/demo"), "--ids", "0,2042,433,77,1012", "--act",
                    "exact", "--quiet", "--dump", str(path)], check=True, capture_output=True,
                   timeout=300)
    with safe_open(path, "np") as f:
        return set(f.keys())


def test_every_name_is_one_of_ours():
    ours = dumped()
    theirs = names()
    assert len(theirs) == len(set(theirs)) > 30, theirs
    for name in theirs:
        pattern = re.escape(name).replace(re.escape("L<N>"), r"L\d\d")
        assert any(re.fullmatch(pattern, o) for o in ours), name


def test_layers_are_covered():
    """Of a layer's steps only those are left out that the script says."""
    left_out = {"q_rope", "kv_rope", "w1_w3", "swiglu", "w2"}
    steps = {n.split(".")[1] for n in dumped() if n.startswith("L05.")}
    written = {n.split(".")[1] for n in names() if n.startswith("L<N>.")}
    assert steps - written == left_out, steps - written


def test_misuse():
    for args in ([], ["model"], ["model", "out"]):
        done = subprocess.run([sys.executable, str(ROOT / "scripts/dump_transformers.py"), *args],
                              capture_output=True, timeout=60)
        assert done.returncode == 2 and b"--ids are needed" in done.stderr, done


if __name__ == "__main__":
    sys.exit(suite.run(globals(), SCRATCH))
