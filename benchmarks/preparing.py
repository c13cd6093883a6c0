"""Measure what it takes to prepare a large published set: memory and time.

    python benchmarks/preparing.py [wmt14] [--rows 100000] [--words 300000]
    python benchmarks/preparing.py tinystories --rows 60000 --words 60000

Writes files of the set's form, with rows as long as the set's and at most so many different words, drawn by Zipf's law,
and prepares them as `h2h train data=SET` does: read, tokenizer learned, tokenized, written to the cache (below
HEADTOHEAD_CACHE where that is set, else with the system's temporary files).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from headtohead.config.compose.composition import compose
from headtohead.config.origins.from_weights import build_data

ROW_GROUP = 1000
SYLLABLES = [first + last for first in "bdfghklmnprstvwz" for last in ("a", "e", "i", "o", "u", "en", "er", "ung")]


class Language:
    """Words by their rank: frequent ones are short."""

    def __init__(self, num_words: int, seed: int) -> None:
        self._drawn = np.random.default_rng(seed)
        lengths = 1 + (np.log10(np.arange(num_words) + 3) * 0.6 + self._drawn.random(num_words)).astype(int)
        message = self._drawn.integers(len(SYLLABLES), size=lengths.sum())
        ends = np.cumsum(lengths)
        self._words = [
            "".join(SYLLABLES[position] for position in message[end - length : end])
            for end, length in zip(ends.tolist(), lengths.tolist(), strict=True)
        ]
        shares = 1 / (np.arange(num_words) + 2.7)
        self._up_to = np.cumsum(shares / shares.sum())

    def texts(self, number: int, mean: float) -> Iterator[str]:
        """Draw a text of so many words in the mean."""
        lengths = np.maximum(1, self._drawn.lognormal(np.log(mean) - 0.18, 0.6, number)).astype(int)
        for length in lengths.tolist():
            ranks = np.searchsorted(self._up_to, self._drawn.random(length))
            yield " ".join(self._words[rank] for rank in ranks.tolist()).capitalize() + "."


def write_wmt14(folder: Path, num_rows: int, num_words: int) -> None:
    """https://huggingface.co/datasets/wmt/wmt14"""
    english, german = Language(num_words // 3, 0), Language(num_words - num_words // 3, 1)
    schema = pa.schema({"translation": pa.struct({"de": pa.string(), "en": pa.string()})})

    def rows(number: int) -> pa.Table:
        sides = zip(german.texts(number, 23), english.texts(number, 24), strict=True)
        return pa.table({"translation": [{"de": de, "en": en} for de, en in sides]}, schema=schema)

    for split, number in {"train": num_rows, "validation": 3_000, "test": 3_003}.items():
        _write(folder / "de-en" / f"{split}-00000-of-00001.parquet", number, schema, rows)


def write_tinystories(folder: Path, num_rows: int, num_words: int) -> None:
    """https://huggingface.co/datasets/roneneldan/TinyStories"""
    language, schema = Language(num_words, 0), pa.schema({"text": pa.string()})

    def rows(number: int) -> pa.Table:
        return pa.table({"text": list(language.texts(number, 175))}, schema=schema)

    for split, number in {"train": num_rows, "validation": num_rows // 100}.items():
        _write(folder / "data" / f"{split}-00000-of-00001.parquet", number, schema, rows)


def _write(path: Path, number: int, schema: pa.Schema, rows: Callable[[int], pa.Table]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with parquet.ParquetWriter(path, schema) as file:
        for start in range(0, number, ROW_GROUP):
            file.write_table(rows(min(ROW_GROUP, number - start)), row_group_size=ROW_GROUP)


SETS = {"wmt14": write_wmt14, "tinystories": write_tinystories}


def prepare(name: str, folder: str) -> str:
    source = build_data(compose("train", [f"data={name}", f"data.folder={folder}"]))
    before, started = peak(), time.perf_counter()
    source.prepare()
    seconds, most = time.perf_counter() - started, peak()
    message = f"{seconds:.0f} s; peak {most:.0f} MB, {before:.0f} MB of it before the first row"
    return f"{message}; data hash {source.spec().data_hash}"


def peak() -> float:
    """MB that this process had at most, without those it started; getrusage would have its parent's in it, too."""
    status = Path("/proc/self/status").read_text()
    return float(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) / 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", nargs="?", choices=SETS, default="wmt14")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--words", type=int, default=300_000)
    parser.add_argument("--folder", help="where such files are already: prepare them and write none")
    chosen = parser.parse_args()
    if chosen.folder:
        print(prepare(chosen.set, chosen.folder))
        return 0
    if (cache := os.environ.get("HEADTOHEAD_CACHE")) is not None:
        Path(cache).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as root:
        folder, os.environ["HEADTOHEAD_CACHE"] = Path(root) / "set", str(Path(root) / "prepared")
        SETS[chosen.set](folder, chosen.rows, chosen.words)
        size = sum(file.stat().st_size for file in folder.rglob("*.parquet")) / 1e6
        message = (
            f"{chosen.set}: {chosen.rows:,} rows for training, {size:.0f} MB of Parquet; {os.cpu_count()} processors"
        )
        print(message, flush=True)
        own = [sys.executable, __file__, chosen.set, "--folder", str(folder)]  # no memory of writing is counted
        return subprocess.run(own, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
