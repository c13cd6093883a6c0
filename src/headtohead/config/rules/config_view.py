"""A configuration as the rules of compatibility see it: choices by name, stacks by side, capabilities by class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headtohead.config.run_config import Node
from headtohead.config.schema.source_code import arguments, class_value

STACK_SLOTS = ("mixer", "local", "position", "norm", "residual", "feedforward")
_EARLY = "early_feedforward"
_CAUSAL: dict[str, tuple[tuple[str, bool], ...]] = {
    "decoder_only": (("", True),),
    "encoder_only": (("", False),),
    "vision_transformer": (("", False),),
    "encoder_decoder": (("encoder", False), ("decoder", True)),
    "cnn": (("", False),),
    "resnet": (("", False),),
    "convnext": (("", False),),
    "swin": (("", False),),
    "recurrent_encoder_decoder": (("encoder", False), ("decoder", True)),
}
"""The stacks of each family: the key of its settings, and whether it is causal, unless model.bidirectional says no."""


@dataclass(frozen=True)
class StackSide:
    """One stack of a model: its direction, and the nodes in force (its own, else the shared ones); of a stack whose
    layers differ there is one for each of its mixers and feed-forwards."""

    path: str
    causal: bool
    nodes: Mapping[str, Node]
    paths: Mapping[str, str]
    """The field of the configuration in which each node stands: the side's own, else the one that all sides share."""
    groups: Mapping[str, str] = field(default_factory=dict)
    """The groups of nodes that some layers alone have, by slot."""

    def with_node(self, slot: str, node: Node, path: str) -> StackSide:
        """Return the side of the layers whose node of this slot stands at this path."""
        return replace(
            self,
            nodes={**self.nodes, slot: node},
            paths={**self.paths, slot: path},
            groups={**self.groups, slot: f"model/{slot}@{path}"},
        )

    def can(self, slot: str, name: str) -> Any:
        """Return a class variable of the class in this slot."""
        return class_value(self.nodes[slot].get("_target_", ""), name) if slot in self.nodes else None


class ConfigView:
    """Read-only questions about one configuration."""

    def __init__(self, config: Node) -> None:
        self.config = config
        self.model: Node = config["model"]
        self.task: Node = config["task"]
        self.data: Node = config["data"]
        self.trainer: Node = config["trainer"]

    def chosen(self, group: str) -> str:
        """The choice as one writes it on the command line: "model/position=rotary"."""
        choice = (self.config.get("choices") or {}).get(group)
        node: Any = self.config
        for key in group.partition("@")[0].split("/"):
            node = node.get(key, {})
        return f"{group}={choice or str(node.get('_target_', '')).rpartition('.')[2]}"

    def data_nodes(self) -> Iterator[tuple[str, str, Node]]:
        """Yield the path of the data, the choice as one writes it, and its node; then those that it is made of."""

        def below(path: str, node: Node) -> Iterator[tuple[str, str, Node]]:
            yield path, self.chosen("data" if path == "data" else f"data@{path}"), node
            parts = {"of": node.get("of"), **{f"sources.{name}": part for name, part in _mapping(node, "sources")}}
            for name, part in parts.items():
                if isinstance(part, Mapping) and "_target_" in part:
                    yield from below(f"{path}.{name}", part)

        yield from below("data", self.data)

    def chosen_of(self, side: StackSide, slot: str) -> str:
        """Return how this side's choice was made: its own, else the one that all sides share."""
        if slot in side.groups:
            return self.chosen(side.groups[slot])
        own = f"model/{slot}@{side.path}.{slot}"
        has_own = side.paths[slot] == f"{side.path}.{slot}" and own in (self.config.get("choices") or {})
        return self.chosen(own if has_own else f"model/{slot}")

    def depth(self, side: StackSide) -> int | None:
        """Return how many layers a stack has: its own number, else the one that all sides share."""
        own = self.model if side.path == "model" else self.model.get(side.path.rpartition(".")[2]) or {}
        return own.get("num_layers") or self.model.get("num_layers")

    @property
    def trained_by_steps(self) -> bool:
        """Return whether the model learns step by step; if not, trainer.max_steps says nothing about a run's cost."""
        return class_value(self.model["_target_"], "trained_by_steps") is not False

    def task_value(self, name: str) -> Any:
        return class_value(self.task["_target_"], name)

    @property
    def data_kinds(self) -> tuple[str, ...]:
        """Return the kinds of data that the task reads, with those that it reads without their labels on request."""
        more = self.task_value("kinds_without_labels") if self.reads_no_labels else None
        return (*(self.task_value("data_kinds") or ()), *(more or ()))

    @property
    def reads_no_labels(self) -> bool:
        """Return whether labelled texts are read as texts."""
        return bool(self.task.get("without_labels"))

    def without_labels_for(self, kind: str) -> str:
        """Return the field by which the task reads such data all the same; empty where there is none."""
        if kind not in (self.task_value("kinds_without_labels") or ()):
            return ""
        return ", or read the texts without their labels, task.without_labels=true"

    def model_value(self, name: str) -> Any:
        return class_value(self.model["_target_"], name)

    def takes(self, name: str) -> bool:
        """Return whether the model's constructor has this argument."""
        return any(item.name == name for item in arguments(self.model["_target_"]) or ())

    def sides(self) -> Iterator[StackSide]:
        for key, causal in _CAUSAL.get(self.model_value("family"), ()):
            own = self.model.get(key) or {}
            causal = causal and not self.model.get("bidirectional")
            nodes = {slot: own.get(slot) or self.model.get(slot) for slot in STACK_SLOTS}
            path = f"model.{key}" if key else "model"
            present = {slot: node for slot, node in nodes.items() if node}
            paths = {slot: f"{path if own.get(slot) else 'model'}.{slot}" for slot in STACK_SLOTS}
            side = StackSide(path, causal, present, paths)
            pattern = own.get("pattern") or (None if own.get("mixer") else self.model.get("pattern"))
            mixers = self.model.get("mixers") or {}
            with_mixers = [
                side.with_node("mixer", mixers.get(name, {}), f"model.mixers.{name}")
                for name in dict.fromkeys(pattern or ())
            ]
            early = 0 if own.get("feedforward") else self.model.get("num_early_layers") or 0
            for one in with_mixers or [side]:
                if early < (self.depth(side) or early + 1):
                    yield one
                if early:
                    yield one.with_node("feedforward", self.model.get(_EARLY) or {}, f"model.{_EARLY}")


def _mapping(node: Node, name: str) -> Iterator[tuple[str, object]]:
    value = node.get(name)
    yield from value.items() if isinstance(value, Mapping) else ()
