"""What lies in the folder of one run, for a closer look: notes, pictures of attention, tables of samples."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from headtohead.comparing.dashboard.inside import files_below, folders_in
from headtohead.tracking.record import RunRecord

_MOST_ROWS = 200
_LONGEST = 4000
"""Letters of one cell."""


def details(root: Path, folder: Path, record: RunRecord | None) -> dict[str, Any]:
    """All there is to choose from, and what a record says besides numbers."""
    told: dict[str, Any] = {
        "folder": str(folder),
        "pictures": _by_step(pictures(root, folder)),
        "tables": _by_step(tables(root, folder)),
    }
    if record is not None:
        told |= {
            "cannot": record.cannot,
            "wandb": record.wandb.url,
            "timing": {"started": record.timing.started, "finished": record.timing.finished},
            "starts": record.timing.starts,
            "device": record.environment.device.get("name"),
            "commit": record.environment.git_commit,
        }
    return told


def pictures(root: Path, folder: Path) -> dict[tuple[str, str], Path]:
    """attention/STEP/NAME.png, and the matrices that lie with the tables."""
    return _files(root, folder / "attention", ".png") | _files(root, folder / "tables", ".png")


def tables(root: Path, folder: Path) -> dict[tuple[str, str], Path]:
    """tables/STEP/NAME.csv."""
    return _files(root, folder / "tables", ".csv")


def read_table(path: Path) -> dict[str, Any]:
    """Its first rows; long texts cut."""
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        rows = [
            [cell[:_LONGEST] for cell in row] for _, row in zip(range(_MOST_ROWS + 2), csv.reader(file), strict=False)
        ]
    columns, *others = rows or [[]]
    return {"columns": columns, "rows": others[:_MOST_ROWS], "more": len(others) > _MOST_ROWS}


def _files(root: Path, above: Path, suffix: str) -> dict[tuple[str, str], Path]:
    return {
        (step.name, file.stem): file for step in folders_in(root, above) for file in files_below(root, step, (suffix,))
    }


def _by_step(found: dict[tuple[str, str], Path]) -> dict[str, list[str]]:
    by_step: dict[str, list[str]] = {}
    for step, name in found:
        by_step.setdefault(step, []).append(name)
    return by_step
