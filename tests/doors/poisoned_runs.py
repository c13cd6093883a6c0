"""Runs of a stranger: folders whose configurations name what leaves a mark when it is imported, and one when called."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from headtohead.records.signatures import SIGNATURES

MODULE = "strangers_code"
_SOURCE = """
from pathlib import Path
HERE = Path(__file__).parent
(HERE / "imported").touch()

def call(*arguments, **named):
    (HERE / "called").touch()
"""
Change = Callable[[dict[str, Any]], None]


def plant(folder: Path) -> None:
    """Write a module that leaves its marks beside itself."""
    (folder / f"{MODULE}.py").write_text(_SOURCE)


def was_run(folder: Path) -> bool:
    return any((folder / mark).exists() for mark in ("imported", "called"))


def poisoned(run: Path, to: Path, change: Change) -> Path:
    """Copy a run and change both of its configurations; the signatures of whoever made it come along."""
    shutil.copytree(run, to)
    config = yaml.safe_load((to / "config.yaml").read_text())
    change(config)
    (to / "config.yaml").write_text(yaml.safe_dump(config))
    record = json.loads((to / "record.json").read_text())
    change(record["config"])
    record["id"] = to.name
    (to / "record.json").write_text(json.dumps(record))
    assert (to / SIGNATURES).exists()
    return to


def at(position: str, value: Any) -> Change:
    """Put a value at a place of the configuration: data, model.mixer, augmentation.steps."""

    def change(config: dict[str, Any]) -> None:
        *path, last = position.split(".")
        node: Any = config
        for name in path:
            node = node.setdefault(name, {})
        node[last] = value

    return change


def naming(target: str = f"{MODULE}.call", **more: Any) -> Mapping[str, Any]:
    return {"_target_": target, **more}
