"""Processor time of the answers that need no model: help, lists, refusals; each command is a whole process, in turn."""

from __future__ import annotations

import resource
import subprocess
import sys
from statistics import median

ROUNDS = 7
COMMANDS = (
    ["--help"],
    ["list"],
    ["train", "--help"],
    ["train", "model=transformer"],
    ["train", "optimizer.lr=abc"],
    ["train", "task=masked_lm"],
    ["inspect", "model/position=sinusoidal_2d"],
)
PROGRAM = "import sys; from headtohead.cli import main; sys.exit(main())"


def processor_seconds(arguments: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", PROGRAM, *arguments], capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    taken: dict[str, list[float]] = {" ".join(command): [] for command in COMMANDS}
    for _ in range(ROUNDS):
        for command in COMMANDS:
            taken[" ".join(command)].append(processor_seconds(command))
    print(f"processor seconds, median of {ROUNDS} and least")
    for typed, seconds in taken.items():
        print(f"  h2h {typed:<45} {median(seconds):.3f}  {min(seconds):.3f}")


if __name__ == "__main__":
    main()
