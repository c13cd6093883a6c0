"""`h2h compare PATH ...`: runs side by side, or every arm's verdict against one of them; other people's runs too."""

from __future__ import annotations

import json
import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headtohead.building.errors import ConfigurationError, unknown
from headtohead.cli.arguments import parser, within
from headtohead.cli.terminal import error_line, note, out, say, show_table
from headtohead.ranges import Positive, Real

if TYPE_CHECKING:
    from headtohead.comparing.contest import Contest
    from headtohead.comparing.task_contest import TaskContest
    from headtohead.examining.contenders import Contenders

_EXAMPLES = """\
examples:
  h2h compare outputs                                       every run, one line each
  h2h compare outputs/studies/recall --against attention    verdicts: arms of a study, seeds as pairs
  h2h compare outputs/a outputs/b --against a --metric validation/loss --html verdict.html
  h2h compare results.csv --metric val_loss --arm model --seed seed --against transformer --latex
  h2h compare curves.csv --metric acc --arm model --step epoch --tokens tokens --against cnn
  h2h compare outputs/studies/recall wandb:team/project/groups/recall --against attention
                                        runs on this disk and in W&B; one in both counts once
  h2h compare wandb:team/project/sweeps/ID --metric eval/loss --arm model.name --seed seed --against cnn
                                        runs of any program: a result, and fields of their configuration
  h2h compare scores.csv --metric score --task game --direction max --against dqn --json

Several studies, or a table with --task, are judged task by task and over all tasks.

exit code: 0 compared, whatever the verdicts say; 1 a record cannot be read, or no run of some arm came to an end, so
that nothing can be said of it; 2 refused
"""
_FEW = 12
"""Names in an advice."""
_COLUMNS = {
    "arm": "what is compared (default: arm)",
    "seed": "what pairs runs (default: seed)",
    "task": "several tasks in one table",
    "step": "rows are points of curves; the last value counts",
    "parameters": "costs, for the check of equal budgets",
    "flops": "of training the run",
    "tokens": "trained on",
    "seconds": "of training",
}


def run(arguments: Sequence[str]) -> int:
    taken = _parser()
    given = taken.parse_args(list(arguments))
    command = f"h2h compare {shlex.join(arguments)}"

    from headtohead.comparing.foreign.columns import Columns
    from headtohead.examining.contenders import contenders

    columns = Columns(given.metric, **{name: getattr(given, name) for name in _COLUMNS})
    for file in (given.html, given.csv):
        _check_place(file)
    found = contenders(given.paths, columns)
    for unread in found.unread:
        error_line(unread)
    if given.against:
        silent = _verdicts(found, given, command)
        return 1 if silent or found.unread else 0
    if given.latex or given.html:
        raise ConfigurationError(f"--latex and --html show verdicts: --against NAME is needed, {_arms(found)}")
    _side_by_side(found, given)
    return 1 if found.unread else 0


def _parser() -> ArgumentParser:
    taken = parser("compare", "Runs side by side; with --against, a verdict for every arm.", _EXAMPLES)
    taken.add_argument(
        "paths", nargs="*", metavar="PATH", default=["outputs"],
        help="run folders, folders of them, studies, .csv files, wandb:ENTITY/PROJECT with nothing more or /RUN, "
        "/sweeps/ID, /groups/NAME",
    )  # fmt: skip
    taken.add_argument("--metric", metavar="NAME", help="accuracy, validation/loss, a column; default: as selected")
    taken.add_argument("--against", metavar="ARM", help="verdicts: every arm against this one")
    taken.add_argument(
        "--direction", choices=["min", "max"], help="what is better; default: as the metric's name tells"
    )
    taken.add_argument(
        "--margin", type=within(Positive), help="the smallest difference that matters: allows `equivalent`"
    )
    taken.add_argument(
        "--solved-at", type=within(Real), metavar="VALUE",
        help="a run has solved its task from here on: verdicts by solve rates, and by how soon where all solve it",
    )  # fmt: skip
    taken.add_argument("--budget", metavar="KIND", help="equal_flops and the like: refuse arms whose costs differ")
    taken.add_argument(
        "--allow-unlike", metavar="WHAT,...", default="",
        help="compare although these differ: tokenizer, evaluation, loss_normalisation, budget",
    )  # fmt: skip
    taken.add_argument("--where", action="store_true", help="also where each record and its W&B files are")
    taken.add_argument("--json", action="store_true", help="as JSON")
    taken.add_argument("--csv", metavar="FILE", help="as CSV; - for standard output")
    taken.add_argument("--latex", action="store_true", help="as a LaTeX table (booktabs)")
    taken.add_argument("--html", metavar="FILE", help="as a report in one file")
    tables = taken.add_argument_group("columns of a .csv file; --arm and --seed also of other programs' runs in W&B")
    for name, told in _COLUMNS.items():
        tables.add_argument(f"--{name}", metavar="COLUMN", help=told)
    return taken


def _side_by_side(found: Contenders, given: Namespace) -> None:
    from headtohead.comparing.registered import answers_of
    from headtohead.comparing.table import as_csv, as_data, as_table, lines_of, whereabouts

    lines = lines_of(found.records, metric=given.metric)
    if given.metric and all(line.value is None for line in lines):
        results = {
            (stage, name) for record in found.records for stage in record.metrics for name in record.metrics[stage]
        }
        names = {name for _, name in results} | {f"{stage}/{name}" for stage, name in results if "/" in given.metric}
        raise ConfigurationError(unknown(f"no record holds the metric {given.metric}", given.metric, sorted(names)))
    if given.json:
        out(json.dumps(as_data(lines), indent=2))
    if given.csv:
        _to(given.csv, as_csv(lines))
    if given.json or given.csv:
        return
    show_table(as_table(lines))
    if given.where:
        for told in whereabouts(lines):
            say(told)
    for answer in answers_of(found.records).values():
        for verdict in () if answer is None else answer.verdicts:
            say(f"registered: {verdict.sentence}")
    for remark in found.remarks:
        say(remark)
    if len({line.arm for line in lines}) > 1 and len(lines) > len({line.arm for line in lines}):
        note(f"--against NAME gives verdicts: {_arms(found)}")


def _verdicts(found: Contenders, given: Namespace, command: str) -> bool:
    """Whether some arm is silent, since no run of it came to an end."""
    from headtohead.comparing.contest import Terms
    from headtohead.comparing.contest_formats import contest_csv, contest_latex
    from headtohead.comparing.contest_rows import as_data
    from headtohead.comparing.task_contest import TaskContest, compared
    from headtohead.comparing.task_formats import task_latex

    allowed = tuple(name for name in given.allow_unlike.replace("-", "_").split(",") if name)
    terms = Terms(given.against, given.metric, given.direction, given.margin, allowed, given.budget, given.solved_at)
    contest = compared(found.records, terms, remarks=(*found.remarks, *found.unread), curves=found.curves)
    if given.html:
        _write_report(contest, found, given, command)
    if isinstance(contest, TaskContest):
        data, latex, tables = contest.to_dict(), [task_latex(contest.aggregate)], {**contest.tasks, "": contest.overall}
    else:
        data, latex, tables = as_data(contest), [], {"": contest}
    if given.json:
        out(json.dumps(data, indent=2, allow_nan=False, ensure_ascii=False))
    if given.latex:
        out("\n".join([contest_latex(tables[""]), *latex]))
    if given.csv:
        _to(given.csv, contest_csv(tables))
    if not (given.json or given.latex or given.csv == "-"):
        _show(contest)
    every = contest.tasks.values() if isinstance(contest, TaskContest) else [contest]
    return any(not arm.outcomes for each in every for arm in each.arms)


def _show(contest: Contest | TaskContest) -> None:
    from headtohead.comparing.task_contest import TaskContest
    from headtohead.comparing.task_formats import task_table

    if isinstance(contest, TaskContest):
        for task, each in contest.tasks.items():
            out(task)
            _show_one(each)
        show_table(task_table(contest.aggregate))
        for sentence in contest.aggregate.sentences:
            say(sentence)
        contest = contest.overall
    _show_one(contest)


def _show_one(contest: Contest) -> None:
    from headtohead.comparing.contest_formats import contest_table
    from headtohead.comparing.family import families_in

    for verdict in contest.registered:
        say(f"registered: {verdict.sentence}")
    show_table(contest_table(contest))
    for verdict in contest.verdicts:
        say(verdict.sentence)
    for told in families_in(contest.verdicts):
        say(told)
    say(contest.budget.sentence)
    for remark in contest.remarks:
        say(remark)


def _write_report(contest: Contest | TaskContest, found: Contenders, given: Namespace, command: str) -> None:
    from headtohead.comparing.contest_findings import findings_from
    from headtohead.comparing.report import write_report

    title = ", ".join(Path(path).name or path for path in given.paths)
    write_report(findings_from(contest, title=title, command=command, curves=found.curves), Path(given.html))
    note(f"wrote {given.html}")


def _arms(found: Contenders) -> str:
    from headtohead.comparing.arms import arm_of, natural

    names = sorted({arm_of(record) for record in found.records}, key=natural)
    more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
    return f"one of {', '.join(names[:_FEW])}{more}"


def _check_place(file: str | None) -> None:
    """Before anything is read: what cannot be written needs no minutes of waiting."""
    if file in (None, "-"):
        return
    place = Path(str(file))
    if place.is_dir() or not place.absolute().parent.is_dir():
        raise ConfigurationError(f"{file} cannot be written: name a file in a folder that exists")


def _to(file: str, text: str) -> None:
    if file == "-":
        out(text.rstrip("\n"))
        return
    from headtohead.files.writing import replace_text

    replace_text(Path(file), text)
    note(f"wrote {file}")
