"""A file that the package replaces is the old one or the new one, whatever happens while it is written."""

from __future__ import annotations

import errno
import io
import os
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from faulty_disk import FullDisk, Operation, RecordingDisk, states_after_a_power_cut
from headtohead.files import disk_operations as files_disk
from headtohead.files.atomic_write import (
    append_text,
    remove_unfinished,
    replace_bytes,
    replace_file,
    replace_text,
    require_space,
)
from headtohead.files.disk_operations import OutOfDisk, is_full
from headtohead.training.checkpoints import save


def test_what_a_library_writes_comes_out_as_it_would_without_us(tmp_path: Path) -> None:
    numbers = {"a": np.arange(1000), "b": np.ones((3, 4))}
    replace_file(tmp_path / "x.npz", lambda file: np.savez_compressed(file, **numbers))
    save({"model": {"w": torch.arange(10.0)}}, tmp_path / "x.ckpt")

    with np.load(tmp_path / "x.npz") as result:
        assert all(np.array_equal(result[name], values) for name, values in numbers.items())
    assert torch.load(tmp_path / "x.ckpt", weights_only=True)["model"]["w"].tolist() == list(range(10))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.ckpt", "x.npz"]


def test_a_power_cut_at_any_moment_leaves_the_old_file_or_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every prefix of what is asked of the disk is replayed, with unsynced bytes and unsynced names there or lost."""
    disk = RecordingDisk()
    monkeypatch.setattr(files_disk, "system", disk)
    path = tmp_path / "record.json"
    texts = [b"first" * 10, b"second" * 7, b"third" * 30]
    for text in texts:
        replace_bytes(path, text)
        disk.operations.append(Operation("returned", str(path), text))

    seen = set()
    for state in states_after_a_power_cut(disk.operations):
        if (content := state.get(str(path))) is not None:
            assert content in texts, "half a file bears the name of a whole one"
            seen.add(content)
    assert seen == set(texts)


def test_what_was_written_when_the_call_returns_survives_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = RecordingDisk()
    monkeypatch.setattr(files_disk, "system", disk)
    save({"model": {"w": torch.zeros(2000)}}, tmp_path / "last.ckpt")

    whole = (tmp_path / "last.ckpt").read_bytes()

    done = len(list(states_after_a_power_cut(disk.operations[:-1])))
    after = list(states_after_a_power_cut(disk.operations))[done:]
    assert after and all(state == {str(tmp_path / "last.ckpt"): whole} for state in after)


@pytest.mark.parametrize("left_out", ["sync", "sync_folder"])
def test_the_replay_finds_a_sync_that_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left_out: str
) -> None:
    disk = RecordingDisk()
    monkeypatch.setattr(files_disk, "system", disk)
    path = tmp_path / "record.json"
    for text in (b"old" * 10, b"new" * 10):
        replace_bytes(path, text)
    operations = [one for one in disk.operations if one.kind != left_out]

    done = len(list(states_after_a_power_cut(operations[:-1])))
    last = [state.get(str(path)) for state in list(states_after_a_power_cut(operations))[done:]]

    assert any(content != b"new" * 10 for content in last)


@pytest.mark.parametrize("after", [0, 1])
@pytest.mark.parametrize("library", ["bytes", "torch", "numpy"])
def test_a_full_disk_is_reported_with_the_file_and_leaves_the_old_one_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str, after: int
) -> None:
    path = tmp_path / "last.ckpt"
    path.write_bytes(b"old")
    monkeypatch.setattr(files_disk, "system", FullDisk("last.ckpt", after=after))
    write = {
        "bytes": lambda: replace_file(path, lambda file: [file.write(b"x" * 2**21) for _ in range(2)]),
        "torch": lambda: save({"model": torch.zeros(2**20)}, path),
        "numpy": lambda: replace_file(path, lambda file: np.savez(file, a=np.zeros(2**20))),
    }[library]

    with pytest.raises(OutOfDisk, match=r"the disk is full: .*last\.ckpt was not written") as message:
        write()

    assert is_full(message.value) and message.value.filename == str(path)
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("last.ckpt", b"old")]


def test_a_checkpoint_that_would_not_fit_is_not_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class AlmostFull(FullDisk):
        def free_bytes(self, folder: Path) -> int:
            return 10**6

    monkeypatch.setattr(files_disk, "system", AlmostFull("never"))
    require_space(tmp_path / "small", 9 * 10**5)
    with pytest.raises(OutOfDisk, match=r"last\.ckpt was not written \(4\.2 MB are needed, and 1\.0 MB are free\)"):
        save({"model": {"w": torch.zeros(2**20)}}, tmp_path / "last.ckpt")
    assert list(tmp_path.iterdir()) == []


def test_lines_that_do_not_fit_are_reported_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "metrics.csv"
    append_text(path, "1\n", header="a\n")
    append_text(path, "2\n", header="a\n")
    assert path.read_text() == "a\n1\n2\n"

    monkeypatch.setattr(files_disk, "system", FullDisk("metrics.csv"))
    with pytest.raises(OutOfDisk, match=r"metrics\.csv"):
        append_text(path, "3\n", header="a\n")


def test_an_error_that_is_none_of_the_disk_stays_as_it_is(tmp_path: Path) -> None:
    def fail(file: io.BufferedIOBase) -> None:
        raise KeyError("no such thing")

    with pytest.raises(KeyError, match="no such thing"):
        replace_file(tmp_path / "x", fail)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
    assert not is_full(OSError(errno.EACCES, "no"))


def test_what_killed_writers_left_is_swept_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    left = [tmp_path / ".record.json.ab12cd34", tmp_path / ".record.json.x.part", folder / "last.ckpt.part"]
    whole = [tmp_path / "record.json", tmp_path / ".hidden", folder / "last.ckpt", tmp_path / ".record.json.orig"]
    for file in [*left, *whole]:
        replace_text(file.with_name("plain"), "x")
        file.with_name("plain").rename(file)

    assert remove_unfinished(tmp_path, older_than=60) == []
    os.utime(left[0], (time.time() - 100,) * 2)
    assert remove_unfinished(tmp_path, older_than=60) == left[:1]
    assert sorted(remove_unfinished(tmp_path)) == sorted(left[1:])
    assert all(file.exists() for file in whole)
