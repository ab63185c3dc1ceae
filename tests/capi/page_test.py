#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program in Python of docs/c_api.md: run as it stands there, but for the library's place, and compared with the definition.

usage: page_test.py LIBRARY
"""

import math
import re
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = sys.argv.pop(1)
sys.path.insert(0, str(ROOT / "python"))


class Page(unittest.TestCase):
    def test_decoding_over_pages(self):
        text = (ROOT / "docs/c_api.md").read_text(encoding="utf-8")
        (program,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        self.assertIn('"build/release/libstof.so"', program)
        names = {}
        exec(program.replace("build/release/libstof.so", LIBRARY), names)  # noqa: S102: a page of this project
        heads, kv_heads, d, page, table = (names[name] for name in ("heads", "kv_heads", "d", "page", "table"))
        keys = names["lengths"][0]
        self.assertLess(keys, page * len(table))

        def row(pool, head, key):
            begin = ((table[key // page] * kv_heads + head) * page + key % page) * d
            return pool[begin:begin + d]

        for head in range(heads):
            q, shared = names["q"][head * d:(head + 1) * d], head * kv_heads // heads
            scores = [sum(a * b for a, b in zip(q, row(names["k"], shared, key))) / math.sqrt(d) for key in range(keys)]
            weights = [math.exp(score - max(scores)) for score in scores]
            for column in range(d):
                want = sum(weight * row(names["v"], shared, key)[column] for key, weight in enumerate(weights)) / sum(weights)
                self.assertAlmostEqual(names["out"][head * d + column], want, delta=1e-5)


if __name__ == "__main__":
    unittest.main()
