"""Write numbers to the record's metrics and to W&B, behind Lightning's logger interface."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pytorch_lightning.loggers.logger import Logger
from pytorch_lightning.utilities import rank_zero_only

from headtohead.metrics.metric import MetricTable
from headtohead.records.record import Progress
from headtohead.records.run_folder import RunFolder
from headtohead.wandb_client.tracker import Tracker


class RunLogger(Logger):
    """Writes on the main process only; the others hold no folder."""

    def __init__(self, folder: RunFolder | None, tracker: Tracker | None) -> None:
        super().__init__()
        self._folder, self._tracker = folder, tracker
        self._progress = Progress()

    @property
    def name(self) -> str:
        return "" if self._folder is None else self._folder.path.parent.name

    @property
    def version(self) -> str:
        return "" if self._folder is None else self._folder.id

    def write(self, progress: Progress, values: Mapping[str, float]) -> None:
        self._progress = progress
        if self._folder is not None and self._tracker is not None:
            self._folder.log(progress, values)
            self._tracker.log(progress, values)

    def write_pictures(self, progress: Progress, pictures: Mapping[str, Any]) -> None:
        """Write pictures to W&B only: the caller saves the files itself."""
        if self._tracker is not None:
            self._tracker.images(progress, pictures)

    def write_tables(self, progress: Progress, tables: Mapping[str, MetricTable]) -> None:
        """Write tables to W&B only, for the same reason."""
        if self._tracker is not None:
            self._tracker.tables(progress, tables)

    def check_lease(self) -> None:
        """Raise LeaseLostError where another process has taken over the run."""
        if self._folder is not None:
            self._folder.check_lease()

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Log what a module logs through Lightning itself."""
        self.write(self._progress if step is None else replace(self._progress, step=step), metrics)

    def log_hyperparams(self, params: dict[str, Any] | Namespace, *args: Any, **kwargs: Any) -> None:
        """The record holds the whole configuration already."""
