"""A command without a terminal says which large file it fetches, before it does."""

from __future__ import annotations

from pathlib import Path

import pytest

from headtohead.data.sources.hub import downloads
from headtohead.data.sources.hub.dataset_location import locate_dataset
from headtohead.data.sources.hub.dataset_reference import DatasetReference
from headtohead.progress_lines import written_by_command
from hub_server import hub_of
from published_sets.classification import write_sst2

NAME = "stanfordnlp/sst2"


@pytest.mark.slow
def test_a_large_file_is_named_before_it_is_fetched_and_not_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_sst2(tmp_path / "sst2")
    capsys.readouterr()  # what the library that wrote it said
    monkeypatch.setattr(downloads, "_LONG", 1)
    with hub_of({NAME: tmp_path / "sst2"}, monkeypatch, tmp_path / "caches"), written_by_command():
        located = locate_dataset(DatasetReference(NAME))
        for expected in (f"fetching data/train-00000-of-00001.parquet of {NAME} (0 of 1 files)\n", ""):
            downloads.fetch_file(located, "train")
            assert capsys.readouterr().err == expected
