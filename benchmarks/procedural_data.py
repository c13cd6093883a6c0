"""How fast the procedural tasks are made: rows per second of one processor, as the YAMLs have them.

    python benchmarks/procedural_data.py [--rows 20000]

Drawing, answering and dealing out to the splits, all rows different; then the same with what a first `prepare` does
besides: rendering, writing the Arrow files, reading and verifying them. Later runs find the cache.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")

from headtohead.data.contracts import SPLIT_NAMES
from headtohead.data.generated.dyck import Dyck
from headtohead.data.generated.induction import Induction
from headtohead.data.generated.listops import ListOps
from headtohead.data.generated.modular_addition import ModularAddition
from headtohead.data.generated.procedural import ProceduralSource
from headtohead.data.generated.rewriting import Copy, Reverse, Sort
from headtohead.data.generated.selective_copy import SelectiveCopy
from headtohead.data.generated.word_problem import WordProblem

DRAWN = (Copy, Reverse, Sort, SelectiveCopy, Induction, WordProblem, Dyck, ListOps)


def seconds(work: Callable[[], object]) -> float:
    """Of the processor: other programs do not count."""
    started = time.process_time()
    work()
    return time.process_time() - started


def measure(source: ProceduralSource) -> None:
    num_rows = sum(len(source.problems(name)) for name in SPLIT_NAMES)
    made = seconds(lambda: [source.problems(name) for name in SPLIT_NAMES])
    prepared = seconds(source.prepare)
    length = source.spec().max_length
    print(f"{source.name:18} {length:6} {num_rows / made:14,.0f} {num_rows / prepared:14,.0f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HEADTOHEAD_CACHE"] = folder
        Copy(num_train=10, num_validation=1, num_test=1).prepare()  # the libraries are imported
        print(f"{rows:,} rows for training, 1,000 each for validation and test")
        print(f"{'source':18} {'length':>6} {'rows/s drawn':>14} {'rows/s cached':>14}")
        for source in DRAWN:
            measure(source(num_train=rows))
        measure(ModularAddition())
    return 0


if __name__ == "__main__":
    sys.exit(main())
