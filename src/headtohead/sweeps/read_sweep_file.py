"""A sweep file, every key of it checked: what W&B would refuse, or hand to a run as something else than is written."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from headtohead.config.compose.overrides import key_of
from headtohead.config.errors import ConfigurationError, nearest, one_of, show
from headtohead.config.schema.value_kinds import (
    BoolKind,
    Kind,
    MappingOf,
    MismatchError,
    NumberKind,
    OneOf,
    TextKind,
    WholeNumber,
)
from headtohead.files.safe_read import DamagedFile, read_yaml
from headtohead.sweeps.parameters import parameters_of
from headtohead.sweeps.sweep import MOST_LOGGED, Hyperband, Sweep, from_first, to_last


class _Mapping(Kind):
    def read(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.refuse()
        return {str(key): entry for key, entry in value.items()}

    def wants(self) -> str:
        return "a mapping"


class _Words(Kind):
    def read(self, value: Any) -> list[str]:
        if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
            raise self.refuse()
        return value

    def wants(self) -> str:
        return f"a list of words such as {EXAMPLE}"


_KINDS: dict[str, Kind] = {
    "method": OneOf(("grid", "random", "bayes")),
    "metric": _Mapping(),
    "parameters": _Mapping(),
    "early_terminate": _Mapping(),
    "run_cap": WholeNumber(),
    "program": TextKind(),
    "command": _Words(),
    "name": TextKind(),
    "description": TextKind(),
    "project": TextKind(),
    "entity": TextKind(),
    "apiVersion": TextKind(),
    "kind": OneOf(("sweep",)),
    "controller": MappingOf(OneOf(("local", "cloud"))),
}
_KINDS_OF_METRICS: dict[str, Kind] = {"name": TextKind(), "goal": OneOf(("minimize", "maximize"))}
_KINDS_OF_STOPPING: dict[str, Kind] = {
    "type": OneOf(("hyperband",)),
    "min_iter": WholeNumber(),
    "max_iter": WholeNumber(),
    "s": WholeNumber(),
    "eta": NumberKind(),
    "strict": BoolKind(),
}


_MOST_TRIALS = 10**6


def read_sweep(
    file: Path | str, overrides: Sequence[str] = (), run_cap: int | None = None, *, searched_here: bool = True
) -> Sweep:
    """Raises ConfigurationError, one sentence that names the file and the key."""
    path = Path(file)
    if not path.is_file():
        ours = sorted(Path("sweeps").glob("*.yaml"))
        hint = f": here are {', '.join(map(str, ours))}" if ours else ": give the path of a W&B sweep file"
        raise ConfigurationError(f"{file} is not a file{hint}")
    try:
        sweep = sweep_from(path.stem, loaded(path), overrides, run_cap)
        if searched_here:
            _check_search_here(sweep)
    except (MismatchError, ConfigurationError) as error:
        raise ConfigurationError(f"{file}: {error}") from None
    return sweep


def sweep_from(
    name: str, content: Mapping[str, object], overrides: Sequence[str] = (), run_cap: int | None = None
) -> Sweep:
    """Build a sweep from the content of a file."""
    fields = _checked("", content, _KINDS)
    for key in ("method", "parameters", "command"):
        if key not in fields:
            example = f": {EXAMPLE}" if key == "command" else ""
            raise ConfigurationError(f"{key} is missing: a sweep file has method, parameters and command{example}")
    cap = fields.get("run_cap") if run_cap is None else run_cap
    if cap is not None and not 1 <= cap <= _MOST_TRIALS:
        raise ConfigurationError(f"run_cap={show(cap)} is refused: it must be 1 or more, and {_MOST_TRIALS:,} at most")
    metric = _checked("metric.", fields.get("metric", {}), _KINDS_OF_METRICS)
    if ("metric" in fields or fields["method"] == "bayes" or "early_terminate" in fields) and "name" not in metric:
        raise ConfigurationError(
            "metric.name is missing: name what is compared, for example metric: {name: validation/loss}"
        )
    command = read_command(fields["command"])
    sweep = Sweep(
        name,
        fields["method"],
        parameters_of(fields["parameters"]),
        command.before,
        (*command.after, *overrides),
        config_dir=command.config_dir,
        metric=metric.get("name", "validation/loss"),
        larger_is_better=metric.get("goal") == "maximize",
        run_cap=cap,
        hyperband=_hyperband(fields["early_terminate"]) if "early_terminate" in fields else None,
        description=fields.get("description", ""),
    )
    _check_search(sweep)
    _check_typed(sweep, overrides)
    return sweep


def loaded(path: Path) -> dict[str, Any]:
    """Return the content of the file, unchecked."""
    try:
        content = read_yaml(path)
    except DamagedFile as damage:
        raise ConfigurationError(f"it {damage.what}") from None
    if not isinstance(content, dict):
        raise ConfigurationError("it is not a mapping: a sweep file has method, parameters and command")
    return content


def _checked(prefix: str, fields: Mapping[Any, Any], kinds: Mapping[str, Kind]) -> dict[str, Any]:
    for key in fields:
        if key not in kinds:
            guess = nearest(str(key), kinds)
            hint = f"did you mean {prefix}{guess}?" if guess else f"h2h sweep knows {one_of(kinds)}"
            raise ConfigurationError(f"{prefix}{key} is not a key of a sweep file that can be run here: {hint}")
    read = {}
    for key, value in fields.items():
        try:
            read[key] = kinds[key].read(value)
        except MismatchError as mismatch:
            raise ConfigurationError(f"{prefix}{key}={show(value)} is refused: it must be {mismatch}") from None
    return read


def _hyperband(fields: Mapping[str, object]) -> Hyperband:
    read = _checked("early_terminate.", fields, _KINDS_OF_STOPPING)
    if "type" not in read:
        raise ConfigurationError("early_terminate.type is missing: write type: hyperband")
    eta = read.get("eta", 3.0)
    if eta <= 1:
        raise ConfigurationError(f"early_terminate.eta={eta:g} is refused: it must be above 1")
    if ("min_iter" in read) == ("max_iter" in read) or ("s" in read) != ("max_iter" in read):
        raise ConfigurationError(
            "early_terminate takes min_iter, or max_iter and s: for example {type: hyperband, min_iter: 3}"
        )
    for name in ("min_iter", "max_iter", "s"):
        if not 1 <= read.get(name, 1) <= MOST_LOGGED:
            raise ConfigurationError(f"early_terminate.{name} is refused: it must be from 1 to {MOST_LOGGED:,}")
    brackets = from_first(read["min_iter"], eta) if "min_iter" in read else to_last(read["max_iter"], eta, read["s"])
    if not brackets:
        raise ConfigurationError(
            f"early_terminate.max_iter={read['max_iter']} has no brackets: it must be eta={eta:g} or more"
        )
    return Hyperband(brackets, eta, read.get("strict", False))


def _check_search_here(sweep: Sweep) -> None:
    if sweep.method == "bayes" and find_spec("optuna") is None:
        raise ConfigurationError(
            "method=bayes needs Optuna: pip install 'headtohead[tuning]', write method: random, or give --wandb"
        )


def _check_typed(sweep: Sweep, overrides: Sequence[str]) -> None:
    for override in overrides:
        if key_of(override) in sweep.swept:
            raise ConfigurationError(f"{override} is refused, since {key_of(override)} is swept: leave it out")


def _check_search(sweep: Sweep) -> None:
    if sweep.method == "grid":
        for key, entry in sweep.parameters.items():
            if entry.points is None:
                raise ConfigurationError(
                    f"parameters.{key} has no grid ({entry.words}): give values, or method: random"
                )
    elif sweep.run_cap is None:
        raise ConfigurationError(
            f"run_cap is missing: {sweep.method} search has no end of its own; write run_cap: 20, or give --run-cap 20"
        )
    if not sweep.swept:
        raise ConfigurationError("every parameter has one value: give one of them values, or min and max")
    stage, _, rest = sweep.metric.partition("/")
    if stage.startswith("test"):
        raise ConfigurationError(
            f"metric.name={sweep.metric} is refused, since settings are chosen on validation data, never on test data: "
            f"write validation/{rest}"
        )


_ARGUMENTS = "${args_no_hyphens}"
_STARTS = ("${env}", "${interpreter}", "${program}", "h2h", "python", "python3", "-m", "headtohead")
_VARIABLE = re.compile(r"\$\{envvar:([A-Z0-9_]*)\}")
_CONFIG_DIR = "--config-dir"
EXAMPLE = f'[h2h, train, "{_ARGUMENTS}"]'


@dataclass(frozen=True)
class TrainCommand:
    """A train command is the sweep file's command apart from its parameters."""

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    """Overrides before and after the place of the parameters: of two for one field the later counts."""
    config_dir: str | None = None


def read_command(words: Sequence[str]) -> TrainCommand:
    """Raises ConfigurationError where no trial could be run by it."""
    filled = [_VARIABLE.sub(lambda match: os.environ.get(match[1], match[1]), word) for word in words]
    rest = filled
    while rest and rest[0] in _STARTS:
        rest = rest[1:]
    if rest[:1] == ["train"]:
        rest = rest[1:]
    elif "${program}" not in words:
        raise ConfigurationError(f"command={show(list(words))} is refused: it must run h2h train, command: {EXAMPLE}")
    placeholders = [word for word in rest if word.startswith("${args")]
    if placeholders != [_ARGUMENTS]:
        wrong = next((word for word in placeholders if word != _ARGUMENTS), f"{_ARGUMENTS} {len(placeholders)} times")
        raise ConfigurationError(
            f"command has {wrong}, which no run understands: write {_ARGUMENTS} once, command: {EXAMPLE}"
        )
    return _sorted(rest)


def _sorted(words: Sequence[str]) -> TrainCommand:
    before: list[str] = []
    after: list[str] = []
    overrides = before
    folder: str | None = None
    left = iter(words)
    for word in left:
        name, _, value = word.partition("=")
        if word == _ARGUMENTS:
            overrides = after
        elif name == _CONFIG_DIR:
            folder = value or next(left, None)
        elif word.startswith("-"):
            raise ConfigurationError(
                f"command holds {word}, which does not belong to a trial: besides overrides it may only have "
                f"{_CONFIG_DIR} DIR"
            )
        else:
            overrides.append(word)
    return TrainCommand(tuple(before), tuple(after), folder)
