# SPDX-License-Identifier: Apache-2.0
"""Text of a Markdown page that programs write, between <!-- NAME --> and <!-- /NAME -->."""

import re
from pathlib import Path


def paste(page, name, text):
    """Replaces what stands between the two marks of a page; ends the program when it has no such marks."""
    page = Path(page)
    marks = re.compile(rf"(<!-- {re.escape(name)} -->\n).*(<!-- /{re.escape(name)} -->)", re.DOTALL)
    before = page.read_text(encoding="utf-8")
    if not marks.search(before):
        raise SystemExit(f"{page} has no marks <!-- {name} --> and <!-- /{name} -->")
    after = marks.sub(lambda match: match[1] + text.rstrip("\n") + "\n" + match[2], before)
    page.write_text(after, encoding="utf-8")


def markdown(head, rows):
    """A table; cells are text."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
