#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Results to a Markdown table, and to one HTML page with plots.

    bench/report.py bench/results/FILE.json...                          the tables, on standard output
    bench/report.py FILE.json --into docs/benchmarks.md --mark NAME     between <!-- NAME --> and <!-- /NAME -->
    bench/report.py FILE.json... --html build/benchmarks.html           tables and plots, nothing else is needed
    bench/report.py PEERS.json --figure docs/figures/NAME.svg           one bar for each kind of mask
"""

import argparse
from html import escape
from pathlib import Path

from pasted import link, markdown, paste, read
from report_plots import plots, ratios_figure
from report_tables import conditions, table_of

STYLE = "body{font:14px sans-serif;margin:2em;max-width:75em}table{border-collapse:collapse}td,th{padding:2px 8px;\
border-bottom:1px solid #ddd;text-align:right}td:first-child,th:first-child{text-align:left}svg{margin:.5em}"


def measured(path):
    data = read(path)
    if not data.get("rows"):
        raise SystemExit(f"{path} has no rows")
    return data


def as_markdown(path, page=None):
    """The table, its summary, and where it comes from: a link when it stands in a page."""
    data = measured(path)
    head, rows, notes = table_of(data)
    source = link(path, page) if page else f"bench/results/{Path(path).name}"
    return "\n".join([f"{source}: {conditions(data)}", "", markdown(head, rows), *(f"* {note}" for note in notes)])


def as_html(path):
    data = measured(path)
    head, rows, notes = table_of(data)
    cells = lambda tag, row: "<tr>" + "".join(f"<{tag}>{escape(cell.replace('`', ''))}</{tag}>" for cell in row) + "</tr>"
    return "\n".join([f"<h2>{escape(data.get('command', Path(path).stem))}</h2>",
                      f"<p>{escape(Path(path).name)}, commit {escape(str(data.get('commit')))}: {escape(conditions(data))}</p>",
                      *(f"<p>{escape(note)}</p>" for note in notes), *plots(data),
                      "<table>", cells("th", head), *(cells("td", row) for row in rows), "</table>"])  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+")
    parser.add_argument("--html", help="write a page with tables and plots")
    parser.add_argument("--figure", help="write one picture: how much longer the best peer takes, by kind of mask")
    parser.add_argument("--into", help="a Markdown page whose text between two marks is replaced")
    parser.add_argument("--mark", default="table")
    arguments = parser.parse_args()
    if arguments.html:
        body = "\n".join(map(as_html, arguments.results))
        page = f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>STOF, measured</title><style>{STYLE}</style>'
        Path(arguments.html).parent.mkdir(parents=True, exist_ok=True)
        Path(arguments.html).write_text(f"{page}\n<h1>STOF, measured</h1>\n{body}\n</html>\n", encoding="utf-8")
    elif arguments.figure:
        data = measured(arguments.results[0])
        title = f"time of the best peer / time of STOF; attention, {data.get('processor') or data['device']}"
        Path(arguments.figure).write_text(ratios_figure(title, data["rows"]), encoding="utf-8")
    elif arguments.into:
        text = "\n".join(as_markdown(path, arguments.into) for path in arguments.results)
        paste(arguments.into, arguments.mark, text)
    else:
        print("\n".join(map(as_markdown, arguments.results)))


if __name__ == "__main__":
    main()
