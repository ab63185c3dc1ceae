#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/peers/generate.py: texts are as long as asked for, tokens are compared before times count, contenders take turns, one that is
far behind or wrong leaves them to the others, and the table tells the first token from those behind it."""

import json
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "bench"), str(ROOT / "bench/peers")]
import continuations  # noqa: E402
import decoders  # noqa: E402
import generate  # noqa: E402
from continuations import Continued  # noqa: E402
from report_tables import table_of  # noqa: E402

CASE = (2, 64, "f32")
PROGRAM = """#!/usr/bin/env python3
import json, sys
at = lambda name: sys.argv[sys.argv.index(name) + 1]
if at("--dtype") == "f16":
    sys.exit("stof: loading\\nstof: error: --dtype f16")
texts = open(at("--input")).read().splitlines()
made = [{"text": "", "ids": [len(text)] * int(at("--tokens"))} for text in texts]
between = [{"seconds": 7.0, "first_seconds": 2.5}] * (int(at("--passes")) - 2)
passes = [{"seconds": 14.0, "first_seconds": 3.0}, *between, {"seconds": 5.0, "first_seconds": 2.0}]
json.dump({**passes[-1], "passes": passes, "texts": made, "given": sys.argv}, open(at("--json"), "w"))
"""


def words(text):
    return len(text.split())


class Prompts(unittest.TestCase):
    def test_are_the_beginnings_of_texts_with_so_many_tokens(self):
        self.assertEqual(decoders.beginning_of("one two three four", 2, words), "one t")
        self.assertEqual(decoders.prompts_of(["a b c", "d e", "f"], 2, 3, words), ["a b c", "d e f"])

    def test_do_not_end_in_a_space_and_not_behind_the_text(self):
        self.assertIsNone(decoders.beginning_of("ab c", 3, len))
        self.assertIsNone(decoders.beginning_of("one two", 3, words))

    def test_a_character_of_several_tokens_may_leave_none(self):
        self.assertIsNone(decoders.beginning_of("\u00e4b", 1, lambda text: len(text.encode())))

    def test_too_few_are_refused(self):
        with self.assertRaisesRegex(SystemExit, "^1 texts of 2 tokens in 1 sentences; wanted: 2$"):
            decoders.prompts_of(["a b"], 2, 2, words)

    def test_a_folder_with_another_model_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "model.safetensors").touch()
            (Path(folder) / "config.json").write_text(json.dumps(decoders.SIZES["small"]))
            self.assertEqual(decoders.random_decoder(Path(folder), "small"), Path(folder))
            with self.assertRaisesRegex(SystemExit, "vocab_size 1000; Qwen3-0.6B has 151936; accepted: "):
                decoders.random_decoder(Path(folder), "Qwen3-0.6B")


class Program(unittest.TestCase):
    def setUp(self):
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "stof").write_text(PROGRAM)
        (folder / "stof").chmod(0o755)
        self.stof = continuations.Stof(folder / "stof", folder, "cpu", 2)

    def test_goes_on_behind_all_texts_together(self):
        done = self.stof.go_on(["ab", "abc"], 4, "bf16")
        ids = [[2] * 4, [3] * 4]
        self.assertEqual(done, Continued(ids, 2.0, 5.0, Continued(ids, 3.0, 14.0)))
        self.assertEqual((done.each_s, done.cold.each_s), (1.0, 11.0 / 3))

    def test_first_calls_of_processes_are_summed_up_beside_those_behind_them(self):
        runs = [self.stof.go_on(["ab"], 4, "f32") for _ in range(3)]
        found = continuations.summed_up(runs)
        self.assertEqual((found["first"]["median_us"], found["cold"]["first"]["median_us"], found["cold"]["calls"]), (2e6, 3e6, 3))
        self.assertNotIn("cold", found["cold"])
        self.assertNotIn("cold", continuations.summed_up([Continued([[1]], 1.0, 1.0)]))

    def test_its_last_words_are_the_reason_of_a_failure(self):
        with self.assertRaisesRegex(RuntimeError, "^stof: error: --dtype f16$"):
            self.stof.go_on(["ab"], 4, "f16")


class Checks(unittest.TestCase):
    def checked(self, made, expected, dtype, gap=0.0):
        return continuations.checked(made, expected, dtype, lambda made: gap)

    def test_the_same_tokens_need_no_scores(self):
        self.assertEqual(continuations.checked([[1, 2]], [[1, 2]], "f32", None), {"same_tokens": [2]})

    def test_other_texts_are_said_from_where_they_differ(self):
        made, expected = [[1, 2, 3, 4], [1, 9, 3, 4]], [[1, 2, 3, 4], [1, 2, 3, 4]]
        self.assertEqual(self.checked(made, expected, "bf16", 0.1), {"same_tokens": [4, 1], "gap": 0.1})
        with self.assertRaisesRegex(ValueError, "the same tokens for 0.62 of the texts"):
            self.checked(made, expected, "f32")

    def test_unlikely_tokens_and_ended_texts_are_wrong(self):
        for dtype in ("f32", "bf16"):
            for gap in (2.0, float("nan")):
                with self.assertRaisesRegex(ValueError, "a token is .* standard deviations below the likeliest"):
                    self.checked([[1] * 39 + [2]], [[1] * 40], dtype, gap)
        with self.assertRaisesRegex(ValueError, r"\[1\] tokens, not \[2\]"):
            self.checked([[1]], [[1, 2]], "bf16")


class Turns(unittest.TestCase):
    def setUp(self):
        self.order = []
        self.enterContext(mock.patch.object(generate, "time", mock.Mock()))

    def contender(self, name, seconds, ids=((1, 2, 3), (4, 5, 6)), fails=False):
        def run():
            self.order.append(name)
            if fails:
                raise RuntimeError("no memory")
            return Continued([list(text) for text in ids], 0.25 * seconds, seconds)

        return run

    def measured(self, rounds=3, **contenders):
        named = {"compiled": generate.COMPILED, "transformers": generate.EAGER}
        line = generate.Line(CASE, {named.get(name, name): run for name, run in contenders.items()}, lambda made: 9.0)
        return line.measure(rounds)

    def test_every_second_round_is_backwards_behind_calls_that_are_not_counted(self):
        row = self.measured(2, stof=self.contender("s", 1), transformers=self.contender("t", 2), compiled=self.contender("c", 3))
        self.assertEqual("".join(self.order), "tcc" + "stc" + "cts")
        self.assertEqual((row["id"], row["texts"], row["prompt"], row["dtype"]), ("(2,64) f32", 2, 64, "f32"))
        stof = row["peers"]["stof"]
        self.assertEqual((stof["first"]["median_us"], stof["each"]["median_us"], stof["calls"]), (0.25e6, 0.375e6, 2))
        self.assertEqual(stof["same_tokens"], [3, 3])

    def test_one_far_behind_has_one_round(self):
        row = self.measured(3, stof=self.contender("s", 1), transformers=self.contender("t", 9))
        self.assertEqual("".join(self.order), "t" + "st" + "ss")
        self.assertEqual(row["peers"]["transformers"]["calls"], 1)

    def test_wrong_tokens_have_no_time(self):
        row = self.measured(3, stof=self.contender("s", 1, ids=((1, 2, 3), (4, 5, 7))), transformers=self.contender("t", 2))
        self.assertEqual(row["peers"]["stof"], {"failed": "ValueError: a token is 9 standard deviations below the likeliest"})
        self.assertEqual("".join(self.order), "t" + "st" + "tt")

    def test_a_failure_is_of_one_contender(self):
        row = self.measured(1, stof=self.contender("s", 1), transformers=self.contender("t", 2),
                            compiled=self.contender("c", 3, fails=True))  # fmt: skip
        self.assertEqual(row["peers"][generate.COMPILED], {"failed": "RuntimeError: no memory"})
        self.assertEqual("".join(self.order), "tcst")
        with self.assertRaisesRegex(SystemExit, r"^\(2,64\) f32: RuntimeError: no memory"):
            self.measured(1, stof=self.contender("s", 1), transformers=self.contender("t", 2, fails=True))


class Head(unittest.TestCase):
    def head(self, **given):
        arguments = mock.Mock(device="cpu", size="small", tokens=8, rounds=3, **given)
        with mock.patch.object(generate, "version", lambda name: f"{name} 1"), \
                mock.patch.object(generate, "environment", lambda threads, packages: {"commit": "tree", "packages": packages}):  # fmt: skip
            return generate.head_of(arguments, 2)

    def test_says_which_program_and_what_rows_of_one_file_have_in_common(self):
        head, same = self.head(commit=None)
        self.assertEqual(head, {"command": "peers generate cpu", "commit": "tree", "model": "small", "generated": 8, "rounds": 3,
                                "packages": {"torch": "torch 1", "transformers": "transformers 1"}})  # fmt: skip
        self.assertEqual(same, ("command", "commit", "processor", "threads", "model", "generated", "rounds"))
        self.assertEqual(self.head(commit="abc")[0]["commit"], "abc")


class Table(unittest.TestCase):
    def times(self, us, spread=0.0, calls=3):
        return {"median_us": us, "best_us": us, "most_us": us * (1 + spread), "calls": calls}

    def peer(self, first, each, calls=3, **more):
        return {**self.times(first + 63 * each, calls=calls), "first": self.times(first, 0.5, calls), "each": self.times(each, 0.1, calls), **more}

    def row(self, name, **peers):
        return {"id": name, "texts": 1, "prompt": 64, "dtype": name.split()[1], "peers": peers}

    def table(self, *rows):
        return table_of({"generated": 64, "rounds": 3, "model": "small", "rows": list(rows)})

    def test_the_first_token_and_those_behind_it_have_columns_of_their_own(self):
        head, lines, notes = self.table(
            self.row("(1,64) f32", stof=self.peer(2e5, 1e5, same_tokens=[64]), transformers=self.peer(4e5, 3e5, same_tokens=[64])),
            self.row("(1,64) bf16", stof=self.peer(1e5, 5e4, same_tokens=[3, 9], gap=0.02), transformers=self.peer(1e5, 4e5, 1, same_tokens=[64])))  # fmt: skip
        self.assertEqual({len(line) for line in lines}, {len(head)})
        self.assertEqual(head[3:6], ["first token: stof, ms", "first token: transformers, ms", "best peer / STOF"])
        self.assertEqual(lines[0], ["1", "64", "f32", "200", "400", "2.00", "100", "300", "3.00", "64"])
        self.assertEqual(lines[1][2:], ["bf16", "100", "100", "1.00", "50.0", "400", "8.00", "3 to 9"])
        self.assertEqual(notes, [
            "small's sizes, random weights; medians of 3 calls, 64 tokens behind each text",
            "first token: best peer / STOF, geometric mean 1.41, least 1.00 ((1,64) bf16)",
            "each behind it: best peer / STOF, geometric mean 4.90, least 3.00 ((1,64) f32)",
            "where its texts differ, no token of STOF's is further below the likeliest of transformers than 0.02 standard deviations "
            "of its scores ((1,64) bf16)",
            "far behind, so timed less often than 3 times: transformers (1,64) bf16",
            "stof, the slowest call less the fastest, over the median, at most: first token 50 %, each behind it 10 %",
            "transformers, the slowest call less the fastest, over the median, at most: first token 50 %, each behind it 10 %"])  # fmt: skip

    def test_first_calls_of_processes_are_beside_the_others_and_not_compared(self):
        stof = self.peer(2e5, 1e5, same_tokens=[64], cold=self.peer(9e5, 2e5))
        head, lines, notes = self.table(self.row("(1,64) f32", stof=stof, transformers=self.peer(4e5, 3e5, same_tokens=[64])))
        self.assertEqual(head[3:7], ["first token: stof, ms", "first token: stof (first call of a process), ms",
                                     "first token: transformers, ms", "best peer / STOF"])  # fmt: skip
        self.assertEqual(lines[0][3:], ["200", "900", "400", "2.00", "100", "200", "300", "3.00", "64"])
        self.assertIn("first token: best peer / STOF, geometric mean 2.00, least 2.00 ((1,64) f32)", notes)
        self.assertIn("stof (first call of a process), the slowest call less the fastest, over the median, at most: first token 50 %, "
                      "each behind it 10 %", notes)  # fmt: skip

    def test_what_is_wrong_has_no_time(self):
        _, lines, notes = self.table(self.row("(1,64) f32", stof={"failed": "ValueError: other"}, transformers=self.peer(4e5, 3e5)))
        self.assertEqual(lines[0][3:], ["", "400", "", "", "300", "", ""])
        self.assertIn("failed or wrong in so many of the 1 rows: stof 1 (ValueError: other)", notes)


if __name__ == "__main__":
    unittest.main()
