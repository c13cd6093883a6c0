"""`h2h data PATH`: what a file or folder holds, and the command that trains on it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headtohead.cli.options import command_parser, parse
from headtohead.cli.terminal import out, say, show_table
from headtohead.files.user_paths import check_path

if TYPE_CHECKING:
    from rich.table import Table

    from headtohead.diagnostics.described_data import DataDescription

_EXAMPLES = """\
examples:
  h2h data reviews.csv          rows, columns, classes, the task that fits, and the command to train on it
  h2h data images/              a folder for each class
  h2h data book.txt --json
  h2h data export.csv data.encoding=latin-1

Nothing is trained or written. h2h study new NAME PATH writes a study of the same data.
"""
_MOST_CLASSES = 8
_LETTERS = 60


def run(arguments: Sequence[str]) -> int:
    parser = command_parser("data", "Show what a file or folder contains, and how to train on it.", _EXAMPLES)
    parser.add_argument("path", metavar="PATH", help="a file, or a folder of them")
    parser.add_argument(
        "reading",
        nargs="*",
        default=[],
        metavar="OVERRIDE",
        help="how a text or a table is read: data.encoding=latin-1, data.delimiter=..., data.column_names=[...]",
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.set_defaults(multirun=False)
    options = parse(parser, arguments)
    check_path(options.path, "")
    from headtohead.api.own_data import describe_data
    from headtohead.diagnostics.described_data import reading_options

    reading = reading_options(options.reading)
    described = describe_data(
        options.path,
        encoding=reading.encoding,
        delimiter=reading.delimiter,
        quoted=reading.quoted,
        column_names=reading.column_names,
    )
    if options.json:
        out(json.dumps(described.to_dict(), indent=2, ensure_ascii=False))
        return 0
    say(described.title)
    if described.columns:
        show_table(_columns(described))
    if described.classes:
        total = sum(described.classes.values())
        shares = [f"{name} {number / total:.1%}" for name, number in list(described.classes.items())[:_MOST_CLASSES]]
        left = len(described.classes) - len(shares)
        say(f"{len(described.classes):,} classes: {', '.join(shares)}" + (f" and {left:,} more" if left else ""))
    for remark in described.remarks:
        say(remark)
    out(described.command)
    return 0


def _columns(described: DataDescription) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(header_style="bold")
    for name in ("column", "kind", "distinct", "words", "first"):
        table.add_column(name)
    for column in described.columns:
        example = " ".join(column.example.split())[:_LETTERS]
        table.add_row(
            Text(column.name), column.kind, f"{column.distinct:,}", f"{column.words:.1f}", Text(example, style="dim")
        )
    return table
