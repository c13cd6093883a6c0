"""Ready-made models with patterns: other parts, other patterns of their mixers, and runs of them that are revised."""

from __future__ import annotations

from pathlib import Path

import pytest

import headtohead as h2h
from headtohead.config.compose.choices import choices
from headtohead.config.compose.layer_patterns import ready_parts
from headtohead.config.errors import ConfigurationError
from headtohead.config.origins.revised_run import revised

SMALL = (
    *("task=masked_lm", "model=modernbert", "model.d_model=16", "model.num_layers=3", "model.num_heads=2"),
    *("data.num_train=40", "data.num_validation=8", "data.num_test=8", "data.context_length=16", "data.batch_size=4"),
    *("data.tokenizer=char", "trainer.max_steps=1", "trainer.validate_every=1", "trainer.accelerator=cpu"),
    *("trainer.threads=1", "tracking=none", "probe=none"),
)


def test_a_choice_says_which_mixers_it_brings() -> None:
    mixers = ("softmax_attention", "sliding_window")
    assert ready_parts("modernbert") == {f"model/mixer@model.mixers.{name}" for name in mixers}
    assert ready_parts("decoder_only") == ready_parts("no_such_model") == frozenset()


@pytest.mark.slow
def test_its_mixers_may_be_ordered_otherwise_and_joined_by_others() -> None:
    pattern = "model.pattern=[sliding_window,softmax_attention,linear_attention]"
    config = h2h.compose("train", [*SMALL, pattern, "model.mixers.sliding_window.window=3"])
    assert config["model"]["mixers"].keys() == {"softmax_attention", "sliding_window", "linear_attention"}
    assert config["model"]["mixers"]["sliding_window"]["window"] == 3
    assert not config["model"]["mixers"]["softmax_attention"]["bias"], "options of its own remain"


@pytest.mark.slow
@pytest.mark.parametrize(
    "part",
    ["model/norm=rms_norm", "model/position=alibi", "model/position=rotary", "model/feedforward=gelu"],
)
def test_its_parts_may_be_swapped_like_those_of_any_model(part: str, tmp_path: Path) -> None:
    size = ("model/size=modernbert_base", "model.d_model=16", "model.num_layers=3", "model.num_heads=2")
    for sized in ((), size):
        config = h2h.compose("train", [*SMALL, part, *sized, f"output_dir={tmp_path}"])
    record = h2h.train(config)
    assert record.status == "finished", record.reason


@pytest.mark.slow
def test_a_run_is_revised_with_its_own_mixers(tmp_path: Path) -> None:
    config = h2h.compose("train", [*SMALL, f"output_dir={tmp_path}"])
    changed = revised(config, ["model.mixers.sliding_window.window=5", "data.batch_size=8"])
    assert changed["model"]["mixers"]["sliding_window"]["window"] == 5 and changed["data"]["batch_size"] == 8
    assert changed["model"]["pattern"] == config["model"]["pattern"]


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model/residual=post", "model/residual=pre"),
        ("model.pattern=[softmax_attention]", "local_base"),
    ],
)
def test_what_has_nothing_to_act_on_is_refused(override: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        h2h.compose("train", [*SMALL, override])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("model", ["ngpt", "convnext"])
@pytest.mark.parametrize("group", [pytest.param("mixer", marks=pytest.mark.slow), "norm", "residual", "feedforward"])
def test_a_part_of_a_ready_made_model_is_any_other_of_its_group(model: str, group: str) -> None:
    """The fields that a model's file sets for its own part go with it, unless the other takes them too."""
    task = ["task=image_classification", "data=digits"] if model == "convnext" else ["data=grammar_lm"]
    usual = h2h.compose("train", [*task, f"model={model}"])
    if group not in usual["model"]:
        return
    composed = 0
    for choice in choices(f"model/{group}"):
        try:
            h2h.compose("train", [*task, f"model={model}", f"model/{group}={choice.name}"])
            composed += 1
        except ConfigurationError as refusal:
            assert "is not a field" not in str(refusal)
    assert composed > 2
