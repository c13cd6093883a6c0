"""A nested configuration as one level of dotted names."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

ABSENT = "(not there)"


def flat(config: Any, above: str = "", *, without: Collection[str] = ()) -> dict[str, str]:
    """Each value as text, under its dotted name; `without` names fields of the first level that are left out."""
    if isinstance(config, Mapping) and config:
        parts = (
            flat(value, f"{above}.{key}" if above else str(key))
            for key, value in config.items()
            if above or key not in without
        )
        return {key: value for part in parts for key, value in part.items()}
    return {above: str(config)} if above else {}
