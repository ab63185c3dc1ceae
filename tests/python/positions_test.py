#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Masks for keys that do not begin at position 0, or whose positions have gaps, pair by pair.

usage: positions_test.py LIBSTOF.SO
"""

import itertools
import unittest

from given import Array, nothing

import stof
from stof.positions import of_items, of_tokens, shifted

M = 24
MASKS = (
    "all", "none", "causal", "window(3)", "window(4,1)", "dilated(3,2)", "strided(3)", "sink(4)", "sink(1) | window(2)", "global(3)",
    "global([0,6,9])", "prefix(7)", "!(causal & window(3)) | !sink(2)", "heads(0: sink(6) | window(1), 1: prefix(3))", "where(1)",
    "where(k < 2 | q > 9 & q != 3 & k != q)",
    "where(k <= q & q - k < 4 | k % 3 == 0)", "where(abs(q - 2 * k) < 9 & !(k == 8))", "where(min(q, 9) >= max(-k, k - 3) & (q & 4) != h)",
    "where((q >= k) == (q / 3 == (k + 1) / 3))", "where(1 - q + k * k % 7 < 3 - (2 - k))",
)  # fmt: skip


def allowed(mask, count):
    """{(head, query, key)} of two heads: values that are the rows of a matrix of ones say which key had a weight."""
    q, ones = Array((1, 2, count, M), [0.0] * (2 * count * M)), [float(i == j) for i in range(count) for j in range(M)]
    out = nothing(1, 2, count, M)
    plan = stof.Attention(mask, batch=1, heads=2, kv_heads=1, queries=count, keys=count, head_dim=M, dtype="f32", device="cpu")
    plan.run(q, Array((1, 1, count, M), ones), Array((1, 1, count, M), ones), out=out)
    return {place for place in itertools.product(range(2), range(count), range(count)) if out[(0, *place)] > 0}


class Positions(unittest.TestCase):
    def test_keys_that_begin_later(self):
        for text in MASKS:
            whole = allowed(text, M)
            for by in (0, 1, 5, 11):
                with self.subTest(f"{text} {by}"):
                    made = shifted(stof.Mask(text), by)
                    self.assertEqual(allowed(made, M - by), {(h, q - by, k - by) for h, q, k in whole if min(q, k) >= by}, made)

    def test_gaps(self):
        for runs, before in (([(0, 20)], 0), ([(3, 20)], 0), ([(0, 20)], 4), ([(2, 5), (7, 8), (10, 18)], 3), ([(0, 4), (9, 20)], 0), ([], 5)):
            tokens = [x for first, end in runs for x in range(first, end)]
            for text in MASKS:
                with self.subTest(f"{text} {runs} {before}"):
                    whole, made = allowed(text, M), of_tokens(stof.Mask(text), runs, before)
                    of_pairs = {(h, tokens[q], tokens[k]) for h in range(2) for q in range(len(tokens)) for k in range(len(tokens))
                                if (h, q + before, k + before) in whole}  # fmt: skip
                    self.assertEqual({place for place in allowed(made, 20) if {*place[1:]} <= {*tokens}}, of_pairs, made)

    def test_a_mask_of_differences_has_one_text(self):
        mask = stof.Mask.where(lambda b, h, q, k: (q >= k) & (q - k < 9) & (q // 4 == k // 4)) & "window(3) | sink(4)"
        self.assertEqual(str(shifted(mask, 8)), "(sink(0) | window(3)) & where(q >= k & q - k < 9 & q / 4 == k / 4)")

    def test_what_is_left_behind_has_one_text(self):
        mask = stof.Mask.where(lambda b, h, q, k: (k < 4) | (q - k <= 3) & (q != 2) & ~(k >= 3))
        self.assertEqual({str(shifted(mask, by)) for by in (5, 6, 70)}, {"where(0 | q - k <= 3 & 1 & !1)"})

    def test_items(self):
        a, b = stof.Mask("causal"), stof.Mask("sink(1) | window(2)")
        self.assertEqual(of_items([b, b]), b)
        self.assertEqual(str(of_items([a, b])), "batch(0: causal, 1: sink(1) | window(2))")

    def test_errors(self):
        for text in ("documents([0,5])", "causal & tree([-1,0])", "batch(0: natten(4,4,3,3), *: all)", "heads(0: all, *: random_blocks(2,2,7))"):
            for make in (lambda mask: shifted(mask, 2), lambda mask: of_tokens(mask, [(1, 3)], 0)):
                with self.assertRaisesRegex(stof.Unsupported, r"^\w+ in a mask, for keys that do not begin at position 0, as of a window's cache, or for "
                                            "tokens with padding between them; accepted there: all, none, causal, window, "):  # fmt: skip
                    make(stof.Mask(text))
            self.assertEqual(shifted(stof.Mask(text), 0), stof.Mask(text))


if __name__ == "__main__":
    unittest.main()
