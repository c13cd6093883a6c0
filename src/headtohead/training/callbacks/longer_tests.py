"""The test again, with the selected weights, on rows that are several times as long as those of training (Press et al.
2021, https://arxiv.org/abs/2108.12409)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from pytorch_lightning import Trainer

from headtohead.architectures.architecture import InputSize
from headtohead.data.data_source import DataError, DataSource
from headtohead.errors import UsageError
from headtohead.records.metrics_file import TEST, stage_at
from headtohead.records.row_sums import write_rows
from headtohead.tasks.task import spec_as_read
from headtohead.training.loop.data_module import RunData
from headtohead.training.loop.training_module import TrainingModule
from headtohead.training.parallel.process_group import is_main_process
from headtohead.training.run_components import RunComponents
from headtohead.training.run_outcome import is_out_of_memory

_log = logging.getLogger(__name__)


class TooLongError(UsageError):
    """Says why no such rows can be read."""


def as_longer_stage(stage: str, values: Mapping[str, float]) -> dict[str, float]:
    """Return the values by names that say their stage, as records keep baselines of other splits than the test."""
    return {f"{stage}/{name}": value for name, value in values.items()}


class LongerTests:
    """One pass for each multiple of the training length: results, or the reason why there are none."""

    def __init__(self, parts: RunComponents, trainer: Trainer, module: TrainingModule, folder: Path) -> None:
        self._parts, self._trainer, self._module, self._folder = parts, trainer, module, folder
        self.baselines: dict[str, float] = {}
        """The score of knowing nothing of the inputs there, by stage and metric."""

    def measure(self) -> tuple[dict[str, dict[str, float]], dict[str, str]]:
        """Metrics by stage, and reasons by stage."""
        metrics: dict[str, dict[str, float]] = {}
        cannot: dict[str, str] = {}
        for multiple in sorted({*self._parts.evaluation.lengths} - {1}):
            stage = stage_at(multiple)
            try:
                metrics[stage] = self._results(multiple)
                self.baselines |= as_longer_stage(stage, self._parts.task.measured_baseline("test"))
            except (DataError, TooLongError) as reason:
                cannot[stage] = str(reason)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                cannot[stage] = f"rows {multiple} times as long as in training do not fit the device's memory"
            if stage in cannot:
                _log.info("%s cannot be measured: %s", stage, cannot[stage])
        return metrics, cannot

    def _results(self, multiple: int) -> dict[str, float]:
        source = self._parts.data.longer(multiple)
        with self._parts.task.on_rows_of(source.spec()):
            return self._measured(source, multiple)

    def _measured(self, source: DataSource, multiple: int) -> dict[str, float]:
        self._check_reach(source)
        data = RunData(
            source,
            self._parts.task,
            self._parts.settings,
            seed=0,
            current_step=lambda: self._module.state.step,
            rows_at_once=max(self._parts.settings.num_replicas, self._parts.data.batch_size // multiple),
        )
        self._module.test_stage = stage_at(multiple)
        try:
            with self._parts.task.rows.collecting() as rows:
                self._trainer.test(self._module, datamodule=data, verbose=False)
                columns = rows.columns()
        finally:
            self._module.test_stage = TEST
        if is_main_process():
            write_rows(self._folder, stage_at(multiple), columns, self._parts.task.row_ratios)
        return dict(self._module.results)

    def _check_reach(self, source: DataSource) -> None:
        spec = spec_as_read(self._parts.task, source)
        size = InputSize(length=spec.max_length, decoder_length=spec.max_target_length)
        if (reason := self._module.model.length_error(size)) is not None:
            raise TooLongError(reason)
