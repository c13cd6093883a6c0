"""Intervals as they are shown: by Student's t, and cut where no mean and no difference can be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf

import numpy as np
import pytest
from rich.console import Console
from scipy import stats

from headtohead.comparison.analyses.budget_ranking import ranking_of
from headtohead.comparison.analyses.length_curves import lengths_of
from headtohead.comparison.comparison import comparison_of
from headtohead.comparison.comparison_results import ArmResult, ComparisonResults, RunResult
from headtohead.comparison.contrasts import ComparisonSpec, Contrast, Registration, Verdict
from headtohead.comparison.report.section_parts import ReportTable, Stacked
from headtohead.comparison.report.sections.arms import section
from headtohead.comparison.statistics.means import difference_interval, mean_interval
from headtohead.comparison.tables.comparison_formats import comparison_table
from headtohead.comparison.tables.comparison_rows import rows_of
from headtohead.comparison.tables.results_table import lengths_table
from headtohead.comparison.verdicts.verdict import verdicts_of
from headtohead.records.record import Comparability, RunRecord

NEAR_ONE = [1.0, 1.0, 0.98, 0.92, 0.9, 0.99]
APART = [0.9, 1.0, 0.95, 0.99, 0.45]


def student(values: Sequence[float]) -> tuple[float, float]:
    """scipy's own."""
    low, high = stats.t.interval(0.95, len(values) - 1, np.mean(values), stats.sem(values))
    return float(low), float(high)


@pytest.mark.parametrize(
    "metric", ["test/accuracy", "exact_match", "entity_f1", "bleu", "mrr@10", "accuracy on test 4x"]
)
def test_no_share_is_shown_above_all_or_below_none(metric: str) -> None:
    low, high = student(APART)
    assert high > 1 > low > 0
    assert mean_interval(APART, 0.05, metric) == (pytest.approx(low), 1.0)
    low, high = student([1 - value for value in APART])
    assert mean_interval([1 - value for value in APART], 0.05, metric) == (0.0, pytest.approx(high))


@pytest.mark.parametrize("metric", ["matthews", "test/spearman"])
def test_correlations_end_at_minus_one(metric: str) -> None:
    result = mean_interval([-value for value in APART], 0.05, metric)
    assert result == (-1.0, pytest.approx(-student(APART)[0]))
    assert mean_interval([0.1, -0.1], 0.05, metric) == (-1.0, 1.0)


@pytest.mark.parametrize(
    ("metric", "values"),
    [
        ("loss", APART),
        ("test/perplexity", APART),
        ("reward", APART),
        pytest.param("accuracy", [100 * value for value in APART], id="in percent"),
        pytest.param("accuracy", [0.5, 0.51, 0.52], id="within reach of no end"),
        pytest.param("accuracy_error", APART, id="a name of two minds"),
    ],
)
def test_where_no_end_is_known_or_reached_nothing_is_cut(metric: str, values: list[float]) -> None:
    assert mean_interval(values, 0.05, metric) == pytest.approx(student(values))


def test_one_seed_and_seeds_that_are_equal_have_no_interval() -> None:
    assert mean_interval([0.9], 0.05, "accuracy") is None and mean_interval([1.0, 1.0], 0.05, "accuracy") is None


def test_a_difference_lies_between_all_and_nothing() -> None:
    shares = [0.2, 1.0, None]
    assert difference_interval((-1.3, 1.2), "accuracy", shares) == (-1.0, 1.0)
    assert difference_interval((-0.2, 1.2), "accuracy", shares) == (-0.2, 1.0)
    assert difference_interval((-2.5, 1.2), "spearman", shares) == (-2.0, 1.2)
    assert difference_interval((-1.3, 1.2), "loss", shares) == (-1.3, 1.2)
    assert difference_interval(None, "accuracy", shares) is None
    assert difference_interval((-inf, inf), "accuracy", shares) == (-1.0, 1.0)


def test_a_verdict_is_cut_in_what_it_shows_and_in_nothing_else() -> None:
    values = {"a": dict(enumerate([0.9, 0.4, 0.75])), "b": dict(enumerate([0.1, 0.2, 0.15]))}

    def verdict(metric: str) -> Verdict:
        return verdicts_of(values, [Contrast("a", "b")], Registration("max", metric=metric))[0]

    shown, whole = verdict("accuracy"), verdict("the metric")
    differences = np.array([0.8, 0.2, 0.6])
    low, high = stats.ttest_1samp(differences, 0).confidence_interval(0.95)
    assert high > 1
    assert whole.interval == pytest.approx((low, high))
    assert shown.interval == pytest.approx((low, 1.0))
    assert "to 1 " in f"{shown.sentence} ".replace(" (", " ")
    same = replace(whole, metric="accuracy", interval=shown.interval, sentence=shown.sentence)
    assert same == shown


def runs(arm: str, values: Sequence[float], stage: str = "test") -> list[RunRecord]:
    return [
        RunRecord(
            id=f"{arm}-{seed}",
            name=arm,
            seed=seed,
            status="finished",
            metrics={"test": {"accuracy": value}, "test_2x": {"accuracy": value}},
            comparability=Comparability(evaluation="rows", loss_normalisation="mean"),
        )
        for seed, value in enumerate(values)
    ]


def test_tables_of_a_comparison_end_at_one() -> None:
    comparison = comparison_of(
        [*runs("one", NEAR_ONE), *runs("other", [0.5, 0.52, 0.48, 0.51, 0.5, 0.49])], ComparisonSpec("other")
    )
    shown = {row.arm: row.interval for row in rows_of(comparison)}
    assert student(NEAR_ONE)[1] > 1
    assert shown["one"] == (pytest.approx(student(NEAR_ONE)[0]), 1.0)
    console = Console(width=200)
    with console.capture() as message:
        console.print(comparison_table(comparison))
    assert "to 1.000" in message.get() and "1.0" in message.get() and "to 1.01" not in message.get()


def test_the_report_and_its_curves_end_at_one() -> None:
    records = runs("one", NEAR_ONE)
    result = [
        RunResult("one", run.seed, "finished", value=value, record=run)
        for run, value in zip(records, NEAR_ONE, strict=True)
    ]
    findings = ComparisonResults("t", "test/accuracy", "max", "one", (ArmResult("one", tuple(result)),), ())
    tables = [part for part in section(findings).parts if isinstance(part, ReportTable)]
    cells = [str(cell.below) for table in tables for row in table.rows for cell in row if isinstance(cell, Stacked)]
    assert any(cell.endswith("to 1.000") for cell in cells)
    curves = lengths_of({"one": records}, "accuracy", 0.05)
    assert curves is not None
    assert [point.interval[1] for point in curves.curves[0].points if point.interval] == [1.0, 1.0]
    console = Console(width=200)
    with console.capture() as message:
        console.print(lengths_table(curves))
    assert f"{np.mean(NEAR_ONE):.3f} [{student(NEAR_ONE)[0]:.3f}, 1.000]" in message.get()
    ranking = ranking_of(
        {1.0: {"one": dict(enumerate(NEAR_ONE))}}, ["one"], metric="test/accuracy", direction="max", alpha=0.05
    )
    (standing,) = ranking.shares[0].standings
    assert standing.interval == (pytest.approx(student(NEAR_ONE)[0]), 1.0)
