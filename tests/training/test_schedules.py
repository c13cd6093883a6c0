"""The factors of every schedule, number by number."""

from __future__ import annotations

import math

import pytest

from headtohead.training.optim.schedules import constant, cosine, linear, noam, wsd


def values(schedule, steps: int) -> list[float]:
    return [schedule(step) for step in range(steps)]


def test_constant_rises_in_equal_steps_and_stays() -> None:
    assert values(constant(6, warmup=4), 6) == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]


def test_linear_falls_to_its_minimum_at_the_end_of_the_run() -> None:
    schedule = linear(6, warmup=2, minimum=0.2)
    assert values(schedule, 7) == pytest.approx([0.5, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2])


def test_cosine_is_half_way_down_in_the_middle() -> None:
    schedule = cosine(12, warmup=2, minimum=0.1)
    assert schedule(1) == schedule(2) == 1.0
    assert schedule(7) == pytest.approx(0.55)
    assert schedule(12) == pytest.approx(0.1)
    assert schedule(4) == pytest.approx(0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * 0.2)))


def test_noam_with_the_right_peak_is_the_paper_s() -> None:
    d_model, warmup = 512, 4000
    schedule = noam(100_000, warmup=warmup)
    for t in (1, 17, 3999, 4000, 4001, 99_999):
        paper = d_model**-0.5 * min(t**-0.5, t * warmup**-1.5)
        assert (d_model * warmup) ** -0.5 * schedule(t - 1) == pytest.approx(paper, rel=1e-12)


def test_noam_peaks_at_one_when_warm_up_ends() -> None:
    schedule = noam(100, warmup=10)
    assert schedule(9) == pytest.approx(1.0)
    assert max(values(schedule, 100)) == schedule(9)


def test_wsd_is_flat_between_warm_up_and_decay() -> None:
    assert values(wsd(10, warmup=2, decay=4), 11) == pytest.approx([0.5, 1, 1, 1, 1, 1, 1, 0.75, 0.5, 0.25, 0])


def test_wsd_runs_of_different_length_share_what_comes_before_their_decay() -> None:
    short, long = wsd(100, warmup=10, decay=20), wsd(200, warmup=10, decay=20)
    assert values(short, 80) == values(long, 80)


def test_warm_up_below_one_is_a_fraction_of_the_run() -> None:
    assert values(cosine(40, warmup=0.1), 40) == values(cosine(40, warmup=4), 40)


@pytest.mark.parametrize("make", [constant, linear, cosine, wsd])
def test_no_step_of_a_run_is_wasted_on_a_rate_of_zero(make) -> None:
    assert min(values(make(50, warmup=5), 50)) > 0


@pytest.mark.parametrize("warmup", [-1, 2.5])
def test_a_warm_up_that_is_neither_steps_nor_fraction_is_refused(warmup: float) -> None:
    with pytest.raises(ValueError, match=r"schedule\.warmup=.*whole number of steps, or a fraction"):
        cosine(10, warmup=warmup)


def test_warm_up_and_decay_longer_than_the_run_are_refused() -> None:
    with pytest.raises(ValueError, match=r"warmup \(6 steps\) and decay \(5\) take more than the run's 10"):
        wsd(10, warmup=6, decay=5)
