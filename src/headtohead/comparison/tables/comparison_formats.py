"""A contest for a terminal, as CSV and as a LaTeX table (booktabs)."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields

from rich.table import Table
from rich.text import Text

from headtohead.comparison.analyses.across_tasks import TaskAggregate, TaskArm
from headtohead.comparison.arms import ArmCosts, short_names
from headtohead.comparison.comparison import Comparison
from headtohead.comparison.statistics.bootstrap import Aggregate
from headtohead.comparison.tables.comparison_rows import ComparisonRow, rows_of
from headtohead.comparison.tables.run_table import FittedTable, chance_text, count, energy, memory, number
from headtohead.comparison.verdicts.contrast_family import families_in
from headtohead.comparison.verdicts.verdict_text import OF_WHAT

_STYLES = {"better": "green", "worse": "red", "equivalent": "cyan", "undecided": "yellow"}
_NAME = 12
_Column = tuple[str, Callable[[ComparisonRow], str]]
_COSTS: tuple[_Column, ...] = (
    ("parameters", lambda row: count(row.costs.parameters)),
    ("FLOPs", lambda row: count(row.costs.flops)),
    ("tokens", lambda row: count(row.costs.tokens)),
    ("seconds", lambda row: count(row.costs.seconds)),
    ("tokens/s", lambda row: count(row.costs.tokens_per_second)),
    ("samples/s", lambda row: count(None if row.costs.tokens_per_second else row.costs.samples_per_second)),
    ("memory", lambda row: memory(row.costs.peak_memory_bytes)),
    ("energy", lambda row: energy(row.costs.joules)),
    ("J/token", lambda row: count(row.costs.joules_per_token)),
)
_COUNTS: tuple[_Column, ...] = (
    ("seeds", lambda row: str(row.seeds)),
    ("diverged", lambda row: str(row.diverged)),
    ("left out", lambda row: str(row.left_out)),
)
_ESCAPES = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}", "<": "$<$",
    ">": "$>$", "|": r"\textbar{}", "−": "$-$", "∞": r"$\infty$", "≤": r"$\leq$", "≥": r"$\geq$", "≈": r"$\approx$",
}  # fmt: skip
_GREEK = {"λ": r"$\lambda$"} | {
    letter: rf"$\{unicodedata.name(letter).rpartition(' ')[2].lower()}$" for letter in "αβγδεζηθικμνξπρστυφχψω"
}
_BEYOND_ITS_FONTS = "«»ÐÞðþĄąĐđĘęĦħĮįĸĿŀŉŊŋŦŧŲųſ"
"""Latin letters and marks that LaTeX knows and its usual fonts lack."""
_SYMBOLS = "‘’“”–—…•†‡€™→"
"""Marks that LaTeX sets beside Latin letters."""


def comparison_table(comparison: Comparison) -> FittedTable:
    """Return one line per arm, the baseline first; costs and counts that say nothing have no column."""
    rows = rows_of(comparison)
    costs, counts = _costs(rows), _counts(rows)
    apart = [_costs_table(rows, costs)] if costs else []
    return FittedTable(
        _results_table(comparison, rows, [*costs, *counts]), [_results_table(comparison, rows, counts), *apart]
    )


def _results_table(comparison: Comparison, rows: Sequence[ComparisonRow], more: Sequence[_Column]) -> Table:
    table = _table_of_arms()
    table.caption, table.caption_justify = chance_text(comparison.chance), "left"
    for name in (comparison.notes, "difference"):
        table.add_column(Text(name), justify="right")
    table.add_column("p", justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for name, _ in more:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        verdict = Text(_in_lines(row), style=_STYLES[row.verdict]) if row.verdict else "baseline"
        table.add_row(Text(row.arm), *_figures(row), _p(row), verdict, *(displayed(row) for _, displayed in more))
    return table


def _costs_table(rows: Sequence[ComparisonRow], costs: Sequence[_Column]) -> Table:
    table = _table_of_arms()
    for name, _ in costs:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(Text(row.arm), *(displayed(row) for _, displayed in costs))
    return table


def _table_of_arms() -> Table:
    """Names are the user's own: plain text, never rich's markup."""
    table = Table(header_style="bold")
    table.add_column("arm", overflow="fold", min_width=_NAME)
    return table


def comparison_csv(comparisons: Mapping[str, Comparison]) -> str:
    """Numbers in full, one line per arm of each task; "" is the only task, or all of them."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    costs = [cost.name for cost in fields(ArmCosts)]
    writer.writerow([
        "task", "arm", "baseline", "metric", "stage", "mean", "low", "high", "difference", "difference_low",
        "difference_high", "p", "verdict", "method", "exploratory", "seeds", "diverged", "left_out", *costs,
    ])  # fmt: skip
    for task, comparison in comparisons.items():
        writer.writerows([task, *_csv_cells(comparison, row)] for row in rows_of(comparison))
    return text.getvalue()


def _csv_cells(comparison: Comparison, row: ComparisonRow) -> list[object]:
    verdict = comparison.verdict_on(row.arm)
    return [
        row.arm, comparison.baseline, comparison.metric, comparison.stage, row.mean, *(row.interval or ("", "")),
        row.difference, *(row.difference_interval or ("", "")), row.p, row.verdict, row.method,
        verdict.exploratory if verdict else "", row.seeds, row.diverged, row.left_out, *asdict(row.costs).values(),
    ]  # fmt: skip


def comparison_latex(comparison: Comparison) -> str:
    """Return the comparison in LaTeX for the package booktabs; only a verdict makes a value bold."""
    rows = rows_of(comparison)
    more = [*_costs(rows), *_counts(rows)]
    heads = ["arm", comparison.notes, "difference", "$p$", "verdict", *(name for name, _ in more)]
    heads = [head if head == "$p$" else escaped(head) for head in heads]
    notes = [f"% {line}" for line in _notes(comparison)]
    names = short_names([row.arm for row in rows])
    notes += [
        f"% {' '.join(short.split())}: {' '.join(name.split())}" for name, short in names.items() if name != short
    ]
    cells = [_latex_row(row, names[row.arm], more) for row in rows]
    return "\n".join([*notes, tabular("lrrrl" + "r" * len(more), heads, cells)])


def tabular(alignment: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Cells that are LaTeX already, as a table."""
    lines = [_joined(heads), r"\midrule", *map(_joined, rows)]
    return "\n".join([rf"\begin{{tabular}}{{{alignment}}}", r"\toprule", *lines, r"\bottomrule", r"\end{tabular}"])


def escaped(text: str) -> str:
    """Escape a text for LaTeX, whatever letters its names have: those it cannot set are told by their numbers."""
    return "".join(_in_latex(letter) for letter in " ".join(text.split()))


def _in_latex(letter: str) -> str:
    if letter in _ESCAPES or letter in _GREEK:
        return _ESCAPES.get(letter) or _GREEK[letter]
    is_latin = letter < "\u0180" and letter.isprintable() and letter not in _BEYOND_ITS_FONTS
    if is_latin or letter in _SYMBOLS:
        return letter
    plain = unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode()
    return "".join(_ESCAPES.get(one, one) for one in plain if one.isprintable()) or f"U+{ord(letter):04X}"


def _latex_row(row: ComparisonRow, arm: str, more: Sequence[_Column]) -> list[str]:
    name, mean = escaped(arm), number(row.mean)
    if row.stands_out:
        name, mean = rf"\textbf{{{name}}}", rf"\textbf{{{mean}}}"
    mean += "" if row.interval is None else f" [{number(row.interval[0])}, {number(row.interval[1])}]"
    cells = [_difference(row), _p(row), row.answer or "baseline", *(displayed(row) for _, displayed in more)]
    return [name, _minus(mean), *(_minus(escaped(cell)) for cell in cells)]


def _notes(comparison: Comparison) -> list[str]:
    family = [
        f"{comparison.notes}: mean and 95 % interval; difference to {comparison.baseline}; "
        f"{'less' if comparison.direction == 'min' else 'more'} is better; bold: a verdict says better",
        *filter(None, [chance_text(comparison.chance)]),
        *(f"registered: {verdict.sentence}" for verdict in comparison.registered),
        *(verdict.sentence for verdict in comparison.verdicts),
        *families_in(comparison.verdicts),
        comparison.budget.sentence,
        *comparison.remarks,
    ]
    return [" ".join(line.split()) for line in family]


def _joined(cells: Sequence[str]) -> str:
    """A bracket that opens a row would be an argument of the row before."""
    return f"{'{}' if cells[0].startswith('[') else ''}{' & '.join(cells)} \\\\"


def _minus(cell: str) -> str:
    """A hyphen before a figure is a sign."""
    return re.sub(r"(^|[ \[])-(?=\d)", r"\1$-$", cell)


def _in_lines(row: ComparisonRow) -> str:
    """Return the verdict, and below it why nothing was shown."""
    kind, _, why = (row.answer or "").partition(": ")
    return "\n".join(filter(None, (f"{kind}:" if why else kind, why.replace("learned ", "learned\n", 1))))


def _p(row: ComparisonRow) -> str:
    if row.is_baseline:
        return ""
    return "< 0.001" if row.p is not None and row.p < 0.001 else number(row.p)


def _figures(row: ComparisonRow) -> list[str]:
    mean = number(row.mean)
    if row.interval:
        mean += f"\n{number(row.interval[0])} to {number(row.interval[1])}"
    between = [] if row.difference_interval is None else [" to ".join(map(number, row.difference_interval))]
    return [mean, "" if row.is_baseline else "\n".join([number(row.difference), *between, *_of_what(row)])]


def _difference(row: ComparisonRow) -> str:
    if row.is_baseline:
        return ""
    between = [] if row.difference_interval is None else [f"[{', '.join(map(number, row.difference_interval))}]"]
    return " ".join([number(row.difference), *between, *_of_what(row)])


def _of_what(row: ComparisonRow) -> list[str]:
    """Name the statistic of a difference, unless it is one of means."""
    return [OF_WHAT[row.method]] if row.method in OF_WHAT and row.difference is not None else []


def _costs(rows: Sequence[ComparisonRow]) -> list[_Column]:
    """Return the cost columns in which some arm has a value."""
    return [(name, displayed) for name, displayed in _COSTS if any(displayed(row) != number(None) for row in rows)]


def _counts(rows: Sequence[ComparisonRow]) -> list[_Column]:
    return [
        (name, displayed)
        for name, displayed in _COUNTS
        if name == "seeds" or any(displayed(row) != "0" for row in rows)
    ]


def task_table(aggregate: TaskAggregate) -> Table:
    """Return one line per arm, the baseline first."""
    table = Table(header_style="bold", title="scores", title_justify="left")
    table.add_column("arm", overflow="fold")
    for column in heads(aggregate):
        table.add_column(Text(column), justify="right")
    for arm in aggregate.arms:
        table.add_row(Text(arm.name), *cells(aggregate, arm))
    return table


def task_latex(aggregate: TaskAggregate) -> str:
    """Return the scores in LaTeX for the package booktabs; nothing is bold, since scores alone are not a verdict."""
    rows = [[escaped(cell) for cell in (arm.name, *cells(aggregate, arm))] for arm in aggregate.arms]
    notes = [f"% {' '.join(line.split())}" for line in (aggregate.normalisation, *aggregate.sentences)]
    named = [escaped(head) for head in ("arm", *heads(aggregate))]
    return "\n".join([*notes, tabular("l" + "r" * (len(named) - 1), named, rows)])


def heads(aggregate: TaskAggregate) -> list[str]:
    """Beside the arm's name."""
    tasks = [scale.task for scale in aggregate.scales]
    return [*tasks, "interquartile mean", f"beats {aggregate.baseline}", "diverged"]


def cells(aggregate: TaskAggregate, arm: TaskArm) -> list[str]:
    means = [number(arm.means[scale.task]) for scale in aggregate.scales]
    beats = "baseline" if arm.improvement is None else between(arm.improvement)
    return [*means, between(arm.iqm), beats, str(arm.diverged)]


def between(figure: Aggregate) -> str:
    return f"{figure.value:.3f} [{figure.low:.3f}, {figure.high:.3f}]"
