"""Floor, solved, margin and two groups: what the scale of a metric does to a verdict."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from headtohead.comparison.contrasts import Contrast, Registration, Verdict
from headtohead.comparison.metric_scales import chance_in
from headtohead.comparison.statistics.value_shapes import MetricScale
from headtohead.comparison.verdicts.verdict import verdicts_of
from headtohead.records.record import RunRecord

BASE = [0.999] * 6 + [0.40] * 6


def judged(
    arm: list[float],
    base: list[float],
    scale: MetricScale | None,
    margin: float | None = None,
    metric: str = "accuracy",
) -> Verdict:
    values = {"arm": dict(enumerate(arm)), "base": dict(enumerate(base))}
    registration = Registration("max", metric=metric, margin=margin, seeds=range(len(arm)), scale=scale)
    return verdicts_of(values, [Contrast("arm", "base")], registration)[0]


def test_chance_is_that_of_runs_that_measured_it() -> None:
    """A run that is not finished holds the entropy of the vocabulary, which says less than that of its tokens."""
    running = RunRecord(id="a", status="running", baselines={"loss": 6.2})
    finished = [RunRecord(id=name, status="finished", baselines={"loss": 4.7}) for name in "bc"]
    assert chance_in([running, *finished], "test", "loss") == 4.7
    assert chance_in([running], "test", "loss") == 6.2


@pytest.mark.parametrize("margin", [None, 0.05])
def test_two_arms_at_chance_have_shown_nothing_and_all_say_so(margin: float | None) -> None:
    verdict = judged([0.037, 0.036, 0.038, 0.037], [0.036, 0.035, 0.037, 0.036], MetricScale(1 / 64, 1.0), margin)
    assert verdict.kind == "undecided" and verdict.answer == "undecided: neither learned the task"
    assert "neither learned the task, where chance is 0.0156" in verdict.sentence
    data = verdict.as_data()
    assert (data["answer"], data["neither_learned"], data["chance"]) == (verdict.answer, True, 1 / 64)


def test_a_sure_difference_between_arms_that_learned_nothing_is_none() -> None:
    verdict = judged([0.040, 0.041, 0.042, 0.041], [0.016, 0.015, 0.016, 0.017], MetricScale(1 / 64, 1.0))
    assert verdict.p is not None and verdict.p < 0.001 and verdict.kind == "undecided"


def test_where_one_arm_learned_the_verdict_stands() -> None:
    arm, base = [0.9, 0.8, 0.85, 0.87, 0.84, 0.88], [0.016, 0.015, 0.016, 0.017, 0.015, 0.016]
    verdict = judged(arm, base, MetricScale(1 / 64, 1.0))
    assert verdict.kind == "better" and not verdict.neither_learned


def test_where_neither_learned_this_is_said_before_that_seeds_are_few() -> None:
    verdict = judged([0.019, 0.016, 0.018], [0.016, 0.015, 0.016], MetricScale(1 / 64, 1.0))
    assert verdict.withheld is not None and verdict.answer == "undecided: neither learned the task"
    assert "neither learned" in verdict.sentence and "too few seeds" not in verdict.sentence


def test_too_few_seeds_for_a_shape_are_the_answer_wherever_one_is_shown() -> None:
    verdict = judged([0.9, 0.8, 0.85, 0.87], [0.016, 0.015, 0.016, 0.017], MetricScale(1 / 64, 1.0))
    assert verdict.answer == verdict.as_data()["answer"] == "undecided: too few seeds for this shape"
    assert "accuracy lies within 10 % of its bound 0" in verdict.sentence


def test_few_seeds_near_a_bound_are_not_equivalent_at_a_place_that_was_registered_as_solved() -> None:
    values = {"arm": dict(enumerate([0.985, 0.986, 0.984])), "base": dict(enumerate([0.987, 0.986, 0.985]))}
    registration = Registration("max", metric="accuracy", margin=0.05, seeds=range(3), solved_at=0.9)
    (verdict,) = verdicts_of(values, [Contrast("arm", "base")], registration)
    assert (verdict.method, verdict.kind, verdict.p_equivalent) == ("solve rates", "undecided", None)


@pytest.mark.parametrize("level", [0.69, 0.71])
def test_no_value_moves_the_place_from_which_on_a_task_is_solved(level: float) -> None:
    """The middle of the gap lay at 0.6995: an arm at 0.71 was called better, one at 0.69 worse."""
    verdict = judged([level] * 12, BASE, MetricScale(0.02, 1.0))
    assert (verdict.method, verdict.solved, verdict.kind) == ("solve rates", (0, 6), "worse")
    assert "solved is from 0.902 on" in verdict.sentence


@pytest.mark.parametrize("level", [0.69, 0.71])
def test_without_a_scale_two_groups_are_compared_by_rank_and_the_sentence_says_so(level: float) -> None:
    verdict = judged([level] * 12, BASE, None)
    assert (verdict.method, verdict.kind, verdict.solved) == ("ranks", "undecided", None)
    assert "the value at which the task counts as solved is unknown" in verdict.sentence


@pytest.mark.parametrize("num_seeds", [3, 5, 6, 8])
def test_near_the_best_the_margin_comes_before_a_rate(num_seeds: int) -> None:
    noise = np.random.default_rng(0).normal(0, 0.001, size=(2, num_seeds))
    verdict = judged(list(0.985 + noise[0]), list(0.995 + noise[1]), MetricScale(0.1, 1.0), margin=0.05)
    assert verdict.kind == ("equivalent" if num_seeds >= 6 else "undecided"), verdict.sentence


def test_near_the_best_a_difference_beyond_the_margin_is_one_though_both_solved_it() -> None:
    noise = np.random.default_rng(0).normal(0, 0.001, size=(2, 6))
    verdict = judged(list(0.925 + noise[0]), list(0.999 + noise[1]), MetricScale(0.1, 1.0), margin=0.05)
    assert (verdict.kind, verdict.method) == ("worse", "paired t")


def called_equivalent(num_seeds: int, scale: MetricScale | None, metric: str = "accuracy") -> float:
    """The exact share of studies of two arms that solve the task in 80 and 95 % of seeds: every seed of each solves it,
    or not; a small spread within the groups, the same in all studies."""
    rng, share = np.random.default_rng(0), 0.0
    spread = rng.uniform(-0.004, 0.004, size=(2, num_seeds))
    for one, other in product(range(num_seeds + 1), repeat=2):
        chance = _binomial(num_seeds, one, 0.8) * _binomial(num_seeds, other, 0.95)
        arms = [[0.99] * k + [0.1] * (num_seeds - k) for k in (one, other)]
        values = [[float(v + s) for v, s in zip(arm, own, strict=True)] for arm, own in zip(arms, spread, strict=True)]
        share += chance * (judged(values[0], values[1], scale, 0.05, metric).kind == "equivalent")
    return share


def _binomial(n: int, k: int, p: float) -> float:
    from scipy import stats

    return float(stats.binom.pmf(k, n, p))


@pytest.mark.parametrize("num_seeds", [3, 5])
def test_arms_that_solve_or_fail_are_not_equivalent_because_few_seeds_happened_to_solve(num_seeds: int) -> None:
    assert called_equivalent(num_seeds, None, "points") > 0.2, "what knowing nothing of the metric costs"
    assert called_equivalent(num_seeds, None) < 0.01
    assert called_equivalent(num_seeds, MetricScale(0.1, 1.0)) == 0.0


@pytest.mark.sampled(4)
@pytest.mark.slow
@pytest.mark.parametrize("num_seeds", [3, 5, 8])
@pytest.mark.parametrize("rate", [0.3, 0.5, 0.9])
def test_arms_that_solve_alike_are_called_apart_in_5_percent_at_most(num_seeds: int, rate: float) -> None:
    rng, result = np.random.default_rng(1000), 0
    for _ in range(400):
        solved = rng.random((2, num_seeds)) < rate
        values = np.where(solved, 0.97, 0.12) + rng.uniform(-0.02, 0.02, size=solved.shape)
        result += judged(list(values[0]), list(values[1]), MetricScale(0.1, 1.0)).kind in ("better", "worse")
    assert result / 400 <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize("num_seeds", [3, 5])
def test_arms_at_chance_are_never_called_equivalent_better_or_worse(num_seeds: int) -> None:
    rng = np.random.default_rng(1000)
    kinds = [
        judged(list(one), list(other), MetricScale(0.5, 1.0), margin=0.05).kind
        for one, other in rng.normal(0.5, 0.01, size=(400, 2, num_seeds))
    ]
    assert np.mean([kind != "undecided" for kind in kinds]) <= 0.01


def test_a_strict_look_makes_no_arm_that_learned_one_that_did_not() -> None:
    """The first of many looks spends little error, and its intervals are as wide as the scale."""
    noise = np.random.default_rng(0).normal(0, 0.02, size=(2, 3))
    values = {arm: dict(enumerate(0.8 + own)) for arm, own in zip(("arm", "base"), noise, strict=True)}
    registration = Registration("max", seeds=range(20), interim_analyses=(3, 20), scale=MetricScale(0.5, 1.0))
    (verdict,) = verdicts_of(values, [Contrast("arm", "base")], registration)
    assert verdict.level < 0.01 and verdict.kind == "undecided" and not verdict.neither_learned
