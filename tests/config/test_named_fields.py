"""A refusal blames what is there: every field that it names exists, and what it says of the first one is true."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from typing import Any

import pytest

from config.test_refusals import COMBINATIONS
from headtohead.config.build import make_model
from headtohead.config.compose.choices import choice_names, groups
from headtohead.config.compose.composition import compose, compose_checked
from headtohead.config.errors import show
from headtohead.config.schema.key_checks import NODES, ROOT_FIELDS, _Checker

_NODES = "|".join(NODES)
_FIELD = re.compile(rf"(?<![\w/.@])((?:{_NODES})(?:\.\w+)+)(?:=(\[[^\]]*\]|[^\s,;:]+))?")
_CHOICE = re.compile(rf"(?<![\w/.@])((?:{_NODES})(?:/\w+)*(?:@[\w.]+)?)=([\w-]+)")
_SIZES = {"vocab_size": 9, "max_length": 8, "max_target_length": 8}

NESTED = ("encoder_decoder", "recurrent_encoder_decoder")
OWN = ("model", "model.encoder", "model.decoder")
"""The places at which a mistake is typed: for both sides of a nested model, or for one."""
ATTENTION = "model/mixer=softmax_attention"
FAULTS = {
    "deep pattern": ["{path}.num_layers=1", "{path}.pattern=[lstm,gru]"],
    "shared depth": ["model.num_layers=1", "{path}.pattern=[lstm,gru]"],
    "key and value heads": ["model/mixer{at}=softmax_attention", "model.num_heads=4", "{path}.mixer.num_kv_heads=3"],
    "shares of heads": ["model/mixer{at}=gated_linear", "model.num_heads=4", "{path}.mixer.key_ratio=0.3"],
    "buckets": [ATTENTION, "model/position{at}=t5_bias", "{path}.position.num_buckets=3"],
    "rotated share": [ATTENTION, "model/position{at}=rotary", "{path}.position.fraction=0.01"],
    "head widths": [ATTENTION, "model/position{at}=rotary", "{path}.position.head_width=6"],
    "scores": ["model/mixer{at}=gru", "model/position{at}=rotary"],
    "grid": [ATTENTION, "model/position{at}=rotary_2d"],
    "statistics": ["model/norm{at}=batch_norm", "trainer.accumulate=2"],
    "divided heads": [
        "model/mixer{at}=softmax_attention",
        "trainer=tensor_parallel",
        "model.num_heads=4",
        "{path}.mixer.num_kv_heads=1",
    ],
    "biased heads": [ATTENTION, "trainer=tensor_parallel", "model.num_heads=4", "model/position{at}=alibi"],
    "lone layer": ["model/mixer{at}=value_residual", "{path}.num_layers=1"],
    "drop path": ["model/residual{at}=none", "model.drop_path=0.1"],
}
MATCHED = "model/mixer{at}=softmax_attention", "{path}.mixer.qk_norm=true", "parametrisation=mup"


def refusal(overrides: list[str]) -> str:
    """Return the refusal of composing and building such a model."""
    with pytest.raises(ValueError) as refused:
        config = compose_checked("train", overrides)
        model = {**config["model"], **{name: size for name, size in _SIZES.items() if name in config["model"]}}
        make_model({**config, "model": model}, "meta")
    return str(refused.value)


def check_names(sentence: str, config: Mapping[str, Any]) -> None:
    """Hold a refusal to the configuration that it speaks of."""
    legal = set(_Checker(config)._legal_paths())
    fields = [(match[1], match[2]) for match in _FIELD.finditer(sentence)]
    for field, _ in fields:
        if not field.endswith("._target_"):
            assert field in legal or _at(config, field) is not None, f"{field} is not a field: {sentence}"
    for group, choice in _CHOICE.findall(sentence):
        known = group.partition("@")[0]
        assert known not in groups() or choice in (*choice_names(known), "null"), f"{group}={choice}: {sentence}"
    blamed = next(((field, value) for field, value in fields if value is not None), None)
    if blamed is not None and sentence.index(f"{blamed[0]}={blamed[1]}") <= len(sentence) // 2:
        there = show(_at(config, blamed[0]))
        assert there == blamed[1], f"{blamed[0]} is {there}: {sentence}"


def _at(config: Mapping[str, Any], path: str) -> Any:
    node: Any = config
    for name in path.split("."):
        node = node.get(name) if isinstance(node, Mapping) else None
    return node


def overrides_of(model: str, fault: tuple[str, ...] | list[str], path: str) -> list[str]:
    at = {part: "" if path == "model" else f"@{path}.{part}" for part in ("mixer", "position", "norm", "residual")}
    typed = []
    for override in fault:
        part = override.partition("{at}")[0].rpartition("/")[2]
        typed.append(override.format(path=path, at=at.get(part, "")))
    return [f"model={model}", "task=seq2seq", "data=reverse", *typed]


@pytest.mark.slow
def test_refusals_of_nested_models_name_the_side_that_was_typed(draw_seed: int) -> None:
    cases = [
        (model, fault, path)
        for model in NESTED
        for fault in FAULTS
        for path in OWN
        if (model, fault) != ("recurrent_encoder_decoder", "drop path")  # neither side of it has a stream
    ]
    model, fault, path = random.Random(0).sample(cases, len(cases))[draw_seed % len(cases)]
    overrides = overrides_of(model, FAULTS[fault], path)
    sentence = refusal(overrides)
    check_names(sentence, compose("train", overrides))
    typed = [override.partition("=")[0] for override in overrides[3:] if override.startswith(path)]
    assert any(field in sentence for field in typed or [path]), sentence


@pytest.mark.parametrize("path", ["model.encoder", "model.decoder"])
def test_a_pattern_deeper_than_one_side_blames_that_side(path: str) -> None:
    sentence = refusal(overrides_of("encoder_decoder", FAULTS["deep pattern"], path))
    assert sentence.startswith(f"{path}.pattern holds 2 layers and {path}.num_layers=1:")


@pytest.mark.slow
def test_maximal_update_blames_the_side_whose_option_it_does_not_know() -> None:
    overrides = overrides_of("encoder_decoder", MATCHED, "model.decoder")
    assert refusal(overrides).startswith("model.decoder.mixer.qk_norm=true")


def test_every_known_refusal_names_fields_that_there_are(draw_seed: int) -> None:
    cases = sorted(case for case in COMBINATIONS if "_from" not in case)
    overrides = random.Random(0).sample(cases, len(cases))[draw_seed % len(cases)].split(" ")
    sentence = refusal(overrides)
    check_names(sentence, compose("train", overrides))
    assert not re.search(rf"\b({'|'.join(ROOT_FIELDS)}|{_NODES})\.\.", sentence)
