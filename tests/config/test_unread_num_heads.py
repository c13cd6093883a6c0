"""A number of heads is mentioned exactly where the model that is built computes the same with another one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
import yaml

from headtohead.architectures.architecture import Architecture
from headtohead.config.build import make_model
from headtohead.config.compose.choices import choice_names, config_folder
from headtohead.config.compose.composition import compose_checked, composed_once
from headtohead.config.errors import ConfigurationError
from headtohead.config.instantiate import make
from headtohead.config.mentions import unread_num_heads
from headtohead.config.rules import compatibility
from small_models import redraw

SMALL = ["model.max_length=8", "model.vocab_size=11", "model.d_model=32", "model.num_layers=2"]
ENCODER = (*SMALL, "model=encoder_only", "task=masked_lm", "model/position=none")
DECODER = (*SMALL, "model=decoder_only", "model/position=none")
PAIRS = (*SMALL, "model=recurrent_encoder_decoder", "task=seq2seq", "data=reverse", "data.form=pairs")
CASES = [
    *((DECODER, "mixer", name) for name in choice_names("model/mixer")),
    *((ENCODER, "mixer", name) for name in ("fourier", "lstm", "mlp_mixer", "nystrom", "pooling")),
    *(((*PAIRS, "model.max_target_length=8"), "cross", name) for name in choice_names("model/cross")),
]
COMPOSE = composed_once()


def composed(around: tuple[str, ...], slot: str, name: str, heads: int) -> Mapping[str, Any]:
    config = COMPOSE(around)
    node = yaml.safe_load((config_folder() / "model" / slot / f"{name}.yaml").read_text())
    config = {**config, "model": {**config["model"], slot: node, "num_heads": heads}}
    compatibility.check(config)
    return config


def computed(config: Mapping[str, Any]) -> list[Any]:
    """Return what the model computes, with the shapes of its weights."""
    model: Architecture = redraw(make(config["model"], head="language_model")).eval()
    tokens = torch.arange(7)[None]
    inputs = {"tokens": tokens, **({"decoder_tokens": tokens} if "cross" in config["model"] else {})}
    with torch.no_grad():
        logits = model(**inputs)
    return [*((name, *weight.shape) for name, weight in model.named_parameters()), *logits.flatten().tolist()]


@pytest.mark.parametrize(("around", "slot", "name"), CASES, ids=lambda value: value if isinstance(value, str) else "")
def test_heads_are_mentioned_where_no_part_has_any(around: tuple[str, ...], slot: str, name: str) -> None:
    try:
        two, eight = composed(around, slot, name, 2), composed(around, slot, name, 8)
    except ConfigurationError as refusal:
        assert "num_heads" not in str(refusal)
        return
    try:
        is_same = computed(two) == computed(eight)
    except ValueError as refusal:
        assert "heads" in str(refusal), "of such a width there can be none, so that it has some"
        is_same = False
    assert bool(list(unread_num_heads(eight))) is is_same


@pytest.mark.slow
def test_heads_of_a_head_with_layers_of_its_own_are_not_mentioned() -> None:
    """The generator has the number of the model, whose own layers have none here, and may be of any width then."""
    around = (*SMALL, "model=encoder_only", "model/position=none", "model.pattern=[lstm]", "model.d_model=64")
    seven, two = (COMPOSE((*around, "task=replaced_token_detection", f"model.num_heads={heads}")) for heads in (7, 2))
    shapes = [[weight.shape for weight in make_model(config, "meta").parameters()] for config in (seven, two)]
    assert shapes[0] != shapes[1] and not list(unread_num_heads(seven))
    assert list(unread_num_heads(COMPOSE((*around, "task=masked_lm", "model.num_heads=7"))))


def test_the_width_of_what_has_no_heads_may_be_any() -> None:
    assert compose_checked("train", ["model=recurrent", "model.d_model=50"])
    with pytest.raises(ConfigurationError, match=r"model\.num_heads=4 does not divide model\.d_model=50"):
        compose_checked("train", ["model=decoder_only", "model.d_model=50"])


@pytest.mark.slow
def test_the_number_that_a_size_brings_is_not_mentioned() -> None:
    for size in ("tiny", "small", "bert_base"):
        assert not list(unread_num_heads(compose_checked("train", ["model=recurrent", f"model/size={size}"])))
