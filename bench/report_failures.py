# SPDX-License-Identifier: Apache-2.0
"""Peers that failed or were wrong, as tables of attention on a GPU and on a CPU, and of whole models, name them."""

import re

COLOURS = re.compile(r"\x1b?\[\d+m")
NUMBERS = re.compile(r"[\d.]+e[-+]\d+|(?<=\[)[\d, ]+(?=\])|\b\d{3,}\b")  # that differ from row to row
WORDS = 60  # letters of a reason


def reason_of(failed):
    text = NUMBERS.sub("...", COLOURS.sub("", (failed.splitlines() or [""])[0]))
    whole = text if len(text) <= WORDS else text[:WORDS].rsplit(" ", 1)[0]
    return whole.rstrip(" :(").replace("|", "\\|").replace("<", "&lt;")


def failures(rows):
    """Who was asked and failed, or was wrong, in how many rows, and why, in short: a peer without a time cannot be the best."""
    found = {}
    for row in rows:
        for name, peer in row["peers"].items():
            if "failed" in peer:
                names = found.setdefault(reason_of(peer["failed"]), {})
                names[name] = names.get(name, 0) + 1
    told = [", ".join(f"{name} {count}" for name, count in sorted(names.items())) + f" ({why})" for why, names in found.items()]
    return [f"failed or wrong in so many of the {len(rows)} rows: {'; '.join(told)}"] if told else []
