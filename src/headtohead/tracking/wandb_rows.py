"""What a row looks like at W&B: its numbers, pictures or tables, and the axes that they may be drawn against."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from headtohead.tasks.tables import Table
from headtohead.tracking.images import to_picture
from headtohead.tracking.record import Progress
from headtohead.tracking.rows import Medium

AXIS = "trainer/global_step"
"""What every chart is drawn against; W&B's own _step numbers rows."""
_AXES = (AXIS, "progress/epoch", "progress/tokens", "progress/flops", "progress/seconds")


def define_axes(run: Any) -> None:
    for axis in _AXES:
        run.define_metric(axis)
    run.define_metric("*", step_metric=AXIS)


def axes_of(progress: Progress) -> dict[str, float]:
    p = progress
    return dict(zip(_AXES, (p.step, p.epoch, p.tokens, p.flops, p.seconds), strict=True))


def send(run: Any, number: int, progress: Progress, values: Mapping[str, Any], medium: Medium) -> None:
    """One whole row under W&B's own step."""
    if medium != "numbers":
        _remake_media_folder()
    run.log({**_MADE[medium](run, number, values), **axes_of(progress)}, step=number, commit=True)


def _remake_media_folder() -> None:
    """W&B's client makes its temporary folder once; whoever cleans up temporary files may have removed it."""
    from wandb.sdk.data_types._private import MEDIA_TMP

    Path(MEDIA_TMP.name).mkdir(parents=True, exist_ok=True)


def _numbers(run: Any, number: int, values: Mapping[str, float]) -> dict[str, Any]:
    del run, number
    return dict(values)


def _pictures(run: Any, number: int, pictures: Mapping[str, Any]) -> dict[str, Any]:
    import wandb

    del run, number
    return {name: wandb.Image(to_picture(picture)) for name, picture in pictures.items()}


def _tables(run: Any, number: int, tables: Mapping[str, Table]) -> dict[str, Any]:
    import wandb

    made = {
        name: wandb.Table(columns=list(table.columns), data=[list(row) for row in table.rows])
        for name, table in tables.items()
    }
    for name, table in made.items():
        # Bound, it is a file of the run; else `log` makes an artifact, and asks the server of it while training waits
        table.bind_to_run(run, name, number)
    return dict(made)


_MADE: dict[Medium, Callable[[Any, int, Mapping[str, Any]], dict[str, Any]]] = {
    "numbers": _numbers,
    "pictures": _pictures,
    "tables": _tables,
}
