"""A metric is one object: what it is stands in one file, and tasks, records, comparisons and W&B read it there."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import headtohead
from headtohead import metrics as package
from headtohead.config.compose.choices import choices
from headtohead.config.schema.metric_names import metric_directions, metric_names
from headtohead.finished_runs.embedding.rankings import MEASURES
from headtohead.metrics import Metric, guessed, metric_named, metrics, own_metric, unit_of
from headtohead.metrics.language_modelling import LOSS
from headtohead.tasks.task import Task
from headtohead.wandb_client.logged_rows import Extremes

SOURCE = Path(headtohead.__file__).parent
MAY_LIST = ("metrics", "tasks")
"""Folders that say what metrics are, and which of them a task measures."""


def tasks() -> Iterator[type[Task]]:
    for choice in choices("task"):
        module, _, name = choice.target.rpartition(".")
        task = getattr(importlib.import_module(module), name)
        assert issubclass(task, Task), choice.name
        yield task


def test_the_unit_of_a_loss_is_what_its_task_divides_it_by() -> None:
    by_name = dict(zip((choice.name for choice in choices("task")), tasks(), strict=True))
    for metric in metrics().values():
        assert set(metric.units) <= set(by_name), metric.name
    for name, unit in LOSS.units.items():
        ratio = by_name[name].row_ratios.get(LOSS.name)
        if ratio is not None:
            assert unit.endswith("token") == (ratio[1] == "tokens"), name
        is_squared = "squared error" in (by_name[name].__doc__ or "")
        assert unit.startswith("squared error" if is_squared else "nats"), name
    assert unit_of("validation/loss", "causal_lm") == "nats per token"
    assert (
        unit_of("train/loss", "a task of somebody") == unit_of("loss", None) == unit_of("train/learning_rate", "") == ""
    )


def test_every_metric_is_measured_by_some_task_and_every_task_names_its_own() -> None:
    measured = {metric.name for task in tasks() for metric in task.metrics} | {metric.name for metric in MEASURES}
    assert measured == metrics().keys()
    for task in tasks():
        assert all(isinstance(metric, Metric) for metric in task.metrics), task
        assert len({metric.name for metric in task.metrics}) == len(task.metrics), task


def test_the_source_text_of_every_task_tells_its_metrics() -> None:
    for choice, task in zip(choices("task"), tasks(), strict=True):
        named = {metric.name for metric in task.metrics if metric.direction is not None}
        assert set(metric_names(choice.target)) == named, choice.name
        assert metric_directions(choice.target) == {metric.name: metric.direction for metric in task.metrics}


@pytest.mark.parametrize("metric", metrics().values(), ids=lambda metric: metric.name)
def test_a_metric_is_whole(metric: Metric) -> None:
    assert metric.low < metric.high and metric.over
    if metric.direction is None:
        assert metric.best is None
        return
    assert metric.best == (metric.low if metric.direction == "min" else metric.high), "the best is the bound ahead"
    assert metric.chance is None or metric.low <= metric.chance <= metric.high
    assert metric.is_better(metric.best, metric.best + (1 if metric.direction == "min" else -1))


def test_each_metric_is_a_constant_of_its_name_and_stands_once() -> None:
    text = "".join(path.read_text() for path in (SOURCE / "metrics").glob("*.py"))
    assert sorted(re.findall(r'name="(\w+)"', text)) == sorted(metrics())
    constants = [name.replace("_", "").lower() for name in re.findall(r"^(\w+) = Metric\(", text, re.MULTILINE)]
    assert sorted(constants) == sorted(name.replace("_", "").lower() for name in metrics())


def test_no_two_headlines_have_one_rank() -> None:
    ranks = [metric.headline for metric in metrics().values() if metric.headline is not None]
    assert sorted(ranks) == list(range(1, len(ranks) + 1))


@pytest.mark.process
def test_metrics_are_read_without_torch() -> None:
    code = "import sys, headtohead.metrics as m; m.metrics(); assert not {'torch', 'numpy'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True)


def listed(tree: ast.AST) -> Iterator[set[str]]:
    """Yield the texts of every literal collection."""
    for node in ast.walk(tree):
        items = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", ())
        texts = {item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)}
        if texts:
            yield texts


@pytest.mark.slow
def test_no_other_file_lists_metrics_by_name() -> None:
    """The metric alone owns its properties: a list of names elsewhere would go out of date."""
    names = metrics().keys() - {"recall"}
    for path in SOURCE.rglob("*.py"):
        if path.relative_to(SOURCE).parts[0] in MAY_LIST:
            continue
        for texts in listed(ast.parse(path.read_text(encoding="utf-8"))):
            assert len(texts & names) < 2, f"{path.relative_to(SOURCE)} lists {', '.join(sorted(texts & names))}"


def test_a_file_more_is_a_metric_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tidiness.py").write_text(
        "from headtohead.metrics.metric import Metric\n"
        'TIDINESS = Metric(name="tidiness", direction="max", best=1.0, over="rows")\n'
    )
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    metrics.cache_clear()
    try:
        assert own_metric("validation/tidiness") is metrics()["tidiness"]
        held = Extremes()
        held.take({"validation/tidiness": 0.2})
        held.take({"validation/tidiness": 0.1})
        assert held.as_summary()["max/validation/tidiness"] == 0.2
    finally:
        metrics.cache_clear()
        sys.modules.pop("headtohead.metrics.tidiness", None)


def test_the_projects_own_names_are_no_guess() -> None:
    for name in ("matthews", "validation/pearson", "test_4x/spearman", "retrieval/ndcg@10"):
        metric = metric_named(name)
        assert metric is not None and metric is own_metric(name) and metric.direction == "max"


@pytest.mark.parametrize(
    ("name", "direction", "bounds"),
    [("eval/mcc", "max", (-1.0, 1.0)), ("val_top1", "max", (0.0, 1.0)), ("test/wer", "min", None)],
)
def test_names_of_other_programs_are_guessed(name: str, direction: str, bounds: tuple[float, float] | None) -> None:
    result = guessed(name)
    assert result is not None and result.direction == direction
    assert bounds is None or (result.low, result.high) == bounds


def test_a_name_of_two_minds_tells_nothing() -> None:
    assert guessed("accuracy_error") is None and guessed("speed") is None
