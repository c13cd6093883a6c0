"""`h2h compare PATH ...`: runs side by side, or every arm's verdict against one of them; other people's runs too."""

from __future__ import annotations

import json
import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headtohead.cli.options import command_parser, refuse_unread, within
from headtohead.cli.terminal import error_line, note, out, say, show_table
from headtohead.config.errors import ConfigurationError, unknown
from headtohead.ranges import Positive, Real

if TYPE_CHECKING:
    from headtohead.comparison.comparison import Comparison
    from headtohead.comparison.task_comparison import TaskComparison
    from headtohead.finished_runs.named_runs import NamedRuns

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

exit code: 0 compared, whatever the verdicts; 1 a record cannot be read, or an arm has no finished run and
therefore no verdict; 2 refused
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

_OF_VERDICTS = ("direction", "margin", "solved_at", "budget", "allow_unlike")


def run(arguments: Sequence[str]) -> int:
    parser = _parser()
    options = parser.parse_args(list(arguments))
    command = f"h2h compare {shlex.join(arguments)}"

    from headtohead.comparison.table_columns import NamedColumns
    from headtohead.finished_runs.named_runs import named_runs

    if not options.against:
        refuse_unread(parser, options, _OF_VERDICTS, "it is of verdicts, which --against NAME gives")
    if options.against or options.json or options.csv:
        refuse_unread(parser, options, ["where"], "it is of the table of runs, without --against, --json and --csv")
    columns = NamedColumns(options.metric, **{name: getattr(options, name) for name in _COLUMNS})
    for file in (options.html, options.csv):
        _check_place(file)
    runs = named_runs(options.paths, columns)
    for unread in runs.unread:
        error_line(unread)
    if options.against:
        silent = _verdicts(runs, options, command)
        return 1 if silent or runs.unread else 0
    if options.latex or options.html:
        raise ConfigurationError(f"--latex and --html show verdicts: --against NAME is needed, {_arms(runs)}")
    _side_by_side(runs, options)
    return 1 if runs.unread else 0


def _parser() -> ArgumentParser:
    parser = command_parser("compare", "Runs side by side; with --against, a verdict for every arm.", _EXAMPLES)
    parser.add_argument(
        "paths", nargs="*", metavar="PATH", default=["outputs"],
        help="run folders, folders of them, studies, .csv files, wandb:ENTITY/PROJECT with nothing more or /RUN, "
        "/sweeps/ID, /groups/NAME",
    )  # fmt: skip
    parser.add_argument("--metric", metavar="NAME", help="accuracy, validation/loss, a column; default: as selected")
    parser.add_argument("--against", metavar="ARM", help="verdicts: every arm against this one")
    parser.add_argument(
        "--direction", choices=["min", "max"], help="whether lower or higher is better; default: by the metric's name"
    )
    parser.add_argument(
        "--margin", type=within(Positive), help="the smallest difference that matters: allows `equivalent`"
    )
    parser.add_argument(
        "--solved-at", type=within(Real), metavar="VALUE",
        help="a run has solved its task from here on: verdicts by solve rates, and by how soon where all solve it",
    )  # fmt: skip
    parser.add_argument("--budget", metavar="KIND", help="equal_flops and the like: refuse arms whose costs differ")
    parser.add_argument(
        "--allow-unlike", metavar="WHAT,...", default="",
        help="compare although these differ: tokenizer, evaluation, loss_normalisation, budget",
    )  # fmt: skip
    parser.add_argument("--where", action="store_true", help="also where each record and its W&B files are")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.add_argument("--csv", metavar="FILE", help="as CSV; - for standard output")
    parser.add_argument("--latex", action="store_true", help="as a LaTeX table (booktabs)")
    parser.add_argument("--html", metavar="FILE", help="as a report in one file")
    tables = parser.add_argument_group("columns of a .csv file; --arm and --seed also of other programs' runs in W&B")
    for name, description in _COLUMNS.items():
        tables.add_argument(f"--{name}", metavar="COLUMN", help=description)
    return parser


def _side_by_side(runs: NamedRuns, options: Namespace) -> None:
    from headtohead.comparison.registered_answers import answers_of
    from headtohead.comparison.tables.run_table import as_csv, as_data, as_table, lines_of, run_paths

    lines = lines_of(runs.records, metric=options.metric)
    if options.metric and all(line.value is None for line in lines):
        rows = {(stage, name) for record in runs.records for stage in record.metrics for name in record.metrics[stage]}
        names = {name for _, name in rows} | {f"{stage}/{name}" for stage, name in rows if "/" in options.metric}
        raise ConfigurationError(unknown(f"no record holds the metric {options.metric}", options.metric, sorted(names)))
    if options.json:
        out(json.dumps(as_data(lines), indent=2))
    if options.csv:
        _to(options.csv, as_csv(lines))
    if options.json or options.csv:
        return
    show_table(as_table(lines))
    if options.where:
        for line in run_paths(lines):
            say(line)
    for answer in answers_of(runs.records).values():
        for verdict in () if answer is None else answer.verdicts:
            say(f"registered: {verdict.sentence}")
    for remark in runs.remarks:
        say(remark)
    if len({line.arm for line in lines}) > 1 and len(lines) > len({line.arm for line in lines}):
        note(f"--against NAME gives verdicts: {_arms(runs)}")


def _verdicts(runs: NamedRuns, options: Namespace, command: str) -> bool:
    """Show the verdicts, and return whether some arm has none, since no run of it came to an end."""
    from headtohead.comparison.contrasts import ComparisonSpec
    from headtohead.comparison.tables.comparison_formats import comparison_csv
    from headtohead.comparison.tables.comparison_rows import as_data
    from headtohead.comparison.tables.latex_tables import comparison_latex, task_latex
    from headtohead.comparison.task_comparison import TaskComparison, compared

    allowed = tuple(name for name in options.allow_unlike.replace("-", "_").split(",") if name)
    spec = ComparisonSpec(
        options.against, options.metric, options.direction, options.margin, allowed, options.budget, options.solved_at
    )
    comparison = compared(runs.records, spec, remarks=(*runs.remarks, *runs.unread), curves=runs.curves)
    if options.html:
        _write_report(comparison, runs, options, command)
    if isinstance(comparison, TaskComparison):
        data, latex, tables = (
            comparison.to_dict(),
            [task_latex(comparison.aggregate)],
            {**comparison.tasks, "": comparison.overall},
        )
    else:
        data, latex, tables = as_data(comparison), [], {"": comparison}
    if options.json:
        out(json.dumps(data, indent=2, allow_nan=False, ensure_ascii=False))
    if options.latex:
        out("\n".join([comparison_latex(tables[""]), *latex]))
    if options.csv:
        _to(options.csv, comparison_csv(tables))
    if not (options.json or options.latex or options.csv == "-"):
        _show(comparison)
    every = comparison.tasks.values() if isinstance(comparison, TaskComparison) else [comparison]
    return any(not arm.outcomes for each in every for arm in each.arms)


def _show(comparison: Comparison | TaskComparison) -> None:
    from headtohead.comparison.tables.comparison_formats import task_table
    from headtohead.comparison.task_comparison import TaskComparison

    if isinstance(comparison, TaskComparison):
        for task, each in comparison.tasks.items():
            out(task)
            _show_one(each)
        show_table(task_table(comparison.aggregate))
        for sentence in comparison.aggregate.sentences:
            say(sentence)
        comparison = comparison.overall
    _show_one(comparison)


def _show_one(comparison: Comparison) -> None:
    from headtohead.comparison.tables.comparison_formats import comparison_table
    from headtohead.comparison.verdicts.contrast_family import families_in

    for verdict in comparison.registered:
        say(f"registered: {verdict.sentence}")
    show_table(comparison_table(comparison))
    for verdict in comparison.verdicts:
        say(verdict.sentence)
    for family in families_in(comparison.verdicts):
        say(family)
    say(comparison.budget.sentence)
    for remark in comparison.remarks:
        say(remark)


def _write_report(comparison: Comparison | TaskComparison, runs: NamedRuns, options: Namespace, command: str) -> None:
    from headtohead.comparison.comparison_results import results_from
    from headtohead.comparison.report import write_report

    title = ", ".join(Path(path).name or path for path in options.paths)
    write_report(results_from(comparison, title=title, command=command, curves=runs.curves), Path(options.html))
    note(f"wrote {options.html}")


def _arms(runs: NamedRuns) -> str:
    from headtohead.comparison.arms import natural

    names = sorted({record.arm for record in runs.records}, key=natural)
    more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
    return f"one of {', '.join(names[:_FEW])}{more}"


def _check_place(file: str | None) -> None:
    """Refuse, before anything is read, a file that cannot be written: that needs no minutes of waiting."""
    if file in (None, "-"):
        return
    path = Path(str(file))
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise ConfigurationError(f"{file} cannot be written: name a file in a folder that exists")


def _to(file: str, text: str) -> None:
    if file == "-":
        out(text.rstrip("\n"))
        return
    from headtohead.files.atomic_write import replace_text

    replace_text(Path(file), text)
    note(f"wrote {file}")
