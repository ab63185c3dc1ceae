#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/peers/models.py --resume: rows of a case are of one sitting, and none of them goes unless it is measured again."""

import sys
import types
import unittest
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench/peers"))
# What times models, and these tests do not need.
STANDING_IN = {name: mock.MagicMock() for name in ("numpy", "timing", "torch", "torch.nn.functional", "torch.nn.attention", "turns",
                                                    "torch.nn.attention.flex_attention")}  # fmt: skip
STANDING_IN["torch"].nn = STANDING_IN["torch.nn"] = mock.MagicMock(Module=object)
with mock.patch.dict(sys.modules, STANDING_IN):
    import models

KEY = {"model": "bert-base", "mask": "all", "texts": 1, "longest": 128}


def wanted(has, modes, session=None):
    report = models.Report.__new__(models.Report)
    report.path = Path("out.json")
    report.content = {"rows": [{**KEY, "mode": mode, "attention": attention} for mode, attention in has]}
    return models.wanted(types.SimpleNamespace(modes=modes, attention=None, session=session), report, KEY)


class Resume(unittest.TestCase):
    def test_a_case_is_measured_as_a_whole(self):
        self.assertEqual(wanted([], "eager"), [("eager", "sdpa")])
        self.assertEqual(wanted([("default", "sdpa")], "default,eager"), [("default", "sdpa"), ("eager", "sdpa")])
        self.assertEqual(wanted([("stof", "kept")], "eager", "session"), [("eager", "sdpa")])

    def test_what_is_there_is_not_measured(self):
        self.assertEqual(wanted([("default", "sdpa"), ("eager", "sdpa")], "eager"), [])
        self.assertEqual(wanted([("eager", "sdpa"), ("stof", "kept")], "eager", "session"), [])

    def test_rows_that_would_go_are_named(self):
        with self.assertRaisesRegex(RuntimeError, r"out.json has rows .* not measure again: default sdpa; accepted: "):
            wanted([("default", "sdpa")], "eager")
        with self.assertRaisesRegex(RuntimeError, r"not measure again: stof kept; accepted: "):
            wanted([("stof", "kept")], "eager")


if __name__ == "__main__":
    unittest.main()
