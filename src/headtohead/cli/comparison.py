"""`h2h compare PATH ...`: the records at or below some folders, one line each, or one arm's verdict against another."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headtohead.building.errors import ConfigurationError, unknown
from headtohead.cli.arguments import parser
from headtohead.cli.terminal import error_line, out, show_table

if TYPE_CHECKING:
    from headtohead.tracking.record import RunRecord


def run(arguments: Sequence[str]) -> int:
    taken = parser("compare", "Put records side by side: result, baseline, costs, speed, status.")
    taken.add_argument("paths", nargs="*", metavar="PATH", default=["outputs"], help="run folders, or folders of them")
    taken.add_argument("--metric", metavar="NAME", help="for example accuracy; default: what each run was selected by")
    taken.add_argument("--against", metavar="NAME", help="verdicts: every arm, or name, against this one")
    taken.add_argument("--margin", type=float, help="with --against: the smallest difference that matters")
    taken.add_argument("--where", action="store_true", help="also where each record and its W&B files are")
    taken.add_argument("--json", action="store_true", help="as JSON")
    given = taken.parse_args(list(arguments))

    from headtohead.comparing.table import as_data, as_table, lines_of, whereabouts
    from headtohead.tracking.store import scan

    for path in given.paths:
        if not Path(path).exists():
            raise ConfigurationError(f"{path} does not exist: give a run's folder, or one above it such as outputs")
    records = [r for path in given.paths for r in scan(path, on_error=lambda error: error_line(str(error)))]
    if not records:
        raise ConfigurationError(f"{' '.join(given.paths)} holds no record: h2h train makes one")
    if given.against:
        return _contest(records, given)
    lines = lines_of(records, metric=given.metric)
    if given.metric and all(line.value is None for line in lines):
        names = {name for record in records for results in record.metrics.values() for name in results}
        raise ConfigurationError(unknown(f"no record holds the metric {given.metric}", given.metric, sorted(names)))
    if given.json:
        out(json.dumps(as_data(lines), indent=2))
    else:
        show_table(as_table(lines))
        if given.where:
            show_table(whereabouts(lines))
    return 0


def _contest(records: Sequence[RunRecord], given: Namespace) -> int:
    from headtohead.comparing.contest import contest_of, contest_table

    contest = contest_of(records, given.against, metric=given.metric, margin=given.margin)
    if given.json:
        out(json.dumps([verdict.as_data() for verdict in contest.verdicts], indent=2, allow_nan=False))
        return 0
    show_table(contest_table(contest))
    for verdict in contest.verdicts:
        out(verdict.sentence)
    for remark in contest.remarks:
        out(remark)
    return 0
