"""The name of a metric in words, the same in every sentence, table and figure."""

from __future__ import annotations

from headtohead.records.metrics_file import multiple_of
from headtohead.records.run_summary import UNNAMED_STAGE

TASKS = "tasks"
"""The stage of scores over several tasks."""


def metric_words(metric: str) -> str:
    """Write test/bits_per_byte as "test bits per byte", test_4x/loss as "test loss at 4x the length", and a metric
    without a split by its name alone."""
    stage, _, name = metric.partition("/")
    multiple = multiple_of(stage)
    if multiple is not None and multiple > 1:
        return f"test {name.replace('_', ' ')} at {multiple}x the length"
    return (name if stage in (UNNAMED_STAGE, TASKS) else metric).replace("/", " ").replace("_", " ")
