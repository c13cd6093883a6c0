"""A comparison made up for the tests of its report: run folders with curves and maps, and the findings over them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from headtohead.comparison.comparison_results import ArmDescriptions, ComparisonResults, RunResult, results_of
from headtohead.comparison.contrasts import Contrast, Registration
from headtohead.comparison.verdicts.verdict import verdicts_of
from headtohead.records.record import Environment, Progress, RunRecord, Seeds, StudyPosition
from headtohead.records.run_folder import RunFolder

METRIC = "test/loss"
ENDS = {"layer_norm": 2.42, "rms_norm": 2.41, "batch_norm": 2.58, "no_norm": 2.9}
"""Final losses, about, by arm."""


def made_up(
    outputs: Path, arms: Mapping[str, float] | None = None, *, num_seeds: int = 5, steps: int = 200, maps: bool = True
) -> ComparisonResults:
    """A study whose first arm is the baseline; one run of its last arm diverged, another is missing."""
    ends = dict(arms or ENDS)
    baseline, last = next(iter(ends)), list(ends)[-1]
    records = [
        _run(outputs, arm, seed, end, steps, maps=maps, diverged=arm == last and seed == 1)
        for arm, end in ends.items()
        for seed in range(num_seeds)
        if arm != last or seed != 0
    ]
    values: dict[str, dict[int, float | None]] = {arm: {} for arm in ends}
    for record in records:
        values[record.place.arm or ""][record.seed] = record.metrics["test"].get("loss")
    registration = Registration("min", METRIC, margin=0.05, seeds=range(num_seeds))
    verdicts = verdicts_of(values, [Contrast(arm, baseline) for arm in ends if arm != baseline], registration)
    words = ArmDescriptions(
        order=list(ends),
        overrides={arm: (f"model/norm={arm}",) for arm in ends},
        commands={record.id: f"h2h train model/norm={record.place.arm} seed={record.seed}" for record in records},
    )
    missing = RunResult(last, 0, "missing", command=f"h2h train model/norm={last} seed=0")
    result = results_of(
        records,
        verdicts,
        title="norms",
        metric=METRIC,
        direction="min",
        baseline=baseline,
        words=words,
        undone=[missing],
    )
    return replace(
        result,
        question="Is a small language model as good with RMSNorm as with LayerNorm?",
        hypothesis="Centring and shifting do nothing for it.",
        tuning_words="none; all arms train at one learning rate",
        margin=0.05,
        budget="equal_tokens",
        command="h2h study norms",
    )


def _run(outputs: Path, arm: str, seed: int, end: float, steps: int, *, maps: bool, diverged: bool) -> RunRecord:
    folder = RunFolder.create(outputs, name="run", group="norms")
    chance = np.random.default_rng([seed, *arm.encode()])
    value = end + 0.02 * math.sin(seed) + 0.004 * chance.standard_normal()
    last = steps // 2 if diverged else steps
    _log(folder, value, range(0, last + 1, max(1, steps // 40)), chance)
    if maps:
        _draw(folder.attention / f"step_{steps:06d}", chance, num_layers=2)
    record = RunRecord(
        id=folder.id,
        name=f"{arm}-s{seed}",
        status="diverged" if diverged else "finished",
        reason="the loss is not a number since step 100" if diverged else None,
        seed=seed,
        seeds=Seeds(seed, seed + 100, seed + 200),
        config={"seed": seed, "name": f"{arm}-s{seed}", "model": {"norm": arm, "layers": 2}, "optimizer": {"lr": 1e-3}},
        costs={"totals": {"parameters": 10_000 + 100 * len(arm), "state_elements": 2048}},
        place=StudyPosition("norms", arm, seed),
        metrics={"validation": {"loss": value}, "test": {} if diverged else {"loss": value}},
        throughput={"tokens_per_second": 4e4 + 100 * seed, "step_seconds": 0.02, "peak_memory_bytes": 5e8},
        progress=_progress(last),
        environment=Environment({"torch": "2.9"}, "3.11", "Linux", {"type": "cpu", "name": "a processor"}, "c0ffee"),
    )
    folder.write_record(record)
    return record


def _log(folder: RunFolder, end: float, steps: Sequence[int], chance: np.random.Generator) -> None:
    for step in steps:
        level = end + 1.6 * math.exp(-4 * step / max(1, steps[-1]))
        values: dict[str, Any] = {"train/loss": level + 0.05 * chance.standard_normal()}
        if step % (4 * (steps[1] - steps[0])) == 0:
            values["validation/loss"] = level + 0.01 * chance.standard_normal()
        folder.metrics_file.append(_progress(step), values)


def _progress(step: int) -> Progress:
    return Progress(step, 0, step * 2048, step * 8e8, step * 0.05)


def _draw(folder: Path, chance: np.random.Generator, *, num_layers: int) -> None:
    folder.mkdir(parents=True)
    for layer in range(num_layers):
        weights = np.tril(chance.random((1, 2, 24, 24)))
        weights /= weights.sum(-1, keepdims=True)
        np.savez_compressed(
            folder / f"stack.{layer}.mixer.npz",
            name=f"stack.{layer}.mixer",
            kind="self",
            causal=True,
            inputs=["tokens", "tokens"],
            measure="attention",
            channels=1,
            weights=weights.astype(np.float16),
        )
