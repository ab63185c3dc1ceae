#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Masks of python/stof: text, arrays, functions, and what they refuse.

usage: mask_test.py LIBSTOF.SO
"""

import copy
import operator
import pickle
import unittest

from given import Array

import stof


class Masks(unittest.TestCase):
    def test_text_and_what_is_made_of_it(self):
        mask = stof.Mask("causal") & "window(8)"
        self.assertEqual(str(mask), "causal & window(8)")
        self.assertEqual(str("sink(1)" | ~mask), "!(causal & window(8)) | sink(1)")
        self.assertEqual(mask, stof.Mask("window(8) & causal"))
        self.assertEqual(len({mask, stof.Mask("causal & window(8)"), stof.Mask("causal")}), 2)
        self.assertEqual(repr(stof.Mask("all")), "Mask('all')")

    def test_arrays(self):
        allowed = Array((2, 3), [1, 0, 0, 1, 1, 0], "|b1")
        self.assertEqual(stof.Mask.bits(allowed), stof.Mask.bits(Array((2, 3), [1, 0, 0, 1, 1, 0], "|b1")))
        self.assertNotEqual(stof.Mask.bits(allowed), stof.Mask.bits(Array((2, 3), [1, 0, 0, 1, 1, 1], "|b1")))
        turned = Array((3, 2), [1, 0, 0, 1, 1, 0], "|b1")
        turned.__array_interface__ |= {"shape": (2, 3), "strides": (1, 2)}
        self.assertEqual(stof.Mask.bits(turned), stof.Mask.bits(Array((2, 3), [1, 0, 1, 0, 1, 0], "|b1")))
        self.assertRegex(str(stof.Mask.blocks(64, Array((1, 1), [1], "|b1"))), r"^blocks\(64,#\w+\)$")
        self.assertRegex(str(stof.Mask.document_ids(Array((3,), [0, 0, 1], "<i4"))), r"^document_ids\(#\w+\)$")

    def test_copies(self):
        mask, of_array = stof.Mask("causal & window(8)"), stof.Mask.bits(Array((1, 1), [1], "|b1"))
        for copied in (copy.copy, copy.deepcopy, lambda one: copy.deepcopy([one])[0]):
            self.assertIs(copied(of_array), of_array)
        self.assertEqual(pickle.loads(pickle.dumps(mask)), mask)
        self.assertEqual(str(mask | (lambda b, h, q, k: k < 2)), "causal & window(8) | where(k < 2)")

    def test_whether_it_depends_on_length(self):
        for text, depends in (("causal & window(8)", False), ("global(4) | bigbird(64,3,2,3,1)", True), ("natten(8,8,3,3)", True),
                              ("documents([0,5])", False)):  # fmt: skip
            self.assertEqual(stof.Mask(text).depends_on_length, depends, text)
        self.assertTrue(stof.Mask.bits(Array((1, 1), [1], "|b1")).depends_on_length)

    def test_functions_become_expressions(self):
        for function, text in (
            (lambda b, h, q, k: (q >= k) & (q - k < 256), "where(q >= k & q - k < 256)"),
            (lambda b, h, q, k: (abs(q - k) <= 3) | ~(k > 5) | (q // 4 == k // 4), "where(abs(q - k) <= 3 | !(k > 5) | q / 4 == k / 4)"),
            (lambda b, h, q, k: (2 * q + 1) % 3 != 1 - k, "where((2 * q + 1) % 3 != 1 - k)"),
            (lambda b, h, q, k: (q > -k) ^ (h == 2), "where((q > 0 - k) != (h == 2))"),
            (lambda b, h, q, k: 3 < k, "where(k > 3)"),
            (lambda b, h, q, k: b < 2, "where(b < 2)"),
            (lambda b, h, q, k: True, "where(1)"),
            (lambda b, h, q, k: (q - k).abs().clamp(1, max=5) == 5, "where(min(max(abs(q - k), 1), 5) == 5)"),
            (lambda b, h, q, k: (+q - k) ** 2 < k >> 3 << 1, "where((q - k) * (q - k) < k / 8 * 2)"),
            (lambda b, h, q, k: b.new_ones((), dtype=bool) & (q >= k).to(q.device) & (b.new_zeros(()) | (k > 3)), "where(q >= k & k > 3)"),
            (lambda b, h, q, k: (q + 37 >= k + 37) & (k + 37 > q + 37 - 8) & (k + 2 > 5), "where(q >= k & k > q - 8 & k > 3)"),
            (lambda b, h, q, k: (q + 37) // 8 == (k + 37) // 8, "where((q + 5) / 8 == (k + 5) / 8)"),
            (lambda b, h, q, k: (q - k > -(2**63)) & (q + -(2**63) < k % 3), "where(q - k > -9223372036854775808 & q + -9223372036854775808 < k % 3)"),
            (lambda b, h, q, k: (k - 1) % 3 == 5 - (q + 1), "where((k + 2) % 3 == 4 - q)"),
        ):
            self.assertEqual(str(stof.Mask.where(function)), text)

    def test_functions_that_cannot(self):
        for function, said in (
            (lambda b, h, q, k: q >= k and q < 9, "a mask's function asks whether (q >= k); accepted: arithmetic with + - * // % ** << >> abs() "),
            (lambda b, h, q, k: q / 2 > k, "a mask's function divides q by /; accepted: //"),
            (lambda b, h, q, k: q < 2.5, "a mask's function computes with 2.5, of type float; accepted: integers. "),
            (lambda b, h, q, k: ~q, "a mask's function inverts the number q by ~; accepted: truths, as comparisons make them"),
            (lambda b, h, q, k: q**k < 9, "a mask's function raises q to the power of k; accepted: 1 to 8"),
            (lambda b, h, q, k: q << 63 < k, "a mask's function shifts q by 63; accepted: 0 to 62"),
            (lambda b, h, q, k: q ^ k, "a mask's function has q ^ k; accepted: truths, as comparisons make them"),
            (lambda b, h, q, k: [1, 2][q], "a mask's function cannot be followed (list indices must be integers or slices, not Symbol); "),
            (lambda b, h: True, "a mask's function cannot be followed ("),
        ):
            with self.assertRaises(stof.InvalidArgument) as failed:
                stof.Mask.where(function)
            self.assertTrue(str(failed.exception).startswith(said), failed.exception)

    def test_errors_name_the_operators_that_are_taken(self):
        def said(function):
            try:
                stof.Mask.where(function)
            except stof.InvalidArgument as failed:
                return str(failed)
            return None

        named = said(lambda b, h, q, k: q @ k).split("accepted: ")[1].split(". What")[0].replace(",", "").split()
        of_numbers = {"+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod, "**": operator.pow,
                      "<<": operator.lshift, ">>": operator.rshift, "/": operator.truediv, "@": operator.matmul}  # fmt: skip
        for sign, operation in of_numbers.items():
            self.assertEqual(said(lambda b, h, q, k, operation=operation: operation(q, 3) < k) is None, sign in named, sign)
        for sign, operation in {"&": operator.and_, "|": operator.or_, "^": operator.xor}.items():
            self.assertEqual(said(lambda b, h, q, k, operation=operation: operation(q < 3, k > q)) is None, sign in named, sign)
        for call, function in {"abs()": lambda b, h, q, k: abs(q - k) < 2, ".abs()": lambda b, h, q, k: (q - k).abs() < 2,
                               ".clamp()": lambda b, h, q, k: q.clamp(max=3) < k, "~": lambda b, h, q, k: ~(q < k)}.items():  # fmt: skip
            self.assertIn(call, named)
            self.assertIsNone(said(function), call)

    def test_errors(self):
        for make, said in (
            (lambda: stof.Mask("causl"), "mask: unknown term 'causl' (did you mean 'causal'?); accepted: all, none, "),
            (lambda: stof.Mask("all") & 3, "a mask of type int; accepted: stof.Mask, a string of the mask language, a function for Mask.where"),
            (lambda: stof.Mask("all") & Array((1, 1), [1], "|b1"), "a mask of type Array; accepted: stof.Mask, a string of the mask language, "
             "a function for Mask.where, and of an array stof.Mask.bits(it)"),
            (lambda: stof.Mask(None), "Mask of type NoneType; accepted: a string of the mask language, and Mask.where for functions"),
            (lambda: pickle.dumps(stof.Mask.bits(Array((1, 1), [1], "|b1"))), "pickling Mask('bits(#"),
            (lambda: stof.Mask("causal\ud800"), "Mask of a text with the lone surrogate '\\ud800' at 6; accepted: text of Unicode"),
            (lambda: stof.Mask("causal", 3), "folder of type int; accepted: None, a str, a path"),
            (lambda: stof.Mask.blocks(4.0, Array((1, 1), [1], "|b1")), "Mask.blocks: size is 4.0, of type float; accepted: an integer"),
            (lambda: stof.Mask.bits([[True]]), "Mask.bits: the array is of type list; accepted: torch.Tensor, numpy.ndarray"),
            (lambda: stof.Mask.bits(Array((1, 1), [1.0])), "Mask.bits: the array is of dtype f32; accepted: bool, as .astype(bool) makes it"),
            (lambda: stof.Mask.bits(Array((1, 1), [1.0], "<f8")), "Mask.bits: the array is of dtype <f8; accepted: bool, as .astype(bool) makes it"),
            (lambda: stof.Mask.bits(Array((1, 1), [1], "|u1")), "Mask.bits: the array is of dtype uint8; accepted: bool, as .astype(bool) makes it"),
            (lambda: stof.Mask.blocks(64, Array((1, 1), [1], "|u1")), "Mask.blocks: the array is of dtype uint8; accepted: bool, as .astype(bool) makes it"),
            (lambda: stof.Mask.document_ids(Array((1,), [1], "|u1")),
             "Mask.document_ids: the array is of dtype uint8; accepted: i32, as .astype('int32') makes it"),
            (lambda: stof.Mask.document_ids(Array((1,), [1], "|b1")),
             "Mask.document_ids: the array is of dtype bool; accepted: i32, as .astype('int32') makes it"),
            (lambda: stof.Mask.document_ids(Array((1,), [1.0], "<f8")),
             "Mask.document_ids: the array is of dtype <f8; accepted: i32, as .astype('int32') makes it"),
        ):
            with self.assertRaises(ValueError) as failed:
                make()
            self.assertTrue(str(failed.exception).startswith(said), failed.exception)


if __name__ == "__main__":
    unittest.main()
