#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""stof plan from the outside: keys, choice, refusals, exit codes.

usage: plan_test.py STOF
"""

import json
import subprocess
import sys
import unittest

STOF = sys.argv.pop(1)


def stof(*arguments):
    return subprocess.run([STOF, "plan", *arguments], capture_output=True, text=True, timeout=60, check=False)


def plan(mask, shape, *arguments):
    return json.loads(stof(mask, "--shape", shape, "--device", "cpu", "--json", "-", *arguments).stdout)


class Plan(unittest.TestCase):
    def test_json_has_the_documented_keys(self):
        found = plan("causal & window(64)", "1,2,512,64")
        self.assertEqual(
            list(found),
            ["mask", "device", "plan_us", "layout", "kernel", "instance", "tiles", "splits", "predicted_us", "reason", "refusals",
             "considered"])  # fmt: skip
        self.assertEqual(list(found["tiles"]), ["block_q", "block_kv", "key_step"])
        self.assertGreater(found["predicted_us"], 0)
        self.assertEqual(found["predicted_us"], min(other["predicted_us"] for other in found["considered"]))
        self.assertTrue(all(list(refusal) == ["kernel", "reason"] for refusal in found["refusals"]))

    def test_dense_goes_by_blocks_and_decoding_by_rows(self):
        self.assertEqual(plan("all", "1,12,1024,64")["layout"], "block")
        decode = plan("causal", "1,12,1,64", "--seq-kv", "64")
        self.assertEqual((decode["layout"], decode["kernel"], decode["tiles"]), ("row", "row_attention", None))

    def test_a_kernel_can_be_forced(self):
        self.assertEqual(plan("all", "1,12,1024,64", "--kernel", "row_attention")["kernel"], "row_attention")

    def test_plans_for_a_gpu_that_is_not_there(self):
        def kernel(mask, *arguments):
            done = stof(mask, "--shape", "1,12,4096,64", "--device", "cuda:h200", "--json", "-", *arguments)
            return json.loads(done.stdout)

        self.assertEqual(kernel("causal", "--dtype", "f16")["kernel"], "stream_attention")
        self.assertEqual(kernel("window(32)", "--dtype", "bf16")["kernel"], "band_attention")
        plain = kernel("window(32)", "--dtype", "f32")
        self.assertEqual(plain["kernel"], "row_attention")
        self.assertIn({"kernel": "stream_attention", "reason": "it takes f16 and bf16, not f32"}, plain["refusals"])
        self.assertIn("NVIDIA H200", plain["device"])

    def test_text_names_what_was_decided(self):
        done = stof("window(16)", "--shape", "1,4,256,32", "--device", "cpu")
        self.assertEqual(done.returncode, 0)
        labels = [line.split()[0] for line in done.stdout.splitlines()]
        for label in ("mask", "shape", "device", "kernel", "layout", "splits", "predicted", "reason"):
            self.assertIn(label, labels)

    def test_errors(self):
        for arguments, code, message in (
            (("all", "--shape", "1,12,64,300"), 2, "attention: head_dim = 300; accepted: 1..256"),
            (("all", "--shape", "1,12,64,64", "--kv-heads", "5"), 2,
             "attention: heads = 12 is not a multiple of kv_heads = 5"),
            (("all", "--shape", "1,12,64,64", "--dtype", "bool"), 2, "--dtype bool; accepted: f32, f16, bf16"),
            (("all", "--shape", "1,12,64,64", "--kv-heads", "0"), 2, "attention: kv_heads = 0; accepted: 1..1073741824"),
            (("all", "--shape", "1,0,64,64"), 2, "attention: heads = 0; accepted: 1..1073741824"),
        ):  # fmt: skip
            done = stof(*arguments, "--device", "cpu")
            self.assertEqual((done.returncode, done.stderr), (code, f"stof: {message}\n"))


if __name__ == "__main__":
    unittest.main()
