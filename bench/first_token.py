"""The first token of a model that no cache holds, beside one read of its files.

    first_token.py [MODEL [ROUNDS [HADAL]]]        default: models/demo, 9, build/hadal

Each round drops the pages of the model's files, and of no others, and reads them in one stream; drops them again and
waits for the first byte of an answer; and asks once more, now from the cache.  Rows: medians of all rounds in ms, and what
the system read from the disk in MB: less than the files have where another process keeps them mapped.
"""
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROMPT = "What is the capital of France?"


def drop(paths):
    for path in paths:
        with open(path, "rb") as f:
            os.fsync(f.fileno())
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_all(paths):
    start = time.perf_counter()
    for path in paths:
        with open(path, "rb", buffering=0) as f:
            while f.read(1 << 20):
                pass
    return time.perf_counter() - start


def first_byte(hadal, model):
    """Seconds to the first byte of an answer, and bytes that the system read for it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_inblock
    start = time.perf_counter()
    with subprocess.Popen([hadal, "run", model, "-p", PROMPT, "-n", "1", "--quiet"], stdout=subprocess.PIPE) as p:
        got = p.stdout.read(1)
        seconds = time.perf_counter() - start
        p.stdout.read()
    if not got or p.returncode != 0:
        sys.exit(f"first_token: {hadal} answered nothing")
    return seconds, (resource.getrusage(resource.RUSAGE_CHILDREN).ru_inblock - before) * 512


def main(model=ROOT / "models/demo", rounds=9, hadal=ROOT / "build/hadal"):
    paths = sorted(pathlib.Path(model).glob("*.safetensors"))
    size = sum(p.stat().st_size for p in paths)
    if not paths:
        sys.exit(f"first_token: no *.safetensors in {model}")
    rows = {"read once": [], "first token, cold": [], "first token, cached": []}
    first_byte(hadal, model)  # the program itself is in the cache from here on
    for _ in range(int(rounds)):
        drop(paths)
        rows["read once"].append((read_all(paths), size))
        drop(paths)
        rows["first token, cold"].append(first_byte(hadal, model))
        rows["first token, cached"].append(first_byte(hadal, model))
    print(f"{len(paths)} files, {size / 1e6:.1f} MB, {rounds} rounds")
    for name, seen in rows.items():
        print(f"{name:22} {1e3 * statistics.median(s for s, _ in seen):9.1f} ms "
              f"{statistics.median(b for _, b in seen) / 1e6:9.1f} MB")
    more = [cold - cached for (cold, _), (cached, _) in zip(rows["first token, cold"], rows["first token, cached"])]
    share = statistics.median(m / r for m, (r, _) in zip(more, rows["read once"]))
    print(f"cold takes {1e3 * statistics.median(more):.1f} ms more than cached: {share:.2f} of a read")


if __name__ == "__main__":
    main(*sys.argv[1:])
