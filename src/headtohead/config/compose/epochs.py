"""trainer.max_epochs, times through the train split, turned into trainer.max_steps: budgets are counted in steps."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from headtohead.config.compose.overrides import key_of
from headtohead.config.errors import ConfigurationError

EPOCHS, STEPS = "trainer.max_epochs", "trainer.max_steps"
_UNKNOWN = 2**62
"""As many steps as no rule about schedules refuses, while nobody has counted the rows."""


def refuse_both(overrides: Sequence[str]) -> None:
    """Refuse a length that is given twice."""
    provided = {key_of(override): override for override in overrides}
    if EPOCHS in provided and STEPS in provided and not provided[EPOCHS].endswith("=null"):
        raise ConfigurationError(
            f"{provided[EPOCHS]} and {provided[STEPS]} both say how long to train: give one of them"
        )


def in_epochs(config: Mapping[str, Any]) -> int | None:
    """The number of epochs that are still to be turned into steps."""
    epochs: int | None = (config.get("trainer") or {}).get("max_epochs")
    return epochs


def resolved_length(
    config: Mapping[str, Any], overrides: Sequence[str], check: Callable[[Mapping[str, Any]], None]
) -> dict[str, Any]:
    """Return the configuration in steps, checked; where rows have to be counted, all that can be is checked before."""
    if in_epochs(config) is not None:
        check({**config, "trainer": {**config["trainer"], "max_steps": _UNKNOWN}})
    in_steps_config = in_steps(config, overrides)
    check(in_steps_config)
    return in_steps_config


def in_steps(config: Mapping[str, Any], overrides: Sequence[str] = ()) -> dict[str, Any]:
    """The same run with its length in optimizer steps. Of epochs and steps, what the later override gives counts."""
    epochs, keys = in_epochs(config), [key_of(override) for override in overrides]
    if epochs is None:
        return dict(config)
    trainer = {**config["trainer"], "max_epochs": None}
    last = next((key for key in reversed(keys) if key in (EPOCHS, STEPS)), EPOCHS)
    if last == EPOCHS:
        read = {name: config.get(name) for name in ("data", "init_from", "resume_from", "choices")}
        trainer["max_steps"] = epochs * _steps_of_epoch(json.dumps(read), trainer.get("train_rows"))
    return {**config, "trainer": trainer}


@lru_cache(maxsize=64)
def _steps_of_epoch(config: str, train_rows: int | None) -> int:
    """Return how many full batches the run's training rows make."""
    from headtohead.config.origins.from_weights import build_data
    from headtohead.data.batches.row_order import EpochOrder, OrderedSplit
    from headtohead.data.splits.sample_splits import train_subset

    data = build_data(json.loads(config))
    train = data.split("train")
    if isinstance(train, OrderedSplit):
        raise ConfigurationError(
            f"{EPOCHS} counts how often all rows are read, and this data streams them, so that nobody knows how many "
            f"there are: give {STEPS}"
        )
    return EpochOrder(train_subset(train, train_rows, 0), batch_size=data.batch_size, seed=0).steps_per_epoch
