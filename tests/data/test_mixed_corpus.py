"""Corpora by weights: shares at every step, the same rows for any number of devices, resumed where they were."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

import headtohead
from from_fields import from_fields
from headtohead.data.batches.row_order import order_of
from headtohead.data.data_source import DataError
from headtohead.data.generated.english_grammar import GrammarCorpus
from headtohead.data.sources.mixed_corpus import MixedCorpus
from headtohead.data.sources.text_files import TextFiles
from headtohead.finished_runs.text_generator import encoded

FEW = {"num_train": 40, "num_validation": 6, "num_test": 6, "context_length": 16, "tokenizer": "char"}


def mixed(first: float = 3.0, second: float = 1.0) -> MixedCorpus:
    sources = {name: from_fields(GrammarCorpus, **FEW, seed=seed) for seed, name in enumerate(("first", "second"))}
    return MixedCorpus(sources=sources, weights={"first": first, "second": second}, batch_size=8)


@pytest.mark.parametrize("weights", [(3.0, 1.0), (0.7, 0.2), (1.0, 100.0)])
def test_every_stretch_of_rows_has_the_shares_of_the_weights(weights: tuple[float, float]) -> None:
    data = mixed(*weights)
    order = order_of(data.split("train"), batch_size=8, seed=0)
    share = weights[0] / sum(weights)
    of_first = 0
    for step in range(60):
        of_first += int((order.step(step)[1] % 2 == 0).sum())
        assert abs(of_first - share * 8 * (step + 1)) <= 1


def test_rows_are_those_of_their_sources_and_come_round_again() -> None:
    data = mixed()
    split = data.split("train")
    order = order_of(split, batch_size=8, seed=0)
    sources = [source.split("train") for source in data.sources.values()]
    seen: list[list[int]] = [[], []]
    epochs = []
    for step in range(160):
        epoch, rows = order.step(step)
        epochs.append(epoch)
        batch = split.batch(rows)
        assert batch.tokens is not None and batch.rows.tolist() == rows.tolist()
        for number, tokens in zip(rows, batch.tokens, strict=True):
            index, source = divmod(int(number), 2)
            own = sources[source].batch(np.array([index])).tokens
            assert own is not None and torch.equal(tokens, own[0])
            seen[source].append(index)
    assert epochs == sorted(epochs) and epochs[-1] > 0
    for source, indices in enumerate(seen):
        once = len(sources[source])
        assert len(set(indices[: once + 8])) == min(once, len(set(indices))), "none twice before all, to within a batch"


@pytest.mark.parametrize("devices", [1, 2, 3, 4])
def test_steps_are_the_same_for_any_number_of_devices_and_after_any_start(devices: int) -> None:
    whole = order_of(mixed().split("train"), batch_size=8, seed=5)
    resumed = order_of(mixed().split("train"), batch_size=8, seed=5)
    for step in (17, 18, 19):
        parts = [resumed.step(step, rank=rank, world_size=devices)[1] for rank in range(devices)]
        assert np.concatenate(parts).tolist() == whole.step(step)[1].tolist()


def test_held_out_rows_are_all_of_all_sources() -> None:
    data = mixed()
    split = data.split("validation")
    parts = [source.split("validation") for source in data.sources.values()]
    assert len(split) == sum(map(len, parts))
    batch = split.batch(np.arange(len(split))[::-1].copy())
    expected = [part.batch(np.arange(len(part))).tokens for part in parts]
    assert batch.tokens is not None
    assert torch.equal(batch.tokens.flip(0), torch.cat([tokens for tokens in expected if tokens is not None]))


def test_what_cannot_be_mixed_is_refused_by_name() -> None:
    one = from_fields(GrammarCorpus, **FEW, seed=0)
    with pytest.raises(DataError, match="fewer than two"):
        MixedCorpus(sources={"first": one})
    with pytest.raises(DataError, match="give each source its weight"):
        MixedCorpus(sources={"a": one, "b": one}, weights={"a": 1.0})
    with pytest.raises(DataError, match=r"data.weights.b=0.0 must be above 0"):
        MixedCorpus(sources={"a": one, "b": one}, weights={"a": 1.0, "b": 0.0})
    longer = from_fields(GrammarCorpus, **{**FEW, "context_length": 32}, seed=0)
    with pytest.raises(DataError, match="same context_length and tokenizer"):
        MixedCorpus(sources={"a": one, "b": longer}).spec()


WORDS = ("teacher", "dog", "sees", "old", "bird", "sings", "house", "green", "walks", "river")


def lines(path: Path, alphabet: str, *, seed: int = 0, documents: str = "line") -> TextFiles:
    """Return a source of a hundred lines, each with a letter that no word has."""
    if not path.exists():
        draw = np.random.default_rng(len(alphabet))
        path.write_text("\n".join(f"{alphabet} {' '.join(draw.choice(WORDS, 30))}" for _ in range(100)), "utf-8")
    return from_fields(TextFiles, path=str(path), documents=documents, context_length=16, seed=seed)


def mix_of(*sources: TextFiles) -> MixedCorpus:
    return MixedCorpus(sources={f"source{index}": source for index, source in enumerate(sources)}, batch_size=8)


def test_the_first_tokenizer_reads_sources_that_would_learn_another(tmp_path: Path) -> None:
    first, second = lines(tmp_path / "first.txt", "x"), lines(tmp_path / "second.txt", "zz")
    alone = lines(tmp_path / "first.txt", "x").spec()
    spec = mix_of(first, second).spec()
    assert (spec.tokenizer_hash, spec.vocab_size) == (alone.tokenizer_hash, alone.vocab_size)
    assert second.tokenizer_facts() == first.tokenizer_facts()


def test_facts_about_reading_are_of_the_texts_of_all_sources(tmp_path: Path) -> None:
    first, second = lines(tmp_path / "first.txt", "x"), lines(tmp_path / "second.txt", "zz")
    reading = mix_of(first, second).reading()
    own = [source.content.facts["reading"] for source in (first, second)]
    for name in ("train", "validation", "test"):
        tokens, unknown = (sum(facts[name][count] for facts in own) for count in ("tokens", "unknown"))
        assert reading["unknown_share"][name] == unknown / tokens > 0, "the first source knows all of its own letters"


def test_what_one_source_trains_on_and_another_tests_on_is_a_leak(tmp_path: Path) -> None:
    path = tmp_path / "first.txt"
    apart = mix_of(lines(path, "x"), lines(tmp_path / "second.txt", "zz")).leaks()
    assert not apart["test"]["in_train"] and apart["test"]["rows"]
    divided_anew = mix_of(lines(path, "x"), lines(path, "x", seed=1)).leaks()
    assert divided_anew["test"]["in_train"] and divided_anew["validation"]["in_train"]
    generated = mixed().leaks()
    assert generated["expected"] and generated["unit"] == apart["unit"]


def test_a_source_of_a_single_document_is_mixed_with_one_of_many(tmp_path: Path) -> None:
    one = lines(tmp_path / "first.txt", "x", documents="file")
    data = mix_of(one, lines(tmp_path / "second.txt", "zz"))
    split = data.split("validation")
    batch = split.batch(np.arange(len(split)))
    own = one.split("validation").batch(np.arange(len(one.split("validation"))))
    assert own.segments is None and batch.segments is not None and batch.positions is not None
    rows = len(own.rows)
    assert not batch.segments[:rows].any() and batch.segments[rows:].any()
    assert torch.equal(batch.positions[:rows], torch.arange(batch.positions.shape[1]).expand(rows, -1))


def test_a_text_is_read_by_the_tokenizer_of_the_mix(tmp_path: Path) -> None:
    first, second = lines(tmp_path / "first.txt", "x"), lines(tmp_path / "second.txt", "zz")
    data = mix_of(first, second)
    spec = data.spec()
    assert encoded("the old dog", data, spec, is_source=False) == encoded("the old dog", first, spec, is_source=False)


def test_who_needs_a_tokenizer_does_not_ask_of_which_class_the_data_are() -> None:
    """A mix of texts is no TextSource, and spells texts all the same: `tokenizer_of` knows."""
    root = Path(headtohead.__file__).parent
    files = [file for file in root.rglob("*.py") if root / "data" not in file.parents]
    asking = [
        str(file.relative_to(root)) for file in files if re.search(r"isinstance\(.*\bTextSource\b", file.read_text())
    ]
    assert len(files) > 100 and not asking
