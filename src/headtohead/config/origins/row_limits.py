"""Rows of a run that starts from weights are cut to the positions that these weights have learned."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import torch

from headtohead.components.component import Position
from headtohead.config.instantiate import make
from headtohead.config.origins.from_published import PREFIX
from headtohead.config.schema.source_code import class_value
from headtohead.config.trust import recorded_config
from headtohead.data.data_source import DataSource
from headtohead.records.run_folder import RunFolder

FIELD = "max_length"
_log = logging.getLogger(__name__)


def with_row_limit(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration with `data.max_length` set to what the weights of `init_from` have positions for, where
    the data have this field and nobody set it."""
    data = config["data"]
    if not config.get("init_from") or FIELD not in data or data[FIELD] is not None:
        return dict(config)
    limit = _learned_positions(config)
    return dict(config) if limit is None else {**config, "data": {**data, FIELD: limit}}


def report_cut(config: Mapping[str, Any], limited: Mapping[str, Any], data: DataSource) -> None:
    """Say in one line how many texts were cut, where `with_row_limit` set the limit."""
    limit = limited["data"].get(FIELD)
    if limit == config["data"].get(FIELD):
        return
    shares = data.reading().get("cut_share", {})
    cut = {split: round(share * len(data.split(split))) for split, share in shares.items()}
    rows = sum(len(data.split(split)) for split in shares)
    _log.warning(
        "init_from=%s knows %d positions: %s of %s rows are cut to as many tokens (data.max_length=%d)",
        config["init_from"], limit, f"{sum(cut.values()):,}", f"{rows:,}", limit,
    )  # fmt: skip


def _learned_positions(config: Mapping[str, Any]) -> int | None:
    """Return the rows of the table of positions; None for weights without one, and for a model of another position."""
    origin = str(config["init_from"])
    if origin.startswith(PREFIX):
        longest = config["model"].get(FIELD)
        return int(longest) if longest else None
    run = RunFolder.open(origin.removeprefix("run:"))
    there = recorded_config(run)
    if _position(there) != _position(config):
        return None
    return _rows_of_table(str(run.path), run.path.stat().st_mtime_ns)


def _position(config: Mapping[str, Any]) -> object:
    return (config["model"].get("position") or {}).get("_target_")


@lru_cache(maxsize=16)
def _rows_of_table(folder: str, changed: int) -> int | None:
    """The model is made without memory, to ask its position."""
    del changed
    config = recorded_config(RunFolder.open(folder))
    if class_value(config["model"]["_target_"], "needs_memory"):
        return None
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        model = make(config["model"], head=class_value(config["task"]["_target_"], "head"))
    positions = [part for part in model.modules() if isinstance(part, Position)]
    tables = [part for part in positions if next(part.parameters(), None) is not None]
    return min((part.max_length for part in tables if part.max_length is not None), default=None)
