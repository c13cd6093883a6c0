"""Batches for Lightning: each is what one device reads for one optimizer step, split where gradients accumulate."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from pytorch_lightning import LightningDataModule
from torch.utils.data import DataLoader, Dataset, Sampler

from headtohead.data.augmentation.augmentation import NO_AUGMENTATION, Augmentations
from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.data.batches.row_order import Order, evaluation_batches, order_of
from headtohead.data.data_source import DataSource, Split, SplitName
from headtohead.data.splits.sample_splits import sampled_rows, train_subset
from headtohead.errors import UsageError
from headtohead.tasks.task import Task
from headtohead.training.loop.seeds import EVALUATION_SEED
from headtohead.training.parallel.process_group import Replicas, replicas_of
from headtohead.training.run_components import TrainerSettings


class StepBatch:
    """One device's share of one step; `counted` is the number over which the loss is a mean.

    Not a dataclass: Lightning would look for tensors inside, one by one.
    """

    def __init__(
        self,
        parts: Sequence[Batch],
        *,
        epoch: int,
        drawn_in: int | None = None,
        training: bool = False,
        counted: int = 0,
    ) -> None:
        """`epoch` counts the passes over the rows that are complete after it; `drawn_in` is what random choices about
        its rows take for the epoch, where that is another."""
        self.parts = list(parts)
        self.epoch, self.training = epoch, training
        self.drawn_in = epoch if drawn_in is None else drawn_in
        self.samples = sum(part.num_samples for part in parts)
        self.rows_by_part = [Counter(part.lengths) for part in parts]
        """The number of rows of each length."""
        self.tokens = sum(sum(lengths) * count for rows in self.rows_by_part for lengths, count in rows.items())
        self.scored_by_part = [_num_scored(part) for part in parts]
        self.counted = counted
        self.waited = 0.0
        """Seconds that training waited for it."""

    def pin_memory(self) -> StepBatch:
        self.parts = [part.pin_memory() for part in self.parts]
        return self

    def to(self, device: torch.device, dtype: torch.dtype) -> StepBatch:
        """Move the batch to the device, with images in the model's number format."""
        if device.type == "cpu" and all(part.images is None for part in self.parts):
            return self

        self.parts = [_moved(part, device, dtype) for part in self.parts]
        return self


def on_device(
    batch: StepBatch, device: torch.device, dtype: torch.dtype, augmentation: Augmentations, seed: int
) -> StepBatch:
    """Return the batch as the model receives it: on its device, a batch of training with what is augmented there."""
    moved = batch.to(device, dtype)
    if moved.training:
        moved.parts = [augmentation.on_device(part, seed=seed, epoch=moved.drawn_in) for part in moved.parts]
    return moved


def _moved(part: Batch, device: torch.device, dtype: torch.dtype) -> Batch:
    """Scores keep their own number format: rounded ones would tie."""
    moved = part.to(device, non_blocking=True)
    return moved if moved.images is None else replace(moved, images=moved.images.to(dtype))


def training_rows(source: DataSource, settings: TrainerSettings, seed: int) -> Split:
    """Return the train split, or the part of it that was requested."""
    return train_subset(source.split("train"), settings.train_rows, seed)


def validation_rows(source: DataSource, settings: TrainerSettings, rows_at_once: int | None = None) -> Split:
    """Return the validation split, or a sample of it of so many batches: the same at each validation and in every
    run on this data. `rows_at_once` are a batch's; None means as many as in training."""
    split, batches = source.split("validation"), settings.validation_batches
    if batches is None:
        return split
    return sampled_rows(split, batches * (rows_at_once or source.batch_size), EVALUATION_SEED)


def _num_scored(part: Batch) -> int:
    return 0 if part.targets is None else int((part.targets != IGNORED).sum())


class TrainingBatches(Dataset[StepBatch]):
    """Item n is what this device reads at optimizer step n of the run."""

    def __init__(
        self,
        split: Split,
        task: Task,
        order: Order,
        *,
        augmentation: Augmentations = NO_AUGMENTATION,
        seed: int,
        rank: int,
        world_size: int,
        accumulate: int,
    ) -> None:
        self._split, self._task, self._order, self._seed = split, task, order, seed
        self._augmentation = augmentation
        self._rank, self._world_size, self._accumulate = rank, world_size, accumulate

    def __getitem__(self, step: int) -> StepBatch:
        epoch, own = self._order.step(step, rank=self._rank, world_size=self._world_size)
        pieces = [piece for piece in np.array_split(own, self._accumulate) if len(piece)]
        drawn_in = self._order.drawn_in(epoch)
        parts = [self._seen(piece, drawn_in) for piece in pieces]
        passes, counted = self._order.passes_after(step, epoch), sum(map(self._task.counted, parts))
        return StepBatch(parts, epoch=passes, drawn_in=drawn_in, training=True, counted=counted)

    def _seen(self, rows: np.ndarray, epoch: int) -> Batch:
        batch = self._augmentation.in_loader(self._split.batch(rows), seed=self._seed, epoch=epoch)
        return self._task.training_view(batch, seed=self._seed, epoch=epoch)


class EvaluationBatches(Dataset[StepBatch]):
    """Item n is this device's share of the n-th batch of a split, in order, each row once over all devices.

    Devices that hold a model together must all take part in every batch: a last one with too few rows for that is
    read with the one before it.
    """

    def __init__(
        self,
        split: Split,
        task: Task,
        *,
        batch_size: int,
        rank: int,
        world_size: int,
        of_train: bool = False,
    ) -> None:
        self._split, self._view = split, task.training_view if of_train else task.view
        self._batches = list(evaluation_batches(len(split), batch_size=batch_size, rank=rank, world_size=world_size))
        if 0 < len(split) % batch_size < world_size and len(self._batches) > 1:
            self._batches[-2:] = [np.concatenate(self._batches[-2:])]

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> StepBatch:
        batch = self._split.batch(self._batches[index])
        return StepBatch([self._view(batch, seed=EVALUATION_SEED, epoch=0)], epoch=0)


class ValidationIntervalSampler(Sampler[int]):
    """The steps from where the run is to its next validation: one of Lightning's epochs."""

    def __init__(self, settings: TrainerSettings, current_step: Callable[[], int]) -> None:
        self._settings = settings
        self._current_step = current_step

    def __iter__(self) -> Iterator[int]:
        start = self._current_step()
        every = self._settings.validate_every
        return iter(range(start, min((start // every + 1) * every, self._settings.max_steps)))


class TimedLoader:
    """A loader whose batches know how long training waited for them."""

    def __init__(self, loader: DataLoader[StepBatch]) -> None:
        self._loader = loader

    def __iter__(self) -> Iterator[StepBatch]:
        batches = iter(self._loader)
        while True:
            start = time.perf_counter()
            batch = next(batches, None)
            if batch is None:
                return
            batch.waited = time.perf_counter() - start
            yield batch


class RunData(LightningDataModule):
    """The three splits of a source of data, as a task sees them."""

    def __init__(
        self,
        source: DataSource,
        task: Task,
        settings: TrainerSettings,
        *,
        seed: int,
        current_step: Callable[[], int],
        augmentation: Augmentations = NO_AUGMENTATION,
        rows_at_once: int | None = None,
    ) -> None:
        """`rows_at_once` are for evaluation; None means as many as in training."""
        super().__init__()
        self._source, self._task, self._settings, self._seed = source, task, settings, seed
        self._rows_at_once = source.batch_size if rows_at_once is None else rows_at_once
        self._current_step, self._augmentation = current_step, augmentation

    def train_dataloader(self) -> TimedLoader:
        split = training_rows(self._source, self._settings, self._seed)
        order = order_of(split, batch_size=self._source.batch_size, seed=self._seed)
        replicas = self._replicas
        if order.batch_size < replicas.size * self._parts:
            raise UsageError(f"the train split has {len(split)} rows for {replicas.size} devices: use fewer devices")
        steps = TrainingBatches(
            split,
            self._task,
            order,
            augmentation=self._augmentation,
            seed=self._seed,
            rank=replicas.rank,
            world_size=replicas.size,
            accumulate=self._settings.accumulate,
        )
        return TimedLoader(self._loader(steps, ValidationIntervalSampler(self._settings, self._current_step)))

    def val_dataloader(self) -> DataLoader[StepBatch]:
        return self._evaluation("validation")

    def test_dataloader(self) -> DataLoader[StepBatch]:
        return self._evaluation("test")

    def transfer_batch_to_device(self, batch: StepBatch, device: torch.device, dataloader_idx: int) -> StepBatch:
        del dataloader_idx
        assert self.trainer is not None
        dtype: torch.dtype = self.trainer.lightning_module.dtype  # type: ignore[assignment]
        return on_device(batch, device, dtype, self._augmentation, self._seed)

    def _evaluation(self, name: SplitName) -> DataLoader[StepBatch]:
        replicas = self._replicas
        split = self._source.split(name)
        if name == "validation":
            split = validation_rows(self._source, self._settings, self._rows_at_once)
        if len(split) < replicas.size:
            raise UsageError(f"the {name} split has {len(split)} rows for {replicas.size} devices: use fewer devices")
        batches = EvaluationBatches(
            split,
            self._task,
            batch_size=self._rows_at_once,
            rank=replicas.rank,
            world_size=replicas.size,
        )
        return self._loader(batches, None)

    def _loader(self, dataset: Dataset[StepBatch], sampler: Sampler[int] | None) -> DataLoader[StepBatch]:
        assert self.trainer is not None
        workers = self._settings.num_workers
        return DataLoader(
            dataset,
            batch_size=None,
            sampler=sampler,
            num_workers=workers,
            persistent_workers=workers > 0,
            pin_memory=self.trainer.strategy.root_device.type == "cuda",
        )

    @property
    def _parts(self) -> int:
        """Return how many parts each device's share must have: devices that hold a model together read equally many."""
        return self._settings.accumulate if self._settings.strategy == "model_parallel" else 1

    @property
    def _replicas(self) -> Replicas:
        assert self.trainer is not None
        return replicas_of(self.trainer)
