"""A corpus read as a stream: its order, its parts for devices and loader processes, what is on disk of it."""

from __future__ import annotations

import errno
import pickle
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
import yaml
from pyarrow import parquet
from torch.utils.data import DataLoader, Dataset

from data.small_sources import CONF
from from_fields import fields_taken, from_fields
from headtohead.data.batches.batch import Batch
from headtohead.data.batches.row_order import Order, order_of
from headtohead.data.cache.arrow_columns import ragged
from headtohead.data.data_source import DataError
from headtohead.data.streaming.shard_cache import ShardCache
from headtohead.data.streaming.streamed_corpus import StreamedCorpus, StreamedRows
from headtohead.tasks.masked_lm import MaskedLanguageModelling
from headtohead.training.loop.data_module import TrainingBatches as TrainingSteps

NUM_FILES, NUM_GROUPS, DOCUMENTS = 3, 4, 20
FIRST_PASS = (1 << 54) - 1
"""The bits of a row's number below the pass in which it is read."""
HELD_OUT = {"num_validation": 7, "num_test": 9, "num_learned": 40}


def text_of(number: int) -> str:
    """Return a text of varying length, different for every number; the letters name the document."""
    name = np.base_repr(number, 26).lower()
    return f"{name}: " + f"{name} is told again, " * (1 + number * 7 % 11)


def written(folder: Path) -> Path:
    """Write files of row groups, as data sets of text are published."""
    (folder / "data").mkdir(parents=True)
    for file in range(NUM_FILES):
        numbers = range(file * NUM_GROUPS * DOCUMENTS, (file + 1) * NUM_GROUPS * DOCUMENTS)
        table = pa.table({"text": [text_of(number) for number in numbers], "id": [str(number) for number in numbers]})
        path = folder / "data" / f"train-{file:05d}-of-{NUM_FILES:05d}.parquet"
        parquet.write_table(table, path, row_group_size=DOCUMENTS)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("corpus"))


def test_yaml_says_what_the_constructor_takes_by_itself() -> None:
    chosen = yaml.safe_load((CONF / "stream.yaml").read_text())
    assert chosen.pop("_target_").rpartition(".")[2] == "StreamedCorpus"
    assert chosen == dict(fields_taken(StreamedCorpus))


Make = Callable[..., StreamedCorpus]


@pytest.fixture
def corpus(folder: Path) -> Make:
    def make(**fields: object) -> StreamedCorpus:
        settings = {
            "folder": str(folder), "tokenizer": "byte", "context_length": 24, "batch_size": 12, "lanes": 3,
            "shuffle_buffer": 40, **HELD_OUT, **fields,
        }  # fmt: skip
        return from_fields(StreamedCorpus, **settings)  # type: ignore[arg-type]

    return make


def rows_of(source: StreamedCorpus) -> StreamedRows:
    split = source.split("train")
    assert isinstance(split, StreamedRows)
    return split


def trained_texts() -> list[str]:
    return [text_of(number) for number in range(16, NUM_FILES * NUM_GROUPS * DOCUMENTS)]


def read(source: StreamedCorpus, order: Order, steps: range) -> list[str]:
    """Return the texts of so many batches, row by row."""
    split = rows_of(source)
    texts = []
    for step in steps:
        batch = split.batch(order.step(step)[1])
        assert batch.tokens is not None
        texts += [source.decode(row.tolist()) for row in batch.tokens]
    return texts


def same(first: Batch, second: Batch) -> bool:
    assert first.tokens is not None and second.tokens is not None
    return torch.equal(first.tokens, second.tokens)


def all_rows(source: StreamedCorpus) -> np.ndarray:
    split = rows_of(source)
    shards = range(NUM_FILES * NUM_GROUPS)
    return np.concatenate([(shard << 32) + np.arange(split.num_rows(shard)) for shard in shards])


def test_every_byte_of_every_train_document_is_in_exactly_one_row(corpus: Make) -> None:
    source = corpus()
    split = rows_of(source)
    batch = split.batch(all_rows(source))
    assert batch.tokens is not None and batch.valid is not None and batch.num_bytes is not None
    targets = batch.tokens[:, 1:][batch.valid[:, 1:]].tolist()
    assert int(batch.num_bytes) == sum(len(text.encode()) for text in trained_texts())
    special = source.tokenizer.special
    whole = bytes(token - 5 for token in targets if token >= 5).decode()
    assert whole == "".join(trained_texts())
    # each unit's first start token is read and never predicted
    assert targets.count(special.eos) == len(trained_texts())
    assert targets.count(special.bos) == len(trained_texts()) - NUM_FILES * NUM_GROUPS
    short = (~batch.valid).any(1)
    assert int(short.sum()) <= NUM_FILES * NUM_GROUPS


def test_first_documents_are_held_out_and_none_of_their_texts_is_trained_on(corpus: Make, tmp_path: Path) -> None:
    source = corpus()
    for name, numbers in {"test": range(9), "validation": range(9, 16)}.items():
        table = ragged(source.content.tables[name], "tokens")
        held_out = [source.decode(table[row].tolist()) for row in range(len(table))]
        assert held_out == [text_of(number) for number in numbers]
    folder = tmp_path / "doubled"
    folder.mkdir()
    texts = [text_of(number) for number in [*range(30), 3, 12, 5, 40]]
    parquet.write_table(pa.table({"text": texts}), folder / "train.parquet", row_group_size=10)
    doubled = corpus(folder=str(folder))
    cache = doubled._cache()
    saved: Counter[str] = Counter()
    for shard in range(3):  # the first is held out as a whole
        if cache.size(shard):
            documents = ragged(cache.table(shard), "tokens")
            saved.update(doubled.decode(documents[row].tolist()) for row in range(len(documents)))
    assert saved == Counter(text_of(number) for number in [*range(16, 30), 40])


def test_one_pass_brings_every_row_once_in_every_lane(corpus: Make) -> None:
    source = corpus()
    order = order_of(rows_of(source), batch_size=12, seed=0)
    steps = [order.step(step) for step in range(400)]
    first: Counter[int] = Counter()
    for lane in range(3):
        own = set(range(lane, NUM_FILES * NUM_GROUPS, 3))
        rows = [row & FIRST_PASS for _, result in steps for row in result.tolist() if (row & FIRST_PASS) >> 32 in own]
        size = sum(rows_of(source).num_rows(shard) for shard in own)
        assert len(set(rows[:size])) == size and set(rows[:size]) == set(rows[size : 2 * size])
        assert rows[:size] != rows[size : 2 * size]
        first.update(rows[:size])
    assert set(first) == set(all_rows(source).tolist()) and set(first.values()) == {1}


def test_epoch_counts_the_passes_of_the_lane_that_is_least_far(corpus: Make) -> None:
    source = corpus()
    order = order_of(rows_of(source), batch_size=12, seed=0)
    epochs = [order.step(step)[0] for step in range(400)]
    sizes = [sum(rows_of(source).num_rows(shard) for shard in range(lane, 12, 3)) for lane in range(3)]
    assert epochs == [step * 4 // max(sizes) for step in range(400)]


@pytest.mark.parametrize("batch_size", [12, 8, 5, 1])
def test_devices_share_every_batch_without_overlap(corpus: Make, batch_size: int) -> None:
    split = rows_of(corpus())
    whole, parts = (order_of(split, batch_size=batch_size, seed=4) for _ in range(2))
    for step in (0, 1, 7, 50):
        for world_size in (2, 3):
            shares = [parts.step(step, rank=rank, world_size=world_size)[1] for rank in range(world_size)]
            assert np.array_equal(np.concatenate(shares), whole.step(step)[1])


def test_a_device_reads_the_units_of_its_own_lanes_alone(
    corpus: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path))
    split = rows_of(corpus(lanes=4))
    order = order_of(split, batch_size=12, seed=0)
    for step in range(30):
        split.batch(order.step(step, rank=1, world_size=2)[1])
    made = set(split._cache.known_sizes())
    assert made and {shard % 4 for shard in made} == {2, 3}


def test_order_follows_from_the_seed_and_rows_do_not(corpus: Make) -> None:
    split = rows_of(corpus())
    one, again, other = (order_of(split, batch_size=12, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one.step(3)[1], again.step(3)[1])
    assert not np.array_equal(one.step(3)[1], other.step(3)[1])
    rows = one.step(3)[1]
    assert same(rows_of(corpus()).batch(rows), split.batch(rows))


def test_rows_of_a_window_come_in_random_order_and_from_every_lane(corpus: Make) -> None:
    order = order_of(rows_of(corpus()), batch_size=12, seed=0)
    rows = order.step(0)[1]
    assert Counter((rows >> 32) % 3) == {0: 4, 1: 4, 2: 4}
    of_first_lane = np.concatenate([order.step(step)[1][:4] for step in range(10)])
    shards = of_first_lane >> 32
    assert len(set(shards.tolist())) == 2  # forty documents are two units
    assert (np.diff(of_first_lane) < 0).any() and np.count_nonzero(np.diff(shards)) > 5


def test_any_step_is_reached_at_once_with_the_tokens_of_none_before_it(
    corpus: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path))
    monkeypatch.setattr(ShardCache, "prefetch", lambda *_: None)
    walked = corpus()
    expected = read(walked, order_of(rows_of(walked), batch_size=12, seed=5), range(40))
    for path in tmp_path.glob("stream_units/*/*.arrow"):
        path.unlink()
    fresh = corpus()
    assert read(fresh, order_of(rows_of(fresh), batch_size=12, seed=5), range(30, 40)) == expected[30 * 12 :]
    assert len(list(tmp_path.glob("stream_units/*/*.arrow"))) < NUM_FILES * NUM_GROUPS


def test_another_machine_finds_the_same_step(corpus: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = corpus()
    expected = read(first, order_of(rows_of(first), batch_size=12, seed=5), range(55, 60))
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path))
    second = corpus()
    assert read(second, order_of(rows_of(second), batch_size=12, seed=5), range(55, 60)) == expected


class Steps(Dataset[tuple[int, int, list[int], list[list[int]]]]):
    """The rows that one device's loader processes read."""

    def __init__(self, source: StreamedCorpus, rank: int) -> None:
        self.split, self.rank = source.split("train"), rank
        self.order = order_of(self.split, batch_size=12, seed=0)

    def __getitem__(self, step: int) -> tuple[int, int, list[int], list[list[int]]]:
        rows = self.order.step(step, rank=self.rank, world_size=2)[1]
        batch = self.split.batch(rows)
        assert batch.tokens is not None
        return step, self.rank, rows.tolist(), batch.tokens.tolist()


@pytest.mark.process
def test_two_devices_with_two_processes_each_read_what_one_process_reads(
    corpus: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "two"))
    result: dict[int, list[tuple[int, list[list[int]]]]] = {}
    num_steps = 120
    for rank in range(2):
        loader = DataLoader(Steps(corpus(), rank), batch_size=None, sampler=range(num_steps), num_workers=2)
        for step, own_rank, rows, tokens in loader:
            result.setdefault(step, []).extend((row, text) for row, text in zip(rows, tokens, strict=True))
            assert own_rank == rank
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "one"))
    source = corpus()
    order = order_of(rows_of(source), batch_size=12, seed=0)
    for step in range(num_steps):
        rows = order.step(step)[1]
        tokens = rows_of(source).batch(rows).tokens
        assert tokens is not None
        assert result[step] == list(zip(rows.tolist(), tokens.tolist(), strict=True))
    assert {row & FIRST_PASS for rows in result.values() for row, _ in rows} == set(all_rows(source).tolist())


@pytest.mark.slow
def test_masks_are_those_of_one_device_also_where_lanes_are_not_equally_far(corpus: Make) -> None:
    """Each of three devices reads a lane of its own, and some begin their next pass before others do."""
    source = corpus()
    task, split = MaskedLanguageModelling().bind(source.spec()), rows_of(source)
    order = order_of(split, batch_size=12, seed=0)
    shared: dict[str, Any] = {"seed": 7, "accumulate": 1}
    whole = TrainingSteps(split, task, order, rank=0, world_size=1, **shared)
    devices = [TrainingSteps(split, task, order, rank=rank, world_size=3, **shared) for rank in range(3)]
    apart = 0
    seen: dict[int, list[list[int]]] = {}
    for step in range(140):
        (expected,), parts = whole[step].parts, [device[step] for device in devices]
        apart += len({part.epoch for part in parts}) > 1
        for name in ("rows", "tokens", "targets"):
            own = [getattr(part.parts[0], name) for part in parts]
            assert torch.equal(torch.cat(own), getattr(expected, name)), name
        assert expected.tokens is not None
        for row, tokens in zip(expected.rows.tolist(), expected.tokens.tolist(), strict=True):
            seen.setdefault(row & FIRST_PASS, []).append(tokens)
    assert apart > 5, "else nothing is shown"
    again = [rows for rows in seen.values() if len(rows) > 1]
    assert len(again) > 100 and sum(rows[0] != rows[1] for rows in again) > 0.9 * len(again)


@pytest.mark.slow
def test_disk_holds_as_much_as_was_requested(corpus: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "plenty"))
    plenty = corpus()
    expected = read(plenty, order_of(rows_of(plenty), batch_size=12, seed=0), range(40))
    sizes = {path.stat().st_size for path in (tmp_path / "plenty").glob("stream_units/*/*.arrow")}
    room = 3 * max(sizes)
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "tight"))
    tight = corpus(keep_gigabytes=room / 1e9)
    split = rows_of(tight)
    monkeypatch.setattr("headtohead.data.streaming.shard_cache._OPEN", 2)
    monkeypatch.setattr(ShardCache, "prefetch", lambda *_: None)
    order = order_of(split, batch_size=12, seed=0)
    texts = []
    for step in range(40):
        texts += read(tight, order, range(step, step + 1))
        saved = [path.stat().st_size for path in (tmp_path / "tight").glob("stream_units/*/*.arrow")]
        assert sum(saved) <= room
    assert texts == expected


def test_a_source_travels_without_its_rows(corpus: Make) -> None:
    source = corpus()
    split = rows_of(source)
    order = order_of(split, batch_size=12, seed=3)
    other_split, other_order = pickle.loads(pickle.dumps((split, order)))
    rows = order.step(9)[1]
    assert np.array_equal(other_order.step(9)[1], rows)
    assert same(other_split.batch(rows), split.batch(rows))


def test_damaged_tokens_are_made_anew(corpus: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path))
    first = corpus()
    expected = read(first, order_of(rows_of(first), batch_size=12, seed=0), range(20))
    for path in tmp_path.glob("stream_units/*/*.arrow"):
        path.write_bytes(path.read_bytes()[:100])
    second = corpus()
    assert read(second, order_of(rows_of(second), batch_size=12, seed=0), range(20)) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"packing": "none"}, "data.packing=none pads each document .*: choose apart or stream"),
        ({"text_column": "story"}, "data.text_column=story is not a column of .*, which has text, id: choose one"),
        ({"lanes": 0}, "data.lanes=0 must be at least 1"),
        ({"shuffle_buffer": 0}, "data.shuffle_buffer=0 must be at least 1"),
        ({"keep_gigabytes": 0.0}, "data.keep_gigabytes=0.0 must be above 0"),
        ({"num_test": 500}, "no document left after data.num_validation and data.num_test, 507 in sum: lower them"),
        ({"train_split": "tarin"}, "has no split 'tarin', it has 'train'"),
    ],
)
def test_a_wrong_field_is_refused_in_one_sentence(corpus: Make, fields: dict[str, object], expected: str) -> None:
    with pytest.raises(DataError, match=expected):
        corpus(**fields).prepare()


def test_a_file_that_is_cut_short_is_reported(corpus: Make, tmp_path: Path) -> None:
    whole = written(tmp_path / "corpus")
    path = sorted((whole / "data").iterdir())[1]
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match=r"00001-of-00003\.parquet cannot be read as Parquet"):
        corpus(folder=str(whole)).prepare()


def test_what_a_killed_process_left_of_a_unit_is_removed_and_the_unit_made(
    corpus: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path))
    folder = rows_of(corpus())._cache._folder
    (folder / "0000003.unfinished").write_bytes(b"half")
    (folder / "sizes").write_bytes(b"3 12")  # a line that was not written to its end
    cache = rows_of(corpus())._cache
    assert not list(folder.glob("*.unfinished"))
    assert cache.size(3) == len(ragged(cache.table(3), "tokens").values) > 12


def test_a_full_disk_is_reported_and_keeps_no_half_of_a_unit(
    corpus: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path))
    cache = rows_of(corpus())._cache

    def full(path: Path, table: object) -> None:
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("headtohead.data.streaming.shard_cache.write_table", full)
        with pytest.raises(DataError, match=r"the disk is full .* set HEADTOHEAD_CACHE to a folder on a larger disk"):
            cache.table(3)
    assert not list(cache._folder.glob("0000003.*"))
    assert len(cache.table(3)) == 2
