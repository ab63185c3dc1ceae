# SPDX-License-Identifier: Apache-2.0
"""Who goes on behind texts, by the likeliest token, and what is right: STOF by its program, a process for each of its calls and the one
in front of it, and transformers in this process, whose model is loaded once. Times are of generating alone."""
from __future__ import annotations

import json
import subprocess
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

from cpu_run import times_of

# Of the tokens that STOF and transformers put behind a text, as many are the same before the first that is not. 16 bits
# round likely tokens together, and behind another token all is another text.
LEAST_SAME = {"f32": 0.9, "bf16": 0.0}
# How far below the likeliest token one may lie by the logits of transformers, in their standard deviations; by chance it is 4.
MOST_GAP = {"f32": 1e-3, "bf16": 0.5}


@dataclass
class Continued:
    ids: list  # of each text, the tokens behind it
    first_s: float  # until the first token of each text is there
    seconds: float
    cold: Continued | None = None  # the first call of the process, where another one came behind it

    @property
    def each_s(self):
        """For each token behind the first, of all texts together."""
        return (self.seconds - self.first_s) / max(1, len(self.ids[0]) - 1)


class Stof:
    """Calls of a process: in the first one plans are made, and on a GPU kernels are loaded and steps recorded; prompts in the second one,
    which the third one brings to the device."""

    PASSES = 4

    def __init__(self, program, model, device, threads):
        self.command = [program, "generate", "--model", model, "--device", device, "--threads", threads, "--go-on"]

    def go_on(self, texts, tokens, dtype):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "texts").write_text("\n".join(texts) + "\n", encoding="utf-8")
            more = ["--input", f"{folder}/texts", "--tokens", tokens, "--batch", len(texts), "--dtype", dtype,
                    "--passes", self.PASSES, "--json", f"{folder}/out"]  # fmt: skip
            done = subprocess.run([str(part) for part in self.command + more], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise RuntimeError((done.stderr.splitlines() or [f"ended with {done.returncode}"])[-1])
            found = json.loads((Path(folder) / "out").read_text(encoding="utf-8"))
        ids = [text["ids"] for text in found["texts"]]
        first, *_, last = (Continued(ids, one["first_seconds"], one["seconds"]) for one in found["passes"])
        return replace(last, cold=first)


class Transformers:
    """One model in one dtype on one device. Tokens that end a text do not."""

    def __init__(self, model, dtype, device, threads):
        import torch
        from transformers import AutoModelForCausalLM
        torch.set_num_threads(threads)
        self.torch, self.device = torch, device
        capped = json.loads((Path(model) / "config.json").read_text(encoding="utf-8")).get("attn_logit_softcapping")
        self.model = AutoModelForCausalLM.from_pretrained(
            model, dtype={"f32": torch.float32, "bf16": torch.bfloat16}[dtype],
            attn_implementation="eager" if capped else "sdpa").to(device).eval()  # fmt: skip; sdpa leaves a cap out
        self.model.generation_config.eos_token_id = None
        self.model.generation_config.pad_token_id = 0  # asked for; prompts are of one length

    def finish(self):
        if self.device != "cpu":
            self.torch.cuda.synchronize()

    def go_on(self, prompts, tokens, **cache):
        """prompts: ids, of one length."""
        given = self.torch.tensor(prompts, device=self.device)
        goes_on = self.torch.zeros(len(prompts), dtype=self.torch.bool, device=self.device)
        first: list = []

        def after_a_token(*_, **__):
            if not first:
                self.finish()
                first.append(time.perf_counter() - begin)
            return goes_on

        self.finish()
        begin = time.perf_counter()
        with self.torch.inference_mode():
            made = self.model.generate(given, attention_mask=self.torch.ones_like(given), max_new_tokens=tokens, do_sample=False,
                                       use_cache=True, stopping_criteria=[after_a_token], **cache)  # fmt: skip
        ids = made[:, given.shape[1] :].tolist()
        return Continued(ids, first[0], time.perf_counter() - begin)

    def go_on_compiled(self, prompts, tokens):
        from transformers import CompileConfig
        return self.go_on(prompts, tokens, cache_implementation="static", compile_config=CompileConfig(mode="reduce-overhead"))

    def gap(self, prompts, made):
        """How far below the likeliest token any of those made lies, each behind all that is before it, in standard deviations."""
        whole = self.torch.tensor([prompt + ids[:-1] for prompt, ids in zip(prompts, made)], device=self.device)
        chosen = self.torch.tensor(made, device=self.device)
        with self.torch.inference_mode():
            logits = self.model(whole, use_cache=False, logits_to_keep=chosen.shape[1]).logits.float()
            below = logits.amax(-1) - logits.gather(-1, chosen[..., None])[..., 0]
            return float((below / logits.std(-1)).max())


def same_tokens(made, expected):
    """Of each text, how many tokens are the same before one is not."""
    pairs = zip(made, expected, strict=True)
    return [next((i for i, (one, other) in enumerate(zip(ids, wanted)) if one != other), len(ids)) for ids, wanted in pairs]


def checked(made, expected, dtype, gap):
    """What is known of ids beside those of transformers; raises where they are wrong. gap: of made, asked where they differ."""
    if [len(ids) for ids in made] != [len(ids) for ids in expected]:
        raise ValueError(f"{[len(ids) for ids in made]} tokens, not {[len(ids) for ids in expected]}")
    same = same_tokens(made, expected)
    found: dict = {"same_tokens": same}
    if made != expected:
        found["gap"] = gap(made)
        if not found["gap"] <= MOST_GAP[dtype]:
            raise ValueError(f"a token is {found['gap']:.2g} standard deviations below the likeliest")
    share = sum(same) / sum(map(len, expected))
    if share < LEAST_SAME[dtype]:
        raise ValueError(f"the same tokens for {share:.2f} of the texts")
    return found


def spread_of(seconds: list) -> dict:
    us = [1e6 * one for one in seconds]
    return {**times_of(us), "most_us": max(us)}


def summed_up(runs: list) -> dict:
    """Of one contender's calls: all of a call, the first token, and each behind it; and of the calls in front of them, where a
    process begins with them."""
    found = {**spread_of([run.seconds for run in runs]), "first": spread_of([run.first_s for run in runs]),
             "each": spread_of([run.each_s for run in runs])}  # fmt: skip
    return {**found, "cold": summed_up([run.cold for run in runs])} if all(run.cold for run in runs) else found
