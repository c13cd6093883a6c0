"""The doctor: each planted fault is found by the check that is for it, and what is well is left in peace."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pytest
import torch

from headtohead.building.build import build_parts
from headtohead.building.configuration import compose_checked
from headtohead.building.errors import ConfigurationError
from headtohead.cli import main
from headtohead.data.batch import IGNORED, Batch
from headtohead.examining.doctor import CHECKS, Check, Finding, Patient, chosen, examine
from headtohead.examining.doctor.floor import blind, floor
from headtohead.examining.doctor.overfitting import learn

SMALL = ["data.num_validation=10", "data.num_test=10", "data.batch_size=16"]
DECODER = ["data.num_train=200", "data.context_length=32", *SMALL]
ENCODER = ["model=encoder_only", "task=masked_lm", *DECODER]
CLASSIFIER = ["model=encoder_only", "task=classification", "data=sentence_grammar", "data.num_train=300", *SMALL]
TAGGER = ["model=encoder_only", "task=tagging", "data=tagging_grammar", "data.num_train=300", *SMALL]
QUESTIONS = ["model=encoder_only", "task=span_qa", "data=qa_grammar", "data.num_train=300", *SMALL]
PAIRS = ["model=encoder_only", "task=classification", "data=pair_grammar", "data.num_train=300", *SMALL]
TRANSLATOR = ["model=encoder_decoder", "task=seq2seq", "data=number_words", "data.num_train=300", *SMALL]
IMAGES = ["model=vision_transformer", "task=image_classification", "data=digits"]
RECALL = ["data=associative_recall", "data.num_train=300", *SMALL]
HEALTHY = [
    pytest.param(DECODER, id="decoder"),
    pytest.param(CLASSIFIER, id="classifier"),
    pytest.param(TRANSLATOR, id="translator"),
    pytest.param(IMAGES, id="images"),
    pytest.param(ENCODER, id="encoder", marks=pytest.mark.slow),
    pytest.param(TAGGER, id="tagger", marks=pytest.mark.slow),
    pytest.param(QUESTIONS, id="questions", marks=pytest.mark.slow),
    pytest.param(PAIRS, id="pairs", marks=pytest.mark.slow),
    pytest.param(RECALL, id="recall", marks=pytest.mark.slow),
]
QUICK = [*CLASSIFIER, "model.d_model=16", "data.batch_size=8"]
MIXER = "model.mixer._target_=planted_faults."
CROSS = "model.cross._target_=planted_faults."
NORM = "model.norm._target_=planted_faults."
STRUCTURE = tuple(check.name for check in CHECKS if check.name not in ("learning_rate", "overfitting"))


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def use_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(cache))


def patient(overrides: list[str]) -> Patient:
    own = ["tracking=none", "trainer.accelerator=cpu", "trainer.threads=1"]
    return Patient(build_parts(compose_checked("train", [*overrides, *own])))


def findings(overrides: list[str], *names: str) -> dict[str, Finding]:
    return {found.check.name: found.finding for found in examine(patient(overrides), chosen(names))}


def faults(found: dict[str, Finding]) -> list[str]:
    return [name for name, finding in found.items() if finding.verdict == "fault"]


PLANTED = [
    pytest.param(DECODER, MIXER + "ForgetsTheMask", "causality", "stack.blocks.0.mixer (ForgetsTheMask)", id="no mask"),
    pytest.param(DECODER, MIXER + "ForgetsTheMaskInTraining", "causality", "in training", id="no mask in training"),
    pytest.param(ENCODER, "model/position=none", "order", "model/position=", id="no positions"),
    pytest.param(IMAGES, "model/position=none", "order", "model/position=", id="no positions of patches"),
    pytest.param(TRANSLATOR, "model/position=none", "order", "model/position=", id="no positions of a source"),
    pytest.param(DECODER, "model.mixer.scale=1.0", "attention", "model.mixer.scale=null", id="no scaling"),
    pytest.param(
        IMAGES,
        "model.mixer.scale=1.0",
        "attention",
        "sqrt(64) = 8.0",
        id="no scaling for images",
        marks=pytest.mark.slow,
    ),
    pytest.param(DECODER, MIXER + "DividesByNothing", "attention", "(DividesByNothing) mixes by", id="hidden scale"),
    pytest.param(DECODER, MIXER + "LooksAtAllAlike", "attention", "1 of 1 heads", id="dead heads"),
    pytest.param(DECODER, MIXER + "IsFrozen", "parameters", "25% of the weights are frozen", id="frozen layers"),
    pytest.param(DECODER, MIXER + "StopsTheGradient", "parameters", "detach()", id="detached layers"),
    pytest.param(
        CLASSIFIER, MIXER + "ReadsPadding", "padding", "stack.blocks.0.mixer (ReadsPadding)", id="padding leak"
    ),
    pytest.param(
        CLASSIFIER,
        MIXER + "MasksWithZero",
        "padding",
        "minus infinity, not 0",
        id="padding masked with 0",
        marks=pytest.mark.slow,
    ),
    pytest.param(
        TRANSLATOR, CROSS + "ReadsThePaddingOfItsMemory", "padding", "memory_valid", id="memory's padding leak"
    ),
    pytest.param(TRANSLATOR, CROSS + "NeverReadsItsMemory", "memory", "context.memory", id="memory unread"),
    pytest.param(DECODER, MIXER + "IgnoresDocuments", "packing", "context.segments", id="documents mixed"),
    pytest.param(DECODER, MIXER + "MixesRows", "rows", "stack.blocks.0.mixer (MixesRows)", id="rows mixed"),
    pytest.param(DECODER, MIXER + "DropsInEvaluation", "modes", "training=self.training", id="random evaluation"),
    pytest.param(DECODER, NORM + "MakesNoNumbers", "forward", "(MakesNoNumbers)", id="no numbers"),
    pytest.param(DECODER, MIXER + "BreaksDown", "forward", "another device", id="broken forward"),
    pytest.param(DECODER, NORM + "Explodes", "gradients", "explodes", id="exploding gradients"),
]


@pytest.mark.parametrize(("base", "fault", "guilty", "words"), PLANTED)
def test_a_planted_fault_is_found_by_its_own_check_and_by_no_other(
    base: list[str], fault: str, guilty: str, words: str
) -> None:
    found = findings([*base, fault], *STRUCTURE)
    assert faults(found) == [guilty]
    assert words in f"{found[guilty].says} {found[guilty].advice}"
    for finding in found.values():
        assert "\n" not in finding.says + finding.advice
        assert finding.advice or finding.verdict in ("ok", "not applicable")


@pytest.mark.parametrize("base", [DECODER, CLASSIFIER], ids=["decoder", "classifier"])
def test_a_learning_rate_a_thousand_times_too_high_is_named(base: list[str]) -> None:
    found = findings([*base, "optimizer.lr=1"])
    assert found["learning_rate"].verdict == "fault"
    assert "lower optimizer.lr" in found["learning_rate"].advice
    assert 1e-4 <= found["learning_rate"].measured["suggestion"] <= 1e-2
    assert set(faults(found)) <= {"learning_rate", "overfitting"}


def test_a_learning_rate_that_moves_nothing_is_told_from_a_model_that_cannot_learn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.modules[learn.__module__], "NUM_STEPS", 100)
    found = findings([*QUICK, "optimizer.lr=1e-8"], "learning_rate", "overfitting")
    assert "raise optimizer.lr" in found["learning_rate"].advice
    assert found["overfitting"].verdict == "warning"
    assert "does not move" in found["overfitting"].says and "raise optimizer.lr" in found["overfitting"].advice


def test_a_model_that_sees_nothing_of_its_input_is_said_not_to_learn_at_any_rate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.modules[learn.__module__], "NUM_STEPS", 100)
    found = findings([*QUICK, NORM + "ForgetsItsInput"], "overfitting")["overfitting"]
    assert found.verdict == "fault" and "knowing nothing but how often each target occurs" in found.says


@pytest.mark.parametrize("base", HEALTHY)
def test_a_healthy_run_has_neither_fault_nor_warning(base: list[str]) -> None:
    found = findings(base)
    assert {name: finding.says for name, finding in found.items() if finding.verdict in ("fault", "warning")} == {}


SIZES = [
    ["model/size=small", "seed=1"],
    ["model.num_heads=8", "seed=2"],
    ["model.num_layers=6", "seed=3"],
    ["model.dropout=0.1", "seed=4"],
]
STACKS = [
    *(f"model/position={name}" for name in ("sinusoidal", "learned", "rotary", "alibi", "t5_bias", "shaw")),
    *(f"model/norm={name}" for name in ("rms_norm", "batch_norm", "dynamic_tanh", "adaptive")),
    *(f"model/residual={name}" for name in ("post", "sandwich", "parallel", "rezero", "layer_scale", "deepnorm")),
    *(f"model/initialisation={name}" for name in ("gpt2", "xavier", "t5")),
]
STEPS = ["optimizer=adam", "optimizer=sgd", "optimizer=lion", "optimizer=muon", "precision=bf16-mixed"]


def named(part: list[str] | str) -> str:
    return part if isinstance(part, str) else " ".join(part[:2])


@pytest.mark.slow
@pytest.mark.parametrize("change", SIZES, ids=named)
@pytest.mark.parametrize("base", [DECODER, ENCODER, CLASSIFIER, TRANSLATOR, IMAGES], ids=named)
def test_sizes_and_seeds_raise_no_false_alarm(base: list[str], change: list[str]) -> None:
    assert faults(findings([*base, *change])) == []


@pytest.mark.slow
@pytest.mark.parametrize("change", STACKS)
@pytest.mark.parametrize("base", [DECODER, TRANSLATOR], ids=named)
def test_sane_parts_raise_no_false_alarm(base: list[str], change: str) -> None:
    assert faults(findings([*base, change])) == []


@pytest.mark.slow
@pytest.mark.parametrize("change", STEPS)
def test_sane_ways_of_training_raise_no_false_alarm(change: str) -> None:
    assert faults(findings([*CLASSIFIER, change])) == []


def test_a_decoder_without_positions_is_warned_and_one_of_a_single_layer_is_blind() -> None:
    two, one = (findings([*DECODER, "model/position=none", f"model.num_layers={n}"], "order")["order"] for n in (2, 1))
    assert two.verdict == "warning" and one.verdict == "fault"


def test_scores_that_an_initialisation_scales_need_no_scale() -> None:
    found = findings([*DECODER, "model.mixer.scale=1.0", "model/initialisation=t5"], "attention")["attention"]
    assert found.verdict == "ok" and found.measured["score_deviation"] < 1.5


@pytest.mark.parametrize("num_heads", [2, 4])
def test_missing_scaling_is_found_in_narrow_heads_too(num_heads: int) -> None:
    found = findings([*DECODER, "model.mixer.scale=1.0", f"model.num_heads={num_heads}"], "attention")["attention"]
    assert found.verdict == "fault"
    assert found.measured["score_deviation"] == pytest.approx((64 / num_heads) ** 0.5, rel=0.3)


def test_batch_norm_in_a_decoder_is_warned_of_and_not_called_a_mistake_of_the_mixer() -> None:
    found = findings([*DECODER, "model/norm=batch_norm"], "rows", "causality", "padding")
    assert found["causality"].verdict == "warning" and "model/norm=" in found["causality"].advice
    assert faults(found) == []


def test_layers_frozen_as_asked_are_no_fault() -> None:
    found = findings([*DECODER, "finetuning.freeze=body", "model.tie_weights=false"], "parameters")["parameters"]
    assert found.verdict == "ok" and "as finetuning.freeze asks" in found.says


def test_a_head_that_starts_too_confident_is_seen_in_the_first_loss() -> None:
    found = findings([*DECODER, "model.initialisation.std=1.0"], "initial_loss")["initial_loss"]
    assert found.verdict == "fault" and found.measured["loss"] > 3 * math.log(512)


def test_gains_that_start_at_zero_hide_no_parameter_from_its_gradient() -> None:
    assert findings([*DECODER, "model/residual=rezero"], "parameters")["parameters"].verdict == "ok"


def test_targets_that_stand_in_their_own_input_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    sick = patient(DECODER)
    usual = type(sick.parts.task).view

    def unshifted(task: object, batch: Batch, *, seed: int, epoch: int) -> Batch:
        seen = usual(task, batch, seed=seed, epoch=epoch)  # type: ignore[arg-type]
        assert seen.tokens is not None and seen.targets is not None
        return Batch(rows=seen.rows, tokens=seen.tokens, targets=seen.tokens.clone())

    monkeypatch.setattr(type(sick.parts.task), "view", unshifted)
    found = examine(sick, chosen(["data"]))[0].finding
    assert found.verdict == "fault" and "own input" in found.says


@pytest.mark.parametrize(("value", "words"), [(float("nan"), "no numbers"), (255.0, "variance 1")])
def test_pixels_that_no_model_can_read_are_found(value: float, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sick = patient(IMAGES)
    usual = type(sick.parts.task).view

    def spoilt(task: object, batch: Batch, *, seed: int, epoch: int) -> Batch:
        assert batch.images is not None
        batch.images[0, 0, 0, 0] = value
        return usual(task, batch, seed=seed, epoch=epoch)  # type: ignore[arg-type]

    monkeypatch.setattr(type(sick.parts.task), "view", spoilt)
    found = examine(sick, chosen(["data"]))[0].finding
    assert found.verdict in ("fault", "warning") and words in f"{found.says} {found.advice}"


def test_the_floor_is_what_equal_pasts_leave_open() -> None:
    tokens = torch.tensor([[1, 5, 7], [1, 5, 8], [1, 6, 9], [1, 6, 9]])
    targets = torch.tensor([[5, 7, IGNORED], [5, 8, IGNORED], [6, 9, IGNORED], [6, 9, IGNORED]])
    batch = Batch(rows=torch.arange(4), tokens=tokens, targets=targets)
    # Four times a coin between 5 and 6, two times one between 7 and 8, two times the certain 9.
    assert floor(batch, "tokens") == pytest.approx(6 / 8 * math.log(2))
    assert floor(batch, None) == pytest.approx(0.0)


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


def test_examining_changes_neither_the_generators_nor_the_answer() -> None:
    before = torch.get_rng_state()
    first, second = (findings(QUICK) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)
    assert first == second


def test_a_check_whose_needs_have_a_fault_is_left_out() -> None:
    found = findings([*DECODER, MIXER + "MixesRows"], "causality")["causality"]
    assert found.verdict == "not applicable" and "`rows`" in found.says


def test_needs_stand_before_those_that_need_them() -> None:
    names = [check.name for check in CHECKS]
    assert all(names.index(need) < names.index(check.name) for check in CHECKS for need in check.needs)


def test_an_unknown_check_is_refused_with_a_guess() -> None:
    with pytest.raises(ConfigurationError, match="did you mean causality"):
        chosen(["causalty"])


def test_the_command_ends_with_1_on_a_fault_and_with_0_without(capsys: pytest.CaptureFixture[str]) -> None:
    asked = [*CLASSIFIER, "--check", "order", "--check", "padding", "--json"]
    assert main(["doctor", *asked]) == 0
    well = json.loads(capsys.readouterr().out)
    assert well["faults"] == 0 and [check["verdict"] for check in well["checks"]] == ["ok", "ok"]
    assert main(["doctor", *asked, "model/position=none"]) == 1
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

    found = examine(patient(CLASSIFIER), [Check("own", "does it work?", breaks), *chosen(["data"])])
    assert [diagnosis.finding.verdict for diagnosis in found] == ["fault", "ok"]
    assert "RuntimeError: two lines" in found[0].finding.says
