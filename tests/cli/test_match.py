"""`h2h match`: what it prints, how it ends, what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headtohead.cli import main
from headtohead.studies.matching.budgets import Budget, EqualParameters, EqualTokens
from headtohead.studies.matching.matching import Matching

SMALL = ["data.num_train=40", "data.num_validation=4", "data.num_test=4", "data.tokenizer=char", "tracking=none"]
LSTM = "lstm=model/mixer=lstm model/position=none"


@pytest.fixture(autouse=True)
def cache_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path))


@pytest.mark.slow
def test_table_says_what_was_matched_and_what_differs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["match", "--arm", "attention=", "--arm", LSTM, "--budget", "equal_flops", *SMALL]) == 0
    shown = capsys.readouterr().out
    assert "equal training FLOPs: as attention, within 2 %" in shown
    assert "trainer.max_steps=" in shown and "baseline" in shown and "matched" in shown and " x0." in shown


@pytest.mark.slow
def test_json_holds_overrides_and_figures(capsys: pytest.CaptureFixture[str]) -> None:
    arms = ["--arm", "wide=", "--arm", "deep=model.num_layers=3", "--baseline", "deep"]
    assert main(["match", *arms, "--move", "wide=feedforward", "--json", *SMALL]) == 0
    result = json.loads(capsys.readouterr().out)
    (override,) = result["arms"]["wide"]["overrides"]
    assert result["met"] and result["baseline"] == "deep" and override.startswith("model.feedforward.multiple=")
    assert result["arms"]["wide"]["figures"]["parameters"] == result["arms"]["wide"]["achieved"]


@pytest.mark.slow
def test_what_cannot_be_matched_ends_with_1_and_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    arms = ["--arm", "a=", "--arm", "b=model.num_layers=3", "--move", "width"]
    assert main(["match", *arms, "budget.tolerance=0.001", *SMALL]) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "not matched; the closest" in shown and "settings of width none gives" in shown and "within 0.1 %" in shown


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "there is nothing to match: name a study, or give arms"),
        (["--arm", "model.d_model=64", "--arm", "b="], "--arm model.d_model=64 has no name"),
        (["--arm", "a=", "--arm", "a=model.num_layers=3"], "two arms have the same name"),
        (["--arm", "a=", "--arm", "b=", "--budget", "equal_parameter"], "did you mean equal_parameters?"),
        (["--arm", "a=", "--arm", "b=", "budget.tolerance=2"], "budget.tolerance=2 is refused"),
        (["norm_small"], "norm_small is not a study"),
        (["norms_small", "--arm", "a="], "study norms_small has its arms, and --arm gives others"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_one_line(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["match", *arguments]) == 2
    shown = capsys.readouterr().err
    assert sentence in shown and shown.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "budget", "moves"),
    [
        ([], EqualParameters(counted="active"), ("feedforward",)),
        (["budget.tolerance=0.1"], EqualParameters(0.1, counted="active"), ("feedforward",)),
        (["--budget", "equal_parameters", "budget.tolerance=0.1"], EqualParameters(0.1), ("feedforward",)),
        (["--budget", "equal_tokens", "budget.tolerance=0.1"], EqualTokens(0.1), ()),
        (["--budget", "equal_tokens", "--move", "eight_of_one=steps"], EqualTokens(), ("steps",)),
        (["--baseline", "eight_of_one"], EqualParameters(counted="active"), None),
    ],
)
def test_a_study_takes_another_budget_its_options_and_another_baseline(
    options: list[str], budget: Budget, moves: tuple[str, ...] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Moves of the study stay where they change what is to be equal, and those of the baseline go."""

    def match(
        base: object, arms: object, baseline: str, budget: Budget, movable: dict[str, tuple[str, ...]], **_: object
    ) -> Matching:
        requested.append((baseline, budget, movable.get("eight_of_one")))
        return Matching(budget, baseline, 1.0, ())

    requested: list[tuple[str, Budget, tuple[str, ...] | None]] = []
    monkeypatch.setattr("headtohead.api.matching.match_arms", match)
    assert main(["match", "experts", "--json", *options]) == 0
    assert requested == [("one" if moves is not None else "eight_of_one", budget, moves)]


@pytest.mark.slow
@pytest.mark.parametrize("founded", [False, True])
def test_arms_of_a_study_are_matched_by_their_own_budget(
    founded: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The arms are matched before the runs exist from which some of them start."""
    folder = tmp_path / "own" / "study"
    folder.mkdir(parents=True)
    written = {
        "question": "q", "hypothesis": "h", "tuning": "none", "seeds": 3, "metric": "test/loss", "direction": "min",
        "base": SMALL, "arms": {"first": [], "second": ["model.num_layers=3"]}, "baseline": "first",
        "budget": "equal_parameters", "movable": {"second": ["feedforward"]},
    }  # fmt: skip
    if founded:
        starts = ["model.num_layers=3", "init_from=foundation:below"]
        written |= {"arms": {"first": [], "second": starts}, "foundations": {"below": ["data.seed=1"]}}
    (folder / "mine.yaml").write_text(json.dumps(written), encoding="utf-8")
    assert main(["match", "mine", "--config-dir", str(folder.parent), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["arms"]["second"]["overrides"][0].startswith("model.feedforward.multiple=")
