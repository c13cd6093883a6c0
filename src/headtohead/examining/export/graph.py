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
    return {name: limit if limit is not None else told.get(name) for name, limit in found.items()}


def shapes(most: Mapping[str, int | None]) -> list[Shape]:
    """What an artefact is tried on: other rows and lengths than those it was made with."""
    longest, target = (most.get(name) or _USUAL for name in ("tokens", "decoder_tokens"))
    return [Shape(1, max(2, longest // 3), max(2, target // 3)), Shape(2, longest, target), Shape(5, 2, 2)]


def traced(model: Architecture, most: Mapping[str, int | None]) -> ExportedProgram:
    """Raises ConfigurationError where what is computed depends on the numbers, or on how many there are."""
    longest, target = (most.get(name) or _USUAL for name in ("tokens", "decoder_tokens"))
    inputs = Shape(3, max(2, longest - 1), max(2, target - 1)).inputs(model)
    batch = Dim("batch", min=1)
    dynamic = tuple(
        {0: batch, 1: Dim(f"{name}_length", min=1, max=most.get(name))} if name in _STACKS else {0: batch}
        for name in inputs
    )
    try:
        with torch.no_grad(), quietly():
            program = torch.export.export(
                ByPlace(model, list(inputs)), tuple(inputs.values()), dynamic_shapes=(dynamic,), strict=False
            )
    except Exception as error:
        raise ConfigurationError(
            f"this model cannot be exported as a graph with open batch and length ({_first_line(error)}): what one of "
            "its parts does depends on how many tokens there are, or on their values; use --to safetensors, or a run "
            "whose mixers do not (softmax_attention)"
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


def _first_line(error: Exception) -> str:
    lines = [line.strip(" -") for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if "specialized" in line or "data-dependent" in line or "not allowed" in line]
    return (told or lines or [type(error).__name__])[0][:200].rstrip(".:")
