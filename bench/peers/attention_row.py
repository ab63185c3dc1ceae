# SPDX-License-Identifier: Apache-2.0
"""A row of bench/peers/attention.py: a problem with its contenders, compiled, checked and timed."""
from __future__ import annotations

import copy
import functools
import time

import torch
import torch.nn.functional as F
from attention_cases import peers_of
from bias_providers import BIASED
from biases import added
from providers import PROVIDERS, Contender, NotTaken
from replays import REPLAYS, Waited, clock_mhz, cold, hot, in_turns, screened
from stof_library import GpuAttention
from tensor_sets import TensorSets
from timing import check, reference

DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16}
CLOSE = 1.3  # of the best peer: who is within is timed at length, with cold inputs, at the steady clock and without graphs


def stof(library, sets, mask, dense):
    bias = sets.bias.values(sets.shape[1]).contiguous() if sets.bias else None
    attention = GpuAttention(library, mask, [sets[0]], sets.softcap, bias=bias)
    attention.sets = sets
    facts = {"kernel": attention.description["kernel"], "instance": attention.description.get("instance", ""),
             "predicted_us": attention.description["predicted_us"]}
    return Contender(attention.launch, facts=facts)


def stof_unbiased(library, sets, mask, dense):
    """What the same problem takes without its bias."""
    without = copy.copy(sets)  # of the same tensors
    without.bias = None
    contender = stof(library, without, mask, dense)
    contender.adds = lambda bias: None
    return contender


def poison(shape, dtype):
    """The memory that the next allocations of this size will have."""
    held = [torch.full(shape, float("nan"), device="cuda", dtype=dtype) for _ in range(2)]
    torch.cuda.synchronize()
    held.clear()


def poisoned_output(contender, shape, dtype):
    """Of a second launch: what the first one, which may compile, gave has become NaN, be it a tensor of the contender's own or
    memory that goes back."""
    contender.output(contender.launch(0)).fill_(float("nan"))
    poison(shape, dtype)
    out = contender.output(contender.launch(0))
    torch.cuda.synchronize()
    return out


def touched_share(dense):
    """Of tiles of 64 x 64, those with an allowed pair."""
    rows, columns = -(-dense.shape[-2] // 64), -(-dense.shape[-1] // 64)
    padded = F.pad(dense, (0, 64 * columns - dense.shape[-1], 0, 64 * rows - dense.shape[-2]))
    tiles = padded.view(-1, rows, 64, columns, 64)
    return tiles.any(4).any(2).float().mean().item()


def keys_used(dense):
    """How many keys some row sees; of masks that differ by item the mean of items."""
    items = dense if dense.dim() == 4 else dense[None]
    used = int(items.flatten(1, -2).any(1).sum())
    return used / len(items) if len(items) > 1 else used


def failure(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:300]}"


class Row:
    """A case with its contenders, compiled and checked. place: of the case among all, by which parts are joined. without:
    beginnings of the names of peers that are not asked."""

    def __init__(self, place, case, library, without=()):
        self.case, dtype = case, DTYPES[case.dtype]
        mask, length = case.make(), case.shape[2]
        self.id = f"({','.join(map(str, case.shape))}) {case.dtype} {mask.said}"
        if case.softcap is not None:
            self.id += f" softcap {case.softcap:g}"
        if case.bias is not None:
            self.id += f" bias {case.bias.said}"
        if case.kv_heads is not None:
            self.id += f" kv_heads {case.kv_heads}"
        if case.keys is not None:
            self.id += f" keys {case.keys}"
        self.sets = TensorSets(case.shape, dtype, case.softcap, case.kv_heads, case.keys, case.bias)
        dense = mask.dense(self.sets.keys, heads=case.shape[1], queries=length)
        generator = torch.Generator().manual_seed(5)
        rows = torch.unique(torch.cat([torch.arange(min(length, 96)), torch.arange(max(0, length - 96), length),
                                       torch.randint(0, length, (64,), generator=generator)])).cuda()
        self.facts = {"id": self.id, "place": place, "mask": mask.said, "family": case.family, "shape": list(case.shape),
                      "kv_heads": self.sets.kv_heads, "keys": self.sets.keys, "dtype": case.dtype, "softcap": case.softcap,
                      "bias": case.bias and case.bias.said, "density": dense.float().mean().item(),
                      "keys_used": keys_used(dense), "touched": touched_share(dense)}
        self.contenders, self.peers = {}, {}
        providers = {"stof": functools.partial(stof, library), "stof_unbiased": functools.partial(stof_unbiased, library), **PROVIDERS, **BIASED}
        truth = self.truth_of(dense, rows)
        for name in ["stof", *(name for name in peers_of(case, PROVIDERS) if not name.startswith(tuple(without)))]:
            self.prepare(name, providers[name], (mask, dense), truth)
        torch.cuda.empty_cache()  # other processes prepare on the same GPU

    def truth_of(self, dense, rows):
        """Of a contender by its `adds`: the rows that are compared, in fp32, and which those are."""
        sets, bias = self.sets, None
        if sets.bias is not None:
            bias = added(sets.bias.values(sets.shape[1]).to(rows.device), rows + sets.first_position, sets.keys)

        @functools.cache
        def truth(adds):
            return reference(*sets[0], dense, rows, sets.softcap, None if bias is None else adds(bias)), rows

        return truth

    def prepare(self, name, provider, problem, truth):
        begin = time.monotonic()
        try:
            contender = provider(self.sets, *problem)
            out = poisoned_output(contender, self.case.shape, DTYPES[self.case.dtype])
            seconds = time.monotonic() - begin
            frobenius, worst = check(out, *truth(contender.adds), DTYPES[self.case.dtype])
            self.peers[name] = {"frobenius": frobenius, "worst_row": worst, "prepare_s": seconds, **(contender.facts or {})}
            self.contenders[name] = contender
        except (NotTaken, ImportError) as reason:
            self.peers[name] = {"refused": str(reason)}
        except Exception as error:  # a peer's failure must not end the comparison
            self.peers[name] = {"failed": failure(error)}

    def made(self, names, how):
        """What `how` makes of the launches; those that it cannot be made of have failed."""
        found = {}
        for name in names:
            try:
                found[name] = how(self.contenders[name].launch)
            except Exception as error:
                self.peers[name]["failed"] = failure(error)
        return found

    def keep(self, key, times):
        for name, us in times.items():
            self.peers[name][key] = us

    def measure(self):
        replays = self.made(self.contenders, hot)
        first = screened(replays)
        for name, us in first.items():
            self.peers[name] |= {"median_us": us, "replays": 3}
        ours = [name for name in first if name.startswith("stof")]
        best = min((us for name, us in first.items() if name not in ours), default=0)
        chosen = {name: replay for name, replay in replays.items() if name in ours or first[name] <= CLOSE * best}
        clocks = {}
        for name, us in in_turns(chosen, REPLAYS).items():
            self.peers[name] |= {"median_us": us, "replays": REPLAYS}
        clocks["burst_mhz"] = clock_mhz()
        self.keep("steady_us", in_turns(chosen, REPLAYS, steady=True))
        clocks["steady_mhz"] = clock_mhz()
        self.keep("wall_us", in_turns(self.made(chosen, Waited), REPLAYS))
        self.keep("cold_us", in_turns(self.made(chosen, lambda launch: cold(launch, self.sets)), REPLAYS // 2))
        self.contenders.clear()
        self.sets.forget()
        torch.cuda.empty_cache()
        return {**self.facts, **clocks, "peers": self.peers}
