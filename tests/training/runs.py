"""Runs small enough to be trained hundreds of times: a two-layer decoder on rows of a made-up language."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headtohead.architectures.architecture import Architecture
from headtohead.data.batches.batch import Batch
from headtohead.data.data_source import DataSource, DataSpec, Split, SplitName
from headtohead.records.run_folder import RunFolder
from headtohead.tasks.causal_lm import CausalLanguageModelling
from headtohead.training.optim.optimizers import adamw
from headtohead.training.optim.schedules import cosine
from headtohead.training.run import train
from headtohead.training.run_components import RunComponents, RunInfo, TrainerSettings
from headtohead.wandb_client.connection import TrackingSettings
from small_models import VOCAB_SIZE, small_model

LENGTH = 12
NUM_ROWS = {"train": 40, "validation": 10, "test": 7}


class Rows(Split):
    """Each token follows from the one before it, save every fourth; rows end where their number says."""

    def __init__(self, name: SplitName, *, ragged: bool) -> None:
        draw = np.random.default_rng(len(name))
        tokens = np.zeros((NUM_ROWS[name], LENGTH + 1), dtype=np.int64)
        tokens[:, 0] = draw.integers(0, VOCAB_SIZE, len(tokens))
        for position in range(1, LENGTH + 1):
            tokens[:, position] = (3 * tokens[:, position - 1] + 1) % VOCAB_SIZE
            if position % 4 == 0:
                tokens[:, position] = draw.integers(0, VOCAB_SIZE, len(tokens))
        self._tokens = tokens
        self._lengths = draw.integers(3, LENGTH + 2, len(tokens)) if ragged else None

    def __len__(self) -> int:
        return len(self._tokens)

    def batch(self, rows: np.ndarray) -> Batch:
        tokens = torch.from_numpy(self._tokens[rows])
        numbers = torch.from_numpy(np.asarray(rows))
        if self._lengths is None:
            return Batch(rows=numbers, tokens=tokens)
        lengths = torch.from_numpy(self._lengths[rows])
        valid = torch.arange(int(lengths.max())) < lengths[:, None]
        return Batch(rows=numbers, tokens=tokens[:, : valid.shape[1]].masked_fill(~valid, 0), valid=valid)


class TinyData(DataSource):
    """`on_batch` is called with the rows of every training batch that is made."""

    def __init__(
        self, batch_size: int = 8, *, ragged: bool = True, on_batch: Callable[[np.ndarray], None] | None = None
    ) -> None:
        self.batch_size, self._ragged, self._on_batch = batch_size, ragged, on_batch

    def prepare(self) -> None:
        """There is nothing to do."""

    def spec(self) -> DataSpec:
        return DataSpec(kind="language", vocab_size=VOCAB_SIZE, max_length=LENGTH, data_hash="tiny", tokenizer_hash="t")

    def split(self, name: SplitName) -> Split:
        rows = Rows(name, ragged=self._ragged)
        return Watched(rows, self._on_batch) if self._on_batch is not None and name == "train" else rows

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(map(str, ids))


class Watched(Split):
    """Tells who asks for what."""

    def __init__(self, split: Split, on_batch: Callable[[np.ndarray], None]) -> None:
        self._split, self._on_batch = split, on_batch

    def __len__(self) -> int:
        return len(self._split)

    def batch(self, rows: np.ndarray) -> Batch:
        self._on_batch(rows)
        return self._split.batch(rows)


SETTINGS = TrainerSettings(
    max_steps=12, accelerator="cpu", log_every=1, validate_every=5, progress_bar=False, num_samples=0
)


def make_model(**changes: Any) -> Architecture:
    """Draws from the global generator as it stands."""
    return small_model("decoder_only", seed=int(torch.initial_seed() % 2**31), **{"dropout": 0.1, **changes})


def parts(folder: Path, *, seed: int = 0, resume_from: Path | None = None, **changes: Any) -> RunComponents:
    """`changes` go to the settings where they name one, else to the parts."""
    settings = {name: changes.pop(name) for name in list(changes) if name in TrainerSettings.__dataclass_fields__}
    whole = RunComponents(
        make_model=make_model,
        task=CausalLanguageModelling().bind(TinyData().spec()),
        data=TinyData(),
        optimizer=partial(adamw, lr=3e-3),
        schedule=partial(cosine, warmup=2),
        settings=replace(SETTINGS, **settings),
        identity=RunInfo(seed=seed, name="tiny", output_dir=folder, resume_from=resume_from),
        tracking=TrackingSettings(mode="none"),
    )
    return replace(whole, **changes)


def curve(record_path: Path | None, name: str = "train/loss") -> list[float]:
    assert record_path is not None
    return RunFolder.open(record_path).metrics()[name].value


def losses(folder: Path, **changes: Any) -> list[float]:
    """The loss of every step of a run."""
    record = train(parts(folder, **changes))
    assert record.status == "finished", record.reason
    return curve(record.path)
