"""One contest in every format: the same numbers, names as they are, bold only by verdict, budgets checked."""

from __future__ import annotations

import csv
import io
import json

import pytest
from rich.console import Console

from headtohead.comparison.comparability import NotComparable
from headtohead.comparison.comparison import Comparison, comparison_of
from headtohead.comparison.contrasts import ComparisonSpec
from headtohead.comparison.tables.comparison_formats import comparison_csv, comparison_table
from headtohead.comparison.tables.comparison_rows import as_data
from headtohead.comparison.tables.latex_tables import comparison_latex, escaped
from headtohead.metrics import metric_named
from headtohead.records.record import Progress, RunRecord

NASTY = r"50%_mamba & {x}\~^#$"


def record(name: str, seed: int, loss: float, parameters: float, flops: float) -> RunRecord:
    return RunRecord(
        id=f"{name}-{seed}",
        name=name,
        seed=seed,
        status="finished",
        metrics={"test": {"loss": loss}},
        costs={"totals": {"parameters": parameters}},
        progress=Progress(tokens=1000, flops=flops),
    )


def comparison(gain: float = 0.2, budget: str | None = None) -> Comparison:
    noise = (0.0, 0.01, -0.01, 0.02)
    result = [record("gpt", seed, 2.0 + noise[seed], 1000, 5e9) for seed in range(4)]
    result += [record(NASTY, seed, 2.0 - gain + noise[-1 - seed], 1010, 4e9) for seed in range(4)]
    return comparison_of(result, ComparisonSpec("gpt", budget=budget))


def test_what_programs_read_has_hyphens_for_negative_numbers() -> None:
    shown = comparison()
    console = Console(width=300, file=io.StringIO())
    console.print(comparison_table(shown))
    assert isinstance(console.file, io.StringIO)
    texts = [json.dumps(as_data(shown)), comparison_csv({"x": shown}), comparison_latex(shown), console.file.getvalue()]
    assert not [text for text in texts if "−" in text or "-0.2" not in text]


def test_latex_escapes_names_and_is_bold_only_where_a_verdict_says_better() -> None:
    text = comparison_latex(comparison())
    assert rf"\textbf{{{escaped(NASTY)}}} & \textbf{{1.805}}" in text
    assert "\ngpt & 2.005" in text
    assert r"50\%\_mamba \& \{x\}\textbackslash{}" in text
    assert r"\textbf" not in comparison_latex(comparison(gain=0.001))
    assert r"\textbf{gpt}" in comparison_latex(comparison(gain=-0.2))


def test_csv_has_a_line_for_each_arm_with_numbers_in_full() -> None:
    first, second = csv.DictReader(io.StringIO(comparison_csv({"": comparison()})))
    assert (first["arm"], first["verdict"], second["arm"], second["verdict"]) == ("gpt", "", NASTY, "better")
    assert float(second["difference"]) == pytest.approx(-0.2)
    assert (second["exploratory"], second["parameters"], second["seeds"]) == ("True", "1010.0", "4")


def test_json_has_arms_verdicts_budget_and_remarks() -> None:
    data = json.loads(json.dumps(as_data(comparison()), allow_nan=False))
    assert [arm["arm"] for arm in data["arms"]] == ["gpt", NASTY]
    assert data["verdicts"][0]["kind"] == "better"
    assert data["budget"]["sentence"].startswith(
        "costs: equal within 2 %: parameters, tokens; different: training FLOPs"
    )


def test_costs_of_many_arms_are_told_in_short() -> None:
    result = [record(f"arm{n}", seed, 2.0 + n + seed / 10, 1000, 1e9 * (n + 1)) for n in range(12) for seed in range(2)]
    message = comparison_of(result, ComparisonSpec("arm0")).budget.sentence
    assert "training FLOPs (11 arms 2 to 12 times)" in message
    with pytest.raises(NotComparable, match="arm7 8 times"):
        comparison_of(result, ComparisonSpec("arm0", budget="equal_flops"))


def test_arms_stand_in_the_order_of_their_numbers_and_none_is_an_argument_of_latex() -> None:
    names = ("[a]10", "[a]2", "[a]1", "*a")
    result = [record(name, seed, 2.0 + seed / 10, 1000, 1e9) for name in names for seed in range(2)]
    comparison = comparison_of(result, ComparisonSpec("[a]1"))
    assert [arm.name for arm in comparison.arms] == ["[a]1", "*a", "[a]2", "[a]10"]
    table = comparison_latex(comparison)
    assert "\n{}[a]2 & " in table and "\n{}*a & " in table and "\n[a]" not in table and "\n*a" not in table


def test_costs_that_nobody_knows_are_told_in_one_word() -> None:
    result = [
        RunRecord(f"{n}-{s}", name=n, seed=s, status="finished", metrics={"test": {"loss": 2.0 + s}})
        for n in "ab"
        for s in (0, 1)
    ]
    assert comparison_of(result, ComparisonSpec("a")).budget.sentence == "costs: unknown for some arms"


def test_a_difference_of_rates_is_called_one() -> None:
    result = [record("a", n, 0.99 + n / 1000, 1000, 1e9) for n in range(6)]
    result += [record("b", n, 0.1 + n / 100, 1000, 1e9) for n in range(6)]
    for one in result:
        one.metrics, one.baselines = {"test": {"accuracy": one.metrics["test"]["loss"]}}, {"accuracy": 0.1}
    comparison = comparison_of(result, ComparisonSpec("b"))
    assert comparison.verdicts[0].method == "solve rates"
    assert " in solve rate &" in comparison_latex(comparison)


def test_a_budget_that_was_asked_for_refuses_the_odd_one_out() -> None:
    assert comparison(budget="equal_parameters").verdicts
    with pytest.raises(NotComparable, match=r"equal_flops: unequal training FLOPs: 50%_mamba .* 0.8 times"):
        comparison(budget="equal_flops")
    with pytest.raises(NotComparable, match=r"equal_state: the records of gpt, .* do not say their state"):
        comparison(budget="equal_state")
    with pytest.raises(NotComparable, match="budget equal_flop is not known: choose from equal_parameters"):
        comparison(budget="equal_flop")


def test_a_baseline_that_alone_differs_is_the_odd_one() -> None:
    result = [record("gpt", 0, 2.0, 1000, 5e9), record("a", 0, 2.0, 1000, 4e9), record("b", 0, 2.0, 1000, 4e9)]
    flops = next(axis for axis in comparison_of(result, ComparisonSpec("gpt")).budget.axes if axis.name == "flops")
    assert flops.odd == {"gpt": 1.25}


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("val_loss", "min"),
        ("eval/WER", "min"),
        ("top-1 acc", "max"),
        ("RougeL-f1", "max"),
        ("glossary", None),
        ("x", None),
    ],
)
def test_a_metric_tells_its_direction_by_whole_words_alone(metric: str, message: str | None) -> None:
    result = metric_named(metric)
    assert (None if result is None else result.direction) == message


def test_a_run_without_a_partner_that_diverged_is_not_left_out() -> None:
    result = [record("gpt", seed, 2.0 + seed / 100, 1000, 1e9) for seed in range(3)]
    result += [record("lstm", seed, 1.0 + seed / 90, 1000, 1e9) for seed in range(3)]
    lost = RunRecord(id="lstm-9", name="lstm", seed=9, status="diverged")
    judged = comparison_of([*result, lost], ComparisonSpec("gpt"))
    assert judged.verdicts[0].failures["lstm"] == 1
    assert any("nothing is paired" in remark for remark in judged.remarks)


def test_arms_that_share_no_seeds_are_compared_unpaired() -> None:
    result = [record("gpt", seed, 2.0 + seed / 100, 1000, 1e9) for seed in range(3)]
    result += [record("lstm", seed + 10, 1.0 + seed / 90, 1000, 1e9) for seed in range(3)]
    assert comparison_of(result, ComparisonSpec("gpt")).verdicts[0].method == "Welch's t"


def test_a_narrow_terminal_has_the_costs_in_a_table_of_their_own() -> None:
    for width, tables in ((160, 1), (80, 2)):
        console = Console(file=io.StringIO(), width=width, color_system=None)
        console.print(comparison_table(comparison()))
        assert isinstance(console.file, io.StringIO)
        message = console.file.getvalue()
        assert message.count("┏") == tables and "…" not in message
        assert "1.805" in message and "training" not in message and "5 G" in message
