"""Numbers become colours that one can compare."""

from __future__ import annotations

import numpy as np
import pytest

from headtohead.interpretability.colour_table import anchors, largest_usual, values_to_colours


def test_a_larger_value_is_never_darker() -> None:
    colours = values_to_colours(np.linspace(-3, 5, 500)).astype(float)
    brightness = colours @ np.array([0.2126, 0.7152, 0.0722])
    assert (np.diff(brightness) >= -1.5).all()
    assert brightness[-1] - brightness[0] > 150


def test_maps_can_share_a_scale() -> None:
    low, high = np.full((2, 2), 0.2), np.full((2, 2), 0.8)
    shown = [values_to_colours(values, low=0.0, high=1.0) for values in (low, high, np.array([[0.2, 0.8]]))]
    assert (shown[0][0, 0] == shown[2][0, 0]).all()
    assert (shown[1][0, 0] == shown[2][0, 1]).all()


def test_the_brightest_colour_is_not_that_of_queries_with_few_keys() -> None:
    allowed = np.tri(64, dtype=bool)
    weights = allowed / np.arange(1, 65)[:, None]
    high, clipped = largest_usual((weights, allowed))
    assert 1 / 64 < high <= 1 / 17 and clipped
    assert largest_usual((weights[-1:], allowed[-1:])) == (pytest.approx(1 / 64), False)
    assert largest_usual((np.zeros((3, 3)), np.zeros((3, 3), dtype=bool))) == (1.0, False)


def test_pages_draw_between_the_colours_of_pictures() -> None:
    for name, colours in anchors().items():
        shares = np.linspace(0.0, 1.0, len(colours))
        drawn = values_to_colours(shares, low=0.0, high=1.0, signed=name == "diverging").astype(int)
        assert np.abs(drawn - np.array(colours)).max() <= 4, "a table of 256 shades"
