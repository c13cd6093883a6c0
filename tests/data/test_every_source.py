"""Every choice of conf/data keeps the contract of a source."""

from __future__ import annotations

import importlib
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from data.small_sources import CONF, NAMES, small_source
from from_fields import fields_taken, from_fields
from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.data.cache.cached_source import code_digest
from headtohead.data.data_source import SPLIT_NAMES, DataError, DataSource
from headtohead.finished_runs.evaluation.evaluation_request import WITHOUT_ROWS

PACKED = {"grammar_lm", "hub_corpus", "text"}
"""Their rows are not samples: documents are compared in their own tests."""
every_source = pytest.mark.parametrize("name", NAMES)


def same(first: Batch, second: Batch) -> bool:
    pairs = [(getattr(first, name), getattr(second, name)) for name in (*Batch.MODEL_INPUTS, "rows", "targets")]
    return all(a is b or torch.equal(a, b) for a, b in pairs)


def fingerprints(source: DataSource, split: str) -> list[bytes]:
    rows = source.split(split)  # type: ignore[arg-type]
    batch = rows.batch(np.arange(len(rows)))
    parts = [batch.tokens, batch.decoder_tokens, batch.images]
    present = [part for part in parts if part is not None]
    return [b"".join(part[row].numpy().tobytes() for part in present) for row in range(len(rows))]


def test_small_versions_are_those_of_the_yaml_files() -> None:
    """Published sets are in test_published_sets.py, mixtures in test_mixed_corpus.py; streams, whose rows are not
    counted, in test_streaming.py and test_streamed_images.py."""
    own = [path.stem for path in CONF.glob("*.yaml") if not yaml.safe_load(path.read_text()).get("about")]
    assert sorted(own) == sorted([*NAMES, "mix", "stream", "stream_images"])


@every_source
def test_yaml_says_what_the_constructor_takes_by_itself(name: str) -> None:
    chosen: dict[str, Any] = yaml.safe_load((CONF / f"{name}.yaml").read_text())
    parts = [key for entry in chosen.pop("defaults", []) if isinstance(entry, dict) for key in entry]
    chosen |= {key.partition("@")[2]: None for key in parts}  # another source, of its own YAML
    module, _, cls = chosen.pop("_target_").rpartition(".")
    assert chosen == dict(fields_taken(getattr(importlib.import_module(module), cls)))


@every_source
def test_ids_targets_and_lengths_stay_within_the_spec(name: str, tmp_path: Path) -> None:
    source = small_source(name, tmp_path)
    spec = source.spec()
    for split in SPLIT_NAMES:
        rows = source.split(split)
        batch = rows.batch(np.arange(len(rows)))
        if batch.tokens is not None:
            assert int(batch.tokens.min()) >= 0 and int(batch.tokens.max()) < spec.vocab_size
            assert batch.tokens.shape[1] <= spec.max_length
        if batch.decoder_tokens is not None:
            assert int(batch.decoder_tokens.max()) < spec.vocab_size
            assert batch.decoder_tokens.shape[1] <= spec.max_target_length
        if spec.num_classes:
            assert batch.targets is not None
            assert set(batch.targets.unique().tolist()) - {IGNORED} == set(range(spec.num_classes))
        if batch.images is not None:
            assert batch.images.shape[1:] == spec.image_shape and batch.images.dtype == torch.float32


@every_source
def test_fields_that_an_evaluation_takes_to_change_no_row_change_none(name: str, tmp_path: Path) -> None:
    plain, other = small_source(name, tmp_path), small_source(name, tmp_path)
    for field in sorted(set(WITHOUT_ROWS) & vars(other).keys()):
        before = vars(other)[field]
        setattr(other, field, not before if isinstance(before, bool) else before + 1)
    assert plain.batch_size != other.batch_size and plain.spec().data_hash == other.spec().data_hash
    assert fingerprints(plain, "train") == fingerprints(other, "train")


@every_source
def test_shares_of_classes_are_those_of_the_train_split(name: str, tmp_path: Path) -> None:
    source = small_source(name, tmp_path)
    spec, train = source.spec(), source.split("train")
    targets = train.batch(np.arange(len(train))).targets
    assert targets is not None or spec.kind == "language"
    counted = [] if targets is None else [int((targets == number).sum()) for number in range(spec.num_classes)]
    assert np.allclose(spec.class_shares, np.array(counted) / max(sum(counted), 1))


@every_source
def test_spec_decodes_as_the_source_does(name: str, tmp_path: Path) -> None:
    source = small_source(name, tmp_path)
    decode = source.spec().decode
    ids = [1] if source.spec().kind == "images" else list(range(source.spec().vocab_size))
    assert decode is not None and decode(ids) == source.decode(ids) != ""


@every_source
def test_longest_row_is_as_long_as_the_spec_says(name: str, tmp_path: Path) -> None:
    source = small_source(name, tmp_path)
    widths = {"tokens": 0, "decoder_tokens": 0}
    for split in SPLIT_NAMES:
        batch = source.split(split).batch(np.arange(len(source.split(split))))
        for field in widths:
            tokens = getattr(batch, field)
            widths[field] = max(widths[field], 0 if tokens is None else tokens.shape[1])
    spec = source.spec()
    assert (widths["tokens"], widths["decoder_tokens"]) == (spec.max_length, spec.max_target_length)


@every_source
def test_a_row_is_the_same_in_any_batch(name: str, tmp_path: Path) -> None:
    split = small_source(name, tmp_path).split("train")
    alone, together = split.batch(np.array([5])), split.batch(np.array([9, 5, 0]))
    for field in ("tokens", "decoder_tokens", "images", "targets"):
        one, many = getattr(alone, field), getattr(together, field)
        if one is not None and field != "images" and one.dim() > 1:
            rest = many[1, one.shape[1] :]
            assert bool(((rest == 0) | (rest == IGNORED)).all())
            many = many[:, : one.shape[1]]
        assert one is None or torch.equal(one[0], many[1])


@pytest.mark.parametrize("name", sorted(set(NAMES) - PACKED))
def test_splits_share_no_sample(name: str, tmp_path: Path) -> None:
    source = small_source(name, tmp_path)
    seen = [set(fingerprints(source, split)) for split in SPLIT_NAMES]
    assert not (seen[0] & seen[1] or seen[0] & seen[2] or seen[1] & seen[2])


@every_source
def test_same_seed_same_rows_and_other_seed_other_rows(
    name: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = small_source(name, tmp_path)
    expected = fingerprints(first, "train"), first.spec()
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path_factory.mktemp("other_cache")))
    again, other = small_source(name, tmp_path), small_source(name, tmp_path, seed=1)
    assert (fingerprints(again, "train"), again.spec()) == expected
    assert fingerprints(other, "train") != expected[0]
    assert other.spec().data_hash != expected[1].data_hash


@every_source
def test_split_travels_to_another_process_without_its_rows(name: str, tmp_path: Path) -> None:
    split = small_source(name, tmp_path).split("validation")
    sent = pickle.dumps(split)
    rows = np.array([3, 1])
    assert same(pickle.loads(sent).batch(rows), split.batch(rows))
    assert len(sent) < 20_000


@every_source
def test_no_rows_make_an_empty_batch(name: str, tmp_path: Path) -> None:
    batch = small_source(name, tmp_path).split("test").batch(np.arange(0))
    assert batch.num_samples == 0 and batch.num_tokens == 0


@every_source
def test_samples_are_described_row_by_row(name: str, tmp_path: Path) -> None:
    source = small_source(name, tmp_path)
    described = source.describe(source.split("train").batch(np.array([4, 2])))
    assert [sample["row"] for sample in described] == [4, 2]
    assert all(len(sample) >= 2 for sample in described)


@every_source
def test_writing_to_a_batch_leaves_the_data_as_it_is(name: str, tmp_path: Path) -> None:
    split = small_source(name, tmp_path).split("train")
    rows = np.array([0, 1])
    for field in ("tokens", "images", "targets", "decoder_tokens"):
        tensor = getattr(split.batch(rows), field)
        if tensor is not None:
            tensor.fill_(77)
            assert not torch.equal(getattr(split.batch(rows), field), tensor)


@every_source
def test_unknown_split_is_refused_by_name(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no split 'dev': choose one of train, validation, test"):
        small_source(name, tmp_path).split("dev")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["associative_recall", "number_words", "sentence_grammar"])
def test_a_larger_train_split_leaves_validation_and_test_as_they_are(name: str) -> None:
    chosen = yaml.safe_load((CONF / f"{name}.yaml").read_text())
    module, _, cls = chosen["_target_"].rpartition(".")
    make = getattr(importlib.import_module(module), cls)
    small, large = (from_fields(make, num_train=size, num_validation=20, num_test=20) for size in (100, 150))
    small_train, large_train = fingerprints(small, "train"), fingerprints(large, "train")
    assert len(large_train) > len(small_train)
    for split in ("validation", "test"):
        decoded = [
            [sample.get("text", sample.get("source")) for sample in source.describe(batch)]
            for source, batch in ((source, source.split(split).batch(np.arange(20))) for source in (small, large))
        ]
        assert decoded[0] == decoded[1]


def test_content_is_made_anew_when_the_code_that_makes_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "owned_source.py"
    code = "from headtohead.data.sources.digits import Digits\nclass Own(Digits):\n    name = 'owned'\n"
    monkeypatch.syspath_prepend(tmp_path)
    digests = []
    for text in (code, code, f"{code}    seed_offset = 1\n"):
        module.write_text(text)
        sys.modules.pop("owned_source", None)
        digests.append(code_digest(importlib.import_module("owned_source").Own))
    assert digests[0] == digests[1] != digests[2] != code_digest(type(small_source("digits", tmp_path)))
