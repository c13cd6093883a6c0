"""The metamorphic law over hundreds of drawn commands: what was tried, what held, what was refused and why.

python tests/metamorphic/report.py [--commands 500] [--first 0] [--ways 4] [--out docs/same_numbers.md]
"""

from __future__ import annotations

import argparse
import logging
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from metamorphic.attempts import LONG_WAYS, TRAIN, WAYS, Attempt, attempt, message
from metamorphic.drawing import drawn_command

_HEADER = """# The same numbers, however a run is divided, resumed or read again

`tests/metamorphic/drawing.py` draws random `h2h train` commands from all groups of `conf/`. Each is trained for four
steps, and then again in other ways: with gradient accumulation, with checkpointing, with and without probes, stopped
and resumed. The finished run also generates, is probed, evaluated, exported, embedded, compared and repeated, and
initialises another run. Either the losses agree within the rounding of their number format and the counts of tokens
and FLOPs exactly, or the command is refused beforehand with a message of ours. A failure is reduced to the shortest
command that shows it. `make test` runs a dozen commands, `make laws-long` a thousand; `make laws-report` writes this
page.
"""
_LISTED = 25
"""Reasons for refusals that the table holds."""
_VALUE = re.compile(r"(?<==)[^\s,;:]+|\b\d[\d.e+-]*\b|/[\w./+-]+")


@dataclass
class Counts:
    """The outcomes of all commands so far."""

    commands: int = 0
    held: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def add(self, result: Attempt) -> None:
        self.commands += 1
        self.held.update(result.held)
        self.refused.update(result.refused.keys())
        self.reasons.update(_VALUE.sub("…", reason)[:140] for reason in result.refused.values())
        if result.failed is not None:
            self.failures.append(message(result, {**WAYS, **LONG_WAYS}))
            sys.stderr.write(f"\n{self.failures[-1]}\n")  # the page is written at the end, hours later

    def lines(self) -> Iterator[str]:
        yield _HEADER
        yield f"{self.commands} commands drawn, {self.held[TRAIN]} trained, {self.refused[TRAIN]} refused beforehand, "
        yield f"{len(self.failures)} failed.\n\n| variation | same numbers | refused |\n| --- | --- | --- |"
        for name in (TRAIN, *WAYS, *LONG_WAYS):
            if self.held[name] + self.refused[name]:
                yield f"| {name} | {self.held[name]} | {self.refused[name]} |"
        yield "\n| reason for the refusal | count |\n| --- | --- |"
        for reason, times in self.reasons.most_common(_LISTED):
            yield f"| {reason.replace('|', '/')} | {times} |"
        yield from self.failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commands", type=int, default=500, help="commands that are not refused")
    parser.add_argument("--first", type=int, default=0, help="the number of the first draw")
    parser.add_argument("--ways", type=int, default=4, help="ways tried of each command; 0: all")
    parser.add_argument("--long", action="store_true", help="also ways that start processes, and exports")
    parser.add_argument("--out", type=Path, help="a Markdown file")
    provided = parser.parse_args()
    logging.disable()
    torch.set_num_threads(1)
    counts, start = Counts(), time.monotonic()
    known = {**WAYS, **(LONG_WAYS if provided.long else {})}
    number = provided.first
    while counts.held[TRAIN] < provided.commands:
        rng = random.Random(number)
        names = rng.sample(list(known), provided.ways) if provided.ways else list(known)
        counts.add(attempt(drawn_command(rng), {name: known[name] for name in names}))
        number += 1
        _progress(counts, provided.commands, time.monotonic() - start)
    text = "\n".join(counts.lines())
    sys.stdout.write(f"\n{text}\n")
    if provided.out:
        provided.out.write_text(f"{text}\n", encoding="utf-8")
    return bool(counts.failures)


def _progress(counts: Counts, goal: int, seconds: float) -> None:
    sys.stderr.write(
        f"\r{counts.held[TRAIN]} of {goal} trained, {counts.refused[TRAIN]} refused, {len(counts.failures)} failed, "
        f"{seconds:.0f} s "
    )
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
