"""Operations on many images at once do what Pillow and numpy do to one."""

from __future__ import annotations

import colorsys
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from headtohead.data.augmentation import image_operations

SIZES = ((3, 12, 15), (1, 9, 8), (3, 32, 32))


def photographs(shape: tuple[int, int, int], number: int = 6) -> Tensor:
    """Draw random levels; in the first image all are equal; in the second there are two; the others have a narrow or
    wide range."""
    generator = np.random.default_rng(shape[1])
    images = [np.full(shape, 77), generator.choice([3, 200], shape)]
    for low, high in ((0, 256), (40, 90), (0, 256), (200, 256))[: number - 2]:
        images.append(generator.integers(low, high, shape))
    return torch.from_numpy(np.stack(images)).float()


def picture(image: Tensor) -> Image.Image:
    levels = image.to(torch.uint8).permute(1, 2, 0).numpy()
    return Image.fromarray(levels[..., 0] if levels.shape[2] == 1 else levels)


def levels(of: Image.Image) -> Tensor:
    array = np.array(of)
    return torch.from_numpy(array[None] if array.ndim == 2 else array.transpose(2, 0, 1)).float()


def one_by_one(images: Tensor, change: Callable[[Image.Image, int], Image.Image]) -> Tensor:
    return torch.stack([levels(change(picture(image), index)) for index, image in enumerate(images)])


@pytest.mark.parametrize("shape", SIZES)
def test_equalise_and_autocontrast_are_pillows(shape: tuple[int, int, int]) -> None:
    images = photographs(shape)
    assert torch.equal(
        image_operations.equalised(images), one_by_one(images, lambda image, _: ImageOps.equalize(image))
    )
    contrast = one_by_one(images, lambda image, _: ImageOps.autocontrast(image))
    assert torch.equal(image_operations.autocontrasted(images), contrast)


@pytest.mark.parametrize("shape", SIZES)
def test_posterise_and_solarise_are_pillows(shape: tuple[int, int, int]) -> None:
    images = photographs(shape)
    bits, thresholds = [8, 7, 6, 5, 4, 1], [0, 256, 128, 50, 200, 255]
    posterised = one_by_one(images, lambda image, position: ImageOps.posterize(image, bits[position]))
    assert torch.equal(image_operations.posterised(images, torch.tensor(bits)), posterised)
    solarised = one_by_one(images, lambda image, position: ImageOps.solarize(image, thresholds[position]))
    assert torch.equal(image_operations.inverted_above(images, torch.tensor(thresholds).float()), solarised)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (image_operations.brightened, ImageEnhance.Brightness),
        (image_operations.contrasted, ImageEnhance.Contrast),
        (image_operations.saturated, ImageEnhance.Color),
        (image_operations.sharpened, ImageEnhance.Sharpness),
    ],
)
@pytest.mark.parametrize("shape", SIZES)
def test_enhancements_are_pillows_to_the_level_that_it_rounds_to(
    shape: tuple[int, int, int], ours: Callable[..., Tensor], theirs: Callable[..., ImageEnhance._Enhance]
) -> None:
    images = photographs(shape)
    factors = [0.1, 1.9, 0.0, 1.0, 0.5, 1.4]
    expected = one_by_one(images, lambda image, position: theirs(image).enhance(factors[position]))
    # Pillow leaves out what lies behind the point, after blending with a grey that it has rounded.
    assert float((ours(images, torch.tensor(factors)) - expected).abs().max()) <= 2.01


def test_hue_turns_as_the_colour_circle_does() -> None:
    images, shares = photographs((3, 5, 7)), torch.tensor([0.0, 0.5, 0.1, -0.3, 0.25, 1.0])
    turned = image_operations.hue_turned(images, shares)
    for image, share, result in zip(images, shares.tolist(), turned, strict=True):
        for y in range(5):
            for x in range(7):
                hue, saturation, value = colorsys.rgb_to_hsv(*(image[:, y, x] / 255).tolist())
                expected = torch.tensor(colorsys.hsv_to_rgb((hue + share) % 1, saturation, value)) * 255
                assert torch.allclose(result[:, y, x], expected, atol=1e-2)


def changed_where(which: Tensor, change: Callable, image: Image.Image, position: int) -> Image.Image:
    return change(image) if which[position] else image


@pytest.mark.parametrize("shape", SIZES)
def test_some_images_are_mirrored_and_others_stay(shape: tuple[int, int, int]) -> None:
    images, which = photographs(shape), torch.tensor([True, False, True, True, False, True])
    for axis, method in ((-1, ImageOps.mirror), (-2, ImageOps.flip)):
        expected = one_by_one(images, partial(changed_where, which, method))
        assert torch.equal(image_operations.flipped(images, which, axis=axis), expected)


@pytest.mark.parametrize("shape", SIZES)
def test_each_image_is_cut_at_its_own_position(shape: tuple[int, int, int]) -> None:
    images = photographs(shape)
    tops, columns_left = torch.tensor([0, 1, 2, 3, 4, 5]), torch.tensor([4, 3, 2, 1, 0, 2])
    cut = image_operations.cut_out(images, tops, columns_left, height=4, width=3)
    boxes = [(left, top, left + 3, top + 4) for top, left in zip(tops.tolist(), columns_left.tolist(), strict=True)]
    assert torch.equal(cut, one_by_one(images, lambda image, position: image.crop(boxes[position])))


def test_margins_hold_one_value_or_what_the_image_mirrors() -> None:
    images = photographs((3, 6, 7))
    margins = ((0, 0), (0, 0), (2, 2), (2, 2))
    of_value, mirrored = np.pad(images.numpy(), margins, constant_values=9), np.pad(images.numpy(), margins, "reflect")
    for value, expected in ((9.0, of_value), (None, mirrored)):
        assert np.array_equal(image_operations.bordered(images, 2, value=value).numpy(), expected)


def test_rectangles_are_cut_off_at_the_edges() -> None:
    numbers = [torch.tensor(column) for column in ([-1, 2, 3], [1, -4, 0], [3, 9, 0], [2, 6, 9])]
    result = image_operations.rectangles(*numbers, height=5, width=6)
    for top, left, height, width, inside in zip(*(column.tolist() for column in numbers), result[:, 0], strict=True):
        expected = np.zeros((5, 6), dtype=bool)
        expected[max(top, 0) : max(top + height, 0), max(left, 0) : max(left + width, 0)] = True
        assert np.array_equal(inside.numpy(), expected)


def test_shifts_by_integer_pixels_move_the_image_and_fill_what_it_leaves() -> None:
    images = photographs((3, 12, 15))
    along_x, along_y = torch.tensor([0.0, 2, -3, 14, 15, -1]), torch.tensor([0.0, -1, 4, 0, 0, -11])
    moved = image_operations.transformed(images, image_operations.shifts(along_x, along_y), fill=128)
    for image, x, y, result in zip(images.numpy(), along_x.int().tolist(), along_y.int().tolist(), moved, strict=True):
        wide = np.pad(image, ((0, 0), (16, 16), (16, 16)), constant_values=128)
        assert np.allclose(result.numpy(), wide[:, 16 - y : 28 - y, 16 - x : 31 - x], atol=1e-2)


def test_right_angles_turn_a_square_image_counter_clockwise() -> None:
    images = photographs((3, 32, 32))[:4]
    turned = image_operations.transformed(images, image_operations.turns(torch.tensor([0.0, 90, 180, -90])), fill=0)
    for image, times, result in zip(images.numpy(), (0, 1, 2, -1), turned, strict=True):
        assert np.allclose(result.numpy(), np.rot90(image, times, axes=(1, 2)), atol=2e-2)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        # Pillow's coefficients take the corner of the image as the origin: c shifts its centre back.
        (lambda v: image_operations.shears(v, torch.zeros_like(v)), lambda v, c: (1, v, -v * c, 0, 1, 0)),
        (lambda v: image_operations.shears(torch.zeros_like(v), v), lambda v, c: (1, 0, 0, v, 1, -v * c)),
        (lambda v: image_operations.shifts(10 * v, -5 * v), lambda v, _: (1, 0, -10 * v, 0, 1, 5 * v)),
        (
            lambda v: image_operations.enlargements(4 * v, -2 * v, 1 - v.abs(), 1 - v.abs() / 2),
            lambda v, c: (1 - abs(v), 0, 4 * v + abs(v) * c, 0, 1 - abs(v) / 2, -2 * v + abs(v) / 2 * c),
        ),
    ],
)
def test_affine_changes_are_pillows_inside_the_image(
    ours: Callable[[Tensor], Tensor], theirs: Callable[[float, float], tuple[float, ...]]
) -> None:
    images, values = photographs((3, 32, 32)), torch.tensor([0.0, 0.3, -0.3, 0.1, -0.17, 0.25])
    numbers = [theirs(value, 16) for value in values.tolist()]
    result = image_operations.transformed(images, ours(values), fill=128)
    options = {"resample": Image.Resampling.BILINEAR, "fillcolor": (128, 128, 128)}
    expected = one_by_one(
        images,
        lambda image, position: image.transform((32, 32), Image.Transform.AFFINE, numbers[position], **options),
    )
    # At the edges we go over into the fill, and Pillow stays with the last pixel; inside, it rounds.
    marks = image_operations.transformed(torch.ones(6, 1, 32, 32), ours(values), fill=0) > 0.999
    assert float(((result - expected).abs() * marks).max()) <= 1.01
    assert float(marks.float().mean()) > 0.6
