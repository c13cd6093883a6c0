"""The index answers what the records answer, whatever happened to the folder or to the index."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from headtohead.errors import UsageError
from headtohead.records.index.index_file import index_path
from headtohead.records.index.run_index import RunIndex, UnreadRecord
from headtohead.records.record import Comparability, Environment, Progress, RunRecord, RunTiming, to_json
from headtohead.records.run_folder import RECORD, RunFolder, find_runs
from headtohead.records.run_query import run_filter
from headtohead.records.run_summary import RunSummary, summary_of

TICK = 0.012
"""Seconds after which the file system's clock has gone on: a change shows in a file's times."""
NAMES = ["a", "b", "c", "group/d", "group/e", "group/deep/f", "group/deep/f/inner", ".hidden/g"]


class Clock:
    """A clock of its own, which a test sets forward."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


def drawn_record(folder: Path, rng: random.Random, **fields: Any) -> RunRecord:
    config = {
        "seed": rng.randrange(9),
        "model": {"d_model": rng.choice([32, 64]), "mixer": {"heads": rng.choice([1, 2])}},
        "choices": {"model/mixer": rng.choice(["gru", "attention"])},
        "tags": [],
        "nothing": {},
    }
    value = rng.choice([rng.random(), float("nan"), float("inf"), 1.0])
    return RunRecord(
        **{
            "id": folder.name, "name": rng.choice(["x", "y", 'z {"#": "' + "0" * 32 + '"} \ud800']), "config": config,
            "status": rng.choice(["finished", "diverged", "running"]), "seed": rng.randrange(99),
            "metrics": {"validation": {"loss": rng.random()}, "test": {"loss": value}},
            "costs": {"totals": {"parameters": rng.choice([10, 20])}}, "notes": rng.choice([None, "words"]),
            "environment": Environment(python=rng.choice(["3.11", "3.12"])), "timing": RunTiming("2026-01-01T00:00:00"),
            "comparability": Comparability(data=rng.choice([None, "d"])), "progress": Progress(rng.randrange(9)),
            **fields,
        }
    )  # fmt: skip


def text_of(record: RunRecord) -> bytes:
    return to_json(record).encode("utf-8", "surrogatepass").replace(b"\xed\xa0\x80", b"?")


def put(folder: Path, content: bytes, *, in_place: bool = False) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / RECORD).is_dir():
        (folder / RECORD).rmdir()
    if in_place and not (folder / RECORD).is_symlink():
        (folder / RECORD).write_bytes(content)
    else:
        (folder / "unfinished").write_bytes(content)
        (folder / "unfinished").replace(folder / RECORD)


def change(root: Path, rng: random.Random) -> str:
    """Do one thing to the folder of runs, and say what."""
    folder = root / rng.choice(NAMES)
    file, what = folder / RECORD, rng.randrange(11)
    if what <= 2 or not file.is_file():
        put(folder, text_of(drawn_record(folder, rng)), in_place=what == 1)
        return f"write {folder.name}"
    facts = file.stat()
    if what == 3:
        shutil.rmtree(folder)
    elif what == 4:
        file.unlink()
    elif what == 5:
        os.truncate(file, rng.randrange(facts.st_size))
    elif what in (6, 7):  # as many bytes, and the old time: only what nobody can set back tells
        digit = rng.choice(b"0123456789")
        content = bytearray(file.read_bytes())
        content[content.index(b'"seed": ') + 8] = digit
        put(folder, bytes(content), in_place=what == 6)
        os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    elif what == 8:
        file.unlink()
        file.symlink_to(root / rng.choice(NAMES) / RECORD)
    elif what == 9:
        file.unlink()
        file.mkdir()
        file.rmdir() if rng.random() < 0.7 else None
    else:
        (folder / RECORD).rename(folder / "moved.json")
    return f"{what} {folder.name}"


def whole(answer: object) -> str:
    """Return every field of a record as text; its own `repr` is one line of it."""
    return f"{type(answer).__name__}({vars(answer)!r})"


def fresh(root: Path) -> list[str]:
    """Return what the records themselves say, as text, in which NaN equals NaN."""
    answers = []
    for run in find_runs(root):
        try:
            answers.append(whole(run.read_record()))
        except (UsageError, OSError) as error:
            answers.append(whole(UnreadRecord(str(run.path), str(error))))
    return answers


def answered(index: RunIndex, root: Path) -> list[str]:
    return [whole(answer) for answer in index.records(root)]


def summed_up(root: Path) -> list[str]:
    """Return what each record says in short, where it can be read and its run is over."""
    texts = []
    for run in find_runs(root):
        try:
            record = run.read_record_as_written()
        except (UsageError, OSError):
            continue
        summary = summary_of(record, str(run.path))
        if record.status != "running":
            texts.append(every_field(summary))
    return texts


def every_field(summary: RunSummary) -> str:
    """Return every field of a summary as text, and its configuration also as a filter asks for it, name by name."""
    sought = {name: summary.setting(name, "none") for name in (*sorted(summary.config), "nowhere")}
    named = {field.name: getattr(summary, field.name) for field in fields(summary) if field.name != "sections"}
    return repr((sought, named))


def summaries(index: RunIndex, root: Path) -> list[str]:
    ended = [one for one in index.summaries(root) if one.status not in ("running", "interrupted", "unreadable")]
    return [every_field(one) for one in ended]


def test_the_index_answers_what_the_records_answer(draw_seed: int, tmp_path: Path) -> None:
    rng, clock, root = random.Random(draw_seed), Clock(), tmp_path / "runs"
    root.mkdir()
    file = tmp_path / "index.sqlite"
    first, other = RunIndex(file, clock=clock), RunIndex(file, clock=clock)
    with first, other:
        history = []
        for _ in range(25):
            history.append(change(root, rng))
            if rng.random() < 0.3:  # long enough that the index relies on what it read
                answered(first, root)
                time.sleep(TICK)
                clock.ahead += rng.choice([3.0, 1000.0])
                answered(other, root)
                time.sleep(TICK)
                history.append("wait")
            index = rng.choice([first, other])
            if rng.random() < 0.5:
                assert answered(index, root) == fresh(root), history
            if rng.random() < 0.5:
                assert summaries(index, root) == summed_up(root), history


def settled(tmp_path: Path, number: int = 12) -> tuple[Path, Path, Clock]:
    """A folder of finished runs and an index that relies on what it knows of them."""
    root, file, clock, rng = tmp_path / "runs", tmp_path / "index.sqlite", Clock(), random.Random(0)
    for run in range(number):
        folder = root / f"run{run:02}"
        put(folder, text_of(drawn_record(folder, rng, status="finished")))
    time.sleep(TICK)
    clock.ahead = 1000.0
    with RunIndex(file, clock=clock) as index:
        answered(index, root)
        assert index.work.opened == number
    return root, file, clock


def test_only_what_changed_is_opened(tmp_path: Path) -> None:
    root, file, clock = settled(tmp_path)
    with RunIndex(file, clock=clock) as index:
        list(index.summaries(root))
        answered(index, root)
        assert index.work.opened == 0
        put(root / "run03", text_of(drawn_record(root / "run03", random.Random(5), status="finished")))
        shutil.rmtree(root / "run04")
        assert answered(index, root) == fresh(root)
        assert index.work.opened == 1


def test_flipped_bits_of_the_index_change_no_answer(draw_seed: int, tmp_path: Path) -> None:
    check_damaged("flip", draw_seed, tmp_path)


@pytest.mark.parametrize("damage", ["cut", "empty", "text", "other tables", "no folder", "folder"])
def test_a_damaged_index_changes_no_answer(damage: str, tmp_path: Path) -> None:
    check_damaged(damage, 0, tmp_path)


def check_damaged(damage: str, draw_seed: int, tmp_path: Path) -> None:
    root, file, clock = settled(tmp_path)
    for left in tmp_path.glob("index.sqlite-*"):
        left.unlink()
    rng, content = random.Random(draw_seed), bytearray(file.read_bytes())
    if damage == "flip":
        for _ in range(200):
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        file.write_bytes(content)
    elif damage == "cut":
        os.truncate(file, rng.randrange(len(content)))
    elif damage in ("empty", "text"):
        file.write_text("" if damage == "empty" else "this is not a database " * 500)
    elif damage == "other tables":
        file.unlink()
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("CREATE TABLE run (path TEXT)")
            connection.commit()
    else:
        file.unlink()
        if damage == "folder":
            file.mkdir()
        else:
            file = tmp_path / "nowhere" / "index.sqlite"
    for _ in range(2):
        with RunIndex(file, clock=clock) as index:
            assert answered(index, root) == fresh(root)
            assert summaries(index, root) == summed_up(root)


def test_an_index_that_is_damaged_while_it_is_open_changes_no_answer(tmp_path: Path) -> None:
    root, file, clock = settled(tmp_path)
    with RunIndex(file, clock=clock) as index:
        list(index.summaries(root))
        with file.open("r+b") as handle:
            handle.write(b"\0" * 8192)
        assert answered(index, root) == fresh(root)
        assert answered(index, root) == fresh(root)


def test_readers_and_writers_at_once_all_answer_right(tmp_path: Path) -> None:
    root, file, clock = settled(tmp_path)
    wrong: list[str] = []

    def work(number: int) -> None:
        rng = random.Random(number)
        own = root / f"thread{number}"
        with RunIndex(file, clock=clock) as index:
            for _ in range(8):
                put(own, text_of(drawn_record(own, rng, status="finished")))
                mine = [text for text in answered(index, root) if repr(own) in text]
                if mine != fresh(own):
                    wrong.append(f"{mine} is not {fresh(own)}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_run_whose_process_is_gone_is_interrupted_as_far_as_its_metrics_came(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "runs", name="dies")
    run.write_record(RunRecord(id=run.id))
    run.log(Progress(7, 0, 70, 7e6, 3.5), {"train/loss": 1.0})
    with RunIndex(tmp_path / "index.sqlite") as index:
        (alive,) = index.summaries(tmp_path / "runs")
        assert (alive.status, alive.progress["step"]) == ("running", 7)
        run.mark_abandoned()
        (dead,) = index.summaries(tmp_path / "runs")
        assert (dead.status, dead.progress["step"]) == ("interrupted", 7)
        assert answered(index, tmp_path / "runs") == fresh(tmp_path / "runs")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    yield tmp_path / "cache"


def test_the_index_is_the_users_own_and_never_lies_beside_the_runs(cache: Path, tmp_path: Path) -> None:
    put(tmp_path / "runs" / "a", text_of(drawn_record(tmp_path / "runs" / "a", random.Random(1))))
    before = sorted((tmp_path / "runs").rglob("*"))
    with RunIndex() as index:
        list(index.summaries(tmp_path / "runs"))
    assert sorted((tmp_path / "runs").rglob("*")) == before
    (folder,) = cache.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert all(file.stat().st_mode & 0o077 == 0 for file in folder.iterdir())
    folder.chmod(0o777)
    assert index_path() is None, "a folder in which others write is not read"


def test_what_nobody_asks_for_any_more_is_forgotten(tmp_path: Path) -> None:
    root, file, clock = settled(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    clock.ahead += 61 * 86_400
    with RunIndex(file, clock=clock) as index:
        list(index.summaries(other))
    with closing(sqlite3.connect(file)) as connection:
        counts = [connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("run", "section")]
    assert counts == [0, 0]
    with RunIndex(file, clock=clock) as index:
        assert answered(index, root) == fresh(root)


def test_a_filter_by_a_shared_section_decodes_nothing_else_of_a_run(tmp_path: Path) -> None:
    """A filter that turns away most of ten thousand runs decodes nothing of them that lies apart."""
    root, file, clock = settled(tmp_path)
    with RunIndex(file, clock=clock) as index:
        chosen = [run for run in index.summaries(root) if run_filter("model.d_model>32 model/mixer=gru seed>=0")(run)]
        looked_at = list(index.summaries(root))
    assert 0 < len(chosen) < len(looked_at) and all("results" not in vars(run) for run in chosen)


def test_equal_sections_are_stored_once_and_read_back_as_one_object(tmp_path: Path) -> None:
    root, file, clock = settled(tmp_path)
    with RunIndex(file, clock=clock) as index:
        records = [record for record in index.records(root) if isinstance(record, RunRecord)]
    models = {id(record.config["model"]): json.dumps(record.config["model"]) for record in records}
    assert len(models) == len(set(models.values())) < len(records)
