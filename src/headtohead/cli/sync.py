"""`h2h sync`: uploads what the W&B server has not seen yet, once, and says what it did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from headtohead.cli.options import command_parser, parse, within
from headtohead.cli.terminal import error_line, note, say
from headtohead.ranges import Seconds

_EXAMPLES = """\
examples:
  h2h sync                                    all below outputs/
  h2h sync outputs/studies/demo               those of a study
  h2h sync outputs/default/RUN                one run
  h2h sync --dry-run                          say what would be uploaded

A run that was offline, or whose server failed before the last step had arrived, is uploaded from W&B's files in its
folder, under its own id; nothing is sent a second time. Rows, tables and pictures that are missing from these files,
for instance after a full disk, are added from metrics.csv and the run's folder.

exit code: 0 uploaded, 1 something could not be uploaded, 2 refused
"""


def run(arguments: Sequence[str]) -> int:
    parser = command_parser("sync", "Upload the runs that W&B's server does not have, or has only in part.", _EXAMPLES)
    parser.add_argument("paths", nargs="*", default=[], metavar="PATH", help="folders of runs; default: outputs")
    parser.add_argument("--dry-run", action="store_true", help="upload nothing")
    parser.add_argument(
        "--timeout",
        type=within(Seconds),
        default=300.0,
        metavar="SECONDS",
        help="the longest that one run may take; default 300",
    )
    parser.set_defaults(multirun=False)
    options = parse(parser, arguments)
    from headtohead.api.syncing import Synced, SyncedRun, synced_runs

    show: dict[str, Callable[[SyncedRun], None]] = {
        "left out": lambda run: note(f"left out {run.path}: {run.detail}"),
        "unreadable": lambda run: error_line(run.detail),
        "to upload": lambda run: say(f"would upload {run.path}"),
        "uploaded": lambda run: say(f"uploaded {run.path}: {run.detail}"),
        "failed": lambda run: say(f"failed {run.path}: {run.detail}"),
    }
    folders = [Path(path) for path in options.paths or ["outputs"]]
    runs: list[SyncedRun] = []
    for run in synced_runs(folders, dry_run=options.dry_run, timeout=options.timeout):
        if run.status in show:
            show[run.status](run)
        runs.append(run)
    synced = Synced(runs, options.dry_run)
    say(synced.title)
    return 1 if synced.has_failed else 0
