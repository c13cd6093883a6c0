"""`h2h sync`: uploads what the W&B server has not seen yet, once, and says what it did."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from headtohead.cli.arguments import parse, parser, within
from headtohead.cli.terminal import note, say
from headtohead.errors import UsageError
from headtohead.ranges import Seconds
from headtohead.tracking.syncing import Pending, runs_with_files
from headtohead.tracking.uploading import check_server, upload
from headtohead.tracking.wandb_identity import original_of
from headtohead.tracking.wandb_missing import pending

_EXAMPLES = """\
examples:
  h2h sync                                    all below outputs/
  h2h sync outputs/studies/demo               those of a study
  h2h sync outputs/default/RUN                one run
  h2h sync --dry-run                          say what would be uploaded

A run that was offline, or whose server failed before the last step had arrived, is uploaded from W&B's files in its
folder, under its own id; what is there already is not sent twice. Ends with 1 where something could not be uploaded.
"""


def run(arguments: Sequence[str]) -> int:
    taken = parser("sync", "Upload the runs that W&B's server lacks, or of which it lacks a part.", _EXAMPLES)
    taken.add_argument("paths", nargs="*", metavar="PATH", help="folders of runs; default: outputs")
    taken.add_argument("--dry-run", action="store_true", help="upload nothing")
    taken.add_argument(
        "--timeout",
        type=within(Seconds),
        default=300.0,
        metavar="SECONDS",
        help="the longest that one run may take; default 300",
    )
    taken.set_defaults(multirun=False)
    given = parse(taken, arguments)
    waiting, held = _found([Path(path) for path in given.paths or ["outputs"]])
    if waiting and not given.dry_run:
        check_server()
    failed = 0
    for what in waiting:
        if given.dry_run:
            say(f"would upload {_place(what)}")
            continue
        done = upload(what, timeout=given.timeout)
        failed += done.trouble is not None
        say(
            f"uploaded {_place(what)}: {done.url}" if done.trouble is None else f"failed {_place(what)}: {done.trouble}"
        )
    say(_summary(len(waiting), failed, held, dry=given.dry_run))
    return 1 if failed else 0


def _found(roots: Sequence[Path]) -> tuple[list[Pending], int]:
    """What waits, and how many runs the server holds already; each run once."""
    waiting: dict[Path, Pending] = {}
    held = 0
    for root in roots:
        if not root.exists():
            raise UsageError(f"{root} does not exist: name a folder that holds runs")
        for folder, files in runs_with_files(root):
            if folder.is_live():
                note(f"left out {os.path.relpath(folder.path)}: it is still running")
                continue
            if original := original_of(folder.path, folder.read_record_as_written().wandb):
                note(f"left out {os.path.relpath(folder.path)}: a copy of {os.path.relpath(original)}")
                continue
            found = pending(folder, files)
            held += not found
            waiting |= {what.file: what for what in found}
    return list(waiting.values()), held


def _place(what: Pending) -> str:
    return os.path.relpath(what.run.path)


def _summary(waiting: int, failed: int, held: int, *, dry: bool) -> str:
    done = f"{_runs(waiting)} to upload" if dry else f"{_runs(waiting - failed)} uploaded"
    return ", ".join([done, *([f"{failed} failed"] if failed else []), f"{held} there already"])


def _runs(number: int) -> str:
    return f"{number} run{'' if number == 1 else 's'}"
