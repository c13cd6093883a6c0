"""The arms of an ablation join those that a study writes out itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headtohead.building.errors import ConfigurationError
from headtohead.studying.ablation.ablation import Ablation

MADE = ("arms", "baseline")
"""Fields that a study with an ablation may leave to it."""


def with_its_arms(values: Mapping[str, Any], ablation: Ablation) -> dict[str, Any]:
    """The fields of the study; its baseline is the base of the ablation unless it names another."""
    own, made = values.get("arms", {}), ablation.arms()
    for arm in own:
        if arm in made:
            raise ConfigurationError(f"arms has {arm}, which the ablation makes: take it out, or name it differently")
    return {"baseline": ablation.baseline, **values, "arms": {**made, **own}}
