"""Every listed choice exists and every existing one is listed: every YAML composes, every class has a YAML."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from headtohead.config.compose.choices import Choice, choices, groups
from headtohead.config.compose.composition import compose
from headtohead.config.rules import compatibility
from headtohead.config.schema import key_checks
from headtohead.config.schema.key_checks import ROOT_NODES, fields_of
from headtohead.config.schema.slots import SLOTS, may_name, slot_of
from headtohead.config.schema.source_code import find_target
from headtohead.config.schema.value_kinds import Either, Kind, ListOf, MappingOf, NumberKind, WholeNumber
from headtohead.ranges import ANY

ALL = [choice for group in groups() for choice in choices(group)]
LEAVES = [choice for choice in ALL if choice.group not in ("experiment", "model/size")]
MADE_BY_THE_STACK = {
    "headtohead.components.mixers.combined_mixers.Bidirectional",
    "headtohead.components.mixers.combined_mixers.BidirectionalWithMaps",
    "headtohead.components.mixers.combined_mixers.LocalThenMixer",
}
MADE_BY_SWIN = {"headtohead.components.mixers.attention.shifted_window.ShiftedWindowAttention"}
"""A mixer of one grid, and in every second layer of other windows: no stack could make it for a choice."""
ROOTS = {"budget": "match", "launcher": "launch"}
CALLABLES = ("model/initialisation", "optimizer", "schedule")
PARTS_OF_MODELS = {"parameter_groups", "hidden_matrices"}
"""Functions beside the optimizers that sort a model's parameters."""
CONTRACTS = {
    "model": "headtohead.architectures.architecture.Architecture",
    "model/mixer": "headtohead.components.component.Mixer",
    "model/cross": "headtohead.components.component.CrossMixer",
    "model/position": "headtohead.components.component.Position",
    "model/norm": "headtohead.components.block_parts.Norm",
    "model/feedforward": "headtohead.components.block_parts.FeedForward",
    "model/residual": "headtohead.components.block_parts.ResidualScheme",
    "task": "headtohead.tasks.task.Task",
    "data": "headtohead.data.data_source.DataSource",
    "launcher": "headtohead.execution.launchers.launcher.Launcher",
}


@cache
def composed(choice: Choice) -> dict[str, Any]:
    needs = ["model=encoder_decoder"] if choice.group == "model/cross" else []
    return key_checks.check(compose(ROOTS.get(choice.group, "train"), [*needs, f"{choice.group}={choice.name}"]))


def target_of(choice: Choice) -> str:
    """Its own `_target_`, or that of the choice it builds on."""
    node: Any = composed(choice) if not choice.target else {choice.group: {"_target_": choice.target}}
    return node[choice.group]["_target_"]


def targets(node: Any, group: str = "") -> Iterator[tuple[str, str]]:
    """Every `_target_` below a node, with the group of the place it stands in."""
    if isinstance(node, dict):
        if "_target_" in node:
            yield group, node["_target_"]
        for key, value in node.items():
            yield from targets(value, f"{group}/{key}" if group else key)


@pytest.mark.parametrize("choice", ALL, ids=lambda choice: f"{choice.group}={choice.name}")
def test_every_choice_composes_into_a_run_whose_keys_are_known(choice: Choice) -> None:
    config = composed(choice)
    assert config["choices"][choice.group] == choice.name
    for group, target in targets(config):
        assert may_name(group, target) and find_target(target) is not None, f"{group}: {target}"


@pytest.mark.parametrize("choice", ALL, ids=lambda choice: f"{choice.group}={choice.name}")
def test_no_choice_points_into_another_whose_alternatives_lack_that_key(choice: Choice) -> None:
    nodes = {group.replace("/", ".") for group in groups()} - {"model", "data", "task"}
    values = [line.partition("#")[0] for line in choice.path.read_text().splitlines()]
    for name in re.findall(r"\$\{([\w.]+)\}", "\n".join(values)):
        into = {node for node in nodes if name.startswith(f"{node}.")} - {choice.group.replace("/", ".")}
        assert not into, f"${{{name}}} is not there with every choice of {into}"


@pytest.mark.parametrize("choice", [c for c in ALL if c.group == "experiment"], ids=lambda choice: choice.name)
def test_every_experiment_can_be_run(choice: Choice) -> None:
    compatibility.check(composed(choice))


@pytest.mark.parametrize("choice", LEAVES, ids=lambda choice: f"{choice.group}={choice.name}")
def test_every_target_can_be_imported(choice: Choice) -> None:
    module, _, name = target_of(choice).rpartition(".")
    assert callable(getattr(importlib.import_module(module), name))


@pytest.mark.parametrize("group", CONTRACTS)
def test_every_finished_class_has_a_yaml(group: str) -> None:
    listed = {target_of(choice) for choice in choices(group)}
    module, _, name = CONTRACTS[group].rpartition(".")
    contract = getattr(importlib.import_module(module), name)
    if group == "model/mixer":  # what may precede a mixer is one too; the stack makes the rest of them, or a model does
        listed |= {target_of(choice) for choice in choices("model/local")} | MADE_BY_THE_STACK | MADE_BY_SWIN
    assert set(finished_classes(group, contract)) == listed


@pytest.mark.parametrize("group", CALLABLES)
def test_every_public_function_of_a_group_has_a_yaml(group: str) -> None:
    listed = {choice.target for choice in choices(group)}
    modules = {target.rpartition(".")[0] for target in listed}
    first = next(iter(slot_of(group).passed & {"model", "total_steps"}))
    functions = {
        f"{module}.{name}"
        for module in modules
        for name, member in vars(importlib.import_module(module)).items()
        if inspect.isfunction(member) and member.__module__ == module and not name.startswith("_")
        if next(iter(inspect.signature(member).parameters), None) == first and name not in PARTS_OF_MODELS
    }
    assert functions == listed


def finished_classes(group: str, contract: type) -> Iterator[str]:
    for package in slot_of(group).packages:
        root = importlib.import_module(package)
        for module in pkgutil.walk_packages(root.__path__, f"{package}."):
            if ".reference" in module.name:
                continue
            for member in vars(importlib.import_module(module.name)).values():
                if (
                    inspect.isclass(member)
                    and issubclass(member, contract)
                    and member.__module__ == module.name
                    and not inspect.isabstract(member)
                ):
                    yield f"{module.name}.{member.__name__}"


def test_every_group_has_a_slot() -> None:
    of_some_layers = {"model/mixers", "model/feedforwards", "model/early_feedforward"}
    assert set(SLOTS) == {choice.group for choice in LEAVES} | set(ROOT_NODES) | of_some_layers


def numbers_without_range(kind: Kind) -> bool:
    if isinstance(kind, Either):
        return any(map(numbers_without_range, kind.kinds))
    if isinstance(kind, ListOf | MappingOf):
        return any(map(numbers_without_range, getattr(kind, "items", None) or (kind.item,)))
    return isinstance(kind, WholeNumber | NumberKind) and kind.range == ANY


def test_every_number_of_every_choice_has_a_range() -> None:
    """An argument without one would take 1e18 threads."""
    nodes = [(group, node) for choice in LEAVES for group, node in nodes_of(composed(choice))]
    nodes += nodes_of(compose("bench"))
    fields = {node["_target_"]: fields_of(group, node) for group, node in nodes}
    result = {
        f"{target}({name})"
        for target, of_target in fields.items()
        if of_target is not None
        for name, kind in of_target.kinds.items()
        if numbers_without_range(kind)
    }
    assert not result and len(fields) > 100


def nodes_of(node: Any, group: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every mapping with a `_target_`, and the group of the place that it stands in."""
    for key, value in node.items() if isinstance(node, dict) else ():
        yield from nodes_of(value, f"{group}/{key}" if group else key)
    if isinstance(node, dict) and "_target_" in node and not node["_target_"].startswith("torch."):
        yield group, node


def test_leaves_name_no_dimension() -> None:
    for choice in LEAVES:
        if choice.group.startswith("model/"):
            text = Path(choice.path).read_text(encoding="utf-8")
            keys = {line.partition(":")[0] for line in text.splitlines() if not line.startswith((" ", "#"))}
            assert not keys & slot_of(choice.group).passed, choice.path
