#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the masks of docs/masks.md again: every block that begins with '$ stof mask' and every image whose alternative
text is such a command. The arrays that the commands name are made here.

usage: draw_masks.py [--check] STOF   --check changes nothing; exit status 1 when a drawing is not what STOF draws
                                      either way, a term without a drawing is an error
"""

import html
import re
import shlex
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGE = DOCS / "masks.md"
BLOCK = re.compile(r"(```text\n\$ stof (mask [^\n]*)\n)(.*?)(```\n)", re.DOTALL)
IMAGE = re.compile(r'<img src="(masks/[\w-]+\.png)" width="\d+" alt="stof (mask [^"]*)">')


def write_array(path, descr, shape, values):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    content = struct.pack(f"<{len(values)}{'i' if descr == '<i4' else '?'}", *values)
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + content)


def make_arrays(folder):
    """What docs/masks.md says of them."""
    for size in (16, 1024):
        sieve = [i & j == j for i in range(size) for j in range(size)]
        write_array(folder / f"sieve{size}.npy", "|b1", (size, size), sieve)
        ids = [(0, 0, 0, 1, 1, 1, 1, -1, -1, 0, 0, 0, 2, 2, 2, -1)[i * 16 // size] for i in range(size)]
        write_array(folder / f"ids{size}.npy", "<i4", (size,), ids)
    table = (1, 0, 0, 1,
             1, 1, 0, 0,
             0, 1, 1, 0,
             1, 0, 1, 1)  # fmt: skip
    write_array(folder / "table.npy", "|b1", (4, 4), table)


def run(stof, command, folder, *more):
    arguments = [stof, *shlex.split(html.unescape(command)), *more]
    done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"draw_masks: stof {command}: {done.stderr.strip()}")
    return done.stdout


def drawing(stof, command, folder):
    """Without the report before it, whose times differ from run to run."""
    return "\n\n".join(run(stof, command, folder).split("\n\n")[2:])


def pixels(png):
    """The header and the filtered lines of a PNG, whatever its compression."""
    header, lines, at = b"", b"", 8
    while at < len(png):
        size, kind = struct.unpack_from(">I4s", png, at)
        data = png[at + 8 : at + 8 + size]
        header, lines = (data if kind == b"IHDR" else header), (lines + data if kind == b"IDAT" else lines)
        at += 12 + size
    return header, zlib.decompress(lines)


def stale_images(page, stof, folder, check):
    for name, command in IMAGE.findall(page):
        drawn, kept = folder / "mask.png", DOCS / name
        run(stof, command, folder, "--png", str(drawn))
        if kept.exists() and pixels(kept.read_bytes()) == pixels(drawn.read_bytes()):
            continue
        if not check:
            kept.parent.mkdir(exist_ok=True)
            kept.write_bytes(drawn.read_bytes())
        yield f"{name}: stof {command}"


def undrawn_terms(page, stof):
    """Those that a message lists as accepted and no drawing shows."""
    message = subprocess.run([stof, "mask", "x", "--seq", "1"], capture_output=True, text=True, check=False).stderr
    terms = re.search(r"unknown term 'x'; accepted: ([\w, ]+)", message)
    drawn = {word for block in BLOCK.findall(page) for word in re.findall(r"[a-z_]+", block[1])}
    return [term for term in terms[1].split(", ") if term not in drawn]


def main(arguments):
    check = arguments[:1] == ["--check"]
    if len(arguments) != 1 + check or arguments[-1].startswith("-"):
        sys.exit(__doc__.strip())
    stof = str(Path(arguments[-1]).resolve())
    page = PAGE.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_arrays(folder)
        redrawn = BLOCK.sub(lambda block: block[1] + drawing(stof, block[2], folder) + block[4], page)
        stale = list(stale_images(page, stof, folder, check))
    before, after = BLOCK.findall(page), BLOCK.findall(redrawn)
    stale += [f"stof {old[1]}" for old, drawn in zip(before, after) if old != drawn]
    undrawn = undrawn_terms(page, stof)
    if not check:
        PAGE.write_text(redrawn, encoding="utf-8")
    for what in stale:
        print(f"{'not what stof draws' if check else 'drawn'}: {what}")
    for term in undrawn:
        print(f"{PAGE.name} has no drawing of '{term}'")
    print(f"draw_masks: {len(before)} drawings, {len(IMAGE.findall(page))} images, {len(stale)} differed")
    return 1 if undrawn or (check and stale) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
