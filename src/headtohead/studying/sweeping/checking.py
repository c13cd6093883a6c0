"""A sweep against what a run is: every parameter a field or group of it, every value of its type, the metric logged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headtohead.building.configuration import compose
from headtohead.building.errors import ConfigurationError, unknown
from headtohead.building.metric_names import metric_names
from headtohead.building.overrides import key_of
from headtohead.building.schema import check
from headtohead.comparing.trials import Value, written
from headtohead.studying.sweeping.distributions import Distribution, Listed
from headtohead.studying.sweeping.sweep import Sweep

_CHANCES = (0.0, 0.37, 1.0)
"""Where a distribution is looked at: both ends, and a value between that is seldom a whole number."""
_LOGGED = ("train/loss",)


def check_parameters(sweep: Sweep, config_dir: str | Path | None = None) -> None:
    """Each value by itself, beside the first values of the others; whether all go together, each trial tells."""
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
    """Of two for one field the later, as a run takes them."""
    typed = sweep.overrides(*(f"{name}={written(item)}" for name, item in setting.items()))
    return tuple({key_of(override): override for override in typed}.values())


def check_metric(sweep: Sweep, configs: Sequence[Mapping[str, Any]]) -> None:
    """That every trial logs it."""
    for config in configs:
        measured = metric_names(config["task"]["_target_"])
        if not measured:
            continue
        names = [*(f"validation/{name}" for name in measured), *_LOGGED]
        if sweep.metric not in names:
            whole = sweep.metric if "/" in sweep.metric else f"validation/{sweep.metric}"
            told = unknown(f"metric.name={sweep.metric} is logged by no run", whole, names)
            raise ConfigurationError(f"sweep {sweep.name}: {told}")


def refuse_several_devices(config: Mapping[str, Any]) -> None:
    trainer = config["trainer"]
    if trainer["devices"] * trainer["num_nodes"] > 1:
        raise ConfigurationError(
            f"trainer.devices={trainer['devices']} is refused, since the trials of a sweep take one device each: "
            "set trainer.devices=1, and --workers for several trials at once"
        )


def _to_check(sweep: Sweep) -> Iterator[tuple[str, Sequence[Value]]]:
    """What composing the trials would not find before the first of them: all that a grid holds is a trial, and so is
    every value that random search drew from a list."""
    for key, entry in sweep.swept.items():
        if sweep.method == "bayes" or (sweep.method == "random" and not isinstance(entry, Listed)):
            yield key, _looked_at(entry)


def _looked_at(entry: Distribution) -> Sequence[Value]:
    return entry.points if isinstance(entry, Listed) else [entry.at(chance) for chance in _CHANCES]
