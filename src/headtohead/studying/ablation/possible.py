"""Which combinations of an ablation can be built: the others are left out, each with its reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from headtohead.building.errors import ConfigurationError
from headtohead.studying.study import Study

LeftOut = tuple[tuple[str, str], ...]
"""Arms that cannot be, and why."""


def without_the_impossible(study: Study, build: Callable[[str], object]) -> tuple[Study, LeftOut]:
    """build composes an arm, or raises; a base that cannot be is an error, since all is compared with it."""
    if study.ablation is None:
        return study, ()
    left_out = []
    for arm in study.ablation.design():
        try:
            build(arm)
        except ConfigurationError as error:
            if arm == study.baseline:
                raise
            left_out.append((arm, str(error).removeprefix(f"study {study.name}, arm {arm}: ")))
    return _without(study, {arm for arm, _ in left_out}), tuple(left_out)


def _without(study: Study, gone: set[str]) -> Study:
    kept: dict[str, Any] = {
        name: {arm: value for arm, value in getattr(study, name).items() if arm not in gone}
        for name in ("arms", "movable", "expected", "seed_offsets")
    }
    contrasts = tuple(pair for pair in study.contrasts if not gone & set(pair))
    left = replace(study, contrasts=contrasts, **kept)
    if len(left.arms) < 2:
        raise ConfigurationError(
            f"study {study.name}: of the ablation only {', '.join(left.arms)} can be built: nothing to compare"
        )
    return left
