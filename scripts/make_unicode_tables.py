#!/usr/bin/env python3
"""Writes src/tokenizer/unicode_class.c from tests/golden/unicode/classes.tsv.

usage: make_unicode_tables.py [--check]     --check only compares, status 1 when it differs
"""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = ROOT / "tests/golden/unicode/classes.tsv"
TARGET = ROOT / "src/tokenizer/unicode_class.c"
CODES = {"L": 1, "M": 2, "N": 3, "P": 4, "S": 5, "s": 6}  # bit numbers of HD_CLASS_*, from 1
NEWLINE = 64  # HD_CLASS_NEWLINE
BLOCK = 128  # code points that share one entry of the first level
# Supplementary variation selectors stand alone, 700,000 code points after everything else:
# code answers for them, so that the first level ends where the scripts do.
SELECTORS = (0xE0100, 0xE01EF)


def read_classes():
    classes = bytearray(0x110000)
    for line in SOURCE.read_text().splitlines():
        if line.startswith("#"):
            continue
        first, last, name = line.split("\t")
        for code in range(int(first, 16), int(last, 16) + 1):
            classes[code] = CODES[name]
    if set(classes[SELECTORS[0] : SELECTORS[1] + 1]) != {CODES["M"]}:
        sys.exit(f"{SOURCE}: variation selectors are no longer marks")
    classes[SELECTORS[0] : SELECTORS[1] + 1] = bytes(SELECTORS[1] + 1 - SELECTORS[0])
    return bytes(classes)


def ascii_bits(classes):
    return [(1 << classes[c] >> 1) | (NEWLINE if c in (0x0A, 0x0D) else 0) for c in range(128)]


def rows(values, per_line=20):
    lines = []
    for i in range(0, len(values), per_line):
        lines.append("    " + ", ".join(str(v) for v in values[i : i + per_line]) + ",")
    return "\n".join(lines)


def render(classes):
    end = (len(classes.rstrip(b"\0")) + BLOCK - 1) // BLOCK * BLOCK
    blocks, index = {}, []
    for start in range(0, end, BLOCK):
        index.append(blocks.setdefault(classes[start : start + BLOCK], len(blocks)))
    if len(blocks) > 256:
        sys.exit(f"{len(blocks)} different blocks of {BLOCK}: the first level needs wider entries")
    data = b"".join(blocks)
    nibbles = [data[i] | data[i + 1] << 4 for i in range(0, len(data), 2)]
    return f"""/* Made by scripts/make_unicode_tables.py from tests/golden/unicode/classes.tsv. */
#include "tokenizer/unicode_class.h"

/* clang-format off */

const uint8_t hd_unicode_ascii[128] = {{
{rows(ascii_bits(classes))}
}};

const uint8_t hd_unicode_block[HD_UNICODE_END / HD_UNICODE_BLOCK] = {{
{rows(index)}
}};

const uint8_t hd_unicode_nibble[{len(blocks)} * HD_UNICODE_BLOCK / 2] = {{
{rows(nibbles)}
}};

_Static_assert(HD_UNICODE_END == 0x{end:X} && HD_UNICODE_BLOCK == {BLOCK}, "header and table");
"""


def main():
    text = render(read_classes())
    if sys.argv[1:] == ["--check"]:
        if TARGET.read_text() != text:
            sys.exit(f"{TARGET.relative_to(ROOT)} does not come from {SOURCE.relative_to(ROOT)}")
    elif sys.argv[1:]:
        sys.exit(__doc__.strip().splitlines()[-1])
    else:
        TARGET.write_text(text)


if __name__ == "__main__":
    main()
