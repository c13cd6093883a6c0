"""Arms brought to the baseline's cost, counted again by other means; refusals; what no shape can meet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from from_fields import from_fields
from headtohead.config.build import build_model, build_parts
from headtohead.config.compose.choices import choices
from headtohead.config.compose.composition import compose, compose_checked
from headtohead.config.errors import ConfigurationError
from headtohead.config.origins.from_weights import build_data
from headtohead.config.schema.source_code import class_value
from headtohead.data.batches.row_order import order_of
from headtohead.data.generated.sentence_grammar import SentenceGrammar
from headtohead.data.splits.sample_splits import fewer_rows
from headtohead.estimates import run_cost
from headtohead.estimates.run_cost import RunCosts
from headtohead.studies.matching import size_axes
from headtohead.studies.matching.arm_shape import ShapeSearch
from headtohead.studies.matching.budgets import Budget, EqualFlops, EqualParameters, EqualState, EqualTime, EqualTokens
from headtohead.studies.matching.match_arms import match
from headtohead.studies.matching.matching import Matching
from headtohead.studies.matching.solver import show_matching
from headtohead.training.loop.data_module import TrainingBatches, training_rows
from headtohead.training.loop.seeds import seeds_of
from headtohead.training.run import train

DATA = ["data.num_train=40", "data.num_validation=4", "data.num_test=4", "data.batch_size=4"]
QUIET = ["tracking=none", "probe=none", "trainer=cpu", "trainer.progress_bar=false", "trainer.threads=1"]
SMALL = ["data.context_length=16", "data.tokenizer=char", "model.d_model=64", "model.num_heads=4", *DATA, *QUIET]
PAIRS = ["model=encoder_decoder", "task=seq2seq", "data=number_words", *DATA, *QUIET]
IMAGES = ["model=vision_transformer", "task=image_classification", "data=digits", *QUIET]
NO_POSITION = "model/position=none"


@pytest.fixture(scope="module", autouse=True)
def cache_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADTOHEAD_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def slow(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow)


def matched(base: Sequence[str], other: Sequence[str], budget: Budget, *moves: str) -> Matching:
    return match(base, {"first": [], "other": other}, "first", budget, {"other": moves} if moves else {})


def config_of(base: Sequence[str], other: Sequence[str], matching: Matching) -> dict[str, Any]:
    return compose_checked("train", [*base, *other, *matching.arm("other").overrides])


def num_weights(config: dict[str, Any]) -> int:
    return sum(weight.numel() for weight in build_model(config).parameters())


def trained_flops(config: dict[str, Any]) -> float:
    """Return the FLOPs as the training loop counted them, batch by batch."""
    record = train(build_parts(config))
    assert record.status == "finished" and record.progress is not None
    return float(record.progress.flops)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("base", "other"),
    [
        (SMALL, ["model/mixer=mamba2", NO_POSITION]),
        slow(SMALL, ["model/mixer=linear_attention", NO_POSITION, "model.num_layers=3"]),
        (SMALL, ["model/mixer=lstm", NO_POSITION]),
        (SMALL, ["model/feedforward=swiglu", "model.feedforward.two_thirds=false"]),
        slow(SMALL, ["model.pattern=[mamba,mamba,softmax_attention]", "model.num_layers=3"]),
        slow(PAIRS, ["model.encoder.num_layers=4"]),
        (IMAGES, ["model.patch_size=4", "model/feedforward=geglu", "model.num_layers=3"]),
    ],
    ids=lambda value: " ".join(value[:1]),
)
def test_matched_arm_has_as_many_weights_as_the_baseline(base: list[str], other: list[str]) -> None:
    matching = matched(base, other, EqualParameters())
    assert matching.met and matching.arm("other").overrides
    config = config_of(base, other, matching)
    assert num_weights(config) == matching.arm("other").achieved
    assert num_weights(config) == pytest.approx(num_weights(compose_checked("train", base)), rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("move", [slow("width"), "steps"])
def test_matched_arm_trains_for_as_many_flops_as_the_baseline(move: str, tmp_path: Any) -> None:
    base = [*SMALL, f"output_dir={tmp_path}", "trainer.max_steps=60", "trainer.num_samples=0", "trainer.log_every=60"]
    base = [*base, "trainer.validate_every=60", "model.num_heads=8"]
    other = ["model/mixer=lstm", NO_POSITION]
    matching = matched(base, other, EqualFlops(), move)
    assert matching.met
    flops = trained_flops(config_of(base, other, matching))
    assert flops == pytest.approx(matching.arm("other").achieved, rel=1e-3)  # rows differ in their targets
    assert flops == pytest.approx(trained_flops(compose_checked("train", base)), rel=0.02)


@pytest.mark.slow
def test_flops_of_pairs_of_unequal_length_are_those_of_the_padded_batches(tmp_path: Any) -> None:
    base = [*PAIRS, f"output_dir={tmp_path}", "trainer.max_steps=12", "trainer.num_samples=0"]
    matching = matched(base, ["model.d_model=32"], EqualFlops())
    assert trained_flops(compose_checked("train", base)) == pytest.approx(matching.target, rel=1e-9)


NO_PATH = ["none", "bpe_dropout", "random_labels", "span_masking", "swapping", "token_dropping", "token_replacement"]
"""The augmentations of texts that need no file and no run."""


@pytest.mark.parametrize("augmentation", NO_PATH)
def test_planned_tokens_are_those_that_training_reads_however_texts_are_changed(augmentation: str) -> None:
    sentences = ["data=sentence_grammar", "task=classification", "data.tokenizer=bpe", *DATA, *QUIET]
    config = compose_checked("train", [*sentences, f"augmentation={augmentation}", "trainer.max_steps=3"])
    parts = build_parts(config)
    seed = seeds_of(0).data_order
    split = training_rows(parts.data, parts.settings, seed)
    order = order_of(split, batch_size=parts.data.batch_size, seed=seed)
    how: dict[str, Any] = {"augmentation": parts.augmentation, "seed": seed, "accumulate": 1}
    steps = TrainingBatches(split, parts.task, order, rank=0, world_size=1, **how)
    assert RunCosts().of(config).figure("tokens") == sum(steps[step].tokens for step in range(3))


def test_every_augmentation_of_texts_without_a_file_is_planned() -> None:
    others = {choice.name for choice in choices("augmentation")} - set(NO_PATH)
    changes = {name: compose("train", [f"augmentation={name}"])["augmentation"]["steps"][name] for name in others}
    assert all({"path", "run"} & node.keys() or "images" in _kinds(node) for node in changes.values())


def _kinds(node: dict[str, Any]) -> Sequence[str]:
    kinds: Sequence[str] = class_value(node["_target_"], "data_kinds") or ()
    return kinds


def test_images_have_no_tokens_to_be_made_equal() -> None:
    assert RunCosts().of(compose_checked("train", IMAGES)).figure("tokens") == 0.0
    with pytest.raises(ConfigurationError, match="first has no tokens that others could have as much of: choose anoth"):
        matched(IMAGES, ["model.patch_size=4"], EqualTokens())


def test_gated_layers_at_two_thirds_are_equal_as_they_are_written() -> None:
    arm = matched(SMALL, ["model/feedforward=swiglu"], EqualParameters()).arm("other")
    assert arm.met and not arm.overrides and abs(arm.residual) < 0.02


def test_arm_that_reads_shorter_rows_takes_more_steps_for_equal_tokens() -> None:
    arm = matched(SMALL, ["data.context_length=8"], EqualTokens()).arm("other")
    assert arm.met and arm.overrides == ("trainer.max_steps=2000",)


@pytest.mark.slow
def test_state_of_a_recurrence_grows_to_that_of_a_cache() -> None:
    """A cache of 16 tokens, 2 layers, keys and values of width 64: 4096 numbers, and 2 x width of head x width + width
    of linear attention."""
    arm = matched(SMALL, ["model/mixer=linear_attention", NO_POSITION], EqualState()).arm("other")
    assert arm.met and arm.achieved == pytest.approx(2 * 2 * 16 * 64, rel=0.02)


@pytest.mark.parametrize("counted", [slow("non_embedding"), slow("active")])
def test_parameters_are_counted_as_asked(counted: Any) -> None:
    other = ["model/feedforward=moe", "model.num_layers=1"]
    matching = matched(SMALL, other, EqualParameters(counted=counted), "feedforward", "width")
    arm = matching.arm("other")
    assert arm.met and arm.achieved == arm.figures[matching.budget.figure]
    assert arm.figures["parameters"] != arm.achieved


@pytest.mark.slow
def test_heads_keep_their_size_or_their_number_as_asked() -> None:
    other = ["model.num_layers=5"]
    for move, saved in (("width", lambda model: model["d_model"] // model["num_heads"] == 16),
                       ("head_size", lambda model: model["num_heads"] == 4)):  # fmt: skip
        model = config_of(SMALL, other, matched(SMALL, other, EqualParameters(tolerance=0.2), move))["model"]
        assert saved(model) and model["d_model"] % 8 == 0 and model["d_model"] < 64


@pytest.mark.slow
def test_layers_move_in_whole_rounds_of_the_pattern() -> None:
    other = ["model.pattern=[linear_attention,softmax_attention]", "model.d_model=32", NO_POSITION]
    matching = matched(SMALL, other, EqualParameters(tolerance=0.2), "depth")
    layers = config_of(SMALL, other, matching)["model"]["num_layers"]
    assert matching.met and layers > 2 and layers % 2 == 0


@pytest.mark.slow
def test_sides_of_their_own_depth_keep_their_share() -> None:
    other = ["model.encoder.num_layers=2", "model.decoder.num_layers=1", "model.d_model=32"]
    model = config_of(PAIRS, other, matched(PAIRS, other, EqualParameters(tolerance=0.2), "depth"))["model"]
    assert model["encoder"]["num_layers"] == 2 * model["decoder"]["num_layers"] > 2


@pytest.mark.slow
def test_axes_that_differ_are_named() -> None:
    arm = matched(SMALL, ["model/mixer=lstm", NO_POSITION], EqualParameters()).arm("other")
    assert arm.differs["state_elements"] < 0.1 and "tokens" not in arm.differs and "parameters" not in arm.differs


def test_what_no_shape_can_meet_is_said_with_the_nearest() -> None:
    matching = matched(SMALL, ["model/mixer=lstm", NO_POSITION, "model/feedforward=none"], EqualParameters(), "width")
    arm = matching.arm("other")
    assert not arm.met and not matching.met and abs(arm.residual) > 0.02
    assert "settings of width none gives" in arm.reason and "the nearest, model.d_model=" in arm.reason
    assert "could also move" in arm.reason


@pytest.mark.slow
@pytest.mark.parametrize("mixer", ["lstm", "mamba2", "linear_attention"])
def test_no_other_width_comes_nearer_than_the_one_found(mixer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(size_axes, "LARGEST_WIDTH", 256)
    other = [f"model/mixer={mixer}", NO_POSITION, "model.num_layers=3"]
    result = matched(SMALL, other, EqualParameters(tolerance=1e-6), "head_size").arm("other")
    run = RunCosts().of(compose_checked("train", [*SMALL, *other]))
    every, expected = ShapeSearch(run, EqualParameters(), 1.0), num_weights(compose_checked("train", SMALL))
    misses = []
    for width in range(8, 257, 8):
        with suppress(ValueError):
            misses.append(abs(every.run_of({"model.d_model": width}).figure("parameters") - expected))
    assert abs(result.achieved - expected) == min(misses)


@pytest.mark.slow
def test_arms_that_read_the_same_data_have_it_prepared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared: list[object] = []

    def noted(config: Any) -> Any:
        prepared.append(config["data"])
        return build_data(config)

    monkeypatch.setattr(run_cost, "build_data", noted)
    arms = {f"depth{depth}": [f"model.num_layers={depth}"] for depth in (1, 2, 3)}
    other = {"others": ["data.context_length=8"]}
    match(
        SMALL, {**arms, **other}, "depth2", EqualParameters(), {name: ["feedforward"] for name in ("depth1", "depth3")}
    )
    assert len(prepared) == 2


def test_arm_without_what_may_move_says_so() -> None:
    arm = matched(SMALL, ["model/feedforward=none"], EqualParameters(), "feedforward").arm("other")
    assert not arm.met and not arm.overrides and "feedforward cannot move, since" in arm.reason


WORDS = ["data=sentence_grammar", "task=classification", *DATA, *QUIET]
FITTED = {"net": ["model.d_model=32", "model.num_heads=2"], "words": ["model=bag_of_words"]}


@pytest.mark.parametrize("budget", [EqualFlops(), EqualTokens(), EqualTime()])
@pytest.mark.parametrize("baseline", ["net", "words"])
def test_what_is_fitted_at_once_shares_no_budget_of_steps(budget: Budget, baseline: str) -> None:
    with pytest.raises(ConfigurationError, match="arm words: model=bag_of_words is fitted to all its rows in one step"):
        match(WORDS, FITTED, baseline, budget)


@pytest.mark.slow
def test_what_one_fit_reads_is_told_beside_a_budget_of_parameters(tmp_path: Any) -> None:
    result = match([*WORDS, "trainer.train_rows=30"], FITTED, "net", EqualParameters())
    data = from_fields(SentenceGrammar, num_train=40, num_validation=4, num_test=4)
    record = train(
        build_parts(
            compose_checked("train", [*WORDS, "trainer.train_rows=30", "model=bag_of_words", f"output_dir={tmp_path}"])
        )
    )
    rows = fewer_rows(data.split("train"), 30, record.seeds.data_order)
    message, read = result.arm("words").figures, int(sum(rows.lengths()))
    assert message["tokens"] == read == record.progress.tokens
    assert "training_flops" not in message and record.progress.flops == 0
    shown = StringIO()
    Console(width=200, file=shown).print(show_matching(result))
    [line] = [line for line in shown.getvalue().splitlines() if "words" in line and f"{read:,}" in line]
    assert " - " in line


@pytest.mark.parametrize(
    ("arms", "baseline", "budget", "movable", "sentence"),
    [
        ({"a": [], "b": []}, "c", EqualParameters(), {}, "baseline=c is not an arm"),
        ({"a": []}, "a", EqualParameters(), {}, "a is the only arm"),
        ({"a": [], "b": []}, "a", EqualParameters(), {"c": ["width"]}, "c may move and is not an arm"),
        ({"a": [], "b": []}, "a", EqualParameters(), {"a": ["width"]}, "a is the baseline, which stays"),
        ({"a": [], "b": []}, "a", EqualParameters(), {"b": ["widht"]}, "did you mean width?"),
        ({"a": [], "b": []}, "a", EqualParameters(), {"b": ["steps"]}, "choose from width, head_size, depth"),
        ({"a": [], "b": ["model.d_model=x"]}, "a", EqualParameters(), {}, "arm b: model.d_model=x is refused"),
    ],
)
def test_what_cannot_be_asked_is_refused(arms: Any, baseline: str, budget: Budget, movable: Any, sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence.replace("?", r"\?")):
        match(SMALL, arms, baseline, budget, movable)


@pytest.mark.slow
def test_state_of_a_baseline_that_carries_none_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="first has no state elements"):
        matched(["model=mlp", *IMAGES[1:]], ["model=cnn"], EqualState())
