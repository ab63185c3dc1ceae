# SPDX-License-Identifier: Apache-2.0
"""Masked attention on a GPU: STOF through its C API, FlexAttention, SDPA, FlashAttention 4 and cuDNN, in one process for
each row, on the same inputs and masks, in turns. Each output is checked against fp32 before it is timed; a peer that
fails or is not installed is recorded with its reason.

    python bench/peers/attention.py --library build/release/libstof.so --out results.json [--only TEXT]... [--resume]

Workers compile for several rows at a time; while one times a row, all others wait.
"""
from __future__ import annotations

import argparse
import multiprocessing
import os
import subprocess
import time
from pathlib import Path

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

import torch  # noqa: E402  (reads the environment)
from attention_cases import cases_of, peers_of  # noqa: E402
from cpu_run import Results  # noqa: E402
from providers import PROVIDERS, Contender, NotTaken  # noqa: E402
from replays import REPLAYS, cold, hot, in_turns, screened  # noqa: E402
from stof_library import GpuAttention, load  # noqa: E402
from tensor_sets import TensorSets  # noqa: E402
from timing import check, reference  # noqa: E402

DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16}
ENOUGH = "enough"  # said to workers when no more rows are to be prepared
CLOSE = 1.3  # of the best peer: who is within is timed at length, and with cold inputs


def stof(library, sets, mask, dense):
    attention = GpuAttention(library, mask, [sets[0]], sets.softcap)
    attention.sets = sets
    facts = {"kernel": attention.description["kernel"], "instance": attention.description.get("instance", ""),
             "predicted_us": attention.description["predicted_us"]}
    return Contender(attention.launch, facts=facts)


def poison(shape, dtype):
    """The memory that the next allocations of this size will have."""
    held = [torch.full(shape, float("nan"), device="cuda", dtype=dtype) for _ in range(2)]
    torch.cuda.synchronize()
    held.clear()


def touched_share(dense):
    """Of tiles of 64 x 64, those with an allowed pair."""
    blocks = dense.shape[-1] // 64
    tiles = dense[..., : 64 * blocks, : 64 * blocks].view(-1, blocks, 64, blocks, 64)
    return tiles.any(4).any(2).float().mean().item()


class Row:
    """A case with its contenders, compiled and checked."""

    def __init__(self, case, library):
        self.case, dtype = case, DTYPES[case.dtype]
        mask, length = case.make(), case.shape[2]
        self.id = f"({','.join(map(str, case.shape))}) {case.dtype} {mask.text}"
        if case.softcap is not None:
            self.id += f" softcap {case.softcap:g}"
        self.sets = TensorSets(case.shape, dtype, case.softcap)
        dense = mask.dense(length, heads=case.shape[1])
        generator = torch.Generator().manual_seed(5)
        rows = torch.unique(torch.cat([torch.arange(min(length, 96)), torch.arange(max(0, length - 96), length),
                                       torch.randint(0, length, (64,), generator=generator)])).cuda()
        want = reference(*self.sets[0], dense, rows, case.softcap)
        self.facts = {"id": self.id, "mask": mask.text, "family": case.family, "shape": list(case.shape),
                      "dtype": case.dtype, "softcap": case.softcap, "density": dense.float().mean().item(), "touched": touched_share(dense)}
        self.contenders, self.peers = {}, {}
        providers = {"stof": lambda *problem: stof(library, *problem), **PROVIDERS}
        for name in ["stof", *peers_of(case, PROVIDERS)]:
            self.prepare(name, providers[name], (mask, dense), (want, rows))

    def prepare(self, name, provider, problem, truth):
        begin = time.monotonic()
        try:
            contender = provider(self.sets, *problem)
            poison(self.case.shape, DTYPES[self.case.dtype])
            out = contender.output(contender.launch(0))
            torch.cuda.synchronize()
            seconds = time.monotonic() - begin
            frobenius, worst = check(out, *truth, DTYPES[self.case.dtype])
            self.peers[name] = {"frobenius": frobenius, "worst_row": worst, "prepare_s": seconds, **(contender.facts or {})}
            self.contenders[name] = contender
        except (NotTaken, ImportError) as reason:
            self.peers[name] = {"refused": str(reason)}
        except Exception as error:  # a peer's failure must not end the comparison
            self.peers[name] = {"failed": f"{type(error).__name__}: {str(error)[:300]}"}

    def captured(self, names, how):
        """Graphs of those that can be captured."""
        replays = {}
        for name in names:
            try:
                replays[name] = how(self.contenders[name].launch)
            except Exception as error:
                self.peers[name]["failed"] = f"{type(error).__name__}: {str(error)[:300]}"
        return replays

    def measure(self):
        replays = self.captured(self.contenders, hot)
        first = screened(replays)
        for name, us in first.items():
            self.peers[name] |= {"median_us": us, "replays": 3}
        best = min((us for name, us in first.items() if name != "stof"), default=0)
        chosen = {name: replay for name, replay in replays.items() if name == "stof" or first[name] <= CLOSE * best}
        for name, us in in_turns(chosen, REPLAYS).items():
            self.peers[name] |= {"median_us": us, "replays": REPLAYS}
        chosen = self.captured(chosen, lambda launch: cold(launch, self.sets))
        for name, us in in_turns(chosen, REPLAYS // 2).items():
            self.peers[name]["cold_us"] = us
        self.contenders.clear()
        self.sets.forget()
        torch.cuda.empty_cache()
        return {**self.facts, "peers": self.peers}


@torch.no_grad()
def work(channel, library_path, which, indices):
    """Prepares rows until the parent wants times, then times one whenever it is told to."""
    torch.cuda.set_device(0)
    library, every, rows = load(library_path), cases_of(*which), {}
    for index in indices:
        if channel.poll():  # time is over
            break
        try:
            rows[index] = Row(every[index], library)
        except Exception as error:
            print(f"{every[index]}: {type(error).__name__}: {error}", flush=True)
    channel.send(list(rows))
    while True:
        if (index := channel.recv()) != ENOUGH:
            channel.send(rows.pop(index).measure())


def environment():
    query = "--query-gpu=name,driver_version,clocks.sm,clocks.max.sm,clocks.mem,power.limit"
    name, driver, clock, most, memory, watts = subprocess.run(
        ["nvidia-smi", query, "--format=csv,noheader"], capture_output=True, text=True, check=True).stdout.splitlines()[0].split(", ")
    packages = {"torch": torch.__version__}
    from importlib.metadata import PackageNotFoundError, version
    for package in ("triton", "nvidia-cudnn-frontend", "flash-attn-4", "nvidia-cutlass-dsl", "nvidia-cudnn-cu13"):
        try:
            packages[package] = version(package)
        except PackageNotFoundError:
            pass
    return {"device": name, "driver": driver, "cuda": torch.version.cuda, "day": time.strftime("%Y-%m-%d", time.gmtime()),
            "clocks": {"sm_idle": clock, "sm_most": most, "memory": memory}, "power_limit": watts, "packages": packages}


def show(row):
    times = sorted((peer["median_us"], name) for name, peer in row["peers"].items() if "median_us" in peer)
    print(f"{row['id'][:52]:52} " + "  ".join(f"{name} {us:.1f}" for us, name in times[:6]), flush=True)
    for name, peer in row["peers"].items():
        if "failed" in peer:
            print(f"    {name}: {peer['failed'][:150]}", flush=True)


def told(channel, message, seconds):
    """What a worker answers; None when it ended or is late."""
    try:
        if message != "":
            channel.send(message)
        return channel.recv() if channel.poll(seconds) else None
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return None


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", default=str(Path(__file__).resolve().parents[2] / "build/release/libstof.so"))
    parser.add_argument("--out", required=True)
    parser.add_argument("--only", action="append", help="rows whose shape, dtype and kind of mask contain this text")
    parser.add_argument("--more", action="store_true", help="other shapes in place of those that have targets")
    parser.add_argument("--softcap", type=float, help="capped scores, on shapes of their own, beside FlexAttention")
    parser.add_argument("--seconds", type=float, default=240, help="until when rows are begun")
    parser.add_argument("--prepare-seconds", type=float, default=120, help="of these, until when more rows are compiled")
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    parser.add_argument("--commit", default="unknown", help="that the library was built from")
    parser.add_argument("--resume", action="store_true", help="rows that the file has are not measured again")
    return parser.parse_args()


def started(library, which, wanted, count):
    """Processes that prepare rows: of each its channel, itself, and the rows that it has."""
    context = multiprocessing.get_context("spawn")
    workers = []
    for i in range(count):
        mine, other = context.Pipe()
        process = context.Process(target=work, args=(other, library, which, wanted[i::count]), daemon=True)
        process.start()
        other.close()
        workers.append((mine, process, wanted[i::count]))
    return workers


def main():
    arguments = parsed()
    begin = time.monotonic()
    spent = lambda: time.monotonic() - begin  # noqa: E731
    head = {"command": "peers attention cuda", "commit": arguments.commit, **environment()}
    results = Results(arguments.out, head, arguments.resume, same=("commit", "device"))
    done = {(tuple(row["shape"]), row["dtype"], row["family"]) for row in results.data["rows"]}
    which = (arguments.more, arguments.softcap)
    every = cases_of(*which)
    wanted = [i for i, case in enumerate(every)
              if case.matches(arguments.only) and (case.shape, case.dtype, case.family) not in done]
    workers = started(arguments.library, which, wanted, min(arguments.workers, len(wanted)))
    waiting = []  # rows that are ready, by worker
    for channel, process, indices in workers:
        while not channel.poll(0.2) and process.is_alive() and spent() < arguments.prepare_seconds:
            pass
    for channel, process, indices in workers:
        if not channel.poll():
            try:
                channel.send(ENOUGH)
            except BrokenPipeError:
                continue
    for channel, process, indices in workers:
        ready = told(channel, "", 60)
        if ready is None:
            print(f"a worker ended without {[every[i].family for i in indices]}", flush=True)
            process.terminate()
            continue
        waiting += [(index, channel, process) for index in ready]
    print(f"{len(waiting)} of {len(wanted)} rows ready after {spent():.0f} s", flush=True)
    for index, channel, process in sorted(waiting, key=lambda row: row[0]):
        if spent() > arguments.seconds:
            break
        row = told(channel, index, 60)
        if row is None:
            print(f"row {index} was lost", flush=True)
            continue
        results.add(row)
        show(row)
    for channel, process, _ in workers:
        process.kill()
    results.write()
    print(f"{len(results.data['rows'])} rows, {spent():.0f} s", flush=True)


if __name__ == "__main__":
    main()
