"""Rotary positions: queries and keys are rotated by angles proportional to their position (Su et al. 2021,
https://arxiv.org/abs/2104.09864)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headtohead.components.component import Grid, Position
from headtohead.components.costs import CostContext, Costs
from headtohead.components.precision import at_least_float32
from headtohead.errors import UsageError
from headtohead.field_group import FieldGroup
from headtohead.ranges import Positive, Share, Width

Pairing = Literal["half", "interleaved"]


@dataclass(frozen=True)
class RotatedPairs(FieldGroup):
    """The pairs of a head's channels that turn: how many there are, which channels make one, how fast each turns."""

    base: Positive = 10000.0
    """The base b of the angles: pair i of R/2 turns by b^(-2i/R) for each position."""
    fraction: Share = 1.0
    pairing: Pairing = "half"
    head_width: Width | None = None


class Rotary(Position):
    """Turns the first `fraction` of each head; pairs are (i, i + R/2) as in Llama, or (2i, 2i+1) as in the paper.

    Layers that see a window may have a `local_base` of their own, as in ModernBERT (https://arxiv.org/abs/2412.13663)
    and Gemma 3 (https://arxiv.org/abs/2503.19786).
    """

    no_mup_rule = ""
    rotates = True
    rotated_multiple = 2
    magnitude: float = 1.0
    """Turned queries and keys are made longer by this: scores grow by its square."""

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        max_length: int | None,
        causal: bool,
        grid: Grid | None = None,
        pairs: RotatedPairs = RotatedPairs(),
        local_base: Positive | None = None,
    ) -> None:
        super().__init__()
        width = d_model // num_heads if pairs.head_width is None else pairs.head_width
        self.rotated = rotated_width(width, pairs.fraction, multiple=self.rotated_multiple)
        self.base, self.pairing = pairs.base, pairs.pairing
        if pairs.pairing not in ("half", "interleaved"):
            raise UsageError(f"pairing={pairs.pairing} is unknown: choose half or interleaved")
        self.local: Rotary | None = None
        if local_base is not None:
            local = replace(pairs, base=local_base)
            self.local = Rotary(
                d_model, num_heads=num_heads, max_length=max_length, causal=causal, grid=grid, pairs=local
            )

    def in_windows(self) -> Position | None:
        return self.local

    def rotation(self, positions: Int[Tensor, "#B L"], dtype: torch.dtype) -> Float[Tensor, "2 #B 1 L R"]:
        angles = rotary_angles(positions, self.frequencies(positions.device, dtype), dtype)
        angles = torch.cat((angles, angles), -1) if self.pairing == "half" else angles.repeat_interleave(2, -1)
        waves = torch.stack((angles.cos(), angles.sin()))
        return (waves if self.magnitude == 1.0 else waves * self.magnitude)[:, :, None].to(dtype)

    def frequencies(self, device: torch.device, dtype: torch.dtype) -> Float[Tensor, " P"]:
        """Return the angle by which each pair turns from one position to the next."""
        return plain_frequencies(self.rotated // 2, self.base, device, dtype)

    def rotate(
        self,
        x: Float[Tensor, "B H L K"],
        rotation: Float[Tensor, "2 #B 1 L R"],
    ) -> Float[Tensor, "B H L K"]:
        return turn(x, rotation.to(x.dtype), interleaved=self.pairing == "interleaved")

    def costs(self, query: CostContext) -> Costs:
        return Costs.of(self, activation_bytes=2 * query.length * self.rotated * query.bytes_per_element)


def rotated_width(width: int, fraction: float, *, multiple: int) -> int:
    """Return how many channels of a head rotate, or raise an error if they cannot."""
    rotated = int(width * fraction)
    if not 0.0 < fraction <= 1.0 or rotated < multiple or rotated % multiple:
        raise UsageError(
            f"fraction={fraction} of a head of width {width} is {rotated}, and rotary needs a multiple of {multiple}: "
            "change d_model, num_heads or the position's fraction"
        )
    return rotated


def plain_frequencies(num_pairs: int, base: float, device: torch.device, dtype: torch.dtype) -> Float[Tensor, " P"]:
    """Return base^(-i/P) for pair i, in float32 at least."""
    exact = at_least_float32(dtype)
    return base ** -(torch.arange(num_pairs, device=device, dtype=exact) / num_pairs)


def rotary_angles(
    positions: Int[Tensor, "#B L"], frequencies: Float[Tensor, " P"], dtype: torch.dtype
) -> Float[Tensor, "#B L P"]:
    """Return position times frequency, in float32 at least."""
    return positions[..., None].to(at_least_float32(dtype)) * frequencies


def turn(
    x: Float[Tensor, "B H L K"],
    rotation: Float[Tensor, "2 #B 1 L R"],
    *,
    interleaved: bool,
) -> Float[Tensor, "B H L K"]:
    """Rotate every pair of the first R channels by its angle."""
    rotated = rotation.shape[-1]
    if rotated < x.shape[-1]:
        turned, rest = x.split((rotated, x.shape[-1] - rotated), dim=-1)
        return torch.cat((turn(turned, rotation, interleaved=interleaved), rest), dim=-1)
    if not (x.requires_grad and torch.is_grad_enabled()):  # a function of its own costs as much as turning one token
        return _turned(x, *rotation.unbind(0), interleaved=interleaved)
    y: Tensor = _Turn.apply(x, rotation, interleaved)  # type: ignore[no-untyped-call]
    return y


class _Turn(torch.autograd.Function):
    """A pair (a, b) becomes (a cos - b sin, b cos + a sin), written in place of copies of its halves; the backward pass
    turns the gradient by the opposite angles, so that only the rotation is saved."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rotation: Tensor, interleaved: bool) -> Tensor:
        ctx.save_for_backward(rotation)
        ctx.interleaved = interleaved
        return _turned(x, *rotation.unbind(0), interleaved=interleaved)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (rotation,) = ctx.saved_tensors
        opposite = torch.stack((rotation[0], -rotation[1]))
        return turn(grad, opposite, interleaved=ctx.interleaved), None, None


def _turned(x: Tensor, cos: Tensor, sin: Tensor, *, interleaved: bool) -> Tensor:
    first, second = (x[..., 0::2], x[..., 1::2]) if interleaved else x.chunk(2, dim=-1)
    y = x * cos
    ahead, behind = (y[..., 0::2], y[..., 1::2]) if interleaved else y.chunk(2, dim=-1)
    of_first, of_second = (sin[..., 0::2], sin[..., 1::2]) if interleaved else sin.chunk(2, dim=-1)
    ahead.addcmul_(second, of_first, value=-1)
    behind.addcmul_(first, of_second)
    return y
