"""Commands that wait until they are stopped, and end well when they are begun again."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from headtohead.execution.launchers.launcher import Command, EndedCommand, Launcher

WAITS_ONCE = """
import os, pathlib, signal, sys, time
seen = pathlib.Path({seen!r})
starts = len(seen.read_text()) if seen.exists() else 0
def end(*_):
    for number in (signal.SIGTERM, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)  # a scheduler signals all processes, and one of them tells another
    print("kept a checkpoint", flush=True)
    sys.exit(130)
for number in (signal.SIGTERM, signal.SIGUSR2):
    signal.signal(number, end)
with seen.open("a") as file:
    file.write("x")
if not starts:
    time.sleep(3600)
print("went on with", os.environ.get("COLOUR"), os.environ["OMP_NUM_THREADS"])
sys.exit({code})
"""


def waits_once(folder: Path, code: int = 0) -> Command:
    program = WAITS_ONCE.format(seen=str(folder / f"seen{code}"), code=code)
    return Command((sys.executable, "-S", "-c", program), folder / "logs" / f"{code}.log", threads=3)


def all_ended(launcher: Launcher) -> list[EndedCommand]:
    result: list[EndedCommand] = []
    while launcher.is_busy:
        result += launcher.ended()
        time.sleep(0.05)
    return result
