"""Numbers become colours that one can compare."""

from __future__ import annotations

import numpy as np

from headtohead.interpretability.colour_table import values_to_colours


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
