"""An artefact beside the model it was made of: the same logits, and how fast, in turn."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headtohead.architectures.contracts import Architecture
from headtohead.building.errors import ConfigurationError
from headtohead.examining.export.graph import Shape

Runs = Callable[[Mapping[str, Tensor]], Tensor]
"""The artefact: logits of named inputs."""
_ROUNDS = 7
_TOLERANCE = 1e-4
"""Of the largest logit."""


@dataclass(frozen=True)
class Row:
    """What was found at one shape."""

    batch: int
    length: int
    target: int
    difference: float
    """The largest, over the largest logit."""
    eager_ms: float
    artefact_ms: float


def compared(model: Architecture, artefact: Runs, shapes: Sequence[Shape]) -> list[Row]:
    """Raises ConfigurationError where logits differ."""
    rows = []
    for shape in shapes:
        inputs = shape.inputs(model)
        with torch.inference_mode():
            expected = model(**inputs)
            difference = float((artefact(inputs) - expected).abs().max() / expected.abs().max().clamp(min=1e-30))
            if not difference <= _TOLERANCE:
                raise ConfigurationError(
                    f"the artefact's logits differ from the run's by {difference:.1e} of the largest for {shape.batch} "
                    f"rows of {shape.length}: it is not to be used; please report it with the run's config.yaml"
                )
            eagerly: Runs = lambda given: model(**given)  # noqa: E731 - both sides are called alike
            pairs = [(_seconds(eagerly, inputs), _seconds(artefact, inputs)) for _ in range(_ROUNDS)]
        eager, other = (1e3 * statistics.median(side) for side in zip(*pairs, strict=True))
        rows.append(Row(shape.batch, shape.length, shape.target, difference, eager, other))
    return rows


def _seconds(call: Runs, inputs: Mapping[str, Tensor]) -> float:
    started = time.perf_counter()
    call(inputs)
    return time.perf_counter() - started
