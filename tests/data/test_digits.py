"""Real images, split fairly."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from headtohead.data.data_source import SPLIT_NAMES, DataError, SplitName
from headtohead.data.sources.digits import Digits


def images_and_labels(source: Digits, name: SplitName) -> tuple[np.ndarray, np.ndarray]:
    batch = source.split(name).batch(np.arange(len(source.split(name))))
    assert batch.images is not None and batch.targets is not None
    return batch.images.numpy(), batch.targets.numpy()


def test_images_and_labels_are_scikit_learns() -> None:
    loaded = load_digits()
    known = {(image.tobytes(), int(label)) for image, label in zip(loaded.images, loaded.target, strict=True)}
    result = set()
    for name in SPLIT_NAMES:
        for image, label in zip(*images_and_labels(Digits(), name), strict=True):
            result.add((((image[0].astype(np.float64) + 1) * 8).tobytes(), int(label)))
    assert result == known


def test_every_image_is_in_one_split() -> None:
    assert sum(len(Digits().split(name)) for name in SPLIT_NAMES) == 1797


def test_every_class_has_its_share_in_every_split() -> None:
    whole = np.bincount(load_digits().target)
    for name, share in {"train": 0.7, "validation": 0.1, "test": 0.2}.items():
        counts = np.bincount(images_and_labels(Digits(), name)[1])  # type: ignore[arg-type]
        assert np.abs(counts - share * whole).max() <= 1


@pytest.mark.parametrize("num_train", [10, 100, 1000])
def test_fewer_train_images_keep_classes_alike_and_the_other_splits(num_train: int) -> None:
    few, all_of_them = Digits(num_train=num_train), Digits()
    images, labels = images_and_labels(few, "train")
    assert len(images) == num_train and np.ptp(np.bincount(labels)) <= 1
    whole = {image.tobytes() for image in images_and_labels(all_of_them, "train")[0]}
    assert {image.tobytes() for image in images} <= whole
    for name in ("validation", "test"):
        assert np.array_equal(images_and_labels(few, name)[0], images_and_labels(all_of_them, name)[0])  # type: ignore[arg-type]


@pytest.mark.parametrize("num_train", [0, 9, 5000])
def test_impossible_number_of_train_images_is_refused(num_train: int) -> None:
    with pytest.raises(DataError, match=f"data.num_train={num_train} must be from 10, .* the whole train split"):
        Digits(num_train=num_train).prepare()
