"""Sets through the real client and a stand-in of the hub: fetched once, read offline, failures in one sentence."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow.parquet import ParquetFile

from from_fields import from_fields
from headtohead.config.build import build_parts
from headtohead.config.compose.composition import compose
from headtohead.data.data_source import DataError
from headtohead.data.sources.hub.dataset_location import locate_dataset
from headtohead.data.sources.hub.dataset_reference import DatasetReference
from headtohead.data.sources.hub.downloads import fetch_file
from headtohead.data.sources.hub.hub_memory import is_fetched
from headtohead.data.sources.hub.hub_tables import HubTables
from hub_server import HubServer, hub_of
from hub_server.serving import commit_of, point_at
from published_sets.classification import write_ag_news, write_sst2
from published_sets.writing import write_card, write_jsonl

NAME = "stanfordnlp/sst2"
TRAIN = "data/train-00000-of-00001.parquet"
WAYS = {"validation_split": "share", "test_split": "validation"}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sst2")
    write_sst2(folder)
    return folder


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "caches"


@pytest.fixture
def hub(repository: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    with hub_of({NAME: repository}, monkeypatch, cache) as server:
        yield server


def sst2(**changed: Any) -> HubTables:
    return from_fields(HubTables, **{"name": NAME, "tokenizer": "char", **WAYS, **changed})


def refusal(**changed: Any) -> str:
    with pytest.raises(DataError) as refused:
        sst2(**changed).prepare()
    message = str(refused.value)
    assert "\n" not in message and message.endswith(".")
    return message


def left_in(cache: Path) -> list[str]:
    """Return the files with rows, complete or not, without locks and the memory of repositories."""
    files = (path.relative_to(cache) for path in cache.rglob("*") if path.is_file())
    return sorted(str(path) for path in files if ".locks" not in path.parts and path.name != "CACHEDIR.TAG")


def rows_in(cache: Path) -> list[str]:
    return [path for path in left_in(cache) if not path.startswith("headtohead/published/")]


def test_a_set_is_fetched_once_and_read_without_a_network_afterwards(
    hub: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = sst2()
    expected = first.spec()
    assert expected.class_names == ("negative", "positive")
    assert len(hub.requests_of("GET", "train-")) == 1 and not hub.requests_of("GET", "test-")
    hub.requested.clear()
    assert sst2().spec() == expected
    assert sst2(max_length=8).spec().max_length == 8
    assert hub.requested == []
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert sst2(max_length=9).spec().max_length == 9 and hub.requested == []


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    """Write reviews and their labels as JSON lines."""
    folder = tmp_path / "lines"
    rows = [{"text": f"it was {('bad', 'good')[row % 2]} {row}", "label": row % 2} for row in range(40)]
    write_jsonl(folder / "train.jsonl", rows)
    return folder


@pytest.mark.parametrize("name", [NAME, "someone/lines"])
def test_files_of_a_commit_are_not_read_again_once_their_rows_are_cached(
    hub: HubServer, lines: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Opening a file of the set may read its end, where a Parquet file has its schema, and nothing else."""
    hub.folders["someone/lines"], hub.commits["someone/lines"] = lines, commit_of(lines)
    ways = WAYS if name == NAME else {}
    make = partial(from_fields, HubTables, name=name, tokenizer="char", **ways)
    expected = make().spec()

    opens = Path.open

    def refuse(path: Any, *provided: Any, **named: Any) -> Any:
        if isinstance(path, Path) and "snapshots" not in path.parts:
            return opens(path, *provided, **named)
        raise AssertionError(f"{path} is read")

    monkeypatch.setattr(Path, "open", refuse)
    monkeypatch.setattr(ParquetFile, "read", refuse)
    again = make()
    assert again.spec() == expected and again.split("train").batch(np.arange(4)).num_samples == 4
    assert again.provenance() == make(revision=hub.commits[name]).provenance()


def test_what_is_remembered_of_a_file_and_damaged_is_found_anew(hub: HubServer, lines: Path, cache: Path) -> None:
    hub.folders["someone/lines"], hub.commits["someone/lines"] = lines, commit_of(lines)
    expected = from_fields(HubTables, name="someone/lines", tokenizer="char").chosen
    (known,) = cache.rglob("columns-*.json")
    for damaged in ("", "[]", '{"column_names": ["text"]}'):
        known.write_text(damaged)
        assert from_fields(HubTables, name="someone/lines", tokenizer="char").chosen == expected


def test_columns_of_a_file_are_not_those_of_another_whatever_their_paths(hub: HubServer, tmp_path: Path) -> None:
    paths = ("a/train.jsonl", "a--train.jsonl", "/".join(["a" * 90] * 3 + ["train.jsonl"]))
    folder = tmp_path / "three"
    for number, path in enumerate(paths):
        rows = [{f"text_{number}": f"it was {row}", f"label_{number}": row % 2} for row in range(40)]
        write_jsonl(folder / path, rows)
    write_card(folder, {"configs": [{"config_name": path[:3], "data_files": path} for path in paths]})
    hub.folders["someone/three"], hub.commits["someone/three"] = folder, commit_of(folder)
    for number, path in enumerate(paths):
        columns = {"text_column": f"text_{number}", "label_column": f"label_{number}"}
        source = from_fields(HubTables, name="someone/three", subset=path[:3], tokenizer="char", **columns)
        assert source.schema.column_names == list(columns.values())
        assert source.chosen[0] == "labelled_text"


def test_a_file_of_a_folder_that_changes_without_changing_its_size_is_other_data(lines: Path) -> None:
    before = from_fields(HubTables, folder=str(lines), tokenizer="char").spec().data_hash
    assert from_fields(HubTables, folder=str(lines), tokenizer="char").spec().data_hash == before
    file = lines / "train.jsonl"
    saved = file.stat()
    file.write_text(file.read_text().replace("it was", "it is!"))
    os.utime(file, ns=(saved.st_atime_ns, saved.st_mtime_ns))
    assert file.stat().st_size == saved.st_size
    assert from_fields(HubTables, folder=str(lines), tokenizer="char").spec().data_hash != before


def test_a_folder_and_the_hub_give_the_same_rows(hub: HubServer, repository: Path) -> None:
    commit = hub.commits[NAME]
    from_hub, from_folder = sst2(revision=commit), sst2(revision=commit, folder=str(repository))
    assert from_hub.spec() == from_folder.spec()
    assert from_hub.provenance() == from_folder.provenance()
    assert from_hub.provenance() == {"set": NAME, "revision": commit, "licence": "unknown"}


def test_a_revision_that_was_not_given_is_resolved_once_and_a_branch_each_time(
    hub: HubServer, repository: Path, tmp_path: Path
) -> None:
    before = sst2()
    old, old_hash = hub.commits[NAME], before.spec().data_hash
    newer = tmp_path / "newer"
    shutil.copytree(repository, newer)
    write_card(newer, {"license": ["mit"]})
    new = commit_of(newer)
    hub.folders[NAME], hub.commits[NAME] = newer, new
    saved = sst2()
    assert saved.provenance()["revision"] == old and saved.spec().data_hash == old_hash
    on_branch = sst2(revision="main")
    assert on_branch.provenance() == {"set": NAME, "revision": new, "licence": "mit"}
    assert on_branch.spec().data_hash != old_hash, "rows of another revision are other rows"


def test_a_run_keeps_the_revision_that_was_found_for_it(hub: HubServer, repository: Path) -> None:
    fields = [f"data.{name}={value}" for name, value in WAYS.items()]
    chosen = ["data=hub", "task=classification", "model=encoder_only", "data.tokenizer=char", *fields]
    parts = build_parts(compose("train", [*chosen, f"data.name={NAME}"]))
    assert parts.config["data"]["revision"] == hub.commits[NAME]
    of_folder = build_parts(compose("train", [*chosen, f"data.folder={repository}"]))
    assert of_folder.config["data"]["revision"] is None, "nobody knows the revision of a folder"


def test_without_a_network_one_sentence_says_what_is_missing_and_nothing_is_left(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    point_at("http://127.0.0.1:9", monkeypatch, cache)
    start = time.perf_counter()
    message = refusal()
    assert message.startswith("http://127.0.0.1:9 cannot be reached (ConnectError")
    assert f"data.name={NAME} is not whole in {cache / 'hub'}" in message and "data.folder=PATH" in message
    assert time.perf_counter() - start < 60 and left_in(cache) == []


def test_an_environment_that_is_offline_is_not_asked_to_connect(
    hub: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert "HF_HUB_OFFLINE is set" in refusal() and hub.requested == []


@pytest.mark.parametrize("token", [None, "hf_wrong"])
def test_a_gated_set_says_where_its_terms_are_accepted(
    token: str | None, hub: HubServer, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.gated.add(NAME)
    if token is not None:
        monkeypatch.setenv("HF_TOKEN", token)
    message = refusal()
    assert f"is gated: accept its terms at {hub.address}/datasets/{NAME}" in message and "HF_TOKEN" in message
    assert token is None or token not in message
    assert rows_in(cache) == []


def test_a_gated_set_is_read_by_who_may(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.gated.add(NAME)
    hub.token = "hf_right"
    monkeypatch.setenv("HF_TOKEN", "hf_right")
    assert sst2().spec().num_classes == 2


def test_a_set_or_revision_that_is_not_there_is_reported(hub: HubServer, cache: Path) -> None:
    assert "data.name=stanfordnlp/sst3 is not on" in refusal(name="stanfordnlp/sst3")
    assert "has no data.revision=v9" in refusal(revision="v9")
    assert "data.name=a/b/c names no set" in refusal(name="a/b/c")
    assert "data.name is missing" in refusal(name=None)
    assert left_in(cache) == []


def test_a_script_is_refused_and_its_copy_as_parquet_named(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "script"
    write_card(folder, {"license": "mit"})
    (folder / "old_set.py").write_text("raise SystemExit('this script ran')")
    with hub_of({"someone/old_set": folder}, monkeypatch, cache):
        message = refusal(name="someone/old_set")
    assert "a script that fetches it (old_set.py), and no script of others is run" in message
    assert "data.revision=refs/convert/parquet" in message
    assert "which is not run" in refusal(name=None, folder=str(folder))


def test_a_file_that_arrives_short_is_not_kept(hub: HubServer, cache: Path) -> None:
    hub.cut_short.add(TRAIN)
    message = refusal()
    assert "arrived cut short" in message and "try again" in message and rows_in(cache) == []
    hub.cut_short.clear()
    assert sst2().spec().num_classes == 2


def test_a_file_that_is_not_the_listed_one_is_not_kept(hub: HubServer, cache: Path) -> None:
    hub.changed.add(TRAIN)
    message = refusal()
    assert "its SHA-256 differs" in message and "fetch it again" in message and rows_in(cache) == []
    hub.changed.clear()
    assert sst2().spec().num_classes == 2


def test_a_file_that_was_cut_in_the_cache_is_fetched_again(hub: HubServer, cache: Path) -> None:
    sst2().prepare()
    (path,) = fetch_file(locate_dataset(DatasetReference(NAME)), "train")
    path.resolve().write_bytes(path.read_bytes()[:-9])
    assert "and the hub lists" in refusal(max_length=8) and not path.exists()
    assert sst2(max_length=8).spec().max_length == 8


def test_a_damaged_file_of_a_folder_is_reported(repository: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(repository, folder)
    (folder / TRAIN).write_bytes((folder / TRAIN).read_bytes()[:100])
    assert "is not a whole Parquet file" in refusal(name=None, folder=str(folder))


def test_a_full_disk_while_fetching_leaves_nothing_half_written(
    hub: HubServer, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import file_download

    def no_room(url: str, temp_file: Any, **kwargs: Any) -> None:
        temp_file.write(b"the first bytes")
        temp_file.flush()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(file_download, "http_get", no_room)
        message = refusal()
    assert "the disk is full (No space left on device)" in message and "HF_HUB_CACHE" in message
    assert rows_in(cache) == []
    assert sst2().spec().num_classes == 2


def test_a_full_disk_while_rows_are_cached_leaves_nothing_half_written(hub: HubServer, cache: Path) -> None:
    """The system itself refuses to write: no file may be longer than a few bytes."""
    fetch_file(locate_dataset(DatasetReference(NAME)), "train")
    fetch_file(locate_dataset(DatasetReference(NAME)), "validation")
    before = left_in(cache)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (600, limits[1]))
    try:
        message = refusal()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "the disk is full" in message and "HEADTOHEAD_CACHE" in message
    assert left_in(cache) == before
    assert sst2().spec().num_classes == 2


def test_what_a_killed_process_left_is_removed_and_what_another_writes_is_not(hub: HubServer, cache: Path) -> None:
    blobs = cache / "hub" / "datasets--stanfordnlp--sst2" / "blobs"
    blobs.mkdir(parents=True)
    dead, alive = blobs / "abc.0123.incomplete", blobs / "def.4567.incomplete"
    for file in (dead, alive):
        file.write_bytes(b"half")
    os.utime(dead, (time.time() - 120, time.time() - 120))
    sst2().prepare()
    assert not dead.exists() and alive.exists()


def test_a_set_counts_as_cached_as_long_as_its_files_are_there(hub: HubServer) -> None:
    assert not is_fetched(NAME, None, None)
    source = sst2()
    source.prepare()
    commit = hub.commits[NAME]
    assert is_fetched(NAME, None, commit) and is_fetched(NAME, None, None)
    assert not is_fetched(NAME, "other", commit) and not is_fetched(NAME, None, "0" * 40)
    source.files["train"][0].unlink()
    assert not is_fetched(NAME, None, commit)


def test_subsets_and_splits_that_are_not_there_are_reported_with_those_that_are(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_ag_news(tmp_path / "news")
    with hub_of({"fancyzhx/ag_news": tmp_path / "news"}, monkeypatch, cache):
        message = refusal(name="fancyzhx/ag_news", test_split="dev")
        assert "has no split 'dev', it has train, test: correct data.test_split" in message
        assert "no such subset, it has default" in refusal(name="fancyzhx/ag_news", subset="sports")


def test_data_made_of_a_published_set_says_where_that_is_from(hub: HubServer) -> None:
    fields = [f"data.of.{name}={value}" for name, value in {**WAYS, "name": NAME}.items()]
    chosen = ["data=text_to_text", "data@data.of=hub", "task=seq2seq", "model=encoder_decoder", "data.tokenizer=char"]
    parts = build_parts(compose("train", [*chosen, *fields]))
    assert parts.data.provenance() == {"set": NAME, "revision": hub.commits[NAME], "licence": "unknown"}
    assert parts.config["data"]["of"]["revision"] == hub.commits[NAME] and parts.config["data"]["of"]["name"] == NAME
