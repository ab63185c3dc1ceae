# SPDX-License-Identifier: Apache-2.0
"""Text of a Markdown page that programs write, between <!-- NAME --> and <!-- /NAME -->, from files of results."""

import json
import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def results_named(usage, count=1):
    """The files that the command line names; where they are not so many, or one is an option, the usage ends the program."""
    names = sys.argv[1:]
    if len(names) != count or any(name.startswith("-") for name in names):
        sys.exit(usage.strip())
    return [Path(name) for name in names]


def read(path):
    """Ends the program where the file is not there or is not JSON."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        sys.exit(f"{path}: {error}")


def link(path, page):
    """A file of bench/results as the page links to it."""
    name = f"bench/results/{Path(path).name}"
    return f"[{name}]({os.path.relpath(ROOT / name, Path(page).resolve().parent)})"


def paste(page, name, text):
    """Replaces what stands between the two marks of a page; ends the program when it has no such marks."""
    page = Path(page)
    marks = re.compile(rf"(<!-- {re.escape(name)} -->\n).*(<!-- /{re.escape(name)} -->)", re.DOTALL)
    before = page.read_text(encoding="utf-8")
    if not marks.search(before):
        sys.exit(f"{page} has no marks <!-- {name} --> and <!-- /{name} -->")
    after = marks.sub(lambda match: match[1] + text.rstrip("\n") + "\n" + match[2], before)
    page.write_text(after, encoding="utf-8")


def markdown(head, rows):
    """A table; cells are text."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
