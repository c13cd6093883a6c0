"""Dots and paths: labels by a flood through the picture, and no other way to them than along the paths."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy import ndimage
from sklearn.linear_model import LogisticRegression

from from_fields import from_fields
from headtohead.data.data_source import SPLIT_NAMES, DataError, SplitName
from headtohead.data.generated.pathfinder import Pathfinder, PathfinderPixels

NEIGHBOURS = np.ones((3, 3))


@cache
def pictures(name: SplitName = "train", *, num_train: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return levels from 0 to 1, and classes."""
    split = from_fields(Pathfinder, num_train=num_train, num_validation=40, num_test=40, seed=seed).split(name)
    batch = split.batch(np.arange(len(split)))
    assert batch.images is not None and batch.targets is not None
    return (batch.images[:, 0].numpy() + 1) / 2, batch.targets.numpy()


def dots_of(picture: np.ndarray) -> np.ndarray:
    """Return two masks: only dots are this bright."""
    result, count = ndimage.label(picture > 0.72, NEIGHBOURS)
    assert count == 2
    return np.stack([result == 1, result == 2])


def simple_facts(picture: np.ndarray) -> list[float]:
    """Return where the dots are and how far apart, and the amount of ink by region."""
    first, second = (np.array(ndimage.center_of_mass(dot)) for dot in dots_of(picture))
    distance = float(np.hypot(*(first - second)))
    near = sorted(float(np.minimum(position, 31 - position).min()) for position in (first, second))
    quarters = [float(part.sum()) for half in np.split(picture, 2) for part in np.split(half, 2, axis=1)]
    return [
        distance,
        distance**2,
        *near,
        *first,
        *second,
        *quarters,
        float(picture.std()),
        float((picture > 0.1).sum()),
    ]


@pytest.mark.slow
def test_dots_are_joined_where_a_flood_from_one_reaches_the_other() -> None:
    result, labels = [], pictures()[1]
    for picture in pictures()[0]:
        pieces, _ = ndimage.label(picture > 0.08, NEIGHBOURS)
        first, second = (pieces[dot].max() for dot in dots_of(picture))
        result.append(int(first == second))
    assert result == labels.tolist()


@pytest.mark.slow
def test_classes_are_balanced_in_every_split() -> None:
    for name in SPLIT_NAMES:
        labels = pictures(name)[1]
        assert np.bincount(labels).tolist() == [len(labels) // 2] * 2


@pytest.mark.slow
def test_nothing_simple_tells_the_class() -> None:
    """A regression on 300 pictures is no better than a coin on 300 others: within three deviations of it."""
    images, labels = pictures()
    others, expected = pictures(seed=1)
    facts, other_facts = (np.array([simple_facts(picture) for picture in some]) for some in (images, others))
    middle, width = facts.mean(0), facts.std(0)
    message = LogisticRegression().fit((facts - middle) / width, labels).score((other_facts - middle) / width, expected)
    assert abs(message - 0.5) < 3 * 0.5 / len(expected) ** 0.5
    distances = [facts[labels == label, 0] for label in (0, 1)]
    error = np.sqrt(sum(part.var() / len(part) for part in distances))
    assert abs(distances[0].mean() - distances[1].mean()) < 3 * error
    assert facts[:, 0].min() > 5


def test_every_picture_has_as_many_paths() -> None:
    """Two long paths and the others are each a connected component, where they touch nothing."""
    counts = [ndimage.label(picture > 0.08, NEIGHBOURS)[1] for picture in pictures()[0]]
    assert np.bincount(counts).argmax() == 7 and np.mean(np.array(counts) == 7) > 0.9


@pytest.mark.slow
def test_no_picture_is_in_two_splits_and_a_larger_train_split_begins_alike() -> None:
    seen = [{picture.tobytes() for picture in pictures(name)[0]} for name in SPLIT_NAMES]
    assert len(set.union(*seen)) == 380
    fewer = pictures(num_train=30)
    assert np.array_equal(fewer[0], pictures()[0][:30]) and np.array_equal(fewer[1], pictures()[1][:30])
    assert np.array_equal(pictures("test", num_train=30)[0], pictures("test")[0])


def test_pixels_are_those_of_the_pictures() -> None:
    split = from_fields(PathfinderPixels, num_train=300, num_validation=40, num_test=40).split("test")
    batch = split.batch(np.array([7, 2]))
    images, labels = pictures("test")
    assert batch.tokens is not None and batch.targets is not None and batch.tokens.shape == (2, 1024)
    assert np.allclose((batch.tokens.numpy() - 5) / 255, images[[7, 2]].reshape(2, -1), atol=1e-6)
    assert batch.targets.tolist() == labels[[7, 2]].tolist()


@pytest.mark.parametrize(("field", "value"), [("image_size", 15), ("path_length", 2), ("num_distractors", -1)])
def test_fields_too_small_are_refused(field: str, value: int) -> None:
    with pytest.raises(DataError, match=f"data.{field}={value} must be at least"):
        from_fields(Pathfinder, **{field: value})  # type: ignore[arg-type]


def test_paths_without_room_are_refused() -> None:
    with pytest.raises(DataError, match=r"no room for its paths .* data.image_size=16: enlarge it, or lower"):
        from_fields(Pathfinder, num_train=20, image_size=16, path_length=20).prepare()
