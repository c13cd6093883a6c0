"""Archives restore what was written to disk."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import torch

from headtohead.interpretability.head_statistics import head_statistics
from headtohead.interpretability.map_archive import read_maps, write_maps, write_statistics
from headtohead.interpretability.recorded_attention import AttentionMaps, attention_maps
from small_batches import pair_batch
from small_models import SIZE, small_model


def same(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    return one is other is None or (one is not None and other is not None and torch.equal(one, other))


def test_maps_come_back_with_their_masks_and_labels(tmp_path: Path) -> None:
    for maps in attention_maps(small_model("encoder_decoder"), pair_batch(2).inputs()):
        length, num_keys = maps.weights.shape[2:]
        queries = [[f"q{index}" for index in range(length)]] * 2
        keys = [[f"k{index}" for index in range(num_keys)]] * 2
        write_maps(tmp_path / "maps.npz", maps, queries=queries, keys=keys, half=False)
        back = read_maps(tmp_path / "maps.npz")
        assert torch.equal(back.maps.weights, maps.weights)
        assert (back.queries, back.keys) == (queries, keys)
        for field in ("name", "kind", "causal", "queries", "keys", "grid"):
            assert getattr(back.maps, field) == getattr(maps, field)
        for field in ("query_valid", "key_valid", "segments"):
            assert same(getattr(back.maps, field), getattr(maps, field))
        assert torch.equal(back.maps.allowed, maps.allowed)


def test_half_precision_is_near_and_half_as_large(tmp_path: Path) -> None:
    [maps, _] = attention_maps(
        small_model("vision_transformer"),
        small_model("vision_transformer").example_inputs(SIZE, 2, torch.device("cpu")),
    )
    write_maps(tmp_path / "half.npz", maps)
    back = read_maps(tmp_path / "half.npz").maps
    assert torch.allclose(back.weights, maps.weights, rtol=1e-3, atol=1e-6)
    assert back.grid == (4, 4)
    with np.load(tmp_path / "half.npz") as file:
        assert file["weights"].dtype == np.float16
        assert set(file.files) == {"name", "kind", "causal", "inputs", "measure", "channels", "weights", "grid"}


def test_another_archive_is_refused_by_what_it_lacks(tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", weights=np.zeros(3), name="x")
    with pytest.raises(ValueError, match=r"other\.npz holds no attention maps: causal, inputs, kind is missing"):
        read_maps(tmp_path / "other.npz")


def test_the_table_has_a_line_per_head_and_a_gap_where_a_number_has_no_meaning(tmp_path: Path) -> None:
    own = AttentionMaps("stack.0.mixer", "self", torch.eye(3).expand(1, 2, 3, 3), causal=False)
    cross = AttentionMaps("decoder.0.cross", "cross", torch.full((1, 1, 3, 4), 0.25), causal=False)
    write_statistics(tmp_path / "statistics.csv", head_statistics([own, cross]))
    with (tmp_path / "statistics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["map"], row["head"]) for row in rows] == [
        ("stack.0.mixer", "0"), ("stack.0.mixer", "1"), ("decoder.0.cross", "0"),
    ]  # fmt: skip
    assert rows[0]["itself"] == "1" and rows[2]["itself"] == ""
    assert float(rows[2]["entropy"]) == pytest.approx(np.log(4), rel=1e-5)
