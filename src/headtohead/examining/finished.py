"""A run from its folder, ready to be used: its model with the weights that validation selected, its task, its data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from headtohead.architectures.contracts import Architecture
from headtohead.building.build import build_data, build_task, make_model
from headtohead.data.contracts import DataSource
from headtohead.tasks.contracts import Task
from headtohead.tracking.record import RunRecord
from headtohead.tracking.store import load_run
from headtohead.training.checkpoints import load_weights

if TYPE_CHECKING:
    from headtohead.examining.probe.attention import Attention


@dataclass(frozen=True)
class FinishedRun:
    """What is asked for is made; a run whose data is not asked for needs none."""

    record: RunRecord
    folder: Path
    config: Mapping[str, Any]
    """Complete, as it was trained."""

    @cached_property
    def data(self) -> DataSource:
        """Read as it was trained, with the run's own tokenizer where that was another's."""
        own = {"init_from": str(self.folder)} if self.config.get("init_from") else {}
        return build_data({**self.config, **own})

    @cached_property
    def task(self) -> Task:
        return build_task(self.config, self.data.spec())

    @cached_property
    def model(self) -> Architecture:
        """In evaluation mode, on the CPU, in 32 bits."""
        return self.model_with(lambda config: config)

    def model_with(self, changed: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> Architecture:
        """The model of a configuration that differs where its weights do not (a longer context, a rotary scaling)."""
        model = make_model(changed(self.config))
        model.load_state_dict(load_weights(self.folder))
        return model.eval()

    def attention(self, text: str, *, second: str | None = None, target: str | None = None) -> Attention:
        """What every head looks at in a text: `maps` with weights [1, H, L, M], `statistics`, tokens in `pairs`.

        `second` is the other text of a pair, `target` what an encoder-decoder's decoder reads (else its own output).
        """
        from headtohead.examining.probe.attention import attend
        from headtohead.examining.probe.subject import of_text

        return attend(self, of_text(self, text, second, target))


def open_run(path: str | Path) -> FinishedRun:
    """By the folder of the run, or any file in it; raises ValueError or FileNotFoundError with what to do."""
    record = load_run(path)
    assert record.path is not None, "a record that was read knows its folder"
    config = yaml.safe_load((record.path / "config.yaml").read_text(encoding="utf-8"))
    return FinishedRun(record=record, folder=record.path, config=config)
