"""Head to Head from Python: compose, build, train, inspect, evaluate, load, compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from headtohead.config.build import build_model, build_parts, fitted, make_model
from headtohead.config.compose.composition import compose_checked
from headtohead.data.data_source import SplitName
from headtohead.diagnostics.inspection import Inspection
from headtohead.finished_runs.evaluation.evaluation_results import Evaluation
from headtohead.records.record import RunRecord

if TYPE_CHECKING:
    from headtohead.comparison.comparison import Comparison
    from headtohead.comparison.task_comparison import TaskComparison
    from headtohead.finished_runs.loaded_run import LoadedRun

__all__ = ["build_model", "build_parts", "compare", "compose", "evaluate", "inspect", "load_run", "train"]


def compose(root: str = "train", overrides: Sequence[str] = (), config_dir: str | Path | None = None) -> dict[str, Any]:
    """Return a configuration, resolved and checked: `compose("train", ["model=decoder_only", "model/size=small"])`.

    `config_dir` is a folder with YAML files of your own, by group. Raises ConfigurationError, a ValueError.
    """
    return compose_checked(root, overrides, config_dir)


def train(config: Mapping[str, Any], *, take_over: bool = False) -> RunRecord:
    """Trains, and gives the record of the run; `record.path` is its folder. The configuration is the caller's own, and
    whatever it names is made; `h2h train --from-run` is for one that came with a run. With `take_over` a resumed run is
    taken from the process that writes it.
    """
    from headtohead.training.run import train as train_parts

    parts = build_parts(dict(config))
    return train_parts(replace(parts, identity=replace(parts.identity, take_over=take_over)))


def inspect(config: Mapping[str, Any]) -> Inspection:
    """Return the ledger and the shapes at every stage, without training and without memory for the weights."""
    from headtohead.diagnostics.inspection import inspect as inspect_model

    filled, size = fitted(config)
    return inspect_model(make_model(filled, "meta"), size)


def evaluate(
    run: str | Path,
    overrides: Sequence[str] = (),
    *,
    split: SplitName = "test",
    lengths: Sequence[int] = (),
    stride: int | None = None,
    trust: Sequence[str] = (),
) -> Evaluation:
    """A finished run's selected weights, measured again: `evaluate(record.path, ["data.path=other.txt"], stride=32)`.

    `lengths` are tokens read at once, a pass for each; windows that start `stride` apart score every token once.
    `trust` is as in `load_run`.
    """
    from headtohead.finished_runs.evaluation.evaluate import evaluate as evaluate_run
    from headtohead.finished_runs.evaluation.evaluation_request import EvaluationRequest

    question = EvaluationRequest(split=split, lengths=tuple(lengths), stride=stride, overrides=tuple(overrides))
    return evaluate_run(load_run(run, trust=trust), question)


def load_run(path: str | Path, *, trust: Sequence[str] = ()) -> LoadedRun:
    """A finished run to use, by its folder: `record`, `model` with the selected weights, `data`, `generate("a text")`,
    `embed(["a text"])`, `attention("a text")`.

    `trust` names packages or classes that a run from elsewhere may name beyond the choices that come with this one.
    """
    from headtohead.finished_runs.loaded_run import load_run as load

    return load(path, trust=trust)


def compare(
    paths: Sequence[str | Path],
    *,
    metric: str | None = None,
    against: str | None = None,
    direction: Literal["min", "max"] | None = None,
    margin: float | None = None,
    budget: str | None = None,
    solved_at: float | None = None,
    allow_unlike: Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
) -> Comparison | TaskComparison:
    """Runs against each other, arms of studies else by name: `compare(["outputs/a", "outputs/b"], metric="test/loss")`.

    Paths are run folders, folders of them, .csv files or wandb:ENTITY/PROJECT. `.verdicts` has one for each arm against
    `against` (default: a study's own baseline, else the arm of the first path), each with its `.sentence`. The runs of
    one study are judged as it was registered; of another question `.registered` has the study's own verdicts. `columns`
    name those of .csv files: {"arm": "model", "seed": "seed", "step": "epoch"}. Raises NotComparable, a ValueError.
    """
    from headtohead.comparison.arms import arm_of
    from headtohead.comparison.contrasts import ComparisonSpec
    from headtohead.comparison.registered_answers import registered_baseline
    from headtohead.comparison.table_columns import NamedColumns
    from headtohead.comparison.task_comparison import compared
    from headtohead.finished_runs.named_runs import named_runs

    runs = named_runs(paths, NamedColumns(metric=metric, **(columns or {})))
    baseline = against or registered_baseline(runs.records) or arm_of(runs.records[0])
    terms = ComparisonSpec(baseline, metric, direction, margin, tuple(allow_unlike), budget, solved_at)
    return compared(runs.records, terms, remarks=(*runs.remarks, *runs.unread), curves=runs.curves)
