"""A against A through all that judges a study: its registration, the choice of the test by the values' shape, the
family of contrasts and the registered looks. The error rate that was stated is kept, whatever the values look like."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from comparison.statistics.null_studies import Draw, NullStudies, between, bimodal, diverging, normal, saturated, skewed

ALPHA = 0.05
FOUR = ("a", "b", "c", "d")
LOOKS = [3, 5, 8]


def most(studies: int) -> float:
    """Return the rate that one simulation of a thousand exceeds by chance."""
    return ALPHA + 3.1 * math.sqrt(ALPHA * (1 - ALPHA) / studies)


@pytest.mark.slow
@pytest.mark.parametrize("draw", [normal, skewed, bimodal])
def test_an_arm_is_hardly_ever_told_from_itself(draw: Draw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    studies = NullStudies(tmp_path, monkeypatch, seeds=6, best=1.0 if draw is bimodal else None)
    assert studies.false_verdicts(draw, studies=120) <= most(120)


@pytest.mark.slow
def test_looking_until_something_is_found_is_what_registered_looks_prevent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same draws at the usual level, seed after seed, find something in far more than 5 % of studies."""
    registered = NullStudies(tmp_path / "registered", monkeypatch, seeds=8, looks=[3, 4, 5, 6, 7, 8])
    saved = registered.false_verdicts(normal, studies=100)
    at_will = NullStudies(tmp_path / "at_will", monkeypatch, seeds=8)
    at_will.read_at([3, 4, 5, 6, 7, 8])
    assert saved <= most(100) < at_will.false_verdicts(normal, studies=100)


@pytest.mark.sampled(4)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("draw", "provided"),
    [
        (normal, {"arms": FOUR}),
        (normal, {"arms": FOUR, "seeds": 8, "looks": LOOKS}),
        (skewed, {"seeds": 8, "looks": LOOKS}),
        (skewed, {"seed_offsets": {"b": 1000}}),
        (bimodal, {"arms": FOUR, "seeds": 8, "best": 1.0}),
        (bimodal, {"seeds": 8}),
        (between, {"seeds": 8, "best": 1.0, "looks": LOOKS}),
        (diverging, {}),
    ],
)
def test_the_stated_error_rate_is_kept(
    draw: Draw, provided: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rates were 1 to 5.3 in a hundred with 1,500 studies each."""
    assert NullStudies(tmp_path, monkeypatch, **provided).false_verdicts(draw, studies=200) <= most(200)


@pytest.mark.slow
def test_the_stated_error_rate_is_kept_by_times_to_solve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run solves it, and that is what was asked."""
    studies = NullStudies(tmp_path, monkeypatch, seeds=6, solved_at=0.8)
    assert studies.false_verdicts(saturated, studies=200, timed=True) <= most(200)
