"""A freeze is refused before the model is built exactly if the built model would refuse it."""

from __future__ import annotations

import random
from copy import deepcopy
from functools import cache
from typing import Any

import pytest

from headtohead.config.build import make_model
from headtohead.config.compose.composition import compose, compose_checked
from headtohead.config.errors import ConfigurationError
from headtohead.config.rules import compatibility
from headtohead.errors import UsageError

MODELS = (
    "model=decoder_only",
    "model=recurrent",
    "model=decoder_only task=classification data=sentence_grammar",
    "model=encoder_only task=masked_lm",
    "model=encoder_only task=tagging data=tagging_grammar",
    "model=encoder_decoder task=seq2seq data=reverse",
    "model=recurrent_encoder_decoder task=seq2seq data=reverse",
    "model=vision_transformer task=image_classification data=digits",
    "model=mlp task=classification data=sentence_grammar",
    "model=cnn task=image_classification data=digits",
)
SIZES = {
    "vocab_size": 9, "max_length": 8, "max_target_length": 8, "num_classes": 2, "image_shape": [1, 8, 8], "d_model": 16,
}  # fmt: skip


@cache
def usual(overrides: str) -> dict[str, Any]:
    return compose("train", overrides.split())


def refuses(check: Any, *provided: Any) -> bool:
    try:
        check(*provided)
    except UsageError:
        return True
    return False


def test_freezing_is_refused_before_building_exactly_where_building_would(draw_seed: int) -> None:
    rng = random.Random(draw_seed)
    config = deepcopy(usual(MODELS[draw_seed % len(MODELS)]))
    model = config["model"]
    model |= {name: size for name, size in SIZES.items() if name in model}
    for name in ("tie_weights", "head_bias", "share_embeddings"):
        if name in model:
            model[name] = rng.random() < 0.5
    if "decoder" in model:
        model["decoder"]["num_layers"] = rng.choice([None, 1, 3])
    assert not refuses(compatibility.check, config)
    layers = 2 * (2 if "decoder" in model else 1)
    for freeze in ("nothing", "embedding", "body", *rng.sample(range(layers + 3), 3)):
        config["finetuning"]["freeze"] = freeze
        before, after = refuses(compatibility.check, config), refuses(make_model, config, "meta")
        assert before == after, (MODELS[draw_seed % len(MODELS)], model, freeze)


def test_a_probe_of_a_tied_head_is_refused_with_the_way_out() -> None:
    with pytest.raises(ConfigurationError, match=r"finetuning\.freeze=body .* set model\.tie_weights=false"):
        compose_checked("train", ["finetuning=head_only"])
    compose_checked("train", ["finetuning=head_only", "model.tie_weights=false"])
