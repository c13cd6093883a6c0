"""Rounds of seeds: who gets another one follows from the runs that ended, and from nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from headtohead.comparison.contrasts import Contrast, Registration, SeedRounds, SeedStop, Verdict
from headtohead.comparison.statistics.value_shapes import MetricScale
from headtohead.comparison.verdicts.seed_evidence import seed_evidence_of
from headtohead.comparison.verdicts.seed_rounds import (
    EndedRun,
    Pair,
    RoundProgress,
    design_of,
    fewest_seeds,
    follow_rounds,
)
from headtohead.comparison.verdicts.verdict import verdicts_of

ROUNDS = SeedRounds(start=3, most=20)
REGISTERED = Registration("max", seeds=range(20), rounds=ROUNDS)
Runs = Mapping[str, list[float | None]]


def drawn(**effects: float) -> dict[str, list[float | None]]:
    """Values of arms over seeds that they share, in standard deviations."""
    rng = np.random.default_rng(3)
    shared = rng.normal(size=20)
    return {arm: (shared + 0.7 * rng.normal(size=20) + effect).tolist() for arm, effect in effects.items()}


def followed(values: Runs, registration: Registration = REGISTERED, *, num_ended: int = 20) -> RoundProgress:
    """Make rounds in which the first arm is the baseline, and so many seeds of each have ended."""
    baseline, *others = values
    pairs = [(arm, baseline) for arm in others]

    def ended(arm: str, seed: int) -> EndedRun | None:
        return EndedRun(values[arm][seed]) if seed < num_ended else None

    assert registration.rounds is not None
    return follow_rounds(registration.rounds, list(values), pairs, registration, ended)


def verdicts(values: Runs, progress: RoundProgress, registration: Registration = REGISTERED) -> dict[Pair, Verdict]:
    made = {arm: dict(enumerate(runs[: progress.seeds[arm]])) for arm, runs in values.items()}
    contrasts = [Contrast(*pair) for pair in progress.stops]
    result = verdicts_of(made, contrasts, replace(registration, stops=progress.stops))
    return {(verdict.arm, verdict.baseline): verdict for verdict in result}


def test_a_decided_contrast_gets_no_more_seeds_and_the_baseline_goes_on() -> None:
    values = drawn(base=0.0, far=5.0, near=1.2)
    progress = followed(values)
    far, near = progress.stops["far", "base"], progress.stops["near", "base"]
    assert far.reason == near.reason == "decided" and far.num_seeds < near.num_seeds
    assert progress.seeds == {"base": near.num_seeds, "far": far.num_seeds, "near": near.num_seeds}
    assert not progress.is_open


def test_a_verdict_rests_on_the_seeds_of_its_contrast_and_says_why_there_are_no_more() -> None:
    values = drawn(base=0.0, far=5.0, near=1.2)
    progress = followed(values)
    for pair, verdict in verdicts(values, progress).items():
        number = progress.stops[pair].num_seeds
        assert verdict.kind == "better" and not verdict.reasons and verdict.num_seeds == (number, number)
        assert f"decided after {number} seeds of at most 20" in verdict.sentence
        assert verdict.seed_evidence is not None
        assert [len(curve) for curve in verdict.seed_evidence.curves.values()] == [number, number]


def test_what_shows_nothing_is_stopped_for_futility_and_stays_undecided() -> None:
    values = drawn(base=0.0, same=0.05)
    progress = followed(values)
    (verdict,) = verdicts(values, progress).values()
    stop = progress.stops["same", "base"]
    assert stop.reason == "futile" and stop.num_seeds < 20 and verdict.kind == "undecided"
    assert f"stopped after {stop.num_seeds} seeds for futility" in verdict.sentence


def test_arms_within_the_margin_are_equivalent_long_before_all_seeds_are_in() -> None:
    values = {
        "base": [0.01 * seed for seed in range(20)],
        "same": [0.01 * seed + 0.02 * (-1) ** seed for seed in range(20)],
    }
    registration = replace(REGISTERED, margin=0.5)
    progress = followed(values, registration)
    (verdict,) = verdicts(values, progress, registration).values()
    assert verdict.kind == "equivalent" and progress.stops["same", "base"].reason == "decided"
    assert progress.seeds["base"] < 10
    assert verdict.seed_evidence is not None and len(verdict.seed_evidence.curves["within the margin"]) < 10


def test_the_decisions_so_far_never_change_as_more_runs_end() -> None:
    """So that it does not matter when a study was killed, nor who was working on it."""
    values = drawn(base=0.0, far=5.0, near=1.2, same=0.1)
    whole = followed(values)
    for num_ended in range(21):
        part = followed(values, num_ended=num_ended)
        assert all(part.seeds[arm] <= number for arm, number in whole.seeds.items())
        assert {pair: stop for pair, stop in part.stops.items() if stop.reason != "open"}.items() <= whole.stops.items()
    assert max(whole.seeds.values()) <= 20


def test_a_round_waits_for_the_last_run_of_the_one_before() -> None:
    values = drawn(base=0.0, arm=3.0)
    assert followed(values, num_ended=2).seeds == {"base": 3, "arm": 3}
    assert followed(values, num_ended=3).seeds == {"base": 4, "arm": 4}
    assert followed(values, num_ended=3).stops == {("arm", "base"): SeedStop(4, "open")}


def test_seeds_whose_run_could_not_be_made_are_missing_and_the_rounds_go_on() -> None:
    values = drawn(base=0.0, arm=4.0)

    def ended(arm: str, seed: int) -> EndedRun:
        return EndedRun(values[arm][seed], counts=(arm, seed) != ("arm", 1))

    progress = follow_rounds(ROUNDS, ["base", "arm"], [("arm", "base")], REGISTERED, ended)
    without_name = follow_rounds(
        ROUNDS, ["base", "arm"], [("arm", "base")], REGISTERED, lambda *_: EndedRun(None, counts=False)
    )
    assert progress.stops["arm", "base"].num_seeds == followed(values).stops["arm", "base"].num_seeds + 1
    assert without_name.stops["arm", "base"] == SeedStop(3, "futile"), "what has no values shows nothing"


def test_an_arm_whose_runs_all_diverge_is_worse_by_the_sign_flips_alone() -> None:
    values: Runs = {"base": [0.9 - 0.01 * seed for seed in range(20)], "arm": [None] * 20}
    progress = followed(values)
    (verdict,) = verdicts(values, progress).values()
    assert verdict.kind == "worse" and verdict.because == "runs diverged, which rank worst"
    assert verdict.seed_evidence is not None and list(verdict.seed_evidence.curves) == ["sign flips"]


@pytest.mark.parametrize("is_paired", [True, False])
def test_where_solved_is_registered_solve_rates_decide_whatever_the_values_look_like(is_paired: bool) -> None:
    values = {"base": [0.1 + 0.01 * seed for seed in range(20)], "arm": [0.9 - 0.01 * seed for seed in range(20)]}
    registration = replace(REGISTERED, solved_at=0.6, paired=is_paired)
    progress = followed(values, registration)
    (verdict,) = verdicts(values, progress, registration).values()
    number = progress.seeds["arm"]
    assert verdict.kind == "better" and verdict.method == "e-process of solve rates"
    assert verdict.solved == (number, 0) and number == (7 if is_paired else 5)
    neither = followed({**values, "arm": values["base"]}, registration)
    assert neither.stops["arm", "base"].reason == "futile"


def test_a_p_value_only_falls_as_seeds_are_added() -> None:
    """A decision is not undone by a later seed."""
    values = drawn(base=0.0, arm=1.0)
    design = design_of(replace(REGISTERED, margin=0.5), ("arm", "base"), num_contrasts=1)
    result = [
        seed_evidence_of(dict(enumerate(values["arm"][:n])), dict(enumerate(values["base"][:n])), design)
        for n in range(1, 21)
    ]
    for kind in ("p", "p_equivalent", "p_exact"):
        assert (np.diff([getattr(one, kind) for one in result]) <= 0).all()


def test_means_need_as_many_seeds_as_signs_can_tell() -> None:
    assert [fewest_seeds(0.05 / number, 3, 20) for number in (1, 3, 9)] == [6, 8, 9]
    assert fewest_seeds(0.05, 9, 20) == 9 and fewest_seeds(0.05, 3, 5) is None


def test_where_neither_arm_learned_the_task_evidence_is_no_verdict_and_more_seeds_are_of_no_use() -> None:
    values = {"base": [0.1 + 1e-4 * seed for seed in range(20)], "arm": [0.101 + 2e-4 * seed for seed in range(20)]}
    registration = replace(REGISTERED, scale=MetricScale(chance=0.1, best=1.0))
    progress = followed(values, registration)
    (verdict,) = verdicts(values, progress, registration).values()
    assert verdict.p is not None and verdict.p < 0.05 and verdict.answer == "undecided: neither learned the task"
    assert verdict.seed_evidence is not None and verdict.seed_evidence.stop.reason == "futile"
    assert f"no seeds were added after {progress.seeds['arm']} seeds of at most 20" in verdict.sentence
