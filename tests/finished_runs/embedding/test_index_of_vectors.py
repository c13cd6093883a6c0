"""The index: exact against brute force, made once by weights and texts, whole or not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fresh_runs import ROWS, fresh_run
from headtohead.data.data_source import DataError
from headtohead.data.generated.stories import story_search
from headtohead.finished_runs.embedding import vector_index as indexing
from headtohead.finished_runs.embedding.collection import Collection
from headtohead.finished_runs.embedding.embedder import Embedder
from headtohead.finished_runs.embedding.vector_index import build
from headtohead.finished_runs.finished_run import open_run
from headtohead.finished_runs.loaded_run import LoadedRun
from headtohead.training.checkpoints import BEST, load, save

SET = story_search("paraphrases", num_queries=12, per_story=3)
TEXTS = Collection(tuple(f"d{number}" for number in range(len(SET.documents))), SET.documents)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> LoadedRun:
    folder = tmp_path_factory.mktemp("index")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADTOHEAD_CACHE", str(folder / "data"))
        data = ["data=pair_grammar", "data.relation=next", *ROWS]
        made = fresh_run(folder, "model=encoder_only", "task=masked_lm", *data)
        made.data.prepare()
        return made


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "embeddings"


def test_the_nearest_are_those_of_brute_force_however_many_are_looked_at_at_once(
    run: LoadedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = build(Embedder(run), TEXTS)
    queries = run.embed(SET.queries)
    cosines = queries @ run.embed(TEXTS.texts).T
    expected = [sorted(range(len(TEXTS)), key=lambda number: -row[number])[:7] for row in cosines.round(5)]
    for at_once in (10**6, 17, 5):
        monkeypatch.setattr(indexing, "_TEXTS_AT_ONCE", at_once)
        monkeypatch.setattr(indexing, "_QUERIES_AT_ONCE", 5)
        result = index.search(queries, 7)
        for row, ranking, own in zip(cosines, result, expected, strict=True):
            assert ranking.scores == pytest.approx(np.sort(row)[::-1][:7], abs=1e-5)
            assert row[ranking.documents] == pytest.approx(row[own], abs=1e-4)


def test_an_index_is_mapped_and_made_once_for_its_weights_pooling_and_texts(run: LoadedRun, cache: Path) -> None:
    first = build(Embedder(run), TEXTS)
    assert not first.stored.was_there and isinstance(first.vectors, np.memmap) and not first.vectors.flags.writeable
    assert first.vectors == pytest.approx(run.embed(TEXTS.texts), abs=1e-6)
    again = build(Embedder(run, batch_size=7), TEXTS)
    assert again.stored.was_there and again.stored.folder == first.stored.folder
    renamed = Collection(tuple(reversed(TEXTS.ids)), TEXTS.texts)
    assert build(Embedder(run), renamed).stored.was_there, "vectors do not depend on names"
    others = [
        build(Embedder(run, "last"), TEXTS),
        build(Embedder(run), Collection(TEXTS.ids, (*TEXTS.texts[:-1], "another text ."))),
    ]
    assert not any(other.stored.was_there for other in others) and len(list(cache.iterdir())) == 3


def test_other_weights_make_another_index(run: LoadedRun) -> None:
    first, path = build(Embedder(run), TEXTS), run.folder / "checkpoints" / BEST
    before = load(path)
    changed = {name: value + 0.1 * torch.randn_like(value) for name, value in before["model"].items()}
    save({**before, "model": changed}, path)
    try:
        other = build(Embedder(open_run(run.folder)), TEXTS)
        assert not other.stored.was_there and not np.allclose(other.vectors, first.vectors, atol=1e-3)
    finally:
        save(before, path)


def test_what_fails_half_way_leaves_nothing_behind(
    run: LoadedRun, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder, times = Embedder(run, batch_size=1), [0]
    whole = embedder.embed

    def failing(texts: Any) -> Any:
        times[0] += 1
        if times[0] > 2:
            raise OSError(28, "No space left on device")
        return whole(texts)

    monkeypatch.setattr(embedder, "embed", failing)
    with pytest.raises(DataError, match=r"the disk is full .* nothing of it is left"):
        build(embedder, TEXTS)
    assert times[0] == 3 and list(cache.iterdir()) == []


def test_what_a_killed_process_left_is_removed_and_a_damaged_index_is_told(run: LoadedRun, cache: Path) -> None:
    folder = build(Embedder(run), TEXTS).stored.folder
    left = folder.with_name(f".unfinished-{folder.name}")
    folder.rename(left)
    (left / "vectors.npy").write_bytes(b"half")
    assert not build(Embedder(run), TEXTS).stored.was_there and [one.name for one in cache.iterdir()] == [folder.name]
    (folder / "vectors.npy").write_bytes(b"half")
    with pytest.raises(DataError, match=r"is damaged .*: delete it, and it is created again"):
        build(Embedder(run), TEXTS)
