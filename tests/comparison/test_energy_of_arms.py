"""Energy in comparisons, tables and reports: shown where it was measured, and only between arms of one counter."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from headtohead.comparison.arms import costs_of
from headtohead.comparison.comparability import NotComparable
from headtohead.comparison.comparison import Comparison, comparison_of
from headtohead.comparison.comparison_results import ComparisonResults
from headtohead.comparison.contrasts import ComparisonSpec
from headtohead.comparison.report.section_parts import ReportFigure
from headtohead.comparison.report.sections.pareto import section as pareto
from headtohead.comparison.report.sections.pareto import speed_section
from headtohead.comparison.tables.comparison_formats import comparison_csv, comparison_table
from headtohead.comparison.tables.run_table import as_table, energy, lines_of
from headtohead.records.record import Environment, Progress, RunRecord
from headtohead.wandb_client.runs_as_records import summary_of
from sample_comparison import made_up

RAPL, NVML = "RAPL, 2 processor packages", "NVML, 1 GPU board"


def measured(record: RunRecord, joules: float | None, source: str = RAPL) -> RunRecord:
    """Return the run with an energy, or without one and with the reason."""
    if joules is None:
        return replace(record, environment=Environment(device={"energy": "not measured: no counter"}))
    throughput = {**record.throughput, "joules": joules, "joules_per_token": joules / 1000}
    return replace(record, throughput=throughput, environment=Environment(device={"energy": source}))


def record(arm: str, seed: int) -> RunRecord:
    metrics = {"test": {"loss": 2.0 + 0.01 * seed - (arm == "b")}}
    return RunRecord(
        f"{arm}-{seed}", name=arm, seed=seed, status="finished", metrics=metrics, progress=Progress(tokens=1000)
    )


def compared(a: list[Any], b: list[Any], budget: str | None = None) -> Comparison:
    """Compare two arms by the energies of their runs: joules, or joules and the counter."""
    runs = []
    for arm, energies in {"a": a, "b": b}.items():
        for seed, drawn in enumerate(energies):
            runs.append(measured(record(arm, seed), *(drawn if isinstance(drawn, tuple) else (drawn,))))
    return comparison_of(runs, ComparisonSpec("a", budget=budget))


def printed(table: object) -> str:
    console = Console(file=io.StringIO(), width=300)
    console.print(table)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_tables_and_csv_show_energy_where_it_was_measured() -> None:
    both = compared([1000.0, 2000.0], [3000.0, 3000.0])
    text = printed(comparison_table(both))
    assert "energy" in text and "1.5 kJ" in text and "J/token" in text
    first, second = csv.DictReader(io.StringIO(comparison_csv({"": both})))
    assert (first["joules"], second["joules_per_token"], second["energy_source"]) == ("1500.0", "3.0", RAPL)
    none = compared([None, None], [None, None])
    assert "energy" not in printed(comparison_table(none)) and "joules" not in none.budget.sentence


def test_the_table_of_runs_shows_energy_where_it_was_measured() -> None:
    runs = [measured(record("a", 0), 1.5e6), measured(record("b", 0), None)]
    assert "1.5 MJ" in printed(as_table(lines_of(runs)))
    assert "energy" not in printed(as_table(lines_of(runs[1:])))


@pytest.mark.parametrize(
    ("joules", "text"),
    [(None, "-"), (0.0, "0 J"), (2.5, "2.5 J"), (999.6, "1 kJ"), (999.4, "999 J"), (3.6e6, "3.6 MJ")],
)
def test_joules_have_three_figures_and_a_unit(joules: float | None, text: str) -> None:
    assert energy(joules) == text


@pytest.mark.parametrize("last", [None, (5.0, NVML)])
def test_an_arm_has_no_energy_unless_one_counter_measured_all_of_its_runs(last: Any) -> None:
    runs = [measured(record("a", seed), 5.0) for seed in range(2)]
    assert costs_of(runs).joules == 5.0
    odd = measured(record("a", 2), *(last if isinstance(last, tuple) else (last,)))
    assert (costs_of([*runs, odd]).joules, costs_of([*runs, odd]).energy_source) == (None, None)


def test_arms_of_equal_energy_are_compared_and_others_refused() -> None:
    assert "joules" in compared([100.0, 100.0], [101.0, 101.0], "equal_energy").budget.sentence
    with pytest.raises(NotComparable, match=r"equal_energy: unequal joules: b 2 times"):
        compared([100.0, 100.0], [200.0, 200.0], "equal_energy")


@pytest.mark.parametrize("b", [[100.0, None], [(100.0, NVML)] * 2, [None, None]])
def test_arms_whose_energy_is_unknown_or_of_another_counter_are_refused_with_what_to_type(b: list[Any]) -> None:
    with pytest.raises(NotComparable, match=r"energy of b was not measured, or not by one counter.*equal_time"):
        compared([100.0, 100.0], b, "equal_energy")
    with pytest.raises(NotComparable, match=r"energy of any arm was not measured.*equal_time"):
        compared([None, None], [None, None], "equal_energy")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> ComparisonResults:
    return made_up(tmp_path_factory.mktemp("runs"))


def with_energy(results: ComparisonResults, odd: tuple[float | None, str] | None = None) -> ComparisonResults:
    """Measure every run of the comparison, the first of them by something else."""
    arms = []
    for number, arm in enumerate(results.arms):
        runs = [replace(run, record=run.record and measured(run.record, 100.0 * (1 + number))) for run in arm.runs]
        if odd is not None and number == 0 and runs[0].record is not None:
            runs[0] = replace(runs[0], record=measured(runs[0].record, *odd))
        arms.append(replace(arm, runs=tuple(runs)))
    return replace(results, arms=tuple(arms))


def costs_in(results: ComparisonResults) -> list[str]:
    shown = pareto(results)
    assert shown is not None
    (part,) = shown.parts
    assert isinstance(part, ReportFigure)
    return list(part.controls[0].options)


def test_the_report_draws_quality_against_energy_only_where_one_counter_measured_every_run(
    results: ComparisonResults,
) -> None:
    assert "energy" in costs_in(with_energy(results))
    for without in (results, with_energy(results, (None, "")), with_energy(results, (5.0, NVML))):
        assert "energy" not in costs_in(without)


def test_the_report_says_what_a_measured_energy_includes(results: ComparisonResults) -> None:
    captions = [str(speed_section(each)) for each in (with_energy(results), results)]
    assert "whole processor packages (RAPL)" in captions[0] and "RAPL" not in captions[1]


def test_wandb_gets_the_amount_with_its_counter_and_nothing_of_an_unmeasured_run(tmp_path: Path) -> None:
    summary = summary_of(measured(record("a", 0), 7.0))
    assert (summary["throughput/joules"], summary["environment/energy"]) == (7.0, RAPL)
    assert not any("energy" in name or "joules" in name for name in summary_of(measured(record("a", 0), None)))
