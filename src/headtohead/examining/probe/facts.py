"""A few words on which run, or which choices, a page or a table is about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SHOWN = ("model", "data", "task")


def facts_of(config: Mapping[str, Any], run_id: str | None = None) -> list[tuple[str, str]]:
    """Names and values: the run, its choices, its size."""
    choices = config.get("choices", {})
    facts = [("run", run_id)] if run_id else []
    facts += [(group, str(choices[group])) for group in _SHOWN if choices.get(group)]
    model = config["model"]
    facts.append(("position", str(choices.get("model/position") or "its own")))
    if model.get("num_layers"):
        layers, heads = _counted(model["num_layers"], "layer"), _counted(model["num_heads"], "head")
        facts.append(("size", f"{layers}, {heads}, width {model['d_model']}"))
    return facts


def _counted(number: int, name: str) -> str:
    return f"{number} {name}{'' if number == 1 else 's'}"
