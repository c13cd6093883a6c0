"""What the model makes of a few rows, and the tables behind its metrics: into the run's folder and to W&B, beside
training and at no risk to it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from PIL import Image
from pytorch_lightning import Callback, LightningModule, Trainer
from typing_extensions import override

from headtohead.data.batch import Batch
from headtohead.data.contracts import DataSource
from headtohead.tasks.tables import Table
from headtohead.tracking.stages import TEST
from headtohead.tracking.tables import draw_matrix, table_of, write_csv
from headtohead.training.data_module import StepBatch
from headtohead.training.meter import Meter
from headtohead.training.module import TrainingModule, own
from headtohead.training.parts import Settings
from headtohead.training.seeds import EVALUATION_SEED
from headtohead.training.session import Session

TIMES = 10
"""How often in a run validations are shown."""
_log = logging.getLogger(__name__)


class Sampler(Callback):
    """Shows validations some ten times in a run, and the test. It runs while the weights that are evaluated are in
    place, on every process, since a model may lie spread over several; the first one writes."""

    def __init__(self, session: Session, meter: Meter, source: DataSource) -> None:
        self._session, self._meter, self._source = session, meter, source
        self._is_on = True

    @override
    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        module = own(pl_module)
        if shows_at(module.state.step, module.settings):
            self._show(trainer, module, "validation", f"step_{module.state.step:06d}")

    @override
    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if own(pl_module).test_stage == TEST:
            self._show(trainer, own(pl_module), "test", "test")

    def _show(
        self, trainer: Trainer, module: TrainingModule, stage: Literal["validation", "test"], folder: str
    ) -> None:
        if not self._is_on:
            return
        try:
            tables = module.task.tables(stage) | self._samples(trainer, module, stage)
            if tables and trainer.is_global_zero:
                self._write(module, stage, tables, self._session.folder / "tables" / folder)
        except Exception as error:  # whatever goes wrong with a table, the run is worth more
            self._is_on = False
            _log.warning(
                "no samples at step %d (%s: %s); the run goes on without them",
                module.state.step,
                type(error).__name__,
                str(error).partition("\n")[0],
            )

    def _samples(
        self, trainer: Trainer, module: TrainingModule, stage: Literal["validation", "test"]
    ) -> dict[str, Table]:
        """Of the first rows of the split, the same for every run."""
        split = self._source.split(stage)
        rows = np.arange(min(module.settings.num_samples, len(split)))
        if not len(rows):
            return {}
        view = module.task.view(split.batch(rows), seed=EVALUATION_SEED, epoch=0)
        cuda = [module.device] if module.device.type == "cuda" else []
        with torch.random.fork_rng(devices=cuda), trainer.precision_plugin.forward_context():
            samples = module.task.samples(module.model, _on_device(view, module), self._source.decode)
        return {"samples": table_of(samples)} if samples else {}

    def _write(
        self,
        module: TrainingModule,
        stage: Literal["validation", "test"],
        tables: Mapping[str, Table],
        folder: Path,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        pictures = {}
        for name, table in tables.items():
            write_csv(table, folder / f"{name}.csv")
            if table.is_matrix:
                pictures[f"{stage}/{name}_picture"] = picture = draw_matrix(table)
                Image.fromarray(picture).save(folder / f"{name}.png")
        progress = module.state.progress(self._meter.seconds)
        logger = self._session.logger
        logger.write_tables(progress, {f"{stage}/{name}": table for name, table in tables.items()})
        if pictures:
            logger.write_pictures(progress, pictures)


def shows_at(step: int, settings: Settings) -> bool:
    """Whether the validation at this step is the first in its tenth of the run, or the last of all."""
    before = step - 1 - (step - 1) % settings.validate_every
    return step >= settings.max_steps or step * TIMES // settings.max_steps > before * TIMES // settings.max_steps


def _on_device(view: Batch, module: TrainingModule) -> Batch:
    moved = StepBatch([view], epoch=0).to(module.device, module.dtype)  # type: ignore[arg-type]
    return moved.parts[0]
