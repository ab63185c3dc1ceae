# SPDX-License-Identifier: Apache-2.0
"""Device time by CUDA-graph replay, and the check that every timed output passes first."""
from __future__ import annotations

import statistics
import time

import torch

LAUNCHES = 20
REPLAYS = 20


class WrongOutput(Exception):
    """The peer's output is not the masked attention; its time is not reported."""


def reference(q, k, v, mask, rows, softcap=None, bias=None):
    """fp32 attention of the sampled rows; q [B, H, S, D], k and v of as many or fewer heads, mask
    [S, S], [H, S, S] or, of each item, [B, 1, S, S], rows [n], bias None or of these rows [H, n, S] -> [B, H, n, D]."""
    scale = q.shape[-1] ** -0.5
    out = torch.empty(q.shape[0], q.shape[1], len(rows), v.shape[-1], device=q.device)
    for b in range(q.shape[0]):
        keys, values = (t[b].float().repeat_interleave(q.shape[1] // t.shape[1], 0) for t in (k, v))
        scores = torch.einsum("hqd,hkd->hqk", q[b][:, rows].float(), keys) * scale
        if softcap is not None:
            scores = softcap * torch.tanh(scores / softcap)
        if bias is not None:
            scores += bias
        allowed = mask[b] if mask.dim() == 4 else mask
        scores.masked_fill_(~allowed[..., rows, :], float("-inf"))
        out[b] = torch.softmax(scores, -1).nan_to_num(0.0) @ values
    return out


BOUNDS = {torch.float16: 2e-3, torch.bfloat16: 1e-2}  # of the relative error; ten times that of a row's


def judged(frobenius: float, worst: float, bound: float) -> tuple[float, float]:
    """The two errors, where an output that has them may be timed."""
    if not (frobenius < bound and worst < 10 * bound):
        raise WrongOutput(f"relative error {frobenius:.2e}, worst row {worst:.2e}")
    return frobenius, worst


def errors(got, want) -> tuple[float, float]:
    """Relative, of the whole and of the worst row."""
    distance = got - want
    worst = (distance.norm(dim=-1) / want.norm(dim=-1).clamp_min(1e-6)).max()
    return (distance.norm() / want.norm()).item(), worst.item()


def check(out, want, rows, dtype):
    """Frobenius and worst-row relative error against the protocol's bounds; returns both."""
    got = out[:, :, rows].float()
    if not torch.isfinite(out).all():
        raise WrongOutput("output holds NaN or infinity")
    return judged(*errors(got, want), BOUNDS[dtype])


def device_time_us(run, steady=False):
    """Median over replays of a graph of LAUNCHES launches: burst after half a second of idling, or steady state."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(LAUNCHES):
                run()

        def replay():
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            return begin.elapsed_time(end) * 1000 / LAUNCHES

        time.sleep(0.5)
        warm_until = time.monotonic() + (1.0 if steady else 0.0)
        for _ in range(3):
            replay()
        while time.monotonic() < warm_until:
            replay()
        times = [replay() for _ in range(REPLAYS)]
    return statistics.median(times)
