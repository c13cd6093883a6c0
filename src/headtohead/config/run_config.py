"""The shape of a composed configuration, known here: each field by its path, with the type that it was checked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

Value = TypeVar("Value")
Node = Mapping[str, Any]
"""The content of a group's choice: the arguments of the class that its `_target_` names."""


class Field(Generic[Value]):
    """A field of a run's configuration, `trainer.max_steps`. One that may be left out is None where it is."""

    def __init__(self, path: str, *, required: bool = True) -> None:
        self.path, self.required = path, required

    def __get__(self, config: RunConfig, owner: type[RunConfig]) -> Value:
        value: object = config.values
        for key in self.path.split("."):
            node = cast(Mapping[str, object], value or {})
            value = node[key] if self.required else node.get(key)
        return cast(Value, value)


class OptionalField(Field[Value | None]):
    """A field that a node may leave out: not every class of its group has it. The node itself must be there."""

    def __get__(self, config: RunConfig, owner: type[RunConfig]) -> Value | None:
        path, _, name = self.path.rpartition(".")
        node = Field[Node](path).__get__(config, owner)
        return cast(Value | None, node.get(name))


@dataclass(frozen=True)
class RunConfig:
    """A typed view of a composed and checked configuration; the values are those of the mapping."""

    values: Mapping[str, object]

    seed = Field[int]("seed")
    name = Field[str]("name")
    group = Field[str]("group")
    tags = Field[list[str]]("tags")
    notes = Field[str | None]("notes")
    output_dir = Field[str]("output_dir")
    init_from = Field[str | None]("init_from")
    resume_from = Field[str | None]("resume_from")
    choices = Field[Mapping[str, str]]("choices")

    task = Field[Node]("task")
    data = Field[Node]("data")
    model = Field[Node]("model")
    optimizer = Field[Node]("optimizer")
    schedule = Field[Node]("schedule")
    finetuning = Field[Node]("finetuning")
    trainer = Field[Node]("trainer")
    probe = Field[Node]("probe")
    tracking = Field[Node]("tracking")

    task_target = Field[str]("task._target_")
    data_target = Field[str]("data._target_")
    model_target = Field[str]("model._target_")
    optimizer_target = Field[str]("optimizer._target_")
    vocab_size = Field[int]("model.vocab_size")
    max_length = OptionalField[int]("model.max_length")
    num_classes = OptionalField[int]("model.num_classes")
    num_heads = OptionalField[int]("model.num_heads")
    num_layers = OptionalField[int]("model.num_layers")
    context_length = OptionalField[int]("data.context_length")
    learning_rate = OptionalField[object]("optimizer.lr")
    precision = OptionalField[str]("precision.name")

    max_steps = Field[int]("trainer.max_steps")
    validate_every = Field[int]("trainer.validate_every")
    log_every = Field[int]("trainer.log_every")
    patience = Field[int | None]("trainer.patience", required=False)
    keep_checkpoints = Field[str]("trainer.keep_checkpoints")
    devices = Field[int]("trainer.devices")
    num_nodes = Field[int]("trainer.num_nodes")
    accelerator = Field[str | None]("trainer.accelerator", required=False)
    threads = Field[int | None]("trainer.threads", required=False)
    compiles = Field[bool | None]("trainer.compile", required=False)
    train_rows = Field[int | None]("trainer.train_rows", required=False)
    gradient_clip = OptionalField[float]("trainer.gradient_clip")
    weight_averaging = Field[float | None]("trainer.weight_averaging", required=False)
