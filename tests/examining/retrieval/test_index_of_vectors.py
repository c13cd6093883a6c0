"""The index: exact against brute force, in 32 and in 8 bits, made once by weights and texts, whole or not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fresh_runs import ROWS, fresh_run
from headtohead.building.errors import ConfigurationError
from headtohead.data.contracts import DataError
from headtohead.data.generated.story_search import story_search
from headtohead.examining.finished import FinishedRun, open_run
from headtohead.examining.retrieval import index as indexing
from headtohead.examining.retrieval.collection import Collection
from headtohead.examining.retrieval.embedder import Embedder
from headtohead.examining.retrieval.index import Index, build, in_8_bits
from headtohead.training.checkpoints import BEST, load, save

SET = story_search("paraphrases", num_queries=12, per_story=3)
TEXTS = Collection(tuple(f"d{number}" for number in range(len(SET.documents))), SET.documents)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
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
    run: FinishedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = build(Embedder(run), TEXTS)
    queries = run.embed(SET.queries)
    cosines = queries @ run.embed(TEXTS.texts).T
    wanted = [sorted(range(len(TEXTS)), key=lambda number: -row[number])[:7] for row in cosines.round(5)]
    for at_once in (10**6, 17, 5):
        monkeypatch.setattr(indexing, "_TEXTS_AT_ONCE", at_once)
        monkeypatch.setattr(indexing, "_QUERIES_AT_ONCE", 5)
        found = index.search(queries, 7)
        for row, ranking, own in zip(cosines, found, wanted, strict=True):
            assert ranking.scores == pytest.approx(np.sort(row)[::-1][:7], abs=1e-5)
            assert row[ranking.documents] == pytest.approx(row[own], abs=1e-4)


def test_an_index_is_mapped_and_made_once_for_its_weights_pooling_and_texts(run: FinishedRun, cache: Path) -> None:
    first = build(Embedder(run), TEXTS)
    assert not first.kept.was_there and isinstance(first.vectors, np.memmap) and not first.vectors.flags.writeable
    assert first.vectors == pytest.approx(run.embed(TEXTS.texts), abs=1e-6)
    again = build(Embedder(run, batch_size=7), TEXTS)
    assert again.kept.was_there and again.kept.folder == first.kept.folder
    renamed = Collection(tuple(reversed(TEXTS.ids)), TEXTS.texts)
    assert build(Embedder(run), renamed).kept.was_there, "vectors do not depend on names"
    others = [
        build(Embedder(run, "last"), TEXTS),
        build(Embedder(run), Collection(TEXTS.ids, (*TEXTS.texts[:-1], "another text ."))),
    ]
    assert not any(other.kept.was_there for other in others) and len(list(cache.iterdir())) == 3


def test_other_weights_make_another_index(run: FinishedRun) -> None:
    first, path = build(Embedder(run), TEXTS), run.folder / "checkpoints" / BEST
    before = load(path)
    changed = {name: value + 0.1 * torch.randn_like(value) for name, value in before["model"].items()}
    save({**before, "model": changed}, path)
    try:
        other = build(Embedder(open_run(run.folder)), TEXTS)
        assert not other.kept.was_there and not np.allclose(other.vectors, first.vectors, atol=1e-3)
    finally:
        save(before, path)


def test_what_fails_half_way_leaves_nothing_behind(
    run: FinishedRun, cache: Path, monkeypatch: pytest.MonkeyPatch
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


def test_what_a_killed_process_left_is_removed_and_a_damaged_index_is_told(run: FinishedRun, cache: Path) -> None:
    folder = build(Embedder(run), TEXTS).kept.folder
    left = folder.with_name(f".unfinished-{folder.name}")
    folder.rename(left)
    (left / "vectors.npy").write_bytes(b"half")
    assert not build(Embedder(run), TEXTS).kept.was_there and [one.name for one in cache.iterdir()] == [folder.name]
    (folder / "vectors.npy").write_bytes(b"half")
    with pytest.raises(DataError, match=r"is damaged .*: delete it, and it is made anew"):
        build(Embedder(run), TEXTS)


@pytest.mark.parametrize("scales", ["vector", "dimension"])
def test_8_bits_are_rounded_by_a_scale_and_cost_a_quarter(run: FinishedRun, scales: Any) -> None:
    embedder = Embedder(run)
    whole = build(embedder, TEXTS)
    rounded = in_8_bits(embedder, TEXTS, whole, scales)
    vectors = np.array(whole.vectors)
    by = np.abs(vectors).max(axis=1 if scales == "vector" else 0, keepdims=True) / 127
    codes = np.rint(vectors / by)
    assert rounded.vectors.dtype == np.int8 and np.abs(rounded.vectors).max() == 127
    assert np.abs(rounded.vectors - codes).max() <= 1 and (rounded.vectors != codes).mean() < 0.01
    queries = run.embed(SET.queries)
    wanted = queries @ (rounded.vectors * by).T
    assert rounded.cosines(queries, slice(None)) == pytest.approx(wanted, abs=1e-5)
    picked = np.array([5, 2, 9])
    assert rounded.cosines(queries, picked) == pytest.approx(wanted[:, picked], abs=1e-5)
    assert np.abs(wanted - queries @ vectors.T).max() < 0.02
    scales_bytes = 4 * (len(TEXTS) if scales == "vector" else vectors.shape[1])
    assert (whole.num_bytes, rounded.num_bytes) == (4 * vectors.size, vectors.size + scales_bytes)
    assert in_8_bits(embedder, TEXTS, whole, scales).kept.was_there


def test_a_dimension_that_is_zero_everywhere_stays_so(run: FinishedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = Embedder(run)
    whole = build(embedder, TEXTS)
    flat = np.array(whole.vectors)
    flat[:, 3] = 0
    monkeypatch.setattr(whole, "vectors", flat)
    assert not in_8_bits(embedder, TEXTS, whole, "dimension").vectors[:, 3].any()


def test_unknown_scales_are_refused(run: FinishedRun) -> None:
    embedder = Embedder(run)
    index: Index = build(embedder, TEXTS)
    with pytest.raises(ConfigurationError, match="--int8 row is unknown: choose one of vector, dimension"):
        in_8_bits(embedder, TEXTS, index, "row")  # type: ignore[arg-type]
