# SPDX-License-Identifier: Apache-2.0
"""What the tables and plots take from a row of results: times of contenders, ratios between them, numbers as text."""

import math


def number(value, digits=3):
    """So many significant digits, no exponent."""
    if value == 0:
        return "0"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{places}f}"


def milliseconds(us):
    return number(us * 1e-3)


def is_ours(name):
    """stof_rows: of chunks in pages, the same keys in rows. stof_two, stof_device: of steps of a server, by two calls, and by
    lists on the device. stof_causal: a causal chunk as large as draft trees are. stof_unbiased: the same problem without its bias."""
    return name.split()[0] in ("stof", "stof_rows", "stof_two", "stof_device", "stof_causal", "stof_unbiased")


def is_bf16(name):
    return "bf16" in name.split()


def time_of(peer):
    """Microseconds; None for a contender that was not timed."""
    return peer.get("median_us", 1e6 * peer["seconds"] if "seconds" in peer else None)


def best_peer(row, bf16):
    times = {name: time_of(peer) for name, peer in row["peers"].items() if not is_ours(name) and is_bf16(name) == bf16}
    times = {name: us for name, us in times.items() if us is not None}
    return min(times.items(), key=lambda item: item[1]) if times else None


def own(row, bf16):
    for name in ("stof bf16",) if bf16 else ("stof", "stof f32"):
        if name in row["peers"]:
            return time_of(row["peers"][name])
    return None


def ratio(row, bf16=False):
    """How many times longer the best peer takes; None without both."""
    peer, ours = best_peer(row, bf16), own(row, bf16)
    return peer[1] / ours if peer and ours else None
