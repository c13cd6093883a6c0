"""Labels drawn at random: by the classes' frequencies, the same in every epoch, and only as many as asked."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from data.small_texts import GivenSamples
from headtohead.data.augmentation.augmentation import Augmentations, RandomLabels
from headtohead.data.batches.batch import Batch
from headtohead.data.data_source import DataError
from headtohead.data.row_formats.labelled_text import ClassFormat, ScoreFormat
from headtohead.data.sources.digits import Digits

TEXTS = [(f"text number {row}", "rare" if row % 4 == 0 else "frequent") for row in range(2000)]


@pytest.fixture(scope="module")
def texts() -> GivenSamples:
    return GivenSamples(ClassFormat(), TEXTS, tokenizer="char")


def rows_of(source: GivenSamples | Digits, count: int = 1000) -> Batch:
    return source.split("train").batch(np.arange(count))


def labels(source: GivenSamples | Digits, rate: float = 1.0, *, seed: int = 0, epoch: int = 0) -> torch.Tensor:
    changed = Augmentations({"random_labels": RandomLabels(rate)}).bind(source)
    targets = changed.in_loader(rows_of(source), seed=seed, epoch=epoch).targets
    assert targets is not None
    return targets


def test_a_row_keeps_its_random_label_in_every_epoch_and_has_another_by_another_seed(texts: GivenSamples) -> None:
    assert torch.equal(labels(texts, epoch=0), labels(texts, epoch=3))
    assert not torch.equal(labels(texts, seed=0), labels(texts, seed=1))


def test_random_labels_follow_the_frequencies_and_say_nothing_of_the_row(texts: GivenSamples) -> None:
    true, drawn = rows_of(texts).targets, labels(texts)
    assert true is not None
    rare = texts.spec().class_names.index("rare")
    for own in (true == rare, true != rare):
        assert float((drawn[own] == rare).double().mean()) == pytest.approx(0.25, abs=0.12)  # 4 deviations of 250 rows


@pytest.mark.parametrize(("rate", "changed"), [(0.0, 0.0), (0.5, 0.5 * 0.9), (1.0, 0.9)])
def test_the_rate_says_how_many_labels_are_drawn(rate: float, changed: float) -> None:
    """A label drawn from ten equally likely classes differs nine times in ten."""
    digits = Digits()
    assert float((labels(digits, rate) != rows_of(digits).targets).double().mean()) == pytest.approx(changed, abs=0.07)


def test_data_without_classes_and_rates_beyond_all_rows_are_refused() -> None:
    with pytest.raises(DataError, match="of kind scored_text"):
        Augmentations({"random_labels": RandomLabels()}).bind(
            GivenSamples(ScoreFormat(), [(f"text {row}", row / 10) for row in range(40)], tokenizer="char")
        )
    with pytest.raises(DataError, match="from 0 to 1"):
        RandomLabels(1.5)
