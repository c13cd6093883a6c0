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
    counted = [_counted(model[f"num_{name}s"], name) for name in ("layer", "head") if model.get(f"num_{name}s")]
    if counted and model.get("d_model"):
        facts.append(("size", ", ".join([*counted, f"width {model['d_model']}"])))
    return facts


def _counted(number: int, name: str) -> str:
    return f"{number} {name}{'' if number == 1 else 's'}"
