"""Arrays become pictures that one can see."""

from __future__ import annotations

import numpy as np
import pytest

from headtohead.interpretability.colour_table import values_to_colours
from headtohead.wandb_client.logged_rows import to_picture


def test_an_attention_map_is_not_black() -> None:
    picture = to_picture(np.random.default_rng(0).random((8, 8)) * 0.1)
    assert picture.dtype == np.uint8
    assert picture.shape == (8, 8, 3)
    assert picture.max() > 200
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 30


def test_a_map_of_one_value_shows_it_within_zero_and_one() -> None:
    assert (to_picture(np.zeros((2, 2)))[0, 0] == values_to_colours(np.array(0.0), low=0.0, high=1.0)).all()
    assert (to_picture(np.ones((2, 2)))[0, 0] == values_to_colours(np.array(1.0), low=0.0, high=1.0)).all()


def test_what_is_no_number_is_grey_and_leaves_the_scale_alone() -> None:
    picture = to_picture(np.array([[0.0, np.nan, -np.inf, np.inf, 1.0]]))
    assert picture[0, 1:4].tolist() == [[128, 128, 128]] * 3
    assert (picture[0, [0, 4]] == to_picture(np.array([[0.0, 1.0]]))[0]).all()


def test_float_colours_are_stretched_to_eight_bits_and_eight_bits_kept() -> None:
    colours = np.array([[[0.0, 0.5, 1.0]]])
    assert to_picture(colours).tolist() == [[[0, 128, 255]]]
    assert to_picture(to_picture(colours)).tolist() == [[[0, 128, 255]]]


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(4), r"shape \(4,\)"),
        (np.zeros((2, 2, 5)), r"shape \(2, 2, 5\)"),
        (np.full((2, 2, 3), 1.5), "floats within 0 and 1"),
        (np.full((2, 2, 3), 200), "int64 colours"),
    ],
)
def test_what_is_no_picture_is_refused(array: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        to_picture(array)
