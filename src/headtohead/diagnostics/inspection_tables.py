"""An inspection for the terminal: totals, ledger and shapes, equal layers folded into one line."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table

from headtohead.components.costs import Costs
from headtohead.diagnostics.inspection import Inspection, Shape, Stage

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
    return Group(_totals(inspection), _ledger(inspection), *kernels, _shapes(inspection))


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


def _shapes(inspection: Inspection) -> Table:
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
