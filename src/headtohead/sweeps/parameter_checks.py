"""A sweep against what a run is: every parameter a field or group of it, every value of its type, the metric logged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headtohead.comparison.analyses.trials import Value, written
from headtohead.config.compose.composition import compose
from headtohead.config.compose.overrides import key_of
from headtohead.config.errors import ConfigurationError, unknown
from headtohead.config.run_config import RunConfig
from headtohead.config.schema.key_checks import check
from headtohead.config.schema.metric_names import metric_names
from headtohead.sweeps.distributions import Distribution, WeightedValues
from headtohead.sweeps.sweep import Sweep

_CHANCES = (0.0, 0.37, 1.0)
"""The points at which a distribution is looked at: both ends, and a value between that is seldom a whole number."""
_LOGGED = ("train/loss",)


def check_parameters(sweep: Sweep, config_dir: str | Path | None = None) -> None:
    """Check each value by itself, beside the first values of the others; each trial checks its own combination."""
    first = {key: _looked_at(entry)[0] for key, entry in sweep.swept.items()}
    for key, values in _to_check(sweep):
        for value in values:
            setting = {**first, key: value}
            try:
                check(compose("train", _overrides(sweep, setting), config_dir))
            except ConfigurationError as error:
                raise ConfigurationError(f"sweep {sweep.name}, {key}={written(value)}: {error}") from None


def check_alone(sweep: Sweep, key: str, value: Value, config_dir: str | Path | None = None) -> None:
    """Raises ConfigurationError for a value that no run has whatever the other parameters are: a misspelt one."""
    try:
        check(compose("train", _overrides(sweep, {key: value}), config_dir))
    except ConfigurationError as error:
        raise ConfigurationError(f"sweep {sweep.name}, {key}={written(value)}: {error}") from None


def _overrides(sweep: Sweep, setting: Mapping[str, Value]) -> tuple[str, ...]:
    """Return the overrides of a setting; of two for one field the later one counts, as in a run."""
    typed = sweep.overrides(*(f"{name}={written(item)}" for name, item in setting.items()))
    return tuple({key_of(override): override for override in typed}.values())


def check_metric(sweep: Sweep, configs: Sequence[Mapping[str, Any]]) -> None:
    """Check that every trial logs the metric."""
    for config in configs:
        measured = metric_names(RunConfig(config).task_target)
        if not measured:
            continue
        names = [*(f"validation/{name}" for name in measured), *_LOGGED]
        if sweep.metric not in names:
            whole = sweep.metric if "/" in sweep.metric else f"validation/{sweep.metric}"
            message = unknown(f"metric.name={sweep.metric} is not logged by any run", whole, names)
            raise ConfigurationError(f"sweep {sweep.name}: {message}")


def refuse_several_devices(config: Mapping[str, Any]) -> None:
    run = RunConfig(config)
    if run.devices * run.num_nodes > 1:
        raise ConfigurationError(
            f"trainer.devices={run.devices} is refused with --wandb, since an agent starts one process for a "
            "trial: set trainer.devices=1, or leave --wandb out"
        )


def _to_check(sweep: Sweep) -> Iterator[tuple[str, Sequence[Value]]]:
    """Yield the values that composing the first trials would not check: all values of a grid, and every value that
    random search drew from a list."""
    for key, entry in sweep.swept.items():
        if sweep.method == "bayes" or (sweep.method == "random" and not isinstance(entry, WeightedValues)):
            yield key, _looked_at(entry)


def _looked_at(entry: Distribution) -> Sequence[Value]:
    return entry.points if isinstance(entry, WeightedValues) else [entry.at(chance) for chance in _CHANCES]
