"""The arms that an ablation makes, and the combinations that cannot be."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

from headtohead.config.errors import ConfigurationError
from headtohead.studies.definition.ablation import Ablation
from headtohead.studies.definition.fractional_designs import balanced_fraction, regular_fraction
from headtohead.studies.definition.read_study_file import study_from
from headtohead.studies.definition.study import Study
from headtohead.studies.planning.study_plan import StudyPlanner
from studies.small_studies import TINY, WRITTEN

NORM = {"layer_norm": ["model/norm=layer_norm"], "rms_norm": ["model/norm=rms_norm"]}
RESIDUAL = {"pre": ["model/residual=pre"], "post": ["model/residual=post"]}


def ablation_study(ablation: dict[str, Any], **changes: Any) -> Study:
    rest = {key: value for key, value in WRITTEN.items() if key not in ("arms", "baseline")}
    return study_from("small", {**rest, "ablation": ablation, **changes})


def test_a_factorial_crosses_all_levels_and_compares_each_arm_with_the_base() -> None:
    study = ablation_study({"kind": "factorial", "factors": {"norm": NORM, "residual": RESIDUAL}})
    assert list(study.arms) == ["layer_norm+pre", "layer_norm+post", "rms_norm+pre", "rms_norm+post"]
    assert study.arms["rms_norm+post"] == ("model/norm=rms_norm", "model/residual=post")
    assert study.baseline == "layer_norm+pre" and len(study.contrasts) == 3


def test_one_factor_at_a_time_moves_each_factor_away_from_the_base_alone() -> None:
    factors = {"norm": NORM, "residual": RESIDUAL}
    study = ablation_study({"kind": "one_factor", "factors": factors, "base": {"norm": "rms_norm"}})
    assert study.arms == {
        "base": ("model/norm=rms_norm", "model/residual=pre"),
        "layer_norm": ("model/norm=layer_norm", "model/residual=pre"),
        "post": ("model/norm=rms_norm", "model/residual=post"),
    }


def test_levels_of_one_name_are_told_apart_by_their_factor() -> None:
    factors = {"bias": {False: [], True: ["b=1"]}, "gate": {False: [], True: ["g=1"]}}
    study = ablation_study({"kind": "factorial", "factors": factors, "base": {"gate": True}})
    assert study.baseline == "bias-off+gate-on" and "bias-on+gate-off" in study.arms


def test_arms_of_ones_own_stand_beside_those_of_the_ablation() -> None:
    study = ablation_study(
        {"kind": "one_factor", "factors": {"norm": NORM}}, arms={"other": ["model=mlp"]}, baseline="other"
    )
    assert list(study.arms) == ["base", "rms_norm", "other"] and ("base", "other") in study.contrasts
    with pytest.raises(ConfigurationError, match="study small: arms has base, which the ablation makes"):
        ablation_study({"kind": "one_factor", "factors": {"norm": NORM}}, arms={"base": []})


@pytest.mark.parametrize(
    ("num_factors", "resolution", "size"), [(3, 3, 4), (4, 4, 8), (5, 5, 16), (6, 4, 16), (7, 3, 8)]
)
def test_a_regular_fraction_is_orthogonal_up_to_its_resolution(num_factors: int, resolution: int, size: int) -> None:
    rows = np.array(regular_fraction([f"f{i}" for i in range(num_factors)], resolution))
    assert len(rows) == size and not rows[0].any()
    signs = 2 * rows - 1
    for words in range(1, resolution):
        assert all(signs[:, word].prod(axis=1).sum() == 0 for word in combinations(range(num_factors), words))


def test_a_resolution_that_no_fraction_has_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no fraction of 3 factors has resolution 4"):
        regular_fraction(["a", "b", "c"], 4)


def test_a_fraction_of_three_levels_has_all_pairs_of_levels_equally_often() -> None:
    """Nine of 81: the orthogonal array exists, and the exchange finds it."""
    rows = balanced_fraction([3, 3, 3, 3], 9)
    assert len(set(rows)) == 9 and rows[0] == (0, 0, 0, 0)
    for first, second in combinations(range(4), 2):
        assert {(row[first], row[second]) for row in rows} == set(product(range(3), repeat=2))


def test_a_fraction_of_mixed_levels_estimates_every_main_effect() -> None:
    rows = balanced_fraction([2, 3, 4], 8)
    columns = [np.ones(8)] + [
        [float(row[factor] == level) for row in rows]
        for factor, count in enumerate([2, 3, 4])
        for level in range(1, count)
    ]
    assert np.linalg.matrix_rank(np.array(columns)) == 7


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ({"kind": "all", "factors": {"norm": NORM}}, r"ablation.kind=all is refused: it must be one_factor or"),
        ({"kind": "factorial"}, "ablation has no factors"),
        ({"kind": "factorial", "factors": {}}, "factors is empty"),
        ({"kind": "factorial", "factor": {}}, r"factor is not a field of ablation: did you mean factors\?"),
        ({"kind": "factorial", "factors": {"norm": {"a": []}}}, r"factor norm has the levels \[a\]: give two or more"),
        ({"kind": "factorial", "factors": {"norm": NORM}, "base": {"norms": "a"}}, r"did you mean norm\?"),
        ({"kind": "factorial", "factors": {"norm": NORM}, "base": {"norm": "layer"}}, r"did you mean layer_norm\?"),
        ({"kind": "factorial", "factors": {"norm": NORM}, "resolution": 4}, "resolution=4 is of fractional designs"),
        ({"kind": "fractional", "factors": {"norm": NORM}}, "needs three factors or more"),
        (
            {"kind": "fractional", "factors": {"norm": {**NORM, "none": []}, "residual": RESIDUAL}},
            "set combinations: N, how many to run of 6, from 4 on",
        ),
        (
            {"kind": "fractional", "factors": {"norm": NORM, "residual": RESIDUAL}, "combinations": 2},
            "combinations=2 is refused: 3 at least",
        ),
    ],
)
def test_what_is_no_ablation_is_refused_in_one_sentence(written: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^study small: .*{sentence}"):
        ablation_study(written)


def test_a_design_without_end_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="more than 2000 combinations"):
        Ablation("factorial", {f"f{i}": {"off": (), "on": ()} for i in range(11)})


def test_a_combination_that_cannot_be_built_is_left_out_with_its_reason() -> None:
    """Heads of width 8 / 3 there are none."""
    factors = {"heads": {1: ["model.num_heads=1"], 3: ["model.num_heads=3"]}, "norm": NORM}
    plan = StudyPlanner(ablation_study({"kind": "factorial", "factors": factors}, base=list(TINY), seeds=1)).plan()
    assert list(plan.study.arms) == ["1+layer_norm", "1+rms_norm"]
    assert [arm for arm, _ in plan.left_out] == ["3+layer_norm", "3+rms_norm"]
    assert all(reason.startswith("model.num_heads=3") for _, reason in plan.left_out)


def test_a_base_that_cannot_be_built_is_an_error() -> None:
    factors = {"heads": {3: ["model.num_heads=3"], 1: ["model.num_heads=1"]}}
    with pytest.raises(ConfigurationError, match=r"study small, arm base: .*num_heads"):
        StudyPlanner(ablation_study({"kind": "one_factor", "factors": factors}, base=list(TINY), seeds=1)).plan()
