#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Comparisons with peers that are measured in parts: rows are dealt out once each, files are joined in order and only
where they belong together, and tables count targets and name what misses them."""

import argparse
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "bench"), str(ROOT / "bench/peers")]
import cpu_run  # noqa: E402
import engines  # noqa: E402
import join_parts  # noqa: E402
import report_targets  # noqa: E402
import rounds  # noqa: E402
import shares  # noqa: E402
import split_table  # noqa: E402
from report_tables import table_of  # noqa: E402

SHAPE = [1, 12, 4096, 64]  # targets: causal 50 us, window 8


def row(family, us, peer, dtype="f16", **more):
    return {"id": f"{family} {dtype}", "place": 0, "mask": family, "family": family, "shape": SHAPE, "kv_heads": 12, "dtype": dtype,
            "density": 0.5, "touched": 0.5, "peers": {"stof": {"median_us": us}, "fa4": {"median_us": peer}}, **more}


def decoded(page, us, **peers):
    return {"id": "d", "place": 0, "batch": 1, "keys": 8192, "page_size": page, "mask": "all", "floor_us": 8.0,
            "peers": {"stof": {"median_us": us}, **peers}}


class Shares(unittest.TestCase):
    def test_every_row_is_dealt_once_and_kinds_stay_whole(self):
        kinds = ["a", "b", "a", "c", "b", "a", "d"]
        lists = shares.dealt(kinds, list(range(7)), 3)
        self.assertEqual(sorted(sum(lists, [])), list(range(7)))
        for kind in set(kinds):
            self.assertEqual(sum(any(kinds[i] == kind for i in one) for one in lists), 1, kind)

    def test_the_largest_kind_has_a_list_of_its_own(self):
        self.assertEqual(shares.dealt(["a", "a", "a", "b", "c"], [0, 1, 2, 3, 4], 2), [[0, 1, 2], [3, 4]])

    def test_more_lists_than_kinds_leaves_some_empty(self):
        self.assertEqual(shares.dealt(["a", "a"], [1, 0], 3), [[0, 1], [], []])

    def test_parts_are_read_from_text(self):
        self.assertEqual(shares.part_of("2/4"), (1, 4))
        for text in ("0/4", "5/4", "4", "a/b", ""):
            with self.assertRaisesRegex(argparse.ArgumentTypeError, "is no part; say 1/4"):
                shares.part_of(text)


class Rounds(unittest.TestCase):
    def one(self, us, **more):
        return {"median_us": us, "best_us": us - 1, "calls": 2, **more}

    def test_short_calls_have_more_and_shorter_turns(self):
        self.assertEqual(rounds.turns_of((1, 4096), 1.5), (3, 1.5))
        times, seconds = rounds.turns_of((8, 128), 1.5)
        self.assertGreater(times, 3)
        self.assertAlmostEqual(times * seconds, 4.5)

    def test_the_middle_round_counts_and_the_middle_share(self):
        shares = (0.9, 0.8, 0.95)
        found = rounds.joined([self.one(us, share_of_matmul_beside=share) for us, share in zip((7, 5, 9), shares)])
        self.assertEqual(found, {"median_us": 7, "best_us": 4, "calls": 6, "rounds": 3, "share_of_matmul_beside": 0.9})
        self.assertNotIn("share_of_matmul_beside", rounds.joined([self.one(5)]))

    def test_who_is_far_behind_its_type_is_not_asked_again(self):
        times = {"a f32": [self.one(100)], "b f32": [self.one(129)], "c f32": [self.one(131)], "a bf16": [self.one(50)]}
        self.assertEqual(rounds.asked_again(["a f32", "b f32", "c f32", "a bf16", "failed f32"], times),
                         ["a f32", "b f32", "a bf16", "failed f32"])  # fmt: skip


class Joining(unittest.TestCase):
    def part(self, *places, **more):
        return {"commit": "c", "day": "Monday", "clocks": {"sm_idle": str(places)}, **more,
                "rows": [{"id": f"r{p}", "place": p} for p in places]}

    def test_rows_stand_in_the_order_of_the_cases(self):
        whole = join_parts.joined({"a": self.part(1, 4), "b": self.part(0, 3)})
        self.assertEqual([one["place"] for one in whole["rows"]], [0, 1, 3, 4])
        self.assertEqual(whole["commit"], "c")

    def test_files_of_different_commits_are_refused(self):
        with self.assertRaisesRegex(ValueError, "a was measured with commit c, b with d"):
            join_parts.joined({"a": self.part(1), "b": self.part(2, commit="d")})

    def test_a_row_that_is_there_twice_is_refused(self):
        with self.assertRaisesRegex(ValueError, "r1 is there twice"):
            join_parts.joined({"a": self.part(1), "b": self.part(1)})

    def test_other_cases_are_refused(self):
        with self.assertRaisesRegex(ValueError, r"a was measured with cases {'drawn': 1}, b with {'drawn': 2}; accepted: the same"):
            join_parts.joined({"a": self.part(1, cases={"drawn": 1}), "b": self.part(2, cases={"drawn": 2})})
        with self.assertRaisesRegex(ValueError, "a was measured with cases None, b with {}"):
            join_parts.joined({"a": self.part(1), "b": self.part(2, cases={})})
        with self.assertRaisesRegex(ValueError, r"b was measured with cases {'drawn': 1}, c with {'more': True}"):
            join_parts.renewed({"a": self.part(1), "b": self.part(1, cases={"drawn": 1}), "c": self.part(1, cases={"more": True})})

    def test_a_place_is_one_case(self):
        other = self.part(1)
        other["rows"][0]["id"] = "another"
        for join in (join_parts.joined, join_parts.renewed):
            with self.assertRaisesRegex(ValueError, "place 1 is r1 in a, another in b; accepted: the same case"):
                join({"a": self.part(1), "b": other})
        other["rows"][0] |= {"id": "r1", "place": 5}
        for join in (join_parts.joined, join_parts.renewed):
            with self.assertRaisesRegex(ValueError, "r1 has place 1 in a, 5 in b; accepted: one place"):
                join({"a": self.part(1), "b": other})

    def test_files_of_before_cases_were_said_are_renewed_where_rows_are_in_common(self):
        whole = join_parts.renewed({"old": self.part(0, 1), "b": self.part(1, cases={"drawn": 1})})
        self.assertEqual(whole["cases"], {"drawn": 1})
        with self.assertRaisesRegex(ValueError, "^old does not say its cases and has no row of the other files; accepted: "):
            join_parts.renewed({"old": self.part(0), "b": self.part(1, cases={"drawn": 1})})

    def test_later_rows_stand_in_place_of_earlier_ones_and_say_their_commit_and_day(self):
        whole = join_parts.renewed({"a": self.part(0, 1, 2), "b": self.part(1, commit="d", day="Friday")})
        self.assertEqual([(one["place"], one["commit"], one["day"]) for one in whole["rows"]],
                         [(0, "c", "Monday"), (1, "d", "Friday"), (2, "c", "Monday")])
        self.assertEqual((whole["commit"], whole["day"]), ("c, d", "Monday, Friday"))
        self.assertEqual(join_parts.renewed({"whole": whole, "e": self.part(0, 2, commit="d")})["commit"], "d")
        with self.assertRaisesRegex(ValueError, "a was measured with driver 1, b with 2"):
            join_parts.renewed({"a": self.part(1, driver=1), "b": self.part(1, driver=2)})


class GoingOn(unittest.TestCase):
    """With a file of results that is there."""

    def setUp(self):
        self.path = Path(self.enterContext(tempfile.TemporaryDirectory())) / "r.json"

    def results(self, **head):
        same = ("command", "commit", "cases")
        return cpu_run.Results(str(self.path), {"command": "c", "commit": "1", "cases": {}, **head}, True, same)

    def test_the_same_cases_are_gone_on_with(self):
        self.results().add({"id": "r"})
        self.assertTrue(self.results().has("r"))

    def test_others_are_refused(self):
        self.results(cases={"drawn": 1}).add({"id": "r"})
        with self.assertRaisesRegex(SystemExit, r"was measured with cases {'drawn': 1}; this run has {'drawn': 2}; accepted: the same"):
            self.results(cases={"drawn": 2})
        with self.assertRaisesRegex(SystemExit, "was measured with command c; this run has d"):
            self.results(command="d", cases={"drawn": 1})

    def test_a_file_that_does_not_say_its_cases_is_refused(self):
        self.path.write_text('{"command": "c", "commit": "1", "rows": []}')
        with self.assertRaisesRegex(SystemExit, "was measured with cases None; this run has {}"):
            self.results()

    def test_runs_on_the_cpu_are_of_one_command(self):
        self.assertIn("command", cpu_run.SAME)


class Tables(unittest.TestCase):
    def test_targets_are_counted_by_dtype_and_misses_named(self):
        notes = report_targets.target_notes([row("causal", 55.0, 56.0), row("window", 7.0, 14.0), row("window", 9.0, 9.9, "bf16")],
                                            lambda one: one["id"])  # fmt: skip
        self.assertIn("targets, f16: 1 of 2 rows take no longer than theirs; later are causal f16 55.0 for 50.0", notes)
        self.assertIn("targets, bf16: 0 of 1 rows take no longer than theirs; later are window bf16 9.00 for 8.00", notes)
        self.assertIn("wanted of masked rows in f16: a geometric mean of 1.8 and none under 1.0; there are 2.000 and 2.00", notes)
        self.assertIn("wanted of masked rows in bf16: a geometric mean of 1.8 and none under 1.0; there are 1.100 and 1.10", notes)

    def test_heads_that_share_keys_have_no_target(self):
        self.assertIsNone(report_targets.target_of(row("causal", 1, 1, kv_heads=4)))
        self.assertEqual(report_targets.target_of(row("causal", 1, 1)), 50)

    def test_stored_figures_are_said_to_be_stored(self):
        long = {**row("causal", 1000.0, 1100.0), "shape": [16, 12, 4096, 64]}
        notes = report_targets.target_notes([long], lambda one: one["id"])
        self.assertIn("stored, of an NVIDIA H200 before this comparison, at a clock that was not kept: FlashAttention 3 975 us for causal f16, "
                      "0.97 times what STOF takes here", notes)

    def test_columns_that_no_row_fills_are_left_out(self):
        head, lines, _ = table_of({"rows": [row("causal", 55.0, 56.0)]})
        self.assertIn("target", head)
        self.assertNotIn("steady", head)
        head, lines, notes = table_of({"rows": [{**row("causal", 55.0, 66.0, kv_heads=3), "family": "sliding"}]})
        self.assertNotIn("target", head)
        self.assertEqual(lines[0][0], "(1,12:3,4096,64) f16 `causal`")
        self.assertTrue(any(note.startswith("heads that share keys: 1 rows") for note in notes), notes)

    def test_peers_that_failed_are_named_with_why(self):
        bad = {**row("window", 5, 10)}
        bad["peers"] = {**bad["peers"], "flex64": {"failed": "WrongOutput: relative error 3.1e-02, worst row 1.0e+00"}}
        other = {**row("window", 5, 10)}
        other["peers"] = {**other["peers"], "flex64": {"failed": "WrongOutput: relative error 9.9e-03, worst row 2.0e+00\nmore"},
                          "cudnn_flex": {"failed": "RuntimeError: a | b"}, "fa4_mask": {"refused": "no such mask"}}  # fmt: skip
        _, _, notes = table_of({"rows": [bad, other]})
        self.assertFalse(any(note.startswith("failed") for note in table_of({"rows": [row("window", 5, 10)]})[2]))
        self.assertIn("failed or wrong in so many of the 2 rows: flex64 2 (WrongOutput: relative error ..., worst row ...); "
                      "cudnn_flex 1 (RuntimeError: a \\| b)", notes)  # fmt: skip
        self.assertFalse(any("fa4_mask" in note for note in notes), notes)

    def test_peers_that_failed_on_a_cpu_are_named_alike(self):
        wrong = {"failed": "ValueError: relative error 3.10e-02, worst row 1.00e+00"}
        peers = {"stof": {"median_us": 5.0}, "stof bf16": {"median_us": 4.0}, "flex 32": {"median_us": 9.0}, "flex 64": wrong,
                 "onnxruntime": {"refused": "f32 alone"}}  # fmt: skip
        one = {"id": "a", "mask": "all", "shape": [1, 12, 512, 64], "dtype": "f32", "density": 1.0, "peers": peers}
        note = "failed or wrong in so many of the 2 rows: flex 64 2 (ValueError: relative error ..., worst row ...)"
        self.assertEqual(table_of({"rows": [one, one]})[2][-1], note)
        self.assertFalse(any("failed" in said for said in table_of({"rows": [{**one, "peers": {**peers, "flex 64": {"median_us": 9.0}}}]})[2]))
        lost = {**one, "peers": {**peers, "stof": wrong}}  # its own
        _, lines, notes = table_of({"rows": [one, lost]})
        self.assertEqual((lines[1][1], lines[1][-3:]), ("", ["", "", ""]))
        self.assertTrue(notes[-1].startswith("failed or wrong in so many of the 2 rows: flex 64 2, stof 1 (ValueError: "), notes)
        engine = {"id": "sentences", "peers": {"stof f32": {"median_us": 3.0}, "openvino f32": {"failed": "RuntimeError: out of memory"}}}
        self.assertEqual(table_of({"rows": [engine]})[2],
                         ["failed or wrong in so many of the 1 rows: openvino f32 1 (RuntimeError: out of memory)"])  # fmt: skip

    def test_the_floor_is_that_of_the_memory_of_the_device(self):
        short = {**row("window", 10.0, 20.0), "density": 0.001}
        of = lambda **device: float(table_of({"rows": [short], **device})[1][0][-1])
        self.assertEqual(of(device="NVIDIA H200"), of())
        self.assertAlmostEqual(of(device="NVIDIA H100 80GB HBM3") / of(device="NVIDIA H200"), 3.35 / 4.8, 1)

    def test_the_floor_of_decoding_is_that_of_the_memory_of_the_device(self):
        """Whatever rate the file was written with; of a chunk the slower one of two, by that."""
        moved, h100 = 34_400_000, "NVIDIA H100 80GB HBM3"
        few = {**decoded(0, 16.0), "bytes": moved}
        shown = lambda row, **data: table_of({"rows": [row], **data})[1][0]
        self.assertEqual(shown(few, device="NVIDIA H200")[4:7], ["8.00", "16.0", "0.50"])
        self.assertEqual(shown(few, device=h100)[4:7], ["11.5", "16.0", "0.72"])
        self.assertEqual(shown({**few, "floor_us": moved / (3.35 * 4.3 / 4.8) / 1e6}, device=h100)[4:7], ["11.5", "16.0", "0.72"])
        for floor, on_h200, on_h100 in ((9.0, ["9.00", "tensor cores"], ["11.5", "memory"]), (20.0, *[["20.0", "tensor cores"]] * 2)):
            chunk = {**few, "queries": 100, "floor_us": floor, "floor_of": "tensor cores"}
            self.assertEqual(shown(chunk, chunks="fixed", device="NVIDIA H200")[5:7], on_h200)
            self.assertEqual(shown(chunk, chunks="fixed", device=h100)[5:7], on_h100)

    def test_floors_of_variants_are_those_of_the_device(self):
        one = {"problem": "p", "variant": "v", "passed": True, "burst_us": 16.0, "steady_us": 17.0, "dram_floor_us": 8.0, "tflops": 1,
               "worst_row": 0.0}  # fmt: skip
        of = lambda device: table_of({"rows": [one], "device": device})[1][0][3]
        self.assertEqual((of("NVIDIA H200"), of("NVIDIA H100 PCIe")), ("2.00", "1.40"))

    def test_dtypes_have_a_mean_each(self):
        _, _, notes = table_of({"rows": [row("window", 5, 10), row("window", 5, 20, "bf16")]})
        self.assertTrue(any(note.startswith("masked, f16, together: 1 rows, best peer / STOF, geometric mean 2.00") for note in notes), notes)
        self.assertTrue(any(note.startswith("masked, bf16, together: 1 rows, best peer / STOF, geometric mean 4.00") for note in notes), notes)

    def test_decode_shows_shares_of_the_floor_and_peers_that_refuse(self):
        rows = [decoded(0, 10.0, fa4={"median_us": 30.0}), decoded(64, 16.0, fa4={"refused": "no pages"})]
        _, lines, notes = table_of({"rows": rows})
        self.assertEqual(lines[0][2:], ["rows", "`all`", "8.00", "10.0", "0.80", "fa4", "30.0", "3.00"])
        self.assertEqual(lines[1][2:], ["pages of 64", "`all`", "8.00", "16.0", "0.50", "", "", ""])
        self.assertIn("fa4: timed in 1 of 2 rows; else no pages", notes)

    def test_of_an_engine_the_faster_setting_counts_row_by_row(self):
        one, streams = "all threads in one stream", "a stream for each thread"
        found = engines.best_settings({"stof f32": {"median_us": 3}, "openvino f32": {"median_us": 5}, "openvino-streams f32": {"median_us": 4},
                                       "openvino bf16": {"median_us": 2}, "openvino-streams bf16": {"failed": "x"}})  # fmt: skip
        self.assertEqual(found, {"stof f32": {"median_us": 3}, "openvino f32": {"median_us": 4, "setting": streams},
                                 "openvino bf16": {"median_us": 2, "setting": one}})  # fmt: skip
        starts = engines.best_settings({"openvino f32": {"seconds": 0.5}, "openvino-streams f32": {"seconds": 0.6}})
        self.assertEqual(starts["openvino f32"]["setting"], one)
        _, _, notes = table_of({"rows": [{"id": "sentences", "peers": found}]})
        self.assertEqual(notes[-2:], [f"openvino, {streams}: sentences f32", f"openvino, {one}: sentences bf16"])

    def test_shares_are_of_the_matmul_beside_the_calls_and_of_the_best(self):
        mine = {"median_us": 20.0, "best_us": 16.0, "gflop": 1.5e-3, "share_of_matmul_beside": 0.91}
        data = {"roofline": {"matmul_f32_gflops": 100}, "rows": [{"id": "e", "peers": {"stof f32": mine, "a f32": {"median_us": 30.0}}}]}
        cells = dict(zip(*(lambda head, lines, _: (head, lines[0]))(*table_of(data))))
        self.assertEqual((cells["of the matmul beside it"], cells["of the best matmul"], cells["its fastest call"]), ("0.91", "0.75", "0.94"))
        del mine["share_of_matmul_beside"]
        head, _, _ = table_of(data)
        self.assertEqual(head[-2:], ["of the best matmul", "its fastest call"])
        self.assertNotIn("of the matmul beside it", head)
        row = {"id": "e", "gflops": 75.0, "median_us": 20.0, "share_of_matmul_peak": 0.75, "share_of_matmul_beside": 0.91}
        self.assertEqual(table_of({"rows": [row]})[1][0][2], "75 GFLOP/s, 0.91 of the matmul beside it, 0.75 of the best matmul")

    def test_a_call_is_its_operations_at_the_peak_and_what_is_lost(self):
        step = lambda work, us, gflop=0, activation_us=0: {"work": work, "us": us, "gflop": gflop, "activation_us": activation_us}
        row = {"id": "e", "dtype": "f32", "mask": "all", "shape": [1, 8], "split": {"whole_us": 100, "busy": 0.9, "steps": [
            step("linear 8>8 gelu", 40, 3e-3, 4), step("linear 8>8", 20, 2e-3), step("attend_packed 8", 20, 1e-3), step("add_layer_norm 8", 15)]}}  # fmt: skip
        parts = {name: round(us, 6) for name, us in split_table.lost(row, 100).items()}
        self.assertEqual(parts, {"at the peak": 60, "products": 6, "activation": 4, "attention": 10, "rows": 15, "between steps": 5})
        row["split"]["matmul_gflops"] = 100  # in turns with the calls, not the run's best
        roofline = {"matmul_f32_gflops": 120}
        self.assertEqual(split_table.shares([row], roofline).splitlines()[0],
                         "| encoder | `linear 8>8 gelu` | `linear 8>8` | `attention` |")  # fmt: skip
        self.assertEqual(split_table.shares([row], roofline).splitlines()[2], "| (1,8) `all` f32 | 0.83 | 1.00 | 0.50 |")
        self.assertIn("| 60.0 % | 6.0 % | 4.0 % | 10.0 % | 15.0 % | 5.0 % | 10.0 % |", split_table.losses([row], roofline))


if __name__ == "__main__":
    unittest.main()
