"""The law of all doors: whatever became of a file, a command says so in a sentence, executes nothing, loses nothing."""

from __future__ import annotations

import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import invalidate_caches
from pathlib import Path

import pytest

from doors.damage import CANARY, damage, restore, snapshot
from doors.doors import DOORS, Door
from headtohead.cli import COMMANDS, main

_PATIENCE = 10.0
_MOST_LINES = 6
_PREPARED: set[Door] = set()
_PAIRS = [(door, pattern) for doors in DOORS.values() for door in doors for pattern in door.reads]


def test_every_command_is_in_the_table() -> None:
    assert DOORS.keys() == COMMANDS.keys()


def check(
    door: Door, pattern: str, draw: random.Random, files: dict[Path, bytes], message: pytest.CaptureFixture[str]
) -> None:
    """Damage one of the files and call the command, which has run before and prepared what it keeps in the cache."""
    restore(files)
    if door not in _PREPARED:
        assert main(list(door.arguments)) == 0, f"refused with whole files: {message.readouterr().err}"
        _PREPARED.add(door)
        restore(files)
    target = draw.choice(sorted(Path().glob(pattern)))
    kind = damage(target, draw)
    if target.suffix == ".py":  # read once in a process
        sys.modules.pop(target.stem, None)
        invalidate_caches()
    before = snapshot()
    message.readouterr()
    began = time.process_time()
    with _ended_after(30 * _PATIENCE):
        code = main(list(door.arguments))
    took = time.process_time() - began
    captured = message.readouterr()
    shown = captured.out + captured.err if door.lists_damage else captured.err
    what = f"{kind} {target}, {' '.join(door.arguments)}: {code}\n{shown}"

    assert not Path(CANARY).exists(), f"executed: {what}"
    assert "Traceback" not in shown and "HEADTOHEAD_DEBUG" not in shown, what
    assert code in (0, 1, 2), what
    assert took < _PATIENCE, f"{took:.0f} s: {what}"
    if code:
        errors = [line for line in shown.splitlines() if line]
        assert len(errors) <= _MOST_LINES and max(map(len, errors), default=0) < 2000, what
        above = (folder.name for folder in target.parents if folder.name)
        others = (file.stem for each in door.reads for file in Path().glob(each))
        named = (target.stem, *above, *others)
        assert any(name in shown for name in (*named, "=")), f"names no file, folder or field: {what}"
    if code == 2:
        after = snapshot()
        assert {path: after.get(path) for path in before} == before, f"lost: {what}"


@contextmanager
def _ended_after(seconds: float) -> Iterator[None]:
    """A command that waits without end fails its own case, and no other."""

    def fail(number: int, frame: object) -> None:
        raise TimeoutError(f"no end after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _of_each_pair() -> Sequence[object]:
    """Return the number of each pair, slow but for two of each command."""
    seen = Counter[str]()
    cases: list[object] = []
    for number, (door, _) in enumerate(_PAIRS):
        seen[door.arguments[0]] += 1
        cases.append(pytest.param(number, marks=[pytest.mark.slow] if seen[door.arguments[0]] > 2 else []))
    return cases


@pytest.mark.slow
@pytest.mark.parametrize("number", _of_each_pair())
def test_a_damaged_file_is_told_in_a_sentence(
    number: int, inside: dict[Path, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    """Each file of each command once, in turn, by damage that stays the same from call to call."""
    check(*_PAIRS[number], random.Random(number), inside, capsys)


@pytest.mark.slow
def test_drawn_damage_is_told_in_a_sentence(
    draw_seed: int, inside: dict[Path, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    draw = random.Random(f"drawn {draw_seed}")
    check(*draw.choice(_PAIRS), draw, inside, capsys)
