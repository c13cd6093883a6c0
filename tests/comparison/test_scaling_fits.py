"""Planted laws are recovered from records, families apart; where points are too few, that is said."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

from headtohead.comparison.analyses.scaling_fits import ScalingFits, scaling_fits
from headtohead.records.record import Progress, RunRecord, Status, StudyPosition

Measured = list[tuple[RunRecord, float | None]]
SIZES = [1e5, 3e5, 1e6, 3e6, 1e7]
TOKENS = [2e6, 6e6, 2e7, 6e7, 2e8]


def run(
    arm: str, seed: int, parameters: float, tokens: float, *, share: float = 1.0, status: Status = "finished"
) -> RunRecord:
    record = RunRecord(id=f"{arm}-{seed}-{share}", status=status, place=StudyPosition("s", arm, seed, None, share))
    record.costs = {"totals": {"parameters": parameters}}
    record.progress = Progress(tokens=int(tokens), flops=6 * parameters * tokens)
    return record


def sizes_alone(family: str, exponent: float, noise: float = 0.002) -> Iterator[tuple[RunRecord, float | None]]:
    rng = np.random.default_rng(0)
    for size in SIZES:
        for seed in range(3):
            loss = (1.5 + 30 * size**-exponent) * math.exp(noise * rng.normal())
            yield run(f"{family}-{size:g}", seed, size, 1e8), loss


def grid(noise: float = 0.001) -> Iterator[tuple[RunRecord, float | None]]:
    """Chinchilla's law; shares of the budget are the tokens."""
    rng = np.random.default_rng(1)
    for size in SIZES:
        for tokens in TOKENS:
            loss = (1.69 + 406.4 * size**-0.34 + 410.7 * tokens**-0.28) * math.exp(noise * rng.normal())
            yield run(f"w{size:g}", 0, size, tokens, share=tokens / TOKENS[-1]), loss


def fits_of(measured: Measured, families: dict[str, list[str]]) -> ScalingFits:
    return scaling_fits(families, measured, metric="test/loss", samples=60)


@pytest.mark.slow
def test_a_planted_law_is_recovered_for_each_family() -> None:
    measured = [*sizes_alone("deep", 0.3), *sizes_alone("wide", 0.2)]
    families = {name: [f"{name}-{size:g}" for size in SIZES] for name in ("deep", "wide")}
    for family, truth in zip(fits_of(measured, families).families, (0.3, 0.2), strict=True):
        by_size, by_tokens, by_flops = family.fits
        assert by_size.exponent is not None and by_size.exponent.value == pytest.approx(truth, rel=0.1)
        assert by_size.exponent.low < truth < by_size.exponent.high
        assert by_flops.exponent is not None and by_flops.exponent.value == pytest.approx(truth, rel=0.1)
        assert by_tokens.exponent is None and "at least 4 different ones" in str(by_tokens.reason)
        assert family.joint is None


@pytest.mark.slow
def test_a_planted_joint_law_and_its_frontier_are_recovered() -> None:
    (family,) = fits_of([*grid()], {"all": [f"w{size:g}" for size in SIZES]}).families
    joint = family.joint
    assert joint is not None and joint.exponent is not None and joint.token_exponent is not None
    assert joint.exponent.value == pytest.approx(0.34, abs=0.01)
    assert joint.token_exponent.value == pytest.approx(0.28, abs=0.01)
    balance = (0.34 * 406.4 / (0.28 * 410.7)) ** (1 / 0.62)
    for point in joint.frontier:
        best = balance * (point.flops / 6) ** (0.28 / 0.62)
        assert point.parameters.value == pytest.approx(best, rel=0.1)
        assert point.parameters.low < best < point.parameters.high
        assert point.tokens.value == pytest.approx(point.flops / 6 / point.parameters.value)
    assert [point.beyond for point in joint.frontier] == [False] * 5 + [True]


@pytest.mark.slow
def test_where_both_vary_each_size_counts_with_the_run_that_got_furthest() -> None:
    (family,) = fits_of([*grid()], {"all": [f"w{size:g}" for size in SIZES]}).families
    by_size, by_tokens, by_flops = family.fits
    assert {point.tokens for point in by_size.points} == {TOKENS[-1]} and len(by_size.points) == len(SIZES)
    assert {point.parameters for point in by_tokens.points} == {SIZES[-1]}
    losses = [point.loss for point in by_flops.points]
    assert losses == sorted(losses, reverse=True) and len(losses) < len(family.points)


def test_runs_that_diverged_and_trials_of_a_tuning_are_no_points() -> None:
    measured: Measured = [*sizes_alone("a", 0.3)]
    measured.append((run("a-1e+06", 9, 1e6, 1e8, status="diverged"), None))
    trial = run("a-1e+06", 8, 1e6, 1e8)
    trial.place.trial = 0
    (family,) = fits_of([*measured, (trial, 9.0)], {"a": [f"a-{size:g}" for size in SIZES]}).families
    assert len(family.points) == 15 and family.diverged == 1


def test_too_few_points_are_said_and_not_fitted() -> None:
    (family,) = fits_of([(run("a", 0, 1e5, 1e6), 2.0), (run("b", 0, 1e6, 1e6), 1.0)], {"f": ["a", "b"]}).families
    assert [fit.exponent for fit in family.fits] == [None] * 3 and all(fit.reason for fit in family.fits)
    (nothing,) = fits_of([], {"f": ["a"]}).families
    assert {fit.reason for fit in nothing.fits} == {"no run has finished"}
