"""Measure how long a step takes on all cores, alone and while another program keeps one of them busy.

    python benchmarks/busy_core.py [--steps 60] [--rounds 3]

Each run is `h2h train` of the default model in a process of its own, in turn: with threads that wait as torch's own
default has it, as `h2h` sets it, and asleep at once (OMP_WAIT_POLICY=PASSIVE). Prints the median seconds of a step.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import headtohead as h2h

WAYS: Mapping[str, dict[str, str]] = {
    "torch's default": {"GOMP_SPINCOUNT": "300000"},
    "as h2h sets it": {},
    "asleep at once": {"OMP_WAIT_POLICY": "PASSIVE"},
}
SIZE = ["data.num_train=2000", "data.num_validation=40", "data.num_test=40", "tracking=none", "probe=none"]


@contextmanager
def neighbour(*, busy: bool) -> Iterator[None]:
    """Keep one core busy while the block runs, as the program of another user would."""
    if not busy:
        yield
        return
    spinning = subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True)
    try:
        yield
    finally:
        spinning.kill()
        spinning.wait()


def step_seconds(variables: Mapping[str, str], steps: int, cores: int) -> float:
    """Return the seconds of a step, as the record of a new run has them."""
    free = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    with tempfile.TemporaryDirectory() as folder:
        own = [f"trainer.max_steps={steps}", f"trainer.validate_every={steps}", f"trainer.threads={cores}"]
        words = ["train", *SIZE, *own, "trainer.accelerator=cpu", f"output_dir={folder}"]
        subprocess.run(
            [sys.executable, "-m", "headtohead", *words],
            env={**free, **variables},
            check=True,
            stdout=subprocess.DEVNULL,
        )
        record = next(Path(folder).rglob("record.json")).parent
        measured = h2h.load_run(record).record.throughput["step_seconds"]
        assert measured is not None, "a run that has ended measured its steps"
        return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    for busy in (False, True):
        measured: dict[str, list[float]] = {way: [] for way in WAYS}
        for _ in range(arguments.rounds):
            for way, variables in WAYS.items():
                with neighbour(busy=busy):
                    measured[way].append(step_seconds(variables, arguments.steps, cores))
        sys.stdout.write(f"{cores} cores, {'one of them busy' if busy else 'all idle'}\n")
        for way, seconds in measured.items():
            sys.stdout.write(f"  {way:16} {1000 * median(seconds):7.1f} ms a step\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
