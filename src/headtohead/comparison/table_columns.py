"""Decide what each column of a foreign table means: the user names them, and only error messages guess."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from headtohead.errors import UsageError
from headtohead.metrics.external_metrics import USUAL_RESULTS

_USUAL: Mapping[str, tuple[str, ...]] = {
    "metric": USUAL_RESULTS,
    "seed": ("seed", "random_seed", "rng", "run", "repeat", "trial", "replicate", "fold"),
    "arm": ("arm", "model", "method", "architecture", "name", "variant", "algorithm", "config", "group"),
    "task": ("task", "dataset", "data", "benchmark", "env", "environment", "game"),
    "step": ("step", "global_step", "_step", "iteration", "iter", "epoch", "epochs"),
}
_NEEDED = ("metric", "arm", "seed")


class TableError(UsageError):
    """A table that cannot be read as runs; the message names file, row or column, and the fix."""


@dataclass(frozen=True)
class NamedColumns:
    """Names of columns; None: not named."""

    metric: str | None = None
    seed: str | None = None
    arm: str | None = None
    task: str | None = None
    step: str | None = None
    """Makes rows points of curves."""
    parameters: str | None = None
    flops: str | None = None
    tokens: str | None = None
    seconds: str | None = None

    def named(self) -> dict[str, str]:
        """Return the named columns by their meaning."""
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        return {what: name for what, name in columns.items() if name is not None}


def chosen_columns(columns: NamedColumns, header: Sequence[str], where: str) -> dict[str, str]:
    """Return every named column checked; arm and seed are found by these very names where none was named."""
    named = {what: name for what in ("arm", "seed") if (name := what) in header} | columns.named()
    for what, name in named.items():
        if name not in header:
            raise TableError(f"{where} has no column {name}, which --{what} names: {_choices(name, header)}")
    for what in _NEEDED:
        if what not in named:
            free = [name for name in header if name not in named.values()]
            raise TableError(f"{where}: --{what} COLUMN is needed: {_choices(what, free)}")
    twice = [name for name in named.values() if list(named.values()).count(name) > 1]
    if twice:
        both = " and ".join(f"--{what}" for what, name in named.items() if name == twice[0])
        raise TableError(f"{where}: {both} name the same column {twice[0]}: give each its own")
    return named


def guess(what: str, header: Sequence[str]) -> str | None:
    """The column that probably says it, or has nearly that name."""
    lowered = {name.lower(): name for name in header}
    for usual in _USUAL.get(what, (what,)):
        if usual in lowered:
            return lowered[usual]
    for usual in _USUAL.get(what, ()):
        for name in lowered:
            if usual in name.replace("/", "_").split("_"):
                return lowered[name]
    close = difflib.get_close_matches(what.lower(), lowered, n=1, cutoff=0.6)
    return lowered[close[0]] if close else None


def _choices(what: str, header: Sequence[str]) -> str:
    if not header:
        return "it has no other column, so add one"
    probable = guess(what, header)
    hint = f"did you mean {probable}? " if probable else ""
    return f"{hint}its columns are {', '.join(header)}"
