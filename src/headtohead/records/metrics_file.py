"""metrics.csv: every logged number of a run, one line each, appended as it comes and read back by name.

The long form lets any metric appear at any step without a new header, so that a line once written stays as it is.
"""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headtohead.errors import UsageError
from headtohead.files.atomic_write import append_text, replace_text
from headtohead.files.safe_read import DamagedFile, open_regular, read_text
from headtohead.records.record import Progress

COLUMNS = ("step", "epoch", "tokens", "flops", "seconds", "name", "value")
_HEADER = ",".join(COLUMNS) + "\n"
_MOST_BYTES = 2**32
_DIGITS = 30
_SHOWN = 60
"""Letters of a damaged line that an error shows."""
_WAY_OUT = "remove that line, or restore the file from a copy; resuming the run drops damaged lines"
_log = logging.getLogger(__name__)
_NAME = re.compile(r"[^\s,\"]+")


@dataclass
class Curve:
    """One metric over a run: columns of equal length, each step once, in ascending order."""

    step: list[int] = field(default_factory=list)
    epoch: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    flops: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    value: list[float] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.step)

    @property
    def last(self) -> float:
        return self.value[-1]


@dataclass(frozen=True)
class MetricsRow:
    """A row holds the numbers that were logged together."""

    progress: Progress
    values: dict[str, float]


class MetricsFile:
    """The file of one run folder, for its one writer and any number of readers."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, progress: Progress, values: Mapping[str, float]) -> None:
        """Add numbers; they outlive a kill of the process from the moment this returns."""
        p = progress
        prefix = f"{p.step},{p.epoch},{p.tokens},{_text(p.flops)},{p.seconds:.3f}"
        lines = [f"{prefix},{_checked(name)},{_text(value)}\n" for name, value in values.items()]
        append_text(self.path, "".join(lines), header=_HEADER)

    def rows(self, only: Collection[str] | None = None, *, mend: bool = False) -> list[MetricsRow]:
        """Everything logged, or the metrics named, in order of steps; of a value logged twice, the later one. A damaged
        line is refused, or with `mend` left out."""
        by_step: dict[int, MetricsRow] = {}
        for line in self._lines(only, mend=mend):
            progress, name, value = line
            row = by_step.setdefault(progress.step, MetricsRow(progress, {}))
            row.values[name] = value
        return [by_step[step] for step in sorted(by_step)]

    def curves(self, only: Collection[str] | None = None, *, mend: bool = False) -> dict[str, Curve]:
        """Return every metric by name, or those named: a run logs hundreds, and most readers want few."""
        curves: dict[str, Curve] = {}
        for row in self.rows(only, mend=mend):
            for name, value in row.values.items():
                curve = curves.setdefault(name, Curve())
                p = row.progress
                for column, item in zip(
                    (curve.step, curve.epoch, curve.tokens, curve.flops, curve.seconds, curve.value),
                    (p.step, p.epoch, p.tokens, p.flops, p.seconds, value),
                    strict=True,
                ):
                    column.append(item)  # type: ignore[attr-defined]
        return curves

    def last_progress(self) -> Progress | None:
        rows = self.rows()
        return rows[-1].progress if rows else None

    def drop_after(self, step: int) -> None:
        """Forget what a resumed run logs again: what came after this step, and its test, which it takes at its end;
        lines that are damaged are forgotten too."""
        remaining = io.StringIO(newline="")
        remaining.write(_HEADER)
        for progress, name, value in self._lines(mend=True):
            if progress.step <= step and multiple_of(name.partition("/")[0]) is None:
                p = progress
                remaining.write(
                    f"{p.step},{p.epoch},{p.tokens},{_text(p.flops)},{p.seconds:.3f},{name},{_text(value)}\n"
                )
        replace_text(self.path, remaining.getvalue())

    def num_damaged(self) -> int:
        """Return how many lines are not lines of metrics, a torn last one among them."""
        return self._content()[1]

    def drop_damaged(self) -> None:
        """Rewrite the file without the lines that are damaged."""
        replace_text(self.path, self._content()[0])

    def _content(self) -> tuple[str, int]:
        """Return the lines that can be read, and how many cannot."""
        try:
            with open_regular(self.path) as file:
                text = file.read(_MOST_BYTES).decode("utf-8", "replace")
        except FileNotFoundError:
            return _HEADER, 0
        lines = text.splitlines(keepends=True)
        whole = [line for line in lines if line == _HEADER or _is_whole(line)]
        return "".join(whole), len(lines) - len(whole)

    def _lines(
        self, only: Collection[str] | None = None, *, mend: bool = False
    ) -> Iterator[tuple[Progress, str, float]]:
        """Yield the lines of the file; of damaged ones the first is refused, or with `mend` all are left out."""
        try:
            text = read_text(self.path, most=_MOST_BYTES, way_out=_WAY_OUT)
        except FileNotFoundError:
            return
        header, *lines = text[: text.rfind("\n") + 1].splitlines() or [""]  # a kill can tear the last line
        if header and header != _HEADER.rstrip():
            raise UsageError(
                f"{self.path}: the columns are {header.replace(',', ', ')[:_SHOWN]}; expected {', '.join(COLUMNS)}"
            )
        damaged = 0
        for number, line in enumerate(lines, start=2):
            try:
                entry = _read(line, only)
            except ValueError:
                if not mend:
                    what = f"is damaged in line {number} ({line[:_SHOWN]!r})"
                    raise DamagedFile(self.path, what, _WAY_OUT) from None
                damaged += 1
                continue
            if entry is not None:
                yield entry
        if damaged:
            _log.warning("%s: %d damaged line(s) dropped", self.path, damaged)


def _read(line: str, only: Collection[str] | None) -> tuple[Progress, str, float] | None:
    """Return what a line says; None for a metric that is not requested, ValueError for what is not such a line."""
    step, epoch, tokens, flops, seconds, name, value = line.split(",")
    if only is not None and name not in only:
        return None
    progress = Progress(_whole(step), _whole(epoch), _whole(tokens), float(flops), float(seconds))
    return progress, _checked(name), float(value)


def _is_whole(line: str) -> bool:
    try:
        return line.endswith("\n") and _read(line.rstrip("\n"), None) is not None
    except ValueError:
        return False


def _whole(text: str) -> int:
    if len(text) > _DIGITS:
        raise UsageError("more digits than a count can have")
    if (number := int(text)) < 0:
        raise UsageError("a count below zero")
    return number


def _text(number: float) -> str:
    return repr(float(number))


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise UsageError(f"metric name {name!r}: use letters, digits, '/', '_', '-' and '.', as in validation/loss")
    return name


TEST = "test"
_LONGER = re.compile(r"test_([2-9]|[1-9]\d+)x")


def stage_at(multiple: int) -> str:
    """Return the stage of a test whose rows are `multiple` times as long as those of training; 1 is the test itself."""
    return TEST if multiple == 1 else f"{TEST}_{multiple}x"


def multiple_of(stage: str) -> int | None:
    """Return the other way round; None for what is not a test."""
    if stage == TEST:
        return 1
    match = _LONGER.fullmatch(stage)
    return int(match[1]) if match else None
