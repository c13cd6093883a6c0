"""Find the part of a model that is to blame by running parts again alone, on their own inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headtohead.architectures.architecture import Architecture
from headtohead.components.block_parts import FeedForward, Norm
from headtohead.components.component import Context, CrossMixer, Mixer
from headtohead.diagnostics.laws.law_subject import difference

PARTS: tuple[type[nn.Module], ...] = (Mixer, CrossMixer, Norm, FeedForward)
SAME = 1e-5
"""Relative differences in double precision that are rounding, single precision inside a part included."""


@dataclass(frozen=True)
class PartCall:
    """A part call holds what one part was given in a forward pass."""

    path: str
    part: nn.Module
    x: Tensor
    context: Context | None
    """The other arguments that it was given; a feed-forward is given none."""

    @property
    def name(self) -> str:
        return f"{self.path} ({type(self.part).__name__})"

    def again(self, x: Tensor | None = None, context: Context | None = None) -> Tensor:
        """Return its outputs for these inputs, or for others."""
        context = self.context if context is None else context
        torch.manual_seed(0)
        with torch.no_grad():
            y: Tensor = self.part(self.x if x is None else x, *(() if context is None else (context,)))
        return y


def part_calls(
    model: Architecture, inputs: Mapping[str, Tensor], kinds: tuple[type[nn.Module], ...] = PARTS
) -> list[PartCall]:
    """Return every call of a part of these kinds, in its order; the model's mode is left as it is."""
    calls: list[PartCall] = []

    def recorder(path: str) -> Any:
        def record(part: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
            inputs = (*inputs, *named.values())
            calls.append(PartCall(path, part, inputs[0], inputs[1] if len(inputs) > 1 else None))

        return record

    handles = []
    for path, part in model.named_modules():
        if isinstance(part, kinds):
            handles.append(part.register_forward_pre_hook(recorder(path), with_kwargs=True))
    try:
        torch.manual_seed(0)
        with torch.no_grad():
            model.features(**inputs)
    finally:
        for handle in handles:
            handle.remove()
    return calls


def looking_ahead(model: Architecture, inputs: Mapping[str, Tensor], position: int, below: str) -> Iterator[str]:
    """Names of the parts below a path whose outputs before `position` change with their input at it."""
    for call in part_calls(model, inputs):
        if call.path.startswith(below) and call.x.shape[1] > position:
            other = call.x.clone()
            other[:, position] += torch.randn_like(other[:, position])
            if difference(call.again(other)[:, :position], call.again()[:, :position]) > SAME:
                yield call.name


def nonfinite_parts(model: Architecture, inputs: Mapping[str, Tensor]) -> Iterator[str]:
    """Yield the names of parts that make NaN or infinity out of finite inputs."""
    for call in part_calls(model, inputs):
        if call.x.isfinite().all() and not call.again().isfinite().all():
            yield call.name


def culprits(names: list[str]) -> str:
    """Return the first of them, and how many there are."""
    if not names:
        return "the architecture itself"
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def tiny(change: float) -> str:
    """A relative difference that is rounding, or nothing."""
    return f"{change:.0e}" if change else "0"
