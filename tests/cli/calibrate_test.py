#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""stof calibrate from the outside: what it keeps, who reads it, what is ignored.

usage: calibrate_test.py STOF
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

STOF = os.path.abspath(sys.argv.pop(1))
RESULTS = Path(__file__).resolve().parents[2] / "bench/results"


class Calibrate(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.cache = Path(folder.name)
        self.file = self.cache / "stof/cpu-attention.json"

    def stof(self, *arguments):
        environment = os.environ | {"XDG_CACHE_HOME": str(self.cache)}
        return subprocess.run([STOF, *arguments], capture_output=True, text=True, timeout=300, check=False, env=environment)

    def plan_costs(self):
        done = self.stof("plan", "causal", "--shape", "1,1,64,64", "--device", "cpu", "--json", "-")
        return json.loads(done.stdout)["costs"]

    def test_a_calibration_is_used_from_then_on(self):
        self.assertEqual(self.plan_costs(), "built in")
        self.file.parent.mkdir()
        done = self.stof("calibrate", "--quick", "--out", str(self.file), "--json", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        results, kept = json.loads(done.stdout), json.loads(self.file.read_text())
        self.assertEqual({plan["kernel"] for row in results["rows"] for plan in row["plans"]},
                         {"block_attention", "row_attention"})  # fmt: skip
        for key in ("commit", "day", "processor", "device"):
            self.assertEqual(kept[key], results[key])
        for name in ("block_f32", "block_f16", "block_bf16", "row_f32", "row_f16", "row_bf16"):
            self.assertEqual(len(kept["nanoseconds"][name]), 7 if name.startswith("block") else 4)
            self.assertTrue(all(value >= 0 for value in kept["nanoseconds"][name]))
        self.assertEqual(self.plan_costs(), f"measured here on {kept['day']} ({self.file})")
        self.assertIn(f"costs      measured here on {kept['day']}",
                      self.stof("plan", "causal", "--shape", "1,1,64,64", "--device", "cpu").stdout)  # fmt: skip

        self.file.write_text(json.dumps(kept | {"processor": "Another"}))
        self.assertTrue(self.plan_costs().startswith(f"built in: {self.file} was measured on Another ("))
        doctor = json.loads(self.stof("doctor", "--json", "-").stdout)
        self.assertTrue(doctor["calibration"]["ignored"])
        self.assertIn("stof calibrate", [item["remedy"] for item in doctor["missing"]])

    def test_costs_that_cannot_be_kept_are_not_measured(self):
        (self.cache / "stof").write_text("a file in the place of the folder")
        done = self.stof("calibrate", "--device", "cpu")
        self.assertEqual((done.returncode, done.stderr), (2, f"stof: cannot write '{self.file}': Not a directory\n"))

    def test_costs_of_a_few_problems_are_for_no_later_choice(self):
        done = self.stof("calibrate", "--quick")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("not kept: of a few problems only; --out FILE keeps them\n", done.stdout)
        self.assertEqual(self.plan_costs(), "built in")

    def test_regret_keeps_nothing(self):
        done = self.stof("calibrate", "--regret", "--quick", "--json", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        results = json.loads(done.stdout)
        self.assertRegex(results["costs"], r"^(built in|measured here on \d{4}-\d\d-\d\d)$")
        documented = (Path(__file__).resolve().parents[2] / "docs/cli.md").read_text(encoding="utf-8")
        documented = documented.split("\n## stof calibrate\n")[1]
        row = results["rows"][0]
        for key in ("mean_regret", "worst_regret", "costs", *row, *row["plans"][0]):
            self.assertRegex(documented, rf"`(rows\[\]\.(plans\[\]\.)?)?{key}`")
        regrets = []
        for row in results["rows"]:
            times = {plan["chosen"]: plan["us"] for plan in row["plans"]}
            regrets.append(times[True] / min(plan["us"] for plan in row["plans"]) - 1)
        self.assertAlmostEqual(results["mean_regret"], sum(regrets) / len(regrets))
        self.assertAlmostEqual(results["worst_regret"], max(regrets))
        self.assertFalse(self.file.exists())

    def measured_on_a_gpu(self, us_of):
        """A file of times, as if measured: us_of(plan) for every plan that is considered."""
        rows = []
        for mask in ("causal", "window(16)", "longformer(16,8)"):
            shape = [1, 2, 2, 512, 512, 64]
            done = self.stof("plan", mask, "--shape", "1,2,512,64", "--dtype", "f16", "--device", "cuda:h200", "--json", "-")
            plans = [{"kernel": plan["kernel"], "instance": plan.get("instance", ""), "splits": plan["splits"],
                      "residues": plan["residues"], "us": us_of(plan)} for plan in json.loads(done.stdout)["considered"]]
            rows.append({"id": mask, "mask": mask, "shape": shape, "dtype": "f16", "plans": plans})
        file = self.cache / "times.json"
        file.write_text(json.dumps({"device": "NVIDIA H200", "day": "2026-01-02", "rows": rows}))
        return str(file)

    def test_costs_of_a_gpu_come_from_its_times(self):
        times = self.measured_on_a_gpu(lambda plan: 2 * plan["predicted_us"])
        done = self.stof("calibrate", "--device", "cuda:h200", "--times", times)
        self.assertEqual(done.returncode, 0, done.stderr)
        kept = json.loads((self.cache / "stof/cuda-attention.json").read_text())
        self.assertEqual((kept["device"], kept["day"]), ("NVIDIA H200", "2026-01-02"))
        done = self.stof("plan", "causal", "--shape", "1,2,512,64", "--dtype", "f16", "--device", "cuda:h200", "--json", "-")
        planned = json.loads(done.stdout)
        self.assertEqual(planned["costs"], f"measured here on 2026-01-02 ({self.cache}/stof/cuda-attention.json)")
        plans = planned["considered"]
        rows = json.loads(Path(times).read_text())["rows"]
        measured = {(p["kernel"], p["instance"], p["splits"]): p["us"] for p in rows[0]["plans"]}
        for plan in plans:
            if plan["kernel"] == "stream_attention":
                us = measured[plan["kernel"], plan["instance"], plan["splits"]]
                self.assertLess(abs(plan["predicted_us"] / us - 1), 0.1, plan)

    def test_a_fit_as_json(self):
        times = self.measured_on_a_gpu(lambda plan: 2 * plan["predicted_us"])
        file, costs = self.cache / "fits.json", self.cache / "costs.json"
        for json_file in ("-", str(file)):
            done = self.stof("calibrate", "--device", "cuda:h200", "--times", times, "--out", str(costs), "--json", json_file)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stderr, r"^(fitting \[[# ]{40}\] \d+/\d+  [\d.]+ s\n)*$")
            fits = json.loads(done.stdout if json_file == "-" else file.read_text())["fits"]
            kept = json.loads(costs.read_text())["microseconds"]
            self.assertIn("decode", kept)
            self.assertGreater(len(fits), 3)
            for fit in fits:
                self.assertEqual(fit["microseconds"], kept[fit["name"]])
                self.assertGreater(fit["samples"], 0)
                self.assertLess(fit["error"], 1)

    def test_times_of_another_gpu_are_judged_and_not_fitted(self):
        times = self.measured_on_a_gpu(lambda plan: plan["predicted_us"])
        costs = self.cache / "costs.json"
        done = self.stof("calibrate", "--device", "cuda:a100", "--times", times, "--out", str(costs))
        self.assertEqual((done.returncode, done.stderr),
                         (2, f"stof: '{times}' has times of NVIDIA H200, --device cuda:a100 is NVIDIA A100 (described): costs of one "
                             "GPU are not fitted to times of another; accepted with them: --regret\n"))  # fmt: skip
        self.assertFalse(costs.exists())
        done = self.stof("calibrate", "--device", "cuda:h100", "--times", times, "--regret")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.startswith("times of NVIDIA H200; choices for NVIDIA H100 SXM (described), by costs built in, of an NVIDIA H200\n"))
        done = self.stof("calibrate", "--device", "cuda:h100", "--times", times, "--regret", "--json", "-")
        self.assertEqual(json.loads(done.stdout)["judged_device"], "NVIDIA H100 SXM (described)")

    def test_regret_on_a_gpu_is_against_the_fastest(self):
        times = self.measured_on_a_gpu(lambda plan: plan["predicted_us"])
        done = self.stof("calibrate", "--device", "cuda:h200", "--regret", "--times", times, "--json", "-")
        self.assertEqual(json.loads(done.stdout)["mean_regret"], 0)
        times = self.measured_on_a_gpu(lambda plan: 100 / plan["predicted_us"])
        done = self.stof("calibrate", "--device", "cuda:h200", "--regret", "--times", times, "--json", "-")
        results = json.loads(done.stdout)
        self.assertGreater(results["mean_regret"], 0.5)
        self.assertNotIn("judged_commit", json.loads(Path(times).read_text()))
        self.assertRegex(results["judged_commit"], r"^(unknown|[0-9a-f]{7,40}(-dirty)?)$")
        for row in results["regrets"]:
            self.assertAlmostEqual(row["regret"], row["chosen_us"] / row["best_us"] - 1)

    def test_what_the_built_in_costs_choose_loses_little(self):
        # Problems of every mask, which no cost is fitted to, and of few queries whose heads share keys, by which two terms were set.
        # judged: the share of problems that are; the others' choice nobody timed: of as many parts, and in the second file, whose
        # times are of before stacks of three parts, five such.
        files = (("h200-attention-regret.json", 0.95, 0.02, 0.20), ("f5ebd8b-h200-grouped.json", 0.8, 0.04, 0.15))
        for name, judged, mean, worst in files:
            done = self.stof("calibrate", "--device", "cuda:h200", "--regret", "--times", str(RESULTS / name), "--json", "-")
            self.assertEqual(done.returncode, 0, done.stderr)
            results = json.loads(done.stdout)
            self.assertGreater(len(results["regrets"]), judged * len(results["rows"]), name)
            self.assertEqual(len(results["regrets"]) + len(results["not_judged"]), len(results["rows"]))
            self.assertGreater(len(results["not_judged"]), 0)
            judged = {row["id"] for row in results["regrets"]}
            for row in results["not_judged"]:
                self.assertRegex(row["chosen"], r"^\w+ / \d+$")
                self.assertNotIn(row["id"], judged)
            said = self.stof("calibrate", "--device", "cuda:h200", "--regret", "--times", str(RESULTS / name)).stdout
            counts = [len(results[key]) for key in ("regrets", "rows", "not_judged")]
            self.assertIn("{} of {} problems; of {} the chosen plan was not timed\n".format(*counts), said)
            self.assertLess(results["mean_regret"], mean, name)
            self.assertLess(results["worst_regret"], worst, name)

    def test_regret_of_some_problems_only(self):
        times = self.measured_on_a_gpu(lambda plan: plan["predicted_us"])
        for only, ids in (((), ["causal", "window(16)", "longformer(16,8)"]), (("caus",), ["causal"]), (("window", "former"), ["window(16)", "longformer(16,8)"])):
            words = [word for text in only for word in ("--only", text)]
            done = self.stof("calibrate", "--device", "cuda:h200", "--regret", "--times", times, *words, "--json", "-")
            results = json.loads(done.stdout)
            self.assertEqual([row["id"] for row in results["rows"]], ids)
            self.assertEqual(sorted(row["id"] for row in results["regrets"]), sorted(ids))

    def test_regret_of_capped_scores_is_of_plans_for_them(self):
        shape = ["--shape", "1,2,512,64", "--dtype", "f16", "--device", "cuda:h200", "--json", "-"]
        done = self.stof("plan", "causal", *shape, "--softcap")
        plans = [{"kernel": plan["kernel"], "instance": plan.get("instance", ""), "splits": plan["splits"],
                  "residues": plan["residues"], "us": plan["predicted_us"]} for plan in json.loads(done.stdout)["considered"]]
        row = {"id": "capped", "mask": "causal", "shape": [1, 2, 2, 512, 512, 64], "dtype": "f16", "softcap": 50.0, "plans": plans}
        file = self.cache / "times.json"
        file.write_text(json.dumps({"device": "NVIDIA H200 (described)", "day": "2026-01-02", "rows": [row]}))
        done = self.stof("calibrate", "--device", "cuda:h200", "--regret", "--times", str(file), "--json", "-")
        self.assertEqual(json.loads(done.stdout)["mean_regret"], 0, done.stderr)

    def test_regret_of_biased_scores_is_of_plans_for_them(self):
        shape = ["--shape", "1,2,512,64", "--dtype", "f16", "--device", "cuda:h200", "--json", "-"]
        done = self.stof("plan", "causal", *shape, "--biased")
        plans = [{"kernel": plan["kernel"], "instance": plan.get("instance", ""), "splits": plan["splits"],
                  "residues": plan["residues"], "us": plan["predicted_us"]} for plan in json.loads(done.stdout)["considered"]]
        row = {"id": "biased", "mask": "causal", "shape": [1, 2, 2, 512, 512, 64], "dtype": "f16", "softcap": 0.0,
               "bias_reach": 128, "plans": plans}  # fmt: skip
        file = self.cache / "times.json"
        file.write_text(json.dumps({"device": "NVIDIA H200 (described)", "day": "2026-01-02", "rows": [row]}))
        done = self.stof("calibrate", "--device", "cuda:h200", "--regret", "--times", str(file), "--json", "-")
        self.assertEqual(json.loads(done.stdout)["mean_regret"], 0, done.stderr)

    def test_costs_of_some_problems_are_kept_only_where_they_are_asked_for(self):
        times = self.measured_on_a_gpu(lambda plan: plan["predicted_us"])
        fit = ("calibrate", "--device", "cuda:h200", "--times", times, "--only", "causal")
        for words in ((), ("--json", "-")):
            done = self.stof(*fit, *words)
            self.assertEqual(done.returncode, 2)
            self.assertIn("stof: --only leaves too few problems for costs", done.stderr)
        self.assertFalse((self.cache / "stof/cuda-attention.json").exists())
        table = self.cache / "costs.json"
        done = self.stof(*fit, "--out", str(table))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(table.exists())
        # Measuring a part is accepted, where there is a GPU.
        done = self.stof("calibrate", "--device", "cuda:h200", "--only", "causal", "--json", "-")
        self.assertIn("is a description to plan with", done.stderr)

    def test_rows_of_others_are_no_measurements(self):
        file = self.cache / "rows.json"
        for rows in ([{"plans": []}], [3], [{"id": 3, "plans": []}], [{"id": "a", "plans": [{"us": 1}]}], [{"id": "a"}]):
            for words in (("--out", str(self.cache / "costs.json")), ("--regret",)):
                file.write_text(json.dumps({"device": "NVIDIA H200 (described)", "rows": rows}))
                with self.subTest(rows, words=words):
                    done = self.stof("calibrate", "--device", "cuda:h200", "--only", "a", "--times", str(file), *words)
                    self.assertEqual((done.returncode, done.stderr), (2, f"stof: '{file}' holds no measurements of `stof calibrate --device cuda --json`\n"))

    def test_errors(self):
        for arguments, code, message in (
            (("--device", "gpu"), 2, "unknown device 'gpu'; accepted: auto, cpu, cuda, cuda:N; to plan for: cuda:h200, cuda:h100, cuda:a100"),
            (("--device", "cuda:h200"), 4, "NVIDIA H200 (described) is a description to plan with; accepted for "
             "running: cuda, cuda:N"),
            (("--device", "cpu", "--times", __file__), 2,
             "--times, --only, --source and --resume are of a GPU; accepted with them: --device cuda, cuda:N"),
            (("--device", "cuda:h200", "--softcap", "50"), 2,
             "--softcap is for problems of a GPU that nothing is fitted to; accepted with it: --device cuda --regret"),
            (("--device", "cpu", "--regret", "--softcap", "50"), 2,
             "--softcap is for problems of a GPU that nothing is fitted to; accepted with it: --device cuda --regret"),
            (("--device", "cuda:h200", "--regret", "--softcap", "0"), 2, "--softcap is 0; accepted: above 0"),
            (("--device", "cuda:h200", "--grouped"), 2,
             "--grouped is for problems of a GPU that nothing is fitted to; accepted with it: --device cuda --regret"),
            (("--device", "cuda:h200", "--regret", "--grouped", "--softcap", "50"), 2,
             "--softcap and --grouped are of other problems each; accepted: one of them"),
            (("--device", "cuda:h200", "--regret", "--biased", "128", "--softcap", "50"), 2,
             "--softcap and --biased are of other problems each; accepted: one of them"),
            (("--device", "cuda:h200", "--regret", "--biased", "-1"), 2, "--biased is -1; accepted: 0 and more"),
            (("--device", "cuda:h200", "--times", __file__), 2,
             f"'{__file__}' holds no measurements of `stof calibrate --device cuda --json`"),
            (("--device", "cpu", "--only", "causal"), 2,
             "--times, --only, --source and --resume are of a GPU; accepted with them: --device cuda, cuda:N"),
            (("--device", "cuda:h200", "--times", self.measured_on_a_gpu(lambda plan: 1), "--only", "nothing", "--regret"), 2,
             "no problem has the text of --only in its name; names are like '(1,12,12,512,512,64) f16 causal'"),
            (("--device", "cuda:h200", "--regret", "--source", "s.inc"), 2, "--regret keeps no costs; accepted with it: --json, not --source"),
            (("--device", "cpu", "--regret", "--out", "costs"), 2, "--regret keeps no costs; accepted with it: --json, not --out"),
            (("--device", "cuda:h200", "--times", __file__, "--source", "s.inc", "--out", "costs"), 2,
             "--out and --source are of one table; accepted: one of them"),
            *((("--device", "cuda:h200", "--times", __file__, *words), 2,
               f"{words[-1]} says what to measure, and --times what was; accepted with --times: --only, --regret, --out, --source, --json")
              for words in (("--quick",), ("--json", "fits.json", "--resume"), ("--regret", "--grouped"))),
            (("--device", "cuda:h200", "--times", __file__, "--regret", "--softcap", "50"), 2,
             "--softcap says what to measure, and --times what was; accepted with --times: --only, --regret, --out, --source, --json"),
            (("--out", "no/such/folder/file"), 2, "cannot write 'no/such/folder/file': No such file or directory"),
        ):  # fmt: skip
            done = self.stof("calibrate", *arguments)
            self.assertEqual((done.returncode, done.stderr), (code, f"stof: {message}\n"))


if __name__ == "__main__":
    unittest.main()
