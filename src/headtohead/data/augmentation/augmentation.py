"""Every augmentation returns another batch of the same rows, with random draws that depend on the rows alone; several
of them follow one after another."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Bool

from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.data.batches.row_order import uniform
from headtohead.data.data_source import DataError, DataSource, DataSpec
from headtohead.data.row_formats.token_rows import as_tensor
from headtohead.data.tokenizers import PAD, Tokenizer
from headtohead.ranges import Fraction

_FIRST_STREAM = 1000
"""Keeps these draws apart from those of order and masking."""
_PARTS = 100
"""Independent draws of one augmentation."""


@dataclass(frozen=True)
class Draws:
    """Random numbers for a batch's rows, derived from (seed, epoch, row) and the augmentation's index among the others:
    the same after a resume, and with any number of loader processes or devices."""

    rows: np.ndarray
    seed: int
    epoch: int
    index: int = 0

    def uniform(self, num_columns: int, part: int = 0) -> np.ndarray:
        """Return float64 numbers in [0, 1), [B, columns]; `part` separates independent uses."""
        return uniform(self.rows, num_columns, seed=self.seed, epoch=self.epoch, stream=self._stream(part))

    def generators(self, part: int = 0) -> list[np.random.Generator]:
        """Return a generator for each row, where the number of draws is not known beforehand."""
        key = [self.seed, self.epoch, self._stream(part)]
        return [np.random.default_rng([*key, int(row)]) for row in self.rows]

    def _stream(self, part: int) -> int:
        return _FIRST_STREAM + self.index * _PARTS + part


class Augmentation(ABC):
    """An augmentation of training batches; evaluation batches stay as they are."""

    data_kinds: ClassVar[tuple[str, ...]]
    """DataSpec.kind values that it can change."""
    cannot: ClassVar[dict[str, str]] = {}
    """The reason why it cannot change data of another kind: the kind, and the reason as it ends a sentence."""
    on_device: ClassVar[bool] = False
    """Whether it changes the batch on its device; otherwise it does so beside the loader, before the task sees it."""
    changes_classes: ClassVar[bool] = False
    """Whether it gives rows other classes, which a task without classes would not see."""
    pairs_rows: ClassVar[bool] = False
    """Whether neighbours of a batch change each other, so that it is divided into parts of even numbers alone."""

    def bind(self, source: DataSource) -> None:
        """Learn what the data holds; called once, before anything else. Raise DataError where the augmentation makes no
        sense."""
        del source

    def prepare(self) -> None:
        """Do the work that is needed once per machine, before training; nothing, for most."""
        return

    @abstractmethod
    def __call__(self, batch: Batch, draws: Draws) -> Batch:
        """Return a new batch of the same rows."""


def checked_rate(rate: float, field: str = "rate") -> float:
    if not 0 <= rate < 1:
        raise DataError(f"augmentation {field}={rate} must be at least 0 and below 1.")
    return rate


class AugmentedTokens(Augmentation):
    """Changes tokens of texts, of pairs those of the source; special tokens and padding never."""

    def bind(self, source: DataSource) -> None:
        facts = source.tokenizer_facts()
        if facts is None:
            raise DataError(
                f"augmentation by {type(self).__name__} changes texts, and every token of this data decides its "
                "answer: leave it out (augmentation=none), or choose data of texts"
            )
        self.spec: DataSpec = source.spec()
        self.tokenizer = Tokenizer.from_dict(facts)

    def changeable(self, batch: Batch) -> Bool[np.ndarray, "B L"]:
        """Return a mask of the tokens that may change: real tokens of text."""
        assert batch.tokens is not None
        ordinary: np.ndarray = ~self.spec.are_special(batch.tokens).numpy()
        return ordinary if batch.valid is None else ordinary & batch.valid.numpy()


def reading(batch: Batch, tokens: torch.Tensor) -> Batch:
    """Return the batch with other input tokens; where tokens are the targets, the original ones stay so."""
    known = batch.tokens if batch.original_tokens is None else batch.original_tokens
    return replace(batch, tokens=tokens, original_tokens=known)


def texts_of(batch: Batch) -> Iterator[Bool[np.ndarray, "B L"]]:
    """Yield a mask of each of a row's texts: one, or the two of a pair."""
    assert batch.tokens is not None
    if batch.token_types is None:
        yield np.ones(tuple(batch.tokens.shape), dtype=bool)
        return
    second = batch.token_types.numpy() == 1
    yield from (~second, second)


def without(batch: Batch, dropped: Bool[np.ndarray, "B L"]) -> Batch:
    """Remove the dropped tokens and close the gaps, with the tags of the remaining tokens; positions of packed
    documents close up too."""
    assert batch.tokens is not None
    valid = np.ones_like(dropped) if batch.valid is None else batch.valid.numpy()
    remaining = valid & ~dropped
    lengths = remaining.sum(1)
    order = np.argsort(~remaining, axis=1, kind="stable")[:, : lengths.max(initial=0)]
    real = np.arange(order.shape[1]) < lengths[:, None]

    def closed(tensor: torch.Tensor, filler: int) -> torch.Tensor:
        return as_tensor(np.where(real, np.take_along_axis(tensor.numpy(), order, axis=1), filler))

    original, segments, positions = batch.original_tokens, batch.segments, batch.positions
    if positions is not None:
        assert segments is not None, "places of a row's documents come with their numbers"
        positions = positions - as_tensor(_dropped_before(dropped, segments.numpy()))
    # Targets of pairs are texts of their own, though they may be as long.
    by_token = batch.decoder_tokens is None and batch.targets is not None and batch.targets.shape == batch.tokens.shape
    return replace(
        batch,
        tokens=closed(batch.tokens, PAD),
        valid=torch.from_numpy(real),
        original_tokens=None if original is None else closed(original, PAD),
        segments=None if segments is None else closed(segments, 0),
        positions=None if positions is None else closed(positions, 0),
        num_bytes=None,
        token_types=None if batch.token_types is None else closed(batch.token_types, 0),
        targets=closed(batch.targets, IGNORED) if by_token and batch.targets is not None else batch.targets,
    )


def _dropped_before(dropped: Bool[np.ndarray, "B L"], segments: np.ndarray) -> np.ndarray:
    """Return how many tokens of its own document are dropped before each token."""
    before = dropped.cumsum(1) - dropped
    begins = np.ones_like(dropped)
    begins[:, 1:] = segments[:, 1:] != segments[:, :-1]
    first = np.maximum.accumulate(np.where(begins, np.arange(dropped.shape[1]), 0), axis=1)
    left_out: np.ndarray = before - np.take_along_axis(before, first, axis=1)
    return left_out


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

    @property
    def has_to_prepare(self) -> bool:
        """Return whether a step has work to do once, before it can change a batch."""
        return any(type(step).prepare is not Augmentation.prepare for step in self.steps.values())

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
    changes_classes = True

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
