"""Inspect a model before any training: its ledger, the shapes at every stage, and its elementwise work, counted; equal
layers are folded into one line on a terminal."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from rich.console import Group, RenderableType
from rich.table import Table
from torch import Tensor, nn

from headtohead.architectures.architecture import Architecture, InputSize
from headtohead.architectures.ledger import Ledger, ledger
from headtohead.architectures.operation_counter import counting
from headtohead.components.component import Component
from headtohead.components.costs import Costs
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
    """The kind of model: decoder_only."""
    ledger: Ledger
    """The costs, component by component."""
    stages: tuple[Stage, ...]
    """The shapes that one sample takes on its way through the model."""
    elementwise_forward_flops_per_token: float
    """Counted, not declared: one for each number that an operation other than a matrix product makes, attention taken
    apart and computed in full."""
    elementwise_training_flops_per_token: float
    """The same count for a forward and a backward pass."""
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


_LAYER = re.compile(r"(?<=\.)\d+(?=\.|$)")
_UNITS = ((10**15, "P"), (10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))


@dataclass(frozen=True)
class FoldedLayers:
    """Lines that differ only in the number of their layer: `blocks.0-11.mixer`, 12 of them."""

    path: str
    count: int
    first: int


def show_inspection(inspection: Inspection) -> RenderableType:
    kernels = [_kernels(inspection)] if inspection.kernels else []
    return Group(_totals(inspection), _ledger(inspection), *kernels, _shape_table(inspection))


def fold(lines: Iterable[tuple[str, Hashable]]) -> list[FoldedLayers]:
    """Paths with what stands beside them; those equal but for their layer's number become one."""
    groups: dict[tuple[str, Hashable], list[tuple[int, str]]] = {}
    for index, (path, beside) in enumerate(lines):
        groups.setdefault((_LAYER.sub("#", path, count=1), beside), []).append((index, path))
    return [FoldedLayers(_joined([path for _, path in group]), len(group), group[0][0]) for group in groups.values()]


def number(value: float) -> str:
    """1234567 as "1.23 M"."""
    for size, unit in _UNITS:
        if abs(value) >= size:
            return f"{value / size:.4g} {unit}"
    return f"{value:.4g}"


def memory(num_bytes: float) -> str:
    for size, unit in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if num_bytes >= size:
            return f"{num_bytes / size:.4g} {unit}"
    return f"{num_bytes:.0f} B"


def _joined(paths: list[str]) -> str:
    if len(paths) == 1:
        return paths[0]
    first, last = _LAYER.search(paths[0]), _LAYER.search(paths[-1])
    if first is None or last is None:
        return paths[0]
    return f"{paths[0][: first.start()]}{first.group()}-{last.group()}{paths[0][first.end() :]}"


def _totals(inspection: Inspection) -> Table:
    totals, size = inspection.ledger.totals, inspection.ledger.size
    side = f" + {size.decoder_length} target tokens" if size.decoder_length else ""
    table = Table(
        title=f"{inspection.family}: one sample of {inspection.ledger.tokens - size.decoder_length} tokens{side}",
        title_justify="left",
        show_header=False,
    )
    table.add_column()
    table.add_column(justify="right")
    palm = "-" if totals.palm_flops_per_token is None else number(totals.palm_flops_per_token)
    for name, value in (
        ("parameters", f"{totals.parameters:,}"),
        ("  without embeddings", f"{totals.non_embedding_parameters:,}"),
        ("  active", f"{totals.active_parameters:,}"),
        ("FLOPs per token, forward", number(totals.forward_flops_per_token)),
        ("FLOPs per token, training", number(totals.training_flops_per_token)),
        ("  by the convention 6N + 12LHQT", palm),
        *((f"  per {side} token", number(flops)) for side, flops in inspection.ledger.flops_by_side().items()),
        ("elementwise, forward (counted)", number(inspection.elementwise_forward_flops_per_token)),
        ("elementwise, training (counted)", number(inspection.elementwise_training_flops_per_token)),
        ("state after the sample", f"{number(totals.state_elements)} numbers"),
        ("activations kept", memory(totals.activation_bytes)),
    ):
        table.add_row(name, value)
    return table


def _ledger(inspection: Inspection) -> Table:
    table = Table(title="ledger, per sample", title_justify="left")
    for name in ("component", "kind", "parameters", "forward FLOPs", "training FLOPs", "state", "activations"):
        table.add_column(name, justify="left" if name in ("component", "kind") else "right")
    rows = inspection.ledger.rows
    for line in fold((row.path, (row.kind, row.costs)) for row in rows):
        row = rows[line.first]
        kind = f"{row.kind} (counted)" if row.counted else row.kind
        table.add_row(f"{line.path}{_times(line)}", kind, *_figures(row.costs, line.count))
    table.add_section()
    table.add_row("all", "", *_figures(sum((row.costs for row in rows), Costs()), 1))
    return table


def _figures(costs: Costs, count: int) -> tuple[str, ...]:
    return (
        f"{costs.parameters * count:,}",
        number(costs.forward_flops * count),
        number(costs.training_flops * count),
        number(costs.state_elements * count),
        memory(costs.activation_bytes * count),
    )


def _kernels(inspection: Inspection) -> Table:
    table = Table(title="kernel of the mixers", title_justify="left")
    for name in ("mixer", "computed by"):
        table.add_column(name)
    for line in fold(inspection.kernels.items()):
        table.add_row(f"{line.path}{_times(line)}", list(inspection.kernels.values())[line.first])
    return table


def _shape_table(inspection: Inspection) -> Table:
    table = Table(title="shapes", title_justify="left")
    for name in ("stage", "module", "in", "out"):
        table.add_column(name)
    stages = inspection.stages
    for line in fold((stage.path, (stage.module, stage.inputs, stage.outputs)) for stage in stages):
        stage = stages[line.first]
        table.add_row(f"{line.path}{_times(line)}", stage.module, *_in_and_out(stage))
    return table


def _in_and_out(stage: Stage) -> tuple[str, str]:
    inside, outside = (_written(shapes) for shapes in (stage.inputs, stage.outputs))
    return inside, outside


def _written(shapes: tuple[Shape, ...]) -> str:
    return ", ".join(" x ".join(map(str, shape)) for shape in shapes)


def _times(line: FoldedLayers) -> str:
    return f"  ({line.count} x)" if line.count > 1 else ""
