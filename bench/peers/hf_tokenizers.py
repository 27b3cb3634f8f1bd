#!/usr/bin/env python3
"""Encoding speed beside Hugging Face tokenizers: one thread each, taking turns.

usage: hf_tokenizers.py TOKENIZER.JSON [BENCH_TOKENIZER]     default: build/bench/bench_tokenizer

Every round encodes every text with both; the table has medians of the rounds, in MB/s of
processor time.  `encode` is what programs call; `fast` is encode_batch_fast with one text,
which leaves out offsets.  Both sides first encode each text once, untimed, and the ids must
agree.  Needs the PyPI package tokenizers."""
import argparse
import os
import pathlib
import platform
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
import tokenizers  # noqa: E402  (reads the environment)

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CHINESE = """深海 模型 在 夜里 运行 我们 把 权重 压缩 成 四位 数字 然后 一层 一层 地 计算 海流 很 慢
但是 每 一个 词 都 会 被 读到 潮汐 表 告诉 船长 什么 时候 出发 机器 没有 感觉 它 只 做 加法 和 乘法
今天 的 天气 很 好 明天 可能 下雨 请 用 简单 的 话 解释 一下 这个 问题 谢谢 你 的 帮助 2024 年 12 月""".split()


def read_all(patterns):
    paths = sorted(path for pattern in patterns for path in ROOT.glob(pattern))
    return "\n".join(path.read_text() for path in paths)


def make_texts():
    rng = random.Random(1)
    chinese = "".join(rng.choice(CHINESE) + rng.choice(["", "", "", "", "，", "。\n"])
                      for _ in range(150000))
    return {
        "prose": read_all(["*.md", "doc/*.md"]),
        "code": read_all(["src/**/*.c", "src/**/*.h"]),
        "json": read_all(["tests/golden/encoding/*.jsonl"]),
        "chinese": chinese,
        "blanks": " " * 500000 + "\n" * 500000,
        "one word": "abcdefghij" * 20000,
    }


def time_peer(encode, text):
    start = time.process_time()
    encode(text)
    return len(text.encode()) / (time.process_time() - start) / 1e6


def time_hadal(bench, tokenizer, path):
    out = subprocess.run([bench, "--rounds", "1", tokenizer, path], check=True,
                         capture_output=True).stdout.decode()
    speed, _, n_ids = re.match(r" *([0-9.]+) MB/s +(\d+) bytes +(\d+) ids", out).groups()
    return float(speed), int(n_ids)


def measure(o, name, text, oracle, path):
    """One row of the table."""
    calls = {"encode": oracle.encode, "fast": lambda t: oracle.encode_batch_fast([t])}
    speeds = {"hadal": [], "encode": [], "fast": []}
    n_ids = len(oracle.encode(text).ids)
    path.write_text(text, newline="")
    for _ in range(o.rounds):
        speed, n = time_hadal(o.bench, o.tokenizer, path)
        if n != n_ids:
            sys.exit(f"{name}: {n} ids, tokenizers has {n_ids}")
        speeds["hadal"].append(speed)
        for call, encode in calls.items():
            speeds[call].append(time_peer(encode, text))
    m = {call: statistics.median(values) for call, values in speeds.items()}
    return (f"{name},{len(text.encode())},{n_ids},{m['hadal']:.2f},{m['encode']:.2f},"
            f"{m['fast']:.2f},{m['hadal'] / m['encode']:.1f},{m['hadal'] / m['fast']:.1f}")


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("tokenizer", type=pathlib.Path)
    options.add_argument("bench", nargs="?", default=ROOT / "build/bench/bench_tokenizer")
    options.add_argument("--rounds", type=int, default=5)
    o = options.parse_args()
    oracle = tokenizers.Tokenizer.from_file(str(o.tokenizer))
    print(f"# {processor()}; tokenizers {tokenizers.__version__}; one thread, MB/s of processor "
          f"time, medians of {o.rounds} rounds taking turns")
    print("text,bytes,ids,hadal,encode,fast,hadal/encode,hadal/fast")
    with tempfile.TemporaryDirectory() as folder:
        for name, text in make_texts().items():
            print(measure(o, name, text, oracle, pathlib.Path(folder) / "text"), flush=True)


if __name__ == "__main__":
    main()
