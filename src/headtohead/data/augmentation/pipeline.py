"""Several augmentations, one after another; only ever of training batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np
import torch

from headtohead.data.augmentation.augmentation import Augmentation, Draws
from headtohead.data.batches.batch import Batch
from headtohead.data.data_source import DataError, DataSource
from headtohead.ranges import Fraction


class Augmentations:
    """Augmentations in the order in which they are named. Each choice of conf/augmentation has a single step, so that a
    list of choices, augmentation=[token_dropping,swapping], combines them."""

    def __init__(self, steps: Mapping[str, Augmentation]) -> None:
        self.steps = dict(steps)

    def __bool__(self) -> bool:
        return bool(self.steps)

    def bind(self, source: DataSource) -> Augmentations:
        """Raises DataError where a step makes no sense for this data."""
        kind = source.spec().kind if self.steps else None
        for name, step in self.steps.items():
            if kind not in step.data_kinds:
                reason = step.cannot.get(str(kind), f"it is for data of kind {' or '.join(step.data_kinds)}")
                raise DataError(f"augmentation={name} cannot be used with data of kind {kind}: {reason}")
            step.bind(source)
        return self

    def prepare(self) -> None:
        """Prepare every step before training, so that no loader process has to."""
        for step in self.steps.values():
            step.prepare()

    def in_loader(self, batch: Batch, *, seed: int, epoch: int) -> Batch:
        """Augment the batch beside the loader, before the task sees it."""
        return self._after(batch, seed, epoch, on_device=False)

    def on_device(self, batch: Batch, *, seed: int, epoch: int) -> Batch:
        """Apply the remaining steps once the batch is on its device."""
        return self._after(batch, seed, epoch, on_device=True)

    def _after(self, batch: Batch, seed: int, epoch: int, *, on_device: bool) -> Batch:
        for index, step in enumerate(self.steps.values()):
            if step.on_device == on_device:
                batch = step(batch, Draws(batch.rows.cpu().numpy(), seed, epoch, index))
        return batch


NO_AUGMENTATION = Augmentations({})


# Labels drawn at random, so that nothing can be learned from them (Zhang et al. 2017,
# https://arxiv.org/abs/1611.03530).


class RandomLabels(Augmentation):
    """A share of the training rows gets a label drawn by the classes' frequencies, the same label in every epoch.

    With `rate=1` labels are independent of their rows: a control, of which a study expects that neither arm learns. A
    smaller rate is label noise.
    """

    data_kinds: ClassVar[tuple[str, ...]] = ("images", "labelled_text")

    def __init__(self, rate: Fraction = 1.0) -> None:
        if not 0 <= rate <= 1:
            raise DataError(f"augmentation steps.random_labels.rate={rate} must be from 0 to 1.")
        self.rate = rate
        self._cumulative = np.ones(1)

    def bind(self, source: DataSource) -> None:
        """Learn the frequencies of the classes in the train split."""
        spec = source.spec()
        shares = spec.class_shares or [1.0] * spec.num_classes
        self._cumulative = np.cumsum(shares) / np.sum(shares)

    def __call__(self, batch: Batch, draws: Draws) -> Batch:
        assert batch.targets is not None, "bind refuses data without classes"
        drawn = replace(draws, epoch=0).uniform(2)
        labels = torch.from_numpy(np.searchsorted(self._cumulative[:-1], drawn[:, 0], side="right"))
        chosen = torch.from_numpy(drawn[:, 1] < self.rate)
        return replace(batch, targets=torch.where(chosen, labels.to(batch.targets.dtype), batch.targets))
