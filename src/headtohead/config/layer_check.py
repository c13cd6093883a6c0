"""Say whether the layers of a model can be made at all, before the first of many runs and without their data."""

from __future__ import annotations

import json
from functools import lru_cache

from headtohead.config.build import make_model
from headtohead.config.rules.config_view import ConfigView
from headtohead.config.run_config import Node
from headtohead.errors import UsageError

_INSTEAD_OF_DATA = {"vocab_size": 8, "max_length": 128, "max_target_length": 128, "num_classes": 2}
"""Sizes that data bring, on which no part of a layer depends but by its shapes."""


def layers_error(config: Node) -> str | None:
    """Return why the layers cannot be made, with the field to type; None where they can, where only the data tell, or
    where the code of a layer fails, which the run itself records."""
    view = ConfigView(config)
    if not any("mixer" in side.nodes for side in view.sides()) or not view.takes("vocab_size"):
        return None
    sizes = {name: value for name, value in _INSTEAD_OF_DATA.items() if view.takes(name)}
    model = {**view.model, **{name: value for name, value in sizes.items() if view.model.get(name) is None}}
    parts = ("task", "parametrisation", "finetuning")
    return _error(json.dumps({"model": model, **{name: config[name] for name in parts}}, sort_keys=True, default=str))


@lru_cache(maxsize=256)
def _error(filled: str) -> str | None:
    try:
        make_model(json.loads(filled), "meta")
    except UsageError as error:
        return str(error)
    except Exception:
        return None
    return None
