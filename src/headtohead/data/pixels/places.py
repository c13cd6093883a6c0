"""Where the pixels of many images go, each image by numbers of its own: cut, flipped, moved, turned, erased.

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
Places = Int[Tensor, " B"]
Matrices = Float[Tensor, "B 2 3"]


def flipped(images: Images, which: Bool[Tensor, " B"], *, axis: int) -> Images:
    """Some of them mirrored: -1 left and right, -2 up and down."""
    return torch.where(which[:, None, None, None], images.flip(axis), images)


def cut_out(images: Images, tops: Places, lefts: Places, *, height: int, width: int) -> Resized:
    """A rectangle of each, by whole pixels."""
    device = images.device
    rows = tops[:, None] + torch.arange(height, device=device)
    columns = lefts[:, None] + torch.arange(width, device=device)
    batch = torch.arange(len(images), device=device)
    # Indices apart from each other put the channels last.
    return images[batch[:, None, None], :, rows[:, :, None], columns[:, None, :]].movedim(-1, 1)


def bordered(images: Images, margin: int, *, value: float | None = None) -> Resized:
    """With a margin on all sides: of one value, or, with None, of what the image mirrors there."""
    edges = (margin,) * 4
    return F.pad(images, edges, mode="reflect") if value is None else F.pad(images, edges, value=value)


def rectangles(
    tops: Places, lefts: Places, heights: Places, widths: Places, *, height: int, width: int
) -> Bool[Tensor, "B 1 H W"]:
    """True inside a rectangle of each image; what lies outside the image is cut off."""
    rows, columns = (torch.arange(size, device=tops.device) for size in (height, width))
    inside_rows = (rows >= tops[:, None]) & (rows < (tops + heights)[:, None])
    inside_columns = (columns >= lefts[:, None]) & (columns < (lefts + widths)[:, None])
    return (inside_rows[:, :, None] & inside_columns[:, None, :])[:, None]


def transformed(images: Images, matrices: Matrices, *, fill: float | None) -> Images:
    """Each pixel takes what lies at matrix (x, y, 1), in pixels from the image's centre, x to the right and y down;
    between pixels, what lies around it in its shares; outside, `fill`, or, with None, the last pixel there was."""
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
    """By so many pixels, to the right and down."""
    one, zero = torch.ones_like(along_x), torch.zeros_like(along_x)
    return _matrices(one, zero, -along_x, zero, one, -along_y)


def turns(degrees: Float[Tensor, " B"]) -> Matrices:
    """Counter-clockwise, around the centre."""
    angle = torch.deg2rad(degrees)
    cosine, sine, zero = angle.cos(), angle.sin(), torch.zeros_like(angle)
    return _matrices(cosine, -sine, zero, sine, cosine, zero)


def enlargements(
    centre_x: Float[Tensor, " B"],
    centre_y: Float[Tensor, " B"],
    share_x: Float[Tensor, " B"],
    share_y: Float[Tensor, " B"],
) -> Matrices:
    """The part around a point, in pixels from the centre, of such shares of the sides, as large as the whole."""
    zero = torch.zeros_like(centre_x)
    return _matrices(share_x, zero, centre_x, zero, share_y, centre_y)


def _matrices(*entries: Float[Tensor, " B"]) -> Matrices:
    return torch.stack(entries, dim=-1).view(-1, 2, 3)
