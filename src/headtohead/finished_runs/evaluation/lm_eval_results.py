"""Tasks of lm-evaluation-harness over a finished run: results as it reports them, kept beside the run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from headtohead.config.errors import ConfigurationError
from headtohead.files.atomic_write import replace_text
from headtohead.finished_runs.evaluation.evaluation_results import FOLDER
from headtohead.finished_runs.finished_run import FinishedRun


@dataclass(frozen=True)
class LmEvalResults:
    """Metrics by task, with their standard errors; where they are on disk."""

    run: str
    shots: int | None
    tasks: Mapping[str, Mapping[str, object]]
    path: str


def evaluate_with_lm_eval(
    run: FinishedRun, tasks: Sequence[str], *, folder: str | Path | None = None, shots: int | None = None
) -> LmEvalResults:
    """`folder` has task files of the user's own; raises ConfigurationError without the extra, or for a task that is
    none."""
    try:
        import lm_eval
        from lm_eval.tasks import TaskManager
    except ModuleNotFoundError as error:
        if error.name != "lm_eval":
            raise
        raise ConfigurationError(
            "--lm-eval needs lm-evaluation-harness, which is not installed: pip install 'headtohead[lm-eval]'"
        ) from None
    from headtohead.finished_runs.evaluation.lm_eval_model import LmEvalModel

    own = None if folder is None else str(folder)
    manager = TaskManager(include_path=own, include_defaults=False)
    if not all(manager.match_tasks([name]) for name in tasks):
        manager = TaskManager(include_path=own)  # thousands of files, which take seconds to read
    if missing := [name for name in tasks if not manager.match_tasks([name])]:
        raise ConfigurationError(
            f"--lm-eval {','.join(missing)} is not a task of lm-evaluation-harness: lm-eval ls tasks lists them, "
            "--lm-eval-tasks DIR adds your own"
        )
    try:
        result = lm_eval.simple_evaluate(
            model=LmEvalModel(run, batch_size=32), tasks=list(tasks), num_fewshot=shots, task_manager=manager
        )
    except (ConnectionError, FileNotFoundError) as error:
        raise ConfigurationError(
            f"the data of --lm-eval {','.join(tasks)} cannot be read ({error}): connect once, which fills the cache of "
            "datasets, or describe a task over files of your own (dataset_path: json), --lm-eval-tasks DIR"
        ) from error
    assert result is not None, "one process evaluates"
    results: dict[str, dict[str, Any]] = {
        name: {metric: value for metric, value in metrics.items() if isinstance(value, int | float)}
        for name, metrics in result["results"].items()
    }
    stem = "-".join(["lm_eval", *sorted(tasks), *([] if shots is None else [f"shots_{shots}"])])
    path = run.folder / FOLDER / f"{stem}.json"
    path.parent.mkdir(exist_ok=True)
    content = {"run": run.record.id, "shots": shots, "lm_eval": lm_eval.__version__, "results": results}
    replace_text(Path(path), json.dumps(content, indent=2) + "\n")
    return LmEvalResults(run.record.name, shots, results, str(path))


_ERROR = "_stderr"
"""The suffix by which the harness names the standard error of a metric: acc_stderr,none."""


def show_lm_eval(evaluations: Sequence[LmEvalResults]) -> Table:
    table = Table()
    for index, name in enumerate(("run", "task", "metric", "value", "standard error")):
        table.add_column(name, justify="left" if index < 3 else "right")
    for evaluation in evaluations:
        for task, label, value, error in lm_eval_rows(evaluation):
            cells = (evaluation.run, task, label, f"{value:.4f}", "" if error is None else f"{error:.4f}")
            table.add_row(*map(Text, cells))
    return table


def lm_eval_rows(evaluation: LmEvalResults) -> Iterator[tuple[str, str, object, object]]:
    """Yield the task, name, value and standard error of each metric."""
    for task, metrics in evaluation.tasks.items():
        for metric, value in metrics.items():
            if "," not in metric or _ERROR in metric:
                continue
            name, _, chosen = metric.partition(",")
            label = name if chosen == "none" else f"{name} ({chosen})"
            yield task, label, value, metrics.get(f"{name}{_ERROR},{chosen}")


def lm_eval_data(results: Sequence[LmEvalResults]) -> list[dict[str, Any]]:
    return [{"run": one.run, "shots": one.shots, "results": dict(one.tasks)} for one in results]
