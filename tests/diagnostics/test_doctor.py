"""The doctor's ways: what a batch allows, what is left out, how it is said, how the command ends."""

from __future__ import annotations

import json
import math

import pytest
import torch

from doctor_runs import CLASSIFIER, DECODER, IMAGES, MIXER, QUICK, findings, patient
from headtohead.cli import main
from headtohead.config.errors import ConfigurationError
from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.diagnostics.doctor import CHECKS, Check, Finding, Patient, chosen, examine
from headtohead.diagnostics.doctor.checks.learning import blind, floor

pytestmark = pytest.mark.usefixtures("own_cache")


def test_targets_that_stand_in_their_own_input_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    sick = patient(DECODER)
    usual = type(sick.parts.task).view

    def unshifted(task: object, batch: Batch, *, seed: int, epoch: int) -> Batch:
        seen = usual(task, batch, seed=seed, epoch=epoch)  # type: ignore[arg-type]
        assert seen.tokens is not None and seen.targets is not None
        return Batch(rows=seen.rows, tokens=seen.tokens, targets=seen.tokens.clone())

    monkeypatch.setattr(type(sick.parts.task), "view", unshifted)
    result = examine(sick, chosen(["data"]))[0].finding
    assert result.verdict == "fault" and "own input" in result.message


@pytest.mark.parametrize(("value", "words"), [(float("nan"), "not numbers"), (255.0, "variance 1")])
def test_pixels_that_no_model_can_read_are_found(value: float, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sick = patient(IMAGES)
    usual = type(sick.parts.task).view

    def spoilt(task: object, batch: Batch, *, seed: int, epoch: int) -> Batch:
        assert batch.images is not None
        batch.images[0, 0, 0, 0] = value
        return usual(task, batch, seed=seed, epoch=epoch)  # type: ignore[arg-type]

    monkeypatch.setattr(type(sick.parts.task), "view", spoilt)
    result = examine(sick, chosen(["data"]))[0].finding
    assert result.verdict in ("fault", "warning") and words in f"{result.message} {result.advice}"


def test_the_floor_is_what_equal_pasts_leave_open() -> None:
    tokens = torch.tensor([[1, 5, 7], [1, 5, 8], [1, 6, 9], [1, 6, 9]])
    targets = torch.tensor([[5, 7, IGNORED], [5, 8, IGNORED], [6, 9, IGNORED], [6, 9, IGNORED]])
    batch = Batch(rows=torch.arange(4), tokens=tokens, targets=targets)
    # Four times a coin between 5 and 6, two times one between 7 and 8, two times the certain 9.
    assert floor(batch, "tokens") == pytest.approx(6 / 8 * math.log(2))
    assert floor(batch, None) == pytest.approx(0.0)


@pytest.mark.parametrize("shape", [(3,), (3, 1, 2)])
def test_the_floor_of_numbers_is_the_variance_where_inputs_are_equal(shape: tuple[int, ...]) -> None:
    tokens, numbers = torch.tensor([[1, 5], [1, 5], [1, 6]]), torch.tensor([0.0, 2.0, 7.0])
    targets = numbers.reshape(3, *[1] * (len(shape) - 1)).expand(shape)
    assert floor(Batch(rows=torch.arange(3), tokens=tokens, targets=targets), None) == pytest.approx(2 / 3)


def test_who_sees_nothing_knows_the_frequencies_of_the_targets() -> None:
    batch = Batch(rows=torch.arange(4), tokens=torch.zeros(4, 2, dtype=torch.long), targets=torch.tensor([0, 0, 0, 1]))
    assert blind(batch) == pytest.approx(-(0.75 * math.log(0.75) + 0.25 * math.log(0.25)))


def test_the_floor_sees_no_further_back_than_a_document_reaches() -> None:
    tokens = torch.tensor([[7, 1, 5], [8, 1, 6]])
    targets = torch.tensor([[IGNORED, 2, IGNORED], [IGNORED, 3, IGNORED]])
    batch = Batch(rows=torch.arange(2), tokens=tokens, targets=targets)
    assert floor(batch, "tokens") == pytest.approx(0.0)
    packed = Batch(rows=batch.rows, tokens=tokens, targets=targets, segments=torch.tensor([[0, 1, 1], [0, 1, 1]]))
    assert floor(packed, "tokens") == pytest.approx(math.log(2))


@pytest.mark.slow
def test_examining_changes_neither_the_generators_nor_the_answer() -> None:
    before = torch.get_rng_state()
    first, second = (findings(QUICK, "causality", "attention", "learning_rate") for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)
    assert first == second


def test_a_check_whose_needs_have_a_fault_is_left_out() -> None:
    result = findings([*DECODER, MIXER + "MixesRows"], "causality")["causality"]
    assert result.verdict == "not applicable" and "`rows`" in result.message


def test_needs_stand_before_those_that_need_them() -> None:
    names = [check.name for check in CHECKS]
    assert all(names.index(need) < names.index(check.name) for check in CHECKS for need in check.needs)


def test_an_unknown_check_is_refused_with_a_guess() -> None:
    with pytest.raises(ConfigurationError, match="did you mean causality"):
        chosen(["causalty"])


@pytest.mark.slow
def test_the_command_ends_with_1_on_a_fault_and_with_0_without(capsys: pytest.CaptureFixture[str]) -> None:
    options = [*CLASSIFIER, "--check", "order", "--check", "padding", "--json"]
    assert main(["doctor", *options]) == 0
    well = json.loads(capsys.readouterr().out)
    assert well["faults"] == 0 and [check["verdict"] for check in well["checks"]] == ["ok", "ok"]
    assert main(["doctor", *options, "model/position=none"]) == 1
    ill = json.loads(capsys.readouterr().out)
    assert ill["faults"] == 1 and {check["name"] for check in ill["checks"]} == {"order", "padding"}


def test_the_command_shows_a_table_and_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", *CLASSIFIER, "--check", "order", "model/position=none"]) == 1
    shown = capsys.readouterr().out
    assert "blind to order" in shown and "1 fault (" in shown


def test_help_names_every_check(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["doctor", "--help"])
    listed = " ".join(capsys.readouterr().out.split()).partition("checks: ")[2].partition(" exit code")[0]
    assert listed.split(", ") == [check.name for check in CHECKS]


def test_a_refused_configuration_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "optimizer.lr=abc"]) == 2
    assert main(["doctor", "--check", "orders"]) == 2
    assert "did you mean order" in capsys.readouterr().err


def test_a_check_that_breaks_down_is_a_fault_and_the_others_go_on() -> None:
    def breaks(sick: Patient) -> Finding:
        raise RuntimeError("two\nlines")

    result = examine(patient(CLASSIFIER), [Check("own", "does it work?", breaks), *chosen(["data"])])
    assert [diagnosis.finding.verdict for diagnosis in result] == ["fault", "ok"]
    assert "RuntimeError: two lines" in result[0].finding.message
