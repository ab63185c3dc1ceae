# SPDX-License-Identifier: Apache-2.0
"""The peers of attention with a relative bias: FlexAttention, which computes it score by score, and SDPA, to which it comes as a
tensor of all pairs, made outside of the timing. Each takes (sets, mask, dense), as those of providers.py."""
from __future__ import annotations

import functools

import torch
from biases import added, slopes
from providers import NotTaken, flex, sdpa_launched


def looked_up(sets, device="cuda"):
    """A score_mod that reads a table by the clamped distance."""
    values, reach, first = sets.bias.values(sets.shape[1]).to(device), sets.bias.reach, sets.first_position
    return lambda score, b, h, i, j: score + values[h, torch.clamp(j - i - first, -reach, reach) + reach]


def computed(sets, device="cuda"):
    """A score_mod of slopes."""
    if not sets.bias.linear:
        raise NotTaken("a table has no closed form")
    of_heads, first = slopes(sets.shape[1]).to(device), sets.first_position
    return lambda score, b, h, i, j: score - of_heads[h] * torch.abs(j - i - first)


def flex_with(block, score_mod_of, sets, mask, dense):
    return flex(block, sets, mask, dense, score_mod_of(sets))


def of_all_pairs(sets, dense):
    """[1, H, queries, keys] of the inputs' dtype, -inf where the mask forbids; head by head, since in f32 it would be several GB."""
    heads, queries = sets.shape[1:3]
    values = sets.bias.values(heads).to(dense.device)
    positions = torch.arange(queries, device=dense.device) + sets.first_position
    made = torch.empty(1, heads, queries, sets.keys, device=dense.device, dtype=sets.dtype)
    for h in range(heads):
        allowed = dense[h] if dense.dim() == 3 else dense
        made[0, h] = added(values[h], positions, sets.keys).masked_fill_(~allowed, float("-inf"))
    return made


def sdpa_dense(backend, sets, mask, dense):
    if dense.dim() == 4:
        raise NotTaken("the mask differs by item")
    arguments = {"attn_mask": of_all_pairs(sets, dense)}
    if sets.grouped:
        arguments["enable_gqa"] = True
    contender = sdpa_launched(backend, sets.__getitem__, arguments)
    contender.adds = lambda bias: bias.to(sets.dtype).float()
    return contender


BIASED = {
    "flex128_table": functools.partial(flex_with, 128, looked_up),
    "flex64_table": functools.partial(flex_with, 64, looked_up),
    "flex128_linear": functools.partial(flex_with, 128, computed),
    "flex64_linear": functools.partial(flex_with, 64, computed),
    "sdpa_dense_efficient": functools.partial(sdpa_dense, "EFFICIENT_ATTENTION"),
    "sdpa_dense_cudnn": functools.partial(sdpa_dense, "CUDNN_ATTENTION"),
}
