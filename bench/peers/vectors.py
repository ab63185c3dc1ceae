# SPDX-License-Identifier: Apache-2.0
"""Models that make vectors of texts: contenders, each compared before it is timed, then all of them in turns."""
from __future__ import annotations

import argparse
import statistics
import time
from importlib.metadata import version

import models
import stof
import torch
from cpu_run import environment

WARM_UPS = 3
DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}


class Transformers:
    """A model of transformers, called as its users call it; mode: of torch.compile. A text's vector is the mean of its hidden states."""

    def __init__(self, model, ids, options, mode=None):
        self.ids, self.device = torch.tensor(ids), options.device
        self.model = model.eval().to(options.device)
        self.call = torch.compile(self.model, mode=mode, dynamic=False) if mode else self.model

    def keywords(self, ids):
        """What its call takes besides."""
        return {}

    def hidden(self):
        ids = self.ids.to(self.device)
        return self.call(input_ids=ids, attention_mask=torch.ones_like(ids), **self.keywords(ids)).last_hidden_state

    def vectors(self):
        return self.hidden().mean(1).float().cpu()


class Stof:
    """A session; pooling as Session.embed() takes it."""

    def __init__(self, folder, ids, options, dtype, pooling="mean", **more):
        self.ids, self.pooling, self.session = ids, pooling, stof.Session(folder, options.device, dtype, **more)

    def hidden(self):
        return torch.stack([torch.as_tensor(one) for one in self.session.run(self.ids)])

    def vectors(self):
        return self.session.embed(self.ids, pooling=self.pooling, batch=len(self.ids))


def asked(makers, options):
    """What makes each contender, so that one that cannot be made leaves the others."""
    return {name: make for name, make in makers.items() if name not in options.without}


def seconds_of(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def compared(makers, check, call):
    """What is known of each contender, and those that can be timed: check() gives its errors, call() is timed later. One that
    cannot be made, or fails, leaves the others."""
    peers, ready = {}, {}
    for name, make in makers.items():
        try:
            begin = time.monotonic()
            ready[name] = make()
            peers[name] = {**check(ready[name])}
            for _ in range(WARM_UPS):
                call(ready[name])
            peers[name]["prepare_s"] = time.monotonic() - begin
        except Exception as error:  # noqa: BLE001 what a peer cannot do is a result, too
            ready.pop(name, None)
            peers[name] = {"failed": models.failure(error)}
    return peers, ready


def time_in_turns(peers, ready, rounds, call):
    times = {name: [] for name in ready}
    for number in range(rounds):
        for name in list(ready) if number % 2 == 0 else reversed(ready):
            times[name].append(1e6 * seconds_of(lambda name=name: call(ready[name])))
    for name, taken in times.items():
        peers[name].update(median_us=statistics.median(taken), best_us=min(taken), calls=len(taken))


def head_of(command, options):
    packages = {name: version(name) for name in ("torch", "transformers")}
    if options.device == "cpu":
        found = environment(torch.get_num_threads(), packages)
        return {"command": f"peers {command} cpu", **found, "commit": options.commit or found["commit"]}
    from attention import environment as gpu_environment  # asks torch and nvidia-smi
    found = gpu_environment()
    found["packages"] = {**found["packages"], **packages}
    return {"command": f"peers {command} cuda", "commit": options.commit or "unknown", **found}


def parser_of(doc, sizes):
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--sizes", nargs="+", default=sizes, metavar="B,S")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--without", nargs="*", default=[], metavar="NAME", help="contenders that are not asked")
    parser.add_argument("--small", action="store_true", help="a model of two narrow layers in its place: a try of the same steps")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--commit", help="that the library was built from; on the CPU this tree's, if not given")
    return parser


def sizes_of(options):
    return [tuple(map(int, size.split(","))) for size in options.sizes]
