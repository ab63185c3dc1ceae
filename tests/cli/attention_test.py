#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""stof attention from the outside, against the definition in plain Python.

usage: attention_test.py STOF
"""

import json
import math
import os
import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import npy

STOF = sys.argv.pop(1)
B, H, KV, N, M, D = 2, 4, 2, 7, 9, 5


def allowed(mask, p, j):
    return {"all": True, "causal": j <= p, "window(2)": abs(p - j) <= 2, "none": False}[mask]


def definition(inputs, mask, scale, lengths, softcap=None, bias=None):
    """out[b][h][row] and lse[b][h][row]; rows past the length are 0 and -inf."""
    q, k, v = inputs
    out, lse = {}, {}
    for b in range(B):
        n, m = lengths[b]
        for h in range(H):
            for row in range(N):
                keys = [j for j in range(m) if row < n and allowed(mask, row + m - n, j)]
                scores = [scale * sum(x * y for x, y in zip(q[b, h, row], k[b, h * KV // H, j])) for j in keys]
                if softcap:
                    scores = [softcap * math.tanh(score / softcap) for score in scores]
                if bias:
                    reach = len(bias[h]) // 2
                    behind = [max(-reach, min(reach, j - (row + m - n))) for j in keys]
                    scores = [score + bias[h][reach + d] for score, d in zip(scores, behind)]
                total = sum(math.exp(s) for s in scores)
                weights = [math.exp(s) / total for s in scores]
                out[b, h, row] = [sum(w * v[b, h * KV // H, j][c] for w, j in zip(weights, keys)) for c in range(D)]
                lse[b, h, row] = math.log(total) if keys else -math.inf
    return out, lse


class Attention(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        rng = random.Random(5)
        self.inputs = [
            {(b, h, i): [rng.gauss(0, 1) for _ in range(D)] for b in range(B) for h in range(heads) for i in range(rows)}
            for heads, rows in ((H, N), (KV, M), (KV, M))
        ]

    def save(self, name, tensor, layout="bhsd", descr="<f4"):
        heads, rows = (max(key[axis] for key in tensor) + 1 for axis in (1, 2))
        if layout == "bhsd":
            shape, order = (B, heads, rows, D), [(b, h, i) for b in range(B) for h in range(heads) for i in range(rows)]
        else:
            shape, order = (B, rows, heads, D), [(b, h, i) for b in range(B) for i in range(rows) for h in range(heads)]
        values = [x for key in order for x in tensor[key]]
        return npy.write(self.folder / name, shape, values, descr)

    def run_stof(self, *arguments, layout="bhsd", descr="<f4"):
        self.out, self.lse = str(self.folder / "out.npy"), str(self.folder / "lse.npy")
        usual = {f"--{name}": self.save(f"{name}.npy", tensor, layout, descr) for name, tensor in zip("qkv", self.inputs)}
        usual |= {"--layout": layout, "--out": self.out, "--lse": self.lse}
        given = [part for flag, value in usual.items() if flag not in arguments for part in (flag, value)]
        command = [STOF, "attention", *given, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    def check(self, mask="all", scale=1 / math.sqrt(D), lengths=((N, M),) * B, layout="bhsd", tolerance=1e-5, dtype="<f4",
              softcap=None, bias=None):
        expected, logs = definition(self.inputs, mask, scale, lengths, softcap, bias)
        shape, descr, values = npy.read(self.out)
        self.assertEqual((shape, descr), ((B, H, N, D) if layout == "bhsd" else (B, N, H, D), dtype))
        for (b, h, row), vector in expected.items():
            at = (b * H + h) * N + row if layout == "bhsd" else (b * N + row) * H + h
            for c in range(D):
                self.assertAlmostEqual(values[at * D + c], vector[c], delta=tolerance)
        shape, descr, values = npy.read(self.lse)
        self.assertEqual((shape, descr), ((B, H, N), "<f4"))
        for (b, h, row), value in logs.items():
            got = values[(b * H + h) * N + row]
            self.assertTrue(got == value or abs(got - value) < tolerance, (got, value))

    def ok(self, *arguments, **kinds):
        done = self.run_stof(*arguments, **kinds)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_masks(self):
        for mask in ("all", "causal", "window(2)", "none"):
            self.ok("--mask", mask)
            self.check(mask)

    def test_json_has_the_plan_and_the_times(self):
        done = self.run_stof("--mask", "causal", "--kernel", "row_attention", "--json", "-")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.check("causal")
        found = json.loads(done.stdout)
        self.assertEqual([found[key] for key in ("mask", "dtype", "batch", "heads", "queries", "keys", "head_dim", "kernel")],
                         ["causal", "f32", B, H, N, M, D, "row_attention"])  # fmt: skip
        self.assertTrue(found["plan_us"] > 0 and found["run_us"] > 0 and found["predicted_us"] > 0, found)
        same = self.run_stof("--json", self.out)
        self.assertEqual(same.returncode, 2, same.stderr)

    def test_every_kernel(self):
        for kernel in ("auto", "block_attention", "row_attention"):
            self.ok("--mask", "causal", "--kernel", kernel)
            self.check("causal")

    def test_layout_and_scale(self):
        self.ok("--mask", "causal", "--scale", "0.3", layout="bshd")
        self.check("causal", scale=0.3, layout="bshd")

    def test_softcap(self):
        self.ok("--mask", "causal", "--softcap", "0.5")
        self.check("causal", softcap=0.5)

    def test_relative_bias(self):
        bias = [[(37 * h + 11 * i) % 17 / 4 for i in range(7)] for h in range(H)]
        file = npy.write(self.folder / "bias.npy", (H, 7), [x for row in bias for x in row], "<f4")
        for kernel in ("block_attention", "row_attention"):
            self.ok("--mask", "causal", "--relative-bias", file, "--kernel", kernel)
            self.check("causal", bias=bias)
        self.ok("--mask", "causal", "--relative-bias", file, "--softcap", "0.5")
        self.check("causal", softcap=0.5, bias=bias)

    def test_a_relative_bias_of_another_shape_is_refused(self):
        even = npy.write(self.folder / "even.npy", (H, 6), [0.0] * (6 * H), "<f4")
        self.refused(2, f"'even.npy' is f32 [{H}, 6]; accepted: f32 [{H}, W] with an odd W, for {H} heads", "--relative-bias", even)

    def test_lengths_for_queries_and_keys(self):
        lengths = npy.write(self.folder / "lengths.npy", (B, 2), (3, 4, 7, 9), "<i8")
        self.ok("--mask", "causal", "--lengths", lengths)
        self.check("causal", lengths=((3, 4), (7, 9)))

    def test_one_length_for_both(self):
        lengths = npy.write(self.folder / "lengths.npy", (B,), (3, 0), "<i4")
        self.ok("--mask", "window(2)", "--lengths", lengths)
        self.check("window(2)", lengths=((3, 3), (0, 0)))

    def test_nan_past_the_lengths_is_never_seen(self):
        for tensor in self.inputs:
            for key in tensor:
                if key[0] == 0 and key[2] >= 3:
                    tensor[key] = [math.nan] * D
        lengths = npy.write(self.folder / "lengths.npy", (B,), (3, 7), "<i4")
        self.ok("--mask", "causal", "--lengths", lengths)
        for key in self.inputs[1]:
            self.inputs[1][key] = [0 if math.isnan(x) else x for x in self.inputs[1][key]]
            self.inputs[2][key] = [0 if math.isnan(x) else x for x in self.inputs[2][key]]
        self.check("causal", lengths=((3, 3), (7, 7)))

    def test_half_in_half_out(self):
        self.ok(descr="<f2")
        self.check(tolerance=1e-2, dtype="<f2")

    def test_bf16_writes_f4(self):
        self.ok("--dtype", "bf16")
        self.check(tolerance=5e-2)

    def refused(self, code, message, *arguments, **kinds):
        done = self.run_stof(*arguments, **kinds)
        self.assertEqual((done.returncode, done.stderr.replace(str(self.folder) + "/", "")), (code, f"stof: {message}\n"))
        self.assertFalse(Path(self.out).exists())

    def test_nan_is_refused_by_name_and_place(self):
        self.inputs[1][1, 0, 2][3] = math.nan
        self.refused(2, "'k.npy' holds NaN at [1, 0, 2, 3]; --allow-nan computes with it")
        self.refused(2, "'k.npy' holds NaN at [1, 2, 0, 3]; --allow-nan computes with it", layout="bshd")
        self.assertEqual(self.run_stof("--allow-nan", "--mask", "window(2)").returncode, 0)
        values = npy.read(self.out)[2]
        seen = {at // D % N for at, value in enumerate(values) if math.isnan(value) and at // D // N // H == 1}
        self.assertEqual(seen, {row for row in range(N) if abs(row + M - N - 2) <= 2})
        self.assertFalse(any(math.isnan(value) for value in values[: H * N * D]))

    def test_infinities_are_refused_by_name_and_place(self):
        for value, name in ((math.inf, "inf"), (-math.inf, "-inf")):
            self.inputs[1][1, 0, 2][3] = value
            self.refused(2, f"'k.npy' holds {name} at [1, 0, 2, 3]; --allow-nan computes with it")
        self.assertEqual(self.run_stof("--allow-nan").returncode, 0)

    def test_numbers_that_the_dtype_has_no_room_for(self):
        self.inputs[2][1, 0, 2][3] = -1e6
        self.refused(2, "'v.npy' holds -1000000 at [1, 0, 2, 3], infinite in f16; --allow-nan computes with it", "--dtype", "f16")
        self.refused(2, "'v.npy' holds -1000000 at [1, 2, 0, 3], infinite in f16; --allow-nan computes with it", "--dtype", "f16",
                     layout="bshd")  # fmt: skip
        for arguments in (("--dtype", "f16", "--allow-nan"), ("--dtype", "bf16"), ("--dtype", "f32"), ()):
            self.assertEqual(self.run_stof(*arguments).returncode, 0, arguments)
        Path(self.out).unlink()
        for value, dtype in ((65520, "f16"), (3.4e38, "bf16")):
            self.inputs[2][1, 0, 2][3] = value
            self.assertIn(f"infinite in {dtype}; ", self.run_stof("--dtype", dtype).stderr)
        for value, dtype in ((65519, "f16"), (3.39e38, "bf16")):
            self.inputs[2][1, 0, 2][3] = value
            self.assertEqual(self.run_stof("--dtype", dtype).returncode, 0)

    def test_bad_arguments(self):
        self.refused(2, "unknown layout 'sbhd'; accepted: bhsd, bshd", "--layout", "sbhd")
        self.refused(
            2, "unknown attention kernel 'sharp'; accepted: auto, block_attention, row_attention", "--kernel", "sharp"
        )
        self.refused(2, "--dtype f8; accepted: f32, f16, bf16", "--dtype", "f8")
        self.refused(2, "--dtype i32; accepted: f32, f16, bf16", "--dtype", "i32")
        self.refused(2, "attention: scale = nan; accepted: -1e18..1e18", "--scale", "nan")
        self.refused(2, "attention: softcap = 0; accepted: 1e-18..1e18", "--softcap", "0")
        self.refused(2, "unknown device 'tpu'; accepted: auto, cpu, cuda, cuda:N; to plan for: cuda:h200, cuda:h100, cuda:a100", "--device", "tpu")

    def test_bad_outputs(self):
        out = str(self.folder / "out.npy")
        self.refused(2, "--out and --lse both write 'out.npy'", "--lse", out)
        self.refused(2, "--lse -; accepted: the name of a file", "--lse", "-")
        self.refused(2, "--lse: the value is empty; --help lists what is accepted", "--lse", "")
        self.refused(2, "cannot write 'none/lse.npy': No such file or directory", "--lse", f"{self.folder}/none/lse.npy")

    def test_more_than_the_memory_is_refused_before_it_is_read(self):
        files = {}
        for name in "qkv":
            files[name] = self.folder / f"{name}.npy"
            npy.write(files[name], (1, 8, 0, 64), [])
            raw = files[name].read_bytes().replace(b"(1, 8, 0, 64)}" + 9 * b" ", b"(1, 8, 1000000000, 64)}")
            self.assertIn(b"1000000000", raw)
            files[name].write_bytes(raw)
            os.truncate(files[name], len(raw) + 4 * 8 * 10**9 * 64)  # sparse: takes no room
        done = subprocess.run([STOF, "attention", *(x for name in "qkv" for x in (f"--{name}", files[name])),
                               "--out", self.folder / "out.npy"], capture_output=True, text=True, check=False)  # fmt: skip
        self.assertEqual((done.returncode, done.stdout), (4, ""))
        self.assertRegex(done.stderr, r"^stof: the inputs and the result take 7629\.4 GiB; accepted: at most [0-9.]+ GiB, "
                                      r"the memory of this machine\n$")  # fmt: skip
        self.assertFalse((self.folder / "out.npy").exists())

    def test_bad_lengths(self):
        path = self.folder / "lengths.npy"
        self.refused(2, "'lengths.npy' has shape [3]; accepted: [2] or [2, 2]", "--lengths",
                     npy.write(path, (3,), (1, 1, 1), "<i4"))  # fmt: skip
        self.refused(2, "'lengths.npy': the length of item 1 is 8; accepted: 0..7", "--lengths",
                     npy.write(path, (2,), (1, 8), "<i4"))  # fmt: skip
        self.refused(2, "'lengths.npy' holds f32; accepted: i4, i8", "--lengths",
                     npy.write(path, (2,), (1, 8), "<f4"))  # fmt: skip

    def test_inputs_that_are_no_file_of_an_array(self):
        (self.folder / "empty").touch()
        os.mkfifo(self.folder / "pipe")
        for option in ("--q", "--k", "--v", "--lengths", "--relative-bias"):
            for file, why in (
                ("/dev/null", "it is a device; accepted: a regular .npy file"), (self.folder / "pipe", "it is a pipe; accepted: a regular .npy file"),
                (self.folder / "", "it is a folder; accepted: a regular .npy file"), (self.folder / "none", "No such file or directory"),
                (self.folder / "empty", "it is empty; accepted: an .npy file, as numpy.save writes it"),
            ):  # fmt: skip
                self.refused(2, f"cannot read '{file}': {why}".replace(str(self.folder) + "/", ""), option, str(file))

    def test_bad_shapes(self):
        bad = npy.write(self.folder / "flat.npy", (4,), (1, 2, 3, 4))
        self.refused(2, "'flat.npy' has shape [4]; accepted: [batch, heads, sequence, head_dim]", "--q", bad)
        for shape in ((0, 4, 7, 16), (2, 0, 7, 16), (2, 4, 7, 0)):
            empty = npy.write(self.folder / "empty.npy", shape, ())
            for options in (("--q", empty), ("--k", empty, "--v", empty)):
                self.refused(2, f"'empty.npy' has shape {list(shape)}; accepted: an item, a head and a head dimension of 1 or more",
                             *options)  # fmt: skip


if __name__ == "__main__":
    unittest.main()
