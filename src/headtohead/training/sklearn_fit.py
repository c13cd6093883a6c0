"""A bag of words fitted at once, by scikit-learn's logistic regression: no steps, and nothing drawn."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from headtohead.architectures.bag_of_words import NO_GRAM, BagOfWords
from headtohead.architectures.heads import Classifier
from headtohead.data.batches.row_order import evaluation_batches
from headtohead.data.data_source import Split
from headtohead.errors import UsageError
from headtohead.metrics.language_modelling import LOSS
from headtohead.tasks.class_metrics import ClassTotals, figures_of

_ROWS_AT_ONCE = 256
_MOST_ITERATIONS = 1000
_UNKNOWN_GRAMS = -30.0
"""The bias of a class that the train split has no row of."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SklearnFit:
    """A fit records what was read, and which regularisation strength was selected."""

    samples: int
    tokens: int
    strength: float
    judged: dict[float, float]
    """The validation's metric by strength."""


@torch.no_grad()
def fit_with_sklearn(
    model: BagOfWords, rows: Split, validation: Split, *, monitor: str, direction: Literal["min", "max"]
) -> SklearnFit:
    """Learns the n-grams and the weights from these rows; the strength is the best on validation."""
    from sklearn.linear_model import LogisticRegression

    tokens = _learn_grams(model, rows)
    train, labels = _matrix(model, rows)
    checked, truth = _matrix(model, validation)
    best: tuple[Any, float] | None = None
    judged: dict[float, float] = {}
    for strength in model.strengths:
        solver = LogisticRegression(C=strength, max_iter=_MOST_ITERATIONS)
        if len(set(labels.tolist())) < 2:
            raise UsageError("model=bag_of_words needs rows of at least two classes in the train split: give more rows")
        solver.fit(train, labels)
        judged[strength] = value = _validated(model, solver, checked, truth, monitor)
        if best is None or (value < best[1] if direction == "min" else value > best[1]):
            best = (solver, value)
            chosen = strength
    assert best is not None, "the model has strengths"
    _take(model, best[0])
    scores = ", ".join(f"{strength:g}: {value:.4f}" for strength, value in judged.items())
    _log.info("bag of words: C=%g by validation/%s (%s)", chosen, monitor, scores)
    return SklearnFit(len(labels), tokens, chosen, judged)


def _learn_grams(model: BagOfWords, split: Split) -> int:
    """The most frequent n-grams by the number of rows that have them; what every row has tells nothing apart. Returns
    how many tokens were read."""
    grams_of_rows, num_tokens = [], 0
    for rows in evaluation_batches(len(split), batch_size=_ROWS_AT_ONCE, rank=0, world_size=1):
        batch = split.batch(rows)
        assert batch.tokens is not None, "texts have tokens"
        num_tokens += batch.num_tokens
        numbers, whole = model.numbers(batch.tokens, batch.valid)
        grams_of_rows += [np.unique(row[chosen]) for row, chosen in zip(numbers.numpy(), whole.numpy(), strict=True)]
    grams, counts = np.unique(np.concatenate(grams_of_rows), return_counts=True)
    is_informative = counts < len(grams_of_rows) if len(grams_of_rows) > 1 else counts > 0
    grams, counts = grams[is_informative], counts[is_informative]
    chosen = np.sort(np.lexsort((grams, -counts))[: len(model.grams)])
    model.grams.fill_(NO_GRAM)
    model.rarity.fill_(1.0)
    model.grams[: len(chosen)] = torch.from_numpy(grams[chosen])
    rarity = np.log((1 + len(grams_of_rows)) / (1 + counts[chosen])) + 1
    model.rarity[: len(chosen)] = torch.from_numpy(rarity).to(model.rarity.dtype)
    return num_tokens


def _matrix(model: BagOfWords, split: Split) -> tuple[Any, np.ndarray]:
    """Features as a sparse matrix, and labels."""
    from scipy import sparse

    parts, labels = [], []
    for rows in evaluation_batches(len(split), batch_size=_ROWS_AT_ONCE, rank=0, world_size=1):
        batch = split.batch(rows)
        assert batch.tokens is not None and batch.targets is not None, "labelled texts have both"
        parts.append(sparse.csr_matrix(model.features(batch.tokens, batch.valid)[:, 0].double().numpy()))
        labels.append(batch.targets.numpy())
    return sparse.vstack(parts), np.concatenate(labels)


def _validated(model: BagOfWords, solver: Any, features: Any, truth: np.ndarray, monitor: str) -> float:
    _take(model, solver)
    weight, bias = _layer(model)
    logits = torch.from_numpy(features @ weight.double().numpy().T) + bias.double()
    if monitor == LOSS.name:
        return float(torch.nn.functional.cross_entropy(logits, torch.from_numpy(truth).long()))
    return figures_of(ClassTotals.counted(logits.argmax(1).numpy(), truth, logits.shape[1]))[monitor]


def _take(model: BagOfWords, solver: Any) -> None:
    """Copy scikit-learn's coefficients; for two classes it stores one row, the second class minus the first."""
    weight, bias = _layer(model)
    rows, offsets, classes = solver.coef_, solver.intercept_, solver.classes_
    if len(classes) == 2:
        rows, offsets = np.concatenate([0 * rows, rows]), np.concatenate([0 * offsets, offsets])
    weight.zero_()
    bias.fill_(_UNKNOWN_GRAMS)
    weight[torch.from_numpy(classes).long()] = torch.from_numpy(rows).to(weight.dtype)
    bias[torch.from_numpy(classes).long()] = torch.from_numpy(offsets).to(bias.dtype)


def _layer(model: BagOfWords) -> tuple[Tensor, Tensor]:
    assert isinstance(model.head, Classifier), "a task of classes"
    linear = model.head.linear
    assert linear.bias is not None
    return linear.weight.data, linear.bias.data
