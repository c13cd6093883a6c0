"""The channel between layers by which the values of the first one reach the others (Zhou et al. 2024,
https://arxiv.org/abs/2410.17897)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor, nn

from headtohead.components.component import Context
from headtohead.components.costs import CostContext


class MixesFirstValues(ABC):
    """A mixer that gives its values to later layers where it is the first of its kind in a stack, and mixes its own
    with those where it is not.

    The first one appends its values to `context.values_out`, and the others read `context.first_values`.
    """

    reads_layers: ClassVar[str] = "mixes its values with those of an earlier layer of its kind"
    """The predicate of the sentence that refuses such a mixer where there is no other layer of its kind."""
    gives_values: bool = False
    """Whether another mixer reads its values."""

    @abstractmethod
    def follow(self, first: MixesFirstValues) -> None:
        """Mix the values of this mixer with those of the first one; refuse values of other shapes."""

    @abstractmethod
    def values_like(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B G L K"]:
        """Return an empty tensor in the shape of the values of these tokens."""

    @abstractmethod
    def values_bytes(self, query: CostContext) -> int:
        """Return the bytes of the values of one row."""


def link_first_values(layers: Sequence[nn.Module]) -> int | None:
    """Let all mixers that can follow the first one; return its layer, None where no other reads its values."""
    in_layers = [(layer, part) for layer, block in enumerate(layers) for part in mixing_parts(block)]
    if len(in_layers) < 2:
        return None
    (layer, first), *others = in_layers
    first.gives_values = True
    for _, part in others:
        part.follow(first)
    return layer


def mixing_parts(block: nn.Module) -> list[MixesFirstValues]:
    """Return the mixers of a block that mix values."""
    return [part for part in block.modules() if isinstance(part, MixesFirstValues)]


def first_values_bytes(block: nn.Module, query: CostContext) -> int:
    """Return the bytes of the values that a block gives to later ones, of one row."""
    return mixing_parts(block)[0].values_bytes(query)


def with_first_values(context: Context, layer: int, first: int | None, values_out: list[Tensor]) -> Context:
    """Return the context of a layer: for the first that mixes values with a list to which it appends its own, for
    those after it with these values."""
    if first is None or layer < first:
        return context
    if layer == first:
        return replace(context, values_out=values_out)
    return replace(context, first_values=values_out[-1])


def with_values_out(part: Callable[..., Tensor], x: Tensor, context: Context) -> tuple[Tensor, Tensor]:
    """Return the output of a block or of a mixer, and the values that it gives to later layers."""
    values_out: list[Tensor] = []
    y = part(x, replace(context, values_out=values_out))
    return y, values_out[-1]
