"""Log the model's output for a few rows, and the tables behind its metrics, to the run's folder and to W&B, beside
training and at no risk to it."""

from __future__ import annotations

import csv
import io
import logging
import warnings
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from PIL import Image
from pytorch_lightning import Callback, LightningModule, Trainer
from typing_extensions import override

from headtohead.data.batches.batch import Batch
from headtohead.data.data_source import DataSource
from headtohead.files.atomic_write import replace_bytes, replace_text
from headtohead.metrics.metric import Cell, MetricTable
from headtohead.records.metrics_file import TEST
from headtohead.training.loop.data_module import StepBatch
from headtohead.training.loop.seeds import EVALUATION_SEED
from headtohead.training.loop.throughput import ThroughputMeter
from headtohead.training.loop.training_module import TrainingModule, as_training_module
from headtohead.training.run_components import TrainerSettings
from headtohead.training.run_recorder import RunRecorder
from headtohead.wandb_client.logged_rows import TABLES, picture_name, step_folder

TIMES = 10
"""The number of times in a run that validations are shown."""
_log = logging.getLogger(__name__)


class SampleLogger(Callback):
    """Shows validations some ten times in a run, and the test. It runs while the weights that are evaluated are in
    place, on every process, since a model may lie spread over several; the first one writes."""

    def __init__(self, session: RunRecorder, meter: ThroughputMeter, source: DataSource) -> None:
        self._session, self._meter, self._source = session, meter, source
        self._is_on = True

    @override
    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        module = as_training_module(pl_module)
        if shows_at(module.state.step, module.settings):
            self._show(trainer, module, "validation", step_folder(module.state.step))

    @override
    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if as_training_module(pl_module).test_stage == TEST:
            self._show(trainer, as_training_module(pl_module), "test", TEST)

    def _show(
        self, trainer: Trainer, module: TrainingModule, stage: Literal["validation", "test"], folder: str
    ) -> None:
        if not self._is_on:
            return
        try:
            tables = module.task.tables(stage) | self._samples(trainer, module, stage)
            if tables and trainer.is_global_zero:
                self._write(module, stage, tables, self._session.folder / TABLES / folder)
        except Exception as error:  # whatever goes wrong with a table, the run is worth more
            self._is_on = False
            _log.warning(
                "no samples at step %d (%s: %s); the run continues without them",
                module.state.step,
                type(error).__name__,
                str(error).partition("\n")[0],
            )

    def _samples(
        self, trainer: Trainer, module: TrainingModule, stage: Literal["validation", "test"]
    ) -> dict[str, MetricTable]:
        """Return samples for the first rows of the split, the same for every run."""
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
        tables: Mapping[str, MetricTable],
        folder: Path,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        pictures = {}
        for name, table in tables.items():
            write_csv(table, folder / f"{name}.csv")
            if table.is_matrix:
                pictures[picture_name(f"{stage}/{name}")] = picture = draw_matrix(table)
                content = BytesIO()
                Image.fromarray(picture).save(content, "PNG")
                replace_bytes(folder / f"{name}.png", content.getvalue())
        progress = module.state.progress(self._meter.seconds)
        logger = self._session.logger
        logger.write_tables(progress, {f"{stage}/{name}": table for name, table in tables.items()})
        if pictures:
            logger.write_pictures(progress, pictures)


def shows_at(step: int, settings: TrainerSettings) -> bool:
    """Return whether the validation at this step is the first in its tenth of the run, or the last of all."""
    before = step - 1 - (step - 1) % settings.validate_every
    return step >= settings.max_steps or step * TIMES // settings.max_steps > before * TIMES // settings.max_steps


def _on_device(view: Batch, module: TrainingModule) -> Batch:
    moved = StepBatch([view], epoch=0).to(module.device, module.dtype)  # type: ignore[arg-type]
    return moved.parts[0]


_DOTS_PER_INCH = 110
_MOST_NUMBERED, _MOST_NAMED = 20, 60
"""Classes up to which a matrix shows its counts, and the names of its rows and columns."""


def write_csv(table: MetricTable, path: Path) -> None:
    """Numbers in full."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(table.rows)
    replace_text(path, text.getvalue())


def table_of(samples: list[dict[str, str]]) -> MetricTable:
    """Return one row per sample; all of them have the same names."""
    columns = tuple(samples[0]) if samples else ()
    rows: list[tuple[Cell, ...]] = [tuple(sample[name] for name in columns) for sample in samples]
    return MetricTable(columns, tuple(rows))


def draw_matrix(table: MetricTable) -> np.ndarray:
    """Colours [H, W, 3]: every row by its shares, so that a rare class shows as clearly as a common one; the counts
    stand in the cells."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    assert table.is_matrix, "only a matrix can be drawn"
    counts = np.array([row[1:] for row in table.rows], dtype=np.float64)
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    size = len(counts)
    side = float(np.clip(2.2 + 0.42 * size, 3.6, 14.0))
    figure = Figure(figsize=(side + 0.9, side), dpi=_DOTS_PER_INCH, layout="compressed")
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    image = axes.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0)
    figure.colorbar(image, ax=axes, label="share of the true class", fraction=0.045)
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")
    if size <= _MOST_NAMED:
        longest = max(len(name) for name in table.columns[1:])
        axes.set_xticks(range(size), table.columns[1:], rotation=90 if longest > 3 else 0, parse_math=False)
        axes.set_yticks(range(size), [str(row[0]) for row in table.rows], parse_math=False)
    if size <= _MOST_NUMBERED:
        for (true, predicted), count in np.ndenumerate(counts):
            colour = "white" if shares[true, predicted] > 0.5 else "black"
            axes.text(predicted, true, f"{count:g}", ha="center", va="center", color=colour, fontsize=8)
    with warnings.catch_warnings():
        # A class may be named in letters that the font lacks; it shows them as boxes.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font", category=UserWarning)
        canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()
