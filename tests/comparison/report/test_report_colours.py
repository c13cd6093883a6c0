"""Colours of arms, as eyes of all kinds see them (Machado, Oliveira and Fernandes 2009,
https://doi.org/10.1109/TVCG.2009.113, severe forms)."""

from __future__ import annotations

import re
from importlib.resources import files
from itertools import combinations

import numpy as np
import pytest

from headtohead.comparison.arm_colours import NUM_COLOURS

EYES = {
    "usual": np.eye(3),
    "no red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "no green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "no blue": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE = np.array([0.9505, 1.0, 1.089])
THEMES = ("light", "dark")


def colours(theme: str) -> dict[str, np.ndarray]:
    """Linear light by name."""
    text = (files("headtohead.comparison") / "theme.css").read_text(encoding="utf-8")
    light, dark = text.split(':root[data-theme="dark"]')
    result = re.findall(r"--([\w-]+): #(\w{6})", light if theme == "light" else dark)
    return {name: linear(np.array([int(code[at : at + 2], 16) for at in (0, 2, 4)]) / 255) for name, code in result}


def linear(shares: np.ndarray) -> np.ndarray:
    return np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)


def lab(light: np.ndarray) -> np.ndarray:
    share = TO_XYZ @ np.clip(light, 0, 1) / WHITE
    x, y, z = np.where(share > 0.008856, np.cbrt(share), 7.787 * share + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("eyes", EYES)
def test_any_two_arms_differ_by_far_more_than_an_eye_needs(theme: str, eyes: str) -> None:
    result = colours(theme)
    seen = [lab(np.array(EYES[eyes]) @ result[f"arm-{n}"]) for n in range(NUM_COLOURS)]
    assert min(float(np.linalg.norm(one - other)) for one, other in combinations(seen, 2)) > 15


@pytest.mark.parametrize("theme", THEMES)
def test_arms_and_texts_stand_out_from_the_page(theme: str) -> None:
    result = colours(theme)
    brightness = {name: TO_XYZ[1] @ light + 0.05 for name, light in result.items()}
    contrast = {name: max(value / brightness["page"], brightness["page"] / value) for name, value in brightness.items()}
    assert all(contrast[f"arm-{n}"] >= 3 for n in range(NUM_COLOURS))
    assert all(contrast[name] >= 4.5 for name in ("ink", "muted", "accent", "good", "bad", "same", "open"))


@pytest.mark.parametrize("theme", THEMES)
def test_texts_stand_out_from_all_that_lies_behind_them(theme: str) -> None:
    """4.5 is what WCAG 2.2 asks of texts (AA)."""
    result = colours(theme)
    for behind in ("page", "panel", "soft"):
        assert {name: value for name in TEXTS if (value := contrast(result[name], result[behind])) < 4.5} == {}, behind
    assert contrast(result["accent-ink"], result["accent"]) >= 4.5, "a pressed button"
    assert contrast(result["page"], result["ink"]) >= 4.5, "a tip"
    assert contrast(result["ink"], result["heat"]) >= 4.5, "a number in a map of scores"
    running = 0.22 * result["good"] + 0.78 * result["panel"]
    assert contrast(result["ink"], running) >= 4.5, "the share of a running cell of a board"


TEXTS = ("ink", "muted", "accent", "good", "bad", "same", "open")


def contrast(one: np.ndarray, other: np.ndarray) -> float:
    low, high = sorted(float(TO_XYZ[1] @ light) for light in (one, other))
    return (high + 0.05) / (low + 0.05)
