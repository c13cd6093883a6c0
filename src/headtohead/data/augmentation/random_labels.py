"""Labels drawn at random, so that nothing can be learned from them (Zhang et al. 2017,
https://arxiv.org/abs/1611.03530)."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
import torch

from headtohead.data.augmentation.contracts import Augmentation, Draws
from headtohead.data.batch import Batch
from headtohead.data.contracts import DataError, DataSource
from headtohead.ranges import Fraction


class RandomLabels(Augmentation):
    """A share of the training rows gets a label drawn by the classes' frequencies, the same label in every epoch.

    With `rate=1` no label says anything about its row: a control, of which a study expects that neither arm learns.
    A smaller rate is label noise.
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
