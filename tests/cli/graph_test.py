#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""stof graph from the outside: text, Graphviz, JSON.

usage: graph_test.py STOF
"""

import json
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import small_model

STOF = sys.argv.pop(1)
PASSES = ["build", "qkv", "fuse"]


class Graph(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.model = small_model.write(self.folder / "model")

    def graph(self, *arguments):
        done = subprocess.run([STOF, "graph", "--model", self.model, *arguments], capture_output=True, text=True,
                              timeout=60, check=False)  # fmt: skip
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def passes(self):
        return json.loads(self.graph("--json", "-"))["passes"]

    def test_every_pass_prints(self):
        text = self.graph()
        headings = re.findall(r"^# (\w+): .+ \((\d+) nodes\)$", text, re.M)
        self.assertEqual([(p["pass"], str(len(p["nodes"]))) for p in self.passes()], headings)
        self.assertEqual(text.count("\nresult %"), len(headings))

    def test_keys(self):
        for graph in self.passes():
            self.assertEqual(list(graph), ["pass", "what", "nodes", "result"])
            for node in graph["nodes"]:
                self.assertEqual(list(node), ["output", "op", "detail", "inputs", "columns", "name", "weights"])
                for weight in node["weights"]:
                    self.assertEqual(list(weight), ["name", "dtype", "shape"])

    def test_the_passes_and_what_is_left(self):
        passes = self.passes()
        self.assertEqual([graph["pass"] for graph in passes], PASSES)
        sizes = [len(graph["nodes"]) for graph in passes]
        self.assertEqual(sizes, sorted(sizes, reverse=True))
        ops = [node["op"] for node in passes[-1]["nodes"]]
        self.assertEqual(ops, ["embed", "linear", "attend_packed", "linear", "add_layer_norm", "linear", "linear",
                               "add_layer_norm"])  # fmt: skip

    def test_every_graph_is_whole(self):
        for graph in self.passes():
            made = set()
            for node in graph["nodes"]:
                self.assertLessEqual(set(node["inputs"]), made)
                self.assertNotIn(node["output"], made)
                made.add(node["output"])
            self.assertIn(graph["result"], made)

    def test_no_weight_is_lost(self):
        want = {name: ("f32", shape) for name, (_, shape) in small_model.tensors().items()}
        for graph in self.passes():
            weights = {w["name"]: (w["dtype"], w["shape"]) for node in graph["nodes"] for w in node["weights"]}
            self.assertEqual(weights, want)

    def test_json_into_a_file_stands_beside_the_text(self):
        file = self.folder / "graph.json"
        self.assertEqual(self.graph("--json", file), self.graph())
        self.assertEqual(json.loads(file.read_text())["passes"], self.passes())

    def test_dot_has_the_last_graph(self):
        file = self.folder / "graph.dot"
        self.assertEqual(self.graph("--dot", file), self.graph())
        dot, last = file.read_text(), self.passes()[-1]["nodes"]
        self.assertTrue(dot.startswith("digraph model {\n") and dot.endswith("}\n"))
        self.assertEqual(re.findall(r'^  v(\d+) \[label="(\w+)', dot, re.M),
                         [(str(node["output"]), node["op"]) for node in last])  # fmt: skip
        self.assertEqual(sorted(re.findall(r"^  v(\d+) -> v(\d+);$", dot, re.M)),
                         sorted((str(i), str(node["output"])) for node in last for i in node["inputs"]))  # fmt: skip

    def test_dot_to_stdout(self):
        file = self.folder / "graph.dot"
        self.graph("--dot", file)
        self.assertEqual(self.graph("--dot", "-"), file.read_text())

    def test_errors(self):
        for arguments, message in (
            (("--dot", "-", "--json", "-"), "--dot - and --json - both write to stdout; give one of them a file"),
            (("--dot", "/nonexistent/g"), "cannot write '/nonexistent/g': No such file or directory"),
            (("--dot", self.folder / "a", "--json", self.folder / "a"), f"--dot and --json both write '{self.folder}/a'"),
            (("--dot", self.model / "config.json"), f"--model and --dot are both '{self.model}/config.json'"),
            (("--json", ""), "--json: the value is empty; --help lists what is accepted"),
        ):
            done = subprocess.run([STOF, "graph", "--model", self.model, *arguments], capture_output=True, text=True,
                                  timeout=60, check=False)  # fmt: skip
            self.assertEqual((done.returncode, done.stdout, done.stderr), (2, "", f"stof: {message}\n"))

    def test_a_full_disk_under_stdout(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([STOF, "graph", "--model", self.model], stdout=full, stderr=subprocess.PIPE, text=True,
                                  timeout=60, check=False)  # fmt: skip
        self.assertEqual((done.returncode, done.stderr), (4, "stof: cannot write to stdout: No space left on device\n"))


if __name__ == "__main__":
    unittest.main()
