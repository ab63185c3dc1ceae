# SPDX-License-Identifier: Apache-2.0
"""Masked attention on a GPU: STOF through its C API, FlexAttention, SDPA, FlashAttention 4 and cuDNN, in one process for
each row, on the same inputs and masks, in turns. Each output is checked against fp32 before it is timed; a peer that
fails or is not installed is recorded with its reason.

    python bench/peers/attention.py --library build/release/libstof.so --out results.json [--only TEXT]... [--resume]

Workers compile for several rows at a time; while one times a row, all others wait. On a machine with several GPUs each
measures a part of the rows (--part 1/4 with CUDA_VISIBLE_DEVICES=0, and so on) and bench/join_parts.py joins the files.
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
from attention_cases import biased_cases, cases_of, chunk_cases  # noqa: E402
from attention_row import Row  # noqa: E402
from cpu_run import Results  # noqa: E402
from drawn_cases import drawn_cases  # noqa: E402
from shares import dealt, part_of  # noqa: E402
from stof_library import load  # noqa: E402

ENOUGH = "enough"  # said to workers when no more rows are to be prepared


def asked_for(arguments):
    if arguments.drawn is not None:
        return drawn_cases(arguments.drawn, arguments.rows, arguments.chunks, arguments.kinds)
    if arguments.chunks:
        return chunk_cases()
    if arguments.bias:
        return biased_cases()
    return cases_of(arguments.more, arguments.softcap, arguments.head_dim)


def cases_said(arguments) -> dict:
    """Which cases were asked for, as results say it: of other ones a place is another row. So many drawn ones begin as fewer do."""
    said = {name: getattr(arguments, name) for name in ("more", "head_dim", "drawn", "kinds", "chunks", "softcap", "bias")}
    return {name: value for name, value in said.items() if value not in (None, False)}


@torch.no_grad()
def work(channel, arguments, indices):
    """Prepares rows until the parent wants times, then times one whenever it is told to."""
    torch.cuda.set_device(0)
    library, every, rows = load(arguments.library), asked_for(arguments), {}
    for index in indices:
        if channel.poll():  # time is over
            break
        try:
            rows[index] = Row(index, every[index], library, arguments.without)
        except Exception as error:
            print(f"{every[index]}: {type(error).__name__}: {error}", flush=True)
    channel.send(list(rows))
    while True:
        if (index := channel.recv()) != ENOUGH:
            channel.send(rows.pop(index).measure())


def environment():
    query = "--query-gpu=name,driver_version,clocks.sm,clocks.max.sm,clocks.mem,power.limit"
    used = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    name, driver, clock, most, memory, watts = subprocess.run(
        ["nvidia-smi", f"--id={used}", query, "--format=csv,noheader"], capture_output=True, text=True,
        check=True).stdout.strip().split(", ")  # fmt: skip
    packages = {"torch": torch.__version__}
    from importlib.metadata import PackageNotFoundError, version
    for package in ("triton", "nvidia-cudnn-frontend", "flash-attn-4", "nvidia-cutlass-dsl", "nvidia-cudnn-cu13",
                    "flashinfer-python"):
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


def started(lists, arguments):
    """A process for each list of rows, with the channel to it."""
    context = multiprocessing.get_context("spawn")
    workers = []
    for indices in filter(None, lists):
        mine, other = context.Pipe()
        process = context.Process(target=work, args=(other, arguments, indices), daemon=True)
        process.start()
        other.close()
        workers.append((mine, process, indices))
    return workers


def prepared(workers, deadline):
    """The rows that are ready, each with its worker's channel. After the deadline no more are begun."""
    for channel, process, _ in workers:
        while not channel.poll(0.2) and process.is_alive() and time.monotonic() < deadline:
            pass
    for channel, _, _ in workers:
        if not channel.poll():
            try:
                channel.send(ENOUGH)
            except BrokenPipeError:
                continue
    waiting = []
    for channel, process, indices in workers:
        ready = told(channel, "", 90)
        if ready is None:
            print(f"a worker ended without rows {indices}", flush=True)
            process.terminate()
            continue
        waiting += [(index, channel) for index in ready]
    return sorted(waiting, key=lambda row: row[0])


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", default=str(Path(__file__).resolve().parents[2] / "build/release/libstof.so"))
    parser.add_argument("--out", required=True)
    parser.add_argument("--only", action="append", help="rows whose shape, dtype and kind of mask contain this text")
    parser.add_argument("--more", action="store_true", help="other shapes in place of those that have targets")
    parser.add_argument("--head-dim", type=int, metavar="D", help="the shapes that have targets with this head dimension")
    parser.add_argument("--drawn", type=int, metavar="SEED", help="shapes and masks drawn by this number in their place")
    parser.add_argument("--kinds", choices=["more", "items"],
                        help="of masks that are drawn: those of more_families.py, or those that differ by item, in place of the usual ones")
    parser.add_argument("--rows", type=int, default=36, help="of those that are drawn")
    parser.add_argument("--chunks", action="store_true", help="queries at the end of more keys in place of whole texts; also of --drawn")
    parser.add_argument("--softcap", type=float, help="capped scores, on shapes of their own, beside FlexAttention")
    parser.add_argument("--bias", action="store_true",
                        help="relative biases, on shapes of their own, beside FlexAttention and SDPA with a tensor of all pairs")
    parser.add_argument("--without", nargs="+", default=[], metavar="NAME", help="peers whose names begin so are not asked")
    parser.add_argument("--part", type=part_of, default=(0, 1), metavar="I/N", help="of the rows, for one of N GPUs")
    parser.add_argument("--seconds", type=float, default=240, help="until when rows are begun")
    parser.add_argument("--prepare-seconds", type=float, default=120, help="of these, until when more rows are compiled")
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    parser.add_argument("--commit", default="unknown", help="that the library was built from")
    parser.add_argument("--resume", action="store_true", help="rows that the file has are not measured again")
    arguments = parser.parse_args()
    if arguments.kinds and arguments.drawn is None:
        parser.error("--kinds is of masks that are drawn; say --drawn SEED")
    return arguments


def main():
    arguments, begin = options(), time.monotonic()
    head = {"command": "peers attention cuda", "commit": arguments.commit, **environment(), "cases": cases_said(arguments)}
    results = Results(arguments.out, head, arguments.resume, same=("command", "commit", "device", "cases"))
    done = {row.get("place") for row in results.data["rows"]}
    every = asked_for(arguments)
    kinds, (number, parts) = [case.kind for case in every], arguments.part
    mine = dealt(kinds, [i for i, case in enumerate(every) if case.matches(arguments.only)], parts)[number]
    wanted = [i for i in mine if i not in done]
    workers = started(dealt(kinds, wanted, arguments.workers), arguments)
    waiting = prepared(workers, begin + arguments.prepare_seconds)
    print(f"{len(waiting)} of {len(wanted)} rows ready after {time.monotonic() - begin:.0f} s", flush=True)
    for index, channel in waiting:
        if time.monotonic() - begin > arguments.seconds:
            break
        row = told(channel, index, 90)
        if row is None:
            print(f"row {index} was lost", flush=True)
            continue
        results.add(row)
        show(row)
    for _, process, _ in workers:
        process.kill()
    results.write()
    print(f"{len(results.data['rows'])} rows, {time.monotonic() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
