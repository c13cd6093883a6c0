"""Two processes that want a set at once, and processes that are killed while they fetch or cache it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from from_fields import from_fields
from headtohead.data.sources.hub.hub_tables import HubTables
from hub_server import HubServer, hub_of
from published_sets.classification import write_sst2
from waiting import PATIENCE

pytestmark = [pytest.mark.slow, pytest.mark.process]
NAME = "stanfordnlp/sst2"
TRAIN = "data/train-00000-of-00001.parquet"
PREPARE = f"""
from headtohead.config.instantiate import make
target = "headtohead.data.sources.hub.hub_tables.HubTables"
fields = {{"name": {NAME!r}, "validation_split": "share", "test_split": "validation", "tokenizer": "char"}}
source = make({{"_target_": target, **fields}})
print(source.spec().data_hash)
"""
KILLED_WHILE_CACHING = (
    """
import os, signal
from headtohead.data.cache import prepared_content
write = prepared_content.write_table
def write_and_die(path, table):
    write(path, table)
    os.kill(os.getpid(), signal.SIGKILL)
prepared_content.write_table = write_and_die
"""
    + PREPARE
)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    write_sst2(tmp_path / "sst2")
    with hub_of({NAME: tmp_path / "sst2"}, monkeypatch, tmp_path / "caches") as server:
        yield server


def started(code: str) -> subprocess.Popen[str]:
    """Start a process with the environment of this test: the stand-in hub, and caches of its own."""
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=dict(os.environ))


def prepared() -> str:
    """Prepare the set in this process."""
    ways = {"validation_split": "share", "test_split": "validation", "tokenizer": "char"}
    return from_fields(HubTables, name=NAME, **ways).spec().data_hash  # type: ignore[arg-type]


def unfinished(cache: Path) -> list[Path]:
    return [path for pattern in ("*.incomplete", ".unfinished-*") for path in cache.rglob(pattern)]


def test_two_processes_at_once_fetch_each_file_once_and_read_the_same(hub: HubServer, tmp_path: Path) -> None:
    both = [started(PREPARE) for _ in range(2)]
    message = [process.communicate(timeout=PATIENCE)[0].strip() for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert message[0] == message[1] == prepared()
    assert len(hub.requests_of("GET", TRAIN)) == 1 and unfinished(tmp_path / "caches") == []


def test_a_process_killed_while_it_fetches_leaves_nothing_that_counts(hub: HubServer, tmp_path: Path) -> None:
    hub.held.add(TRAIN)
    with started(PREPARE) as process:
        assert hub.half_sent.wait(PATIENCE)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    hub.held.clear()
    hub.released.set()
    cache = tmp_path / "caches"
    left = unfinished(cache)
    assert len(left) == 1 and not list(cache.rglob("*.arrow")) and not list(cache.rglob("*.parquet"))
    os.utime(left[0], (0, 0))
    assert prepared()
    assert unfinished(cache) == [] and len(list(cache.rglob("train-*.parquet"))) == 1


def test_a_process_killed_while_it_caches_leaves_nothing_that_counts(hub: HubServer, tmp_path: Path) -> None:
    with started(KILLED_WHILE_CACHING) as process:
        process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGKILL
    assert len(unfinished(tmp_path / "caches")) == 1
    assert prepared()
    assert unfinished(tmp_path / "caches") == []
