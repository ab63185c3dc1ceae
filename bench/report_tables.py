# SPDX-License-Identifier: Apache-2.0
"""Results to tables: one function for each kind of file under bench/results/. Each returns (head, rows, notes), all text."""

import math

import report_calls
import report_chunks
import report_decode
import report_generate
import report_gpu
import report_steps
import report_trees
from gpu_rates import H200_COPY_TB_PER_S, copy_rate
from report_failures import failures
from report_values import best_peer, is_bf16, is_ours, milliseconds, number, own, ratio, time_of

# What statistics and packing together may take, us.
PLAN_WANTED = {
    "causal": 1000,
    "window(512)": 1000,
    "longformer(512,512)": 1000,
    "bigbird(64,3,2,3,1)": 1000,
    "causal & window(4096)": 20000,
    "bits, 5 % at random": 60000,
}


def shown(mask):
    return f"`{mask}`" if len(mask) < 40 else f"`{mask.split('(')[0]}(...) & causal`" if mask.endswith("causal") else f"`{mask[:36]}...`"


def summaries(rows, kinds):
    """Geometric mean and the least of the ratios of each kind, {its name: whether it is bf16}, in words."""
    notes = []
    for kind, bf16 in kinds.items():
        ratios = [(ratio(row, bf16), row["id"]) for row in rows if ratio(row, bf16)]
        if ratios:
            mean = math.exp(sum(math.log(value) for value, _ in ratios) / len(ratios))
            least, where = min(ratios)
            begin = f"{kind}: " if kind else ""
            notes.append(f"{begin}best peer / STOF, geometric mean {mean:.2f}, least {least:.2f} ({where})")
    return notes


def gflops(row):
    """Of STOF in fp32, over allowed pairs; None where that has no time."""
    batch, heads, length, dim = row["shape"]
    us = own(row, False)
    return 4e-3 * batch * heads * length * length * dim * row["density"] / us if us else None


SHARES = {"beside": "of the matmul beside it", "median": "of the best matmul", "fastest": "its fastest call"}


def shares_of_peak(row, roofline, dtype):
    """Of the operations per second of the machine's fastest matmul: of the same moments, as calls were paired with it, and
    of its best call of the run, by the median call and by the fastest. Without what is not known."""
    peer = row["peers"].get(f"stof {dtype}", {})
    if not roofline or "gflop" not in peer:
        return {}
    ideal = 1e6 * peer["gflop"] / roofline[f"matmul_{dtype}_gflops"]
    beside = {"beside": peer["share_of_matmul_beside"]} if "share_of_matmul_beside" in peer else {}
    return {**beside, "median": ideal / time_of(peer), "fastest": ideal / peer["best_us"]}


def contenders(rows):
    """Names as they stand in results, STOF's first and bf16 last."""
    return sorted({name for row in rows for name in row["peers"]}, key=lambda name: (not is_ours(name), is_bf16(name), name))


def cell(value, form=number):
    return form(value) if value else ""


def attention_peers_table(data):
    """A row a problem, a column a contender."""
    rows, names, table = data["rows"], contenders(data["rows"]), []
    for row in rows:
        times = [time_of(row["peers"].get(name, {})) for name in names]
        fp32, bf16 = own(row, False), own(row, True)
        table.append([f"({','.join(map(str, row['shape']))}) {shown(row['mask'])}", *(cell(us, milliseconds) for us in times),
                      cell(ratio(row)), cell(gflops(row)), cell(fp32 and bf16 and fp32 / bf16)])  # fmt: skip
    head = ["problem", *(f"{name}, ms" for name in names), "best peer / STOF", "GFLOP/s", "fp32 / bf16"]
    return head, table, summaries(rows, {"fp32": False, "bf16": True}) + failures(rows)


def without_dtype(name):
    return " ".join(word for word in name.split() if word not in ("f32", "bf16"))


def models_table(data):
    """A row for each problem in each dtype, a column a contender; dtypes where names say them."""
    rows = data["rows"]
    dtypes = {word for name in contenders(rows) for word in name.split()} & {"f32", "bf16"}
    kinds = {dtype: dtype == "bf16" for dtype in sorted(dtypes, reverse=True)} or {"": False}
    names = list(dict.fromkeys(map(without_dtype, contenders(rows))))
    shares = {(row["id"], dtype): shares_of_peak(row, data.get("roofline"), dtype) for dtype in dtypes for row in rows}
    columns = [share for share in SHARES if any(share in found for found in shares.values())]
    table = []
    for dtype, bf16 in kinds.items():
        for row in rows:
            of = {without_dtype(name): time_of(peer) for name, peer in row["peers"].items() if is_bf16(name) == bf16}
            line = [row["id"], *([dtype] if dtype else []), *(cell(of.get(name), milliseconds) for name in names),
                    cell(ratio(row, bf16))]  # fmt: skip
            found = shares[row["id"], dtype] if dtype else {}
            table.append(line + [f"{found[share]:.2f}" if share in found else "" for share in columns])
    head = ["problem", *(["dtype"] if dtypes else []), *(f"{name}, ms" for name in names), "best peer / STOF",
            *(SHARES[share] for share in columns)]  # fmt: skip
    return head, table, summaries(rows, kinds) + settings(rows) + failures(rows)


def settings(rows):
    """Of contenders that were measured at several, which of them stands where."""
    chosen = {}
    for row in rows:
        for name, peer in row["peers"].items():
            if "setting" in peer:
                chosen.setdefault((without_dtype(name), peer["setting"]), []).append(
                    f"{row['id']} {'bf16' if is_bf16(name) else 'f32'}")  # fmt: skip
    return [f"{name}, {setting}: {'; '.join(where)}" for (name, setting), where in sorted(chosen.items())]


def bench_attention_table(data):
    """`stof bench attention`."""
    head = ["problem", "dtype", "density", "touched", "kernel", "predicted us", "us", "cold us", "GFLOP/s", "x floor", "error"]
    table = []
    for row in data["rows"]:
        median, floor = row["hot"]["median_us"], row.get("floor")
        table.append([f"({','.join(map(str, row['shape']))}) {shown(row['mask'])}", row["dtype"],
                      f"{100 * row['density']:.1f} %", f"{100 * row['touched']:.1f} %", row["kernel"],
                      number(row["predicted_us"]), number(median),
                      number(row["cold"]["median_us"]) if row.get("cold") else "", number(row["useful_gflops"]),
                      f"{median / floor['us']:.2f}" if floor else "", f"{row['frobenius']:.1e}"])  # fmt: skip
    return head, table, []


def bench_model_table(data):
    """`stof bench model`."""
    table = []
    for row in data["rows"]:
        result = ""
        if "sentences_per_s" in row:
            result = f"{row['sentences_per_s']:.0f} sentences/s"
        if "seconds" in row:
            result = f"{row['seconds']:.3f} s, {row['megabytes']:.0f} MB"
            if "compiled" in row:
                result += f", {row['measured']} measured, {row['compiled']} compiled"
        if "share_of_matmul_peak" in row:
            beside = f"{row['share_of_matmul_beside']:.2f} of the matmul beside it, " if "share_of_matmul_beside" in row else ""
            result = f"{row['gflops']:.0f} GFLOP/s, {beside}{row['share_of_matmul_peak']:.2f} of the best matmul"
        table.append([row["id"], milliseconds(row["median_us"]) if "median_us" in row else "", result])
    return ["what", "ms", "result"], table, []


def plan_table(data):
    """bench_plan."""
    whole = all("whole_us" in row for row in data["rows"])
    head = ["mask", "length", "bind", "statistics", "packing", "both", "median of both", "wanted"]
    head += ["plans", "choice", "whole plan", "its median"] if whole else []
    table = []
    for row in data["rows"]:
        bind, stats, pack = row["bind_us"], row["stats_us"], row["pack_us"]
        times = (bind["best"], stats["best"], pack["best"], stats["best"] + pack["best"], stats["median"] + pack["median"])
        wanted = PLAN_WANTED.get(row["mask"])
        mask = row["mask"].replace("|", "\\|")
        cells = [f"`{mask}`", f"{row['length']:,}", *(f"{us:,.0f}" for us in times), f"{wanted:,}" if wanted else ""]
        if whole:
            times = (row["choice_us"]["best"], row["whole_us"]["best"], row["whole_us"]["median"])
            cells += [f"{row['considered']:,}", *(f"{us:,.0f}" for us in times)]
        table.append(cells)
    return head, table, []


def device_plan_table(data):
    """bench_device_plan."""
    head = ["table", "limit", "length", "heads", "MB", "steps", "median us", "TB/s of the table"]
    table = []
    for row in data["rows"]:
        megabytes, median = row["table_bytes"] / 1e6, row["median_us"]
        table.append([row["table"], f"`{row['limit']}`", f"{row['queries']:,}", f"{row['heads']}", f"{megabytes:,.1f}",
                      f"{row['steps']:,}", f"{median:,.1f}", f"{megabytes / median:,.2f}"])  # fmt: skip
    return head, table, []


def variants_table(data):
    """bench/cuda: the best variant of each problem; its floors are an H200's whatever it ran on."""
    best, slower = {}, H200_COPY_TB_PER_S / copy_rate(data.get("device", ""))
    for row in data["rows"]:
        if row["passed"] and row["burst_us"] > 0:
            known = best.get(row["problem"])
            if known is None or row["burst_us"] < known["burst_us"]:
                best[row["problem"]] = row
    head = ["problem", "burst us", "steady us", "x DRAM floor", "TFLOP/s", "worst row", "variant"]
    table = [[row["problem"], f"{row['burst_us']:.2f}", f"{row['steady_us']:.2f}",
              f"{row['burst_us'] / (row['dram_floor_us'] * slower):.2f}", f"{row['tflops']:.0f}", f"{row['worst_row']:.1e}",
              row["variant"]] for row in best.values()]  # fmt: skip
    return head, table, []


def table_of(data):
    """By what the rows hold."""
    first = data["rows"][0]
    if "regrets" in data:
        return report_gpu.regret_table(data)
    if "steps" in data:
        return report_steps.steps_table(data)
    command = data.get("command", "")
    if command.startswith(tuple(f"peers {name} " for name in report_calls.OF_VECTORS)):
        return report_calls.vectors_table(data)
    if command.startswith("peers continuous "):
        return report_calls.continuous_table(data)
    if "generated" in data:
        return report_generate.generate_table(data)
    if "trees" in data:
        return report_trees.trees_table(data)
    if "chunks" in data:
        return report_chunks.chunks_table(data)
    if "page_size" in first:
        return report_decode.decode_table(data)
    if "peers" in first and "family" in first:
        return report_gpu.peers_table(data)
    if "peers" in first:
        return attention_peers_table(data) if "density" in first else models_table(data)
    for key, function in (("hot", bench_attention_table), ("pack_us", plan_table), ("table_bytes", device_plan_table),
                          ("burst_us", variants_table), ("id", bench_model_table)):  # fmt: skip
        if key in first:
            return function(data)
    raise SystemExit(f"no table for rows with {', '.join(first)}")


def conditions(data):
    """What was measured on, in a line."""
    parts = [data.get("processor") or data.get("device", "")]
    if "driver" in data:
        parts = [data["device"], f"driver {data['driver']}", f"CUDA {data['cuda']}"]
    elif "threads" in data:
        parts.append(f"{data['threads']} thread{'s' if data['threads'] != 1 else ''}")
    if data.get("day"):
        parts.append(f"of {data['day']}")
    if data.get("runs"):
        parts.append(f"best and median of {data['runs']} runs")
    if clocks := data.get("clocks"):
        parts.append(f"at most {clocks['sm_most']}, memory {clocks['memory']}, {data['power_limit']}")
    if data.get("clock"):
        parts.append(f"at most {data['clock']}")
    if "driver" in data:
        parts.append(f"commit {data['commit']}")
    elif data.get("load") is not None:
        parts.append(f"load {data['load']:.1f}")
    if roofline := data.get("roofline"):
        parts.append(f"matmul at best {roofline['matmul_f32_gflops']:.0f} GFLOP/s in fp32 and "
                     f"{roofline['matmul_bf16_gflops']:.0f} in bf16, copies {roofline['copy_gb_s']:.0f} GB/s")  # fmt: skip
    if data.get("packages"):
        parts.append(", ".join(f"{name} {version}" for name, version in data["packages"].items()))
    return "; ".join(part for part in parts if part) + "."
