"""A run's content: what of its configuration decides the result, and the hash of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from headtohead.building.start_content import start_content
from headtohead.comparing.conditions import COSMETIC, NAMES_AND_PLACES

_NOT_OF_THE_TRAINING = (*COSMETIC, "threads", "max_epochs")
"""Sums over other numbers of threads round otherwise, and that makes no other run; epochs are counted in steps."""
_ID_LENGTH = 12
_START = "init_from"


def run_id(config: Mapping[str, Any]) -> str:
    """A hash of what decides the result: the resolved configuration, its seed and the weights it starts from in it,
    without names and paths."""
    decides = deciding(config)
    if (origin := decides.get(_START)) is not None:
        decides[_START] = start_content(origin)
    text = json.dumps(decides, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_ID_LENGTH]


def deciding(config: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a configuration that decides the result."""
    trainer = {key: value for key, value in config["trainer"].items() if key not in _NOT_OF_THE_TRAINING}
    kept = {key: value for key, value in config.items() if key not in NAMES_AND_PLACES}
    return {**kept, "trainer": trainer}
