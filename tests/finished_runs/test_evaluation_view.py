"""Evaluations on the terminal: every number whole, however narrow it is."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from rich.console import Console

from headtohead.finished_runs.evaluation.evaluation_results import Evaluation, EvaluationPoint, show_evaluations

CLASSES = ("loss", "accuracy", "precision_macro", "recall_macro", "f1_macro", "matthews", "f1_second_class")
WORDS = ("loss", "perplexity", "token_accuracy", "bits_per_byte")


def point_of(names: Sequence[str], position: int, **message: Any) -> EvaluationPoint:
    metrics = {name: 0.1111 * (number + 1) + position / 1000 for number, name in enumerate(names)}
    message = {"length": None, "mean_context": None, **message}
    baseline = dict.fromkeys(names, 0.4321)
    return EvaluationPoint(
        metrics=metrics, baseline=baseline, samples=1821, scored=55552, data_hash="", seconds=1.0, **message
    )


def evaluation_of(points: list[EvaluationPoint]) -> Evaluation:
    message: Mapping[str, Any] = dict.fromkeys(Evaluation.__dataclass_fields__)
    own = {"run": "r", "name": "a_name_of_a_run", "split": "test", "monitor": "loss", "points": points}
    return Evaluation(**{**message, **own})


SHOTS = evaluation_of(
    [point_of(CLASSES, position, shots=position, intervals={"accuracy": [0.199, 0.561]}) for position in (0, 1, 4)]
)
LENGTHS = evaluation_of(
    [point_of(WORDS, position, length=position, mean_context=position / 2) for position in (64, 256)]
)
CLASSES_OVER_LENGTHS = evaluation_of(
    [point_of(CLASSES, position, length=position, intervals={"accuracy": [0.199, 0.561]}) for position in (64, 256)]
)


@pytest.mark.parametrize("width", [80, 100, 140])
@pytest.mark.parametrize("result", [SHOTS, LENGTHS, CLASSES_OVER_LENGTHS], ids=["shots", "lengths", "classes"])
def test_every_number_is_whole_on_a_terminal_of_any_width(result: Evaluation, width: int) -> None:
    written = io.StringIO()
    Console(file=written, width=width).print(show_evaluations([result], [{}]))
    text = written.getvalue()
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    for point in result.points:
        lines = [
            line for line in text.splitlines() if f" {point.shots if point.length is None else point.length} " in line
        ]
        for value in (*point.metrics.values(), 0.4321):
            assert any(f" {value:.4f} " in line for line in lines), value


def test_a_wide_terminal_has_one_table() -> None:
    written = io.StringIO()
    Console(file=written, width=140).print(show_evaluations([SHOTS], [{}]))
    assert written.getvalue().count("┏") == 1
