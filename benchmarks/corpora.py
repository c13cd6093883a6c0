"""How fast text becomes tokens, and how fast a stream hands rows out, against `datasets` streaming.

    python benchmarks/corpora.py [--megabytes 16] [--rounds 3]

Tokenizing: a BPE over a corpus, by one process and by two, with the threads of the `tokenizers` library and without.
Streaming: A is data=stream when its tokens are made on the way, A' the same when they are on disk already, B is a
`datasets` IterableDataset over the same Parquet files with the same tokenizer, a shuffling buffer and packed rows.
Times are by the clock; rates per processor second are beside them, since other programs lengthen the clock's.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pyarrow as pa
import torch
from pyarrow import parquet

from headtohead.data.generated.grammar_lm import GrammarCorpus
from headtohead.data.language import encoded
from headtohead.data.order import order_of
from headtohead.data.storage import ragged
from headtohead.data.streaming.corpus import StreamedCorpus
from headtohead.data.tokenizers import Tokenizer, train_tokenizer
from headtohead.data.tokenizing import PROCESSES, shared_out

VOCAB_SIZE, CONTEXT_LENGTH, BATCH_SIZE, ROW_GROUP, PIECES = 4096, 512, 64, 1000, 8


def documents(megabytes: int) -> list[str]:
    """Of a few thousand characters, as pages of the web are."""
    source = GrammarCorpus(num_train=20_000, num_validation=1, num_test=1)
    sentences = list(source.samples()["train"])
    drawn = np.random.default_rng(0)
    texts, size = [], 0
    while size < megabytes * 10**6:
        texts.append(" ".join(sentences[place] for place in drawn.integers(len(sentences), size=12)))
        size += len(texts[-1])
    return texts


def processor_seconds() -> float:
    """Of this process and of those it started that have ended."""
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in spent)


def timed(work: Callable[[], int]) -> tuple[float, float]:
    """Units per second of the clock, and per processor second."""
    started, used = time.perf_counter(), processor_seconds()
    done = work()
    return done / (time.perf_counter() - started), done / (processor_seconds() - used)


def tell(name: str, rates: list[tuple[float, float]], unit: str) -> None:
    clock, own = (statistics.median(column) / 1e6 for column in zip(*rates, strict=True))
    low, high = min(rate[0] for rate in rates) / 1e6, max(rate[0] for rate in rates) / 1e6
    print(f"{name:52} {clock:8.2f} M {unit}/s ({low:.2f} to {high:.2f}); {own:.2f} per processor second")


def tokenizing(texts: list[str], tokenizer: Tokenizer, rounds: int) -> None:
    size = sum(map(len, texts))
    ways = {
        "one process, threads of the library": ("1", "true"),
        "one process, one thread": ("1", "false"),
        "two processes": ("2", "true"),
    }
    rates: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, (processes, threads) in ways.items():
            os.environ[PROCESSES], os.environ["TOKENIZERS_PARALLELISM"] = processes, threads

            def work() -> int:
                shared_out(partial(encoded, tokenizer), texts, doing="tokenizing")
                return size

            rates[name].append(timed(work))
    for name, found in rates.items():
        tell(f"tokenizing, {name}", found, "characters")
    os.environ[PROCESSES] = "1"


def ours(folder: Path, num_steps: int) -> int:
    source = StreamedCorpus(
        folder=str(folder), num_validation=100, num_test=100, num_learned=1_000, lanes=4, shuffle_buffer=1_000,
        context_length=CONTEXT_LENGTH, batch_size=BATCH_SIZE, tokenizer="bpe", vocab_size=VOCAB_SIZE,
    )  # fmt: skip
    split = source.split("train")
    order = order_of(split, batch_size=BATCH_SIZE, seed=0)
    tokens = 0
    for step in range(num_steps):
        batch = split.batch(order.step(step)[1]).tokens
        assert batch is not None
        tokens += batch.numel()
    return tokens


def theirs(folder: Path, tokenizer: Tokenizer, num_steps: int) -> int:
    import datasets

    files = sorted(str(file) for file in folder.glob("*.parquet"))
    stream = datasets.load_dataset("parquet", data_files=files, split="train", streaming=True)

    def tokenized(rows: dict[str, list[str]]) -> dict[str, list[list[int]]]:
        found = tokenizer.framed(tokenizer.encode(rows["text"]))
        return {"tokens": [found[row].tolist() for row in range(len(found))]}

    def packed() -> Iterator[list[int]]:
        left: list[int] = []
        shuffled = stream.shuffle(seed=0, buffer_size=1_000)
        for row in shuffled.map(tokenized, batched=True, batch_size=ROW_GROUP, remove_columns=["text"]):
            left += row["tokens"]
            while len(left) > CONTEXT_LENGTH:
                yield left[: CONTEXT_LENGTH + 1]
                left = left[CONTEXT_LENGTH:]

    rows, tokens = packed(), 0
    for _ in range(num_steps):
        tokens += torch.tensor([next(rows) for _ in range(BATCH_SIZE)]).numel()
    return tokens


def streaming(texts: list[str], tokenizer: Tokenizer, rounds: int, root: Path) -> None:
    folder = root / "corpus"
    folder.mkdir()
    for piece, part in enumerate(np.array_split(np.array(texts, dtype=object), PIECES)):
        table = pa.table({"text": part.tolist()})
        parquet.write_table(table, folder / f"train-{piece:05d}.parquet", row_group_size=ROW_GROUP)
    num_tokens = len(ragged(encoded(tokenizer, texts[:1_000]), "tokens").values) * len(texts) // 1_000
    num_steps = int(0.6 * num_tokens / (BATCH_SIZE * CONTEXT_LENGTH))
    os.environ["HEADTOHEAD_CACHE"] = str(root / "prepared")
    ours(folder, 1)
    rates: dict[str, list[tuple[float, float]]] = {"A": [], "A'": [], "B": []}
    for _ in range(rounds):
        for units in (root / "prepared").glob("stream_units/*/*"):
            units.unlink()
        rates["A"].append(timed(partial(ours, folder, num_steps)))
        rates["A'"].append(timed(partial(ours, folder, num_steps)))
        rates["B"].append(timed(partial(theirs, folder, tokenizer, num_steps)))
    print(f"{num_steps} batches of {BATCH_SIZE} rows of {CONTEXT_LENGTH + 1} tokens")
    tell("A  data=stream, tokenized on the way", rates["A"], "tokens")
    tell("A' data=stream, tokens on disk already", rates["A'"], "tokens")
    tell("B  datasets streaming, mapped, shuffled and packed", rates["B"], "tokens")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    texts = documents(chosen.megabytes)
    tokenizer = train_tokenizer("bpe", texts[:500], VOCAB_SIZE)
    print(f"{len(texts):,} documents, {sum(map(len, texts)) / 1e6:.0f} MB; {os.cpu_count()} processors")
    tokenizing(texts, tokenizer, chosen.rounds)
    with tempfile.TemporaryDirectory() as folder:
        streaming(texts, tokenizer, chosen.rounds, Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
