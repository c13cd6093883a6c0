"""The ways in which an arm can become larger or smaller, each an ordered row of settings."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

from headtohead.config.compose.layer_patterns import PATTERNS
from headtohead.config.rules.config_view import ConfigView
from headtohead.config.run_config import Node, RunConfig
from headtohead.config.schema.source_code import arguments
from headtohead.errors import UsageError
from headtohead.studies.matching.budgets import SizeAxisName

Setting = dict[str, int | float]
"""Fields of the configuration, by path."""
WIDTH_UNIT = 8
LARGEST_WIDTH = 32768
LARGEST_DEPTH = 128
LARGEST_MULTIPLE = 32
LARGEST_RUN = 10**9
SIDES = ("encoder", "decoder")


class CannotResizeError(UsageError):
    """This arm has no such thing to move; the message is a clause of a sentence."""


class SizeAxis(ABC):
    """Settings 0 .. count - 1, small to large; `start` is the one nearest to the arm as it is written."""

    count: int
    start: int

    @abstractmethod
    def at(self, index: int) -> Setting:
        """Return the values of the configuration's fields at this index."""


class WidthAxis(SizeAxis):
    """Multiples of 8; heads keep their size and become more, or keep their number and become wider."""

    def __init__(self, config: Mapping[str, object], *, keeps: str) -> None:
        self._heads = RunConfig(config).num_heads
        self._keeps_size = keeps == "size"
        width = _required(config, "d_model")
        if self._heads is None:
            if not self._keeps_size:
                raise CannotResizeError("it has no heads whose size could change")
            self._unit = WIDTH_UNIT
        elif self._keeps_size:
            self._head = max(1, width // self._heads)
            self._unit = math.lcm(WIDTH_UNIT, self._head)
        else:
            self._unit = math.lcm(WIDTH_UNIT, self._heads)
        self.count = LARGEST_WIDTH // self._unit
        self.start = _clamped(round(width / self._unit) - 1, self.count)

    def at(self, index: int) -> Setting:
        width = (index + 1) * self._unit
        if self._heads is None or not self._keeps_size:
            return {"model.d_model": width}
        return {"model.d_model": width, "model.num_heads": width // self._head}


class DepthAxis(SizeAxis):
    """Layers, in whole rounds of the patterns where there are any, and no fewer than one of them or early layers have;
    sides with a depth of their own keep their share."""

    def __init__(self, config: Mapping[str, object]) -> None:
        model = RunConfig(config).model
        shared = _required(config, "num_layers")
        sides = {f"model.{side}": model[side] for side in SIDES if isinstance(model.get(side), Mapping)}
        layers = {f"{path}.num_layers": int(node["num_layers"]) for path, node in sides.items() if node["num_layers"]}
        if not sides or len(layers) < len(sides):
            layers["model.num_layers"] = shared
        lengths = _pattern_lengths(config)
        rounds = math.lcm(*lengths)
        common = math.gcd(*layers.values())
        if all(number % rounds == 0 for number in layers.values()):
            common = math.gcd(*(number // rounds for number in layers.values()))
        self._parts = {path: number // common for path, number in layers.items()}
        largest = max(self._parts.values())
        fewest = max([1, model.get("num_early_layers") or 0, *lengths])
        self._least = math.ceil(fewest / min(self._parts.values()))
        self.count = max(LARGEST_DEPTH, 2 * max(layers.values())) // largest - self._least + 1
        self.start = _clamped(common - self._least, self.count)

    def at(self, index: int) -> Setting:
        return {path: part * (index + self._least) for path, part in self._parts.items()}


class InnerWidthAxis(SizeAxis):
    """Inner widths of the feed-forward layers in multiples of 8, written as multiples of the model's width; sides with
    a feed-forward of their own change in proportion."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        width = _required(config, "d_model")
        nodes = self._nodes = dict(_feedforwards(config))
        if not nodes:
            raise CannotResizeError("its feed-forward layers have no multiple, or it has none")
        first = next(iter(nodes.values()))
        self._first = float(first["multiple"])
        # A gated layer's inner width is two thirds of what its multiple says.
        self._step = WIDTH_UNIT / width * (1.5 if first.get("two_thirds") else 1.0)
        self.count = max(1, int(LARGEST_MULTIPLE / self._step))
        self.start = _clamped(round(self._first / self._step) - 1, self.count)

    def at(self, index: int) -> Setting:
        factor = (index + 1) * self._step / self._first
        return {f"{path}.multiple": round(float(node["multiple"]) * factor, 4) for path, node in self._nodes.items()}


class StepsAxis(SizeAxis):
    """The length of the run."""

    def __init__(self, config: Mapping[str, object]) -> None:
        self.count = LARGEST_RUN
        self.start = _clamped(int(RunConfig(config).max_steps) - 1, self.count)

    def at(self, index: int) -> Setting:
        return {"trainer.max_steps": index + 1}


def axis_of(move: SizeAxisName, config: Mapping[str, object]) -> SizeAxis:
    """The dial as it is for this configuration; raises CannotResizeError."""
    if move in ("width", "head_size"):
        return WidthAxis(config, keeps="size" if move == "width" else "number")
    if move == "depth":
        return DepthAxis(config)
    return InnerWidthAxis(config) if move == "feedforward" else StepsAxis(config)


def with_setting(config: Mapping[str, Any], setting: Setting) -> dict[str, Any]:
    """Return the configuration with these fields; nothing is shared that changes."""
    changed = dict(config)
    for path, value in setting.items():
        node = changed
        *parents, name = path.split(".")
        for key in parents:
            node[key] = dict(node[key])
            node = node[key]
        node[name] = value
    return changed


def _required(config: Mapping[str, object], name: str) -> int:
    value = RunConfig(config).model.get(name)
    if value is None or not _takes(config, name):
        raise CannotResizeError(f"it has no model.{name}")
    return int(value)


def _takes(config: Mapping[str, object], name: str) -> bool:
    return any(item.name == name for item in arguments(RunConfig(config).model_target) or ())


def _feedforwards(config: Node) -> Iterator[tuple[str, Node]]:
    """Yield the feed-forwards of the layers that have a multiple, by the field in which each stands."""
    for side in ConfigView(config).sides():
        node = side.nodes.get("feedforward", {})
        if "multiple" in node:
            yield side.paths["feedforward"], node


def _pattern_lengths(config: Node) -> list[int]:
    """Return the number of layers in each pattern in force, after which it starts again."""
    view = ConfigView(config)
    fields = [view.fields_of(side.path) for side in view.sides()]
    patterns = [view.at(own.get(pattern.field)) for own in fields for pattern in PATTERNS]
    return [len(pattern) for pattern in patterns if pattern]


def _clamped(index: int, count: int) -> int:
    return min(max(index, 0), count - 1)


def overrides_of(setting: Setting) -> tuple[str, ...]:
    """Return the overrides as a user would write them."""
    return tuple(f"{path}={value}" for path, value in setting.items())
