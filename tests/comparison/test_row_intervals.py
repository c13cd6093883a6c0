"""A difference over other test rows: a paired bootstrap over the rows that the runs of a study share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from headtohead.comparison.comparison import Comparison, comparison_of
from headtohead.comparison.contrasts import ComparisonSpec, Contrast, Registration, Verdict
from headtohead.comparison.verdicts.verdict import verdicts_of
from headtohead.comparison.verdicts.verdict_details import with_rows
from headtohead.records.record import Comparability, RunRecord
from headtohead.records.row_sums import read_rows, write_rows

RATIOS = {"accuracy": ("correct", "samples"), "loss": ("loss", "tokens")}
Columns = Mapping[str, NDArray]


def run(folder: Path, arm: str, seed: int, columns: Columns | None, evaluation: str = "e") -> RunRecord:
    record = RunRecord(id=f"{arm}{seed}", name=arm, seed=seed, status="finished", path=folder / f"{arm}{seed}")
    assert record.path is not None
    record.path.mkdir(parents=True)
    record.comparability = Comparability(evaluation=evaluation, loss_normalisation="mean")
    if columns is not None:
        write_rows(record.path, "test", columns, RATIOS)
        record.metrics["test"] = {name: float(columns[a].sum() / columns[b].sum()) for name, (a, b) in RATIOS.items()}
        record.metrics["test"]["bleu"] = 0.3 + 0.01 * seed
    return record


def rows_of(right: NDArray, rng: np.random.Generator) -> Columns:
    tokens = rng.integers(1, 40, size=len(right))
    return {
        "row": np.arange(len(right)),
        "correct": right,
        "samples": np.ones(len(right)),
        "loss": tokens * (2.0 - right + 0.1 * rng.normal(size=len(right))),
        "tokens": tokens,
    }


def study(folder: Path, num_rows: int, seeds: Sequence[int] = range(5), shift: float = 0.1) -> list[RunRecord]:
    """Some rows are hard for all: seeds agree on them, and other rows would be others."""
    rng = np.random.default_rng(num_rows)
    hard, helped = rng.random(num_rows), rng.random(num_rows)
    records = []
    for seed in seeds:
        for arm, gain in (("a", 0.0), ("b", shift)):
            right = (rng.random(num_rows) < 0.9) & (hard < 0.6) | (helped < gain)
            records.append(run(folder, arm, seed, rows_of(right.astype(float), rng)))
    return records


def judged(records: Sequence[RunRecord], metric: str = "test/accuracy", margin: float | None = None) -> Verdict:
    values: dict[str, dict[int, float | None]] = {"a": {}, "b": {}}
    for record in records:
        values[record.name][record.seed] = record.metrics["test"][metric.partition("/")[2]]
    registration = Registration("max", metric, margin=margin, seeds=range(5))
    return with_rows(verdicts_of(values, [Contrast("b", "a")], registration), records, metric)[0]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    columns = rows_of(np.array([1.0, 0.0, 1.0]), np.random.default_rng(0))
    write_rows(tmp_path, "test_4x", columns, RATIOS)
    result = read_rows(tmp_path, "test_4x")
    assert result is not None and result.ratios == RATIOS and result.columns["correct"].dtype == np.uint8
    for name, values in columns.items():
        np.testing.assert_allclose(result.columns[name], values, rtol=1e-6)
    assert read_rows(tmp_path, "test") is None
    (tmp_path / "rows" / "test.npz").write_bytes(b"no archive")
    assert read_rows(tmp_path, "test") is None


def test_a_verdict_names_its_test_rows_and_what_others_would_say(tmp_path: Path) -> None:
    verdict = judged(study(tmp_path, 200))
    assert verdict.num_rows == 200 and verdict.row_interval is not None
    low, high = verdict.row_interval
    assert low < (verdict.difference or 0) < high
    assert "on these 200 test rows; over others like them 95 % interval" in verdict.sentence
    assert "(paired bootstrap)" in verdict.sentence and "wider than the margin" not in verdict.sentence


@pytest.mark.slow
def test_rows_that_are_too_few_for_the_margin_are_told(tmp_path: Path) -> None:
    assert "wider than the margin of 0.02 to either side" in judged(study(tmp_path / "few", 100), margin=0.02).sentence
    many = judged(study(tmp_path / "many", 20_000), margin=0.02)
    assert many.num_rows == 20_000 and "wider than the margin" not in many.sentence


def test_the_interval_is_that_of_the_rows_differences(tmp_path: Path) -> None:
    """The bootstrap of an accuracy is the normal interval of the mean of the seeds' mean differences by row."""
    records = study(tmp_path, 400)
    verdict = judged(records)
    by_arm: dict[str, list[NDArray]] = {"a": [], "b": []}
    for record in records:
        assert record.path is not None
        result = read_rows(record.path, "test")
        assert result is not None
        by_arm[record.name].append(result.columns["correct"].astype(float))
    difference = np.mean(by_arm["b"], axis=0) - np.mean(by_arm["a"], axis=0)
    reach = 1.96 * difference.std(ddof=1) / np.sqrt(len(difference))
    assert verdict.row_interval == pytest.approx(
        (difference.mean() - reach, difference.mean() + reach), abs=0.1 * reach
    )


def test_a_loss_is_a_ratio_of_sums_and_not_a_mean_over_rows(tmp_path: Path) -> None:
    records = study(tmp_path, 300)
    verdict = judged(records, "test/loss")
    assert verdict.row_interval is not None
    assert sum(verdict.row_interval) / 2 == pytest.approx(verdict.difference, abs=0.02)


@pytest.mark.slow
def test_the_interval_holds_the_difference_over_all_rows_in_95_percent_of_test_sets(tmp_path: Path) -> None:
    """The same runs on other rows of the kind."""
    rng, held = np.random.default_rng(0), 0
    population = 0.1 * (1 - 0.6 * 0.9)
    for draw in range(60):
        hard, helped = rng.random(150), rng.random(150)
        records = []
        for seed in range(3):
            noise = rng.random(150) < 0.9
            for arm, gain in (("a", 0.0), ("b", 0.1)):
                right = noise & (hard < 0.6) | (helped < gain)
                records.append(run(tmp_path / str(draw), arm, seed, rows_of(right.astype(float), rng)))
        low, high = judged(records).row_interval or (0.0, 0.0)
        held += low <= population <= high
    assert held >= 52


def test_a_figure_of_the_whole_set_is_refused_plainly(tmp_path: Path) -> None:
    verdict = judged(study(tmp_path, 100), "test/bleu")
    assert verdict.row_interval is None and verdict.num_rows == 100
    assert "not known: bleu is one figure of the whole set, not a mean over its rows" in verdict.sentence


def test_seeds_with_rows_of_their_own_need_no_such_interval(tmp_path: Path) -> None:
    records = study(tmp_path, 100)
    for record in records:
        record.comparability.evaluation = f"rows of {record.seed}"
    assert judged(records).num_rows is None


@pytest.mark.slow
def test_runs_that_kept_no_rows_are_judged_as_before(tmp_path: Path) -> None:
    records = [*study(tmp_path, 100)[1:], run(tmp_path, "a", 9, None)]
    records[-1].metrics["test"] = {"accuracy": 0.5}
    records[-1].seed = 0
    assert judged(records).num_rows is None


def test_found_runs_are_judged_over_rows_too(tmp_path: Path) -> None:
    result = comparison_of(study(tmp_path, 100), ComparisonSpec("a", "test/accuracy"))
    assert isinstance(result, Comparison) and result.verdicts[0].num_rows == 100
