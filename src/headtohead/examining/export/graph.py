"""A model as a graph of operations, batch and lengths left open (torch.export)."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from headtohead.architectures.contracts import Architecture, InputSize
from headtohead.building.errors import ConfigurationError
from headtohead.components.stack import Stack
from headtohead.examining.export.blaming import fixing, part_in
from headtohead.probing.undisturbed import moved

CPU = torch.device("cpu")
_STACKS = {"tokens": ("stack", "encoder"), "decoder_tokens": ("decoder",)}
"""Which parts of a model read which input."""
_USUAL = 32
"""Tokens of the longest rows that are tried, where nothing says how many a model takes."""


class ByPlace(nn.Module):
    """The model with its inputs in a row; other programs know no names."""

    def __init__(self, model: Architecture, names: Sequence[str]) -> None:
        super().__init__()
        self.model, self.names = model, tuple(names)

    def forward(self, *inputs: Tensor) -> Tensor:
        y: Tensor = self.model(**dict(zip(self.names, inputs, strict=True)))
        return y


@dataclass(frozen=True)
class Shape:
    """Of a batch: rows, tokens, tokens of the target; a model takes what it has inputs for."""

    batch: int
    length: int
    target: int

    def inputs(self, model: Architecture) -> dict[str, Tensor]:
        generator_state = torch.get_rng_state()
        torch.manual_seed(self.batch + self.length)
        try:
            made = model.example_inputs(InputSize(self.length, self.target), self.batch, CPU)
        finally:
            torch.set_rng_state(generator_state)
        return moved(made, model)


def limits(model: Architecture, told: Mapping[str, int | None]) -> dict[str, int | None]:
    """The most tokens of each input: what has positions; else None."""
    children = dict(model.named_children())
    found: dict[str, int | None] = {}
    for name, parts in _STACKS.items():
        stacks = [part for part in map(children.get, parts) if isinstance(part, Stack)]
        tables = [stack.position.max_length for stack in stacks]
        found[name] = next((limit for limit in tables if limit is not None), None)
    if model.unreadable(InputSize(2, 2)) is None:  # rows of one token were the data's wish
        told = {name: None if longest == 1 else longest for name, longest in told.items()}
    return {name: limit if limit is not None else told.get(name) for name, limit in found.items()}


def shapes(most: Mapping[str, int | None]) -> list[Shape]:
    """What an artefact is tried on: other rows and lengths than those it was made with."""
    longest, target = (most.get(name) or _USUAL for name in ("tokens", "decoder_tokens"))
    some = Shape(1, _length(longest // 3, longest), _length(target // 3, target))
    return [some, Shape(2, longest, target), Shape(5, _length(2, longest), _length(2, target))]


def _length(length: int, longest: int) -> int:
    """Two tokens at least, where the model reads as many: of a single one a graph would say that it is always one."""
    return min(longest, max(2, length))


def traced(model: Architecture, most: Mapping[str, int | None]) -> ExportedProgram:
    """Raises ConfigurationError where what is computed depends on the numbers, or on how many there are."""
    longest, target = (most.get(name) or _USUAL for name in ("tokens", "decoder_tokens"))
    if 1 in (longest, target):
        raise ConfigurationError(
            "this model has positions for rows of one token, of which no graph with open lengths can be made: use --to "
            "safetensors, or train with longer rows"
        )
    inputs = Shape(3, _length(longest - 1, longest), _length(target - 1, target)).inputs(model)
    batch = Dim("batch", min=1)
    dynamic = tuple(
        {0: batch, 1: Dim(f"{name}_length", min=1, max=most.get(name))} if name in _STACKS else {0: batch}
        for name in inputs
    )
    try:
        with torch.no_grad(), quietly(), fixing(model) as fixed:
            program = torch.export.export(
                ByPlace(model, list(inputs)), tuple(inputs.values()), dynamic_shapes=(dynamic,), strict=False
            )
    except Exception as error:
        part = part_in(error, model) or next(iter(fixed), "one of its parts")
        raise ConfigurationError(
            f"this model cannot be exported as a graph with open batch and length, since what {part} does depends on "
            "how many tokens there are, or on their values; use --to safetensors, or a run with another choice there "
            "(softmax_attention)"
        ) from error
    return program


@contextmanager
def quietly() -> Iterator[None]:
    """The exporters warn about themselves, and about packages that are not asked for."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
