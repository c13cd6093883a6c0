"""`h2h runs ACTION PATH ...`: tag, note, archive, restore, delete and verify runs; what trains is never touched."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path

from headtohead.cli.options import Parser, parser, within
from headtohead.cli.terminal import answer, error_line, note, out
from headtohead.config.errors import ConfigurationError, unknown
from headtohead.errors import UsageError
from headtohead.ranges import Count, Positive
from headtohead.records.keeping.archive import archive, restore
from headtohead.records.keeping.changes import KINDS, PrunePolicy, delete, remove, size_of, tag, unneeded
from headtohead.records.keeping.changes import note as write_note
from headtohead.records.keeping.verify import faults_below, repair
from headtohead.records.run_query import runs
from headtohead.records.run_summary import RunSummary

_ACTIONS = {
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
_FEW = 5


def run(arguments: Sequence[str]) -> int:
    taken = _parser()
    options = taken.parse_args(list(arguments))
    if options.action not in _ACTIONS:
        raise ConfigurationError(unknown(f"h2h runs {options.action} is not an action", options.action, list(_ACTIONS)))
    if options.action == "verify":
        return _verify([Path(path) for path in options.paths], is_repaired=options.repair)
    if options.action == "tag" and not (options.add or options.remove):
        raise ConfigurationError("h2h runs tag needs --add NAME,... or --remove NAME,...")
    if options.action == "note" and options.text is None:
        raise ConfigurationError('h2h runs note needs --text "...": an empty one removes the note')
    matching = runs(options.paths, where=" ".join(options.where), sort="name")
    if options.action == "prune":
        return _prune(matching, options)
    chosen = [Path(one.path) for one in matching]
    if not chosen:
        note("no run matches")
        return 0
    if not options.yes and not _agreed(options.action, chosen):
        note("nothing was done")
        return 2
    return _each(chosen, options)


def _parser() -> Parser:
    taken = parser("runs", "Manage finished runs; those still in training are never touched.", _EXAMPLES)
    actions = "; ".join(f"{name}: {what}" for name, what in _ACTIONS.items())
    taken.add_argument("action", metavar="ACTION", help=actions)
    taken.add_argument("paths", nargs="+", metavar="PATH", help="runs, or folders with runs below")
    taken.add_argument("--where", metavar="FILTER", action="append", default=[], help="as of h2h list runs")
    taken.add_argument("--add", metavar="TAG,...", default="", help="with tag")
    taken.add_argument("--remove", metavar="TAG,...", default="", help="with tag")
    taken.add_argument("--text", metavar="TEXT", help="with note")
    taken.add_argument("--keep", choices=KINDS, default="best", help="with prune: which checkpoints of a run stay")
    taken.add_argument("--top", type=within(Count), metavar="K", help="with prune: only those of the K best runs")
    taken.add_argument("--disk", type=within(Positive), metavar="GB", help="with prune: as many as take this much")
    taken.add_argument("--repair", action="store_true", help="with verify")
    taken.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    return taken


def _agreed(action: str, chosen: Sequence[Path]) -> bool:
    """Return whether the user agrees; where nobody can be asked, --yes has to be given."""
    names = ", ".join(path.name for path in chosen[:_FEW]) + (" ..." if len(chosen) > _FEW else "")
    size = f", {sum(map(size_of, chosen)) / 1e6:,.1f} MB" if action in ("archive", "delete") else ""
    question = f"{action} {len(chosen)} run{'' if len(chosen) == 1 else 's'}{size} ({names})"
    if not sys.stdin.isatty():
        raise ConfigurationError(f"{question}: --yes confirms it, where nobody can be asked")
    return answer(f"{question}? [y/N] ").lower() in ("y", "yes")


def _each(chosen: Sequence[Path], options: Namespace) -> int:
    add, remove = (tuple(filter(None, text.split(","))) for text in (options.add, options.remove))
    actions: dict[str, Callable[[Path], object]] = {
        "tag": lambda path: tag(path, add=add, remove=remove),
        "note": lambda path: write_note(path, options.text),
        "archive": archive,
        "restore": restore,
        "delete": delete,
    }
    saved, left_alone = _for_each(chosen, actions[options.action])
    num_done = len(chosen) - left_alone
    room = f", {saved / 1e6:,.1f} MB saved" if options.action == "archive" else ""
    out(f"{options.action}: {num_done} run{'' if num_done == 1 else 's'}{room}")
    return 1 if left_alone else 0


def _for_each(paths: Sequence[Path], action: Callable[[Path], object]) -> tuple[int, int]:
    """Do something with each, and return the sum of what it came to and how many were left alone, with a line each."""
    total = left_alone = 0
    for path in paths:
        try:
            result = action(path)
            total += result if isinstance(result, int) else 0
        except (UsageError, OSError) as error:
            left_alone += 1
            error_line(str(error) if isinstance(error, UsageError) else f"{path}: {error.strerror or error}")
    return total, left_alone


def _prune(matching: Sequence[RunSummary], options: Namespace) -> int:
    policy = PrunePolicy(options.keep, options.top, 1e9 * options.disk if options.disk else float("inf"))
    files = list(unneeded(matching, policy))
    if not files:
        note("no checkpoint is to be removed")
        return 0
    if not options.yes and not _agreed("prune", list(dict.fromkeys(file.parent.parent for file in files))):
        note("nothing was done")
        return 2
    saved, left_alone = _for_each(files, remove)
    num_done = len(files) - left_alone
    out(f"prune: {num_done} checkpoint{'' if num_done == 1 else 's'}, {saved / 1e6:,.1f} MB saved")
    return 1 if left_alone else 0


def _verify(paths: Sequence[Path], *, is_repaired: bool) -> int:
    left = repaired = 0
    for path in paths:
        if not path.is_dir():
            raise ConfigurationError(
                f"{path} is not a folder: give the folder of a run, or one above it such as outputs"
            )
        for fault in faults_below(path):
            if is_repaired and fault.can_repair:
                repair(fault)
                repaired += 1
                out(f"repaired: {fault.path} {fault.sentence}")
            else:
                left += 1
                way = "; --repair fixes it" if fault.can_repair else ""
                has_path = fault.sentence.startswith(str(fault.path))
                text = fault.sentence if has_path else f"{fault.path} {fault.sentence}"
                out(f"{text}{way}")
    out(f"{left} fault{'' if left == 1 else 's'}" + (f", {repaired} repaired" if is_repaired else ""))
    return 1 if left else 0
