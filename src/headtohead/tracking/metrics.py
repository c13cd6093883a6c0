"""metrics.csv: every logged number of a run, one line each, appended as it comes and read back by name.

The long form lets any metric appear at any step without a new header, so that a line once written stays as it is.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headtohead.errors import UsageError
from headtohead.files.leases import checked_write
from headtohead.tracking.files import replace_text
from headtohead.tracking.record import Progress

COLUMNS = ("step", "epoch", "tokens", "flops", "seconds", "name", "value")
_HEADER = ",".join(COLUMNS) + "\n"
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
class Row:
    """What was logged together."""

    progress: Progress
    values: dict[str, float]


class MetricsFile:
    """The file of one run folder, for its one writer and any number of readers."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, progress: Progress, values: Mapping[str, float]) -> None:
        """Add numbers; they outlive a kill of the process from the moment this returns."""
        p = progress
        place = f"{p.step},{p.epoch},{p.tokens},{_text(p.flops)},{p.seconds:.3f}"
        lines = [f"{place},{_checked(name)},{_text(value)}\n" for name, value in values.items()]
        with checked_write(self.path), self.path.open("a", encoding="utf-8", newline="") as file:
            if file.tell() == 0:
                file.write(_HEADER)
            file.write("".join(lines))

    def rows(self, only: Collection[str] | None = None) -> list[Row]:
        """Everything logged, or the metrics named, in order of steps; of a value logged twice, the later one."""
        by_step: dict[int, Row] = {}
        for line in self._lines(only):
            progress, name, value = line
            row = by_step.setdefault(progress.step, Row(progress, {}))
            row.values[name] = value
        return [by_step[step] for step in sorted(by_step)]

    def curves(self, only: Collection[str] | None = None) -> dict[str, Curve]:
        """Every metric by name, or those named: a run logs hundreds, and most readers want few."""
        curves: dict[str, Curve] = {}
        for row in self.rows(only):
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
        """Forget what was logged after this step: a resumed run logs it again."""
        kept = io.StringIO(newline="")
        kept.write(_HEADER)
        for progress, name, value in self._lines():
            if progress.step <= step:
                p = progress
                kept.write(f"{p.step},{p.epoch},{p.tokens},{_text(p.flops)},{p.seconds:.3f},{name},{_text(value)}\n")
        replace_text(self.path, kept.getvalue())

    def _lines(self, only: Collection[str] | None = None) -> list[tuple[Progress, str, float]]:
        if not self.path.exists():
            return []
        text = self.path.read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1]  # a kill can tear the last line
        rows = csv.reader(io.StringIO(whole, newline=""))
        header = next(rows, None)
        if header is not None and tuple(header) != COLUMNS:
            raise UsageError(f"{self.path}: the columns are {', '.join(header)}; expected {', '.join(COLUMNS)}")
        return [
            (Progress(int(step), int(epoch), int(tokens), float(flops), float(seconds)), name, float(value))
            for step, epoch, tokens, flops, seconds, name, value in rows
            if only is None or name in only
        ]


def _text(number: float) -> str:
    return repr(float(number))


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise UsageError(f"metric name {name!r}: use letters, digits, '/', '_', '-' and '.', as in validation/loss")
    return name
