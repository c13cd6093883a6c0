"""Bring texts that belong together near each other, and all others of a batch apart, so that a model can retrieve:
InfoNCE with negatives of the batch (Gao et al. 2021, https://arxiv.org/abs/2104.08821; the multiple negatives ranking
loss of https://www.sbert.net)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headtohead.architectures.architecture import Architecture
from headtohead.architectures.head_names import HeadName
from headtohead.architectures.pooling import TextVector
from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.data.data_source import DataSpec
from headtohead.errors import UsageError
from headtohead.metrics.labels import RETRIEVAL_ACCURACY, RETRIEVAL_MRR
from headtohead.metrics.language_modelling import LOSS
from headtohead.metrics.metric import Metric
from headtohead.ranges import Positive, Range
from headtohead.tasks.class_metrics import class_loss, wide
from headtohead.tasks.metric_sums import CollectedPerStage
from headtohead.tasks.task import Decode, Loss, Task, direction_of, row_text
from headtohead.tasks.token_prediction import targets_of
from headtohead.tasks.vocabulary_loss import mean

MEASURED_AT = 0.05
"""The temperature of the loss in validation and test, whatever that of training is, so that arms compare."""


class ContrastivePairs(Task):
    """A batch holds the first texts of its rows and behind them the second ones. In training the second texts of all
    other rows are the negatives of a first text, but for those equal to its own; so a step needs its whole batch on
    one device.

    In validation and test each first text looks for its own second text among `candidates`: its row's and those of the
    rows that follow in the split, from the end on to its beginning, but for texts equal to its own. They are ranked
    when the vectors of all rows are there, so that neither batches nor devices matter. Ties share their ranks.
    """

    head: ClassVar[HeadName] = "text_vector"
    families: ClassVar[tuple[str, ...]] = ("encoder_only", "decoder_only")
    data_kinds: ClassVar[tuple[str, ...]] = ("labelled_text", "pairs_of_text")
    metrics: ClassVar[tuple[Metric, ...]] = (LOSS, RETRIEVAL_ACCURACY, RETRIEVAL_MRR)
    compares_rows: ClassVar[bool] = True
    row_ratios: ClassVar[Mapping[str, tuple[str, str]]] = {
        "loss": ("loss", "queries"),
        "retrieval_accuracy": ("correct", "queries"),
        "retrieval_mrr": ("reciprocal", "queries"),
    }

    def __init__(
        self,
        temperature: Positive = 0.05,
        candidates: Annotated[int, Range(2, 1_000_000)] = 32,
        positive: str | None = None,
        monitor: str = "loss",
    ) -> None:
        super().__init__()
        if candidates < 2:
            raise UsageError(f"task.candidates={candidates} leaves nothing to choose from: give at least 2.")
        self.temperature, self.candidates, self.positive = temperature, candidates, positive
        self.monitor, self.direction = monitor, direction_of(monitor, self.metrics)
        self.vectors = CollectedPerStage()
        self._label = 0
        self._random: dict[str, dict[str, float]] = {}

    def bind(self, spec: DataSpec) -> Task:
        if spec.kind == "labelled_text":
            self._label = self._positive_label(spec)
        elif self.positive is not None:
            raise UsageError(
                f"task.positive={self.positive} is a class of labelled pairs, and the pairs of this data all belong "
                "together: leave it null."
            )
        return super().bind(spec)

    def _positive_label(self, spec: DataSpec) -> int:
        if spec.num_texts != 2:
            raise UsageError(
                "task=contrastive_pairs reads pairs of texts, and a row of this data is one text: choose data of "
                "sentence pairs, such as data=pair_grammar, or of kind pairs_of_text."
            )
        if self.positive not in spec.class_names:
            raise UsageError(
                f"task.positive={'null' if self.positive is None else self.positive} must name the class of pairs that "
                f"belong together: choose one of {', '.join(spec.class_names)}."
            )
        return spec.class_names.index(self.positive)

    def measured_how(self) -> str:
        return ", ".join(filter(None, (super().measured_how(), f"{self.candidates} candidates", self.positive)))

    def rows_read(self, spec: DataSpec) -> DataSpec:
        """A text of a labelled pair stands in its row with the other one's end token at least; sources and targets are
        framed here."""
        if spec.kind == "labelled_text":
            return replace(spec, max_length=spec.max_length - 1)
        return replace(spec, max_length=max(spec.max_length + 2, spec.max_target_length + 1), max_target_length=0)

    def view(self, batch: Batch, *, seed: int, epoch: int) -> Batch:
        del seed, epoch
        texts = _labelled_texts(batch) if self.spec.kind == "labelled_text" else _sources_and_targets(batch)
        framed = _framed(texts, self.spec)
        belongs = torch.ones(len(batch.rows), dtype=torch.bool)
        if self.spec.kind == "labelled_text":
            belongs = targets_of(batch) == self._label
        own = torch.arange(len(belongs)).masked_fill(~belongs, IGNORED)
        return replace(
            batch,
            rows=batch.rows.repeat(2),
            tokens=framed.tokens,
            valid=framed.valid,
            targets=torch.cat([own, torch.full_like(own, IGNORED)]),
            token_types=None,
            decoder_tokens=None,
            decoder_valid=None,
            original_tokens=None,
        )

    def loss(self, model: Architecture, batch: Batch) -> Loss:
        """Return the cross-entropy of the own second text among those of the batch, by cosine over temperature."""
        vectors, keys = _vectors(model, batch), _keys(batch)
        vectors = _unit(vectors).to(vectors.dtype)
        number = (len(vectors) + 1) // 2  # a plan asks for odd numbers of texts too, of which one is in both halves
        first, second, targets = vectors[:number], vectors[-number:], targets_of(batch)[:number]
        logits = first @ second.T / self.temperature
        own = torch.eye(number, dtype=torch.bool, device=logits.device)
        is_equal = keys[-number:, None] == keys[None, -number:]
        return class_loss(logits.masked_fill(is_equal & ~own, -torch.inf), targets)

    @torch.no_grad()
    def measure(self, stage: Literal["validation", "test"], model: Architecture, batch: Batch) -> None:
        pairs = _unit(_vectors(model, batch)).double().cpu().unflatten(0, (2, -1)).transpose(0, 1).numpy()
        half = len(pairs)
        asks, keys = (targets_of(batch)[:half] != IGNORED).tolist(), _keys(batch)[half:].tolist()
        self.vectors.add(stage, *zip(batch.rows[:half].tolist(), asks, keys, pairs, strict=True))

    def results(self, stage: Literal["validation", "test"]) -> dict[str, float]:
        items = {row: item for row, *item in self.vectors.items(stage)}
        rows = sorted(items)
        asks = np.array([items[row][0] for row in rows], dtype=bool)
        mean(1.0, float(asks.sum()), "pair that belongs together")
        keys, pairs = (np.stack([items[row][index] for row in rows]) for index in (1, 2))
        ranked = rank_among_next(pairs, self.candidates, keys)
        orders = [_random_order(int(size)) for size in ranked.pop("size")[asks]]
        self._random[stage] = {name: float(np.mean([order[name] for order in orders])) for name in orders[0]}
        if stage == "test":
            columns = {name: torch.from_numpy(values[asks]) for name, values in ranked.items()}
            self.rows.add(torch.tensor(rows)[asks], queries=torch.ones(int(asks.sum())), **columns)
        loss, correct, reciprocal = (float(ranked[name][asks].mean()) for name in ("loss", "correct", "reciprocal"))
        return {LOSS.name: loss, RETRIEVAL_ACCURACY.name: correct, RETRIEVAL_MRR.name: reciprocal}

    def baseline(self, spec: DataSpec) -> dict[str, float]:
        """Return the metrics of a random order of the candidates."""
        del spec
        return _random_order(self.candidates)

    def measured_baseline(self, stage: Literal["validation", "test"]) -> dict[str, float]:
        """Return the metrics of a random order of as many candidates as each row had."""
        return self._random.get(stage, {})

    def samples(self, model: Architecture, batch: Batch, decode: Decode) -> list[dict[str, str]]:
        """Return each first text, its own second text, and the one of the batch that is most similar."""
        assert batch.tokens is not None, "view makes the tokens"
        with torch.no_grad():
            first, second = _unit(_vectors(model, batch)).chunk(2)
            result = (first @ second.T).argmax(1).tolist()
        texts = [row_text(batch.tokens, batch, row, decode) for row in range(batch.num_samples)]
        half = len(result)
        return [
            {"text": texts[row], "truth": texts[half + row], "found": texts[half + result[row]]} for row in range(half)
        ]


def rank_among_next(
    pairs: Float[np.ndarray, "N 2 D"], candidates: int, keys: Int[np.ndarray, " N"]
) -> dict[str, Float[np.ndarray, " N"]]:
    """Return, for each row of vectors of length 1, the loss of finding its second vector among its own and those of the
    following rows, whether it is the nearest, one over its rank, and among how many it was; of equally near ones the
    means over all orders. Second texts of the same key are equal, and no candidates against each other."""
    number = len(pairs)
    size = min(candidates, number)
    result: dict[str, np.ndarray] = {name: np.empty(number) for name in ("loss", "correct", "reciprocal", "size")}
    for row, query in enumerate(pairs[:, 0]):
        index = (row + np.arange(size)) % number
        near = pairs[index[(keys[index] != keys[row]) | (index == row)], 1] @ query
        result["size"][row] = len(near)
        before, alike = int((near > near[0] + _SAME).sum()), int((abs(near - near[0]) <= _SAME).sum())
        scaled = near / MEASURED_AT
        result["loss"][row] = np.logaddexp.reduce(scaled) - scaled[0]
        result["correct"][row] = 1 / alike if before == 0 else 0.0
        result["reciprocal"][row] = np.mean(1 / np.arange(before + 1, before + alike + 1))
    return result


_SAME = 1e-6
"""Cosines that differ by less are equal but for rounding."""


def _random_order(size: int) -> dict[str, float]:
    reciprocal = sum(1 / rank for rank in range(1, size + 1)) / size
    return {LOSS.name: math.log(size), RETRIEVAL_ACCURACY.name: 1 / size, RETRIEVAL_MRR.name: reciprocal}


def _vectors(model: Architecture, batch: Batch) -> Float[Tensor, "B D"]:
    """Return a vector for each text."""
    if not isinstance(model.head, TextVector):
        raise UsageError(
            f"head={type(model.head).__name__} makes no vectors of texts: build the model with the head that the task "
            "names."
        )
    vectors: Tensor = model(**batch.inputs())
    return vectors


def _unit(vectors: Float[Tensor, "B D"]) -> Float[Tensor, "B D"]:
    """Return the vectors at length 1, in 32 bits at least."""
    return F.normalize(wide(vectors), dim=-1)


def _keys(batch: Batch) -> Int[Tensor, " B"]:
    """Return a hash of the tokens of each text, the same whatever its padding: tokens times a number for each position
    (splitmix64, https://doi.org/10.1145/2660193.2660195)."""
    assert batch.tokens is not None, "view makes the tokens"
    factors = torch.arange(1, batch.tokens.shape[1] + 1, device=batch.tokens.device) * -7046029254386353131
    factors = (factors ^ (factors >> 30)) * -4658895280553007687
    factors = (factors ^ (factors >> 27)) * -7723592293110705685
    hashed = (batch.tokens + 1) * (factors ^ (factors >> 31))
    return (hashed if batch.valid is None else hashed * batch.valid).sum(1)


@dataclass(frozen=True)
class _Texts:
    """Texts with padding on the right."""

    tokens: Int[Tensor, "B L"]
    valid: Bool[Tensor, "B L"]


def _labelled_texts(batch: Batch) -> _Texts:
    """Return the first and then the second texts of labelled pairs, without their frames."""
    if batch.tokens is None or batch.token_types is None or batch.valid is None:
        raise UsageError("task=contrastive_pairs reads pairs of texts: choose data of sentence pairs.")
    second = batch.valid & (batch.token_types == 1)
    bounds = ((batch.valid & ~second, 1), (second, 0))
    sides = [_without_frame(batch.tokens, mask, start) for mask, start in bounds]
    return _Texts(torch.cat([side.tokens for side in sides]), torch.cat([side.valid for side in sides]))


def _without_frame(tokens: Int[Tensor, "B L"], mask: Bool[Tensor, "B L"], start: int) -> _Texts:
    """Move the tokens of a mask to the left, without so many at their start and the end token."""
    first = mask.int().argmax(1, keepdim=True) + start
    lengths = mask.sum(1, keepdim=True) - start - 1
    positions = torch.arange(tokens.shape[1])
    return _Texts(tokens.gather(1, (first + positions).clamp(max=tokens.shape[1] - 1)), positions < lengths)


def _sources_and_targets(batch: Batch) -> _Texts:
    """Return the sources and then the targets, without start and end."""
    if batch.tokens is None or batch.decoder_tokens is None:
        raise UsageError("task=contrastive_pairs reads pairs of texts: choose data of kind pairs_of_text.")
    sides = ((batch.tokens, batch.valid), (batch.decoder_tokens[:, 1:], _but_first(batch.decoder_valid)))
    width = max(tokens.shape[1] for tokens, _ in sides)
    padded = [F.pad(tokens, (0, width - tokens.shape[1])) for tokens, _ in sides]
    masks = [torch.ones_like(tokens, dtype=torch.bool) if valid is None else valid for tokens, valid in sides]
    return _Texts(torch.cat(padded), torch.cat([F.pad(mask, (0, width - mask.shape[1])) for mask in masks]))


def _but_first(valid: Bool[Tensor, "B T"] | None) -> Bool[Tensor, "B S"] | None:
    return None if valid is None else valid[:, 1:]


def _framed(texts: _Texts, spec: DataSpec) -> _Texts:
    """Put each text between a start and an end token, as short as the longest allows."""
    lengths = texts.valid.sum(1, keepdim=True)
    width = int(lengths.max()) + 2
    positions = torch.arange(width)
    tokens = F.pad(texts.tokens, (1, 1))[:, :width].masked_fill(positions > lengths, spec.pad_id)
    tokens[:, 0] = spec.bos_id
    return _Texts(tokens.scatter(1, lengths + 1, spec.eos_id), positions < lengths + 2)
