"""Tasks of lm-evaluation-harness over a finished run: results as it reports them, kept beside the run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headtohead.building.errors import ConfigurationError
from headtohead.examining.evaluation.findings import FOLDER
from headtohead.examining.finished import FinishedRun
from headtohead.files.writing import replace_text


@dataclass(frozen=True)
class HarnessResults:
    """Metrics by task, with their standard errors; where they are on disk."""

    run: str
    shots: int | None
    tasks: Mapping[str, Mapping[str, Any]]
    path: str


def with_harness(
    run: FinishedRun, tasks: Sequence[str], *, folder: str | None = None, shots: int | None = None
) -> HarnessResults:
    """`folder` has task files of one's own; raises ConfigurationError without the extra, or for a task that is none."""
    try:
        import lm_eval
        from lm_eval.tasks import TaskManager
    except ModuleNotFoundError as error:
        if error.name != "lm_eval":
            raise
        raise ConfigurationError(
            "--lm-eval needs lm-evaluation-harness, which is not installed: pip install 'headtohead[lm-eval]'"
        ) from None
    from headtohead.examining.harness.model import HeadToHead

    manager = TaskManager(include_path=folder, include_defaults=False)
    if not all(manager.match_tasks([name]) for name in tasks):
        manager = TaskManager(include_path=folder)  # thousands of files, which take seconds to read
    if missing := [name for name in tasks if not manager.match_tasks([name])]:
        raise ConfigurationError(
            f"--lm-eval {','.join(missing)} is no task of lm-evaluation-harness: lm-eval ls tasks shows all, "
            "--lm-eval-tasks DIR takes task files of your own"
        )
    found = lm_eval.simple_evaluate(
        model=HeadToHead(run, batch_size=32), tasks=list(tasks), num_fewshot=shots, task_manager=manager
    )
    assert found is not None, "one process evaluates"
    results: dict[str, dict[str, Any]] = {
        name: {metric: value for metric, value in metrics.items() if isinstance(value, int | float)}
        for name, metrics in found["results"].items()
    }
    stem = "-".join(["lm_eval", *sorted(tasks), *([] if shots is None else [f"shots_{shots}"])])
    path = run.folder / FOLDER / f"{stem}.json"
    path.parent.mkdir(exist_ok=True)
    content = {"run": run.record.id, "shots": shots, "lm_eval": lm_eval.__version__, "results": results}
    replace_text(Path(path), json.dumps(content, indent=2) + "\n")
    return HarnessResults(run.record.name, shots, results, str(path))
