"""Pictures of maps: what is where, in which colour, and which words stand beside it."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch

from headtohead.data.data_source import DataSpec
from headtohead.interpretability.colour_table import values_to_colours
from headtohead.interpretability.montage import LONGEST_LABELLED, heading, montage, scale_of
from headtohead.interpretability.picture_text import axis_labels, patch_labels, side_strip, token_labels, top_strip
from headtohead.interpretability.recorded_attention import AttentionMaps

GREY = (226, 226, 231)
SPEC = DataSpec(kind="language", pad_id=0, bos_id=1, eos_id=2, mask_id=3)


def random_maps(samples: int = 2, heads: int = 3, length: int = 8, num_keys: int = 8, **fields) -> AttentionMaps:
    weights = torch.rand(samples, heads, length, num_keys, generator=torch.Generator().manual_seed(0))
    weights = weights / weights.sum(-1, keepdim=True)
    return AttentionMaps("stack.0.mixer", "self", weights, **{"causal": False, **fields})


def pixels_of(picture: np.ndarray, colour: tuple[int, int, int]) -> int:
    return int((picture == np.array(colour, dtype=np.uint8)).all(-1).sum())


def tiles(picture: np.ndarray, cell: int, length: int) -> int:
    """Return how many tiles of a map of one value there are, by counting its cells."""
    bright = values_to_colours(np.array(1.0), low=0.0, high=1.0)
    return round(pixels_of(picture, tuple(bright)) / (cell * length) ** 2)


def test_there_is_a_tile_for_every_head_of_every_sample() -> None:
    for samples, heads in ((1, 1), (1, 4), (2, 3), (2, 12), (3, 16)):
        weights = torch.ones(samples, heads, 4, 4)
        picture = montage(AttentionMaps("x", "self", weights, causal=False))
        assert picture.dtype == np.uint8 and picture.shape[2] == 3
        assert tiles(picture, 48, 4) == samples * heads, (samples, heads)


@pytest.mark.slow
def test_a_picture_is_neither_black_nor_of_one_colour() -> None:
    picture = montage(random_maps())
    assert picture.max() > 200
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 60


def test_every_cell_has_the_colour_of_its_weight_on_the_scale_of_all_heads() -> None:
    maps = random_maps(1, 2, 8, 8)
    scale, picture = scale_of(maps), montage(maps)
    colours = values_to_colours(maps.weights[0].numpy(), low=scale.low, high=scale.high)
    cells = colours.repeat(24, axis=1).repeat(24, axis=2)
    for tile in cells:
        windows = np.lib.stride_tricks.sliding_window_view(picture, tile.shape)[:, :, 0]
        assert (windows[..., 0, 0, :] == tile[0, 0]).all(-1).any()
        ys, xs = np.nonzero((windows[..., 0, 0, :] == tile[0, 0]).all(-1))
        assert any(np.array_equal(windows[y, x], tile) for y, x in zip(ys, xs, strict=True))


def test_what_may_not_be_looked_at_is_grey_and_what_has_no_weight_is_not() -> None:
    weights = torch.eye(8).expand(1, 1, 8, 8)
    causal = montage(AttentionMaps("x", "self", weights, causal=True))
    free = montage(AttentionMaps("x", "self", weights, causal=False))
    assert pixels_of(free, GREY) == 0
    assert pixels_of(causal, GREY) == 28 * 24 * 24
    valid = torch.tensor([[True] * 5 + [False] * 3])
    padded = montage(AttentionMaps("x", "self", weights, causal=False, query_valid=valid, key_valid=valid))
    assert pixels_of(padded, GREY) == (64 - 25) * 24 * 24


def test_the_first_queries_of_a_causal_map_do_not_leave_the_rest_in_the_dark() -> None:
    weights = torch.ones(1, 1, 64, 64).tril()
    maps = AttentionMaps("x", "self", weights / weights.sum(-1, keepdim=True), causal=True)
    scale = scale_of(maps)
    assert scale.high < 0.4 and scale.clipped and scale.ends[1].startswith("≥ ")


def test_one_sharp_head_among_many_sets_the_scale() -> None:
    weights = torch.full((1, 12, 16, 16), 1 / 16)
    weights[:, 0] = torch.eye(16)
    scale = scale_of(AttentionMaps("x", "self", weights, causal=False))
    assert scale.high == 1.0 and not scale.clipped


def test_weights_that_are_no_numbers_are_drawn_and_negative_ones_widen_the_scale() -> None:
    weights = torch.full((1, 1, 4, 4), float("nan"))
    assert montage(AttentionMaps("x", "self", weights, causal=False)).size
    weights = torch.linspace(-1, 1, 16).view(1, 1, 4, 4)
    assert scale_of(AttentionMaps("x", "self", weights, causal=False)).low == -1.0


def test_labels_stand_beside_each_tile_and_change_with_the_words() -> None:
    maps = random_maps(1, 2)
    words = [["these", "are", "eight", "words", "of", "a", "short", "text"]]
    bare, labelled = montage(maps), montage(maps, queries=words, keys=words)
    other = montage(maps, queries=words, keys=[[word.upper() for word in words[0]]])
    assert labelled.shape[0] > bare.shape[0]
    assert labelled.shape == other.shape or not np.array_equal(labelled, other)
    assert pixels_of(labelled, (38, 38, 46)) > pixels_of(bare, (38, 38, 46))


def test_more_labels_than_one_can_read_are_left_out() -> None:
    length = LONGEST_LABELLED + 1
    words = [["word"] * length]
    maps = random_maps(1, 1, length, length)
    assert np.array_equal(montage(maps, queries=words, keys=words), montage(maps))
    readable = random_maps(1, 1, LONGEST_LABELLED, LONGEST_LABELLED)
    words = [["word"] * LONGEST_LABELLED]
    assert montage(readable, queries=words, keys=words).shape[0] >= 12 * LONGEST_LABELLED


@pytest.mark.parametrize("strip", [side_strip, top_strip])
def test_each_label_keeps_to_its_cell(strip) -> None:
    """A label alone among empty ones leaves ink in its own cell and in no other."""
    for index in range(4):
        labels = ["", "", "", ""]
        labels[index] = "gypsum"
        ink = (strip(labels, 14) < 200).any(-1)
        along = ink.any(1 if strip is side_strip else 0)
        cells = along.reshape(4, 14).any(1)
        assert cells.tolist() == [here == index for here in range(4)]


def test_long_labels_are_cut_and_foreign_letters_are_drawn() -> None:
    assert side_strip(["a" * 300], 14).shape[1] < 120
    drawn = [side_strip([letter], 14) for letter in "éßЖ"]
    assert all((strip < 200).any() for strip in drawn)
    assert len({strip.tobytes() for strip in drawn}) == 3, "three boxes for letters that the font lacks"


def test_a_montage_of_a_usual_layer_takes_a_few_milliseconds() -> None:
    maps = random_maps(1, 8, 64, 64, causal=True)
    montage(maps)
    times = []
    for _ in range(5):
        start = time.process_time()
        montage(maps)
        times.append(time.process_time() - start)
    assert min(times) < 0.1


def test_tokens_are_shown_as_text_and_what_is_no_text_by_its_name() -> None:
    letters = {5: "a", 6: " ", 7: "\n", 8: " the"}
    labels = token_labels([1, 5, 6, 7, 8, 3, 2, 0, 9], SPEC, lambda ids: "".join(letters.get(i, "") for i in ids))
    assert labels == ["<bos>", "a", "␣", "↵", "␣the", "<mask>", "<eos>", "<pad>", "#9"]


def test_patches_are_named_by_row_and_column_after_the_class_token() -> None:
    assert patch_labels((2, 2), 5) == ["<cls>", "0,0", "0,1", "1,0", "1,1"]
    assert patch_labels((1, 2), 2) == ["0,0", "0,1"]


def test_axes_are_labelled_with_what_queries_and_keys_stand_for() -> None:
    inputs = {"tokens": torch.tensor([[5, 6, 7]]), "decoder_tokens": torch.tensor([[1, 8]])}
    maps = random_maps(1, 1, 2, 3, queries="decoder_tokens", keys="tokens")
    queries, keys = axis_labels(maps, inputs, SPEC, lambda ids: "abcdefghij"[ids[0]] if ids[0] > 4 else "")
    assert queries == [["<bos>", "i"]] and keys == [["f", "g", "h"]]
    image = random_maps(2, 1, 5, 5, grid=(2, 2), queries="images", keys="images")
    assert axis_labels(image, {}, SPEC, str)[0] == [["<cls>", "0,0", "0,1", "1,0", "1,1"]] * 2


@pytest.mark.parametrize(
    ("name", "kind", "fields", "words"),
    [
        ("decoder.1.cross", "cross", {}, "decoder layer 2, cross-attention"),
        ("memory", "cross", {}, "memory  (cross-attention)"),
        ("stack.0.mixer", "self", {"causal": True}, "layer 1  (causal)"),
        ("stack.0.mixer", "self", {"measure": "implicit attention"}, "layer 1  (implicit attention, bidirectional)"),
        ("stack.0.mixer", "self", {"measure": "receptive field"}, "layer 1  (by gradients)"),
    ],
)
def test_a_heading_says_nothing_twice(name: str, kind: str, fields: dict[str, object], words: str) -> None:
    assert heading(AttentionMaps(name, kind, torch.ones(1, 1, 2, 2), **{"causal": False, **fields})) == words


def test_paper_and_letters_are_greys_and_weights_are_none_so_that_a_dark_page_tells_them_apart() -> None:
    """The dashboard's pictures.js takes for paper what is equally red and green, and at most so much more blue."""
    empty = AttentionMaps("stack.0.mixer", "self", torch.zeros(1, 1, 8, 8), causal=True)
    labels = [["<pad>", "two words", "b", "c", "d", "e", "f", "g"]]
    picture = montage(empty, queries=labels, keys=labels).reshape(-1, 3).astype(int)
    weights = np.array([values_to_colours(np.linspace(-1.0, 1.0, 2001), signed=signed) for signed in (False, True)])
    colours = {tuple(map(int, colour)) for colour in weights.reshape(-1, 3)}

    def is_grey(red: int, green: int, blue: int) -> bool:
        return red == green and 0 <= blue - red <= 10

    assert not [colour for colour in colours if is_grey(*colour)]
    scale_and_tile = set(map(tuple, picture.tolist())) - {
        colour for colour in map(tuple, picture.tolist()) if is_grey(*colour)
    }
    assert scale_and_tile <= colours
