"""Weight mappings relate the weights of a published checkpoint to ours: pairs of names, with a transformation in both
directions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headtohead.components.precision import at_least_float32
from headtohead.errors import UsageError

Weights = dict[str, Tensor]


class WeightMapping(ABC):
    """Some of our weights, and those of a checkpoint that hold the same numbers in another order.

    `give` undoes `take`. Most only move numbers, so that they map gradients as they map weights.
    """

    @property
    @abstractmethod
    def ours(self) -> tuple[str, ...]:
        """Return the names of our weights."""

    @property
    @abstractmethod
    def theirs(self) -> tuple[str, ...]:
        """Return the names in the checkpoint."""

    @abstractmethod
    def take(self, theirs: Mapping[str, Tensor]) -> Weights:
        """Return our weights from theirs."""

    @abstractmethod
    def give(self, ours: Mapping[str, Tensor]) -> Weights:
        """Return their weights from ours."""


@dataclass(frozen=True)
class OneToOneMapping(WeightMapping):
    """One weight of ours, one of theirs."""

    our_name: str
    their_name: str

    @property
    def ours(self) -> tuple[str, ...]:
        return (self.our_name,)

    @property
    def theirs(self) -> tuple[str, ...]:
        return (self.their_name,)

    def take(self, theirs: Mapping[str, Tensor]) -> Weights:
        return {self.our_name: self.to_ours(theirs[self.their_name])}

    def give(self, ours: Mapping[str, Tensor]) -> Weights:
        return {self.their_name: self.to_theirs(ours[self.our_name])}

    @abstractmethod
    def to_ours(self, tensor: Tensor) -> Tensor:
        """Return the weight as we hold it."""

    @abstractmethod
    def to_theirs(self, tensor: Tensor) -> Tensor:
        """Return the weight as the checkpoint holds it."""


class Renamed(OneToOneMapping):
    """The same under another name."""

    def to_ours(self, tensor: Tensor) -> Tensor:
        return tensor

    def to_theirs(self, tensor: Tensor) -> Tensor:
        return tensor


class UnitOffsetGain(OneToOneMapping):
    """A gain that a file holds as its difference from 1; in half precision the sum would be rounded."""

    def to_ours(self, tensor: Tensor) -> Tensor:
        return tensor.to(at_least_float32(tensor.dtype)) + 1

    def to_theirs(self, tensor: Tensor) -> Tensor:
        return tensor.to(at_least_float32(tensor.dtype)) - 1


def renamed(ours: str, theirs: str, kinds: Sequence[str] = ("weight", "bias")) -> Iterator[WeightMapping]:
    """Yield mappings of the weight and the bias of a linear map or a norm, or of one of them."""
    for kind in kinds:
        yield Renamed(f"{ours}.{kind}", f"{theirs}.{kind}")


def weight_kinds(bias: bool) -> tuple[str, ...]:
    """Return the kinds of weights of a linear map or a norm, for `renamed`."""
    return ("weight", "bias") if bias else ("weight",)


class Transposed(OneToOneMapping):
    """A matrix whose rows are inputs there and outputs here."""

    def to_ours(self, tensor: Tensor) -> Tensor:
        return tensor.T

    def to_theirs(self, tensor: Tensor) -> Tensor:
        return tensor.T


@dataclass(frozen=True)
class Reshaped(OneToOneMapping):
    """The same numbers in the same order in another shape, as a convolution of width 1 or over whole patches."""

    our_shape: tuple[int, ...]
    their_shape: tuple[int, ...]

    def to_ours(self, tensor: Tensor) -> Tensor:
        return tensor.reshape(self.our_shape)

    def to_theirs(self, tensor: Tensor) -> Tensor:
        return tensor.reshape(self.their_shape)


@dataclass(frozen=True)
class PermutedHeadRows(OneToOneMapping):
    """Projections of heads whose last rows there, `shift` in each head, are the first here."""

    num_heads: int
    shift: int

    def to_ours(self, tensor: Tensor) -> Tensor:
        return self._rolled(tensor, self.shift)

    def to_theirs(self, tensor: Tensor) -> Tensor:
        return self._rolled(tensor, -self.shift)

    def _rolled(self, tensor: Tensor, shift: int) -> Tensor:
        by_head: Tensor = tensor.unflatten(0, (self.num_heads, -1))
        return by_head.roll(shift, 1).flatten(0, 1)


@dataclass(frozen=True)
class ZeroedBuffer(WeightMapping):
    """Counts of ours that training fills and no file holds: they start at 0."""

    our_name: str
    length: int

    @property
    def ours(self) -> tuple[str, ...]:
        return (self.our_name,)

    @property
    def theirs(self) -> tuple[str, ...]:
        return ()

    def take(self, theirs: Mapping[str, Tensor]) -> Weights:
        del theirs
        return {self.our_name: torch.zeros(self.length, dtype=torch.long)}

    def give(self, ours: Mapping[str, Tensor]) -> Weights:
        del ours
        return {}


@dataclass(frozen=True)
class OffsetRows(OneToOneMapping):
    """A table whose first `offset` rows belong to no position; they are ignored, and zero where we write them."""

    offset: int

    def to_ours(self, tensor: Tensor) -> Tensor:
        return tensor[self.offset :]

    def to_theirs(self, tensor: Tensor) -> Tensor:
        return torch.cat([tensor.new_zeros(self.offset, *tensor.shape[1:]), tensor])


@dataclass(frozen=True)
class OneOfSeveral(WeightMapping, ABC):
    """One weight of ours, which is made of several of theirs."""

    our_name: str
    their_names: tuple[str, ...]

    @property
    def ours(self) -> tuple[str, ...]:
        return (self.our_name,)

    @property
    def theirs(self) -> tuple[str, ...]:
        return self.their_names


@dataclass(frozen=True)
class StackedVectors(OneOfSeveral):
    """One weight of ours, whose first axes count vectors of theirs."""

    axes: tuple[int, ...]

    def take(self, theirs: Mapping[str, Tensor]) -> Weights:
        vectors = torch.stack([theirs[name] for name in self.their_names])
        return {self.our_name: vectors.unflatten(0, self.axes)}

    def give(self, ours: Mapping[str, Tensor]) -> Weights:
        vectors = ours[self.our_name].flatten(0, len(self.axes) - 1)
        return dict(zip(self.their_names, vectors.unbind(0), strict=True))


@dataclass(frozen=True)
class JoinedRows(OneOfSeveral):
    """One weight of ours, which holds several of theirs one below the other, with as many rows each as `sizes` say."""

    sizes: tuple[int, ...]

    def take(self, theirs: Mapping[str, Tensor]) -> Weights:
        return {self.our_name: torch.cat([theirs[name] for name in self.their_names])}

    def give(self, ours: Mapping[str, Tensor]) -> Weights:
        return dict(zip(self.their_names, ours[self.our_name].split(self.sizes), strict=True))


@dataclass(frozen=True)
class FusedWeights(WeightMapping):
    """Several weights of ours as one of theirs."""

    our_names: tuple[str, ...]
    their_name: str

    @property
    def ours(self) -> tuple[str, ...]:
        return self.our_names

    @property
    def theirs(self) -> tuple[str, ...]:
        return (self.their_name,)


@dataclass(frozen=True)
class StackedExperts(FusedWeights):
    """Linear maps of all experts, one behind the other there, each with inputs as rows; the outputs of `parts` maps of
    an expert alternate. Ours are expert by expert."""

    parts: int = 1

    def take(self, theirs: Mapping[str, Tensor]) -> Weights:
        stacked = theirs[self.their_name]
        rows = stacked.mT if stacked.ndim > 2 else stacked
        by_part: Tensor = rows.unflatten(1, (-1, self.parts))
        return dict(zip(self.our_names, by_part.transpose(1, 2).flatten(0, 1), strict=True))

    def give(self, ours: Mapping[str, Tensor]) -> Weights:
        by_part: Tensor = torch.stack([ours[name] for name in self.our_names]).unflatten(0, (-1, self.parts))
        rows = by_part.transpose(1, 2).flatten(1, 2)
        return {self.their_name: rows.mT if rows.ndim > 2 else rows}


@dataclass(frozen=True)
class FusedInBlocks(FusedWeights):
    """One below the other: all of the first, then all of the second. `sizes` are their rows, None means equal parts."""

    sizes: tuple[int, ...] | None = None
    transposed: bool = False
    """Whether their matrix has inputs as rows."""

    def take(self, theirs: Mapping[str, Tensor]) -> Weights:
        fused = theirs[self.their_name]
        fused = fused.T if self.transposed and fused.ndim > 1 else fused
        sizes = list(self.sizes or _equal_parts(len(fused), self.our_names, self.their_name))
        return dict(zip(self.our_names, fused.split(sizes), strict=True))

    def give(self, ours: Mapping[str, Tensor]) -> Weights:
        fused = torch.cat([ours[name] for name in self.our_names])
        return {self.their_name: fused.T if self.transposed and fused.ndim > 1 else fused}


@dataclass(frozen=True)
class FusedByHead(FusedWeights):
    """Head by head: the first head of each, then the second head of each. `sizes` are their rows in a head, None means
    equal parts."""

    num_heads: int
    sizes: tuple[int, ...] | None = None

    def take(self, theirs: Mapping[str, Tensor]) -> Weights:
        fused, parts = theirs[self.their_name], len(self.our_names)
        sizes = list(self.sizes or _equal_parts(len(fused), range(parts * self.num_heads), self.their_name)[:parts])
        by_head = fused.unflatten(0, (self.num_heads, -1)).split(sizes, dim=1)
        return {name: part.flatten(0, 1) for name, part in zip(self.our_names, by_head, strict=True)}

    def give(self, ours: Mapping[str, Tensor]) -> Weights:
        by_head = [ours[name].unflatten(0, (self.num_heads, -1)) for name in self.our_names]
        return {self.their_name: torch.cat(by_head, dim=1).flatten(0, 1)}


def _equal_parts(length: int, parts: Sequence[object], name: str) -> list[int]:
    if length % len(parts):
        raise UsageError(f"{name} has {length} rows, which cannot be divided into {len(parts)} equal parts")
    return [length // len(parts)] * len(parts)
