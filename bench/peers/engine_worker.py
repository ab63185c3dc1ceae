# SPDX-License-Identifier: Apache-2.0
"""A process with one engine in it, as a user would have it; model_cpu.py starts it and asks, a line of JSON each.

    engine_worker.py NAME CHECKPOINT CONVERTED THREADS      {"do": "sentences", "texts": [...], "batch": 8, "seconds": 1, "reference": FILE.npy, "first": 0}
reference: embeddings, of which the first text's is number `first`
"""
from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import engines
import numpy


def times_of(call, seconds, least=3, most=60):
    """After a call that warms up, which the caller has made."""
    taken, begin = [], time.perf_counter()
    while len(taken) < most:
        before = time.perf_counter()
        call()
        taken.append(1e6 * (time.perf_counter() - before))
        spent = time.perf_counter() - begin
        if (len(taken) >= least and spent >= seconds) or spent >= 4 * seconds:
            break
    return taken


class Worker:
    def __init__(self, name, checkpoint, converted, threads):
        self.checkpoint = Path(checkpoint)
        self.encode, self.version = engines.load(name, self.checkpoint, Path(converted), int(threads))
        self.tokenizer = None

    def tokens(self, texts):
        if self.tokenizer is None:
            from tokenizers import Tokenizer
            self.tokenizer = Tokenizer.from_file(str(self.checkpoint / "tokenizer.json"))
            self.tokenizer.enable_padding()
            self.tokenizer.enable_truncation(256)
        encoded = self.tokenizer.encode_batch(texts)
        return numpy.array([e.ids for e in encoded]), numpy.array([e.attention_mask for e in encoded])

    def embed(self, texts, batch):
        """Longest first, so that texts of a batch are of similar length; the mean over tokens, scaled to length 1."""
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        vectors = [None] * len(texts)
        parts = [order[begin : begin + batch] for begin in range(0, len(order), batch)]
        for part, mask, hidden in self.hidden([[texts[i] for i in part] for part in parts], parts):
            sums = numpy.einsum("bsh,bs->bh", hidden, mask.astype(hidden.dtype))
            sums /= numpy.linalg.norm(sums, axis=1, keepdims=True)
            for i, vector in zip(part, sums):
                vectors[i] = vector
        return numpy.stack(vectors)

    def hidden(self, batches, parts):
        """(part, mask, hidden) of each batch; an engine that works on several at a time is given them as they come."""
        if not hasattr(self.encode, "many"):
            for part, texts in zip(parts, batches):
                ids, mask = self.tokens(texts)
                yield part, mask, self.encode(ids, mask)
            return
        masks = []

        def tokenized():
            for texts in batches:
                ids, mask = self.tokens(texts)
                masks.append(mask)
                yield ids, mask

        yield from zip(parts, masks, self.encode.many(tokenized()))

    def do(self, ask):
        if ask["do"] == "first":
            self.embed(ask["texts"], 1)
            status = Path("/proc/self/status").read_text()  # getrusage would count what the parent held when it forked
            peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
            return {"megabytes": int(peak.split()[1]) * 1024e-6, "version": self.version}
        if ask["do"] == "sentences":
            want = numpy.load(ask["reference"])[ask["first"] :][: len(ask["texts"])]
            cosine = float((self.embed(ask["texts"], ask["batch"]) * want).sum(1).min())
            return {"times": times_of(lambda: self.embed(ask["texts"], ask["batch"]), ask["seconds"]), "cosine": cosine}
        ids = numpy.array(ask["ids"])
        mask = numpy.ones_like(ids)
        hidden = self.encode(ids, mask)
        error = None
        if "reference" in ask:
            want = numpy.load(ask["reference"])
            error = float(numpy.linalg.norm(hidden.reshape(want.shape) - want) / numpy.linalg.norm(want))
        return {"times": times_of(lambda: self.encode(ids, mask), ask["seconds"], least=2), "error": error}


def main():
    worker = Worker(*sys.argv[1:])
    for line in sys.stdin:
        print(json.dumps(worker.do(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
