"""The size of a sample, which costs are asked for."""

from __future__ import annotations

from headtohead.architectures.contracts import InputSize
from headtohead.data.contracts import DataSpec
from headtohead.tasks.contracts import Task


def sample_size(task: Task, spec: DataSpec, *, bytes_per_element: int = 4, device: str = "cpu") -> InputSize:
    """Of the longest sample; `spec` has the lengths that the model meets."""
    return InputSize(
        length=spec.max_length,
        decoder_length=spec.max_target_length,
        bytes_per_element=bytes_per_element,
        device=device,
        scored=task.num_scored(spec.max_length),
    )
