"""A run from its folder, ready to be used: its model with the weights that validation selected, its task, its data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from headtohead.architectures.architecture import Architecture
from headtohead.config.build import build_task, make_model
from headtohead.config.origins.from_weights import build_data
from headtohead.config.run_config import RunConfig
from headtohead.config.trust import recorded_config, trusting
from headtohead.data.data_source import DataSource
from headtohead.data.tokenizers import is_named
from headtohead.files.safe_read import DamagedFile
from headtohead.records.record import RunRecord
from headtohead.records.run_folder import CONFIG, PARTS, RunFolder, load_run
from headtohead.tasks.task import Task
from headtohead.training.checkpoints import load_best, put_best, put_weights


@dataclass(frozen=True)
class FinishedRun:
    """A finished run builds its parts on request; without a request for its data it needs none."""

    record: RunRecord
    """The record of the run."""
    folder: Path
    """The folder of the run."""
    config: Mapping[str, Any]
    """Complete, as it was trained."""

    @cached_property
    def data(self) -> DataSource:
        """Read as it was trained, with the run's own tokenizer where that was another's or came from a file."""
        starts_elsewhere = self.config.get("init_from") or is_named(
            str(RunConfig(self.config).data.get("tokenizer", ""))
        )
        own = {"init_from": str(self.folder)} if starts_elsewhere else {}
        with self._made_of("data"):
            return build_data({**self.config, **own})

    @cached_property
    def task(self) -> Task:
        """Build the task that the run was trained on."""
        with self._made_of("task"):
            return build_task(self.config, self.data.spec())

    @cached_property
    def model(self) -> Architecture:
        """Return the model in evaluation mode, on the CPU, in 64 bits if it was trained in these, else in 32."""
        return self.model_with(lambda config: config)

    @property
    def device(self) -> torch.device:
        """Return the device for its model: a GPU where there is one, unless the run kept to the processor."""
        return device_for(self.config)

    def model_with(self, changed: Callable[[Mapping[str, object]], Mapping[str, object]]) -> Architecture:
        """The model of a configuration that differs where its weights do not (a longer context, a rotary scaling)."""
        with self._made_of("model"):
            model = make_model(config := changed(self.config))
        if config == self.config:
            put_best(self.folder, model)
        else:  # whether the weights fit is for whoever changed it to say
            put_weights(load_best(self.folder)["model"], model)
        return model.eval()

    @contextmanager
    def _made_of(self, part: str) -> Iterator[None]:
        """A configuration that somebody has changed by hand may fit no constructor, and each says so in its own way."""
        try:
            yield
        except (TypeError, AttributeError, KeyError, IndexError, OverflowError) as error:
            reason = f"its {part} cannot be built ({type(error).__name__}: {error})"
            raise DamagedFile(self.folder / CONFIG, reason, "restore the file as the run wrote it") from error


def device_for(config: Mapping[str, object]) -> torch.device:
    """A GPU where there is one, unless the configuration keeps to the CPU."""
    on_gpu = RunConfig(config).accelerator != "cpu" and torch.cuda.is_available()
    return torch.device("cuda" if on_gpu else "cpu")


def _complete(config: Mapping[str, object], folder: Path) -> Mapping[str, object]:
    if missing := [part for part in PARTS if part not in config]:
        what = f"holds no configuration of a run: it has no {missing[0]}"
        raise DamagedFile(folder / CONFIG, what, "restore the file as the run wrote it")
    return config


def open_run(path: str | Path, *, trust: Sequence[str] = ()) -> FinishedRun:
    """Open a run by its folder, or any file in it; raise ValueError or FileNotFoundError that says what to do.

    `trust` names packages or classes beyond the choices of this package that a run from elsewhere may name.
    """
    record = load_run(path)
    assert record.path is not None, "a record that was read knows its folder"
    with trusting(trust):
        config = recorded_config(RunFolder.open(record.path))
    return FinishedRun(record=record, folder=record.path, config=_complete(config, record.path))


_SHOWN = ("model", "data", "task")


def facts_of(config: Mapping[str, Any], run_id: str | None = None) -> list[tuple[str, str]]:
    """Names and values: the run, its choices, its size."""
    choices = config.get("choices", {})
    facts = [("run", run_id)] if run_id else []
    facts += [(group, str(choices[group])) for group in _SHOWN if choices.get(group)]
    model = RunConfig(config).model
    facts.append(("position", str(choices.get("model/position") or "its own")))
    counted = [_counted(model[f"num_{name}s"], name) for name in ("layer", "head") if model.get(f"num_{name}s")]
    if counted and model.get("d_model"):
        facts.append(("size", ", ".join([*counted, f"width {model['d_model']}"])))
    return facts


def _counted(number: int, name: str) -> str:
    return f"{number} {name}{'' if number == 1 else 's'}"
