"""Checkpoints by their names on the hub, without a network: from what was downloaded before, or one clear sentence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants
from huggingface_hub.errors import EntryNotFoundError

import headtohead as h2h
from headtohead.config.errors import ConfigurationError
from headtohead.pretrained import hub_checkpoint
from headtohead.pretrained.hub_checkpoint import open_checkpoint
from pretrained.published_folders import write_gpt2

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Provide an empty cache, and no access to the hub."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    hub_checkpoint._reachable.cache_clear()
    yield tmp_path
    hub_checkpoint._reachable.cache_clear()


def downloaded(cache: Path) -> Path:
    """Write a download in the layout of the hub's own cache."""
    repository = cache / "models--somebody--small"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(COMMIT, encoding="utf-8")
    folder = repository / "snapshots" / COMMIT
    write_gpt2(folder)
    return folder


def test_a_name_that_cannot_be_reached_is_refused_in_one_sentence(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        h2h.compose("train", ["init_from=hf:somebody/small"])
    sentence = str(refusal.value)
    assert "init_from=hf:somebody/small is not a folder here, and the hub cannot be reached" in sentence
    assert "init_from=hf:/PATH/TO/FOLDER" in sentence and "\n" not in sentence
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("origin", "sentence"),
    [
        ("hf:/nowhere/at/all", "there is no such folder; correct the path"),
        ("hf:", "names nothing: write hf:NAME, hf:NAME@REVISION or hf:FOLDER"),
        ("hf:a b/c", "is neither a folder here nor a name on the hub"),
    ],
)
def test_an_origin_that_is_neither_name_nor_folder_is_refused(origin: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        open_checkpoint(origin)


def test_what_was_downloaded_is_used_and_written_down_by_its_commit(cache: Path) -> None:
    folder = downloaded(cache)
    result = open_checkpoint("hf:somebody/small")
    assert result.folder == folder and result.pinned == f"hf:somebody/small@{COMMIT}"
    assert len(result.weights()) == 28
    config = h2h.compose("train", ["init_from=hf:somebody/small"])
    assert config["init_from"] == f"hf:somebody/small@{COMMIT}" and config["model"]["num_layers"] == 2
    assert open_checkpoint(config["init_from"]).folder == folder


def test_pickled_weights_alone_are_not_requested(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (downloaded(cache) / "model.safetensors").unlink()
    result, options = open_checkpoint("hf:somebody/small"), []

    def no_such_entry(name: str, file: str, revision: str | None) -> Path:
        options.append(file)
        raise EntryNotFoundError(file)

    monkeypatch.setattr(hub_checkpoint, "_download", no_such_entry)
    with pytest.raises(ValueError, match=r"has no model\.safetensors: its weights are pickled"):
        result.weights()
    assert options == ["model.safetensors"]
