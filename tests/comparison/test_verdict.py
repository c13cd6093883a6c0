"""Verdicts: the right test for the values, the right kind, and a sentence that says what is known and what is not."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pytest

from headtohead.comparison.contrasts import Contrast, Registration, Times, Verdict
from headtohead.comparison.statistics.multiple_testing import interim_levels
from headtohead.comparison.statistics.value_shapes import MetricScale
from headtohead.comparison.verdicts.verdict import verdicts_of
from single_verdict import verdict_of

CONTRAST = Contrast("mamba", "attention")
LOSS = Registration("min", metric="loss", seeds=range(5))
ACCURACY = Registration("max", metric="accuracy", seeds=range(5), scale=MetricScale(0.1, 1.0))


def outcomes(*values: float | None) -> dict[int, float | None]:
    return dict(enumerate(values))


ATTENTION = outcomes(2.00, 2.05, 1.95, 2.02, 1.98)


def judged(
    mamba: dict[int, float | None],
    registration: Registration = LOSS,
    attention: dict[int, float | None] | None = None,
    times: Times | None = None,
) -> Verdict:
    values = {"mamba": mamba, "attention": ATTENTION if attention is None else attention}
    return verdicts_of(values, [CONTRAST], registration, times)[0]


def shifted(*by: float) -> dict[int, float | None]:
    return {seed: (value or 0.0) + each for (seed, value), each in zip(ATTENTION.items(), by, strict=True)}


def test_a_lower_loss_is_better_and_a_lower_accuracy_is_worse() -> None:
    lower = shifted(-0.20, -0.21, -0.19, -0.22, -0.18)
    assert verdict_of({"mamba": lower, "attention": ATTENTION}, CONTRAST, "min", None, range(5)).kind == "better"
    assert verdict_of({"mamba": lower, "attention": ATTENTION}, CONTRAST, "max", None, range(5)).kind == "worse"


def test_the_sentence_says_kind_size_interval_p_and_test() -> None:
    verdict = judged(shifted(-0.20, -0.21, -0.19, -0.22, -0.18))
    assert verdict.sentence == (
        "mamba is better than attention on loss: a difference of -0.200, 95 % interval -0.220 to -0.180 "
        "(p < 0.001, paired t-test over 5 seeds)."
    )


def test_a_p_value_next_to_the_level_is_told_with_the_digits_that_decided() -> None:
    steps = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
    sentences = [judged(shifted(*(mean + 0.1 * steps))).sentence for mean in np.linspace(0.0955, 0.1005, 200)]
    assert not [one for one in sentences if "is worse" in one and "p = 0.05," in one]
    assert any("is worse" in sentence and "p = 0.0499" in sentence for sentence in sentences)


def test_undecided_names_the_effect_these_seeds_can_show_and_the_seeds_a_new_registration_needs() -> None:
    verdict = judged(shifted(-0.2, 0.1, -0.1, 0.1, 0.0))
    assert verdict.kind == "undecided"
    deviation = np.std([-0.2, 0.1, -0.1, 0.1, 0.0], ddof=1)
    assert verdict.detectable_effect == pytest.approx(1.79 * deviation, rel=1e-2)
    least, most = verdict.seeds_range or (None, None)
    assert least is not None and 100 < least < 336 and most is None, "five seeds know the spread by a factor of two"
    assert "5 seeds find differences of 0.233 and more in 80 % of studies" in verdict.sentence
    assert f"from {least} to more than 1000 seeds would show a difference of this size in a new registration" in (
        verdict.sentence
    )


def test_the_effect_of_a_family_is_stated_at_its_own_level() -> None:
    """Nine contrasts under Holm: the effect of one alone is found in 18 to 39 % of studies."""
    arms = {str(position): shifted(-0.2, 0.1, -0.1, 0.1, 0.0) for position in range(9)} | {"attention": ATTENTION}
    alone = verdicts_of(arms, [Contrast("0", "attention")], LOSS)[0]
    verdict = verdicts_of(arms, [Contrast(str(position), "attention") for position in range(9)], LOSS)[0]
    assert verdict.num_contrasts == 9 and verdict.family_level == pytest.approx(0.05 / 9)
    assert (verdict.detectable_effect or 0) > 1.7 * (alone.detectable_effect or 0)
    assert "in 80 % of studies, as one of 9 contrasts (p < 0.0056 each)" in verdict.sentence
    assert verdict.as_data()["family_level"] == pytest.approx(0.05 / 9)


def test_no_difference_found_is_not_equivalence_without_a_margin() -> None:
    close = shifted(0.01, -0.01, 0.0, 0.005, -0.005)
    assert judged(close).kind == "undecided"
    verdict = judged(close, Registration("min", metric="loss", seeds=range(5), margin=0.05))
    assert verdict.kind == "equivalent"
    assert "and by less than the margin of 0.05" in verdict.sentence
    assert "two one-sided paired t-tests over 5 seeds" in verdict.sentence, "the interval may reach over the margin"


def test_a_sure_difference_smaller_than_the_margin_is_equivalent() -> None:
    margin = Registration("min", seeds=range(5), margin=0.5)
    verdict = judged(shifted(-0.20, -0.21, -0.19, -0.22, -0.18), margin)
    assert verdict.kind == "equivalent"
    assert verdict.p is not None and verdict.p < 0.001


def test_differences_without_spread_have_no_p_value_and_decide_nothing() -> None:
    verdict = judged(outcomes(*[1.0] * 5), attention=outcomes(*[2.0] * 5))
    assert (verdict.kind, verdict.method, verdict.p, verdict.interval) == ("undecided", "none", None, None)
    assert "the seeds have no spread" in verdict.sentence


def test_one_seed_decides_nothing() -> None:
    verdict = judged(outcomes(1.0), Registration("min", seeds=[0]))
    assert (verdict.kind, verdict.p) == ("undecided", None)
    assert "one seed has no spread" in verdict.sentence


@pytest.mark.parametrize("bad", [None, float("nan"), float("inf")])
def test_a_divergence_is_counted_and_ranks_worst_and_enters_no_t_test(bad: float | None) -> None:
    verdict = judged(outcomes(bad, bad, bad, bad, bad))
    assert (verdict.kind, verdict.method, verdict.interval) == ("worse", "ranks", None)
    assert verdict.failures == {"mamba": 5, "attention": 0}
    assert "5 of 5 runs of mamba diverged" in verdict.sentence


def test_one_divergence_does_not_let_the_rest_win_by_their_mean() -> None:
    """Four seeds are better by far, one diverged: that is not for sure better."""
    verdict = judged({**shifted(0.0, -0.20, -0.21, -0.19, -0.22), 0: None})
    assert (verdict.kind, verdict.method) == ("undecided", "ranks")
    assert verdict.difference == pytest.approx(-0.205)


def test_an_arm_of_two_groups_is_judged_by_solve_rates_and_the_sentence_says_so() -> None:
    verdict = judged(outcomes(0.1, 0.99, 0.12, 0.1, 0.11), ACCURACY, attention=outcomes(1.0, 0.99, 1.0, 1.0, 1.0))
    assert (verdict.method, verdict.solved, verdict.kind) == ("solve rates", (1, 5), "worse")
    assert "because the seeds of mamba fall into two groups" in verdict.sentence


def test_a_saturated_arm_is_judged_by_solve_rates() -> None:
    verdict = judged(outcomes(0.5, 0.6, 0.55, 0.5, 0.52), ACCURACY, attention=outcomes(1.0, 0.999, 1.0, 1.0, 1.0))
    assert (verdict.method, verdict.solved, verdict.kind) == ("solve rates", (0, 5), "worse")


def test_of_arms_that_all_solve_it_the_times_to_solve_decide() -> None:
    solved = outcomes(*[1.0] * 5)
    times = {"mamba": outcomes(100, 110, 105, 102, 99), "attention": outcomes(300, 310, 290, 305, 320)}
    verdict = judged(solved, ACCURACY, attention=solved, times=lambda at: times if at == pytest.approx(0.91) else {})
    assert "in the median 203 steps sooner" in verdict.sentence
    assert (verdict.method, verdict.kind, verdict.difference) == ("time to solve", "better", -203.0)
    assert verdict.p == pytest.approx(2 / 252)


def test_times_are_not_asked_where_rates_can_differ() -> None:
    almost, solved = outcomes(1.0, 1.0, 1.0, 1.0, 0.5), outcomes(*[1.0] * 5)
    times = {"mamba": outcomes(1, 2, 3, 4, 5), "attention": outcomes(300, 310, 290, 305, 320)}
    verdict = judged(almost, ACCURACY, attention=solved, times=lambda _: times)
    assert (verdict.method, verdict.solved, verdict.kind) == ("solve rates", (4, 5), "undecided")


@pytest.mark.slow
def test_a_registered_threshold_makes_it_a_question_of_rates() -> None:
    registration = Registration("max", seeds=range(5), solved_at=0.9)
    verdict = judged(outcomes(0.95, 0.93, 0.94, 0.96, 0.97), registration, outcomes(0.5, 0.6, 0.7, 0.8, 0.85))
    assert (verdict.method, verdict.solved, verdict.kind) == ("solve rates", (5, 0), "better")


def test_seeds_added_after_registration_make_it_exploratory() -> None:
    values = {"mamba": shifted(-0.20, -0.21, -0.19, -0.22, -0.18), "attention": ATTENTION}
    verdict = verdict_of(values, CONTRAST, "min", None, range(3))
    assert verdict.exploratory
    assert verdict.sentence.startswith("Exploratory (seeds added after registration: 3, 4): mamba is better")


def test_missing_seeds_and_no_registration_make_it_exploratory() -> None:
    values = {"mamba": shifted(-0.20, -0.21, -0.19, -0.22, -0.18), "attention": ATTENTION}
    assert verdict_of(values, CONTRAST, "min", None, range(6)).reasons == ("registered seeds missing: 5",)
    assert verdict_of(values, CONTRAST, "min").reasons == ("no seeds were registered",)
    assert not verdict_of(values, CONTRAST, "min", None, range(5)).exploratory


def test_a_registered_look_has_its_own_level_and_another_is_exploratory() -> None:
    registration = Registration("min", seeds=range(8), interim_analyses=[5, 8])
    verdict = judged(shifted(-0.20, -0.21, -0.19, -0.22, -0.18), registration)
    assert verdict.level == pytest.approx(interim_levels([5, 8])[0])
    assert not verdict.exploratory
    unplanned = judged(
        shifted(-0.20, -0.21, -0.19, -0.22, -0.18), Registration("min", seeds=range(8), interim_analyses=[3, 8])
    )
    assert unplanned.reasons == ("a look at 5 seeds was not registered",)


def test_a_registered_family_is_held_by_holm_and_an_exploring_one_by_its_false_discoveries() -> None:
    values = {
        "attention": ATTENTION,
        "mamba": shifted(-0.1, -0.3, -0.05, -0.2, -0.1),
        "lstm": shifted(0.3, 0.1, 0.2, 0.1, 0.0),
    }
    contrasts = [Contrast("mamba", "attention"), Contrast("lstm", "attention")]
    registered = verdicts_of(values, contrasts, LOSS)
    smallest = min(verdict.p or 1.0 for verdict in registered)
    assert {verdict.adjustment for verdict in registered} == {"holm"}
    assert min(verdict.p_adjusted or 1.0 for verdict in registered) == pytest.approx(2 * smallest)
    explored = verdicts_of(values, contrasts, Registration("min"))
    assert {verdict.adjustment for verdict in explored} == {"benjamini_hochberg"}


def test_a_run_that_one_arm_lacks_makes_no_other_verdict_easier() -> None:
    values = {
        "attention": ATTENTION,
        "mamba": shifted(-0.1, -0.3, -0.05, -0.2, -0.1),
        "lstm": shifted(0.3, 0.1, 0.2, 0.1, 0.0),
    }
    contrasts = [Contrast("mamba", "attention"), Contrast("lstm", "attention")]
    whole, _ = verdicts_of(values, contrasts, LOSS)
    without_name, other = verdicts_of({**values, "lstm": {1: 2.15, 2: 2.15, 3: 2.12, 4: 1.98}}, contrasts, LOSS)
    assert (without_name.adjustment, other.adjustment) == ("holm", "benjamini_hochberg")
    assert not without_name.exploratory and other.exploratory
    assert without_name.p_adjusted == pytest.approx(min(2 * (whole.p or 1.0), max(whole.p or 1.0, other.p or 1.0)))


def test_an_exact_test_that_cannot_decide_names_the_seeds_with_which_it_can() -> None:
    three = judged(outcomes(0.5, 0.6, 0.5), Registration("max", seeds=range(3), solved_at=0.9), outcomes(1.0, 1.0, 1.0))
    assert three.kind == "undecided" and three.seeds_needed == 4
    assert "from 4 seeds on they do where all seeds of one arm are ahead" in three.sentence
    four = judged(outcomes(*[0.5] * 4), Registration("max", seeds=range(4), solved_at=0.9), outcomes(*[1.0] * 4))
    assert four.kind == "worse" and "hardly" not in four.sentence


def test_a_contrast_that_was_not_registered_says_why() -> None:
    values = {"mamba": shifted(-0.20, -0.21, -0.19, -0.22, -0.18), "attention": ATTENTION}
    options = Contrast("mamba", "attention", departure="the margin changed after registration")
    (verdict,) = verdicts_of(values, [options], LOSS)
    assert verdict.sentence.startswith("Exploratory (the margin changed after registration): mamba is better")


def test_as_many_other_seeds_as_a_look_has_are_not_that_look() -> None:
    registration = Registration("min", seeds=range(8), interim_analyses=[5, 8])
    mamba = {seed: value for seed, value in shifted(-0.20, -0.21, -0.19, -0.22, -0.18).items() if seed != 4}
    verdict = judged({**mamba, 7: 1.8}, registration, {**ATTENTION, 7: 2.0})
    assert verdict.seeds == (0, 1, 2, 3, 7) and verdict.reasons == ("registered seeds missing: 4",)


def test_a_first_look_that_may_spend_next_to_nothing_is_plain_json() -> None:
    registration = Registration("min", seeds=range(30), interim_analyses=[2, 30])
    verdict = judged({0: 1.8, 1: 1.9}, registration)
    assert verdict.kind == "undecided" and verdict.detectable_effect is None
    assert "over 99.9 % interval" in verdict.sentence and "p-values decide below 1e-15 here" in verdict.sentence
    json.dumps(verdict.as_data(), allow_nan=False)


def test_only_seeds_of_both_arms_are_paired() -> None:
    verdict = judged({7: 1.0, **shifted(-0.20, -0.21, -0.19, -0.22, -0.18)})
    assert verdict.seeds == (0, 1, 2, 3, 4)


def test_unpaired_seeds_go_to_welch() -> None:
    registration = Registration("min", seeds=range(10), paired=False)
    verdict = judged({5: 1.0, 6: 1.1, 7: 0.9}, registration)
    assert (verdict.method, verdict.kind) == ("Welch's t", "better")


def test_seeds_of_unpaired_arms_are_counted_for_each() -> None:
    verdict = judged({5: 2.1, 6: 2.3, 7: 1.9}, Registration("min", metric="loss", paired=False))
    assert len(verdict.seeds) == 8 and verdict.num_seeds == (3, 5)
    assert "Welch's t-test over 3 and 5 seeds" in verdict.sentence and "; 3 seeds find differences" in verdict.sentence


@pytest.mark.parametrize("paired", [True, False])
def test_values_too_large_to_be_squared_are_plain_json(paired: bool) -> None:
    registration = Registration("min", metric="perplexity", seeds=range(5), paired=paired)
    verdict = judged(outcomes(1e200, 2e200, 3e200, 2e200, 1e200), registration)
    assert verdict.kind == "undecided" and verdict.method == "none"
    json.dumps(verdict.as_data(), allow_nan=False)


def test_an_arm_without_values_is_named() -> None:
    with pytest.raises(ValueError, match=r"the contrast names lstm.*choose among attention"):
        verdict_of({"attention": ATTENTION}, Contrast("lstm", "attention"), "min")


def test_every_kind_of_verdict_is_json() -> None:
    for mamba in (ATTENTION, outcomes(None, None, None, None, None), outcomes(1.0), shifted(-0.2, 0.1, -0.1, 0.1, 0.0)):
        verdict = judged(mamba)
        assert json.loads(json.dumps(verdict.as_data(), allow_nan=False))["sentence"] == verdict.sentence


def draws(rng: np.random.Generator, num_seeds: int, mean: float = 0.0) -> dict[int, float | None]:
    return dict(enumerate(map(float, rng.normal(mean, np.sqrt(0.5), size=num_seeds))))


def decided(num_seeds: Sequence[int], registration: Registration, mean: float = 0.0, studies: int = 600) -> float:
    """The share of studies decided at one of the looks; pairs differ with a deviation of 1."""
    rng, result = np.random.default_rng(0), 0
    for _ in range(studies):
        first, second = draws(rng, num_seeds[-1], mean), draws(rng, num_seeds[-1])
        for n in num_seeds:
            seen = {"mamba": {s: first[s] for s in range(n)}, "attention": {s: second[s] for s in range(n)}}
            if verdicts_of(seen, [CONTRAST], registration)[0].kind in ("better", "worse"):
                result += 1
                break
    return result / studies


@pytest.mark.slow
def test_a_against_a_gets_a_verdict_in_5_percent_of_studies() -> None:
    assert decided([5], Registration("min", seeds=range(5))) == pytest.approx(0.05, abs=0.025)


@pytest.mark.slow
def test_a_against_a_with_registered_looks_still_gets_one_in_5_percent() -> None:
    assert decided([3, 5, 8], Registration("min", seeds=range(8), interim_analyses=[3, 5, 8])) == pytest.approx(
        0.05, abs=0.025
    )


@pytest.mark.slow
def test_the_detectable_effect_gets_its_verdict_in_80_percent_of_studies() -> None:
    assert decided([5], Registration("min", seeds=range(5)), mean=1.79) == pytest.approx(0.8, abs=0.045)


@pytest.mark.slow
def test_a_bimodal_arm_against_itself_gets_a_verdict_in_5_percent_at_most() -> None:
    rng, result = np.random.default_rng(0), 0
    for _ in range(400):
        arms = [
            dict(enumerate(map(float, rng.choice([0.1, 1.0], size=5) + 0.01 * rng.normal(size=5)))) for _ in range(2)
        ]
        result += judged({**arms[0]}, ACCURACY, {**arms[1]}).kind in ("better", "worse")
    assert result / 400 <= 0.05
