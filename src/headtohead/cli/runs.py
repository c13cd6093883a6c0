"""`h2h runs ACTION PATH ...`: tag, note, archive, restore, delete and verify runs; what trains is never touched."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headtohead.cli.options import Parser, command_parser, within
from headtohead.cli.terminal import answer, error_line, note, out
from headtohead.config.errors import ConfigurationError, unknown
from headtohead.ranges import Count, Positive
from headtohead.records.keeping.changes import KINDS, size_of

if TYPE_CHECKING:
    from headtohead.api.run_lists import ChangedRuns, CheckedFault

ACTIONS = {
    "tag": "add tags to runs, or remove some",
    "note": "write a note into the record of runs",
    "archive": "compress all that comparisons do not read: compare, list and the dashboard can still read the run",
    "restore": "bring the files of archived runs back",
    "delete": "delete runs",
    "prune": "remove checkpoints of finished runs that a policy does not keep",
    "verify": "check the files of runs: checksums, files that were never finished, folders without a record",
}
_EXAMPLES = """\
examples:
  h2h runs tag outputs/studies/norms --add paper,final
  h2h runs note outputs/default/RUN --text "learning rate was too high"
  h2h runs archive outputs --where "status=finished group=2025"
  h2h runs restore outputs/default/RUN
  h2h runs delete outputs --where "status=failed" --yes
  h2h runs prune outputs/studies/norms --keep best --top 5         weights of the five best runs only
  h2h runs prune outputs --keep best --disk 20                     those of the best runs first, up to 20 GB
  h2h runs verify outputs --repair

PATH is a run, or a folder with runs below it. A run that is being written is skipped, and a line says so. verify checks
the checksums of checkpoints, row scores and archives; --repair removes unfinished files and damaged lines of
metrics.csv, and nothing else.

exit code: 0 done; 1 a run was skipped, or something is wrong that --repair cannot fix; 2 refused
"""
_ALWAYS = ("action", "paths", "yes")
_READ = {
    "tag": ("where", "add", "remove"),
    "note": ("where", "text"),
    "archive": ("where",),
    "restore": ("where",),
    "delete": ("where",),
    "prune": ("where", "keep", "top", "disk"),
    "verify": ("repair",),
}
"""The options that each action reads, beside those that all take."""
_FEW = 5


def run(arguments: Sequence[str]) -> int:
    parser = _parser()
    options = parser.parse_args(list(arguments))
    if options.action not in ACTIONS:
        raise ConfigurationError(unknown(f"h2h runs {options.action} is not an action", options.action, list(ACTIONS)))
    _refuse_unread(parser, options)
    if options.action == "verify":
        return _verify(options)
    from headtohead.api import run_lists

    options.add, options.remove = _tags(options.add), _tags(options.remove)
    if options.action == "tag":
        run_lists.check_tags(options.add, options.remove)
    if options.action == "note" and options.text is None:
        raise ConfigurationError('h2h runs note needs --text "...": an empty one removes the note')
    chosen = run_lists.runs(options.paths, where=" ".join(options.where), sort="name")
    policy = {"keep": options.keep, "top": options.top, "disk": options.disk}
    changes: dict[str, Callable[[], ChangedRuns]] = {
        "tag": lambda: chosen.tag(add=options.add, remove=options.remove),
        "note": lambda: chosen.note(options.text),
        "archive": chosen.archive,
        "restore": chosen.restore,
        "delete": chosen.delete,
        "prune": lambda: chosen.prune(**policy),
    }
    is_pruned = options.action == "prune"
    touched = (
        list(dict.fromkeys(file.parent.parent for file in chosen.unneeded(**policy))) if is_pruned else chosen.paths
    )
    if not touched:
        note("no checkpoint is to be removed" if is_pruned else "no run matches")
        return 0
    if not options.yes and not _agreed(options.action, touched):
        note("nothing was done")
        return 2
    changed = changes[options.action]()
    for why in changed.left_alone.values():
        error_line(why)
    out(changed.title)
    return 1 if changed.left_alone else 0


def _parser() -> Parser:
    parser = command_parser("runs", "Manage finished runs; those still in training are never touched.", _EXAMPLES)
    actions = "; ".join(f"{name}: {what}" for name, what in ACTIONS.items())
    parser.add_argument("action", metavar="ACTION", help=actions)
    parser.add_argument("paths", nargs="+", metavar="PATH", help="runs, or folders with runs below")
    parser.add_argument("--where", metavar="FILTER", action="append", default=[], help="as of h2h list runs")
    parser.add_argument("--add", metavar="TAG,...", default="", help="with tag")
    parser.add_argument("--remove", metavar="TAG,...", default="", help="with tag")
    parser.add_argument("--text", metavar="TEXT", help="with note")
    parser.add_argument("--keep", choices=KINDS, default="best", help="with prune: which checkpoints of a run stay")
    parser.add_argument("--top", type=within(Count), metavar="K", help="with prune: only those of the K best runs")
    parser.add_argument(
        "--disk", type=within(Positive), metavar="GB", help="with prune: keep checkpoints of at most this total size"
    )
    parser.add_argument("--repair", action="store_true", help="with verify")
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    return parser


def _refuse_unread(parser: Parser, options: argparse.Namespace) -> None:
    """Raise ConfigurationError for an option that the action does not read."""
    read = _READ[options.action]
    for name, value in vars(options).items():
        if name not in (*_ALWAYS, *read) and value != parser.get_default(name):
            takes = ", ".join(f"--{one}" for one in read)
            raise ConfigurationError(
                f"--{name} has no effect on h2h runs {options.action}, which takes {takes}: leave it out"
            )


def _agreed(action: str, chosen: Sequence[Path]) -> bool:
    """Return whether the user agrees; where nobody can be asked, --yes has to be given."""
    names = ", ".join(path.name for path in chosen[:_FEW]) + (" ..." if len(chosen) > _FEW else "")
    size = f", {sum(map(size_of, chosen)) / 1e6:,.1f} MB" if action in ("archive", "delete") else ""
    question = f"{action} {len(chosen)} run{'' if len(chosen) == 1 else 's'}{size} ({names})"
    if not sys.stdin.isatty():
        raise ConfigurationError(f"{question}: --yes confirms it, where nobody can be asked")
    return answer(f"{question}? [y/N] ").lower() in ("y", "yes")


def _tags(text: str) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, text.split(","))))


def _verify(options: argparse.Namespace) -> int:
    from headtohead.api.run_lists import VerifiedRuns, checked_faults

    checked: list[CheckedFault] = []
    for one in checked_faults([Path(path) for path in options.paths], repair=options.repair):
        out(_sentence(one))
        checked.append(one)
    verified = VerifiedRuns.of(checked)
    num_left = len(verified.faults)
    out(verified.title if options.repair else f"{num_left} fault{'' if num_left == 1 else 's'}")
    return 1 if num_left else 0


def _sentence(checked: CheckedFault) -> str:
    fault = checked.fault
    text = fault.sentence if fault.sentence.startswith(str(fault.path)) else f"{fault.path} {fault.sentence}"
    if checked.is_repaired:
        return f"repaired: {text}"
    if checked.reason:
        return f"{text}, and cannot be repaired: {checked.reason}"
    return f"{text}; --repair fixes it" if fault.can_repair else text
