"""A run's numbers must not depend on how a step is divided or computed, on stopping and resuming, or on reading them.

Each relation trains a drawn command once more, in another way, and compares with how it was trained at first; or goes
on from the finished run by another command. What comes out is equal within rounding, or was refused beforehand.
"""

from __future__ import annotations

import io
import math
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from headtohead import api
from headtohead.cli import main
from headtohead.config.build import build_parts
from headtohead.config.compose.composition import compose_checked
from headtohead.estimates.run_cost import RunCosts
from headtohead.estimates.step_times import TimedModel
from headtohead.records.record import RunRecord
from headtohead.records.run_folder import RunFolder, find_runs
from headtohead.training.checkpoints import LAST, load
from headtohead.training.run import train
from headtohead.training.run_components import RunComponents
from metamorphic.drawing import FIXED
from warm_commands import h2h

ROUNDING = {"64-true": 1e-7, "32-true": 2e-4, "bf16-mixed": 3e-2, "16-mixed": 1e-2, "bf16-true": 1e-1}
"""Relative differences that four steps of each number format may come to."""
COMPARED = ("train/loss", "validation/loss", "test/loss")
FIELDS = ("costs", "metrics", "baselines", "scales", "throughput", "data", "config")
"""The fields of a record that are filled at the end of every run."""
Overrides = tuple[str, ...]


class RefusedError(Exception):
    """A command that was turned down before anything was trained."""


@dataclass(frozen=True)
class Trained:
    """A finished run."""

    command: Overrides
    record: RunRecord

    @property
    def path(self) -> Path:
        assert self.record.path is not None
        return self.record.path

    @property
    def precision(self) -> str:
        return str(self.record.comparability.precision)

    @property
    def draws(self) -> bool:
        """Return whether randomness takes part in a step, in an order that depends on how the step is divided."""
        model = self.record.config["model"]
        rates = [value for name, value in _leaves(model) if name in ("dropout", "drop_path", "attention_dropout")]
        return any(rates) or model.get("residual", {}).get("drop_path", 0) > 0

    def losses(self) -> dict[str, list[float]]:
        curves = RunFolder.open(self.path).metrics()
        return {name: curves[name].value for name in COMPARED if name in curves}


def trained(
    command: Overrides, folder: Path, *more: str, change: Callable[[RunComponents], RunComponents] | None = None
) -> Trained:
    """Train a command, or raise RefusedError; a refusal after the run has begun is a fault."""
    try:
        parts = build_parts(compose_checked("train", [*command, *FIXED, *more, f"output_dir={folder}"]))
        record = train(change(parts) if change else parts)
    except ValueError as error:
        assert type(error).__module__.startswith("headtohead."), f"not a refusal of ours: {error!r}"
        assert not list(find_runs(folder)), f"refused after the run had begun: {error}"
        assert "\n" not in str(error)
        raise RefusedError(str(error)) from error
    return Trained(command, record)


def whole(run: Trained) -> Trained:
    """Hold that a run came to its end with numbers, and that its record lacks nothing."""
    assert run.record.status == "finished", f"{run.record.status}: {run.record.reason}"
    for name, values in run.losses().items():
        assert values and all(map(math.isfinite, values)), f"{name} is {values}, and the run is called finished"
    assert {"train/loss", "validation/loss", "test/loss"} <= run.losses().keys()
    without_name = [name for name in FIELDS if not getattr(run.record, name)]
    assert not without_name, f"the record lacks {', '.join(without_name)}"
    progress = run.record.progress
    assert progress.step and progress.flops, f"the record counts no work: {progress}"
    return run


def same(one: Trained, other: Trained) -> None:
    """Hold that two runs are one, but for rounding and time."""
    allowed = ROUNDING[one.precision]
    expected, result = one.losses(), other.losses()
    assert expected.keys() == result.keys()
    for name, values in expected.items():
        assert len(values) == len(result[name]), f"{name} has {len(result[name])} points, not {len(values)}"
        for position, (first, second) in enumerate(zip(values, result[name], strict=True)):
            distance = abs(first - second) / max(abs(first), 1e-2)
            assert distance <= allowed, f"{name} at point {position}: {second!r}, not {first!r} ({distance:.1e})"
    counts, others = one.record.progress, other.record.progress
    assert (counts.step, counts.tokens, counts.flops) == (others.step, others.tokens, others.flops), f"{others}"


def _leaves(node: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(node, dict):
        for key, value in node.items():
            yield from _leaves(value, str(key))
    else:
        yield name, node


@dataclass(frozen=True)
class Relation:
    """One way to train the same command."""

    name: str
    overrides: Overrides
    divides: bool = False
    """Whether the step is divided in another way: then chance within the model is drawn in another order."""

    def holds(self, base: Trained, folder: Path) -> None:
        """Raise RefusedError where this way is turned down."""
        if self.divides and base.draws:
            raise RefusedError("chance within the model is drawn in the order of the parts")
        same(base, whole(trained(base.command, folder, *self.overrides)))


def on_two_devices(base: Trained, folder: Path) -> None:
    """Train in two processes, started from a program of its own as Lightning starts the second one."""
    if base.draws:
        raise RefusedError("chance within the model is drawn in the order of the parts")
    overrides = [*base.command, *FIXED, "trainer=ddp", "trainer.accelerator=cpu", f"output_dir={folder}"]
    done = h2h("train", *overrides)
    message = " ".join(done.stderr.split())[-400:]
    result = list(find_runs(folder))
    if done.returncode == 2 and not result:
        raise RefusedError(message)
    assert done.returncode == 0 and len(result) == 1, message
    same(base, whole(Trained(base.command, result[0].read_record())))


def stopped_and_resumed(base: Trained, folder: Path) -> None:
    """Stop before the last of four steps, and go on."""
    first = trained(base.command, folder, change=_stopping)
    assert first.record.status == "interrupted", first.record.status
    config = compose_checked("train", [f"resume_from={first.path}"])
    same(base, whole(Trained(base.command, train(build_parts(config)))))


def _stopping(parts: RunComponents) -> RunComponents:
    """Ask for a stop in the second step, where the schedule is asked for its rate."""
    requested = False

    def schedule(max_steps: int) -> Callable[[int], float]:
        rate = parts.schedule(max_steps)

        def rate_of(step: int) -> float:
            nonlocal requested
            if step == 1 and not requested:
                requested = True
                os.kill(os.getpid(), signal.SIGTERM)
            return rate(step)

        return rate_of

    return replace(parts, schedule=schedule)


def evaluated(base: Trained, folder: Path) -> None:
    """Measure the finished run again: the recorded figures."""
    del folder
    result = api.evaluate(base.path).points[0].metrics
    recorded = base.record.metrics["test"]
    for name in recorded.keys() & result.keys():
        assert result[name] == _near(recorded[name], ROUNDING[base.precision]), f"{name}: {result[name]}"


def planned(base: Trained, folder: Path) -> None:
    """Plan the run: as many weights, tokens and FLOPs as it was trained with."""
    del folder
    figures = RunCosts().of(compose_checked("train", [*base.command, *FIXED])).figures()
    record = base.record
    assert figures["parameters"] == record.costs["totals"]["parameters"]
    assert figures["training_flops"] == _near(record.progress.flops, 1e-9)
    assert figures["tokens"] == record.progress.tokens


def timed(base: Trained, folder: Path) -> None:
    """Take the steps that a plan and equal_time measure: they leave the weights of training, to the last bit."""
    more = ("trainer.keep_checkpoints=all", f"output_dir={folder}")
    run = whole(trained(base.command, folder, *more))
    model = TimedModel(compose_checked("train", [*base.command, *FIXED, *more]))
    model.train(run.record.progress.step)
    saved = load(run.path / "checkpoints" / LAST)
    for name, weight in model.model.state_dict().items():
        assert torch.equal(weight, saved["state_dict"][f"model.{name}"]), f"{name} is not as training leaves it"
    average = [] if model.average is None else model.average.state()
    assert all(map(torch.equal, average, saved["average"] or [])), "the average is not as training leaves it"


def _near(value: float, allowed: float) -> Any:
    import pytest

    return pytest.approx(value, rel=allowed, abs=allowed, nan_ok=True)


@dataclass(frozen=True)
class Walk:
    """A command that goes on from the finished run: done, or refused in a sentence of ours."""

    name: str
    arguments: Callable[[Path, Path], Sequence[str]]

    def holds(self, base: Trained, folder: Path) -> None:
        report, message = io.StringIO(), io.StringIO()
        with redirect_stdout(report), redirect_stderr(message):
            code = main([*self.arguments(base.path, folder)])
        words = " ".join(message.getvalue().split())
        assert code in (0, 2), f"h2h {self.name} ended with {code}: {words[-400:]}"
        assert "Traceback" not in words and "HEADTOHEAD_DEBUG" not in words, words[-400:]
        if code == 2:
            assert words, f"h2h {self.name} was refused without a word"
            raise RefusedError(words)


def _next_run(run: Path, folder: Path, *how: str) -> list[str]:
    return ["train", *how, "trainer.max_steps=2", "trainer.validate_every=2", f"output_dir={folder}", "tracking=none"]


CHECKPOINTING = tuple(
    Relation(f"checkpointing={kind}", (f"checkpointing={kind}",)) for kind in ("none", "full", "attention", "every_k")
)
DIVISIONS = tuple(
    Relation(f"trainer.accumulate={parts}", (f"trainer.accumulate={parts}",), divides=True) for parts in (2, 4)
)
PROBES = tuple(Relation(f"probe={kind}", (f"probe={kind}",)) for kind in ("none", "often"))
LOADERS = (Relation("trainer.num_workers=2", ("trainer.num_workers=2",)),)
"""Each starts processes."""
WALKS = (
    Walk("generate", lambda run, _: ["generate", str(run), "--tokens", "5,6", "--max-new-tokens", "3"]),
    Walk(
        "generate --beams",
        lambda run, _: ["generate", str(run), "--tokens", "5,6", "--max-new-tokens", "3", "--beams", "2"],
    ),
    Walk("probe", lambda run, folder: ["probe", str(run), "--out", str(folder / "probe"), "--rows", "0,1"]),
    Walk("compare", lambda run, _: ["compare", str(run.parent)]),
    Walk("evaluate", lambda run, _: ["evaluate", str(run), "--split", "validation"]),
    Walk("embed", lambda run, folder: ["embed", str(run), str(_texts(folder)), "--query", "a", "--unit", "line"]),
    Walk("export --to safetensors", lambda run, folder: _exported(run, folder, "safetensors")),
    Walk("train --from-run", lambda run, folder: _next_run(run, folder, "--from-run", str(run), "seed=1")),
    Walk(
        "train init_from=", lambda run, folder: _next_run(run, folder, "--from-run", str(run), f"init_from=run:{run}")
    ),
)
LONG_WALKS = (
    Walk("export --to torch", lambda run, folder: _exported(run, folder, "torch")),
    Walk("export --to onnx", lambda run, folder: _exported(run, folder, "onnx")),
    Walk("export --to hub", lambda run, folder: _exported(run, folder, "hub")),
)


def _exported(run: Path, folder: Path, form: str) -> list[str]:
    return ["export", str(run), "--to", form, "--out", str(folder / form)]


def _texts(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "texts.txt"
    file.write_text("a b c\nb c d\nc d e\n", encoding="utf-8")
    return file
