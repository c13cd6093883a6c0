"""Measure how fast shuffled rows come from a memory map, against two common ways, A B A B in one process.

    python benchmarks/data_loading.py [--tokens 20000000] [--rounds 5]

A is the token stream of `headtohead.data`: one fancy index into a memory-mapped Arrow file for a whole batch. B is a
torch Dataset that gives one row, and a DataLoader that stacks them; C is `datasets` with its torch format, batch by
batch. All give int64 tensors of the same rows in the same order. The target for A is 100 million tokens per second.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from headtohead.data.row_formats.language_rows import RowPacking
from headtohead.data.row_formats.text_source import TokenizedRows

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from headtohead.data.batches.row_order import EpochOrder
from headtohead.data.cache.arrow_columns import Ragged, Table
from headtohead.data.cache.prepared_content import PreparedContent
from headtohead.data.data_source import SPLIT_NAMES, SplitName
from headtohead.data.row_formats.language_rows import LanguageSource, Packing
from headtohead.data.tokenizers import BOS, EOS, SPECIAL_TOKENS, Tokenizer

VOCAB_SIZE, CONTEXT_LENGTH, BATCH_SIZE, DOCUMENT_LENGTH = 50_000, 512, 64, 200
TARGET_TOKENS_PER_SECOND = 100e6
Way = Callable[[np.ndarray], Iterator[torch.Tensor]]
"""A function from the batches of an epoch, as row numbers, to tensors."""


class RandomTokens(LanguageSource):
    """A stream of the size requested: only the time that reading takes matters."""

    name: ClassVar[str] = "random_tokens"

    def __init__(self, num_tokens: int, packing: Packing = "stream") -> None:
        super().__init__(TokenizedRows(BATCH_SIZE, tokenizer="char"), RowPacking(CONTEXT_LENGTH, packing))
        self.num_tokens = num_tokens

    def samples(self) -> Mapping[SplitName, list[str]]:
        """No texts: `make` draws the tokens, and no tokenizer learns from anything."""
        return {name: [] for name in SPLIT_NAMES}

    def sample_parameters(self) -> Mapping[str, Any]:
        return {"num_tokens": self.num_tokens}

    def make(self) -> PreparedContent:
        pieces = tuple(
            b"" if token < len(SPECIAL_TOKENS) else chr(0x20000 + token).encode() for token in range(VOCAB_SIZE)
        )
        tokenizer = Tokenizer("char", pieces)
        values = np.random.default_rng(0).integers(len(SPECIAL_TOKENS), VOCAB_SIZE, self.num_tokens)
        values[::DOCUMENT_LENGTH], values[DOCUMENT_LENGTH - 1 :: DOCUMENT_LENGTH] = BOS, EOS
        offsets = np.append(np.arange(0, self.num_tokens, DOCUMENT_LENGTH), self.num_tokens)
        table: Table = {
            "tokens": Ragged(values.astype(tokenizer.dtype), offsets),
            "unknown_bytes": Ragged(np.zeros(0, dtype=np.uint8), np.zeros(len(offsets), dtype=np.int64)),
        }
        return PreparedContent(dict.fromkeys(SPLIT_NAMES, table), {"tokenizer": tokenizer.to_dict()})


class Rows(Dataset[torch.Tensor]):
    """One row at a time, as a torch Dataset is usually written."""

    def __init__(self, stream: np.ndarray) -> None:
        self.stream = stream

    def __getitem__(self, row: int) -> torch.Tensor:
        start = row * CONTEXT_LENGTH
        return torch.from_numpy(self.stream[start : start + CONTEXT_LENGTH + 1].astype(np.int64))


def ours(source: RandomTokens) -> Way:
    split = source.split("train")

    def run(batches: np.ndarray) -> Iterator[torch.Tensor]:
        for rows in batches:
            tokens = split.batch(rows).tokens
            assert tokens is not None
            yield tokens

    return run


def per_item(stream: np.ndarray) -> Way:
    dataset = Rows(stream)

    def run(batches: np.ndarray) -> Iterator[torch.Tensor]:
        yield from DataLoader(dataset, batch_sampler=batches.tolist())

    return run


def torch_format(stream: np.ndarray, folder: str) -> Way:
    import datasets

    datasets.disable_progress_bars()

    width = CONTEXT_LENGTH + 1
    num_rows = (len(stream) - 1) // CONTEXT_LENGTH
    rows = np.lib.stride_tricks.sliding_window_view(stream, width)[::CONTEXT_LENGTH][:num_rows]
    features = datasets.Features({"tokens": datasets.Sequence(datasets.Value("uint16"), length=width)})
    datasets.Dataset.from_dict({"tokens": rows.copy()}, features=features).save_to_disk(folder)
    dataset = datasets.load_from_disk(folder).with_format("torch")

    def run(batches: np.ndarray) -> Iterator[torch.Tensor]:
        for chosen in batches:
            yield dataset[chosen.tolist()]["tokens"]

    return run


def tokens_per_second(way: Way, batches: np.ndarray) -> tuple[float, float, int]:
    """Return seconds by the clock, and by the processor's own time, which other programs do not lengthen; and a
    checksum, so that all ways are seen to give the same."""
    tokens = checksum = 0
    started, used = time.perf_counter(), time.process_time()
    for batch in way(batches):
        tokens += batch.numel()
        checksum += int(batch[0, 0]) + int(batch[-1, -1])
    return tokens / (time.perf_counter() - started), tokens / (time.process_time() - used), checksum


def measure(num_tokens: int, rounds: int, folder: str) -> bool:
    source = RandomTokens(num_tokens)
    order = EpochOrder(source.split("train"), batch_size=BATCH_SIZE, seed=0)
    stream = source.content.tables["train"]["tokens"]
    assert isinstance(stream, Ragged)
    ways = {
        "A  headtohead, one index per batch": ours(source),
        "A' the same, documents kept apart": ours(RandomTokens(num_tokens, "apart")),
        "B  Dataset and DataLoader per item": per_item(stream.values),
        "C  datasets with torch format": torch_format(stream.values, f"{folder}/rows"),
    }
    rates: dict[str, list[float]] = {name: [] for name in ways}
    own_rates: dict[str, list[float]] = {name: [] for name in ways}
    for epoch in range(rounds):
        batches = order.epoch(epoch)
        sums = set()
        for name, way in ways.items():
            share = batches if name.startswith("A") else batches[: max(len(batches) // 10, 1)]
            rate, own_rate, checksum = tokens_per_second(way, share)
            rates[name].append(rate)
            own_rates[name].append(own_rate)
            if not name.startswith("A"):
                sums.add((checksum, tokens_per_second(ways["A  headtohead, one index per batch"], share)[2]))
        assert all(one == other for one, other in sums), "the ways give different rows"
    for name, values in rates.items():
        low, high = min(values) / 1e6, max(values) / 1e6
        clock, own = statistics.median(values) / 1e6, statistics.median(own_rates[name]) / 1e6
        print(f"{name:38} {clock:8.1f} M tokens/s ({low:.1f} to {high:.1f}); {own:.1f} per processor second")
    return statistics.median(rates["A  headtohead, one index per batch"]) >= TARGET_TOKENS_PER_SECOND


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HEADTOHEAD_CACHE"] = f"{folder}/cache"
        print(f"{chosen.tokens:,} tokens, rows of {CONTEXT_LENGTH + 1}, batches of {BATCH_SIZE}, one process")
        reached = measure(chosen.tokens, chosen.rounds, folder)
    print(f"target {TARGET_TOKENS_PER_SECOND / 1e6:.0f} M tokens/s: {'reached' if reached else 'MISSED'}")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
