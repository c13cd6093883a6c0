"""Collect what a model really sees: rows as the task shows them, token by token, with their lengths and classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice, takewhile
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from headtohead.data.augmentation.augmentation import NO_AUGMENTATION, Augmentations
from headtohead.data.augmentation.image_operations import PixelScale
from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.data.batches.row_order import evaluation_batches, order_of
from headtohead.data.data_source import SPLIT_NAMES, DataSource, DataSpec, SplitName
from headtohead.data.row_formats.text_source import tokenizer_of
from headtohead.data.splits.sample_splits import RowSubset, train_subset
from headtohead.finished_runs.probe.probe_input import checked_rows
from headtohead.interpretability.picture_text import token_labels
from headtohead.tasks.task import Task
from headtohead.training.loop.seeds import EVALUATION_SEED, seeds_of

Change = Literal["masked", "replaced", "kept"]
_SHOWN_SHARE = 0.005
"""The share of a mixed class from which on it is shown: less is rounded to nothing."""
MOST_ROWS = 4096
"""The most rows of each split that are read for lengths and shares."""


@dataclass(frozen=True)
class TokenSeen:
    """One place of a row; None where something does not apply."""

    text: str
    special: bool = False
    padding: bool = False
    target: str | None = None
    """The token that is to be predicted here, where it counts."""
    change: Change | None = None
    """The change that masked language modelling made to it; the target is the original."""
    document: int | None = None
    sentence: int | None = None
    answer: bool = False


@dataclass(frozen=True)
class ProbedSample:
    """One row: its sides (what an encoder or decoder reads), its label, its image."""

    split: SplitName
    row: int
    sides: Mapping[str, tuple[TokenSeen, ...]]
    label: str | None = None
    """Its class, or the shares of several that are mixed."""
    image: Tensor | None = None
    """The image from -1 to 1, whatever the model reads."""
    original: ProbedSample | None = None
    """The same row as it is without augmentation, where there is some."""


@dataclass(frozen=True)
class SplitSeen:
    """One split in numbers, over the first batches in the order in which they are read."""

    name: SplitName
    rows: int
    looked_at: int
    lengths: Mapping[str, np.ndarray]
    """The numbers of real tokens, by what is counted: rows, the target side, documents within rows."""
    padding: float | None
    """Share of all places that are padding."""
    scored: float | None
    """Share of real places with a target that counts."""
    unknown: float | None
    """Share of real tokens that the tokenizer does not know."""
    classes: np.ndarray | None
    """The frequency of each class."""


@dataclass(frozen=True)
class ProbedData:
    """Rows of a data set as a model reads them, and what its splits hold."""

    spec: DataSpec
    """The data's own facts: kind, vocabulary, classes, lengths."""
    samples: tuple[ProbedSample, ...]
    """The rows that are shown."""
    splits: tuple[SplitSeen, ...]
    """The splits: train, validation, test."""
    spaced: bool
    """Whether tokens are words of their own, rather than pieces of a text with its own spaces."""
    augmented_by: tuple[str, ...] = ()
    """The augmentations that change the rows, in this order; only those for training."""


def see(
    data: DataSource,
    task: Task,
    seed: int,
    *,
    split: SplitName = "train",
    rows: Sequence[int] | None = None,
    augmentation: Augmentations = NO_AUGMENTATION,
    train_rows: int | None = None,
) -> ProbedData:
    """Return, by default, the first rows that training reads, in its order, with the masks and the augmentation of its
    first epoch; `seed` and `train_rows` are the run's."""
    looker = _DataViewer(data, task, seeds_of(seed).data_order, augmentation, train_rows)
    number = 40 if data.spec().kind == "images" else 8
    chosen = next(looker.orders(split))[:number] if rows is None else checked_rows(data, split, rows)
    return ProbedData(
        spec=looker.spec,
        samples=tuple(looker.samples(split, chosen)),
        splits=tuple(looker.summary(name) for name in SPLIT_NAMES),
        spaced=tokenizer_of(data) is None,
        augmented_by=tuple(augmentation.steps) if split == "train" else (),
    )


class _DataViewer:
    """A source and a task, as one run joins them."""

    def __init__(
        self, data: DataSource, task: Task, seed: int, augmentation: Augmentations, train_rows: int | None
    ) -> None:
        self.data, self.task, self.seed, self.augmentation = data, task, seed, augmentation
        self.training_rows = train_subset(data.split("train"), train_rows, seed)
        self.spec = data.spec()
        self._labels: dict[int, str] = {}

    def orders(self, name: SplitName) -> Iterator[np.ndarray]:
        """Yield the rows of each batch in turn."""
        size = self.data.batch_size
        if name != "train":
            return evaluation_batches(len(self.data.split(name)), batch_size=size)
        order = order_of(self.training_rows, batch_size=size, seed=self.seed)
        first_epoch = takewhile(lambda read: read[0] == 0, map(order.step, count()))
        numbers = self.training_rows.rows if isinstance(self.training_rows, RowSubset) else None
        return (rows if numbers is None else numbers[rows] for _, rows in first_epoch)

    def view(self, name: SplitName, rows: np.ndarray, *, augmented: bool = True) -> Batch:
        """Return the task's view of the rows; training rows are augmented as the loader does it."""
        batch = self.data.split(name).batch(rows)
        if name != "train":
            return self.task.view(batch, seed=EVALUATION_SEED, epoch=0)
        if augmented:
            batch = self.augmentation.in_loader(batch, seed=self.seed, epoch=0)
        return self.task.training_view(batch, seed=self.seed, epoch=0)

    def samples(self, name: SplitName, rows: np.ndarray) -> Iterator[ProbedSample]:
        """Those for training as they are after all augmentation, with what they were."""
        if name != "train" or not self.augmentation:
            yield from self._seen(name, self.view(name, rows))
            return
        plain = self._seen(name, self.view(name, rows, augmented=False))
        batch = self.augmentation.on_device(self.view(name, rows), seed=self.seed, epoch=0)
        for before, after in zip(plain, self._seen(name, batch), strict=True):
            yield replace(after, original=before)

    def _seen(self, name: SplitName, batch: Batch) -> Iterator[ProbedSample]:
        images = None if batch.images is None else PixelScale.of(self.spec).as_shown(batch.images)
        for index, row in enumerate(batch.rows.tolist()):
            yield ProbedSample(
                split=name,
                row=row,
                sides=self._sides(batch, index),
                label=self._label(batch, index),
                image=None if images is None else images[index],
            )

    def summary(self, name: SplitName) -> SplitSeen:
        most = max(1, MOST_ROWS // self.data.batch_size)
        views = [self.view(name, rows) for rows in islice(self.orders(name), most) if len(rows)]
        num_positions = sum(_num_positions(view) for view in views)
        real = sum(view.num_tokens for view in views)
        has_targets = any(view.targets is not None and self._is_per_token(view) for view in views)
        scored = sum(int((view.targets != IGNORED).sum()) for view in views if view.targets is not None)
        scorable = sum(_scorable(view) for view in views)
        unknown = None
        if (tokenizer := tokenizer_of(self.data)) is not None:
            unk = tokenizer.special.unk
            unknown = sum(int((view.tokens == unk).sum()) for view in views if view.tokens is not None) / max(real, 1)
        return SplitSeen(
            name=name,
            rows=len(self.training_rows if name == "train" else self.data.split(name)),
            looked_at=sum(view.num_samples for view in views),
            lengths=_lengths(views),
            padding=1 - real / num_positions if num_positions else None,
            scored=scored / max(scorable, 1) if has_targets else None,
            unknown=unknown,
            classes=self._classes(views),
        )

    def _sides(self, batch: Batch, position: int) -> dict[str, tuple[TokenSeen, ...]]:
        sides = {}
        for side, tokens, valid in (
            ("tokens", batch.tokens, batch.valid),
            ("decoder_tokens", batch.decoder_tokens, batch.decoder_valid),
        ):
            if tokens is None:
                continue
            ids = tokens[position].tolist()
            real = [True] * len(ids) if valid is None else valid[position].tolist()
            seen = [
                TokenSeen(
                    label,
                    special=token < self.spec.num_special_ids or token in self.spec.special_ids,
                    padding=not is_real,
                )
                for label, token, is_real in zip(self._named(ids), ids, real, strict=True)
            ]
            if side == "tokens":
                seen = _numbered(seen, batch, position)
            reads_targets = side == ("decoder_tokens" if batch.decoder_tokens is not None else "tokens")
            sides[side] = tuple(self._with_targets(seen, ids, batch, position) if reads_targets else seen)
        return sides

    def _with_targets(self, seen: list[TokenSeen], ids: list[int], batch: Batch, position: int) -> list[TokenSeen]:
        if batch.targets is None or batch.targets.dim() == 1:
            return seen
        targets = batch.targets[position].tolist()
        if self.task.head == "span":
            first, last = targets
            return [replace(token, answer=first <= i <= last) for i, token in enumerate(seen)]
        return [
            token if target == IGNORED else self._with_target(token, read, target)
            for token, read, target in zip(seen, ids, targets, strict=True)
        ]

    def _with_target(self, token: TokenSeen, read: int, target: int) -> TokenSeen:
        if self.task.head == "tagger":
            return replace(token, target=self._class(target))
        change: Change | None = None
        if self.task.head.startswith("masked"):
            change = "masked" if read == self.spec.mask_id else "kept" if read == target else "replaced"
        return replace(token, target=self._named([target])[0], change=change)

    def _named(self, ids: list[int]) -> list[str]:
        new = [token for token in ids if token not in self._labels]
        self._labels |= dict(zip(new, token_labels(new, self.spec, self.data.decode), strict=True))
        return [self._labels[token] for token in ids]

    def _label(self, batch: Batch, position: int) -> str | None:
        """Return the label of the row: its class, each with its share if several are mixed, or whether the second
        sentence follows the first."""
        if batch.soft_targets is not None:
            shares = sorted(enumerate(batch.soft_targets[position].tolist()), key=lambda entry: -entry[1])
            if len(mixed := [(number, share) for number, share in shares if share >= _SHOWN_SHARE]) > 1:
                return " + ".join(f"{share:.0%} {self._class(number)}" for number, share in mixed)
            return self._class(mixed[0][0])
        labels = batch.labels if batch.labels is not None else batch.targets
        if labels is None or labels.dim() != 1:
            return None
        if labels.is_floating_point():
            return f"{float(labels[position]):.3g}"
        label = int(labels[position])
        return None if label == IGNORED else self._class(label)

    def _class(self, number: int) -> str:
        names = self.spec.class_names
        return names[number] if number < len(names) else str(number)

    def _is_per_token(self, view: Batch) -> bool:
        return view.targets is not None and view.targets.dim() == 2 and self.task.head != "span"

    def _classes(self, views: Sequence[Batch]) -> np.ndarray | None:
        """Return the classes of labels, or of tags."""
        if not self.spec.num_classes:
            return None
        classes = []
        for view in views:
            labels = view.labels if view.labels is not None else view.targets
            if labels is not None and (labels.dim() == 1 or self.task.head == "tagger"):
                classes.append(labels[labels != IGNORED].numpy())
        return np.bincount(np.concatenate(classes), minlength=self.spec.num_classes) if classes else None


def _numbered(seen: list[TokenSeen], batch: Batch, position: int) -> list[TokenSeen]:
    """Add the numbers of documents in a packed row, and of the sentences of a pair."""
    nothing = [None] * len(seen)
    documents, sentences = (
        nothing if numbers is None else numbers[position].tolist() for numbers in (batch.segments, batch.token_types)
    )
    return [
        replace(token, document=document, sentence=sentence)
        for token, document, sentence in zip(seen, documents, sentences, strict=True)
    ]


def _num_positions(view: Batch) -> int:
    return sum(tokens.numel() for tokens in (view.tokens, view.decoder_tokens) if tokens is not None)


def _scorable(view: Batch) -> int:
    """Real places of the side that targets stand on."""
    if view.decoder_tokens is not None:
        return view.decoder_tokens.numel() if view.decoder_valid is None else int(view.decoder_valid.sum())
    if view.tokens is None:
        return 0
    return view.tokens.numel() if view.valid is None else int(view.valid.sum())


def _lengths(views: Sequence[Batch]) -> dict[str, np.ndarray]:
    lengths: dict[str, list[Tensor]] = {}
    for view in views:
        for what, tokens, valid in (
            ("tokens of a row", view.tokens, view.valid),
            ("tokens of a target", view.decoder_tokens, view.decoder_valid),
        ):
            if tokens is not None:
                whole = torch.full((len(tokens),), tokens.shape[1])
                lengths.setdefault(what, []).append(whole if valid is None else valid.sum(1))
        if view.segments is not None:
            lengths.setdefault("tokens of a document within a row", []).append(_runs(view.segments))
    return {what: torch.cat(parts).numpy() for what, parts in lengths.items()}


def _runs(segments: Tensor) -> Tensor:
    """Lengths of the stretches of equal numbers in each row."""
    starts = torch.ones_like(segments, dtype=torch.bool)
    starts[:, 1:] = segments[:, 1:] != segments[:, :-1]
    positions = starts.flatten().nonzero().flatten()
    return torch.diff(positions, append=torch.tensor([segments.numel()]))
