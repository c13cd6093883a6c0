"""Whether gradients keep their size from the last layer to the first, on a real batch at the start."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from headtohead.architectures.contracts import Architecture
from headtohead.components.block import Block
from headtohead.examining.doctor.contracts import Finding, not_applicable
from headtohead.examining.doctor.patient import Patient
from headtohead.examining.doctor.steps import Trial, as_started
from headtohead.training.layers import LayerNorms

_UNEVEN, _LOST = 1e2, 1e4
"""By how much the gradient may differ between two layers of a stack: Adam makes up for much, rounding for nothing."""


def gradients(patient: Patient) -> Finding:
    """Of the stream as it leaves each block; layers whose parameters get numbers that are none are named."""
    trial = Trial(patient, patient.few, as_started(patient))
    with _watched(trial.model) as streams:
        trial.differentiate()
    norms = LayerNorms(trial.model).gradients()
    total = math.sqrt(sum(norm**2 for norm in norms.values()))
    measured = {"gradient_norm": total}
    if bad := [layer for layer, norm in norms.items() if not math.isfinite(norm)]:
        says = f"gradients of {bad[0]} are no numbers" + (
            f", nor those of {len(bad) - 1} other layers" if bad[1:] else ""
        )
        return Finding(
            "fault", says, "take precision=32-true, and look for a log, sqrt or division near zero", measured
        )
    sizes = {name: _size(stream) for name, stream in streams}
    stacks = {_stack(name): [other for other in sizes if _stack(other) == _stack(name)] for name in sizes}
    # A stack that is read through gains of 0 has no gradient yet, as it should (ReZero).
    stacks = {stack: names for stack, names in stacks.items() if any(sizes[name] for name in names)}
    if not stacks:
        return not_applicable("no stack of blocks has a gradient yet")
    ratios = {stack: _ratio([sizes[name] for name in names]) for stack, names in stacks.items()}
    worst = max(ratios, key=lambda stack: ratios[stack])
    ratio, deepest = ratios[worst], stacks[worst]
    measured["largest_ratio_over_depth"] = ratio
    first, last = sizes[deepest[0]], sizes[deepest[-1]]
    if ratio > _UNEVEN:
        way = "vanishes" if first < last else "explodes"
        says = f"the gradient {way} on its way down: {last:.0e} after {deepest[-1]}, {first:.0e} after {deepest[0]}"
        advice = "choose model/residual=pre or deepnorm, a norm, or a smaller initialisation"
        return Finding("fault" if ratio > _LOST else "warning", says, advice, measured)
    says = f"between layers they differ {ratio:.1f} times at most; their norm over all weights is {total:.2g}"
    return Finding("ok", says, "", measured)


@contextmanager
def _watched(model: Architecture) -> Iterator[list[tuple[str, Tensor]]]:
    """What leaves each block, by the block's name, with its gradient kept."""
    found: list[tuple[str, Tensor]] = []

    def recorder(name: str) -> Any:
        def record(part: nn.Module, given: tuple[Any, ...], output: Tensor) -> None:
            del part, given
            if output.requires_grad:
                output.retain_grad()
                found.append((name, output))

        return record

    handles = [part.register_forward_hook(recorder(n)) for n, part in model.named_modules() if isinstance(part, Block)]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


def _size(stream: Tensor) -> float:
    return 0.0 if stream.grad is None else float(stream.grad.double().norm())


def _ratio(sizes: list[float]) -> float:
    return max(sizes) / min(sizes) if min(sizes) > 0 else math.inf


def _stack(name: str) -> str:
    """stack.blocks.3 lies in stack.blocks."""
    return name.rpartition(".")[0]
