#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What weights in 8 bits would cost and could save on a CPU, for docs/decisions/0005-no-int8-weights.md: a checkpoint whose
matrices are rounded row by row to 127 steps, beside the same in f32 and bf16; with --times, for which the machine has to be
quiet, also how the time of its encoder grows with the tokens, beside the time to read the weights once. Needs numpy.

usage: int8_weights.py STOF MODEL OUT.json [--times]
"""

import datetime
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy

from pasted import markdown, paste

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/decisions/0005-no-int8-weights.md"
STEPS, NEAREST, EVERY = 127, 4, 6
TOKENS = [1, 2, 4, 8, 16, 32, 64, 128]


def rounded(folder, to):
    """A copy of the checkpoint; every matrix of the encoder is what 8 bits a weight and a scale a row leave of it."""
    shutil.copytree(folder, to, copy_function=shutil.copy)
    path = to / "model.safetensors"
    data = bytearray(path.read_bytes())
    begin = 8 + int.from_bytes(data[:8], "little")
    matrices = 0
    for name, tensor in json.loads(data[8:begin]).items():
        if not (name.startswith("encoder.") and len(tensor.get("shape", [])) == 2):
            continue
        assert tensor["dtype"] == "F32", name
        first, last = (begin + place for place in tensor["data_offsets"])
        values = numpy.frombuffer(data[first:last], dtype="<f4").reshape(tensor["shape"])
        scale = numpy.abs(values).max(axis=1, keepdims=True) / STEPS
        data[first:last] = (numpy.round(values / scale) * scale).astype("<f4").tobytes()
        matrices += values.size
    path.write_bytes(data)
    return matrices


def embedded(stof, model, lines, dtype, folder):
    (folder / "lines.txt").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    subprocess.run([stof, "run", "--model", model, "--input", folder / "lines.txt", "--dtype", dtype, "--device", "cpu",
                    "--out", folder / "out.npy"], check=True, capture_output=True)  # fmt: skip
    return numpy.load(folder / "out.npy")


def nearest(queries, sentences):
    """Of the queries and of every sixth sentence, which is not its own neighbour."""
    near = numpy.vstack([queries, sentences[::EVERY]]) @ sentences.T
    near[range(len(queries), len(near)), range(0, len(sentences), EVERY)] = -numpy.inf
    return [set(row[:NEAREST]) for row in numpy.argsort(-near, axis=1)]


def quality(vectors, exact):
    """Against the same in f32: the worst cosine of a sentence, and the share of each query's nearest that stay."""
    (sentences, queries), (want_sentences, want_queries) = vectors, exact
    pairs = zip(nearest(queries, sentences), nearest(want_queries, want_sentences))
    kept = [len(got & want) for got, want in pairs]
    return {"worst_cosine": float((sentences * want_sentences).sum(axis=1).min()), "queries": len(kept),
            "nearest_kept": sum(kept) / (NEAREST * len(kept))}  # fmt: skip


def times(stof, model, folder):
    words = [stof, "bench", "model", "--part", "encoder", "--encoder", model, "--mask", "all", "--device", "cpu"]
    for tokens in TOKENS:
        words += ["--shape", f"1,{tokens}"]
    subprocess.run([*words, "--seconds", "0.5", "--json", folder / "times.json"], check=True, capture_output=True)
    return json.loads((folder / "times.json").read_text(encoding="utf-8"))


def measured(stof, model, with_times):
    lines = [(ROOT / "data" / name).read_text(encoding="utf-8").splitlines() for name in ("sentences.txt", "queries.txt")]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    report = {"command": "bench/int8_weights.py", "commit": commit.stdout.strip(), "day": str(datetime.date.today())}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        report["weights"] = rounded(model, folder / "rounded")
        exact = [embedded(stof, model, part, "f32", folder) for part in lines]
        report["quality"] = {
            what: quality([embedded(stof, checkpoint, part, dtype, folder) for part in lines], exact)
            for what, checkpoint, dtype in (("int8 weights", folder / "rounded", "f32"), ("bf16", model, "bf16"))}  # fmt: skip
        if with_times:
            run = times(stof, model, folder)
            report["machine"] = {key: run[key] for key in ("processor", "threads", "load", "roofline")}
            report["times"] = [{"dtype": row["dtype"], "tokens": row["shape"][1], "us": row["median_us"]}
                               for row in run["rows"]]  # fmt: skip
    return report


def times_table(report):
    read_us = {dtype: report["weights"] * size / report["machine"]["roofline"]["copy_gb_s"] * 1e-3
               for dtype, size in (("f32", 4), ("bf16", 2))}  # fmt: skip
    rows = []
    for tokens in TOKENS:
        us = {row["dtype"]: row["us"] for row in report["times"] if row["tokens"] == tokens}
        rows.append([str(tokens), *(cell for dtype in ("f32", "bf16")
                                    for cell in (f"{us[dtype]:,.0f}", f"{us[dtype] / read_us[dtype]:.1f}"))])  # fmt: skip
    head = ["tokens", "f32, us", "x reading the weights", "bf16, us", "x reading the weights"]
    machine = report["machine"]
    return f"\n{machine['processor']}, {machine['threads']} threads, load {machine['load']:.1f}:\n\n" + markdown(head, rows)


def table(path):
    report = json.loads(path.read_text(encoding="utf-8"))
    rows = [[what, f"{found['worst_cosine']:.4f}", f"{100 * found['nearest_kept']:.1f} %"]
            for what, found in report["quality"].items()]  # fmt: skip
    text = f"[bench/results/{path.name}](../../bench/results/{path.name}): of {report['day']}, commit {report['commit']}.\n\n"
    text += markdown(["against f32", "worst cosine", "nearest that stay"], rows)
    paste(PAGE, "int8-weights", text + (times_table(report) if "times" in report else ""))


def main():
    words = [word for word in sys.argv[1:] if word != "--times"]
    if len(words) != 3:
        sys.exit(__doc__.strip())
    out = Path(words[2])
    report = measured(words[0], Path(words[1]), "--times" in sys.argv)
    out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    table(out)


if __name__ == "__main__":
    main()
