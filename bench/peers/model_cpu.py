# SPDX-License-Identifier: Apache-2.0
"""Whole encoders on the CPU: STOF against OpenVINO, ONNX Runtime, CTranslate2 and PyTorch, each in a process of its
own, in turns, on the same threads. Sentences include tokenisation. A peer's output is compared before its time counts:
sentences with the stored embeddings of transformers in fp32, long input with STOF's hidden states.

    python bench/peers/model_cpu.py --model DIR --out results.json [--part sentences|encoder] [--resume]
"""
from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import engines
from attention_cpu import splitmix64
from cpu_run import ROOT, SAME, Results, environment, show, times_of
from rounds import ROUNDS, asked_again, joined, turns_of

CACHE = ROOT / ".cache/peers"
SHAPES = ((1, 128), (8, 128), (1, 512), (1, 4096))
VOCABULARY = 1000
COSINE = {"f32": 0.99999, "bf16": 0.999}
ERROR = {"f32": 1e-4, "bf16": 5e-2}  # after twelve layers, against STOF's fp32


class Engine:
    """A worker process, stopped while others are measured: some engines' threads spin for a while after a call."""

    def __init__(self, name, checkpoint, converted, threads):
        here = Path(__file__).resolve().parent
        self.begin = time.perf_counter()
        self.process = subprocess.Popen(
            [sys.executable, here / "engine_worker.py", name, checkpoint, converted, str(threads)], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": str(threads), "CUDA_VISIBLE_DEVICES": ""})  # fmt: skip

    def ask(self, **what):
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the engine ended with {self.process.wait()}")
        self.process.send_signal(signal.SIGSTOP)
        return json.loads(line)

    def close(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.close()
        self.process.wait()


class Stof:
    def __init__(self, program, model, encoder, threads):
        self.command = [program, "bench", "model", "--device", "cpu", "--threads", str(threads), "--json", "-"]
        self.model, self.encoder = model, encoder

    def rows(self, *arguments):
        done = subprocess.run([*self.command, *map(str, arguments)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.splitlines()[-1])
        found = json.loads(done.stdout)
        return {row["id"]: row for row in found["rows"]}, found.get("roofline")

    def sentences(self, dtype, batch, seconds, texts):
        rows, _ = self.rows("--part", "sentences", "--model", self.model, "--input", texts, "--dtype", dtype, "--batch",
                            batch, "--seconds", seconds)  # fmt: skip
        return rows

    def hidden(self, dtype, shape, mask, seconds, out):
        rows, roofline = self.rows("--part", "encoder", "--encoder", self.encoder, "--shape", f"{shape[0]},{shape[1]}",
                                   "--mask", mask, "--dtype", dtype, "--seconds", seconds, "--hidden-out", out)  # fmt: skip
        return next(iter(rows.values())), roofline


def random_encoder(folder: Path) -> Path:
    """A checkpoint of BERT-base's size that every engine reads."""
    if not (folder / "model.safetensors").exists():
        import torch
        from transformers import BertConfig, BertModel
        torch.manual_seed(0)
        config = BertConfig(vocab_size=VOCABULARY, max_position_embeddings=4096, position_embedding_type="absolute",
                            architectures=["BertModel"])  # fmt: skip
        BertModel(config, add_pooling_layer=False).save_pretrained(folder)
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(VOCABULARY - 5))]
        (folder / "vocab.txt").write_text("\n".join(words) + "\n")  # converters ask for one
        (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer", "do_lower_case": true}')
    return folder


def attempt(peers, name, work):
    try:
        return work()
    except Exception as error:  # a peer's failure must not end the comparison
        peers[name] = {"failed": f"{type(error).__name__}: {str(error)[:200]}"}
        return None


class Comparison:
    def __init__(self, arguments):
        self.seconds = arguments.seconds
        self.threads = len(os.sched_getaffinity(0))
        self.model, self.texts = Path(arguments.model), ROOT / "data/sentences.txt"
        self.names = [name for name in engines.NAMES if not arguments.engine or name in arguments.engine]
        self.encoder = random_encoder(CACHE / "models/bert-base")
        self.converted = {path: CACHE / "converted" / path.name for path in (self.model, self.encoder)}
        for checkpoint, to in self.converted.items():
            engines.convert(checkpoint, to)
        self.stof = Stof(arguments.stof, self.model, self.encoder, self.threads)
        self.versions = {}
        head = {"command": "peers model cpu", **environment(self.threads, self.versions), "model": self.model.name}
        self.results = Results(arguments.out, head, arguments.resume, same=(*SAME, "model"))

    def engine(self, name, checkpoint):
        return Engine(name, checkpoint, self.converted[checkpoint], self.threads)

    def sentences(self):
        texts = self.texts.read_text(encoding="utf-8").splitlines()
        middle = sorted(texts, key=lambda text: len(text.encode()))[len(texts) // 2]
        wanted = ["sentences batch 8", "sentences batch 32", "one sentence", "first embedding"]
        if all(self.results.has(name) for name in wanted):
            return
        peers = {name: {} for name in wanted}
        rounds = {name: {} for name in wanted}
        for name in self.names:
            self.engine_start(name, middle, peers["first embedding"])
        running = {}  # each starts in its first turn: it loads while nothing is measured
        for _ in range(ROUNDS):
            for dtype in ("f32", "bf16"):
                self.own_sentences(dtype, peers, rounds)
            for name in self.names:
                if "failed" not in peers["first embedding"][name]:
                    engine = running[name] if name in running else running.setdefault(name, self.engine(name, self.model))
                    attempt(peers["sentences batch 8"], name, lambda: self.engine_sentences(name, engine, texts, middle, peers, rounds))
        for engine in running.values():
            engine.close()
        for what in wanted:
            self.join(peers[what], rounds[what])
            found = engines.best_settings(peers[what])
            self.results.add({"id": what, "peers": found})
            show(what, found)

    @staticmethod
    def join(peers, rounds):
        for name, found in rounds.items():
            if "failed" not in peers.setdefault(name, {}):
                peers[name].update(joined(found))

    def engine_start(self, name, middle, found):
        best = None
        for _ in range(2):  # starts, of which the fastest counts
            engine = self.engine(name, self.model)
            first = attempt(found, name, lambda: engine.ask(do="first", texts=[middle]))
            if first is None:
                return
            first["seconds"] = time.perf_counter() - engine.begin
            best = first if best is None or first["seconds"] < best["seconds"] else best
            engine.close()
        self.versions[name.split()[0].removesuffix("-streams")] = best["version"]
        found[name] = {key: best[key] for key in ("seconds", "megabytes")}

    def engine_sentences(self, name, engine, texts, middle, peers, rounds):
        reference = str(ROOT / "tests/data/minilm_embeddings.npy")
        asks = {"sentences batch 8": (texts, 8, 0), "sentences batch 32": (texts, 32, 0),
                "one sentence": ([middle], 1, texts.index(middle))}  # fmt: skip
        for what, (some, batch, first) in asks.items():
            if not engines.is_of_use(name, batch):
                continue
            found = engine.ask(do="sentences", texts=some, batch=batch, seconds=self.seconds, reference=reference, first=first)
            if not found["cosine"] > COSINE[name.split()[1]]:
                peers[what][name] = {"failed": f"cosine {found['cosine']:.6f}"}
                continue
            peers[what].setdefault(name, {})["cosine"] = found["cosine"]
            rounds[what].setdefault(name, []).append(times_of(found["times"]))

    def own_sentences(self, dtype, peers, rounds):
        name = f"stof {dtype}"
        for batch in (8, 32):
            rows = self.stof.sentences(dtype, batch, self.seconds, self.texts)
            what, row = f"sentences batch {batch}", rows[f"sentences {dtype} batch {batch}"]
            peers[what].setdefault(name, {})["cosine"] = row["cosine"]
            rounds[what].setdefault(name, []).append(row)
            one = rows[f"one sentence {dtype}"]
            peers["one sentence"].setdefault(name, {})["cosine"] = one["cosine"]
            rounds["one sentence"].setdefault(name, []).append(one)
            first = rows[f"first embedding {dtype}"]
            if first["seconds"] < peers["first embedding"].setdefault(name, first)["seconds"]:
                peers["first embedding"][name] = first

    def encoders(self):
        for shape in SHAPES:
            what = f"encoder ({shape[0]},{shape[1]})"
            if self.results.has(what):
                continue
            ids = [[splitmix64(text * shape[1] + i) % VOCABULARY for i in range(shape[1])] for text in range(shape[0])]
            peers, rounds = {}, {}
            running, names = {}, [name for name in self.names if engines.is_of_use(name, shape[0])]
            times, seconds = turns_of(shape, self.seconds)
            with tempfile.TemporaryDirectory() as folder:
                reference = f"{folder}/hidden.npy"
                for _ in range(times):
                    self.own_encoder(shape, seconds, peers, rounds, reference)
                    for name in names:
                        if "failed" not in peers.get(name, {}):
                            engine = running[name] if name in running else running.setdefault(name, self.engine(name, self.encoder))
                            ask = {"do": "encoder", "ids": ids, "seconds": seconds, "reference": reference}
                            attempt(peers, name, lambda: self.engine_encoder(name, engine, ask, peers, rounds))
                    names = asked_again(names, rounds)
            for engine in running.values():
                engine.close()
            self.join(peers, rounds)
            found = engines.best_settings(peers)
            self.results.add({"id": what, "shape": shape, "peers": found})
            show(what, found)

    def own_encoder(self, shape, seconds, peers, rounds, reference):
        masks = ["all"] + (["longformer(256,1)"] if shape[1] >= 4096 else [])
        for mask in reversed(masks):
            for dtype in ("bf16", "f32"):  # what the peers are compared with is written last
                name = f"stof {dtype}" + ("" if mask == "all" else f" {mask}")
                row, roofline = self.stof.hidden(dtype, shape, mask, seconds, reference)
                rounds.setdefault(name, []).append(row)
                known = self.results.data.setdefault("roofline", roofline)
                for key, value in roofline.items():
                    known[key] = max(known[key], value)
                peers[name] = {"gflop": row["gflops"] * row["median_us"] * 1e-6, "layer_frobenius": row["layer_frobenius"]}

    @staticmethod
    def engine_encoder(name, engine, ask, peers, rounds):
        found = engine.ask(**ask)
        if not found["error"] < ERROR[name.split()[1]]:
            raise ValueError(f"relative error {found['error']:.2e}")
        peers[name] = {"error": found["error"]}
        rounds.setdefault(name, []).append(times_of(found["times"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stof", default=str(ROOT / "build/release/stof"))
    parser.add_argument("--model", default=str(ROOT / ".cache/models/all-MiniLM-L6-v2"))
    parser.add_argument("--out", required=True)
    parser.add_argument("--part", choices=["all", "sentences", "encoder"], default="all")
    parser.add_argument("--engine", action="append", help="these engines alone")
    parser.add_argument("--seconds", type=float, default=1.5, help="that a row is timed for in each of its rounds; short calls of encoders in more and shorter ones, of the same time together")
    parser.add_argument("--resume", action="store_true", help="rows that the file has are not measured again")
    arguments = parser.parse_args()
    comparison = Comparison(arguments)
    if arguments.part != "encoder":
        comparison.sentences()
    if arguments.part != "sentences":
        comparison.encoders()
    comparison.results.data["packages"] = comparison.versions
    comparison.results.write()


if __name__ == "__main__":
    main()
