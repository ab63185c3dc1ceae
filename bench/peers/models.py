#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole encoders and decoders under masks by torch, eager and compiled: device time, wall time, compile time and memory; each
output is checked against fp32 eager with the same mask, dense.
    models.py OUT.json --stof STOF [--session bench_session_turns] [--modes default,reduce-overhead] [--resume] [--seconds N]
Device times are taken in turns once the clock stays (turns.py): all variants of a case, and with --session the plan of STOF
that was kept for it, in a process beside this one.
Errors are the worst text's and the worst row's, of all texts of a call. STOF's session has weights of its own: it compares its plan
with f32 and ends where one is wrong.
Needs torch, stof for the masks, and a GPU (--device cpu: a try of the same steps, where the device's time is the wall's).
Weights are random, biases zero, as those of `stof bench model --part grid`: time does not depend on them.
--case MODEL;MASK;B,S (repeatable) in place of the grid; layers of it with --layers N.
"""
from __future__ import annotations

import argparse
import gc
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy
import timing
import torch
import torch.nn.functional as F
import turns
from torch import nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

SIZES = {"bert-base": (12, 768, 12), "bert-large": (24, 1024, 16), "gpt2": (12, 768, 12)}
# cli/bench_grid.cpp has the same.
GRID = [("bert-base", "all", 1, 128), ("bert-base", "all", 8, 512), ("bert-base", "bigbird(64,3,2,3,1)", 8, 2048),
        ("bert-base", "bigbird(64,3,2,3,1)", 16, 2048), ("gpt2", "causal & window(32)", 1, 1024),
        ("gpt2", "causal & window(64)", 8, 2048), ("bert-large", "longformer(32,32)", 1, 4096)]  # fmt: skip
BOUND = 5e-3
CALLS = 15
CHECKED = ("error", "worst_row", "texts_checked")
OWN_GRAPHS = ("reduce-overhead", "max-autotune")


class Layer(nn.Module):
    def __init__(self, hidden, heads, pre_norm):
        super().__init__()
        self.heads, self.pre_norm = heads, pre_norm
        self.qkv, self.project = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.expand, self.contract = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)
        self.first, self.second = nn.LayerNorm(hidden), nn.LayerNorm(hidden)

    def attend(self, x, attention):
        batch, length, hidden = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, hidden // self.heads).permute(2, 0, 3, 1, 4)
        return self.project(attention(q, k, v).transpose(1, 2).reshape(batch, length, hidden))

    def feed(self, x):
        return self.contract(F.gelu(self.expand(x), approximate="tanh" if self.pre_norm else "none"))

    def forward(self, x, attention):
        if self.pre_norm:
            x = x + self.attend(self.first(x), attention)
            return x + self.feed(self.second(x))
        x = self.first(x + self.attend(x, attention))
        return self.second(x + self.feed(x))


def randomise(model):
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2:
            nn.init.normal_(parameter, std=0.02)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)


class Model(nn.Module):
    def __init__(self, name, length, layers):
        super().__init__()
        usual, hidden, heads = SIZES[name]
        self.pre_norm = name == "gpt2"
        self.words, self.places = nn.Embedding(1000, hidden), nn.Embedding(length, hidden)
        self.layers = nn.ModuleList(Layer(hidden, heads, self.pre_norm) for _ in range(layers or usual))
        self.norm = nn.LayerNorm(hidden)
        randomise(self)

    def forward(self, ids, attention):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        if not self.pre_norm:
            x = self.norm(x)
        for layer in self.layers:
            x = layer(x, attention)
        return self.norm(x) if self.pre_norm else x


def wanted_of(model, ids, attention):
    """Of all texts [texts, tokens, hidden], one at a time."""
    return torch.cat([model(ids[text : text + 1], attention) for text in range(len(ids))])


def check(got, want, device, bound=None):
    """Relative errors of the worst text and of its or another's worst row, of all texts; bound: of either, in place of that of
    the dtype that the device is timed in here."""
    if not torch.isfinite(got).all():
        raise timing.WrongOutput("output holds NaN or infinity")
    texts, rows = zip(*(timing.errors(one.float(), of) for one, of in zip(got, want, strict=True)))
    text, row = timing.judged(max(texts), max(rows), bound or (BOUND if device == "cuda" else 10 * BOUND))
    return {"error": text, "worst_row": row, "texts_checked": len(texts)}


class Case:
    """A model, a mask and a size of call, with what every variant is compared with."""

    def __init__(self, options, name, text, batch, length):
        torch.manual_seed(1)
        self.name, self.text, self.batch, self.length, self.device = name, text, batch, length, options.device
        with torch.device(options.device):
            self.model = Model(name, length, options.layers).eval()
        self.ids = torch.randint(0, 1000, (batch, length), device=options.device)
        self.mask = None if text == "all" else self.dense(options.stof)
        self.want = wanted_of(self.model, self.ids, self.masked)
        self.dtype = torch.float16 if options.device == "cuda" else torch.bfloat16
        self.model = self.model.to(self.dtype)
        self.bytes = torch.cuda.memory_allocated() if options.device == "cuda" else 0

    def dense(self, stof):
        with tempfile.NamedTemporaryFile(suffix=".npy") as file:
            subprocess.run([stof, "mask", self.text, "--seq", str(self.length), "--out", file.name], check=True,
                           capture_output=True)  # fmt: skip
            return torch.from_numpy(numpy.load(file.name)).to(self.device)

    def masked(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask)

    def variants(self):
        """Each with its attention: SDPA without a mask where all may attend to all; else with it, and FlexAttention."""
        if self.mask is None:
            return {"sdpa": self.masked}
        return {"sdpa with mask": self.masked, **{f"flex, block {size}": self.flex(size) for size in (64, 128)}}

    def flex(self, size):
        mask = self.mask
        blocks = create_block_mask(lambda b, h, q, k: mask[q, k], None, None, self.length, self.length, device=self.device,
                                   BLOCK_SIZE=size)  # fmt: skip
        tiles = {"BLOCK_M": 64, "BLOCK_N": 64} if size == 64 and self.device == "cuda" else None
        return lambda q, k, v: flex_attention(q, k, v, block_mask=blocks, kernel_options=tiles)


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def wall_us(run, device):
    times = []
    for _ in range(CALLS):
        begin = time.perf_counter()
        run()
        wait(device)
        times.append(1e6 * (time.perf_counter() - begin))
    return statistics.median(times)


def rival_of(run, mode, device):
    if device != "cuda":
        return turns.OnHost(run)
    return turns.Queued(run) if mode in OWN_GRAPHS else turns.Replayed(run)


def compiled(model, mode):
    return model if mode == "eager" else torch.compile(model, mode=mode, dynamic=False)


class Checked:
    """A case's model under one attention, compiled in one mode and run: its output for every text is that of fp32
    eager. `others`: bytes that variants beside it hold."""

    def __init__(self, case, attention, mode, others=0):
        self.mode, self.device = mode, case.device
        begin = time.monotonic()
        call = compiled(case.model, mode)

        def run():
            if mode in OWN_GRAPHS:
                torch.compiler.cudagraph_mark_step_begin()
            return call(case.ids, attention)

        self.run = run
        first = run()
        wait(self.device)
        self.seconds = time.monotonic() - begin
        self.memory = torch.cuda.max_memory_allocated() - others if self.device == "cuda" else None
        first.fill_(float("nan"))
        del first
        run().fill_(float("nan"))  # with graphs of its own this call records, and the next is one of those that are timed
        self.errors = check(run(), case.want, self.device)

    def row(self):
        """What is known of it besides its device time."""
        for _ in range(3):
            self.run()
        return {"wall_us": wall_us(self.run, self.device), "compile_s": self.seconds, **self.errors,
                "memory_bytes": self.memory}  # fmt: skip

    def rival(self):
        return rival_of(self.run, self.mode, self.device)

    def times(self):
        """Of it alone."""
        row = self.row()
        [device], how = turns.in_turns([self.rival()])
        return {"device_us": device, **row, **how, "unpaused": True}


def made(case, attention, mode):
    if case.device != "cuda":
        return Checked(case, attention, mode)
    torch.cuda.reset_peak_memory_stats()
    return Checked(case, attention, mode, torch.cuda.memory_allocated() - case.bytes)


def failure(error):
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:300]


class Report:
    def __init__(self, options, command="peers models"):
        self.path = Path(options.out)
        self.content = {"command": command, "device": torch.cuda.get_device_name() if options.device == "cuda" else "cpu",
                        "torch": torch.__version__, "layers": options.layers, "rows": []}  # fmt: skip
        if options.resume and self.path.exists():
            self.go_on_with(json.loads(self.path.read_text(encoding="utf-8")))

    def go_on_with(self, earlier):
        """Rows of one file are of one torch on one device, of models with the same layers. Older files do not say them all."""
        for key, value in self.content.items():
            if key != "rows" and earlier.get(key, value) != value:
                raise SystemExit(f"{self.path} was measured with {key} {earlier[key]}; this run has {value}; accepted: the same, or "
                                 "another file")  # fmt: skip
        self.content = {**self.content, "rows": earlier["rows"]}

    def rows_of(self, key):
        return [row for row in self.content["rows"] if all(row[name] == value for name, value in key.items())]

    def has(self, key):
        return bool(self.rows_of(key))

    def add(self, row):
        self.content["rows"].append(row)
        self.write()
        print(row, flush=True)

    def replace(self, key, rows):
        """Rows of a case, in place of those that it had."""
        others = [row for row in self.content["rows"] if any(row[name] != value for name, value in key.items())]
        self.content["rows"] = others + rows
        self.write()
        for row in rows:
            print(row, flush=True)

    def write(self):
        aside = self.path.with_suffix(".part")
        aside.write_text(json.dumps(self.content, indent=1) + "\n", encoding="utf-8")
        aside.rename(self.path)


def cases_of(options):
    if not options.case:
        return GRID
    parts = [text.split(";") for text in options.case]
    return [(name, mask, *map(int, shape.split(","))) for name, mask, shape in parts]


def wanted(options, report, key):
    """Modes and attentions of a case that the report has not yet; all of them where any is missing, since their times are of
    one sitting."""
    attentions = ["sdpa"] if key["mask"] == "all" else ["sdpa with mask", "flex, block 64", "flex, block 128"]
    pairs = [(mode, attention) for mode in options.modes.split(",") for attention in attentions
             if not options.attention or attention in options.attention]  # fmt: skip
    done = all(report.has({**key, "mode": mode, "attention": attention}) for mode, attention in pairs)
    if done and (not options.session or report.has({**key, "mode": "stof"})):
        return []
    refuse_to_lose(options, report, key, pairs)
    return pairs


def refuse_to_lose(options, report, key, pairs):
    """Rows that a case has and that would not be measured again: they would go with the sitting that they are of."""
    kept = [f"{row['mode']} {row['attention']}" for row in report.rows_of(key)
            if ((row["mode"], row["attention"]) not in pairs if row["mode"] != "stof" else not options.session)]  # fmt: skip
    if kept:
        raise RuntimeError(f"{report.path} has rows that these options would not measure again: {', '.join(kept)}; accepted: "
                           "options with them, or another file")  # fmt: skip


def made_of(case, pairs, row_of):
    """What compiled and is right, each with its row and its rival, and rows of what did not."""
    ready, failed, variants = [], [], case.variants()
    for mode, attention in pairs:
        try:
            checked = made(case, variants[attention], mode)
            ready.append((row_of(mode, attention), checked, checked.rival()))
        except Exception as error:  # noqa: BLE001 what a peer cannot do is a result, too
            failed.append({**row_of(mode, attention), "failed": failure(error)})
    return ready, failed


@torch.inference_mode()
def run_case(options, report, place):
    name, text, batch, length = place
    key = {"model": name, "mask": text, "texts": batch, "longest": length}
    pairs = wanted(options, report, key)
    if not pairs:
        return
    dtype = "f16" if options.device == "cuda" else "bf16"
    session = turns.Session(options.session, place, dtype, options.device) if options.session else None
    try:
        plan = session.plan() if session else None  # before minutes of compiling what would have no rival
        case = Case(options, *place)

        def row_of(mode, attention):
            return {**key, "dtype": str(case.dtype).removeprefix("torch."), "mode": mode, "attention": attention}

        ready, rows = made_of(case, pairs, row_of)
        if session:
            errors = {key: plan.pop(key) for key in CHECKED}  # against fp32, by the session itself: its weights are others
            ready.append(({**row_of("stof", plan["origin"]), **errors, "plan": plan}, None, session))
        times, how = turns.in_turns([rival for _, _, rival in ready]) if ready else ([], {})
    finally:
        if session:
            session.close()
    for (row, checked, _), us in zip(ready, times, strict=True):
        rows.append({**row, "device_us": us, **(checked.row() if checked else {}), **how, "unpaused": True})
    report.replace(key, rows)
    torch._dynamo.reset()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--stof", required=True)
    parser.add_argument("--session", help="bench_session_turns: STOF's kept plan is timed in turns with torch")
    parser.add_argument("--modes", default="default,reduce-overhead", help="eager, default, reduce-overhead, max-autotune")
    parser.add_argument("--case", action="append", metavar="MODEL;MASK;B,S")
    parser.add_argument("--attention", action="append", help="sdpa; sdpa with mask; flex, block 64 or 128; repeatable (default: all)")
    parser.add_argument("--layers", type=int, help="in place of the model's")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--seconds", type=float, default=float("inf"), help="after which nothing more is begun")
    parser.add_argument("--resume", action="store_true", help="go on with the rows that OUT.json has")
    options = parser.parse_args()
    report, begin, lost = Report(options), time.monotonic(), []
    for place in cases_of(options):
        if time.monotonic() - begin > options.seconds:
            break
        try:
            run_case(options, report, place)
        except (RuntimeError, OSError) as error:  # OSError: of the session's process
            print(f"{place}: {failure(error)}", flush=True)
            lost.append(place)
        gc.collect()
        if options.device == "cuda":
            torch.cuda.empty_cache()
    if lost:
        sys.exit(f"without rows: {lost}")


if __name__ == "__main__":
    main()
