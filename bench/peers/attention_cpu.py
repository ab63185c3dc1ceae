# SPDX-License-Identifier: Apache-2.0
"""Masked attention on the CPU: STOF through its C API, PyTorch's SDPA and FlexAttention, ONNX Runtime, in one process,
on the same inputs and masks, in turns. Each output is checked against the definition in double before it is timed; a
peer that fails or is not installed is recorded with its reason.

    python bench/peers/attention_cpu.py --library build/release/libstof.so --out results.json [--only TEXT] [--resume]
"""
from __future__ import annotations

import argparse
import json
import os
import subprocess
import time

os.environ.setdefault("OMP_NUM_THREADS", str(len(os.sched_getaffinity(0))))

import torch  # noqa: E402  (reads the environment)
import torch.nn.functional as F  # noqa: E402
from cpu_run import ROOT, Results, environment, rounds, show  # noqa: E402
from masks import MaskCase, bigbird, causal, documents_from, longformer, window  # noqa: E402
from stof_library import Attention, load  # noqa: E402

LENGTHS, DIMS, HEADS = (512, 2048, 8192), (64, 128), 12
ROWS_CHECKED = 96
BOUNDS = {torch.float32: 1e-5, torch.bfloat16: 1e-2}


class NotTaken(Exception):
    """The peer has no path for this mask."""


def dense_mask() -> MaskCase:
    return MaskCase("all", lambda q, k: (q >= 0) & (k >= 0))


def default_masks(length: int) -> list[MaskCase]:
    """As `stof bench attention` has them."""
    return [dense_mask(), causal(), window(64), longformer(64, 16), bigbird(length, 64, 3, 2, 3, 1, device="cpu"),
            documents_from(document_starts(length), length, device="cpu")]  # fmt: skip


def splitmix64(x: int) -> int:
    mask = (1 << 64) - 1
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
    return x ^ (x >> 31)


def document_starts(length: int) -> list[int]:
    """cli/bench_cases.cpp: 512 to 1500 tokens each, an eighth of that below 2048."""
    starts, following, draw = [], 0, 1
    while following < length:
        starts.append(following)
        following += (512 + splitmix64(draw) % 989) // (8 if length < 2048 else 1)
        draw += 1
    return starts


def kept(launch):
    last = []

    def run():
        last[:] = [launch()]

    return run, lambda: last[0]


def sdpa(q, k, v, mask, dense):
    if mask.text == "all":
        return kept(lambda: F.scaled_dot_product_attention(q, k, v))
    if mask.causal:
        return kept(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True))
    bias = dense[None, None]
    return kept(lambda: F.scaled_dot_product_attention(q, k, v, attn_mask=bias))


def flex(block):
    def provider(q, k, v, mask, dense):
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention
        length = q.shape[2]
        block_mask = create_block_mask(lambda b, h, i, j: mask.allows(i, j), None, None, length, length, device="cpu",
                                       BLOCK_SIZE=block)
        torch._dynamo.reset()  # every mask is its own function: past eight of them Dynamo would run uncompiled
        compiled = torch.compile(flex_attention, dynamic=False)
        return kept(lambda: compiled(q, k, v, block_mask=block_mask))

    return provider


def onnxruntime_fused(q, k, v, mask, dense):
    if mask.text != "all" and not mask.causal:
        raise NotTaken("its fused operator takes no such mask without computing every pair")
    import onnxruntime
    from onnx import TensorProto, helper
    if q.dtype != torch.float32:
        raise NotTaken("f32 alone")
    batch, heads, length, dim = q.shape
    shape = [batch, length, heads * dim]
    node = helper.make_node("MultiHeadAttention", ["q", "k", "v"], ["o"], domain="com.microsoft", num_heads=heads,
                            unidirectional=int(mask.causal))
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "qkvo"]
    graph = helper.make_graph([node], "attention", values[:3], values[3:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)],
                              ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    feeds = {name: t.transpose(1, 2).reshape(shape).contiguous().numpy() for name, t in zip("qkv", (q, k, v))}
    run, last = kept(lambda: session.run(None, feeds))
    return run, lambda: torch.from_numpy(last()[0]).view(batch, length, heads, dim).transpose(1, 2)


def ours(library, dtype=None):
    def provider(q, k, v, mask, dense):
        tensors = [t.to(dtype or t.dtype).contiguous() for t in (q, k, v)]
        attention = Attention(library, mask.text, *tensors)
        return attention.run, lambda: attention.out

    return provider


def reference(q, k, v, dense, rows):
    scores = torch.einsum("bhqd,bhkd->bhqk", q[:, :, rows].double(), k.double()) * q.shape[-1] ** -0.5
    scores.masked_fill_(~dense[rows], float("-inf"))
    return torch.softmax(scores, -1) @ v.double()


def check(out, want, rows):
    got = out[:, :, rows].double()
    if not torch.isfinite(out).all():
        raise ValueError("output holds NaN or infinity")
    frobenius = ((got - want).norm() / want.norm()).item()
    worst = ((got - want).norm(dim=-1) / want.norm(dim=-1)).max().item()
    bound = BOUNDS[out.dtype]
    if not (frobenius < bound and worst < 10 * bound):
        raise ValueError(f"relative error {frobenius:.2e}, worst row {worst:.2e}")
    return {"frobenius": frobenius, "worst_row": worst}


def prepare(providers, tensors, mask, dense):
    """(runs, what is known of each): contenders whose output is right."""
    rows = torch.unique(torch.randint(0, dense.shape[0], (ROWS_CHECKED,)))
    want = reference(*tensors, dense, rows)
    runs, peers = {}, {}
    for name, provider in providers.items():
        begin = time.monotonic()
        try:
            run, output = provider(*tensors, mask, dense)
            run()
            prepared = time.monotonic() - begin
            peers[name] = check(output(), want, rows) | {"prepare_s": prepared}
            runs[name] = run
        except (NotTaken, ImportError) as reason:
            peers[name] = {"refused": str(reason)}
        except Exception as error:  # a peer's failure must not end the comparison
            peers[name] = {"failed": f"{type(error).__name__}: {str(error)[:300]}"}
    return runs, peers


def roofline(program):
    """GFLOP/s of the faster of STOF's and oneDNN's matmul, GB/s of a copy: as `stof bench` measures them."""
    done = subprocess.run([program, "bench", "attention", "--device", "cpu", "--mask", "all", "--shape", "1,1,64,64", "--dtype",
                           "f32", "--seconds", "0.01", "--json", "-"], capture_output=True, text=True, check=True)  # fmt: skip
    return json.loads(done.stdout)["roofline"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", default=str(ROOT / "build/release/libstof.so"))
    parser.add_argument("--stof", default=str(ROOT / "build/release/stof"))
    parser.add_argument("--out", required=True)
    parser.add_argument("--only", default="", help="rows whose id contains this text")
    parser.add_argument("--peer", action="append", help="these contenders alone")
    parser.add_argument("--seconds", type=float, default=1.0, help="that a row is timed for, and fifteen rounds; twelve times as long at most")
    parser.add_argument("--resume", action="store_true", help="rows that the file has are not measured again")
    parser.add_argument("--prepare", action="store_true", help="only compile what is kept on disk; measure nothing")
    arguments = parser.parse_args()
    torch.set_grad_enabled(False)
    torch.manual_seed(0)
    library = load(arguments.library)
    providers = {"stof": ours(library), "stof bf16": ours(library, torch.bfloat16), "sdpa": sdpa, "flex 32": flex(32),
                 "flex 64": flex(64), "onnxruntime": onnxruntime_fused}  # fmt: skip
    if arguments.peer:
        providers = {name: provider for name, provider in providers.items() if name in arguments.peer}
    packages = {"torch": torch.__version__}
    head = {"command": "peers attention cpu", **environment(torch.get_num_threads(), packages)}
    results = Results(arguments.out, head, arguments.resume)
    if not arguments.prepare:
        results.data["roofline"] = roofline(arguments.stof)
    for length in LENGTHS:
        for dim in DIMS:
            for mask in default_masks(length):
                name = f"(1,{HEADS},{length},{dim}) f32 {mask.text}"
                if arguments.only not in name or results.has(name):
                    continue
                tensors = [torch.randn(1, HEADS, length, dim) for _ in range(3)]
                dense = mask.dense(length, "cpu")
                runs, peers = prepare(providers, tensors, mask, dense)
                if arguments.prepare:
                    print(name, {key: peer.get("failed", peer.get("prepare_s")) for key, peer in peers.items()}, flush=True)
                    continue
                for key, times in rounds(runs, arguments.seconds).items():
                    peers[key] |= times
                results.add({"id": name, "mask": mask.text, "shape": [1, HEADS, length, dim], "dtype": "f32",
                             "density": dense.double().mean().item(), "peers": peers})
                show(name, peers)
    results.write()


if __name__ == "__main__":
    main()
