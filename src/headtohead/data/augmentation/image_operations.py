"""Operations on many images at once, each image with parameters of its own: they change colours as Pillow does, or move
pixels.

Images [B, C, H, W] have one channel or three, and values from 0 to 255. Operations on histograms and bits
(`posterised`, `autocontrasted`, `equalised`) need integers to be exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from headtohead.data.data_source import DataSpec

BRIGHTEST = 255.0
_NUM_LEVELS = 256
_OF_RED, _OF_GREEN, _OF_BLUE = 0.299, 0.587, 0.114
"""Luma of ITU-R 601-2, which Pillow's mode L has."""
_CENTRE_WEIGHT = 5.0
"""The weight of a pixel among its eight neighbours, in the blurred image that sharpness blends with."""

Images = Float[Tensor, "B C H W"]
Factors = Float[Tensor, " B"]


def grey(images: Images) -> Float[Tensor, "B 1 H W"]:
    if images.shape[1] == 1:
        return images
    red, green, blue = images.split(1, dim=1)
    y: Tensor = _OF_RED * red + _OF_GREEN * green + _OF_BLUE * blue
    return y


def blended(plain: Tensor, images: Images, factors: Factors) -> Images:
    """Interpolate between the plain image at 0 and the image itself at 1, and extrapolate beyond."""
    return (plain + _per_image(factors) * (images - plain)).clamp(0, BRIGHTEST)


def brightened(images: Images, factors: Factors) -> Images:
    return blended(torch.zeros_like(images), images, factors)


def contrasted(images: Images, factors: Factors) -> Images:
    """Blend with the image's mean grey, an integer."""
    mean = grey(images).round().mean((1, 2, 3), keepdim=True)
    return blended((mean + 0.5).floor(), images, factors)


def saturated(images: Images, factors: Factors) -> Images:
    return blended(grey(images).round(), images, factors)


def sharpened(images: Images, factors: Factors) -> Images:
    """Blend with the blurred image; the outermost pixels stay."""
    channels = images.shape[1]
    if min(images.shape[2:]) < 3:
        return images
    kernel = torch.ones(3, 3, dtype=images.dtype, device=images.device)
    kernel[1, 1] = _CENTRE_WEIGHT
    kernel = (kernel / kernel.sum()).expand(channels, 1, 3, 3)
    blurred = images.clone()
    blurred[:, :, 1:-1, 1:-1] = (F.conv2d(images, kernel, groups=channels) + 0.5).floor()
    return blended(blurred, images, factors)


def hue_turned(images: Images, turns: Factors) -> Images:
    """Rotate the hue by a share of the colour circle; brightness and saturation of every pixel (HSV) stay."""
    if images.shape[1] == 1:
        return images
    value, _ = images.max(1)
    least, _ = images.min(1)
    chroma = value - least
    red, green, blue = images.unbind(1)
    safe = chroma.clamp(min=1e-6)
    sixth = torch.where(
        value == red,
        (green - blue) / safe,
        torch.where(value == green, 2 + (blue - red) / safe, 4 + (red - green) / safe),
    )
    sixth = sixth + 6 * turns[:, None, None]
    # In each channel the value falls by the chroma, and rises again: 5 for red, 3 for green, 1 for blue.
    offsets = torch.tensor([5.0, 3.0, 1.0], dtype=images.dtype, device=images.device)[:, None, None]
    index = torch.remainder(offsets + sixth[:, None], 6)
    fall = torch.minimum(index, 4 - index).clamp(0, 1)
    return value[:, None] - chroma[:, None] * fall


def inverted_above(images: Images, thresholds: Factors) -> Images:
    """Solarise: invert values at or above the threshold."""
    return torch.where(images < _per_image(thresholds), images, BRIGHTEST - images)


def posterised(images: Images, bits: Int[Tensor, " B"]) -> Images:
    """Reduce each value to so many bits."""
    step = torch.exp2(8.0 - bits.to(images.dtype))[:, None, None, None]
    return (images / step).floor() * step


def autocontrasted(images: Images) -> Images:
    """Stretch each channel such that its darkest value becomes 0 and its brightest 255."""
    low, high = images.amin((2, 3), keepdim=True).double(), images.amax((2, 3), keepdim=True).double()
    # As Pillow has it, in double precision and divided at once: rounding leaves some whole numbers just below.
    scale = torch.full_like(low, BRIGHTEST).div((high - low).clamp(min=1))
    stretched = (images * scale - low * scale).floor().clamp(0, BRIGHTEST)
    return torch.where(high > low, stretched.to(images.dtype), images)


def equalised(images: Images) -> Images:
    """Equalise the histogram of each channel by its cumulative sums."""
    levels = images.round().clamp(0, BRIGHTEST).long().flatten(2)
    counts = torch.zeros(*levels.shape[:2], _NUM_LEVELS, dtype=torch.long, device=images.device)
    counts.scatter_add_(2, levels, torch.ones_like(levels))
    index = torch.arange(_NUM_LEVELS, device=images.device)
    brightest = (index * (counts > 0)).amax(2, keepdim=True)
    step = (counts.sum(2, keepdim=True) - counts.gather(2, brightest)) // (_NUM_LEVELS - 1)
    below = counts.cumsum(2) - counts
    table = ((below + step // 2) // step.clamp(min=1)).clamp(max=_NUM_LEVELS - 1)
    table = torch.where(step > 0, table, index)
    return table.gather(2, levels).to(images.dtype).view_as(images)


def _per_image(factors: Factors) -> Float[Tensor, "B 1 1 1"]:
    return factors[:, None, None, None]


_MIDDLE = 0.5


@dataclass(frozen=True)
class PixelScale:
    """A model reads (level / 255 - mean) / deviation, each channel with its own."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    @classmethod
    def of(cls, spec: DataSpec) -> PixelScale:
        """Return the scale of the data, from -1 to 1 by default."""
        assert spec.image_shape is not None, "only images have a scale"
        middle = (_MIDDLE,) * spec.image_shape[0]
        return cls(spec.image_mean or middle, spec.image_deviation or middle)

    def levels(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C H W"]:
        """Return integer levels."""
        mean, deviation = self._along(images)
        return ((images.float() * deviation + mean) * BRIGHTEST).round().clamp(0, BRIGHTEST)

    def images(self, levels: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C H W"]:
        mean, deviation = self._along(levels)
        return (levels / BRIGHTEST - mean) / deviation

    def as_shown(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C H W"]:
        """Return values from -1 to 1, whatever a model reads, for displaying images."""
        return self.levels(images) / (BRIGHTEST / 2) - 1

    def of_level(self, level: float, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "1 C 1 1"]:
        """Return what a model reads for one level, in each channel."""
        mean, deviation = self._along(images)
        return ((level / BRIGHTEST - mean) / deviation).to(images.dtype)

    def _along(self, images: Tensor) -> tuple[Tensor, Tensor]:
        mean, deviation = (
            torch.tensor(numbers, dtype=torch.float32, device=images.device)[:, None, None]
            for numbers in (self.mean, self.deviation)
        )
        return mean[None], deviation[None]


Resized = Float[Tensor, "B C P Q"]
"""The same images with other sides."""
PixelPositions = Int[Tensor, " B"]
Matrices = Float[Tensor, "B 2 3"]


def flipped(images: Images, which: Bool[Tensor, " B"], *, axis: int) -> Images:
    """Mirror some images: -1 left and right, -2 up and down."""
    return torch.where(which[:, None, None, None], images.flip(axis), images)


def cut_out(images: Images, top: PixelPositions, left: PixelPositions, *, height: int, width: int) -> Resized:
    """Crop a rectangle from each image, by whole pixels."""
    device = images.device
    rows = top[:, None] + torch.arange(height, device=device)
    columns = left[:, None] + torch.arange(width, device=device)
    batch = torch.arange(len(images), device=device)
    # Indices apart from each other put the channels last.
    return images[batch[:, None, None], :, rows[:, :, None], columns[:, None, :]].movedim(-1, 1)


def bordered(images: Images, margin: int, *, value: float | None = None) -> Resized:
    """Add a margin on all sides: of one value, or, with None, of the mirrored image."""
    edges = (margin,) * 4
    return F.pad(images, edges, mode="reflect") if value is None else F.pad(images, edges, value=value)


def rectangles(
    top: PixelPositions,
    left: PixelPositions,
    heights: PixelPositions,
    widths: PixelPositions,
    *,
    height: int,
    width: int,
) -> Bool[Tensor, "B 1 H W"]:
    """Return a mask of a rectangle in each image; whatever lies outside the image is cut off."""
    rows, columns = (torch.arange(size, device=top.device) for size in (height, width))
    inside_rows = (rows >= top[:, None]) & (rows < (top + heights)[:, None])
    inside_columns = (columns >= left[:, None]) & (columns < (left + widths)[:, None])
    return (inside_rows[:, :, None] & inside_columns[:, None, :])[:, None]


def transformed(images: Images, matrices: Matrices, *, fill: float | None) -> Images:
    """Transform images such that each pixel takes the value at matrix (x, y, 1), in pixels from the image's centre, x
    to the right and y down: bilinear between pixels; outside, `fill`, or, with None, the nearest border pixel."""
    height, width = images.shape[2:]
    device, kind = images.device, images.dtype
    x = torch.arange(width, device=device, dtype=kind) - (width - 1) / 2
    y = torch.arange(height, device=device, dtype=kind) - (height - 1) / 2
    grid_y, grid_x = torch.meshgrid(y, x, indexing="ij")
    here = torch.stack([grid_x, grid_y, torch.ones_like(grid_x)], dim=-1)
    there = torch.einsum("bij,hwj->bhwi", matrices.to(kind), here)
    size = torch.tensor([width, height], device=device, dtype=kind)
    grid = 2 * there / size
    if fill is None:
        return F.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=False)
    return F.grid_sample(images - fill, grid, mode="bilinear", padding_mode="zeros", align_corners=False) + fill


def shears(along_x: Float[Tensor, " B"], along_y: Float[Tensor, " B"]) -> Matrices:
    one, zero = torch.ones_like(along_x), torch.zeros_like(along_x)
    return _matrices(one, along_x, zero, along_y, one, zero)


def shifts(along_x: Float[Tensor, " B"], along_y: Float[Tensor, " B"]) -> Matrices:
    """Return matrices that shift by so many pixels, to the right and down."""
    one, zero = torch.ones_like(along_x), torch.zeros_like(along_x)
    return _matrices(one, zero, -along_x, zero, one, -along_y)


def turns(degrees: Float[Tensor, " B"]) -> Matrices:
    """Return matrices that rotate counter-clockwise around the centre."""
    angle = torch.deg2rad(degrees)
    cosine, sine, zero = angle.cos(), angle.sin(), torch.zeros_like(angle)
    return _matrices(cosine, -sine, zero, sine, cosine, zero)


def enlargements(
    centre_x: Float[Tensor, " B"],
    centre_y: Float[Tensor, " B"],
    share_x: Float[Tensor, " B"],
    share_y: Float[Tensor, " B"],
) -> Matrices:
    """Return matrices that enlarge the part around a point, in pixels from the centre, with such shares of the sides,
    to the whole image."""
    zero = torch.zeros_like(centre_x)
    return _matrices(share_x, zero, centre_x, zero, share_y, centre_y)


def _matrices(*entries: Float[Tensor, " B"]) -> Matrices:
    return torch.stack(entries, dim=-1).view(-1, 2, 3)
