"""`h2h sync`: uploads what the W&B server has not seen yet, once, and says what it did."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from headtohead.cli.options import parse, parser, within
from headtohead.cli.terminal import error_line, note, say
from headtohead.errors import UsageError
from headtohead.ranges import Seconds
from headtohead.records.run_folder import RunFolder
from headtohead.wandb_client.missing_rows import uploads_needed
from headtohead.wandb_client.pending_uploads import Pending, runs_with_files
from headtohead.wandb_client.run_metadata import original_of
from headtohead.wandb_client.upload import check_server, upload

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
    taken = parser("sync", "Upload the runs that W&B's server does not have, or has only in part.", _EXAMPLES)
    taken.add_argument("paths", nargs="*", default=[], metavar="PATH", help="folders of runs; default: outputs")
    taken.add_argument("--dry-run", action="store_true", help="upload nothing")
    taken.add_argument(
        "--timeout",
        type=within(Seconds),
        default=300.0,
        metavar="SECONDS",
        help="the longest that one run may take; default 300",
    )
    taken.set_defaults(multirun=False)
    options = parse(taken, arguments)
    waiting, num_complete, failed = _runs_to_upload([Path(path) for path in options.paths or ["outputs"]])
    if waiting and not options.dry_run:
        check_server()
    for what in waiting:
        if options.dry_run:
            say(f"would upload {_path(what)}")
            continue
        done = upload(what, timeout=options.timeout)
        failed += done.trouble is not None
        say(f"uploaded {_path(what)}: {done.url}" if done.trouble is None else f"failed {_path(what)}: {done.trouble}")
    say(_summary(len(waiting), failed, num_complete, dry=options.dry_run))
    return 1 if failed else 0


def _runs_to_upload(roots: Sequence[Path]) -> tuple[list[Pending], int, int]:
    """Return the runs to upload, each once, how many the server has already, and how many cannot be read."""
    waiting: dict[Path, Pending] = {}
    num_complete = num_unreadable = 0
    for root in roots:
        if not root.is_dir():
            raise UsageError(
                f"{root} {'is not a folder' if root.exists() else 'does not exist'}: name a folder of runs"
            )
        for folder, files in runs_with_files(root):
            try:
                pending_runs = _pending(folder, files)
            except (UsageError, OSError) as error:
                error_line(str(error))
                num_unreadable += 1
                continue
            num_complete += pending_runs == []
            waiting |= {what.file: what for what in pending_runs or ()}
    return list(waiting.values()), num_complete, num_unreadable


def _pending(folder: RunFolder, files: Sequence[Path]) -> list[Pending] | None:
    """Return what of a run is to be uploaded, or None where it is left out, and a line says why."""
    if folder.is_live():
        note(f"left out {os.path.relpath(folder.path)}: it is still running")
        return None
    if original := original_of(folder.path, folder.read_record_as_written().wandb):
        note(f"left out {os.path.relpath(folder.path)}: a copy of {os.path.relpath(original)}")
        return None
    return uploads_needed(folder, files)


def _path(what: Pending) -> str:
    return os.path.relpath(what.run.path)


def _summary(waiting: int, failed: int, num_complete: int, *, dry: bool) -> str:
    done = f"{_runs(waiting)} to upload" if dry else f"{_runs(waiting - failed)} uploaded"
    return ", ".join([done, *([f"{failed} failed"] if failed else []), f"{num_complete} there already"])


def _runs(number: int) -> str:
    return f"{number} run{'' if number == 1 else 's'}"
