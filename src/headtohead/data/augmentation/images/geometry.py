"""Geometric operations move the pixels of many images, each with parameters of its own: crop, flip, shift, rotate,
erase.

Images [B, C, H, W] may have any range of values.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

Images = Float[Tensor, "B C H W"]
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
