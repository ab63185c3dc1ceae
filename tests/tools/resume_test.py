#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/peers/models.py: rows of a case are of one sitting, and with --resume none of them goes unless it is measured again;
a session without a kept plan is found out before anything is compiled, and is closed whatever happens."""

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
STANDING_IN["torch"].inference_mode = lambda: lambda function: function
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


    def test_reports_of_other_models_or_devices_are_not_gone_on_with(self):
        report = models.Report.__new__(models.Report)
        report.path, report.content = Path("out.json"), {"command": "c", "device": "cpu", "torch": "2", "layers": None, "rows": []}
        report.go_on_with({"device": "cpu", "torch": "2", "rows": [KEY]})  # as older ones have it
        self.assertEqual(report.content["rows"], [KEY])
        for other in ({"command": "d"}, {"device": "GPU"}, {"torch": "3"}, {"layers": 2}):
            with self.assertRaisesRegex(SystemExit, rf"^out.json was measured with {next(iter(other))} .* accepted: the same, or another"):
                report.go_on_with({"device": "cpu", "torch": "2", "rows": [], **other})


class Sessions(unittest.TestCase):
    """Cases with a session; what torch would compile is counted."""

    def run_case(self, session):
        report = models.Report.__new__(models.Report)
        report.path, report.content = Path("out.json"), {"rows": []}
        options = types.SimpleNamespace(modes="eager", attention=None, session="program", device="cpu", layers=1, stof="stof")
        with mock.patch.object(models.turns, "Session", return_value=session), mock.patch.object(models, "Case"), \
                mock.patch.object(models, "made_of", return_value=([], [])) as made_of:  # fmt: skip
            try:
                models.run_case(options, report, ("bert-base", "all", 1, 128))
            except RuntimeError as failed:
                return str(failed), made_of.call_count
        self.fail("no failure")

    def test_without_a_kept_plan_nothing_is_compiled(self):
        session = mock.Mock(**{"plan.side_effect": RuntimeError("no plan is kept")})
        self.assertEqual(self.run_case(session), ("no plan is kept", 0))
        session.close.assert_called_once_with()

    def test_it_is_closed_when_turns_fail(self):
        session = mock.Mock(**{"plan.return_value": {"origin": "tuned", "error": 1e-3, "worst_row": 2e-3, "texts_checked": 1}})
        with mock.patch.object(models.turns, "in_turns", side_effect=RuntimeError("it ended")):
            self.assertEqual(self.run_case(session), ("it ended", 1))
        session.close.assert_called_once_with()


if __name__ == "__main__":
    unittest.main()
