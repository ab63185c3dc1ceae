# SPDX-License-Identifier: Apache-2.0
"""Vectors of many texts, a batch a call: Python hears of signals, Ctrl-C for one, between calls of the library only."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

from stof import c_library
from stof.arrays import floats
from stof.library import library

_SIZE = ctypes.sizeof(c_library.Embeddings)


def embed_in_batches(session: c_library.P, tokens: c_library.Tokens, options: c_library.EmbedOptions, columns: int, rows: Sequence[int]) -> Any:
    """What one call would give, bit for bit, with so many `rows` for each text: those of similar length run together."""
    library().embed(session, tokens, options, c_library.Embeddings(_SIZE))  # says what is wrong, by the texts' own numbers
    first = list(accumulate(rows, initial=0))
    values, address = floats(first[-1], columns)
    _, offsets = tokens.kept
    order = sorted(range(len(rows)), key=lambda text: offsets[text] - offsets[text + 1])  # the longest first, equal ones as they come
    for begin in range(0, len(order), options.batch):
        together = order[begin : begin + options.batch]
        count = sum(rows[text] for text in together)
        kept, at = floats(count, columns)
        to = c_library.Embeddings(_SIZE, at, count * columns)
        library().embed(session, c_library.some_of(tokens, together), options, to)
        for text in together:
            size = 4 * columns * rows[text]
            ctypes.memmove(address + 4 * columns * first[text], at, size)
            at += size
        del kept  # which had to live until here
    return values


def tokens_of(session: c_library.P, texts: c_library.Texts, options: c_library.EmbedOptions, info: c_library.SessionInfo) -> tuple[c_library.Tokens, int]:
    """Of texts, and how many were cut."""
    ids, offsets, cut = library().tokens_of(session, texts, info.max_tokens)
    refused = (cut and options.refuse_long) or max(ids, default=0) >= info.vocabulary
    if refused or any(begin == end for begin, end in pairwise(offsets)):
        library().embed(session, texts, options, c_library.Embeddings(_SIZE))  # which says so in its own words
    return c_library.tokens_in(ids, offsets), cut
