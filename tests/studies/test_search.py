"""The search over one dial: figures that do not grow steadily, settings that cannot be built."""

from __future__ import annotations

import pytest

from headtohead.studies.matching.arm_shape import mismatch, ranked


def nearest(figures: list[float | None], target: float, *, start: int = 0) -> int:
    return ranked(figures.__getitem__, target, count=len(figures), start=start)[0]


@pytest.mark.parametrize("target", [1.0, 3.4, 57.0, 412.6, 999.0])
def test_steady_figures_are_matched_to_the_nearest(target: float) -> None:
    assert nearest([float(value) for value in range(1, 1001)], target) == round(target) - 1


def test_target_beyond_all_settings_gives_the_last() -> None:
    assert nearest([float(value) for value in range(1, 51)], 1000.0) == 49


def test_figures_that_jump_back_are_searched_among_neighbours() -> None:
    """Rounding makes every second setting smaller than the one before it."""
    figures: list[float | None] = [10.0 * (index + 1) + (0 if index % 2 else 25) for index in range(200)]
    result = nearest(figures, 1025.0)
    assert figures[result] == 1025.0 or abs((figures[result] or 0) - 1025.0) <= 5


def test_settings_that_cannot_be_built_are_passed_over() -> None:
    figures = [float(index + 1) if index % 3 == 0 else None for index in range(300)]
    assert mismatch(figures[nearest(figures, 150.0)] or 0, 150.0) < 0.02


def test_few_settings_are_looked_at() -> None:
    looks: list[int] = []

    def value(index: int) -> float:
        looks.append(index)
        return float(index + 1)

    assert ranked(value, 123_456.0, count=10**9, start=999)[0] == 123_455
    assert len(looks) == len(set(looks)) < 100


def test_of_equally_near_settings_the_one_nearest_to_the_start_is_taken() -> None:
    assert nearest([1.0, 5.0, 5.0, 5.0, 9.0], 5.0, start=3) == 3
