"""Prepared content: written once, whole or not at all, and not trusted when damaged."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from headtohead.data.cache import prepared_content
from headtohead.data.cache.arrow_columns import Ragged, Table
from headtohead.data.cache.prepared_content import MANIFEST, PreparedContent, cache_root, prepared
from headtohead.data.data_source import DataError

CONTENT: dict[str, Table] = {
    "train": {
        "tokens": Ragged(np.arange(5, dtype=np.uint16), np.array([0, 2, 2, 5])),
        "image": np.arange(6, dtype=np.uint8).reshape(3, 2),
        "label": np.array([2, 0, 1], dtype=np.int32),
    }
}


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path))
    return tmp_path


def saved() -> Path:
    """Return the folder of the only content."""
    (folder,) = (path for path in (cache_root() / "numbers").iterdir() if not path.name.startswith("."))
    return folder


def make() -> PreparedContent:
    return PreparedContent(CONTENT, {"names": ["a", "ü"]})


def refuse() -> PreparedContent:
    raise AssertionError("the cache should have been used")


def test_columns_of_every_shape_come_back_as_they_were(own_cache: Path) -> None:
    content = prepared("numbers", {"size": 3}, make)
    table = content.tables["train"]
    tokens, image, label = table["tokens"], table["image"], table["label"]
    assert isinstance(tokens, Ragged) and isinstance(image, np.ndarray) and isinstance(label, np.ndarray)
    assert [tokens[row].tolist() for row in range(3)] == [[0, 1], [], [2, 3, 4]] and tokens.values.dtype == np.uint16
    assert image.tolist() == [[0, 1], [2, 3], [4, 5]] and image.dtype == np.uint8
    assert label.tolist() == [2, 0, 1] and label.dtype == np.int32
    assert content.facts == {"names": ["a", "ü"]}


def test_columns_longer_than_one_batch_of_arrow_are_one_array(own_cache: Path) -> None:
    numbers = np.arange(25_000, dtype=np.int64)
    content = prepared("numbers", {}, lambda: PreparedContent({"train": {"number": numbers}}))
    assert np.array_equal(content.tables["train"]["number"], numbers)  # type: ignore[arg-type]


def test_content_is_made_once(own_cache: Path) -> None:
    first = prepared("numbers", {"size": 3}, make)
    assert prepared("numbers", {"size": 3}, refuse).digest == first.digest


def test_other_parameters_are_other_content(own_cache: Path) -> None:
    prepared("numbers", {"size": 3}, make)
    with pytest.raises(AssertionError, match="cache should have been used"):
        prepared("numbers", {"size": 4}, refuse)


def test_content_is_readable_by_datasets(own_cache: Path) -> None:
    from datasets import Dataset

    prepared("numbers", {"size": 3}, make)
    assert Dataset.from_file(str(saved() / "train.arrow"))[2] == {"tokens": [2, 3, 4], "image": [4, 5], "label": 1}


def test_failure_half_way_leaves_nothing(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path, table: Table) -> None:
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(prepared_content, "write_table", fail)
        prepared("numbers", {}, make)
    assert list((own_cache / "numbers").iterdir()) == []
    assert prepared("numbers", {}, make).facts == {"names": ["a", "ü"]}


OTHER = """
import sys, time
import numpy as np
from headtohead.data.cache import prepared_content
from headtohead.data.cache.prepared_content import PreparedContent, prepared
def make():
    print("making", flush=True)
    return PreparedContent({"train": {"number": np.arange(9)}, "validation": {"number": np.arange(3)}})
write_table = prepared_content.write_table
def slowly(path, table):
    write_table(path, table)
    if path.name == "train.arrow":
        print("half", flush=True)
        sys.stdin.readline()
prepared_content.write_table = slowly
print(prepared("numbers", {}, make).digest)
"""


def other_process() -> subprocess.Popen[str]:
    """Start a process that has written half of the content, and continues on request."""
    other = subprocess.Popen([sys.executable, "-c", OTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    assert [other.stdout.readline(), other.stdout.readline()] == ["making\n", "half\n"]
    return other


def whole() -> PreparedContent:
    return PreparedContent({"train": {"number": np.arange(9)}, "validation": {"number": np.arange(3)}})


@pytest.mark.process
def test_what_a_killed_process_left_is_removed_by_the_next_which_makes_it_anew(own_cache: Path) -> None:
    other = other_process()
    (left,) = (own_cache / "numbers").iterdir()
    assert (left / "train.arrow").exists() and not (left / MANIFEST).exists()
    other.kill()
    other.communicate()
    assert other.returncode == -signal.SIGKILL
    content = prepared("numbers", {}, whole)
    assert np.array_equal(content.tables["train"]["number"], np.arange(9))  # type: ignore[arg-type]
    assert [folder.name for folder in (own_cache / "numbers").iterdir()] == [saved().name]


@pytest.mark.process
def test_of_two_processes_at_once_the_second_waits_and_says_so(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(prepared_content, "_REPORT_AFTER", 0.1)
    other = other_process()
    with ThreadPoolExecutor() as threads, caplog.at_level(logging.INFO, logger="headtohead"):
        waiting = threads.submit(prepared, "numbers", {}, refuse)
        while "waiting for it" not in caplog.text:
            time.sleep(0.01)
        assert not waiting.done()
        message, _ = other.communicate("go\n")
        assert waiting.result().digest == message.strip()
    assert [folder.name for folder in (own_cache / "numbers").iterdir()] == [saved().name]


FULL = """
import resource, signal
import numpy as np
from headtohead.data.cache.prepared_content import PreparedContent, prepared
from headtohead.data.data_source import DataError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
try:
    prepared("numbers", {}, lambda: PreparedContent({"train": {"number": np.arange(50_000)}}))
except DataError as error:
    print(error)
"""


@pytest.mark.process
def test_disk_without_room_is_reported_in_one_sentence_and_keeps_no_half(own_cache: Path) -> None:
    message = subprocess.run([sys.executable, "-c", FULL], capture_output=True, text=True, check=True)
    assert message.stdout.startswith("the disk is full (File too large) while ") and message.stdout.count("\n") == 1
    assert "set HEADTOHEAD_CACHE to a folder on a larger disk" in message.stdout and not message.stderr
    assert list((own_cache / "numbers").iterdir()) == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "train.arrow").write_bytes((folder / "train.arrow").read_bytes()[:-300]),
        lambda folder: (folder / "train.arrow").write_bytes(b""),
        lambda folder: (folder / "train.arrow").write_bytes(b"garbage" * 1000),
        lambda folder: (folder / "train.arrow").unlink(),
        lambda folder: (folder / MANIFEST).write_text("{"),
        lambda folder: (folder / MANIFEST).write_text("{}"),
        lambda folder: (folder / MANIFEST).unlink(),
    ],
    ids=["cut short", "empty", "garbage", "table missing", "manifest cut", "manifest empty", "manifest missing"],
)
def test_damaged_cache_is_refused_with_its_folder_and_the_remedy(own_cache: Path, damage) -> None:  # type: ignore[no-untyped-def]
    prepared("numbers", {}, make)
    damage(saved())
    with pytest.raises(DataError, match=r"is damaged .*: delete it, and it is created again") as refusal:
        prepared("numbers", {}, refuse)
    assert str(saved()) in str(refusal.value)


def test_a_single_changed_value_is_noticed(own_cache: Path) -> None:
    prepared("numbers", {}, make)
    path = saved() / "train.arrow"
    stored = path.read_bytes()
    tokens = np.arange(5, dtype=np.uint16).tobytes()
    assert stored.count(tokens) == 1
    path.write_bytes(stored.replace(tokens, np.array([0, 1, 9, 3, 4], dtype=np.uint16).tobytes()))
    with pytest.raises(DataError, match=r"column tokens of train\.arrow is not what was written"):
        prepared("numbers", {}, refuse)


def test_unwritable_cache_folder_names_the_variable_to_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "file"))
    with pytest.raises(DataError, match="set HEADTOHEAD_CACHE to a folder of yours"):
        prepared("numbers", {}, make)


def test_cache_lies_where_the_variable_says_else_in_the_users_own_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "chosen"))
    assert cache_root() == tmp_path / "chosen"
    monkeypatch.delenv("HEADTOHEAD_CACHE")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_root() == tmp_path / "xdg" / "headtohead"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache_root() == Path.home() / "Library" / "Caches" / "headtohead"
