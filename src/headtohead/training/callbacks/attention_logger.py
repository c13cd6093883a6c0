"""Attention maps while a run trains: the same few samples each time, outside the training path and at no risk to it."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image
from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.strategies import ModelParallelStrategy
from torch import Tensor
from typing_extensions import override

from headtohead.data.batches.batch import Batch
from headtohead.data.data_source import DataSource
from headtohead.files.atomic_write import replace_bytes
from headtohead.interpretability.head_statistics import Statistics, head_statistics
from headtohead.interpretability.map_archive import write_maps, write_statistics
from headtohead.interpretability.montage import montage
from headtohead.interpretability.picture_text import Labels, axis_labels
from headtohead.interpretability.receptive_field import RequestedMaps, all_maps
from headtohead.interpretability.recorded_attention import AttentionMaps, mixers_with_maps
from headtohead.tasks.task import Task
from headtohead.training.loop.run_state import RunState
from headtohead.training.loop.seeds import EVALUATION_SEED
from headtohead.training.loop.throughput import ThroughputMeter
from headtohead.training.loop.training_module import TrainingModule, as_training_module
from headtohead.training.parallel.process_group import joined
from headtohead.training.parallel.sharding import PARTS
from headtohead.training.run_components import ProbeSettings
from headtohead.training.run_recorder import RunRecorder
from headtohead.wandb_client.logged_rows import MAPS, step_folder

_log = logging.getLogger(__name__)


class AttentionLogger(Callback):
    """Every process looks, since a model may lie spread over several; the first one draws and writes."""

    def __init__(
        self, session: RunRecorder, meter: ThroughputMeter, settings: ProbeSettings, source: DataSource, task: Task
    ) -> None:
        self._session, self._meter, self._settings = session, meter, settings
        self._source, self._task = source, task
        self._batch: Batch | None = None
        self._is_on = True
        self._drawn_at = -1

    @override
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        module = as_training_module(pl_module)
        self._is_on = bool(mixers_with_maps(module.model)) or self._fields_of(module) != "never"
        if trainer.is_global_zero and not self._is_on:
            _log.info("no part of this model has attention maps: it is trained without them")

    @override
    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: object, batch: object, batch_idx: int
    ) -> None:
        every, step = self._settings.every, as_training_module(pl_module).state.step
        if self._is_on and every is not None and step % every == 0:
            with self._meter.paused():
                self._draw(trainer, as_training_module(pl_module))

    def at_end(self, trainer: Trainer, module: TrainingModule) -> None:
        """Look once more where that is requested, before the last checkpoint says that the run has come so far."""
        if self._is_on and self._settings.at_end and self._drawn_at != module.state.step:
            self._draw(trainer, module)

    def _draw(self, trainer: Trainer, module: TrainingModule) -> None:
        self._drawn_at = module.state.step
        try:
            self._probe(trainer, module)
        except Exception as error:  # whatever goes wrong with a picture, the run is worth more
            self._is_on = False
            _log.warning(
                "the probe failed at step %d (%s: %s); the run continues without attention maps",
                module.state.step,
                type(error).__name__,
                str(error).partition("\n")[0],
            )

    def _probe(self, trainer: Trainer, module: TrainingModule) -> None:
        """Probe the model in the precision of the run."""
        inputs = self._inputs()
        average = module.average
        weights = nullcontext() if average is None else average.applied()  # those that are evaluated
        with weights, trainer.precision_plugin.forward_context():
            maps = self._maps(trainer, module, inputs)
            if self._settings.without_mask:
                maps = [*maps, *_without_mask(self._maps(trainer, module, inputs, causal=False), maps)]
        if trainer.is_global_zero:
            self._log_statistics(maps, inputs, module.state)

    def _maps(
        self, trainer: Trainer, module: TrainingModule, inputs: dict[str, Tensor], *, causal: bool | None = None
    ) -> list[AttentionMaps]:
        """Return the maps of all heads, also where layers are divided and a device holds only some of them."""
        maps = all_maps(module.model, inputs, causal=causal, fields=self._fields_of(module))
        if module.settings.tensor_parallel == 1:
            return maps
        parts = mixers_with_maps(module.model)
        assert isinstance(trainer.strategy, ModelParallelStrategy)
        group = trainer.strategy.device_mesh[PARTS].get_group()
        return [
            one
            if parts[one.name].tensor_parallel_plan() is None
            else replace(one, weights=joined(one.weights, group, module.device))
            for one in maps
        ]

    def _fields_of(self, module: TrainingModule) -> RequestedMaps:
        """Gradients are not asked of a model that is spread over several devices."""
        return "never" if module.settings.strategy == "model_parallel" else self._settings.receptive_fields

    def _log_statistics(self, maps: Sequence[AttentionMaps], inputs: dict[str, Tensor], state: RunState) -> None:
        """Pictures, archives and statistics."""
        folder = self._session.folder / MAPS / step_folder(state.step)
        folder.mkdir(parents=True, exist_ok=True)
        pictures = {f"{MAPS}/{one.name}": self._write(one, inputs, folder) for one in maps}
        statistics = head_statistics(maps)
        write_statistics(folder / "statistics.csv", statistics)
        progress = state.progress(self._meter.seconds)
        self._session.logger.write(progress, _metrics(maps, statistics))
        self._session.logger.write_pictures(progress, pictures)

    def _inputs(self) -> dict[str, Tensor]:
        """The first rows of the validation split as the task shows them, whatever the seed of the run."""
        if self._batch is None:
            split = self._source.split("validation")
            rows = np.arange(min(self._settings.samples, len(split)))
            self._batch = self._task.view(split.batch(rows), seed=EVALUATION_SEED, epoch=0)
        longest = self._settings.max_length
        return {
            name: tensor if name == "images" else tensor[:, :longest] for name, tensor in self._batch.inputs().items()
        }

    def _write(self, maps: AttentionMaps, inputs: dict[str, Tensor], folder: Path) -> np.ndarray:
        """Return the picture, which lies in the folder too."""
        queries, keys = axis_labels(maps, inputs, self._source.spec(), self._source.decode)
        displayed: tuple[Labels, Labels] | tuple[None, None] = (
            (queries, keys) if self._settings.labels else (None, None)
        )
        picture = montage(maps, queries=displayed[0], keys=displayed[1])
        content = BytesIO()
        Image.fromarray(picture).save(content, "PNG", compress_level=3)
        replace_bytes(folder / f"{maps.name}.png", content.getvalue())
        if self._settings.raw:
            write_maps(folder / f"{maps.name}.npz", maps, queries=queries, keys=keys)
        return picture


def _without_mask(unmasked: Sequence[AttentionMaps], usual: Sequence[AttentionMaps]) -> list[AttentionMaps]:
    """Return the maps that differ from the usual ones, under names of their own."""
    free = {one.name: one for one in unmasked}
    masked = [one.name for one in usual if one.causal and one.name in free]
    return [replace(free[name], name=f"{name}.without_mask") for name in masked]


def _metrics(maps: Sequence[AttentionMaps], statistics: Mapping[str, Statistics]) -> dict[str, float]:
    """Return metrics named attention_entropy/stack.0.mixer/head_0 and so on: a section of the dashboard for each
    statistic.

    Two of them, since every head has each: the table in the run's folder has the rest. Distances are in tokens or, in
    images, in patches; between two sequences there is none.
    """
    series = {f"attention_entropy/{one.name}": statistics[one.name]["entropy"] for one in maps}
    for one in maps:
        if one.kind == "self":
            of = statistics[one.name]
            series[f"attention_distance/{one.name}"] = of["distance" if one.grid is None else "patch_distance"]
    return {
        f"{name}/head_{head}": value
        for name, values in series.items()
        for head, value in enumerate(values)
        if math.isfinite(value)
    }
