"""Planted effects of factors are recovered, and what cannot be told is not told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product

import numpy as np
import pytest
from scipy import stats

from headtohead.comparison.analyses.effects import EffectEstimate, Effects, EffectSettings, Factors, effects_of
from headtohead.comparison.analyses.effects_text import certainty
from headtohead.comparison.contrasts import Values
from headtohead.comparison.statistics.factorial import Design

TWO = {"norm": ("layer", "rms"), "residual": ("pre", "post")}
Truth = Callable[[Mapping[str, str]], float]


def crossed(levels: Mapping[str, Sequence[str]], *, without: Sequence[str] = ()) -> Factors:
    cells = (dict(zip(levels, row, strict=True)) for row in product(*levels.values()))
    arms = {"+".join(cell.values()): cell for cell in cells}
    return Factors(levels, {arm: cell for arm, cell in arms.items() if arm not in without})


def runs(factors: Factors, truth: Truth, *, noise: float = 0.01, num_seeds: int = 5, seed: int = 0) -> Values:
    """Seeds differ far more than arms do within one."""
    rng = np.random.default_rng(seed)
    level = rng.normal(size=num_seeds)
    return {
        arm: {i: float(level[i] + truth(cell) + noise * rng.normal()) for i in range(num_seeds)}
        for arm, cell in factors.arms.items()
    }


def planted(cell: Mapping[str, str]) -> float:
    rms, post = cell["norm"] == "rms", cell["residual"] == "post"
    return -0.2 * rms + 0.5 * post + 0.4 * (rms and post)


def result(effects: Effects, name: str) -> EffectEstimate:
    return next(effect for effect in effects.effects if effect.name == name)


READING = EffectSettings("test/loss", "min")


def test_planted_main_effects_and_their_interaction_are_recovered() -> None:
    """A main effect is averaged over the other factor: -0.2 at pre, 0.2 at post, 0 in the middle."""
    factors = crossed(TWO)
    effects = effects_of(factors, runs(factors, planted), READING)
    norm, residual, both = effects.effects
    assert norm.difference == pytest.approx(0.0, abs=0.02) and norm.kind == "undecided"
    assert residual.difference == pytest.approx(0.7, abs=0.02) and residual.kind == "worse"
    assert both.difference == pytest.approx(0.4, abs=0.04) and both.kind == "interact"
    assert effects.base == {"norm": "layer", "residual": "pre"} and effects.seeds == (0, 1, 2, 3, 4)


def test_factors_of_several_levels_have_an_effect_for_each_level() -> None:
    factors = crossed({"norm": ("layer", "rms", "batch"), "residual": ("pre", "post")})
    size = {"layer": 0.0, "rms": 0.1, "batch": 0.9}

    def truth(cell: Mapping[str, str]) -> float:
        return size[cell["norm"]] + 0.3 * (cell["residual"] == "post" and cell["norm"] == "batch")

    effects = effects_of(factors, runs(factors, truth, noise=1e-6), READING)
    assert result(effects, "norm=rms").difference == pytest.approx(0.1, abs=1e-4)
    assert result(effects, "norm=batch").difference == pytest.approx(1.05, abs=1e-4)
    assert result(effects, "norm=batch x residual=post").difference == pytest.approx(0.3, abs=1e-4)
    assert result(effects, "norm=rms x residual=post").difference == pytest.approx(0.0, abs=1e-4)


@pytest.mark.slow
def test_without_any_effect_one_family_in_twenty_has_a_false_positive() -> None:
    factors = crossed(TWO)
    wrong = [
        any(
            each.kind != "undecided"
            for each in effects_of(factors, runs(factors, lambda _: 0.0, seed=s), READING).effects
        )
        for s in range(600)
    ]
    assert 0.02 < np.mean(wrong) < 0.08


def test_a_cell_that_cannot_be_leaves_main_effects_that_say_what_they_assume() -> None:
    factors = crossed(TWO, without=["rms+post"])
    effects = effects_of(factors, runs(factors, lambda cell: 0.5 * (cell["residual"] == "post")), READING)
    residual, both = result(effects, "residual=post"), result(effects, "norm=rms x residual=post")
    assert residual.difference == pytest.approx(0.5, abs=0.02)
    assert residual.assuming == ("norm=rms x residual=post",)
    assert both.kind == "not estimable" and both.aliases == ("norm=rms", "residual=post")


def test_a_cell_left_out_of_three_factors_leaves_all_effects_of_two_estimable() -> None:
    levels = {**TWO, "bias": ("off", "on")}
    factors = crossed(levels, without=["rms+post+on"])
    effects = effects_of(factors, runs(factors, planted, noise=1e-6), READING)
    assert all(effect.kind != "not estimable" and not effect.assuming for effect in effects.effects)
    assert result(effects, "norm=rms x residual=post").difference == pytest.approx(0.4, abs=1e-4)
    assert result(effects, "bias=on").difference == pytest.approx(0.0, abs=1e-4)


def test_the_aliases_of_a_half_fraction_are_those_of_its_defining_word() -> None:
    """d = abc: pairs of factors are aliased with the other pair, main effects are clear."""
    levels = dict.fromkeys("abcd", ("0", "1"))
    cells = [
        {"a": str(a), "b": str(b), "c": str(c), "d": str((a + b + c) % 2)} for a, b, c in product((0, 1), repeat=3)
    ]
    estimators = {each.effect.name: each for each in Design(levels, cells).estimators()}
    assert all(estimators[f"{name}=1"].weights is not None and not estimators[f"{name}=1"].aliases for name in "abcd")
    assert estimators["a=1 x b=1"].weights is None
    assert [alias.name for alias in estimators["a=1 x b=1"].aliases] == ["c=1 x d=1"]


def test_a_level_that_was_never_run_has_no_effect() -> None:
    factors = crossed(TWO, without=["rms+pre", "rms+post"])
    effects = effects_of(factors, runs(factors, planted), READING)
    assert result(effects, "norm=rms").kind == "not estimable"
    residual = result(effects, "residual=post")
    assert residual.difference == pytest.approx(0.5, abs=0.02) and not residual.assuming


def test_one_factor_at_a_time_gives_differences_to_the_base_and_no_interactions() -> None:
    arms = {"base": ("layer", "pre"), "rms": ("rms", "pre"), "post": ("layer", "post")}
    factors = Factors(TWO, {arm: dict(zip(TWO, row, strict=True)) for arm, row in arms.items()}, crossed=False)
    effects = effects_of(factors, runs(factors, planted), READING)
    assert [effect.name for effect in effects.effects] == ["norm=rms", "residual=post"]
    assert [effect.difference for effect in effects.effects] == pytest.approx([-0.2, 0.5], abs=0.02)
    assert not any(effect.assuming for effect in effects.effects)


def test_an_arm_that_diverged_is_no_number_and_is_left_out_by_name() -> None:
    factors = crossed(TWO)
    values = {arm: dict(each) for arm, each in runs(factors, planted).items()}
    values["rms+post"][1] = None
    effects = effects_of(factors, values, READING)
    assert effects.remarks == ("rms+post is left out of the effects: 1 of its 5 runs diverged, which is not a number",)
    assert result(effects, "norm=rms x residual=post").kind == "not estimable"


def test_a_seed_that_lacks_an_arm_is_left_out() -> None:
    factors = crossed(TWO)
    values = {arm: dict(each) for arm, each in runs(factors, planted).items()}
    del values["rms+pre"][3]
    effects = effects_of(factors, values, READING)
    assert effects.seeds == (0, 1, 2, 4)
    assert effects.remarks == ("seed 3 is left out of the effects: it has no value of rms+pre",)


def test_one_seed_decides_nothing() -> None:
    factors = crossed(TWO)
    effects = effects_of(factors, runs(factors, planted, num_seeds=1), READING)
    assert {effect.kind for effect in effects.effects} == {"undecided"}


def test_what_rests_on_an_arm_that_was_not_registered_explores_and_nothing_else() -> None:
    arms = {"base": ("layer", "pre"), "rms": ("rms", "pre"), "post": ("layer", "post")}
    factors = Factors(TWO, {arm: dict(zip(TWO, row, strict=True)) for arm, row in arms.items()}, crossed=False)
    values = runs(factors, planted, noise=0.3)
    norm, residual = effects_of(factors, values, EffectSettings("test/loss", "min", exploratory=["post"])).effects
    assert (norm.exploratory, residual.exploratory) == (False, True)
    alone = effects_of(factors, values, READING).effects
    assert norm.p_adjusted == alone[0].p_adjusted, "what was registered keeps the family's error"
    assert certainty(residual).endswith("(exploratory)") and "exploratory" not in certainty(norm)


def test_a_seed_that_an_exploratory_arm_lacks_makes_all_effects_exploratory() -> None:
    arms = {"base": ("layer", "pre"), "rms": ("rms", "pre"), "post": ("layer", "post")}
    factors = Factors(TWO, {arm: dict(zip(TWO, row, strict=True)) for arm, row in arms.items()}, crossed=False)
    values = {arm: dict(each) for arm, each in runs(factors, planted).items()}
    del values["post"][3]
    effects = effects_of(factors, values, EffectSettings("test/loss", "min", exploratory=["post"]))
    assert all(effect.exploratory for effect in effects.effects)


def test_effects_on_accuracies_are_shown_as_far_as_accuracies_reach() -> None:
    """Three seeds that disagree: a main effect ends at 1, an interaction, a difference of two, at 2."""
    cells = {"layer+pre": [0.1, 0.2, 0.5], "layer+post": [0.3, 0.3, 0.4], "rms+pre": [0.0, 0.7, 0.05]}
    values = {arm: dict(enumerate(own)) for arm, own in {**cells, "rms+post": [1.0, 0.2, 0.95]}.items()}
    shown, whole = (
        effects_of(crossed(TWO), values, EffectSettings(f"test/{name}", "max")) for name in ("accuracy", "reward")
    )
    matrix = np.array([list(own.values()) for own in values.values()])
    residual = (matrix[1] + matrix[3] - matrix[0] - matrix[2]) / 2
    both = matrix[3] - matrix[2] - matrix[1] + matrix[0]
    for name, seeds, reach in (("residual=post", residual, 1.0), ("norm=rms x residual=post", both, 2.0)):
        low, high = stats.ttest_1samp(seeds, 0).confidence_interval(0.95)
        assert result(whole, name).interval == pytest.approx((low, high))
        assert high > reach
        assert result(shown, name).interval == pytest.approx((max(low, -reach), reach))
        assert result(shown, name).p == pytest.approx(stats.ttest_1samp(seeds, 0).pvalue)


def small_ablation(differences: Sequence[float], level: float = 5.0) -> tuple[Factors, Values]:
    """One factor of two levels, whose effect in each seed is given."""
    factors = crossed({"norm": ("layer", "rms")})
    base, changed = factors.arms
    return factors, {
        base: {seed: level + 0.1 * (-1) ** seed for seed in range(len(differences))},
        changed: {seed: level + 0.1 * (-1) ** seed + each for seed, each in enumerate(differences)},
    }


def test_from_six_seeds_an_exact_test_has_to_agree() -> None:
    """Five large differences and a tiny one the other way: t gives p = 0.004, flipped signs 4 of 64."""
    (effect,) = effects_of(*small_ablation([1.0, 1.0, 1.0, 1.0, 1.0, -0.01]), READING).effects
    assert effect.p == pytest.approx(4 / 64) and effect.kind == "undecided"
    (effect,) = effects_of(*small_ablation([1.0, 1.1, 0.9, 1.0, 1.2, 0.8]), READING).effects
    assert effect.p == pytest.approx(2 / 64) and effect.kind == "worse"


def test_few_seeds_near_an_end_of_the_metric_decide_nothing() -> None:
    reading = EffectSettings("test/accuracy", "max")
    factors, values = small_ablation([0.006, 0.006, 0.007, 0.0065], level=0.5)
    near = {arm: {seed: 0.98 + 0.1 * (value - 0.5) for seed, value in runs.items()} for arm, runs in values.items()}
    assert effects_of(factors, values, reading).effects[0].kind == "better"
    (effect,) = effects_of(factors, near, reading).effects
    assert effect.kind == "undecided" and effect.withheld is not None
    assert "too few seeds for this shape" in certainty(effect)
