"""Studies of two arms without models: plans whose runs are records alone, and real ones small enough to train."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headtohead.execution.run_spec import RunSpec
from headtohead.records.record import Comparability, Progress, RunRecord, Status
from headtohead.records.run_folder import RunFolder
from headtohead.studies.definition.read_study_file import study_from
from headtohead.studies.definition.study import Study
from headtohead.studies.planning.study_plan import StudyPlan

WRITTEN: dict[str, Any] = {
    "question": "Is b better than a?",
    "hypothesis": "It is.",
    "tuning": "none",
    "arms": {"a": ["model/norm=layer_norm"], "b": ["model/norm=rms_norm"]},
    "seeds": 3,
    "metric": "test/loss",
    "direction": "min",
    "baseline": "a",
}
TINY = (
    "model.d_model=8", "model.num_layers=1", "data.num_train=40", "data.num_validation=4", "data.num_test=4",
    "data.batch_size=4", "data.context_length=8", "data.tokenizer=char", "trainer.accelerator=cpu",
    "trainer.validate_every=2", "trainer.log_every=1", "trainer.max_steps=4", "trainer.num_samples=0", "tracking=none",
    "probe=none",
)  # fmt: skip


def small_study(**changes: Any) -> Study:
    return study_from("small", {**WRITTEN, **changes})


def plan_without_models(folder: Path, **changes: Any) -> StudyPlan:
    """Its configurations hold no more than workers and reports ask for."""
    study = small_study(**changes)
    runs = [
        RunSpec(
            arm,
            seed,
            (),
            {"trainer": {"max_steps": 4, "devices": 1}, "seed": seed, "group": "small", "arm": arm},
            f"{arm}{seed}",
        )
        for seed in study.seeds
        for arm in study.arms
    ]
    drafts = {run.arm: run.config for run in runs}
    return StudyPlan(study, tuple(runs), folder / "studies" / "small", drafts)


def write_run(
    folder: Path, status: Status = "finished", value: float | None = 1.0, evaluation: str = "e", **fields: Any
) -> RunRecord:
    """Write a run's folder as if it had been trained."""
    run = RunFolder(folder) if (folder / "record.json").exists() else RunFolder.create_at(folder)
    record = RunRecord(id=run.id, status=status, progress=Progress(step=4, flops=1e6), **fields)
    record.comparability = Comparability(evaluation=evaluation)
    record.throughput = {"tokens_per_second": 10.0, "peak_memory_bytes": 2.0**20}
    if value is not None:
        record.metrics["test"] = {"loss": value}
    run.write_record(record)
    return record
