"""A configuration as the rules of compatibility see it: choices by name, stacks by side, capabilities by class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headtohead.architectures.head_names import HEADS
from headtohead.config.compose.layer_patterns import FEEDFORWARDS, MIXERS, PATTERNS, LayerPattern
from headtohead.config.run_config import Node
from headtohead.config.schema.source_code import arguments, class_value
from headtohead.config.schema.unread_arguments import is_unread

STACK_SLOTS = ("mixer", "local", "position", "norm", "residual", "feedforward")
_EARLY = "early_feedforward"
_WITH_HEADS = ("mixer", "local", "position")
"""The parts that are handed the number of heads."""
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

    def fields_of(self, path: str) -> dict[str, str]:
        """Return the fields from which a stack has its depth, its patterns and its early layers: its own where it has
        them, else those that all sides share; a part of its own takes the place of a shared pattern, and so do a
        feed-forward of its own and a pattern of feed-forwards of early layers."""
        own = {} if path == "model" else self.model.get(path.rpartition(".")[2]) or {}
        patterns = [one.field for one in PATTERNS if own.get(one.field) or not own.get(one.slot)]
        fields = {name: f"{path}.{name}" if own.get(name) else f"model.{name}" for name in ("num_layers", *patterns)}
        by_layer = self.at(fields.get(FEEDFORWARDS.field))
        early = () if own.get("feedforward") or by_layer else ("num_early_layers", "early_feedforward")
        return {**fields, **{name: f"model.{name}" for name in early}}

    def at(self, field: str | None) -> Any:
        """Return the value of a field; None where there is none."""
        node: object = self.config
        for name in field.split(".") if field else ():
            node = node.get(name) if isinstance(node, Mapping) else None
        return node if field else None

    @property
    def reads_heads(self) -> bool:
        """Return whether the number of heads matters to a part of the layers, or of the head, whose own layers have a
        width that goes by it."""
        return self._head_has_stack or self.layers_read_heads

    @property
    def layers_read_heads(self) -> bool:
        """Return whether the number of heads matters to a part of the model's own layers."""
        sides = list(self.sides())
        if not any("mixer" in side.nodes for side in sides):
            return True
        parts = [node for side in sides for slot in _WITH_HEADS if (node := side.nodes.get(slot))]
        parts += [cross] if (cross := self.model.get("cross")) else []
        return any(not is_unread(part.get("_target_", ""), "num_heads") for part in parts)

    def sides(self) -> Iterator[StackSide]:
        for key, causal in _CAUSAL.get(self.model_value("family"), ()):
            own = self.model.get(key) or {}
            causal = causal and not self.model.get("bidirectional")
            nodes = {slot: own.get(slot) or self.model.get(slot) for slot in STACK_SLOTS}
            path = f"model.{key}" if key else "model"
            present = {slot: node for slot, node in nodes.items() if node}
            paths = {slot: f"{path if own.get(slot) else 'model'}.{slot}" for slot in STACK_SLOTS}
            side = StackSide(path, causal, present, paths)
            early = 0 if own.get("feedforward") else self.model.get("num_early_layers") or 0
            for of_mixer in self._by_pattern(side, MIXERS, own) or [side]:
                if by_feedforward := self._by_pattern(of_mixer, FEEDFORWARDS, own):
                    yield from by_feedforward
                    continue
                if early < (self.depth(side) or early + 1):
                    yield of_mixer
                if early:
                    yield of_mixer.with_node("feedforward", self.model.get(_EARLY) or {}, f"model.{_EARLY}")

    @property
    def _head_has_stack(self) -> bool:
        return bool(class_value(HEADS.get(self.task_value("head"), ""), "has_stack"))

    def stacks(self) -> Iterator[StackSide]:
        """Yield the sides, then the stack of a head that has its own, of the shared parts in all layers."""
        yield from self.sides()
        if self._head_has_stack:
            nodes = {slot: node for slot in STACK_SLOTS if (node := self.model.get(slot))}
            yield StackSide("model", False, nodes, {slot: f"model.{slot}" for slot in STACK_SLOTS})

    def _by_pattern(self, side: StackSide, pattern: LayerPattern, own: Node) -> list[StackSide]:
        """Return the side once for each part that its pattern names; a part of its own puts the shared pattern out of
        force."""
        names = own.get(pattern.field) or (None if own.get(pattern.slot) else self.model.get(pattern.field))
        parts = self.model.get(pattern.parts) or {}
        return [
            side.with_node(pattern.slot, parts.get(name, {}), f"model.{pattern.parts}.{name}")
            for name in dict.fromkeys(names or ())
        ]


def _mapping(node: Node, name: str) -> Iterator[tuple[str, object]]:
    value = node.get(name)
    yield from value.items() if isinstance(value, Mapping) else ()
