"""A field that only another one brings to life is refused without it, and taken with it."""

from __future__ import annotations

import ast

import pytest

from headtohead.config.compose.composition import compose_checked
from headtohead.config.errors import ConfigurationError, show
from headtohead.config.rules.config_view import ConfigView
from headtohead.config.rules.unread_fields import DEPENDENT_FIELDS, DependentField, rules
from headtohead.config.schema.source_code import arguments

PAIRS = ("task=seq2seq", "data=number_words", "model=encoder_decoder")
SPANS = ("task=span_corruption", "data.packing=stream", "model=encoder_decoder")
CASES: dict[str, tuple[tuple[str, ...], str, tuple[str, ...]]] = {
    "task.length_penalty": (PAIRS, "task.length_penalty=0.6", ()),
    "task.noise_density": (SPANS, "task.noise_density=0.5", ("task.mixture=ul2",)),
    "task.mean_span_length": (SPANS, "task.mean_span_length=9", ("task.mixture=ul2",)),
    "trainer.min_delta": ((), "trainer.min_delta=0.1", ()),
    "optimizer.nesterov": (("optimizer=sgd",), "optimizer.nesterov=true", ("optimizer.momentum=0",)),
    "checkpointing.every": ((), "checkpointing.every=3", ("checkpointing=full",)),
    "model.early_feedforward": ((), "+model/feedforward@model.early_feedforward=swiglu", ()),
}
"""The overrides around a field, the one that sets it, and those that leave it without effect."""


@pytest.mark.parametrize("field", DEPENDENT_FIELDS, ids=lambda field: field.field)
def test_a_field_without_what_it_needs_is_refused_with_the_way_out(field: DependentField) -> None:
    around, typed, without = CASES[field.field]
    with pytest.raises(ConfigurationError) as refusal:
        compose_checked("train", [*around, typed, *without])
    assert str(refusal.value).startswith(field.field) and f"{field.needs} is " in str(refusal.value)
    assert f"give {field.way}, or {field.field}={show(field.unset)}" in str(refusal.value)
    assert compose_checked("train", [*around, typed, field.way])
    assert compose_checked("train", [*around, *without])


@pytest.mark.parametrize("field", DEPENDENT_FIELDS, ids=lambda field: field.field)
def test_the_value_that_nobody_set_is_that_of_the_constructor(field: DependentField) -> None:
    around, _, _ = CASES[field.field]
    root, _, name = field.field.partition(".")
    taken = arguments(compose_checked("train", list(around))[root]["_target_"])
    assert taken is not None
    (default,) = (argument.default for argument in taken if argument.name == name)
    assert default is None or ast.literal_eval(default) == field.unset


@pytest.mark.parametrize("one", DEPENDENT_FIELDS, ids=lambda one: one.field)
def test_a_continued_run_is_refused_only_what_it_can_change(one: DependentField) -> None:
    group, name = one.field.split(".")
    needed = one.needs.split(".")[1]
    unmet = next(value for value in (0, None) if not one.is_met(value))
    parts: dict[str, object] = {key: {} for key in ("model", "task", "data", "trainer", "optimizer")}
    config = {**parts, group: {name: {"a": 1} if one.unset is None else 0.7, needed: unmet}}
    (rule,) = rules()
    assert list(rule(ConfigView(config)))
    assert bool(list(rule(ConfigView({**config, "resume_from": "outputs/a"})))) is (group == "trainer")
