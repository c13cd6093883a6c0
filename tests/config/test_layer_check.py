"""Layers that cannot be made are refused before the first of many runs, by the field to type, and no others are."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from copy import copy, deepcopy
from typing import Any

import pytest
import yaml

from headtohead.components.mixers.attention.softmax_attention import AttentionHeads, SoftmaxAttention
from headtohead.config.build import make_model
from headtohead.config.compose.choices import choice_names, config_folder
from headtohead.config.compose.composition import composed_once
from headtohead.config.errors import ConfigurationError
from headtohead.config.instantiate import make_at
from headtohead.config.layer_check import layers_error
from headtohead.config.rules import compatibility
from headtohead.execution.multirun import planned_jobs, without_impossible_layers

AROUND = ("model/position=none", "model.d_model=64")
ENCODER = (*AROUND, "model=encoder_only", "task=masked_lm")
PAIRS = (*AROUND, "model=encoder_decoder", "task=seq2seq", "data=reverse", "data.form=pairs")
COMPOSE = composed_once()
SLOTS = ("mixer", "local", "position", "norm", "residual", "feedforward")
CHOICES = [(slot, name) for slot in SLOTS for name in choice_names(f"model/{slot}")]
OF_IMAGES = [("position", "rotary_2d"), ("position", "sinusoidal_2d")]
"""The choices that no model of tokens can have, whose layers alone are checked."""
IMPOSSIBLE = {
    "mamba2": ("num_groups", 3),
    "gated_delta": ("num_key_heads", 3),
    "short_conv": ("kernel", 1),
    "mamba3": ("rotated", 0.001),
    "latent_attention": ("value_width", 4096),
}
"""A field of each mixer, with a value of a kind that its annotation lets pass."""


class Fails(SoftmaxAttention):
    """A layer of a user's whose code has an error."""

    error: type[Exception]

    def __init__(self, *placed: Any, **fields: Any) -> None:
        raise self.error("of the user's code")


class MadeAnew(SoftmaxAttention):
    """A layer of a user's whose `__new__` takes anything, and whose constructor is the base's."""

    def __new__(cls, *placed: Any, **fields: Any) -> MadeAnew:
        del placed, fields
        return super().__new__(cls)


def hiding(constructor: Callable[..., None]) -> Callable[..., None]:
    def hidden(*placed: Any, **fields: Any) -> None:
        constructor(*placed, **fields)

    return hidden


class Hidden(SoftmaxAttention):
    """A layer of a user's whose constructor tells its parameters in the source alone."""

    @hiding
    def __init__(self, d_model: int, num_heads: int, heads: AttentionHeads = AttentionHeads()) -> None:
        super().__init__(d_model, num_heads=num_heads, causal=True, heads=heads)


def with_layer(layer: type[SoftmaxAttention], **fields: Any) -> Any:
    """Return a configuration with a layer of the user's own."""
    model = COMPOSE(AROUND)["model"]
    node = {"_target_": f"{layer.__module__}.{layer.__name__}", "_partial_": True, **fields}
    return {**COMPOSE(AROUND), "model": {**model, "mixer": node}}


def with_node(config: Any, slot: str, name: str) -> Any:
    node = yaml.safe_load((config_folder() / "model" / slot / f"{name}.yaml").read_text())
    return {**config, "model": {**config["model"], slot: node}}


@pytest.mark.parametrize(("slot", "name"), CHOICES)
def test_layers_of_every_choice_can_be_made(slot: str, name: str) -> None:
    decoder = ("task=causal_lm", "model=decoder_only", *AROUND)
    windows = ((*decoder, "model.pattern=[sliding_window,softmax_attention]"),) if slot == "position" else ()
    errors = []
    for around in (decoder, ENCODER, *windows):
        config = with_node(COMPOSE(around), slot, name)
        try:
            compatibility.check(config)
        except ConfigurationError:
            continue
        errors.append(layers_error(config))
    assert not any(errors) and bool(errors) is ((slot, name) not in OF_IMAGES)


def pickled(factory: Any) -> Any:
    return pickle.loads(pickle.dumps(factory))


@pytest.mark.parametrize("again", [copy, deepcopy, pickled])
def test_factories_that_a_class_holds_are_copied_and_pickled_with_the_field_to_type(
    again: Callable[[Any], Any],
) -> None:
    """The factories of all choices, and one in the node of another."""
    for slot, name in CHOICES:
        factory = make_at(f"model.{slot}", with_node({"model": {}}, slot, name)["model"][slot])
        same = again(factory)
        assert same is not factory and repr(same) == repr(factory)
        assert type(same) is type(factory) and vars(same) == vars(factory)
    node = with_node({"model": {}}, "mixer", "mamba2")["model"]["mixer"]
    outer = make_at("model", {"_target_": "builtins.dict", "_partial_": True, "mixer": {**node, "num_groups": 3}})
    with pytest.raises(ConfigurationError, match=r"^model\.mixer\.num_groups=3 does not divide"):
        again(outer)()["mixer"](64, num_heads=4, causal=True)


@pytest.mark.parametrize("name", sorted(IMPOSSIBLE))
@pytest.mark.parametrize("path", ["model.mixer", "model.mixers.mine", "model.decoder.mixer"])
def test_a_field_is_named_where_it_is_typed(path: str, name: str) -> None:
    field, value = IMPOSSIBLE[name]
    side = "decoder" in path
    chosen = f"model/mixer={name}" if path == "model.mixer" else f"{'' if side else '+'}model/mixer@{path}={name}"
    pattern = ("model.pattern=[mine]",) if "mixers" in path else ()
    config = COMPOSE((*(PAIRS if side else AROUND), chosen, *pattern, f"{path}.{field}={value}"))
    error = layers_error(config)
    assert error is not None and error.startswith(f"{path}.{field}=")


def test_many_runs_are_refused_one_whose_layers_cannot_be_made_and_do_the_others() -> None:
    typed = [*AROUND, "model/mixer=mamba2"]
    planned = planned_jobs(
        [(*typed, f"model.mixer.num_groups={groups}") for groups in (1, 3)], lambda one: COMPOSE(tuple(one))
    )
    multirun = without_impossible_layers(planned)
    assert [job.overrides[-1] for job in multirun.jobs] == ["model.mixer.num_groups=1"]
    assert list(multirun.refused) == ["model.mixer.num_groups=3"]
    assert multirun.refused["model.mixer.num_groups=3"].startswith("model.mixer.num_groups=3 does not divide")


@pytest.mark.parametrize("error", [RuntimeError, KeyError, AssertionError, NotImplementedError, OSError, ValueError])
def test_errors_in_the_code_of_users_are_left_to_the_runs_that_have_them(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Fails, "error", error, raising=False)
    config = with_layer(Fails)
    assert layers_error(config) is None
    with pytest.raises(error, match="of the user's code"):
        make_model({**config, "model": {**config["model"], "vocab_size": 8, "max_length": 8}}, "meta")


def test_a_layer_takes_field_groups_whatever_its_new_takes() -> None:
    assert layers_error(with_layer(MadeAnew, num_kv_heads=2)) is None
    assert "num_kv_heads=3" in str(layers_error(with_layer(MadeAnew, num_kv_heads=3)))


def test_a_decorator_that_hides_a_field_group_is_named() -> None:
    assert "hides the parameter heads of its constructor" in str(layers_error(with_layer(Hidden)))
