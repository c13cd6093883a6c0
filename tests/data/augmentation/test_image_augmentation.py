"""Augmentations of image batches agree with numpy and Pillow, and do not depend on the batch."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import ImageOps
from scipy import stats
from torch import Tensor

from headtohead.data.augmentation.augmentation import Augmentation, Draws
from headtohead.data.augmentation.crops_and_colours import (
    CHANGES,
    STRONGEST,
    ColourJitter,
    Flip,
    RandAugment,
    RandomCrop,
    RandomResizedCrop,
)
from headtohead.data.augmentation.image_augmentation import ImageAugmentation
from headtohead.data.augmentation.mixing_and_erasing import CutMix, Mixup, RandomErasing, noise
from headtohead.data.batches.batch import Batch
from headtohead.data.batches.row_order import mix
from headtohead.data.data_source import DataError, DataSource, DataSpec, Split, SplitName

SHAPE = (3, 16, 20)
MEAN, DEVIATION = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)
NUM_CLASSES = 5
EVERY = [
    Flip(), Flip("up_down"), RandomCrop(), RandomCrop(3, "mirror"), RandomResizedCrop(), ColourJitter(),
    RandAugment(3, 20), RandomErasing(1.0), RandomErasing(1.0, filling="black"), RandomErasing(1.0, filling="mean"),
    Mixup(1.0), CutMix(),
]  # fmt: skip
each = pytest.mark.parametrize("augmentation", EVERY, ids=lambda one: type(one).__name__)
each_alone = pytest.mark.parametrize(
    "augmentation", [one for one in EVERY if not isinstance(one, Mixup | CutMix)], ids=lambda one: type(one).__name__
)


class Photographs(DataSource):
    """Nothing but its description."""

    batch_size = 8

    def __init__(self, shape: tuple[int, int, int] = SHAPE) -> None:
        self.shape = shape

    def prepare(self) -> None:
        """Do nothing."""

    def spec(self) -> DataSpec:
        channels = self.shape[0]
        return DataSpec(
            kind="images",
            num_classes=NUM_CLASSES,
            image_shape=self.shape,
            image_mean=MEAN[:channels],
            image_deviation=DEVIATION[:channels],
        )

    def split(self, name: SplitName) -> Split:
        raise AssertionError

    def decode(self, ids: object) -> str:
        return ""


def numbers_along(values: tuple[float, ...]) -> Tensor:
    return torch.tensor(values)[None, :, None, None]


def batch_of(rows: list[int], shape: tuple[int, int, int] = SHAPE) -> Batch:
    """Return images whose levels follow from the row, as a model reads them."""
    levels = np.stack([np.random.default_rng(row).integers(0, 256, shape) for row in rows])
    images = (torch.from_numpy(levels).float() / 255 - numbers_along(MEAN[: shape[0]])) / numbers_along(
        DEVIATION[: shape[0]]
    )
    return Batch(rows=torch.tensor(rows), images=images, targets=torch.tensor([row % NUM_CLASSES for row in rows]))


def levels_of(batch: Batch) -> Tensor:
    """Convert what a model reads to the levels of a file."""
    assert batch.images is not None
    channels = batch.images.shape[1]
    return (batch.images * numbers_along(DEVIATION[:channels]) + numbers_along(MEAN[:channels])) * 255


def changed(augmentation: Augmentation, batch: Batch, *, seed: int = 7, epoch: int = 2, position: int = 0) -> Batch:
    assert batch.images is not None
    augmentation.bind(Photographs(tuple(batch.images.shape[1:])))
    return augmentation(batch, Draws(batch.rows.numpy(), seed, epoch, position))


ROWS = [5, 90, 3, 41, 17, 8, 66, 23]


@each
def test_same_draws_make_the_same_images_and_other_draws_others(augmentation: ImageAugmentation) -> None:
    batch = batch_of(ROWS)
    first = changed(augmentation, batch).images
    assert first is not None and torch.equal(first, changed(augmentation, batch).images)
    for other in ({"seed": 8}, {"epoch": 3}, {"position": 1}):
        assert not torch.equal(first, changed(augmentation, batch, **other).images)


@each_alone
def test_a_row_becomes_the_same_whatever_batch_it_is_in(augmentation: ImageAugmentation) -> None:
    together, alone = (
        changed(augmentation, batch_of(ROWS)).images,
        changed(augmentation, batch_of([41, 5])).images,
    )
    assert torch.allclose(together[[3, 0]], alone, atol=1e-5)


@each
def test_batch_that_was_given_stays_as_it_is(augmentation: ImageAugmentation) -> None:
    batch = batch_of(ROWS)
    changed(augmentation, batch)
    assert torch.equal(batch.images, batch_of(ROWS).images) and batch.soft_targets is None


@each
def test_size_number_format_rows_and_targets_stay(augmentation: ImageAugmentation) -> None:
    batch = batch_of(ROWS)
    batch = replace(batch, images=batch.images.bfloat16())
    after = changed(augmentation, batch)
    assert after.images.shape == batch.images.shape and after.images.dtype == torch.bfloat16
    assert torch.equal(after.rows, batch.rows) and torch.equal(after.targets, batch.targets)
    assert bool(after.images.isfinite().all())


@each
@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28)])
def test_grey_images_and_small_ones_can_be_changed(
    augmentation: ImageAugmentation, shape: tuple[int, int, int]
) -> None:
    after = changed(augmentation, batch_of(ROWS, shape)).images
    assert after.shape == (len(ROWS), *shape) and bool(after.isfinite().all())


@each
def test_no_rows_make_no_images(augmentation: ImageAugmentation) -> None:
    batch = batch_of([1]).map(lambda tensor: tensor[:0])
    assert len(changed(augmentation, batch).images) == 0


def test_half_the_images_are_mirrored() -> None:
    batch = batch_of(list(range(400)))
    for direction, axis in (("left_right", 3), ("up_down", 2)):
        after = changed(Flip(direction), batch).images
        mirrored = (after == batch.images.flip(axis)).flatten(1).all(1)
        assert bool((mirrored | (after == batch.images).flatten(1).all(1)).all()) and 150 < int(mirrored.sum()) < 250


@pytest.mark.parametrize("border", ["black", "mirror"])
def test_crops_are_parts_of_the_widened_image_and_all_positions_come_up(border: str) -> None:
    batch = batch_of(list(range(300)))
    before, after = levels_of(batch).round().numpy(), levels_of(changed(RandomCrop(2, border), batch)).round().numpy()
    edges = ((0, 0), (2, 2), (2, 2))
    result = set()
    for image, crop in zip(before, after, strict=True):
        wide = np.pad(image, edges) if border == "black" else np.pad(image, edges, mode="reflect")
        indices = [(y, x) for y in range(5) for x in range(5) if np.array_equal(wide[:, y : y + 16, x : x + 20], crop)]
        assert len(indices) == 1
        result.add(indices[0])
    assert len(result) == 25


def test_resized_crop_of_a_ramp_shows_part_of_it_within_the_area_and_shape_requested() -> None:
    size = 64
    ramp = torch.arange(size).float().expand(200, 3, size, size)
    batch = Batch(rows=torch.arange(200), images=torch.stack([ramp[:, 0], ramp[:, 0].mT, ramp[:, 2]], 1))
    augmentation = RandomResizedCrop(0.2, 0.6, 4 / 3)
    augmentation.bind(Photographs((3, size, size)))
    after = augmentation(batch, Draws(batch.rows.numpy(), 0, 0)).images
    across = (after[:, 0, 0, -2] - after[:, 0, 0, 1]).numpy() / (size - 3)
    down = (after[:, 1, -2, 0] - after[:, 1, 1, 0]).numpy() / (size - 3)
    areas, ratios = across * down, across / down
    assert areas.min() > 0.19 and areas.max() < 0.61 and 0.3 < areas.mean() < 0.5
    assert ratios.min() > 0.74 and ratios.max() < 1.35
    assert float(after[:, :2].min()) >= 0 and float(after[:, :2].max()) <= size - 1


def test_colours_change_one_after_another_as_pillow_would() -> None:
    from PIL import ImageEnhance

    from data.augmentation.test_pixels import levels, picture

    batch = batch_of(ROWS)
    augmentation = ColourJitter(0.3, 0.3, 0.3, hue=0.0)
    result = levels_of(changed(augmentation, batch))
    drawn = Draws(batch.rows.numpy(), 7, 2).uniform(4)
    for row, image in enumerate(levels_of(batch).round()):
        expected = picture(image)
        for position, enhance in enumerate((ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color)):
            expected = enhance(expected).enhance(0.7 + 0.6 * drawn[row, position])
        assert float((result[row] - levels(expected)).abs().max()) < 5


def test_rand_augment_has_the_fourteen_changes_of_the_paper() -> None:
    assert len(CHANGES) == 14
    batch = batch_of(list(range(600)))
    chosen = (Draws(batch.rows.numpy(), 7, 2).uniform(2)[:, 0] * 14).astype(int)
    after = levels_of(changed(RandAugment(1, STRONGEST), batch)).round()
    before = levels_of(batch).round()
    from data.augmentation.test_pixels import one_by_one

    exact = {
        "identity": lambda image, _: image,
        "autocontrast": lambda image, _: ImageOps.autocontrast(image),
        "equalise": lambda image, _: ImageOps.equalize(image),
        "posterise": lambda image, _: ImageOps.posterize(image, 4),
        "solarise": lambda image, _: ImageOps.solarize(image, 0),
    }
    for number, name in enumerate(CHANGES):
        own = np.flatnonzero(chosen == number)
        assert len(own) > 20
        if name in exact:
            assert torch.equal(after[own], one_by_one(before[own], exact[name])), name
        else:
            assert not torch.equal(after[own], before[own])


def test_magnitude_zero_changes_no_more_than_the_contrast_of_an_image() -> None:
    images = levels_of(batch_of(ROWS)).round()
    none = torch.zeros(len(ROWS))
    for name, change in CHANGES.items():
        if name not in ("autocontrast", "equalise"):
            moved = 255 - images if name == "solarise" else images
            saved = (change(images, none) - images).abs() < 1e-2
            assert bool((saved | (images == 255) & (change(images, none) == moved)).all()), name


def test_erased_rectangles_have_the_area_and_shape_requested() -> None:
    batch = batch_of(list(range(300)), (3, 64, 64))
    after = levels_of(changed(RandomErasing(0.5, 0.1, 0.2, 2.0, "black"), batch)).round()
    black = ((after == 0) & (levels_of(batch).round() != 0)).any(1).numpy()
    erased = black.any((1, 2))
    assert 110 < erased.sum() < 190
    indices = set()
    for mask in black[erased]:
        rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
        height, width = np.ptp(rows) + 1, np.ptp(columns) + 1
        assert 0.09 < height * width / 64**2 < 0.21 and 0.45 < height / width < 2.2
        assert mask[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].mean() > 0.98
        indices.add((int(rows[0]), int(columns[0])))
    assert len(indices) > 100


def test_erased_parts_hold_noise_of_all_levels_or_the_mean() -> None:
    batch = batch_of(list(range(100)), (3, 64, 64))
    for filling in ("noise", "mean"):
        after = changed(RandomErasing(1.0, 0.3, 0.3, filling=filling), batch)
        inside = (after.images != batch.images).any(1)
        if filling == "mean":
            assert bool((after.images.movedim(1, -1)[inside] == 0).all())
        else:
            levels = levels_of(after).movedim(1, -1)[inside].flatten()
            assert stats.kstest(levels.numpy()[::50] / 255, "uniform").pvalue > 1e-3


def test_noise_is_split_mix_in_the_numbers_of_numpy() -> None:
    keys = np.array([0, 1, 2**52, 123456789], dtype=np.uint64)
    with np.errstate(over="ignore"):
        mixed = mix(mix(keys)[:, None] + np.arange(1, 301, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    expected = (mixed >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)
    assert np.array_equal(noise(torch.from_numpy(keys.astype(np.int64)), 300).numpy(), expected)


def test_mixup_blends_neighbours_and_their_classes_by_beta_shares() -> None:
    batch = batch_of(ROWS)
    after = changed(Mixup(0.3), batch)
    drawn = Draws(batch.rows.numpy(), 7, 2).uniform(2)[:, 0]
    for row in range(len(ROWS)):
        partner = row + 1 if row % 2 == 0 else row - 1
        share = stats.beta.ppf(drawn[row], 0.3, 0.3)
        expected = share * batch.images[row] + (1 - share) * batch.images[partner]
        assert torch.allclose(after.images[row], expected, atol=1e-5)
        soft = np.zeros(NUM_CLASSES)
        soft[ROWS[row] % NUM_CLASSES] += share
        soft[ROWS[partner] % NUM_CLASSES] += 1 - share
        assert np.allclose(after.soft_targets[row].numpy(), soft, atol=1e-6)


def test_cutmix_lays_a_rectangle_of_the_neighbour_and_counts_its_pixels() -> None:
    batch = batch_of(list(range(200)))
    after = changed(CutMix(), batch)
    areas = []
    for row in range(200):
        partner = row ^ 1
        external = (after.images[row] != batch.images[row]).any(0).numpy()
        rows, columns = np.flatnonzero(external.any(1)), np.flatnonzero(external.any(0))
        if len(rows):
            box = np.zeros_like(external)
            box[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] = True
            assert torch.equal(after.images[row][:, box], batch.images[partner][:, box])
            assert torch.equal(after.images[row][:, ~box], batch.images[row][:, ~box])
            area = box.mean()
        else:
            area = 0.0
        expected = (1 - area) * np.eye(NUM_CLASSES)[row % 5] + area * np.eye(NUM_CLASSES)[partner % 5]
        assert np.allclose(after.soft_targets[row].numpy(), expected, atol=1e-6)
        areas.append(area)
    # Cut off at the edges, a uniform share loses some.
    assert 0.25 < np.mean(areas) < 0.5


def test_last_of_an_odd_number_is_not_mixed() -> None:
    batch = batch_of(ROWS[:5])
    for augmentation in (Mixup(1.0), CutMix()):
        after = changed(augmentation, batch)
        assert torch.allclose(after.images[4], batch.images[4], atol=1e-6)
        assert after.soft_targets[4].tolist() == pytest.approx(np.eye(NUM_CLASSES)[ROWS[4] % 5].tolist())


@pytest.mark.parametrize("augmentation", [Mixup(1.0), CutMix()])
def test_parts_of_even_size_are_mixed_as_the_whole_batch_is(augmentation: Augmentation) -> None:
    whole, first, second = (changed(augmentation, batch_of(rows)) for rows in (ROWS, ROWS[:6], ROWS[6:]))
    assert torch.equal(whole.images, torch.cat([first.images, second.images]))
    assert torch.equal(whole.soft_targets, torch.cat([first.soft_targets, second.soft_targets]))


def test_mixing_twice_mixes_the_classes_twice() -> None:
    batch = batch_of(ROWS[:2])
    once = changed(Mixup(1.0), batch)
    twice = changed(CutMix(), once, position=1)
    # The rectangle's share comes from a batch with certain classes.
    certain = changed(CutMix(), batch, position=1).soft_targets
    own = torch.tensor([float(certain[row, ROWS[row] % 5]) for row in (0, 1)])
    expected = own[:, None] * once.soft_targets + (1 - own[:, None]) * once.soft_targets.flip(0)
    assert torch.allclose(twice.soft_targets, expected, atol=1e-6)
    assert twice.soft_targets.sum(1).tolist() == pytest.approx([1, 1])


def test_shares_that_are_not_mixed_stay() -> None:
    batch = batch_of(list(range(300)))
    after = changed(Mixup(1.0, share=0.4), batch)
    same = (after.images == batch.images).flatten(1).all(1)
    assert 150 < int(same.sum()) < 210


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Flip("sideways"), "direction=sideways is unknown: choose left_right or up_down"),
        (lambda: Flip(share=1.5), "share=1.5 must be from 0 to 1"),
        (lambda: RandomCrop(0), "margin=0 must be at least 1 pixel"),
        (lambda: RandomCrop(border="blue"), "border=blue is unknown: choose black or mirror"),
        (lambda: RandomResizedCrop(0.5, 0.3), "smallest_share=0.5 and largest_share=0.3"),
        (lambda: ColourJitter(hue=0.6), "hue=0.6 must be from 0 to 0.5"),
        (lambda: ColourJitter(brightness=-1), "brightness=-1 must be at least 0"),
        (lambda: RandAugment(magnitude=31), "magnitude=31 must be from 0 to 30"),
        (lambda: RandAugment(0), "num_changes=0 must be at least 1"),
        (lambda: RandomErasing(filling="white"), "filling=white is unknown: choose noise, black, mean"),
        (lambda: Mixup(0.0), "alpha=0.0 must be above 0"),
        (lambda: RandomCrop(16, "mirror").bind(Photographs()), "mirrors more than images of 16 x 20 pixels have"),
    ],
)
def test_senseless_numbers_are_refused(make: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        make()  # type: ignore[operator]


def test_soft_targets_cost_what_a_hand_computes() -> None:
    from headtohead.data.batches.batch import IGNORED
    from headtohead.tasks.class_metrics import class_loss, soft_class_loss

    logits = torch.tensor([[2.0, 0.0, -1.0], [0.5, 0.5, 3.0], [1.0, 2.0, 3.0]])
    soft = torch.tensor([[0.7, 0.3, 0.0], [0.0, 0.25, 0.75], [1.0, 0.0, 0.0]])
    targets = torch.tensor([0, 2, IGNORED])
    total = 0.0
    for row in (0, 1):
        logsum = math.log(sum(math.exp(value) for value in logits[row].tolist()))
        total += sum(s * (logsum - z) for s, z in zip(soft[row].tolist(), logits[row].tolist(), strict=True))
    loss = soft_class_loss(logits, soft, targets)
    assert float(loss.total) == pytest.approx(total, rel=1e-6) and int(loss.count) == 2
    certain = torch.eye(3)[[0, 2, 0]]
    for smoothing in (0.0, 0.1):
        hard = class_loss(logits, targets, label_smoothing=smoothing)
        assert float(soft_class_loss(logits, certain, targets, label_smoothing=smoothing).total) == pytest.approx(
            float(hard.total), rel=1e-6
        )
