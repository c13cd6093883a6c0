"""Inspect a model before any training: its ledger, the shapes at every stage, and its elementwise work, counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from headtohead.architectures.architecture import Architecture, InputSize
from headtohead.architectures.ledger import Ledger, ledger
from headtohead.architectures.operation_counter import counting
from headtohead.components.component import Component
from headtohead.components.fast_kernels import kernels_in_use
from headtohead.estimates.replayed_lengths import replayed_lengths, weights_at

Shape = tuple[int, ...]
_DTYPES = {2: torch.bfloat16, 4: torch.float32, 8: torch.float64}


@dataclass(frozen=True)
class Stage:
    """A stage is the output of one module: its path in the model, its class, the shapes that went in and out."""

    path: str
    module: str
    inputs: tuple[Shape, ...]
    outputs: tuple[Shape, ...]


@dataclass(frozen=True)
class Inspection:
    """All that `h2h inspect` shows of a model."""

    family: str
    ledger: Ledger
    stages: tuple[Stage, ...]
    elementwise_forward_flops_per_token: float
    """Counted, not declared: one for each number that an operation other than a matrix product makes, attention taken
    apart and computed in full."""
    elementwise_training_flops_per_token: float
    kernels: dict[str, str]
    """The kernels that would compute, on this machine, each mixer that has a fast one: torch or that kernel's
    package."""

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists, for --json."""
        return {
            "family": self.family,
            "ledger": self.ledger.to_dict(),
            "elementwise_forward_flops_per_token": self.elementwise_forward_flops_per_token,
            "elementwise_training_flops_per_token": self.elementwise_training_flops_per_token,
            "kernels": self.kernels,
            "stages": [asdict(stage) for stage in self.stages],
        }


def inspect(model: Architecture, size: InputSize) -> Inspection:
    """Run one sample forward and backward; on the meta device that costs neither memory nor arithmetic. Of a long row
    this is done at three shorter lengths."""
    lengths = replayed_lengths(model, size)
    if lengths == (size.length,):
        return _inspected(model, size)
    costs, weights = ledger(model, size), weights_at(size.length, lengths)
    shorter = [_inspected(model, replace(size, length=length)) for length in lengths]

    def per_token(name: str) -> float:
        total = sum(
            weight * one.ledger.tokens * float(getattr(one, name)) for weight, one in zip(weights, shorter, strict=True)
        )
        return total / costs.tokens

    stages = [_lengthened(same, lengths, size.length) for same in zip(*(one.stages for one in shorter), strict=True)]
    return replace(
        shorter[0],
        ledger=costs,
        stages=tuple(stages),
        elementwise_forward_flops_per_token=per_token("elementwise_forward_flops_per_token"),
        elementwise_training_flops_per_token=per_token("elementwise_training_flops_per_token"),
    )


def _lengthened(same: tuple[Stage, ...], lengths: Sequence[int], length: int) -> Stage:
    """Return a stage at another length: whatever grows with a row grows in a line."""
    first, second = same[:2]
    share = (length - lengths[0]) / (lengths[1] - lengths[0])

    def at(low: Sequence[Shape], high: Sequence[Shape]) -> tuple[Shape, ...]:
        return tuple(
            tuple(round(a + share * (b - a)) for a, b in zip(one, other, strict=True))
            for one, other in zip(low, high, strict=True)
        )

    return replace(first, inputs=at(first.inputs, second.inputs), outputs=at(first.outputs, second.outputs))


def _inspected(model: Architecture, size: InputSize) -> Inspection:
    device = next(model.parameters()).device
    inputs = model.example_inputs(size, 1, device)
    stages: list[Stage] = []
    handles = [
        module.register_forward_hook(_recorder(path, stages), with_kwargs=True)
        for path, module in model.named_modules()
        if isinstance(module, Component)
    ]
    try:
        with counting(explicit_attention=True) as forward:
            logits = model(**inputs)
    finally:
        for handle in handles:
            handle.remove()
    with counting(explicit_attention=True) as backward:
        torch.autograd.grad(logits, _trained(model), torch.empty_like(logits), allow_unused=True)
    costs = ledger(model, size)
    return Inspection(
        family=model.family,
        ledger=costs,
        stages=(Stage("inputs", "", (), tuple(tuple(x.shape) for x in inputs.values())), *stages),
        elementwise_forward_flops_per_token=forward.elementwise / costs.tokens,
        elementwise_training_flops_per_token=(forward.elementwise + backward.elementwise) / costs.tokens,
        kernels=kernels_in_use(model, _computing(device), _DTYPES[size.bytes_per_element]),
    )


def _computing(device: torch.device) -> torch.device:
    """Return the device on which a model on the meta device would be trained."""
    if device.type != "meta":
        return device
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _trained(model: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def _recorder(path: str, stages: list[Stage]) -> Any:
    def record(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        stages.append(Stage(path, type(module).__name__, _shapes((*args, *kwargs.values())), _shapes(output)))

    return record


def _shapes(values: Any) -> tuple[Shape, ...]:
    if isinstance(values, Tensor):
        return (tuple(values.shape),)
    if isinstance(values, tuple | list):
        return tuple(tuple(value.shape) for value in values if isinstance(value, Tensor))
    return ()
