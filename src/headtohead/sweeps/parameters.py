"""The parameters of a sweep file, each checked: what it may be, whether an agent hands it over as written, and whether
it is a field or group of a run that takes every value of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from headtohead.comparison.analyses.trials import Value, written
from headtohead.config.compose.composition import compose
from headtohead.config.compose.overrides import key_of
from headtohead.config.errors import ConfigurationError, nearest, one_of, show, unknown
from headtohead.config.run_config import RunConfig
from headtohead.config.schema.key_checks import check
from headtohead.config.schema.metric_names import better_direction, metric_names
from headtohead.metrics import Direction, direction_error
from headtohead.sweeps.agent_overrides import field_of, typed
from headtohead.sweeps.distributions import (
    BOUNDS,
    CURVES,
    QUANTISED,
    Distribution,
    QuantileDistribution,
    WeightedValues,
)
from headtohead.sweeps.sweep import Sweep

_NAMES = ("categorical", "constant", "int_uniform", *CURVES, *(f"q_{name}" for name in QUANTISED))
_KEYS = ("value", "values", "probabilities", "distribution", "parameters", "min", "max", "q", "mu", "sigma", "a", "b")


def parameters_of(written: Mapping[str, object]) -> dict[str, Distribution]:
    """Return the distributions by their parameters' full paths."""
    distributions: dict[str, Distribution] = {}
    for name, entry in _flat("", written):
        path = field_of(name)
        if path in distributions:
            raise ConfigurationError(f"parameters.{path} is given twice: remove one")
        distributions[path] = _distribution(path, entry)
    if not distributions:
        raise ConfigurationError("parameters is empty: give one, for example optimizer.lr: {values: [0.001, 0.003]}")
    return distributions


def _flat(prefix: str, parameters: Mapping[str, object]) -> Iterator[tuple[str, dict[str, Any]]]:
    for key, entry in parameters.items():
        path = f"{prefix}{key}"
        if not isinstance(entry, dict):
            raise ConfigurationError(
                f"parameters.{path}={show(entry)} is refused: it must be a mapping, such as {{value: {show(entry)}}} "
                "or {values: [...]}"
            )
        for name in entry:
            if name not in _KEYS:
                guess = nearest(str(name), _KEYS)
                hint = f"did you mean {guess}?" if guess else f"choose from {one_of(_KEYS)}"
                raise ConfigurationError(f"parameters.{path}.{name} is not a key of a parameter: {hint}")
        if "parameters" in entry:
            if len(entry) > 1 or not isinstance(entry["parameters"], dict):
                raise ConfigurationError(f"parameters.{path} holds parameters, a mapping, and must hold nothing else")
            yield from _flat(f"{path}.", entry["parameters"])
        else:
            yield path, entry


def _distribution(path: str, entry: dict[str, Any]) -> Distribution:
    name = entry.get("distribution", _usual(entry))
    if name is None:
        raise ConfigurationError(f"parameters.{path} has no values: give value, values, or min and max")
    if name == "categorical_w_probabilities":
        name = "categorical"
    if name not in _NAMES:
        raise ConfigurationError(unknown(f"parameters.{path}.distribution={show(name)} is unknown", str(name), _NAMES))
    arguments = {key: value for key, value in entry.items() if key != "distribution"}
    if name == "constant":
        _only(path, name, arguments, {"value"})
        return WeightedValues((_value(path, arguments["value"]),))
    if name == "categorical":
        return _listed(path, arguments)
    return _spread(path, name, arguments)


def _usual(entry: Mapping[str, object]) -> str | None:
    """W&B's own choice where no distribution is named."""
    if "value" in entry:
        return "constant"
    if "values" in entry:
        return "categorical"
    if {"min", "max"} <= entry.keys():
        return "int_uniform" if all(_is_whole(entry[key]) for key in BOUNDS) else "uniform"
    return None


def _listed(path: str, arguments: dict[str, Any]) -> WeightedValues:
    _only(path, "categorical", arguments, {"values"}, {"probabilities"})
    values, weights = arguments["values"], arguments.get("probabilities", ())
    if not isinstance(values, list) or not values:
        raise ConfigurationError(f"parameters.{path}.values={show(values)} is refused: it must be a list of values")
    fits = len(weights) in (0, len(values)) if isinstance(weights, list | tuple) else False
    if fits and weights:
        fits = all(_is_number(weight) and weight >= 0 for weight in weights) and 0 < sum(weights) < math.inf
    if not fits:
        raise ConfigurationError(
            f"parameters.{path}.probabilities={show(weights)} is refused: it must be {len(values)} numbers from 0 on"
        )
    return WeightedValues(tuple(_value(path, value) for value in values), tuple(map(float, weights)))


def _spread(path: str, name: str, arguments: dict[str, Any]) -> QuantileDistribution:
    required = dict(BOUNDS if name == "int_uniform" else CURVES[name.removeprefix("q_")][1])
    if name.startswith("q_"):
        required["q"] = 1.0
    _only(path, name, arguments, {key for key, usual in required.items() if usual is None}, set(required))
    for key, value in arguments.items():
        if not _is_number(value):
            hint = f": YAML reads numbers like 1e-4 as text, write {float(value)!r}" if _reads_as_number(value) else ""
            raise ConfigurationError(f"parameters.{path}.{key}={show(value)} is refused: it must be a number{hint}")
    figures = {key: float(arguments.get(key, usual or 0.0)) for key, usual in required.items()}
    if "min" in figures and figures["min"] >= figures["max"]:
        raise ConfigurationError(
            f"parameters.{path} goes from {arguments['min']} to {arguments['max']}: min must be below max"
        )
    if name.endswith("log_uniform_values") and figures["min"] <= 0:
        raise ConfigurationError(f"parameters.{path}.min={arguments['min']} is refused: {name} takes numbers above 0")
    if name == "int_uniform" and not all(_is_whole(arguments[key]) for key in BOUNDS):
        raise ConfigurationError(
            f"parameters.{path} goes from {arguments['min']} to {arguments['max']}: int_uniform takes whole numbers"
        )
    if any(figures.get(key, 1.0) <= 0 for key in ("q", "sigma", "a", "b")):
        raise ConfigurationError(f"parameters.{path} is refused: q, sigma, a and b must be above 0")
    if name.endswith("log_uniform") and figures["max"] > math.log(1e300):
        raise ConfigurationError(
            f"parameters.{path}: {name} takes exponents of e, and e^{figures['max']:g} is not a number: "
            "for the values themselves write log_uniform_values"
        )
    distribution = QuantileDistribution(name, figures)
    if not _is_finite(distribution):
        raise ConfigurationError(
            f"parameters.{path} ({distribution.words}) has values that are too large, or too small, for a number: "
            "give narrower figures"
        )
    return distribution


def _is_finite(distribution: QuantileDistribution) -> bool:
    """Return whether the lowest value, the highest and some between are numbers."""
    try:
        return all(_is_number(distribution.at(chance)) for chance in (0.0, 0.25, 0.5, 0.75, 1.0))
    except (OverflowError, ValueError):
        return False


def _only(
    path: str, name: str, arguments: Mapping[str, object], needed: Set[str], also: Set[str] = frozenset()
) -> None:
    if missing := sorted(needed - arguments.keys()):
        raise ConfigurationError(f"parameters.{path}.{missing[0]} is missing: {name} takes {one_of(needed | also)}")
    if extra := sorted(arguments.keys() - needed - also):
        raise ConfigurationError(
            f"parameters.{path}.{extra[0]} does not go with distribution={name}, which takes {one_of(needed | also)}"
        )


def _value(path: str, value: Any) -> Value:
    """Lists and mappings as an override has them."""
    if isinstance(value, str | list | dict):
        return typed(value)
    if value is None or isinstance(value, int | float):
        return value
    raise ConfigurationError(f"parameters.{path} holds {show(value)}: give numbers, text, true, false, null or lists")


def _is_number(value: Any) -> bool:
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # a whole number of hundreds of digits
        return False


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _reads_as_number(value: Any) -> bool:
    try:
        return isinstance(value, str) and math.isfinite(float(value))
    except ValueError:
        return False


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


def check_metric(sweep: Sweep, configs: Sequence[Mapping[str, object]]) -> None:
    """Check that every trial logs the metric, and that the goal is its better direction."""
    for config in configs:
        measured = metric_names(RunConfig(config).task_target)
        if not measured:
            continue
        names = [*(f"validation/{name}" for name in measured), *_LOGGED]
        if sweep.metric not in names:
            whole = sweep.metric if "/" in sweep.metric else f"validation/{sweep.metric}"
            message = unknown(f"metric.name={sweep.metric} is not logged by any run", whole, names)
            raise ConfigurationError(f"sweep {sweep.name}: {message}")
        goal, better = ("maximize", "minimize") if sweep.larger_is_better else ("minimize", "maximize")
        judged: Direction = "max" if sweep.larger_is_better else "min"
        if why := direction_error(sweep.metric, judged, better_direction(config, sweep.metric)):
            usual = ", which is W&B's where none is given," if goal == "minimize" else ""
            raise ConfigurationError(f"sweep {sweep.name}: metric.goal={goal}{usual} and {why}: give goal: {better}")


def refuse_several_devices(config: Mapping[str, object]) -> None:
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
