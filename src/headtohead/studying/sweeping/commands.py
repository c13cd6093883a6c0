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

    overrides: tuple[str, ...] = ()
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
    if rest[-1:] != [_ARGUMENTS]:
        wrong = next((word for word in rest if word.startswith("${args")), "nothing")
        raise ConfigurationError(
            f"command ends with {wrong}, which no run can read: end it with {_ARGUMENTS}, command: {EXAMPLE}"
        )
    return _sorted(rest[:-1])


def _sorted(words: Sequence[str]) -> TrainCommand:
    overrides: list[str] = []
    folder: str | None = None
    left = iter(words)
    for word in left:
        name, _, value = word.partition("=")
        if name == _CONFIG_DIR:
            folder = value or next(left, None)
        elif word.startswith("-"):
            raise ConfigurationError(
                f"command holds {word}, which is no part of a trial: beside overrides it takes {_CONFIG_DIR} DIR alone"
            )
        else:
            overrides.append(word)
    return TrainCommand(tuple(overrides), folder)
