"""Results that are read at registered numbers of seeds, and nowhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headtohead.comparison.contrasts import Verdict
from headtohead.comparison.statistics.multiple_testing import interim_levels
from headtohead.config.errors import ConfigurationError
from headtohead.studies.planning import registration
from headtohead.studies.planning.registration import prepare
from headtohead.studies.results.study_report import report_of
from studies.small_studies import plan_without_models, small_study, write_run

LOOKS = [3, 5, 8]


@pytest.fixture(autouse=True)
def ids_of_plain_configurations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "run_id", lambda config: str(config["arm"]))


def looked(folder: Path, seeds: int, **changes: Any) -> Verdict:
    """Return the verdict after so many seeds; b is a little worse in each."""
    plan = plan_without_models(folder, **{"looks": LOOKS, "seeds": seeds, **changes})
    prepare(plan, retry=False)
    for run in plan.runs:
        write_run(plan.run_folder(run), value=1 + 0.01 * run.seed + (0.2 + 0.05 * (run.seed % 3)) * (run.arm == "b"))
    (verdict,) = report_of(plan).verdicts
    return verdict


@pytest.mark.slow
def test_each_look_spends_its_part_of_the_error_rate(tmp_path: Path) -> None:
    verdicts = [looked(tmp_path, seeds) for seeds in LOOKS]
    assert [verdict.level for verdict in verdicts] == pytest.approx(interim_levels(LOOKS))
    assert not any(verdict.exploratory for verdict in verdicts)
    assert [verdict.kind for verdict in verdicts] == ["undecided", "worse", "worse"], "the first look spends little"


def test_a_look_that_was_not_registered_is_exploratory(tmp_path: Path) -> None:
    looked(tmp_path, 3)
    assert looked(tmp_path, 4).reasons == ("a look at 4 seeds was not registered",)
    assert looked(tmp_path, 9).exploratory


def test_looks_that_are_added_after_the_first_are_exploratory(tmp_path: Path) -> None:
    looked(tmp_path, 3)
    assert looked(tmp_path, 5, looks=[3, 5, 9]).exploratory and looked(tmp_path, 8, looks=[]).exploratory


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"looks": [5, 3]}, r"looks=\[5, 3\] is refused: give rising numbers of seeds from 2 on"),
        ({"looks": [3, 5], "seeds": [1, 2, 3]}, r"seeds=\[1, 2, 3\] does not go with looks=\[3, 5\]"),
        ({"shares": [0.5]}, r"shares=\[0.5\] is refused: give different parts of the budget and the whole"),
        ({"lengths": [0, 1]}, r"lengths=\[0, 1\] is refused"),
        ({"allow_unlike": ["seeds"]}, r"allow_unlike=\[seeds\] is refused: it must be .*tokenizer or"),
        ({"budget": {"equal_parameters": 3}}, r"budget={equal_parameters: 3} is refused"),
    ],
)
def test_axes_that_make_no_sense_are_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        small_study(**changes)
