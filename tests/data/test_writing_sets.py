"""Published translations and summaries: what is read and what is to be written, each language at its place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import headtohead as h2h
from headtohead.config.origins.from_weights import build_data
from headtohead.data.data_source import DataError
from published_sets.writing_tasks import SETS, SIZES, pair_of, starts


def pairs(name: str, folder: Path, *overrides: str, split: str = "test") -> list[tuple[str, str]]:
    SETS[name](folder)
    source = build_data(
        h2h.compose(
            "train",
            [
                f"data={name}",
                f"data.folder={folder}",
                "task=seq2seq",
                "model=encoder_decoder",
                "data.vocab_size=300",
                *overrides,
            ],
        )
    )
    rows = source.split(split)  # type: ignore[arg-type]
    return [(one["source"], one["target"]) for one in source.describe(rows.batch(np.arange(len(rows))))]


def written(split: str = "test") -> list[tuple[str, str]]:
    return [pair_of(starts()[split] + row) for row in range(SIZES[split])]


def test_multi30k_goes_either_way(tmp_path: Path) -> None:
    assert pairs("multi30k", tmp_path) == written()
    turned = pairs("multi30k", tmp_path, "data.source_column=en", "data.target_column=de", split="validation")
    assert turned == [(english, german) for german, english in written("validation")]


@pytest.mark.slow
def test_languages_of_nested_translations_are_chosen_by_their_columns(tmp_path: Path) -> None:
    assert pairs("wmt14", tmp_path / "wmt") == [(english, german) for german, english in written()]
    result = pairs(
        "wmt14",
        tmp_path / "wmt",
        "data.subset=cs-en",
        "data.source_column=translation.cs",
        "data.target_column=translation.en",
    )
    assert result == written()
    shares = [pairs("opus_books", tmp_path / "opus", split=split) for split in ("train", "validation", "test")]
    assert sorted(pair for share in shares for pair in share) == sorted(written("train"))


def test_a_language_that_a_pair_does_not_have_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"translation\.fr"):
        pairs("opus_books", tmp_path, "data.source_column=translation.fr")


@pytest.mark.parametrize("name", ["xsum", "cnn_dailymail"])
def test_summaries_are_written_for_articles(name: str, tmp_path: Path) -> None:
    for source, target in pairs(name, tmp_path):
        lines = source.split("\n")
        assert len(lines) == 4 and target == f"{lines[0]}\n{lines[-1]}"
