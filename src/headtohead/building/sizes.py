"""How long a sample is by the time a model reads it: a task may take a token away."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from headtohead.architectures.contracts import InputSize
from headtohead.data.contracts import DataSource, DataSpec
from headtohead.tasks.contracts import Task


def as_read(task: Task, data: DataSource) -> DataSpec:
    """The data's description with the lengths that the model meets, seen on one row."""
    spec = data.spec()
    row = data.split("train").batch(np.zeros(1, dtype=np.int64))
    view = task.view(row, seed=0, epoch=0)
    if row.tokens is None or view.tokens is None:
        return spec
    return replace(spec, max_length=spec.max_length - (row.tokens.shape[1] - view.tokens.shape[1]))


def sample_size(task: Task, spec: DataSpec, *, bytes_per_element: int = 4) -> InputSize:
    """The size of the longest sample, which costs are asked for."""
    return InputSize(
        length=spec.max_length,
        decoder_length=spec.max_target_length,
        bytes_per_element=bytes_per_element,
        scored=task.num_scored(spec.max_length),
    )
