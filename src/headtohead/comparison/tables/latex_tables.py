"""A contest as a table of a paper: LaTeX with the package booktabs."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Sequence

from headtohead.comparison.analyses.across_tasks import TaskAggregate
from headtohead.comparison.arms import short_names
from headtohead.comparison.comparison import Comparison
from headtohead.comparison.tables.comparison_formats import (
    Column,
    cells,
    cost_columns,
    count_columns,
    difference_statistic,
    heads,
    p_text,
)
from headtohead.comparison.tables.comparison_rows import ComparisonRow, rows_of
from headtohead.comparison.tables.run_table import chance_text, number
from headtohead.comparison.verdicts.contrast_family import families_in
from headtohead.comparison.verdicts.verdict_text import ADJUSTMENTS, coverage

_Interval = tuple[float, float] | None
_Format = Callable[[float | None], str]
_DECIMALS, _FIGURES, _LARGE = 3, 7, 1e7
"""The usual decimals, the most figures of a value without an interval, and from where values have exponents."""
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


def comparison_latex(comparison: Comparison) -> str:
    """Return a table of results, another of the costs in which arms differ, and what both say as a caption.

    Only a verdict makes a value bold. Whole sentences of verdicts and remarks are comments above it.
    """
    rows = rows_of(comparison)
    names = short_names([row.arm for row in rows])
    columns = [*cost_columns(rows), *count_columns(rows)]
    shared = [(name, shown) for name, shown in columns if len({shown(row) for row in rows}) == 1]
    apart = [(name, shown) for name, shown in columns if (name, shown) not in shared]
    comments = [*_comments(comparison), *(f"{short}: {name}" for name, short in names.items() if name != short)]
    tables = [_results(comparison, rows, names), *([_costs(rows, names, apart)] if apart else [])]
    caption = [
        _caption(comparison, names[comparison.baseline]),
        *_reasons(rows, names),
        *(_shared(rows[0], shared) if shared else []),
    ]
    return _floating(comments, " ".join(f"{sentence}." for sentence in caption), comparison.metric, tables)


def task_latex(aggregate: TaskAggregate) -> str:
    """Return the scores as a table; nothing is bold, since scores alone are not a verdict."""
    rows = [[escaped(arm.name), *(_small(escaped(cell)) for cell in cells(aggregate, arm))] for arm in aggregate.arms]
    named = [escaped(head) for head in ("arm", *heads(aggregate))]
    table = tabular("l" + "r" * (len(named) - 1), named, rows)
    return _floating(aggregate.sentences, f"{escaped(_capital(aggregate.normalisation))}.", "tasks", [table])


def tabular(alignment: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Cells that are LaTeX already, as a table."""
    lines = [_joined(heads), r"\midrule", *map(_joined, rows)]
    begin = rf"\begin{{tabular}}{{@{{}}{alignment}@{{}}}}"
    return "\n".join([begin, r"\toprule", *lines, r"\bottomrule", r"\end{tabular}"])


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


def _floating(comments: Sequence[str], caption: str, label: str, tables: Sequence[str]) -> str:
    """Return a float that a paper's column of 5.5 inches holds."""
    lines = [
        *(f"% {' '.join(line.split())}" for line in comments),
        r"\begin{table}",
        r"\centering",
        r"\footnotesize",
        r"\setlength{\tabcolsep}{2.5pt}",
        rf"\caption{{{caption}}}",
        rf"\label{{tab:{re.sub('[^a-z0-9]+', '-', label.lower()).strip('-')}}}",
        "\\smallskip",
        "\n\n\\medskip\n".join(tables),
        r"\end{table}",
    ]
    return "\n".join(lines)


def _results(comparison: Comparison, rows: Sequence[ComparisonRow], names: dict[str, str]) -> str:
    heads = ["arm", rf"\multicolumn{{2}}{{c}}{{{escaped(comparison.notes)}}}"]
    heads += [r"\multicolumn{2}{c}{difference}", "$p$", "verdict"]
    mean = _one_format([row.mean for row in rows], [row.interval for row in rows])
    difference = _one_format([row.difference for row in rows], [row.difference_interval for row in rows])
    cells = [_result_cells(row, names[row.arm], mean, difference) for row in rows]
    return tabular("lr@{ }lr@{ }lrl", heads, cells)


def _result_cells(row: ComparisonRow, arm: str, mean: _Format, difference: _Format) -> list[str]:
    shown, p = [escaped(arm), _minus(mean(row.mean))], escaped(p_text(row).replace("< ", "<"))
    if row.stands_out:
        shown = [rf"\textbf{{{cell}}}" for cell in shown]
    compared = [_minus(difference(row.difference)), _between(row.difference_interval, difference)]
    compared[1] = " ".join(filter(None, [compared[1], *map(escaped, difference_statistic(row))]))
    kind = (row.answer or "baseline").partition(":")[0]
    return [*shown, _between(row.interval, mean), *(["", ""] if row.is_baseline else compared), p, kind]


def _costs(rows: Sequence[ComparisonRow], names: dict[str, str], columns: Sequence[Column]) -> str:
    cells = [[escaped(names[row.arm]), *(_minus(escaped(shown(row))) for _, shown in columns)] for row in rows]
    return tabular("l" + "r" * len(columns), [escaped(head) for head in ("arm", *(name for name, _ in columns))], cells)


def _one_format(values: Sequence[float | None], intervals: Sequence[_Interval]) -> _Format:
    """Return a way to write a column in as many decimals as its intervals need to be seen.

    Values without an interval need two figures, and so do the gaps beside them.
    """
    known = [value for value in values if value is not None and not math.isnan(value)]
    largest = max(map(abs, known), default=0.0)
    if largest >= _LARGE:
        return number
    most = max(0, _FIGURES - any(intervals) - len(f"{largest:.0f}"))
    widths = [0.0 if interval is None else interval[1] - interval[0] for interval in intervals]
    bare = [
        value for value, width in zip(values, widths, strict=True) if value in known and value and width < 10**-most
    ]
    if any(_decimals(value, figures=2) > most for value in bare):
        return number
    gaps = [abs(value - other) for value in bare for other in known]
    needed = [
        0 if largest >= 10**_DECIMALS else min(_DECIMALS, most),
        *(_decimals(width) for width in widths if math.inf > width >= 10**-most),
        *(_decimals(size, figures=2) for size in (*bare, *gaps) if abs(size) >= 10**-most),
    ]
    decimals = min(most, max(needed))
    return lambda value: number(None) if value is None else f"{round(value, decimals) + 0.0:.{decimals}f}"


def _decimals(size: float, figures: int = 1) -> int:
    """Return how many decimals show so many figures."""
    return figures - 1 - math.floor(math.log10(abs(size)))


def _between(interval: _Interval, shown: _Format) -> str:
    return "" if interval is None else _small(_minus(f"[{shown(interval[0])}, {shown(interval[1])}]"))


def _small(cell: str) -> str:
    """Set an interval smaller than its middle."""
    return re.sub(r"\[.*\]", lambda match: rf"{{\scriptsize {match.group()}}}", cell)


def _caption(comparison: Comparison, baseline: str) -> str:
    better = "less" if comparison.direction == "min" else "more"
    kinds = {verdict.kind for verdict in comparison.verdicts}
    tested = [verdict for verdict in comparison.verdicts if verdict.p_adjusted is not None]
    corrected = sorted({ADJUSTMENTS[verdict.adjustment] for verdict in tested})
    parts = [
        f"{_capital(comparison.notes)} ({better} is better): mean and {coverage(comparison.alpha)} interval, "
        f"and the difference to {baseline}{_other_level(comparison)}",
        *(f"$p$ of the difference{words}" for words in corrected),
        *([f"equivalent: within {number(comparison.margin)} of it"] if "equivalent" in kinds else []),
        "bold: a verdict says better",
        *filter(None, [chance_text(comparison.chance)]),
    ]
    return "; ".join(part if part.startswith("$p$") else escaped(part) for part in parts)


def _other_level(comparison: Comparison) -> str:
    """Name the level of the differences' intervals, where interim analyses make it another than that of the means."""
    levels = sorted({verdict.level for verdict in comparison.verdicts if verdict.interval is not None})
    named = dict.fromkeys(coverage(level) for level in levels if coverage(level) != coverage(comparison.alpha))
    return f" with its {' or '.join(named)} interval" if named else ""


def _reasons(rows: Sequence[ComparisonRow], names: dict[str, str]) -> list[str]:
    """Return why nothing was shown of arms of which that is known."""
    return [escaped(f"{names[row.arm]} is {row.answer}") for row in rows if ":" in (row.answer or "")]


def _shared(row: ComparisonRow, columns: Sequence[Column]) -> list[str]:
    counted = [(shown(row), name) for name, shown in columns]
    words = (
        f"{count} {name.removesuffix('s') if count == '1' and '/' not in name else name}" for count, name in counted
    )
    return [escaped(f"All arms: {', '.join(words)}")]


def _comments(comparison: Comparison) -> list[str]:
    return [
        *(f"registered: {verdict.sentence}" for verdict in comparison.registered),
        *(verdict.sentence for verdict in comparison.verdicts),
        *families_in(comparison.verdicts),
        comparison.budget.sentence,
        *comparison.remarks,
    ]


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def _joined(cells: Sequence[str]) -> str:
    """A bracket or an asterisk that opens a row would be an argument of the row before."""
    return f"{'{}' if cells[0].startswith(('[', '*')) else ''}{' & '.join(cells)} \\\\"


def _minus(cell: str) -> str:
    """A hyphen before a figure is a sign."""
    return re.sub(r"(^|[ \[])-(?=\d)", r"\1$-$", cell)
