"""The growth that a parametrisation is given for each parameter is how its shape grows."""

from __future__ import annotations

import pytest

from headtohead.config.build import build_model
from headtohead.config.compose.choices import choices
from headtohead.config.compose.composition import compose_checked
from headtohead.config.schema.source_code import class_value
from headtohead.training.optim.parametrisation import growths, width_of

FEW = ["data.num_train=20", "data.num_validation=4", "data.num_test=4"]
FAMILIES: dict[str, list[str]] = {
    "decoder_only": FEW,
    "untied": ["model.tie_weights=false", "model.head_bias=true", *FEW],
    "encoder_only": ["model=encoder_only", "task=masked_lm", *FEW],
    "classifier": ["model=encoder_only", "task=classification", "data=sentence_grammar", "model.pooler=tanh", *FEW],
    "tagger": ["model=encoder_only", "task=tagging", "data=tagging_grammar", *FEW],
    "spans": ["model=encoder_only", "task=span_qa", "data=qa_grammar", *FEW],
    "encoder_decoder": ["model=encoder_decoder", "task=seq2seq", "data=number_words", *FEW],
    "vision_transformer": ["model=vision_transformer", "task=image_classification", "data=digits"],
    "mlp": ["model=mlp", "task=image_classification", "data=digits"],
    "mlp of words": ["model=mlp", "task=classification", "data=sentence_grammar", *FEW],
}
SLOTS = ("position", "norm", "residual", "feedforward")


def scalable(slot: str) -> list[str]:
    """Return one choice for each class."""
    result: dict[str, str] = {}
    for choice in choices(f"model/{slot}"):
        if class_value(choice.target, "no_mup_rule") == "" and not class_value(choice.target, "needs_grid"):
            result.setdefault(choice.target, choice.name)
    return list(result.values())


def check(overrides: list[str]) -> None:
    config = compose_checked("train", overrides)
    narrow, wide = (
        build_model({**config, "model": {**config["model"], "d_model": width}}, device="meta") for width in (64, 128)
    )
    result, others = growths(wide), dict(narrow.named_parameters())
    assert width_of(wide) == 128
    for name, parameter in wide.named_parameters():
        grown = sum(a != b for a, b in zip(parameter.shape, others[name].shape, strict=True))
        assert result[id(parameter)] == grown, name


@pytest.mark.parametrize("name", FAMILIES)
def test_parameters_grow_as_they_are_said_to_in_every_family(name: str) -> None:
    check(FAMILIES[name])


@pytest.mark.parametrize("choice", [f"model/{slot}={name}" for slot in SLOTS for name in scalable(slot)])
def test_parameters_grow_as_they_are_said_to_with_every_part_that_can_be_scaled(choice: str) -> None:
    check([*FAMILIES["encoder_only"], choice])


@pytest.mark.slow
def test_parameters_of_every_mixer_that_can_be_scaled_grow_as_they_are_said_to() -> None:
    mixers = scalable("mixer")
    assert len(mixers) > 3
    check([*FAMILIES["encoder_only"], f"model.pattern=[{','.join(mixers)}]", f"model.num_layers={len(mixers)}"])
