#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What transformers' continuous batching (generate_batch) takes for many requests of unlike lengths, by STOF's attention over its paged
cache and by its own: sdpa, and FlashAttention 2, 3 and 4 where they are installed. One model with random weights, the same prompts, room in
the cache for all of them, in turns.

    python bench/peers/continuous.py --out results.json [--device cuda --commit ID] [--size Qwen3-8B] [--resume]

A turn is a new manager, one pass over the requests that is not counted, in which plans are made and graphs recorded, and one that is: from
the first request that is handed over until the last one has all its tokens. Prompts are not shared between passes. Rows are what transformers does
by itself for an attention, graphs for FlashAttention alone, and with graphs and asynchronous steps asked for, without sdpa, whose masks the host
fills for padded steps.

What was made is checked before its time counts, as by generate.py: behind another token all is another text, so it is not tokens that are
compared but that each one is as likely as rounding leaves it, by the logits of the same model in sdpa, without continuous batching. How many tokens
are those of the row's first contender before one is not, and how many texts begin with the same one, stands beside it: of sdpa, or without it of STOF.

    python bench/peers/continuous.py --device cpu --size small --requests 6 --least 5 --most 60 --tokens 8 --rounds 1 --out FILE    # tries it
"""
from __future__ import annotations

import argparse
import os
import random
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # as generate.py has it

from continuations import MOST_GAP, checked, spread_of  # noqa: E402  (OpenMP reads the environment)
from cpu_run import FAR_BEHIND, ROOT, SAME, Results, environment  # noqa: E402
from decoders import SIZES, caps_scores, random_decoder  # noqa: E402

EXPECTED = "sdpa"
CONTENDERS = {"stof": "paged|stof", EXPECTED: "paged|sdpa", **{f"flash_attention_{i}": f"paged|flash_attention_{i}" for i in (2, 3, 4)}}
BY_ITSELF, GRAPHS = "by itself", "graphs"
ASKED = {BY_ITSELF: {}, GRAPHS: {"use_cuda_graph": True, "use_async_batching": True}}
DTYPES = {"cpu": "f32", "cuda": "bf16"}


def drawn_prompts(arguments, vocabulary: int) -> list:
    """Ids, of lengths that are as likely as each other. The first is as long as any."""
    drawn = random.Random(arguments.seed)
    lengths = [arguments.most, *(drawn.randint(arguments.least, arguments.most) for _ in range(arguments.requests - 1))]
    return [[drawn.randrange(vocabulary) for _ in range(length)] for length in lengths]


def blocks_of(prompts: list, tokens: int, size: int) -> int:
    """Of a cache with room for all requests at the same time, and one more block for each."""
    return sum(-(-(len(prompt) + tokens) // size) + 1 for prompt in prompts)


def same_first(made: list, expected: list) -> int:
    return sum(ids[:1] == wanted[:1] for ids, wanted in zip(made, expected, strict=True))


class Batches:
    """The model, and its continuous batching."""

    def __init__(self, arguments, folder):
        sys.path.insert(0, str(ROOT / "python"))
        os.environ.setdefault("STOF_LIBRARY", arguments.library)
        import stof.transformers
        import torch
        from transformers import AutoModelForCausalLM
        stof.transformers.register()
        self.arguments, self.torch = arguments, torch
        if arguments.device == "cpu":
            self.take_memory_for_granted()
        dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[DTYPES[arguments.device]]
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="sdpa").to(arguments.device).eval()

    @staticmethod
    def take_memory_for_granted():
        """How much a machine has is asked of psutil, and without it there is none."""
        from transformers.generation.continuous_batching.cache import PagedAttentionMemoryHandler
        PagedAttentionMemoryHandler.get_available_memory = lambda self: 1 << 32

    def timed(self, implementation, prompts, asked):
        """Tokens behind each prompt, and the seconds of the second pass."""
        from transformers import ContinuousBatchingConfig, GenerationConfig
        arguments = self.arguments
        self.model.set_attn_implementation(implementation)
        config = ContinuousBatchingConfig(
            block_size=arguments.block_size, num_blocks=blocks_of(prompts, arguments.tokens, arguments.block_size), allow_block_sharing=False,
            max_batch_tokens=arguments.batch_tokens, max_requests_per_batch=len(prompts), **asked)  # fmt: skip
        wanted = GenerationConfig(max_new_tokens=arguments.tokens, do_sample=False, eos_token_id=-1, pad_token_id=0)
        try:
            with self.model.continuous_batching_context_manager(wanted, continuous_batching_config=config) as manager:
                self.once(manager, prompts)
                begin = time.perf_counter()
                made = self.once(manager, prompts)
                return made, time.perf_counter() - begin
        finally:
            self.model.set_attn_implementation("sdpa")

    def once(self, manager, prompts):
        names, made = manager.add_requests(prompts, max_new_tokens=self.arguments.tokens), {}
        while len(made) < len(names):
            result = manager.get_result(timeout=1)
            if result is None and not manager.is_running():
                raise RuntimeError(str(manager.background_thread_status.fatal_error))
            if result is not None and result.error is not None:
                raise RuntimeError(result.error)
            if result is not None and result.is_finished():
                made[result.request_id] = result.generated_tokens
        return [made[name] for name in names]

    def gap(self, prompts, made):
        """How far below the likeliest token any of those made lies, each behind all that is before it, in standard deviations."""
        worst = 0.0
        with self.torch.inference_mode():
            for prompt, ids in zip(prompts, made):
                whole, chosen = (self.torch.tensor([one], device=self.model.device) for one in (prompt + ids[:-1], ids))
                logits = self.model(whole, use_cache=False, logits_to_keep=len(ids)).logits.float()
                below = logits.amax(-1) - logits.gather(-1, chosen[..., None])[..., 0]
                worst = max(worst, float((below / logits.std(-1)).max()))
        return worst


class Row:
    """One way of asking: its contenders, in turns."""

    def __init__(self, batches, prompts, name, dtype):
        self.batches, self.prompts, self.asked, self.dtype = batches, prompts, ASKED[name], dtype
        self.names = [EXPECTED] * (name == BY_ITSELF) + [one for one in CONTENDERS if one != EXPECTED]
        self.seconds: dict = {one: [] for one in self.names}
        self.facts: dict = {}
        self.expected, self.gap = None, None

    def turn(self, name):
        try:
            made, seconds = self.batches.timed(CONTENDERS[name], self.prompts, self.asked)
            if self.expected is None:
                self.gap = self.likely(made)
                self.expected = made
            found = checked(made, self.expected, self.dtype, self.likely)
            self.facts[name] = {"gap": self.gap, **found, "same_first": same_first(made, self.expected)}
            self.seconds[name].append(seconds)
        except Exception as error:  # of one contender, which the others are beside
            self.facts[name] = {"failed": f"{type(error).__name__}: {str(error)[:200]}"}

    def likely(self, made):
        """The gap of texts, unless it is too large: those that others are compared with are held against the model's logits, too."""
        gap = self.batches.gap(self.prompts, made)
        if not gap <= MOST_GAP[self.dtype]:
            raise ValueError(f"a token is {gap:.2g} standard deviations below the likeliest")
        return gap

    def measure(self, rounds):
        """That whose texts the others are compared with comes first, sdpa where it is there; every second round is backwards. One FAR_BEHIND has one round."""
        names = self.names
        for number in range(rounds):
            best = {name: min(seconds) for name, seconds in self.seconds.items() if seconds}
            behind = {name for name, seconds in best.items() if seconds > FAR_BEHIND * min(best.values())}
            for name in names if number % 2 == 0 else reversed(names):
                if "failed" not in self.facts.get(name, {}) and name not in behind:
                    self.turn(name)
        return {name: facts if "failed" in facts else {**self.times(self.seconds[name]), **facts} for name, facts in self.facts.items()}

    def times(self, seconds):
        """Of all of it, and for each token that was made."""
        made = sum(len(ids) for ids in self.expected)
        return {**spread_of(seconds), "each": spread_of([one / made for one in seconds])}


def packages():
    found = {}
    for name in ("torch", "transformers", "flash-attn", "flash-attn-3", "flash-attn-4", "kernels"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            pass
    return found


def head_of(arguments, threads):
    asked = {name: getattr(arguments, name) for name in ("requests", "least", "most", "block_size", "batch_tokens", "seed", "rounds")}
    asked |= {"model": arguments.size, "made": arguments.tokens, "dtype": DTYPES[arguments.device]}
    if arguments.device == "cpu":
        found = environment(threads, packages())
        return {"command": "peers continuous cpu", **found, "commit": arguments.commit or found["commit"], **asked}, (*SAME, *asked)
    from attention import environment as gpu_environment  # asks torch and nvidia-smi
    found = gpu_environment()
    found["packages"] = {**found["packages"], **packages()}
    return {"command": "peers continuous cuda", "commit": arguments.commit or "unknown", **found, **asked}, ("command", "commit", "device", *asked)


def show(row):
    for name, peer in row["peers"].items():
        said = peer.get("failed") or (f"{peer['median_us'] * 1e-6:,.3f} s, {peer['each']['median_us']:,.1f} us a token, "
                                      f"{sum(peer['same_tokens'])} tokens the same, gap {peer['gap']:.2g}")  # fmt: skip
        print(f"{row['id']:12} {name:18} {said}", flush=True)


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", default=str(ROOT / "build/release/libstof.so"), help="unless STOF_LIBRARY names one")
    parser.add_argument("--device", choices=list(DTYPES), default="cuda")
    parser.add_argument("--size", choices=[size for size in SIZES if not caps_scores(size)], default="Qwen3-0.6B", help="of a model with random weights")
    parser.add_argument("--model-folder", default=str(ROOT / ".cache/peers/models"), help="where it is made, in a folder of its name, unless it is there")
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--least", type=int, default=100, help="tokens of a prompt")
    parser.add_argument("--most", type=int, default=2000)
    parser.add_argument("--tokens", type=int, default=64, help="behind each prompt")
    parser.add_argument("--block-size", type=int, default=256)
    parser.add_argument("--batch-tokens", type=int, default=2048, help="of a step, at most: longer prompts are cut into chunks")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=list(ASKED), action="append")
    parser.add_argument("--commit", help="that the library was built from; on the CPU this tree's, if not given")
    parser.add_argument("--out", required=True)
    parser.add_argument("--resume", action="store_true", help="rows that the file has are not measured again")
    return parser.parse_args()


def main():
    arguments = options()
    head, same = head_of(arguments, len(os.sched_getaffinity(0)))
    results = Results(arguments.out, head, arguments.resume, same=same)
    batches = Batches(arguments, random_decoder(Path(arguments.model_folder) / arguments.size, arguments.size))
    prompts = drawn_prompts(arguments, SIZES[arguments.size]["vocab_size"])
    for name in arguments.only or (ASKED if arguments.device == "cuda" else [BY_ITSELF]):
        if not results.has(name):
            row = {"id": name, "peers": Row(batches, prompts, name, DTYPES[arguments.device]).measure(arguments.rounds)}
            results.add(row)
            show(row)


if __name__ == "__main__":
    main()
