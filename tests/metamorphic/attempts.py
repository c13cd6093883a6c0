"""A drawn command, trained and trained in other ways: what held, what was refused, the shortest command that fails."""

from __future__ import annotations

import shlex
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from metamorphic.drawing import FIXED
from metamorphic.relations import (
    CHECKPOINTING,
    DIVISIONS,
    LOADERS,
    LONG_WALKS,
    PROBES,
    WALKS,
    Overrides,
    RefusedError,
    Trained,
    evaluated,
    on_two_devices,
    planned,
    stopped_and_resumed,
    timed,
    trained,
    whole,
)

Holds = Callable[[Trained, Path], None]
WAYS: Mapping[str, Holds] = {
    **{each.name: each.holds for each in (*DIVISIONS, *CHECKPOINTING, *PROBES)},
    "stopped and resumed": stopped_and_resumed,
    "evaluate": evaluated,
    "planned": planned,
    "timed": timed,
    **{each.name: each.holds for each in WALKS},
}
"""Those that start no process and take a second or less."""
LONG_WAYS: Mapping[str, Holds] = {
    "trainer=ddp": on_two_devices,
    **{each.name: each.holds for each in (*LOADERS, *LONG_WALKS)},
}
TRAIN = "train"
GENTLE = "optimizer.lr=1e-5"
"""A rate at which every command trains; one that diverges here too is at fault."""


@dataclass
class Attempt:
    """The outcome of one command."""

    command: Overrides
    refused: dict[str, str] = field(default_factory=dict)
    """The refusals by variation; `train` where the command itself was refused."""
    held: list[str] = field(default_factory=list)
    failed: tuple[str, Exception] | None = None
    """The first way that failed, and how."""


def attempt(command: Overrides, ways: Mapping[str, Holds]) -> Attempt:
    """Train the command and go through the ways, up to the first that fails."""
    result = Attempt(command)
    way = TRAIN
    with TemporaryDirectory() as folder:
        try:
            base = trained(command, Path(folder) / "base")
            if base.record.status == "diverged":  # compared at a lower rate
                base = trained((*command, GENTLE), Path(folder) / "gentle")
            base = whole(base)
            result.held.append(TRAIN)
            for number, (way, holds) in enumerate(ways.items()):
                try:
                    holds(base, Path(folder) / str(number))
                    result.held.append(way)
                except RefusedError as refusal:
                    result.refused[way] = str(refusal)
        except RefusedError as refusal:
            result.refused[TRAIN] = str(refusal)
        except Exception as error:
            result.failed = (way, error)
    return result


def message(result: Attempt, ways: Mapping[str, Holds]) -> str:
    """Return the shortest command that fails in the same way, and how."""
    assert result.failed is not None
    way, error = result.failed
    own = {} if way == TRAIN else {way: ways[way]}

    def fails(command: Overrides) -> bool:
        again = attempt(command, own)
        return again.failed is not None and again.failed[0] == way

    command = shortened(result.command, fails)
    trace = "".join(traceback.format_exception(error)[-4:])
    return f"\nh2h train {shlex.join((*command, *FIXED))}\nthen: {way}\n{trace}"


def shortened(command: Overrides, fails: Callable[[Overrides], bool]) -> Overrides:
    """Leave out, one after another, the overrides without which it still fails."""
    for override in reversed(command):
        shorter: Sequence[str] = [each for each in command if each != override]
        if fails(tuple(shorter)):
            command = tuple(shorter)
    return command
