#!/usr/bin/env python3
"""Writes tests/golden/tokenizer/{vectors,pieces}.jsonl with PyPI tokenizers and the demo model.

vectors: text, ids with control tokens recognised, ids_plain without
pieces:  text, the byte lengths of the pieces that it is split into before merging"""
import json
import pathlib
import sys
import unicodedata

import tokenizers

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL = ROOT / "models/demo/tokenizer.json"
TARGET = ROOT / "tests/golden/tokenizer"

TEXTS = [
    "", "a", " ", "\n", "\0", "Hello, world!", "The quick brown fox jumps over the lazy dog.",
    # white space: the end of a piece is not the end of the text
    "a  5", "x  y", "    int", "  \n  \n  y", "a \n\n b", "\r\n\r\n", "x\r\ny", "\t\tif (x)\n\t\t\ty();",
    "a\u00a0b", "a \u2003 b", "\u3000你好\u3000", "end   ", " \u2028\u2029 x", "\v\f\x85", "a\u180eb",
    " " * 200, "\n" * 130, " \n" * 70, "x" + " " * 65 + "\n" + " " * 3 + "y", "\t" * 33 + "1",
    # digits in threes from the left, of any script
    "1", "12", "123", "1234", "1234567890", "a1b22c333d4444", "3.14159", "1,000,000", "٣٤٥٦٧", "½⅓Ⅷ①²",
    "10\u0301", "0x7fff", "2026-11-29T17:30:00Z", "１２３４５", "𝟘𝟙𝟚𝟛",
    # punctuation and words
    "don't", "don’t", "I'll we've you'd", "x.y", ".NET", "#include <stdio.h>", "a_b_c", "!!!wow", "C++",
    "(a)(b)", "«guillemets»", "…", "...", "—dash—", "foo(bar, baz);\n", "$100 €50 ¥7", "a+b=c±d", "`code`",
    "-- x", " ?!\n\n", "=" * 150, "." * 130, "^~|\\", "\"quoted\"", "a\\nb", "/usr/lib/x86_64",
    # scripts
    "你好，世界！", "我是一个学生。", "東京へ行きます", "カタカナ・ひらがな", "ゟ゠ヿ", "か\u3099く", "日本語とEnglish混在123です",
    "한국어 텍스트", "Привет, мир", "Ελληνικά", "עברית שלום", "مرحبا بالعالم", "हिन्दी में", "ภาษาไทย", "தமிழ்",
    "Tiếng Việt", "Türkçe İıŞş", "naïve café", unicodedata.normalize("NFD", "naïve café Tiếng Việt"),
    "ﬁ ﬂ ǆ", "Straße", "𠀀𠮷", "鿿\u9fa5\u9fa6", "㐀", "ᚠᛇᚻ", "𝒜𝓁𝑔", "ⴰⵎⴰⵣⵉⵖ", "\U0001d800",
    # emoji, joiners, odd code points
    "🙂", "👍🏽", "👩‍👩‍👧‍👦", "🇩🇪🇫🇷", "❤️", "a🙂b", "🙂 🙂", "\u200b", "a\u200bb", "\u200b\u200ba", "\ufeffBOM", " \u200b", "\t\u200b",
    "\u200b \u200b", "\t\t\u200b\u200b\tx", "\t.", "\u00a0!", "\u0378 \u0378\n",
    "\ufffd", "\u0301x", " \u0301", "\u00adsoft", "\ue000\ue001x", "\U0010ffff", "\u0378\u0379", "a\x01b\x7fc",
    "\U000e0100x", "\U000e0001",
    # the spellings of control tokens, whole, cut and in company
    "<think>", "</think>", "<think", "think>", "<｜User｜>hi<｜Assistant｜><think>", "<<think>>", "a<think>b",
    "<｜begin▁of▁sentence｜>", "<｜begin▁of▁sentence｜><｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>x",
    "<｜User|>", "<|User|>", "｜DSML｜", "<｜DSML｜invoke name=\"f\">", "</｜DSML｜tool_calls>", "｜DSML", "｜｜DSML｜｜",
    "<｜<｜User｜>", "<think></think>", " <think> ", "\n</think>\n\n", "<｜latest_reminder｜>", "<｜title｜",
    "<｜▁pad▁｜>", "＜｜User｜＞", "<think>1234</think>5678",
    # long pieces
    "a" * 300, "ab" * 200, "the" * 100, "supercalifragilisticexpialidocious" * 5, "你" * 120, "é" * 90, "1" * 70,
    "Donaudampfschifffahrtsgesellschaftskapitän" * 3,
]


def main():
    data = json.loads(MODEL.read_text())
    control = tokenizers.Tokenizer.from_str(json.dumps(data))
    data["added_tokens"] = []
    plain = tokenizers.Tokenizer.from_str(json.dumps(data))
    TARGET.mkdir(parents=True, exist_ok=True)
    with open(TARGET / "vectors.jsonl", "w") as out:
        for text in TEXTS:
            row = {"text": text, "ids": control.encode(text, add_special_tokens=False).ids,
                   "ids_plain": plain.encode(text, add_special_tokens=False).ids}
            out.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")
    with open(TARGET / "pieces.jsonl", "w") as out:
        for text in TEXTS:
            pieces = plain.pre_tokenizer.pre_tokenize_str(text)
            row = {"text": text, "pieces": [len(piece) for piece, _ in pieces]}
            out.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")
    print(f"{len(TEXTS)} texts", file=sys.stderr)


if __name__ == "__main__":
    main()
