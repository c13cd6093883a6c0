"""Positional encodings as pictured: each against its formula, computed plainly."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from headtohead.components.positions.relative import Shaw, head_slopes
from headtohead.components.stack import Stack
from headtohead.config.compose.choices import choice_names
from headtohead.config.compose.composition import compose_checked
from headtohead.finished_runs.probe.position_encodings import PositionEncoding, fresh_model, position_encodings
from headtohead.finished_runs.probe.positions_page import positions_data, show_positions
from headtohead.finished_runs.probe.probe_files import write_positions

LENGTH = 20
IMAGES = ("sinusoidal_2d", "rotary_2d")


@pytest.fixture(autouse=True)
def folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))


WINDOWED = {"rotary_two_bases": ("model.pattern=[softmax_attention,sliding_window]",)}
"""The overrides that an encoding needs beside it: the second base is of layers that see a window."""


def of_choice(name: str, *overrides: str) -> tuple[list[PositionEncoding], torch.nn.Module]:
    data = ["model=vision_transformer", "task=image_classification", "data=digits"] if name in IMAGES else [
        "data.num_train=60", "data.num_validation=8", "data.num_test=8", f"data.context_length={LENGTH}",
        "data.tokenizer=char",
    ]  # fmt: skip
    small = ["model.d_model=32", "model.num_heads=2", "model.num_layers=2", f"model/position={name}"]
    model = fresh_model(compose_checked("train", [*small, *data, *overrides]))
    return position_encodings(model, LENGTH), model


@pytest.mark.parametrize("name", [name for name in choice_names("model/position") if name != "none"])
def test_every_encoding_is_pictured(name: str) -> None:
    result, _ = of_choice(name, *WINDOWED.get(name, ()))
    assert result
    for encoding in result:
        assert all(panel.values.isfinite().all() for panel in encoding.panels)
        assert all(
            curves.values.isfinite().all() and len(curves.names) == len(curves.values) for curves in encoding.curves
        )
    assert len(positions_data(result)) == len(result) == show_positions(result).row_count


def test_the_second_base_of_layers_that_see_a_window_is_pictured_beside_the_first() -> None:
    result, _ = of_choice("rotary_two_bases", *WINDOWED["rotary_two_bases"], "model.position.local_base=50")
    assert [encoding.name for encoding in result] == ["stack", "stack, layers that see a window"]
    for encoding, base in zip(result, (160000.0, 50.0), strict=True):
        by_pair = encoding.panels[0].values
        expected = [[math.cos(position / base ** (pair / 8)) for position in range(LENGTH)] for pair in range(8)]
        assert np.allclose(by_pair, expected, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rotary", "alibi"])
def test_pictures_and_the_page_lie_in_the_folder(name: str, tmp_path: Path) -> None:
    files = write_positions(of_choice(name)[0], compose_checked("train"), tmp_path)
    assert [file.name for file in files] == [f"stack-{name}.png", "positions.html"]
    with Image.open(files[0]) as picture:
        assert len(picture.convert("RGB").getcolors(2**24) or ()) > 200


def test_no_encoding_is_refused_with_a_way_out() -> None:
    with pytest.raises(ValueError, match="no positional encoding to plot: choose another"):
        of_choice("none")


def test_sinusoids_are_the_papers() -> None:
    [encoding] = of_choice("sinusoidal")[0]
    table = encoding.panels[0].values
    for position, channel in ((0, 1), (7, 0), (13, 6), (19, 31)):
        angle = position / 10000 ** (2 * (channel // 2) / 32)
        assert table[position, channel] == pytest.approx(math.cos(angle) if channel % 2 else math.sin(angle), abs=1e-5)
    assert encoding.panels[1].values.diagonal().tolist() == pytest.approx([1.0] * LENGTH, abs=1e-5)


def test_rotary_pairs_turn_at_their_own_speed() -> None:
    for pairing in ("half", "interleaved"):
        [encoding] = of_choice("rotary", f"model.position.pairing={pairing}")[0]
        by_pair, alike = (panel.values for panel in encoding.panels)
        assert by_pair.shape == (8, LENGTH)
        expected = [[math.cos(position / 10000 ** (pair / 8)) for position in range(LENGTH)] for pair in range(8)]
        assert np.allclose(by_pair, expected, atol=1e-5)
        assert np.allclose(alike[:, 0], np.mean(expected, axis=0), atol=1e-5)


def test_pairs_of_xpos_turn_and_decay() -> None:
    for pairing in ("half", "interleaved"):
        changes = (f"model.position.pairing={pairing}", "model.position.decay_length=64")
        [encoding] = of_choice("xpos", *changes)[0]
        by_pair = encoding.panels[0].values
        expected = [
            [
                math.cos(position / 10000 ** (pair / 8)) * ((pair / 8 + 0.4) / 1.4) ** (position / 64)
                for position in range(LENGTH)
            ]
            for pair in range(8)
        ]
        assert np.allclose(by_pair, expected, atol=1e-5)


def test_alibi_falls_with_distance_at_each_heads_slope() -> None:
    [encoding] = of_choice("alibi")[0]
    curves = encoding.curves[0]
    assert curves.first == 1 - LENGTH and curves.values.shape == (2, LENGTH)
    expected = [[-slope * distance for distance in range(LENGTH - 1, -1, -1)] for slope in head_slopes(2)]
    assert np.allclose(curves.values, expected, atol=1e-6)
    assert all(panel.causal for panel in encoding.panels)


def test_learned_tables_are_shown_as_they_are() -> None:
    [encoding], model = of_choice("learned")
    stack = next(part for part in model.modules() if isinstance(part, Stack))
    table = stack.get_parameter("positions.0.table.weight")
    assert torch.equal(encoding.panels[0].values, table.detach()) and len(table) == LENGTH


def test_shaws_vectors_are_shown_layer_by_layer() -> None:
    result, model = of_choice("shaw")
    tables = [part.table for part in model.modules() if isinstance(part, Shaw)]
    assert [encoding.name for encoding in result] == ["stack, layer 0", "stack, layer 1"]
    for encoding, table in zip(result, tables, strict=True):
        assert torch.equal(encoding.panels[0].values, table) and encoding.panels[0].first_row == -16


def test_fresh_model_is_the_one_that_training_starts_from() -> None:
    config = compose_checked("train", ["data.num_train=60", "data.num_validation=8", "data.num_test=8", "seed=3"])
    state = torch.get_rng_state()
    first, second = fresh_model(config), fresh_model(config)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
