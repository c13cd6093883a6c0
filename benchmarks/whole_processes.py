"""Measure whole processes for other benchmarks: processor time, peak memory, their lines of docs/speed.md."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headtohead.diagnostics.peers.alternation import Quartiles
from headtohead.diagnostics.peers.peer_measurement import SpeedRow, machine

os.environ.setdefault("OMP_NUM_THREADS", "1")
_MEASURED = """
import json, resource, subprocess, sys
done = subprocess.run([sys.executable, *sys.argv[1:]], capture_output=True, text=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
seconds, printed = used.ru_utime + used.ru_stime, (done.stderr + done.stdout)[-2000:]
print(json.dumps([seconds, used.ru_maxrss / 1e3, done.returncode, printed]))
"""
"""The program of a process with one child: the peak of its children is that one's."""


@dataclass(frozen=True)
class ProcessCost:
    """The cost of some runs of one command."""

    seconds: list[float]
    """Processor time of each, user and system."""
    megabytes: float
    """Resident memory at its peak, the most of any run."""
    printed: str
    """The end of the output of the last."""

    def rows(self, work: str, *, seconds: float, megabytes: float | None = None, missing: str = "") -> list[SpeedRow]:
        """Return a line for its time, and one for its memory where that has a target."""
        result = [plain_row(work, self.seconds, seconds, "s", missing)]
        if megabytes is not None:
            result.append(plain_row(f"{work}, memory", [self.megabytes], megabytes, "MB", missing))
        return result


def plain_row(work: str, values: Sequence[float], target: float, unit: str, missing: str = "") -> SpeedRow:
    """Return a line for a figure that is to be low."""
    return SpeedRow(
        work, Quartiles.of(values), target, unit=unit, better="lower", details=f"median of {len(values)}",
        missing=missing, machine=machine(),
    )  # fmt: skip


def process_cost(*arguments: str, rounds: int = 1, folder: Path | None = None) -> ProcessCost:
    """Run `python ARGUMENTS` so often, each as a process of its own; AssertionError where one fails."""
    runs = []
    for _ in range(rounds):
        command = [sys.executable, "-c", _MEASURED, *arguments]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
        seconds, peak, code, printed = json.loads(done.stdout)
        assert code == 0, f"exit code {code}: {printed}"
        runs.append((seconds, peak, printed))
    return ProcessCost([run[0] for run in runs], max(run[1] for run in runs), runs[-1][2])


def show(row: SpeedRow) -> None:
    """Print a line as soon as it is measured."""
    measured, reached = row.measured, "reached" if row.is_met else "missed"
    print(
        f"  {row.work:<52}{measured.median:>9.2f} {row.unit:<3} ({measured.lower:.2f} to {measured.upper:.2f}), "
        f"target {row.target:g}, {reached}",
        flush=True,
    )
