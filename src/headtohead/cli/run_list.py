"""`h2h list runs [PATH ...]`: the runs below folders, filtered, sorted, with the columns one asks for."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from headtohead.cli.options import command_parser, within
from headtohead.cli.terminal import note, out, paint
from headtohead.ranges import Limit
from headtohead.records.run_query import RESULT, as_text, check_columns, column_value, cut_to_cell, runs
from headtohead.records.run_summary import RunSummary

_COLUMNS = ("name", "seed", "status", RESULT, "step", "parameters", "started", "path")
_SHOWN = 100
"""Lines of a table where no --limit says another number."""
_EXAMPLES = """\
examples:
  h2h list runs                                          those below outputs, the newest first
  h2h list runs --where "status=finished d_model>=64"    a field's last part is enough: d_model for model.d_model
  h2h list runs --where "recall -status=failed" --sort test/loss --limit 10
  h2h list runs outputs/studies/norms --columns arm,seed,optimizer.lr,test/loss --csv > norms.csv
  h2h list runs --json | jq -r '.[] | select(.status == "interrupted") | .path'

--where takes conditions: FIELD=VALUE, also != < <= > >= and ~ (contains), where * stands for anything; or a text that
the name, arm, group, study, status, notes or tags of a run contain. A - in front negates one. All have to match.
"""


def run(arguments: Sequence[str]) -> int:
    parser = command_parser(
        "list runs", "List the runs below folders; records that have not changed are not read.", _EXAMPLES
    )
    parser.add_argument(
        "paths", nargs="*", metavar="PATH", default=["outputs"], help="folders of runs; default: outputs"
    )
    parser.add_argument("--where", metavar="FILTER", action="append", default=[], help="which runs, in words as below")
    parser.add_argument(
        "--sort", metavar="NAME", default="newest",
        help="newest, oldest, name, result, status, step, parameters, or a field; --sort=-FIELD from the largest down",
    )  # fmt: skip
    parser.add_argument("--columns", metavar="NAME,...", help=f"default: {','.join(_COLUMNS)}; any field of a run")
    parser.add_argument("--limit", metavar="N", type=within(Limit), help="the first N; 0 for all of them")
    parser.add_argument("--json", action="store_true", help="as JSON, a list of objects")
    parser.add_argument("--csv", action="store_true", help="as CSV")
    options = parser.parse_args(list(arguments))
    is_table = not (options.json or options.csv)
    limit = options.limit if options.limit is not None else _SHOWN + 1 if is_table else 0
    chosen = runs(options.paths, where=" ".join(options.where), sort=options.sort, limit=limit)
    columns = options.columns.split(",") if options.columns else None
    check_columns(chosen, columns or (), "--columns", options.paths)
    if options.json:
        _write_json(chosen, columns)
    elif options.csv:
        out(_csv(chosen, columns or _COLUMNS).rstrip("\n"))
    else:
        has_more = options.limit is None and len(chosen) > _SHOWN
        _show(chosen[:_SHOWN] if has_more else chosen, columns or _COLUMNS)
        if has_more:
            note(f"the first {_SHOWN}; --limit 0 shows all, --where fewer")
    return 0


def _write_json(chosen: Sequence[RunSummary], columns: Sequence[str] | None) -> None:
    """Write one run a line, so that no more than one is held as text."""
    out("[")
    for index, one in enumerate(chosen):
        content = {name: column_value(one, name) for name in columns} if columns else _whole(one)
        text = json.dumps(_valid(content), ensure_ascii=False, allow_nan=False)
        out(f"{text}," if index < len(chosen) - 1 else text)
    out("]")


def _whole(one: RunSummary) -> dict[str, Any]:
    """Return all fields but the configuration, of which --columns names what one wants."""
    names = (field.name for field in fields(one))
    return {name: getattr(one, name) for name in names if name not in ("sections", "latest")}


def _valid(value: Any) -> Any:
    """Return what JSON can hold: numbers that are not finite as text, as in the record."""
    if isinstance(value, dict):
        return {name: _valid(own) for name, own in value.items()}
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return value


def _csv(chosen: Sequence[RunSummary], columns: Sequence[str]) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for one in chosen:
        values = (column_value(one, name) for name in columns)
        writer.writerow(["" if value is None else as_text(value) for value in values])
    return text.getvalue()


def _show(chosen: Sequence[RunSummary], columns: Sequence[str]) -> None:
    if not chosen:
        note("no run matches")
        return
    lines = [[_cell(one, name) for name in columns] for one in chosen]
    widths = [max(len(cells[at]) for cells in (columns, *lines)) for at in range(len(columns))]
    for number, cells in enumerate((columns, *lines)):
        line = "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()
        out(line if number else paint(line, "1", sys.stdout))


def _cell(one: RunSummary, name: str) -> str:
    if name == "started" and one.started:
        return one.started[:16].replace("T", " ")
    value = column_value(one, name)
    if value is None:
        return "-"
    return f"{value:.5g}" if isinstance(value, float) else cut_to_cell(" ".join(as_text(value).split()))
