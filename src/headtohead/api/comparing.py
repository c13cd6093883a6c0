"""Runs against each other from Python, with verdicts as objects, frames, figures and a report."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from headtohead.api.error_translation import python_errors, python_errors_with
from headtohead.api.logged_curves import curves_frame
from headtohead.api.result import Result, upgraded
from headtohead.comparison.arm_colours import theme_colours
from headtohead.comparison.comparability import seed_of
from headtohead.comparison.comparison import Comparison
from headtohead.comparison.comparison_results import ComparisonResults, results_from
from headtohead.comparison.contrasts import ComparisonSpec, Verdict
from headtohead.comparison.registered_answers import registered_baseline
from headtohead.comparison.report import FILE, write_report
from headtohead.comparison.report.plotly_figures import plain_figure
from headtohead.comparison.report.section_parts import CollapsedParts, ReportFigure, SectionPart
from headtohead.comparison.report.sections import SECTIONS
from headtohead.comparison.table_columns import NamedColumns
from headtohead.comparison.tables.latex_tables import comparison_latex, task_latex
from headtohead.comparison.task_comparison import TaskComparison, compared
from headtohead.config.errors import unknown
from headtohead.errors import UsageError
from headtohead.ranges import Positive, Real

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure


_TOKEN = re.compile(r"(--[\w-]+)(?:/([\d.]+))?")


def figure_of(results: ComparisonResults, section: str, options: Sequence[str]) -> Figure:
    """Return the figure of a section of the report as Plotly's own; `options` choose among its forms, in any order."""
    from headtohead.api.reported_figure import ReportedFigure

    shown = report_figures(results)
    if section not in shown:
        raise UsageError(unknown(f"{section} is not a figure of this report", section, list(shown)))
    plain = plain_figure(shown[section])
    forms: list[dict[str, Any]] = plain["forms"]
    known = list(dict.fromkeys(option for form in forms for option in form["options"]))
    for option in options:
        if option not in known:
            raise UsageError(unknown(f"{option} is not a form of {section}", option, known))
    form = next(form for form in forms if set(options) <= set(form["options"]))
    filled = _resolved({"data": form["data"], "layout": form["layout"]}, plain["columns"])
    layout = {"template": "plotly_white", "margin": {"t": 30, "r": 20}, **filled["layout"]}
    return ReportedFigure(data=filled["data"], layout=layout)


def report_figures(results: ComparisonResults) -> dict[str, ReportFigure]:
    """Return the first figure of each section that has one, by the section's anchor."""
    shown = {}
    for make in SECTIONS:
        section = make(results)
        figure = None if section is None else _first_figure(section.parts)
        if section is not None and figure is not None:
            shown[section.anchor] = figure
    return shown


def _first_figure(parts: Sequence[SectionPart]) -> ReportFigure | None:
    for part in parts:
        if isinstance(part, ReportFigure):
            return part
        inner = _first_figure(part.parts) if isinstance(part, CollapsedParts) else None
        if inner is not None:
            return inner
    return None


def _resolved(value: object, columns: Mapping[str, Sequence[object]]) -> Any:
    if isinstance(value, Mapping):
        resolved = {name: _resolved(item, columns) for name, item in value.items()}
        if "colorscale" in resolved:  # a page reads its ends as texts, Plotly in Python as numbers
            resolved["colorscale"] = [[float(at), colour] for at, colour in resolved["colorscale"]]
        return resolved
    if isinstance(value, list):
        return [_resolved(item, columns) for item in value]
    if not isinstance(value, str):
        return value
    if value.startswith("@") and value[1:] in columns:
        return list(columns[value[1:]])
    token = _TOKEN.fullmatch(value)
    return value if token is None else _colour(token[1], float(token[2] or 1))


def _colour(name: str, opacity: float) -> str:
    red, green, blue = (int(theme_colours()[name][start : start + 2], 16) for start in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity:g})"


def verdict_rows(verdicts: Sequence[Verdict]) -> list[dict[str, object]]:
    """Return a row for each verdict."""
    return [
        {
            "arm": verdict.arm,
            "against": verdict.baseline,
            "verdict": verdict.answer,
            "difference": verdict.difference,
            "interval": verdict.interval,
            "exploratory": verdict.exploratory,
        }
        for verdict in verdicts
    ]


class ReportedResults(Result):
    """Results of many runs: everything that the report shows, as objects."""

    @property
    @abstractmethod
    def results(self) -> ComparisonResults:
        """Return the runs by arm, with all that the report is made of."""

    @property
    def sentences(self) -> Sequence[str]:
        return [verdict.sentence for verdict in self.results.verdicts]

    def runs(self) -> DataFrame:
        """Return a frame with one row for each run: arm, seed, status, value, reason, folder."""
        from pandas import DataFrame

        return DataFrame(
            {
                "arm": run.arm,
                "seed": run.seed,
                "status": run.status,
                self.results.metric: run.value,
                "reason": run.reason,
                "folder": None if run.record is None else run.record.path,
            }
            for run in self.results.runs
        )

    @python_errors
    def curve(self, name: str = "validation/loss") -> DataFrame:
        """Return one logged metric of all runs that have it: arm, seed, step, epoch, tokens, flops, seconds, value."""
        here = [record for record in self.results.records if record.path is not None]
        return curves_frame((({"arm": one.arm, "seed": seed_of(one)}, one) for one in here), name)

    def plot(self, section: str = "curves", *options: str) -> Figure:
        """Return a figure of the report for a notebook: `plot()`, `plot("curves", "tokens", "log")`,
        `plot("differences")`; an unknown name is refused with all that there are."""

        return figure_of(self.results, section, options)

    def report(self, file: str | Path = FILE) -> Path:
        """Write the report, a single file that opens in any browser, and return its path."""
        write_report(self.results, Path(file))
        return Path(file)


class ComparedRuns(ReportedResults, Comparison):
    """A comparison of arms on one task."""

    @property
    def title(self) -> str:
        return f"{self.notes}, {len(self.arms)} arms against {self.baseline}"

    def as_rows(self) -> Sequence[Mapping[str, object]]:
        return verdict_rows(self.verdicts)

    @property
    def results(self) -> ComparisonResults:
        return results_from(self, title=self.title)

    def to_latex(self) -> str:
        """Return the table of a paper: arms, means, differences and verdicts, for booktabs."""
        return comparison_latex(self)


class ComparedTasks(ReportedResults, TaskComparison):
    """A comparison of arms on several tasks."""

    @property
    def title(self) -> str:
        return f"{len(self.tasks)} tasks, {len(self.overall.arms)} arms against {self.overall.baseline}"

    def as_rows(self) -> Sequence[Mapping[str, object]]:
        return verdict_rows(self.verdicts)

    @property
    def results(self) -> ComparisonResults:
        return results_from(self, title=self.title)

    def to_latex(self) -> str:
        """Return the tables of a paper, over all tasks and task by task, for booktabs."""
        return f"{comparison_latex(self.overall)}\n{task_latex(self.aggregate)}"


_NAMED = [one.name for one in fields(NamedColumns) if one.name != "metric"]


def _columns(metric: str | None, columns: Mapping[str, str]) -> NamedColumns:
    for name in set(columns) - set(_NAMED):
        raise UsageError(unknown(f"columns has no {name!r}", name, _NAMED))
    return NamedColumns(metric=metric, **columns)


@python_errors_with(**{name: f"columns['{name}']" for name in _NAMED})
def compare(
    paths: str | Path | Sequence[str | Path],
    *,
    metric: str | None = None,
    against: str | None = None,
    direction: Literal["min", "max"] | None = None,
    margin: Positive | None = None,
    budget: str | None = None,
    solved_at: Real | None = None,
    allow_unlike: Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
) -> ComparedRuns | ComparedTasks:
    """Compare runs, arms of studies else by name: `compare(["outputs/a", "outputs/b"], metric="test/loss")`.

    Paths, or a single one, are run folders, folders of them, .csv files or wandb:ENTITY/PROJECT. `.verdicts` has one
    for each arm against `against` (default: a study's own baseline, else the arm of the first path), each with its
    `.sentence`. The runs of one study are judged as it was registered; of another question `.registered` has the
    study's own verdicts. `columns` name those of .csv files: {"arm": "model", "seed": "seed", "step": "epoch"}. Raises
    NotComparable, a ValueError.
    """
    from headtohead.finished_runs.named_runs import named_runs

    named = [paths] if isinstance(paths, str | Path) else paths
    runs = named_runs(named, _columns(metric, columns or {}))
    baseline = against or registered_baseline(runs.records) or runs.records[0].arm
    terms = ComparisonSpec(baseline, metric, direction, margin, tuple(allow_unlike), budget, solved_at)
    result = compared(runs.records, terms, remarks=(*runs.remarks, *runs.unread), curves=runs.curves)
    if isinstance(result, TaskComparison):
        return upgraded(ComparedTasks, result)
    return upgraded(ComparedRuns, result)
