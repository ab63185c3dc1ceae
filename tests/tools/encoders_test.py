#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/peers/encoders.py: which rows there are, and that a file is gone on with; side_by_side.py: who compiles beside others has
its turn, and who fails or is late leaves them theirs. Checkpoints and errors are looked at where there is torch with transformers."""

import contextlib
import io
import sys
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench/peers"))
try:
    import torch
    import transformers  # noqa: F401
except ImportError:
    torch = None
STANDING_IN = {name: mock.MagicMock() for name in ("numpy", "timing", "torch", "torch.nn.functional", "torch.nn.attention", "turns",
                                                    "torch.nn.attention.flex_attention", "transformers")}  # fmt: skip
STANDING_IN["torch"].inference_mode = lambda: lambda function: function
STANDING_IN["torch"].nn = STANDING_IN["torch.nn"] = mock.MagicMock(Module=object)
with mock.patch.dict(sys.modules, {"stof": mock.MagicMock(), **({} if torch else STANDING_IN)}):
    import encoders
    import side_by_side

# What a contender's process does, by what comes behind its being ready.
READY = "print('a library speaks'); print('ready', flush=True); said = input(); "


def options_of(*arguments):
    return encoders.parser().parse_args(["out.json", *arguments])


class Rows(unittest.TestCase):
    def test_every_size_in_the_usual_type_and_some_in_the_other(self):
        keys = encoders.keys_of(options_of())
        self.assertEqual(len({encoders.id_of(key) for key in keys}), len(keys))
        for model, usual in (("mpnet-base", "f16"), ("t5-base", "bf16"), ("t5-v1.1-base", "bf16"), ("nomic-base", "f16"),
                             ("eurobert-210m", "bf16")):  # fmt: skip
            sizes = [(key["texts"], key["longest"], key["dtype"] == usual) for key in keys if key["model"] == model]
            self.assertEqual(sizes, [(1, 128, True), (8, 512, True), (32, 128, True), (8, 512, False)])

    def test_the_cpu_has_no_f16(self):
        keys = encoders.keys_of(options_of("--device", "cpu"))
        self.assertEqual((len(keys), {key["dtype"] for key in keys}), (15, {"bf16"}))

    def compared(self, has):
        """Which rows got a process, and which models a checkpoint."""
        options = options_of("--models", "mpnet-base", "t5-base", "--sizes", "1,128", "--other-dtype", "--without", "stof")
        results = mock.MagicMock(**{"has.side_effect": has})
        with mock.patch.object(encoders, "Contender") as made, mock.patch.object(encoders, "checkpoint") as checkpoint, \
                mock.patch.object(encoders, "in_turn", lambda contenders, _: [(key, {"peers": {}}) for key in contenders]):
            made.side_effect = lambda key, command: key
            encoders.compare(options, results, Path("F"))
        ids = [call.args[0]["id"] for call in results.add.call_args_list]
        return ids, [call.args[1] for call in checkpoint.call_args_list], made.call_args_list

    def test_rows_that_a_file_has_are_not_measured(self):
        ids, checkpoints, _ = self.compared(lambda name: name.startswith("mpnet"))
        self.assertEqual((ids, checkpoints), (["t5-base bf16 (1, 128)"], ["t5-base"]))

    def test_a_row_is_given_to_its_process_as_it_is(self):
        _, _, made = self.compared(lambda _: False)
        key, command = made[0].args
        one = encoders.parser().parse_args(list(map(str, command[1:])))
        self.assertEqual((encoders.json.loads(one.one), one.folder, one.without), (key, "F/mpnet-base", ["stof"]))


@unittest.skipUnless(torch, "needs torch and transformers")
class SmallCheckpoints(unittest.TestCase):
    def test_those_of_every_family_are_read_again(self):
        for name, (family, *_) in encoders.MODELS.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as folder, torch.inference_mode():
                encoders.checkpoint(Path(folder), name, small=True)
                model = encoders.loaded(folder, family, torch.float32)
                encoder = encoders.vectors.Transformers(model, [[5, 6, 7]], types.SimpleNamespace(device="cpu"))
                self.assertEqual(encoder.vectors().shape, (1, 64))


class SideBySide(unittest.TestCase):
    def found(self, *programs, seconds=30):
        contenders = [side_by_side.Contender({"number": i}, ["-c", program]) for i, program in enumerate(programs)]
        with contextlib.redirect_stdout(io.StringIO()) as said:
            found = [(key["number"], what) for key, what in side_by_side.in_turn(contenders, seconds)]
        for one in contenders:
            one.process.wait()
            one.reader.join()
            one.process.stdin.close()
            one.process.stdout.close()
        return found, said.getvalue()

    def test_each_has_its_turn(self):
        found, _ = self.found(READY + "print('{\"said\": \"' + said + '\"}')", "print('{\"failed\": \"early\"}')", READY + "raise SystemExit(3)")
        self.assertEqual(found, [(0, {"said": "go"}), (1, {"failed": "early"}), (2, {"failed": "ended with status 3"})])

    def test_who_is_late_is_left_out(self):
        found, said = self.found("import time; time.sleep(60)", "print('{\"a\": 1}')", seconds=3)
        self.assertEqual(found, [(1, {"a": 1})])
        self.assertIn("{'number': 0}: not compiled after 3 s", said)


@unittest.skipUnless(torch, "needs torch and transformers")
class Checkpoints(unittest.TestCase):
    def test_a_wrong_bias_is_no_output_that_may_be_timed(self):
        """In bf16, whose bound is the wider one; of fewer layers than are timed, but as wide."""
        parts = encoders
        fewer = {"mpnet": {"num_hidden_layers": 4, "vocab_size": 1000}, "t5": {"num_layers": 4, "vocab_size": 1000}}
        for name, (family, *_) in ((name, what) for name, what in parts.MODELS.items() if what[0] in fewer):
            with tempfile.TemporaryDirectory() as folder, torch.inference_mode(), mock.patch.object(parts, "SMALL", fewer):
                parts.checkpoint(Path(folder), name, small=True)
                self.assertTrue((Path(folder) / "tokenizer.json").exists())
                model = parts.loaded(folder, family, torch.float32)
                encoder = parts.vectors.Transformers(model, torch.arange(5, 205)[None].tolist(), types.SimpleNamespace(device="cpu"))
                want = encoder.hidden()
                self.assertEqual(parts.models.check(encoder.hidden(), want, "cpu", 10 * parts.models.BOUND)["error"], 0)
                [table] = [values for parameter, values in model.named_parameters() if "relative_attention_bias" in parameter]
                right = table.clone()
                for what, wrong in (("none", torch.zeros_like(right)), ("sides swapped", right.roll(16, 0)), ("next bucket", right.roll(1, 0))):
                    with self.subTest(name, wrong=what), self.assertRaises(parts.models.timing.WrongOutput):
                        table.copy_(wrong)
                        parts.models.check(encoder.hidden(), want, "cpu", 10 * parts.models.BOUND)


if __name__ == "__main__":
    unittest.main()
