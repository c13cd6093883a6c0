"""A study file holds known fields with valid values, or is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import headtohead as h2h
from headtohead.comparison.analyses.trials import ValueChoices
from headtohead.comparison.statistics.exact_tests import seeds_to_decide
from headtohead.config.compose.choices import STUDY, choice_names, choices
from headtohead.config.compose.composition import compose_checked
from headtohead.config.errors import ConfigurationError
from headtohead.execution.tuning import Tuning
from headtohead.studies.definition.read_study_file import read_study, study_from, with_own_fields
from headtohead.studies.definition.study import MEASURED_BUDGETS, RequestedBudget
from headtohead.studies.definition.study_fields import FIELDS
from headtohead.studies.planning.study_plan import StudyPlan, StudyPlanner
from headtohead.studies.results.study_verdicts import requested_family
from studies.small_studies import WRITTEN, small_study

NO_POSITION = "model/position=none"
UNSOLVED = {"finetuning_sst2"}
"""Studies whose task no arm comes near to solve, so that means are compared."""


def can_be_composed(overrides: list[str]) -> bool:
    try:
        compose_checked("train", overrides)
    except ConfigurationError:
        return False
    return True


def test_what_is_left_out_is_filled_in() -> None:
    study = small_study()
    assert study.seeds == (0, 1, 2) and study.contrasts == (("b", "a"),) and study.stage_and_name == ("test", "loss")


def test_moves_under_a_star_are_those_of_every_arm_but_the_baseline() -> None:
    study = small_study(arms={"a": [], "b": [], "c": []}, movable={"*": ["depth"], "c": ["width"]})
    assert study.movable == {"b": ("depth",), "c": ("width",)}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"baselin": "a"}, r"baselin is not a field of study small: did you mean baseline\?"),
        ({"baseline": "A1"}, "baseline names A1, which is not an arm"),
        ({"arms": {"a": []}}, r"arms=\[a\] is not a comparison"),
        ({"arms": {"a b": [], "a": []}}, "an arm is named 'a b'"),
        ({"arms": {"größe": [], "a": []}}, "an arm is named 'größe': use letters from a to z"),
        ({"arms": {True: [], "a": []}}, "arms=.* is refused: it must be .*quote names"),
        ({"arms": {1: [], "1": ["x=1"], "a": []}}, "arms=.* is refused: it must be a mapping in which 1 stands once"),
        (
            {"ablation": {"kind": "factorial", "factors": {"f": {True: [], "on": [], "a": []}}}},
            "ablation.factors=.* must be a mapping in which on stands once",
        ),
        ({"contrasts": [["b", "a"], ["a", "b"]]}, "has the same contrast twice"),
        (
            {"arms": {"a": [], "b": "model/norm=rms_norm"}},
            "arms=.* is refused: it must be a list, each of it text",
        ),
        ({"seeds": [1, 1]}, r"seeds=\[1, 1\] is refused"),
        ({"seeds": 0}, "seeds=.* is refused"),
        ({"seeds": [4, 5], "first_seed": 9}, r"first_seed=9 goes with a number .* lists them: give seeds=2"),
        ({"metric": "loss"}, "write test/NAME or validation/NAME"),
        ({"direction": "down"}, "direction=down is refused: it must be min or max"),
        ({"margin": -1}, "margin=-1 is refused"),
        ({"alpha": 5}, "alpha=5 is refused"),
        ({"budget": "equal_fun"}, "budget=equal_fun is refused: it must be equal_parameters or"),
        ({"contrasts": [["b", "b"]]}, "compares an arm with itself"),
        ({"contrasts": [["b", "c"]]}, "contrasts names c, which is not an arm"),
        ({"expected": {"a": ["better"]}}, "expected names a, which no contrast compares"),
        ({"expected": {"b": ["good"]}}, "expected=.* is refused"),
        ({"base": ["seed=3"]}, "base holds seed=3, which the study sets itself"),
        ({"arms": {"a": [], "b": ["group=x"]}}, "arm b holds group=x, which the study sets itself"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        small_study(**changes)


def test_names_and_figures_are_read_as_they_are_meant() -> None:
    arms = {1: ["model.num_heads=1"], 16: ["model.num_heads=16"]}
    study = small_study(arms=arms, baseline=1, margin="1e-3", alpha="5e-2", expected={16: ["better"]})
    assert study.contrasts == (("16", "1"),) and (study.margin, study.alpha) == (0.001, 0.05)


def test_an_arm_that_is_written_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "study").mkdir()
    text = "# Twice (https://example.org).\narms:\n  a: [x=1]\n  b: [x=2]\n  a: [x=3]\n"
    (tmp_path / "study" / "mine.yaml").write_text(text)
    with pytest.raises(ConfigurationError, match=r"mine\.yaml has a twice, the second in line 5: remove one"):
        read_study("mine", config_dir=tmp_path)


@pytest.mark.parametrize("field", ["question", "arms", "seeds", "metric", "baseline", "tuning"])
def test_what_a_verdict_rests_on_must_be_written(field: str) -> None:
    with pytest.raises(ConfigurationError, match=f"study small has no {field}"):
        study_from("small", {key: value for key, value in WRITTEN.items() if key != field})


def test_an_override_is_of_the_study_where_it_has_such_a_field_and_of_every_run_otherwise() -> None:
    study = read_study("norms_small", ["seeds=[4,5]", "margin=null", "trainer.max_steps=7"])
    assert study.seeds == (4, 5) and study.margin is None and study.base[-1] == "trainer.max_steps=7"
    assert read_study("norms_small", ["first_seed=2000"]).seeds == (2000, 2001, 2002)
    with pytest.raises(ConfigurationError, match="seed=1 is refused, since the study sets it itself"):
        read_study("norms_small", ["seed=1"])


def test_an_override_may_be_of_a_part_of_a_field() -> None:
    study = read_study("experts", ["tuning.trials=2", "tuning.seeds=1", "tuning.space.optimizer.lr=[0.1,1]"])
    assert isinstance(study.tuning, Tuning) and (study.tuning.trials, study.tuning.seeds) == (2, 1)
    assert study.tuning.space == {"optimizer.lr": ValueChoices((0.1, 1))} and study.tuning.search == "grid"
    offset = read_study("norms_small", ["seed_offsets.rms_norm=5"])
    assert offset.seed_offsets == {"rms_norm": 5}
    with pytest.raises(ConfigurationError, match=r"is none; .* which has no parts; give it as a whole"):
        read_study("norms_small", ["tuning.trials=2"])
    with pytest.raises(ConfigurationError, match="trails"):
        read_study("experts", ["tuning.trails=2"])


def test_an_option_of_the_budget_needs_no_name_of_it() -> None:
    option, by_name = "budget.tolerance=0.1", "budget.equal_tokens.tolerance=0.1"
    tokens = RequestedBudget("equal_tokens", {"tolerance": 0.1})
    assert read_study("norms_small", [option]).budget == tokens == read_study("norms_small", [by_name]).budget
    of_experts = read_study("experts", [option]).budget
    assert of_experts == RequestedBudget("equal_parameters", {"counted": "active", "tolerance": 0.1})
    other = read_study("experts", ["budget=equal_flops", option]).budget
    assert other == RequestedBudget("equal_flops", tokens.options)
    with pytest.raises(ConfigurationError, match=r"no budget .* name one, budget\.equal_parameters\.tolerance=0\.1$"):
        read_study("norms_small", ["budget=null", option])


def test_an_unknown_study_is_refused_with_a_guess() -> None:
    with pytest.raises(ConfigurationError, match=r"norm_small is not a study: did you mean norms_small\?"):
        read_study("norm_small")


def test_a_study_of_ones_own_is_found(tmp_path: Path) -> None:
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "mine.yaml").write_text("[]")
    with pytest.raises(ConfigurationError, match="study mine holds no fields"):
        read_study("mine", config_dir=tmp_path)
    (tmp_path / "study" / "mine.yaml").write_text("a: [")
    with pytest.raises(ConfigurationError, match="is not YAML"):
        read_study("mine", config_dir=tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", choice_names("study"))
def test_every_shipped_study_can_be_composed_and_says_what_it_expects(name: str) -> None:
    study = read_study(name)
    assert StudyPlanner(study).folder == Path("outputs/studies") / name
    assert study.expected, "a study says beforehand what would be no surprise"
    if study.can_be_solved and name not in UNSOLVED:
        needed = seeds_to_decide(study.alpha / len(study.contrasts))
        assert len(study.seeds) >= needed, "solve rates of fewer seeds decide nothing"


@pytest.mark.parametrize(
    ("direction", "seeds", "says"), [("max", 3, True), ("max", 4, False), ("min", 3, False)], ids=str
)
def test_a_plan_says_beforehand_that_exact_tests_will_decide_nothing(direction: str, seeds: int, says: bool) -> None:
    family = requested_family(small_study(direction=direction, metric="test/accuracy", seeds=seeds))
    assert ("exact tests decide nothing with fewer than 4 seeds" in family.sentence) == says


@pytest.mark.parametrize("name", choice_names("study"))
def test_every_shipped_study_says_in_its_header_what_is_expected_and_what_it_costs(name: str) -> None:
    path = next(choice.path for choice in choices(STUDY) if choice.name == name)
    header = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    assert any(line.startswith("# Expected: ") for line in header)
    assert any(re.match(r"# Cost: .* runs.*, .*minutes?", line) for line in header)
    assert any(re.match(r"# Chance is \d", line) for line in header)


@pytest.mark.parametrize("name", choice_names("study"))
def test_the_header_of_a_study_counts_the_runs_that_its_arms_and_seeds_make(name: str) -> None:
    """Arms that are added or removed leave no old number behind; numbers in words and tuned studies are left out."""
    text = next(choice.path for choice in choices(STUDY) if choice.name == name).read_text(encoding="utf-8")
    study = read_study(name)
    whole, of_one_seed = (
        re.search(rf"^# Cost: {runs}", text, re.MULTILINE) for runs in (r"(\d+) runs", r".*seeds=1, (\d+) runs")
    )
    if whole is not None and isinstance(study.tuning, str):
        assert int(whole[1]) == StudyPlan(study, (), Path(), {}).num_runs
    assert of_one_seed is None or int(of_one_seed[1]) == len(study.arms)


@pytest.mark.slow
def test_the_study_of_all_mixers_has_every_one_that_a_decoder_can_have() -> None:
    arms = read_study("mixers_2026").arms.values()
    compared = {override.removeprefix("model/mixer=") for overrides in arms for override in overrides}
    of_decoders = {
        name for name in choice_names("model/mixer") if can_be_composed([f"model/mixer={name}", NO_POSITION])
    }
    assert len(of_decoders) > 30 and of_decoders <= compared


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.whole) if name == "mixers_2026" else name  # mixers_2026_small has its arms
        for name in choice_names("study")
    ],
)
def test_every_shipped_study_meets_its_budget(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plan = StudyPlanner(read_study(name)).plan()
    assert plan.matching is None or plan.matching.met
    assert plan.is_open or len(plan.runs) == plan.num_runs
    if plan.matching is not None and plan.budget_name not in MEASURED_BUDGETS:
        assert h2h.match(name).to_dict() == plan.matching.to_dict(), "h2h match shows what the study has"


def test_the_page_on_studies_explains_every_field_and_no_other() -> None:
    page = Path(__file__).parents[2] / "docs" / "study.md"
    table = page.read_text(encoding="utf-8").split("\n## Fields\n")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == set(FIELDS)


@pytest.mark.parametrize("written", [None, "equal_parameters", {"equal_parameters": None}, {"equal_parameters": {}}])
def test_options_of_a_budget_are_taken_however_it_is_written(written: object) -> None:
    known, named = {"budget": written}, "budget.equal_parameters.tolerance=0.1"
    expected = {"budget": {"equal_parameters": {"tolerance": 0.1}}}
    assert with_own_fields("mine", known, [named]) == expected
    if written is None:
        with pytest.raises(ConfigurationError, match=f"name one, {named}"):
            with_own_fields("mine", known, ["budget.tolerance=0.1"])
    else:
        assert with_own_fields("mine", known, ["budget.tolerance=0.1"]) == expected
