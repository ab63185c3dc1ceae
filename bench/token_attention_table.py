#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the table of docs/kernels/token-attention.md: what stands between two products of a step, in one launch and in several.

usage: bench/token_attention_table.py TOKENS.json, which bench_token_attention writes
"""

from pasted import ROOT, link, markdown, paste, read, results_named

PAGE = ROOT / "docs/kernels/token-attention.md"
HEAD = ["heads", "texts", "keys", "mask", "one launch, predicted, us", "measured: hot / from memory, us", "several: hot / from memory, us", "several / one"]


def line_of(row):
    joined, apart = row["joined"], row["apart"]
    heads = f"{row['heads']}:{row['kv_heads']} of {row['head_dim']}" + (", normed" if row["norms"] else "")
    return [heads, str(row["texts"]), f"{row['keys']:,}", "`" + row["mask"].replace("|", "\\|") + "`", f"{row['predicted']['joined_us']:.1f}",
            f"{joined['hot_us']:.2f} / {joined['rotating_us']:.2f}", f"{apart['hot_us']:.2f} / {apart['rotating_us']:.2f}",
            f"{apart['hot_us'] / joined['hot_us']:.2f}"]  # fmt: skip


def main():
    [path] = results_named(__doc__)
    report = read(path)
    wrong = [row for row in report["rows"] if "wrong" in row]
    if wrong:
        raise SystemExit(f"{path}: {len(wrong)} rows have wrong results: no table")
    said = (f"{report['device']}, {report['dtype']}, driver {report['driver']}, of {report['commit']}: device time in a graph of {report['launches']} launches; from memory: "
            "caches of keys take turns, and other memory is written between replays.")  # fmt: skip
    paste(PAGE, "tokens", f"{link(path, PAGE)}: {said}\n\n{markdown(HEAD, map(line_of, report['rows']))}")


if __name__ == "__main__":
    main()
