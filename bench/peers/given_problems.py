# SPDX-License-Identifier: Apache-2.0
"""Builds and problems of bench/peers/builds.py, as they are given. Of problems a line each:

    BATCHxQUERIESxKEYS [page=16|64|128] heads=H[:KEY_HEADS] d=D [f16|bf16] MASK

Queries are those of the last positions, masks those of masks.py; without a page keys lie in rows, and f16 is what nobody says.
Lines that are empty or begin with # say nothing.
"""
from __future__ import annotations

import argparse
import re

import masks
from decode_case import Problem

LINE = re.compile(r"(\d+)x(\d+)x(\d+) (?:page=(16|64|128) )?heads=(\d+)(?::(\d+))? d=(\d+) (?:(f16|bf16) )?(\S.*)")


def problem_of(line: str) -> Problem:
    """Raises ValueError that names the line."""
    found = LINE.fullmatch(line.strip())
    if not found:
        raise ValueError(f"problem {line!r}; accepted: BATCHxQUERIESxKEYS [page=16|64|128] heads=H[:KEY_HEADS] d=D [f16|bf16] MASK")
    batch, queries, keys, page, heads, kv_heads, d, dtype, text = found.groups()
    if not 0 < int(queries) <= int(keys):
        raise ValueError(f"problem {line!r}: {queries} queries over {keys} keys; accepted: as many at most, of the last positions")
    return Problem(int(batch), int(keys), int(page or 0), masks.named(text, int(keys)), heads=int(heads),
                   kv_heads=int(kv_heads or heads), head_dim=int(d), dtype=dtype or "f16", queries=int(queries))  # fmt: skip


def problems_in(text: str) -> list[tuple[str, Problem]]:
    """Each with its line."""
    return [(line.strip(), problem_of(line)) for line in text.splitlines() if line.strip() and not line.startswith("#")]


def build_of(text: str) -> tuple[str, str, str | None]:
    """"after=libstof.so:band_attention": its name, its library and the kernel, if one is named."""
    name, _, rest = text.partition("=")
    path, _, kernel = rest.partition(":")
    if not (name and path):
        raise argparse.ArgumentTypeError(f"{text} is no build; say NAME=LIBRARY or NAME=LIBRARY:KERNEL")
    return name, path, kernel or None
