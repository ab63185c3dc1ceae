#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""stof tune and stof plans from the outside: a plan is made, kept, listed, carried, damaged and refused.

usage: tune_test.py STOF
"""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import small_model

STOF = sys.argv.pop(1)


class Tune(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.model = small_model.write(self.folder / "model")
        self.cache = self.folder / "cache"

    def environment(self, cache=None):
        return dict(os.environ, XDG_CACHE_HOME=str(cache or self.cache), OMP_WAIT_POLICY="passive")

    def stof(self, *arguments, code=0, cache=None):
        done = subprocess.run([STOF, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False,
                              env=self.environment(cache))  # fmt: skip
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def tune(self, *arguments, cache=None):
        done = self.stof("tune", "--model", self.model, "--device", "cpu", "--seq", 8, "--threads", 1, "--json", "-",
                         *arguments, cache=cache)  # fmt: skip
        return json.loads(done.stdout)

    def plans(self):
        return sorted((self.cache / "stof/plans").glob("*.plan"))

    def test_keys(self):
        plan = self.tune()
        self.assertEqual(list(plan), ["format", "key", "model", "mask", "scheme", "origin", "works", "confirmed", "commit",
                                      "when", "checksum", "search"])  # fmt: skip
        what = [time["what"] for time in plan["confirmed"]]
        self.assertEqual(what[:3], ["default", "analytical", "tuned"])
        self.assertLessEqual(set(what[3:]), {"tuned 2", "tuned 3", "refined"})  # rivals within a few percent
        self.assertTrue(plan["search"]["kept"] and plan["search"]["finished"])
        self.assertGreater(plan["search"]["measured"], 3)

    def test_what_was_measured_is_not_measured_again(self):
        first = self.tune()
        again = self.tune("--seed", 2)
        self.assertEqual(again["search"]["measured"], 0)
        self.assertEqual(again["search"]["us"], first["search"]["us"])
        self.assertEqual(self.tune("--no-cache")["search"]["remembered"], 0)
        self.assertEqual(self.tune("--again")["search"]["remembered"], 0)
        self.assertEqual(self.tune()["search"]["measured"], 0)

    def test_explain_prints_moves(self):
        done = self.stof("tune", "--model", self.model, "--device", "cpu", "--seq", 8, "--threads", 1, "--explain")
        self.assertRegex(done.stdout, r"(?m)^start +[\d.]+ us  0")
        self.assertRegex(done.stdout, r"(?m)^(expand|seize|compete|yield|release) +[\d.]+ -> +[\d.]+ us  (kept|undone) +\[")

    def test_explain_leaves_json_alone(self):
        done = self.stof("tune", "--model", self.model, "--device", "cpu", "--seq", 8, "--threads", 1, "--explain", "--json", "-")
        self.assertEqual(json.loads(done.stdout)["format"], 2)
        self.assertRegex(done.stderr, r"(?m)^start +[\d.]+ us  0")

    def test_a_folder_whose_name_is_no_text(self):
        """Of bytes that are no UTF-8: JSON has what can be said of it."""
        folder = os.fsencode(self.folder) + b"/bad\xffname"
        os.rename(self.model, folder)
        self.model = os.fsdecode(folder)
        done = subprocess.run([os.fsencode(STOF), b"tune", b"--model", folder, b"--device", b"cpu", b"--seq", b"8", b"--threads",
                               b"1", b"--json", b"-"], capture_output=True, timeout=120, check=False, env=self.environment())  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["model"], "bad\N{REPLACEMENT CHARACTER}name")
        [file] = self.plans()
        self.assertEqual(json.loads(self.stof("plans", "list", "--json", "-").stdout)["plans"][0]["problem"], "")
        self.stof("plans", "show", file.stem[:8])
        carried = self.folder / "carried.json"
        self.stof("plans", "export", file.stem[:8], "--out", carried)
        self.stof("plans", "import", carried)

    def test_threads_of_a_plan(self):
        """One of more threads than there are processors is used by no session of its own choice."""
        here = len(os.sched_getaffinity(0))
        tune = ("tune", "--model", self.model, "--device", "cpu", "--seq", 8, "--threads")
        self.stof(*tune, here)
        self.assertRegex(self.stof("plans", "list").stdout, r"(?m)  used$")
        self.stof(*tune, here + 1)
        self.assertIn(f"not used: cores is {here + 1}; here it is {here}", self.stof("plans", "list").stdout)
        if here > 1:
            self.stof(*tune, here - 1)
            self.assertRegex(self.stof("plans", "list").stdout, rf"(?m)  used with --threads {here - 1}$")
            fewer = dict(self.environment(), OMP_NUM_THREADS=str(here - 1))  # that sessions take of their own choice
            listed = subprocess.run([STOF, "plans", "list"], capture_output=True, text=True, check=True, env=fewer)
            self.assertRegex(listed.stdout, rf"(?m)  used with --threads {here}$")
            self.assertRegex(listed.stdout, r"(?m)  used$")

    def test_any_number_of_texts(self):
        for batch, length in ((33, 1), (3, 32)):
            done = self.stof("tune", "--model", self.model, "--device", "cpu", "--threads", 1, "--batch", batch, "--seq", length)
            self.assertIn("kept as", done.stdout)

    def test_the_name_of_a_folder(self):
        for ending in ("/", "/.", "/../model/"):
            self.model = f"{self.folder / 'model'}{ending}"
            self.assertEqual(self.tune()["model"], "model", ending)

    def test_a_plan_for_a_cache_that_cannot_be_written(self):
        self.tune()
        [file] = self.plans()
        blocked = self.folder / "file"
        blocked.write_text("x")
        done = self.stof("plans", "import", file, code=2, cache=blocked)
        self.assertEqual(done.stderr, f"stof: cannot make folder '{blocked}/stof/plans': Not a directory\n")

    def test_a_forced_scheme_is_kept(self):
        bits = json.loads(self.stof("graph", "--model", self.model, "--json", "-").stdout)["scheme"]["kinds"][0]["bits"]
        alone = "".join(re.sub("1", "0", bits[:6])) + bits[6:]
        self.assertEqual(self.tune("--scheme", alone)["origin"], "forced")
        self.assertIn("forced", self.stof("plans", "list").stdout)

    def test_plans(self):
        plan = self.tune()
        [file] = self.plans()
        name = file.stem[:8]
        self.assertIn(name, self.stof("plans", "list").stdout)
        self.assertEqual(json.loads(self.stof("plans", "show", name).stdout)["when"], plan["when"])
        self.assertEqual(self.stof("plans", "verify").stdout, f"{name}  good\n")
        carried = self.folder / "carried.json"
        self.stof("plans", "export", name, "--out", carried)
        before = file.read_bytes()
        file.unlink()
        self.assertEqual(self.stof("plans", "import", carried).stdout, f"kept as {name}\n")
        self.assertEqual(file.read_bytes(), before)

    def test_the_keys_of_a_list_are_documented(self):
        self.tune()
        listed = json.loads(self.stof("plans", "list", "--json", "-").stdout)
        [row] = listed["plans"]
        page = (Path(__file__).resolve().parents[2] / "docs/cli.md").read_text(encoding="utf-8")
        page = page.split("\n## stof plans\n")[1].split("\n## ")[0]
        plan = row["plan"]
        for before, keys in (("", listed), ("plans[].", row), ("key.", plan["key"]), ("works[].", plan["works"][0])):
            for key in keys:
                self.assertIn(f"`{before}{key}`", page)
        self.assertEqual(listed["folder"], str(self.cache / "stof/plans"))

    def test_foreign_and_damaged_plans_are_refused(self):
        self.tune()
        [file] = self.plans()
        carried = self.folder / "carried.json"
        text = file.read_text()
        carried.write_text(text.replace('"cores": 1', '"cores": 7'))
        done = self.stof("plans", "import", carried, code=2)
        self.assertEqual(done.stderr, f"stof: {carried}: its checksum does not fit\n")
        file.write_text(text[: len(text) // 2])
        done = self.stof("plans", "verify", code=2)
        self.assertEqual(done.stderr, f"stof: 1 plan of '{file.parent}' is not used here\n")
        done = self.stof("run", "--model", self.model, "--device", "cpu", "--text", "hello world", "--threads", 1)
        self.assertEqual(len(done.stdout.split()), 8)  # the model runs all the same

    def test_what_lies_in_the_cache_and_is_no_file(self):
        self.tune()
        [file] = self.plans()
        file.unlink()
        file.mkdir()
        os.mkfifo(file.with_name("0" * 32 + ".plan"))  # nobody writes: who opened it would wait
        listed = self.stof("plans", "list").stdout.splitlines()
        self.assertEqual([line.rsplit("  ", 1)[1] for line in listed[-2:]], ["cannot be read; accepted: a regular file of at most 1048576 bytes"] * 2)
        self.stof("run", "--model", self.model, "--device", "cpu", "--text", "hello world", "--threads", 1)

    def test_a_pipe_in_place_of_the_log(self):
        """Lines would vanish in it; that is said, and the plan is kept all the same."""
        self.tune()
        [log] = (self.cache / "stof/plans").glob("*.times")
        log.unlink()
        os.mkfifo(log)
        done = self.stof("tune", "--model", self.model, "--device", "cpu", "--seq", 8, "--threads", 1)
        self.assertIn(f"stof: times: cannot write '{log}': it is no regular file; accepted: a regular file; what is "
                      "measured now is used and not kept\n", done.stderr)  # fmt: skip
        self.assertIn("kept as", done.stdout)

    def test_a_cache_that_cannot_be_written(self):
        blocked = self.folder / "file"
        blocked.write_text("x")
        tune = ("tune", "--model", self.model, "--device", "cpu", "--seq", 8, "--threads", 1)
        done = self.stof(*tune, cache=blocked, code=2)  # before anything is measured
        self.assertEqual((done.stdout, done.stderr),
                         ("", f"stof: plans cannot be kept in '{blocked}/stof/plans': Not a directory; accepted: "
                          "XDG_CACHE_HOME with a folder that can be written\n"))  # fmt: skip
        for nothing_kept in (("--no-cache",), ("--ablation", "none")):
            self.assertIn("scheme ", self.stof(*tune, *nothing_kept, cache=blocked).stdout)

    def test_a_full_disk(self):
        """No file may grow past a few hundred bytes, as on a disk that is nearly full."""

        def little_room():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # writing fails, as on a full disk
            resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))

        command = [STOF, "tune", "--model", self.model, "--device", "cpu", "--seq", "8", "--threads", "1", "--json", "-"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=self.environment(),
                              preexec_fn=little_room)  # fmt: skip
        if done.stderr.startswith("OMP: Error #179"):
            self.skipTest("clang's OpenMP does not start without room for a file of its own")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertFalse(json.loads(done.stdout)["search"]["kept"])
        self.assertIn("; what is measured from now on is used and not kept", done.stderr)
        self.assertIn("; the plan is not kept", done.stderr)
        self.assertTrue(done.stderr.endswith(f"\nstof: the plan could not be kept in '{self.cache}/stof/plans', so no session "
                                             "will use it\n"), done.stderr)  # fmt: skip
        self.assertEqual(self.plans(), [])
        rest = self.tune()  # with room again
        self.assertGreater(rest["search"]["remembered"], 0)
        self.assertTrue(rest["search"]["kept"])

    def test_a_folder_that_may_only_be_read(self):
        self.tune()
        folder = self.cache / "stof/plans"
        for file in folder.iterdir():
            file.chmod(0o444)
        folder.chmod(0o555)
        self.addCleanup(folder.chmod, 0o755)
        if os.access(folder, os.W_OK):
            self.skipTest("this user may write everywhere")
        done = self.stof("tune", "--model", self.model, "--device", "cpu", "--seq", 8, "--threads", 1, code=2)
        self.assertIn(f"stof: plans cannot be kept in '{folder}': Permission denied; ", done.stderr)

    def test_a_dtype_without_matmuls_is_refused_before_anything_is_measured(self):
        done = self.stof("tune", "--random", "gpt2", "--device", "cpu", "--dtype", "f16", code=3)
        self.assertEqual(done.stderr, "stof: no matmul in f16 on the CPU; accepted: f32, bf16\n")
        self.assertEqual(list(self.cache.rglob("*.times")), [])

    def test_prompts_are_of_decoders_on_a_gpu(self):
        for model, message in (("gpt2", "prompts on cpu run by the default plan; accepted to tune them for: a GPU"),
                               ("bert-base", "prompts of BertModel, which does not generate; accepted: a decoder that is causal")):  # fmt: skip
            done = self.stof("tune", "--random", model, "--device", "cpu", "--prompts", code=3 if model == "bert-base" else 2)
            self.assertEqual(done.stderr, f"stof: {message}\n")

    def test_no_gpu(self):
        done = subprocess.run([STOF, "tune", "--random", "gpt2", "--device", "cuda:h200"], capture_output=True, text=True,
                              timeout=120, check=False, env=self.environment())  # fmt: skip
        self.assertEqual((done.returncode, done.stderr),
                         (4, "stof: NVIDIA H200 (described) is a description; accepted with it: --compile\n"))  # fmt: skip

    def test_killed_in_the_middle_it_goes_on(self):
        command = [STOF, "tune", "--model", self.model, "--device", "cpu", "--seq", "8", "--threads", "1"]
        with subprocess.Popen(command, env=self.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            times = self.cache / "stof/plans"
            for _ in range(2000):
                if any(file.stat().st_size > 300 for file in times.glob("*.times")):
                    break
                time.sleep(0.005)
            process.send_signal(signal.SIGKILL)
        self.assertTrue(all(file.suffix == ".times" or file.suffix == ".plan" for file in times.iterdir()))
        rest = self.tune()
        self.assertGreater(rest["search"]["remembered"], 0)
        self.assertTrue(rest["search"]["finished"])

    def test_two_at_once(self):
        command = [STOF, "tune", "--model", self.model, "--device", "cpu", "--seq", "8", "--threads", "1"]
        both = [subprocess.Popen(command, env=self.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
                for _ in range(2)]  # fmt: skip
        for process in both:
            _, errors = process.communicate(timeout=120)
            self.assertEqual(process.returncode, 0, errors)
        self.assertIn("good", self.stof("plans", "verify").stdout)
        self.assertEqual(len(self.plans()), 1)

    def test_a_call_that_no_memory_holds(self):
        """Refused before any memory is taken: weights would fit, of which positions are 4 KB a token, and activations not."""
        tune = ("tune", "--random", "bert-large", "--device", "cpu", "--no-cache", "--seq")
        limit = int(re.search(r"at most (\d+), the memory of this machine", self.stof(*tune, 2**29, code=4).stderr)[1])
        tokens = limit // 2**14
        done = self.stof(*tune, tokens, code=4)
        self.assertRegex(done.stderr, rf"^stof: 1 text of {tokens} tokens, with activations and weights: [\d.]+e\+\d\d bytes; "
                                      rf"accepted: at most {limit}, the memory of this machine\n$")  # fmt: skip

    def test_a_call_of_more_tokens_than_are_counted(self):
        for batch in (2**28, 10**18):
            done = self.stof("tune", "--model", self.model, "--seq", 8, "--batch", batch, "--device", "cpu", code=2)
            self.assertEqual(done.stderr, f"stof: {batch} texts of 8 tokens; accepted: at most {2**30} tokens together\n")

    def test_errors(self):
        empty = self.folder / "empty"
        empty.touch()
        for arguments, code, message in (
            (("tune", "--model", self.model, "--seq", 33, "--device", "cpu"), 2,
             "1 text of 33 tokens; accepted: 1 or more, of 1 to 32 tokens"),
            (("tune", "--random", "bert-base", "--seq", 0), 2, "--seq 0; accepted: 1 or more"),
            (("plans", "import", self.folder), 2, f"cannot read {self.folder}: it is a folder; accepted: a regular file"),
            (("plans", "import", "/dev/zero"), 2, "cannot read /dev/zero: it is a device; accepted: a regular file"),
            (("plans", "import", empty), 2, f"{empty}: empty; accepted: JSON"),
            (("plans", "import", self.folder / "none"), 2, f"cannot read {self.folder}/none: No such file or directory"),
            (("tune", "--random", "llama"), 2, "random model 'llama'; accepted: bert-base, bert-large, gpt2, "
             "modernbert-base, modernbert-large, longformer-base, mpnet-base, nomic-base, eurobert-210m, t5-base, llama-3.2-1b, qwen3-0.6b"),
            (("tune", "--model", self.model, "--seed", -1), 2, "--seed -1; accepted: 0 or more"),
            *((("tune", "--model", self.model, "--budget", time), 2,
               f"--budget {time}; accepted: a time as in 30s or 2m, at most 10080m")
              for time in ("30", "1h", "infs", "nans", "0s", "-1s", "1e9s", "10081m", "99999999999999999999m")),
            (("tune", "--model", self.model, "--seq", 8, "--device", "cpu", "--mask", "where(b == 0)"), 2,
             "mask where(b == 0): it depends on the batch index; accepted: masks that are the same for every text, since texts "
             "are regrouped"),
            (("tune", "--model", self.model, "--ablation", "all"), 2,
             "--ablation all; accepted: both, attention, fusion, none"),
            *((("tune", "--model", self.model, "--scheme", "0", "--ablation", ablation), 2,
               f"--scheme with --ablation {ablation}, where nothing is fused; accepted with it: both, fusion")
              for ablation in ("none", "attention")),
            (("tune", "--model", self.model, "--compile", "--budget", "1s"), 2,
             "--budget excludes --compile; --help lists what is accepted"),
            *((("tune", "--model", self.model, "--compile", option), 2, f"--compile excludes {option}; --help lists what is accepted")
              for option in ("--explain", "--no-cache", "--again")),
            (("tune", "--model", self.model, "--again", "--no-cache"), 2, "--no-cache excludes --again; --help lists what is accepted"),
            (("plans", "show", "zz"), 2,
             f"0 plans in '{self.cache}/stof/plans' begin with 'zz'; accepted: one ('stof plans list' names them)"),
        ):  # fmt: skip
            with self.subTest(message):
                self.assertEqual(self.stof(*arguments, code=code).stderr.splitlines()[-1], f"stof: {message}")


class TuneWithoutCompiler(unittest.TestCase):
    """On a GPU, where NVRTC cannot be found."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.environment = dict(os.environ, XDG_CACHE_HOME=str(self.folder / "cache"), LD_LIBRARY_PATH=self.without_nvrtc())
        found = json.loads(self.stof("doctor", "--json", "-"))["gpu"]
        if not found["devices"] or not found["cublaslt"]:
            self.skipTest("no GPU with cuBLASLt on this machine")
        if found["nvrtc"]:
            self.skipTest("NVRTC is found here though LD_LIBRARY_PATH does not name it")

    def without_nvrtc(self):
        """The folders of LD_LIBRARY_PATH, those with NVRTC replaced by links to all else in them."""
        folders = []
        for number, folder in enumerate(filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":"))):
            if list(Path(folder).glob("libnvrtc*")):
                links = self.folder / str(number)
                links.mkdir()
                for file in Path(folder).iterdir():
                    if not file.name.startswith("libnvrtc"):
                        (links / file.name).symlink_to(file.resolve())
                folder = links
            folders.append(str(folder))
        return ":".join(folders)

    def stof(self, *arguments):
        done = subprocess.run([STOF, *arguments], capture_output=True, text=True, timeout=300, check=False, env=self.environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_a_plan_is_made_of_what_is_built_in(self):
        plan = json.loads(self.stof("tune", "--random", "bert-base", "--device", "cuda", "--dtype", "f16", "--batch", "1",
                                    "--seq", "128", "--json", "-"))  # fmt: skip
        self.assertEqual(plan["search"]["compiled"], 0)
        self.assertTrue(plan["search"]["kept"] and plan["search"]["finished"])
        self.assertGreater(plan["search"]["measured"], 3)
        self.assertEqual(list((self.folder / "cache/stof/kernels").glob("*")), [])
        refused = subprocess.run([STOF, "tune", "--compile", "--random", "bert-base", "--device", "cuda"], capture_output=True,
                                 text=True, timeout=60, check=False, env=self.environment)  # fmt: skip
        self.assertEqual(refused.returncode, 3)
        self.assertEqual(refused.stderr, "stof: nothing can be compiled here: NVRTC (libnvrtc.so.13 or .12) is missing\n")


if __name__ == "__main__":
    unittest.main()
