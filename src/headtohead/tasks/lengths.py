"""How long rows are by the time a model reads them: a task may take a token away, or lay two sides in one row."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from headtohead.data.contracts import DataSource, DataSpec
from headtohead.tasks.contracts import Task


def as_read(task: Task, data: DataSource) -> DataSpec:
    """The data's description with the lengths that the model meets, seen on one row."""
    spec = data.spec()
    if (longest := task.longest_read()) is not None:
        return replace(spec, max_length=longest)
    row = data.split("train").batch(np.zeros(1, dtype=np.int64))
    view = task.view(row, seed=0, epoch=0)
    if row.tokens is None or view.tokens is None:
        return spec
    if row.decoder_tokens is not None and view.decoder_tokens is None:
        return replace(spec, max_length=spec.max_length + spec.max_target_length, max_target_length=0)
    return replace(spec, max_length=spec.max_length - (row.tokens.shape[1] - view.tokens.shape[1]))
