"""Arms as they are written are checked and composed, and then brought to what the baseline costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headtohead.config.compose.composition import compose_checked
from headtohead.config.errors import ConfigurationError
from headtohead.config.rules.data_paths import check_data_paths
from headtohead.studies.matching.allowed_moves import Movable, Report, moves_by_arm
from headtohead.studies.matching.budgets import Budget
from headtohead.studies.matching.matching import Matching


def match(
    base: Sequence[str],
    arms: Mapping[str, Sequence[str]],
    baseline: str,
    budget: Budget,
    movable: Movable | None = None,
    *,
    config_dir: str | Path | None = None,
    report: Report | None = None,
) -> Matching:
    """The baseline stays as it is written; `movable` says, by arm, which moves may bring it there, the first first.

    Overrides of an arm come after those of the base. An arm that no shape brings there is said to be so, with the
    nearest; what cannot be asked at all raises ConfigurationError.
    """
    configs = {name: _composed(name, [*base, *overrides], config_dir) for name, overrides in arms.items()}
    moves_by_arm(configs, baseline, budget, movable or {})
    for config in configs.values():
        check_data_paths(config)
    from headtohead.studies.matching.solver import match_composed  # torch waits until nothing above is refused

    result = match_composed(configs, baseline, budget, movable, report=report)
    for arm in result.arms:
        if arm.overrides:
            _composed(arm.name, [*base, *arms[arm.name], *arm.overrides], config_dir)
    return result


def _composed(name: str, overrides: Sequence[str], config_dir: str | Path | None) -> dict[str, Any]:
    try:
        return compose_checked("train", overrides, config_dir)
    except ConfigurationError as error:
        raise ConfigurationError(f"arm {name}: {error}") from None
