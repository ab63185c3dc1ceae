# SPDX-License-Identifier: Apache-2.0
"""Plots of results as SVG: lines over a logarithmic length, and bars of ratios."""

import math
import re
from html import escape

import report_gpu
from report_values import is_ours, ratio, time_of

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, LEGEND = 460, 280, 60, 34, 28, 150
COLOURS = ["#0b6", "#06c", "#c30", "#939", "#b80", "#555", "#0aa", "#a05"]


class Axis:
    """A logarithmic axis over the values, from `low` to `high` in points."""

    def __init__(self, values, low, high):
        self.least, self.most = math.log10(min(values)), math.log10(max(values))
        if self.most - self.least < 0.3:
            self.least, self.most = self.least - 0.15, self.most + 0.15
        self.low, self.high = low, high

    def at(self, value):
        return self.low + (math.log10(value) - self.least) / (self.most - self.least) * (self.high - self.low)

    def decades(self):
        """1, 2 and 5 times powers of ten, as few as fit."""
        ticks = [m * 10.0**e for e in range(math.floor(self.least), math.ceil(self.most) + 1) for m in (1, 2, 5)]
        inside = [tick for tick in ticks if self.least <= math.log10(tick) <= self.most]
        return [tick for tick in inside if len(inside) < 8 or f"{tick:e}"[0] == "1"] or inside


def text(x, y, what, anchor="middle", size=11):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(what)}</text>'


def line_plot(title, series, unit):
    """series: {name: [(length, value)]}"""
    points = [point for values in series.values() for point in values]
    if not points:
        return ""
    x = Axis([p[0] for p in points], LEFT, WIDTH - LEGEND)
    y = Axis([p[1] for p in points], HEIGHT - BOTTOM, TOP)
    out = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}">', text(LEFT, 16, title, "start", 13)]
    for tick in y.decades():
        out.append(f'<path d="M{LEFT} {y.at(tick):.1f}H{WIDTH - LEGEND}" stroke="#ddd"/>')
        out.append(text(LEFT - 5, y.at(tick) + 4, f"{tick:g}", "end"))
    for length in sorted({p[0] for p in points}):
        out.append(text(x.at(length), HEIGHT - BOTTOM + 16, str(length)))
    out.append(text((LEFT + WIDTH - LEGEND) / 2, HEIGHT - 4, f"length; {unit}"))
    for i, (name, values) in enumerate(series.items()):
        colour = COLOURS[i % len(COLOURS)]
        path = " ".join(f"{x.at(a):.1f},{y.at(b):.1f}" for a, b in sorted(values))
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{3 if is_ours(name) else 1.5}"/>')
        out += [f'<circle cx="{x.at(a):.1f}" cy="{y.at(b):.1f}" r="2.5" fill="{colour}"/>' for a, b in values]
        out.append(f'<rect x="{WIDTH - LEGEND + 8}" y="{TOP + 16 * i}" width="10" height="10" fill="{colour}"/>')
        out.append(text(WIDTH - LEGEND + 22, TOP + 16 * i + 9, name[:22], "start"))
    return "\n".join([*out, "</svg>"])


def bar_plot(title, bars, mark):
    """bars: [(name, value)]; a line at the value that counts as equal."""
    if not bars:
        return ""
    height, widest = 18, max([mark, *(value for _, value in bars)])
    names, width = 300, 320
    total = TOP + height * len(bars) + 10
    out = [f'<svg viewBox="0 0 680 {total}" width="680" height="{total}">', text(4, 16, title, "start", 13)]
    for i, (name, value) in enumerate(bars):
        top, long = TOP + height * i, value / widest * width
        colour = "#0b6" if value >= mark else "#c30"
        out.append(text(names - 6, top + 12, name if len(name) < 46 else name[:43] + "...", "end"))
        out.append(f'<rect x="{names}" y="{top + 2}" width="{long:.1f}" height="{height - 5}" fill="{colour}"/>')
        out.append(text(names + long + 4, top + 12, f"{value:.2f}", "start"))
    at = names + mark / widest * width
    out.append(f'<path d="M{at:.1f} {TOP}V{total - 8}" stroke="#000" stroke-dasharray="3 3"/>')
    return "\n".join([*out, "</svg>"])


def family_of(row):
    """A short name for all rows whose mask is of one kind."""
    kind = row.get("family") or re.split(r"[ (,]", row["mask"].replace("documents(", "documents ("))[0]
    return f"{kind}, d 128" if row["shape"][3] == 128 else kind


def ratios_figure(title, rows):
    """For each kind of mask the geometric mean of best peer / STOF over its rows, and a line from the least to the most."""
    found = {}
    for row in rows:
        if ratio(row):
            found.setdefault(family_of(row), []).append(ratio(row))
    height, names, width = 20, 150, 420
    widest = max(1, *(max(values) for values in found.values()))
    total = TOP + height * len(found) + 26
    at = lambda value: names + value / widest * width  # noqa: E731
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 {total}" width="640" height="{total}" font-family="sans-serif">',
           '<rect width="100%" height="100%" fill="#fff"/>', text(10, 18, title, "start", 13)]  # fmt: skip
    for i, (name, values) in enumerate(sorted(found.items(), key=lambda item: ("d 128" in item[0], item[0]))):
        top, mean = TOP + height * i, math.exp(sum(map(math.log, values)) / len(values))
        colour = COLOURS[0] if mean >= 1 else COLOURS[2]
        out.append(text(names - 6, top + 14, name, "end"))
        out.append(f'<rect x="{names}" y="{top + 3}" width="{at(mean) - names:.1f}" height="{height - 6}" fill="{colour}"/>')
        out.append(f'<path d="M{at(min(values)):.1f} {top + 10}H{at(max(values)):.1f}" stroke="#000"/>')
        out.append(text(names + width + 10, top + 14, f"{mean:.2f}", "start"))
    out.append(f'<path d="M{at(1):.1f} {TOP}V{total - 24}" stroke="#000" stroke-dasharray="3 3"/>')
    out.append(text(at(1), total - 8, "best peer = 1"))
    return "\n".join([*out, "</svg>\n"])


def times_of(row):
    """{name: ms}"""
    if "peers" in row:
        return {name: time_of(peer) * 1e-3 for name, peer in row["peers"].items() if time_of(peer)}
    return {f"stof {row['dtype']}": row["hot"]["median_us"] * 1e-3}


def gpu_plots(rows, device):
    """Time against length for each kind of mask; the ratio to the best peer; the share of the floor."""
    found = [line_plot(title, lines, "ms") for title, lines in report_gpu.series(rows).items()]
    name = lambda row: report_gpu.named(row).replace("`", "")  # noqa: E731
    found.append(bar_plot("time of the best peer / time of STOF", [(name(row), ratio(row)) for row in rows], 1))
    shares = [(name(row), report_gpu.floor_us(row, device) / time_of(row["peers"]["stof"])) for row in rows]
    found.append(bar_plot("share of the floor: what memory, matmul or exponentials must take / time", shares, 1))
    return found


def plots(data):
    """Time against length for each mask and head dimension; the ratio to the best peer; the share of the floor."""
    rows, found = data["rows"], []
    if {"peers", "family", "shape"} <= rows[0].keys():
        return gpu_plots(rows, data.get("device", ""))
    groups = {}
    for row in rows:
        if "mask" in row and len(row.get("shape", [])) == 4 and ("peers" in row or "hot" in row):
            batch, heads, length, dim = row["shape"]
            mask = "documents" if row["mask"].startswith("documents(") else row["mask"]
            series = groups.setdefault((mask, batch, heads, dim), {})
            for name, value in times_of(row).items():
                series.setdefault(name, []).append((length, value))
    for (mask, batch, heads, dim), series in groups.items():
        found.append(line_plot(f"{mask}: batch {batch}, {heads} heads, d {dim}", series, "ms"))
    compared = [(row["id"], ratio(row)) for row in rows if "peers" in row and ratio(row)]
    found.append(bar_plot("time of the best peer / time of STOF, fp32", compared, 1))
    shares = [(row["id"], row["floor"]["us"] / row["hot"]["median_us"]) for row in rows if row.get("floor")]
    found.append(bar_plot("share of the floor: what the machine's matmul or memory must take / time", shares, 1))
    return [plot for plot in found if plot]
