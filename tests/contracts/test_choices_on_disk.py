"""Every YAML file has a class, and every class a YAML file."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import pytest
import yaml
from torch import nn

import headtohead.components
from contracts.choices import GROUPS, factory, files, kind_of, names, target
from headtohead.components import initialisations
from headtohead.components.block_parts import Branches, FeedForward, Norm, ResidualScheme
from headtohead.components.component import CrossMixer, Mixer, Position
from headtohead.components.mixers.attention.shifted_window import ShiftedWindowAttention
from headtohead.components.mixers.combined_mixers import Bidirectional, BidirectionalWithMaps, LocalThenMixer
from headtohead.components.norms import LayerNorm

CONTRACTS = {
    "mixer": Mixer,
    "local": Mixer,
    "cross": CrossMixer,
    "position": Position,
    "norm": Norm,
    "residual": ResidualScheme,
    "feedforward": FeedForward,
}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "mixer": {"num_heads": 2, "causal": False, "dropout": 0.1},
    "local": {"num_heads": 2, "causal": False, "dropout": 0.1},
    "cross": {"num_heads": 2, "dropout": 0.1},
    "position": {"num_heads": 2, "max_length": 7, "causal": False, "grid": (2, 3)},
    "norm": {},
    "residual": {"branches": Branches(3, 3, dropout=0.1, drop_path=0.1)},
    "feedforward": {"dropout": 0.1},
}
MADE_BY_THE_STACK = {Bidirectional, BidirectionalWithMaps, LocalThenMixer}
CHOICES = [(group, name) for group in CONTRACTS for name in names(group)]


def listed(group: str) -> set[object]:
    return {target(yaml.safe_load(file.read_text())["_target_"]) for file in files(group)}


def modules() -> Iterator[object]:
    for result in walk_packages(headtohead.components.__path__, "headtohead.components."):
        if ".reference" not in result.name:
            yield import_module(result.name)


@pytest.mark.parametrize(("group", "name"), CHOICES)
def test_every_yaml_builds_what_its_group_promises(group: str, name: str) -> None:
    before = (LayerNorm, 16) if group == "residual" else (16,)
    made = factory(group, name)
    needs_length = issubclass(kind_of(made), Mixer) and kind_of(made).needs_length
    sizes = {"max_length": 7} if needs_length else {}
    assert isinstance(made(*before, **ARGUMENTS[group], **sizes), CONTRACTS[group])


@pytest.mark.parametrize("group", CONTRACTS)
def test_every_class_has_a_yaml(group: str) -> None:
    classes = {
        value
        for module in modules()
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, CONTRACTS[group]) and not inspect.isabstract(value)
    }
    elsewhere = listed("mixer") | listed("local") if CONTRACTS[group] is Mixer else listed(group)
    made_elsewhere = {CONTRACTS[group], ShiftedWindowAttention} | MADE_BY_THE_STACK
    unlisted = {result.__name__ for result in classes - elsewhere - made_elsewhere}
    assert not unlisted, f"no file in conf/model/{group} names {unlisted}"


def test_every_initialisation_has_a_yaml_and_the_reverse() -> None:
    functions = {
        value
        for name, value in vars(initialisations).items()
        if inspect.isfunction(value) and value.__module__ == initialisations.__name__ and not name.startswith("_")
    }
    assert functions == listed("initialisation")


@pytest.mark.parametrize(("group", "name"), [(group, name) for group in GROUPS for name in names(group)])
def test_every_yaml_sets_every_option_and_says_in_one_line_what_it_is(group: str, name: str) -> None:
    """Options missing from the file could be neither listed nor overridden; dimensions are the parent's."""
    provided = {
        "self",
        "d_model",
        "norm",
        "model",
        *ARGUMENTS.get(group, {}),
    }
    provided |= {"max_length", "grid"} if group == "mixer" else set()
    made: partial = factory(group, name)
    assert set(inspect.signature(made.func).parameters) - provided == set(made.keywords)
    first = (files(group)[0].parent / f"{name}.yaml").read_text().splitlines()[0]
    assert first.startswith("# ") and first.endswith(".") and len(first) <= 130


def test_no_component_takes_arguments_it_does_not_name() -> None:
    open_ended = [
        value.__name__
        for module in modules()
        for value in vars(module).values()
        if inspect.isclass(value)
        and issubclass(value, nn.Module)
        and value.__module__.startswith("headtohead.components")
        and "__init__" in vars(value)
        and any(p.kind is p.VAR_KEYWORD for p in inspect.signature(value.__init__).parameters.values())
    ]
    assert not open_ended
