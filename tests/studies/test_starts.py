"""Runs that start from a file are other runs once the file is another."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from headtohead.config.run_id import run_id, start_content
from studies.small_studies import write_run

CONFIG: dict[str, Any] = {"trainer": {"max_steps": 4}, "seed": 0}


def started_from(origin: str | Path | None) -> str:
    return run_id({**CONFIG, "init_from": None if origin is None else str(origin)})


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    """A run with weights."""
    folder = tmp_path / "outputs" / "before"
    write_run(folder)
    (folder / "checkpoints").mkdir()
    (folder / "checkpoints" / "best.ckpt").write_bytes(b"weights")
    return folder


def test_a_run_is_another_once_the_weights_it_starts_from_are(trained: Path) -> None:
    before = started_from(trained)
    (trained / "checkpoints" / "best.ckpt").write_bytes(b"weighty")
    assert started_from(trained) != before != started_from(None)


def test_a_rewritten_file_of_the_same_length_and_time_is_seen(trained: Path) -> None:
    """A copy that preserves times makes such a file."""
    file = trained / "checkpoints" / "best.ckpt"
    before, message = started_from(trained), file.stat()
    (trained / "new").write_bytes(b"weighty")
    os.utime(trained / "new", ns=(message.st_atime_ns, message.st_mtime_ns))
    (trained / "new").replace(file)
    assert started_from(trained) != before


def test_the_same_weights_elsewhere_make_the_same_run(trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained, tmp_path / "copied")
    ways = (trained, f"run:{trained}", trained / "record.json", tmp_path / "copied")
    assert len({started_from(way) for way in ways}) == 1


def test_a_tokenizer_is_part_of_what_is_started_from(trained: Path) -> None:
    before = started_from(trained)
    (trained / "tokenizer.json").write_text("{}", encoding="utf-8")
    assert started_from(trained) != before


def test_a_published_folder_counts_by_its_files_and_a_commit_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    (tmp_path / "model.safetensors").write_bytes(b"a")
    before = start_content(f"hf:{tmp_path}")
    (tmp_path / "model.safetensors").write_bytes(b"bc")
    assert start_content(f"hf:{tmp_path}") != before
    assert start_content("hf:team/model@0123abc") == "hf:team/model@0123abc"


def test_the_id_of_a_foundation_stands_for_itself_whatever_lies_around(
    trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(trained)
    assert start_content("0123456789ab") == "0123456789ab"
