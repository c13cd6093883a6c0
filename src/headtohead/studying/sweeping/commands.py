"""The command of a sweep file: it must run `h2h train`, and may give every trial overrides and a folder of choices."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from headtohead.building.errors import ConfigurationError, show

_ARGUMENTS = "${args_no_hyphens}"
_STARTS = ("${env}", "${interpreter}", "${program}", "h2h", "python", "python3", "-m", "headtohead")
_VARIABLE = re.compile(r"\$\{envvar:([A-Z0-9_]*)\}")
_CONFIG_DIR = "--config-dir"
EXAMPLE = f'[h2h, train, "{_ARGUMENTS}"]'


@dataclass(frozen=True)
class TrainCommand:
    """What it says beside the parameters."""

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    """Overrides before and after the place of the parameters: of two for one field the later counts."""
    config_dir: str | None = None


def read_command(words: Sequence[str]) -> TrainCommand:
    """Raises ConfigurationError where no trial could be run by it."""
    filled = [_VARIABLE.sub(lambda found: os.environ.get(found[1], found[1]), word) for word in words]
    rest = filled
    while rest and rest[0] in _STARTS:
        rest = rest[1:]
    if rest[:1] == ["train"]:
        rest = rest[1:]
    elif "${program}" not in words:
        raise ConfigurationError(f"command={show(list(words))} is refused: it must run h2h train, command: {EXAMPLE}")
    places = [word for word in rest if word.startswith("${args")]
    if places != [_ARGUMENTS]:
        wrong = next((word for word in places if word != _ARGUMENTS), f"{_ARGUMENTS} {len(places)} times")
        raise ConfigurationError(
            f"command has {wrong}, which no run can read: write {_ARGUMENTS} once, command: {EXAMPLE}"
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
                f"command holds {word}, which is no part of a trial: beside overrides it takes {_CONFIG_DIR} DIR alone"
            )
        else:
            overrides.append(word)
    return TrainCommand(tuple(before), tuple(after), folder)
