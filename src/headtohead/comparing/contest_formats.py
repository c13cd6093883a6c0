"""A contest for a terminal, as CSV and as a LaTeX table (booktabs)."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields

from rich.table import Table
from rich.text import Text

from headtohead.comparing.arms import Costs
from headtohead.comparing.contest import Contest
from headtohead.comparing.contest_rows import Row, rows_of
from headtohead.comparing.family import families_in
from headtohead.comparing.fitting import Fitted
from headtohead.comparing.table import chance_told, count, memory, number
from headtohead.comparing.wording import OF_WHAT

_STYLES = {"better": "green", "worse": "red", "equivalent": "cyan", "undecided": "yellow"}
_NAME = 12
_Column = tuple[str, Callable[[Row], str]]
_COSTS: tuple[_Column, ...] = (
    ("parameters", lambda row: count(row.costs.parameters)),
    ("FLOPs", lambda row: count(row.costs.flops)),
    ("tokens", lambda row: count(row.costs.tokens)),
    ("seconds", lambda row: count(row.costs.seconds)),
    ("tokens/s", lambda row: count(row.costs.tokens_per_second)),
    ("samples/s", lambda row: count(None if row.costs.tokens_per_second else row.costs.samples_per_second)),
    ("memory", lambda row: memory(row.costs.peak_memory_bytes)),
)
_COUNTS: tuple[_Column, ...] = (
    ("seeds", lambda row: str(row.seeds)),
    ("diverged", lambda row: str(row.diverged)),
    ("left out", lambda row: str(row.left_out)),
)
_ESCAPES = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}", "<": "$<$",
    ">": "$>$", "|": r"\textbar{}",
}  # fmt: skip


def contest_table(contest: Contest) -> Fitted:
    """One line per arm, the baseline first; costs and counts that say nothing have no column."""
    rows = rows_of(contest)
    costs, counts = _costs(rows), _counts(rows)
    apart = [_costs_table(rows, costs)] if costs else []
    return Fitted(_results_table(contest, rows, [*costs, *counts]), [_results_table(contest, rows, counts), *apart])


def _results_table(contest: Contest, rows: Sequence[Row], more: Sequence[_Column]) -> Table:
    table = _table_of_arms()
    table.caption, table.caption_justify = chance_told(contest.chance), "left"
    for name in (contest.told, "difference"):
        table.add_column(Text(name), justify="right")
    table.add_column("p", justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for name, _ in more:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        verdict = Text(_in_lines(row), style=_STYLES[row.verdict]) if row.verdict else "baseline"
        table.add_row(Text(row.arm), *_figures(row), _p(row), verdict, *(shown(row) for _, shown in more))
    return table


def _costs_table(rows: Sequence[Row], costs: Sequence[_Column]) -> Table:
    table = _table_of_arms()
    for name, _ in costs:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(Text(row.arm), *(shown(row) for _, shown in costs))
    return table


def _table_of_arms() -> Table:
    """Names are the user's own: plain text, never rich's markup."""
    table = Table(header_style="bold")
    table.add_column("arm", overflow="fold", min_width=_NAME)
    return table


def contest_csv(contests: Mapping[str, Contest]) -> str:
    """Numbers in full, one line per arm of each task; "" is the only task, or all of them."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    costs = [cost.name for cost in fields(Costs)]
    writer.writerow([
        "task", "arm", "baseline", "metric", "stage", "mean", "low", "high", "difference", "difference_low",
        "difference_high", "p", "verdict", "method", "exploratory", "seeds", "diverged", "left_out", *costs,
    ])  # fmt: skip
    for task, contest in contests.items():
        writer.writerows([task, *_csv_cells(contest, row)] for row in rows_of(contest))
    return text.getvalue()


def _csv_cells(contest: Contest, row: Row) -> list[object]:
    verdict = contest.verdict_on(row.arm)
    return [
        row.arm, contest.baseline, contest.metric, contest.stage, row.mean, *(row.interval or ("", "")),
        row.difference, *(row.difference_interval or ("", "")), row.p, row.verdict, row.method,
        verdict.exploratory if verdict else "", row.seeds, row.diverged, row.left_out, *asdict(row.costs).values(),
    ]  # fmt: skip


def contest_latex(contest: Contest) -> str:
    """For \\usepackage{booktabs}; bold only where a verdict says so."""
    rows = rows_of(contest)
    more = [*_costs(rows), *_counts(rows)]
    heads = ["arm", contest.told, "difference", "$p$", "verdict", *(name for name, _ in more)]
    heads = [head if head == "$p$" else escaped(head) for head in heads]
    notes = [f"% {line}" for line in _notes(contest)]
    return "\n".join([*notes, tabular("lrrrl" + "r" * len(more), heads, [_latex_row(row, more) for row in rows])])


def tabular(alignment: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Cells that are LaTeX already, as a table."""
    lines = [_joined(heads), r"\midrule", *map(_joined, rows)]
    return "\n".join([rf"\begin{{tabular}}{{{alignment}}}", r"\toprule", *lines, r"\bottomrule", r"\end{tabular}"])


def escaped(text: str) -> str:
    """Any text as LaTeX prints it."""
    return "".join(_ESCAPES.get(letter, letter) for letter in " ".join(text.split()))


def _latex_row(row: Row, more: Sequence[_Column]) -> list[str]:
    name, mean = escaped(row.arm), number(row.mean)
    if row.stands_out:
        name, mean = rf"\textbf{{{name}}}", rf"\textbf{{{mean}}}"
    mean += "" if row.interval is None else f" [{number(row.interval[0])}, {number(row.interval[1])}]"
    cells = [_difference(row), _p(row), row.answer or "baseline", *(shown(row) for _, shown in more)]
    return [name, _minus(mean), *(_minus(escaped(cell)) for cell in cells)]


def _notes(contest: Contest) -> list[str]:
    told = [
        f"{contest.told}: mean and 95 % interval; difference to {contest.baseline}; "
        f"{'less' if contest.direction == 'min' else 'more'} is better; bold: a verdict says better",
        *filter(None, [chance_told(contest.chance)]),
        *(f"registered: {verdict.sentence}" for verdict in contest.registered),
        *(verdict.sentence for verdict in contest.verdicts),
        *families_in(contest.verdicts),
        contest.budget.sentence,
        *contest.remarks,
    ]
    return [" ".join(line.split()) for line in told]


def _joined(cells: Sequence[str]) -> str:
    """A bracket that opens a row would be an argument of the row before."""
    return f"{'{}' if cells[0].startswith('[') else ''}{' & '.join(cells)} \\\\"


def _minus(cell: str) -> str:
    """A hyphen before a figure is a sign."""
    return re.sub(r"(^|[ \[])-(?=\d)", r"\1$-$", cell)


def _in_lines(row: Row) -> str:
    """Return the verdict, and below it why nothing was shown."""
    kind, _, why = (row.answer or "").partition(": ")
    return "\n".join(filter(None, (f"{kind}:" if why else kind, why.replace("learned ", "learned\n", 1))))


def _p(row: Row) -> str:
    if row.is_baseline:
        return ""
    return "< 0.001" if row.p is not None and row.p < 0.001 else number(row.p)


def _figures(row: Row) -> list[str]:
    mean = number(row.mean)
    if row.interval:
        mean += f"\n{number(row.interval[0])} to {number(row.interval[1])}"
    between = [] if row.difference_interval is None else [" to ".join(map(number, row.difference_interval))]
    return [mean, "" if row.is_baseline else "\n".join([number(row.difference), *between, *_of_what(row)])]


def _difference(row: Row) -> str:
    if row.is_baseline:
        return ""
    between = [] if row.difference_interval is None else [f"[{', '.join(map(number, row.difference_interval))}]"]
    return " ".join([number(row.difference), *between, *_of_what(row)])


def _of_what(row: Row) -> list[str]:
    """What a difference is one of, where it is none of means."""
    return [OF_WHAT[row.method]] if row.method in OF_WHAT and row.difference is not None else []


def _costs(rows: Sequence[Row]) -> list[_Column]:
    """In which some arm has something."""
    return [(name, shown) for name, shown in _COSTS if any(shown(row) != number(None) for row in rows)]


def _counts(rows: Sequence[Row]) -> list[_Column]:
    return [(name, shown) for name, shown in _COUNTS if name == "seeds" or any(shown(row) != "0" for row in rows)]
