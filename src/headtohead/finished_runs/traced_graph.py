"""A model as a graph of operations, batch and lengths left open (torch.export)."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from headtohead.architectures.architecture import Architecture, InputSize
from headtohead.components.component import Component
from headtohead.components.stack import Stack
from headtohead.config.compose.choices import choices, groups
from headtohead.config.errors import ConfigurationError
from headtohead.interpretability.recorded_attention import on_device_of

CPU = torch.device("cpu")
_STACKS = {"tokens": ("stack", "encoder"), "decoder_tokens": ("decoder",)}
"""The parts of a model that read each input."""
_USUAL = 32
"""Tokens of the longest rows that are tried, where nothing says how many a model takes."""


class PositionalInputs(nn.Module):
    """The model with its inputs in a row; other programs know no names."""

    def __init__(self, model: Architecture, names: Sequence[str]) -> None:
        super().__init__()
        self.model, self.names = model, tuple(names)

    def forward(self, *inputs: Tensor) -> Tensor:
        y: Tensor = self.model(**dict(zip(self.names, inputs, strict=True)))
        return y


@dataclass(frozen=True)
class InputShape:
    """An input shape of a batch has rows, tokens and tokens of the target; a model takes what it has inputs for."""

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
        return on_device_of(made, model)


def limits(model: Architecture, data: Mapping[str, int | None]) -> dict[str, int | None]:
    """Return the most tokens of each input: what has positions; else None."""
    children = dict(model.named_children())
    most: dict[str, int | None] = {}
    for name, parts in _STACKS.items():
        stacks = [part for part in map(children.get, parts) if isinstance(part, Stack)]
        tables = [stack.position.max_length for stack in stacks]
        most[name] = next((limit for limit in tables if limit is not None), None)
    if model.length_error(InputSize(2, 2)) is None:  # rows of one token were the data's wish
        data = {name: None if longest == 1 else longest for name, longest in data.items()}
    return {name: limit if limit is not None else data.get(name) for name, limit in most.items()}


def shapes(most: Mapping[str, int | None]) -> list[InputShape]:
    """Return the shapes on which an artefact is tested: other rows and lengths than those it was made with."""
    longest, target = (most.get(name) or _USUAL for name in ("tokens", "decoder_tokens"))
    some = InputShape(1, _length(longest // 3, longest), _length(target // 3, target))
    return [some, InputShape(2, longest, target), InputShape(5, _length(2, longest), _length(2, target))]


def _length(length: int, longest: int) -> int:
    """Return two tokens at least, where the model reads as many: of a single one a graph would say that it is always
    one."""
    return min(longest, max(2, length))


def traced(model: Architecture, most: Mapping[str, int | None]) -> ExportedProgram:
    """Raises ConfigurationError where what is computed depends on the numbers, or on how many there are."""
    longest, target = (most.get(name) or _USUAL for name in ("tokens", "decoder_tokens"))
    if 1 in (longest, target):
        raise ConfigurationError(
            "this model has positions for rows of one token, so its graph cannot have a dynamic length: use --to "
            "safetensors, or train with longer rows"
        )
    inputs = InputShape(3, _length(longest - 1, longest), _length(target - 1, target)).inputs(model)
    batch = Dim("batch", min=1)
    dynamic = tuple(
        {0: batch, 1: Dim(f"{name}_length", min=1, max=most.get(name))} if name in _STACKS else {0: batch}
        for name in inputs
    )
    try:
        with torch.no_grad(), quietly(), fixing(model) as fixed:
            program = torch.export.export(
                PositionalInputs(model, list(inputs)), tuple(inputs.values()), dynamic_shapes=(dynamic,), strict=False
            )
    except Exception as error:
        part = part_in(error, model) or next(iter(fixed), "one of its parts")
        raise ConfigurationError(
            f"this model cannot be exported as a graph with dynamic batch and length, since {part} depends on the "
            "number of tokens, or on their values; use --to safetensors, or a run with another choice there "
            "(softmax_attention)"
        ) from error
    return program


@contextmanager
def quietly() -> Iterator[None]:
    """Silence the exporters' warnings about themselves, and about packages that are not needed."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def part_with(operation: str, program: ExportedProgram, model: Architecture) -> str | None:
    """Name the part whose code calls an operation such as aten.cummax; None where none of the model's parts does."""
    for node in program.graph.nodes:
        if str(node.target).startswith(f"{operation}.") or str(node.target) == operation:
            paths = [path for path, _ in (node.meta.get("nn_module_stack") or {}).values()]
            for path in reversed(paths):
                if (name := _name(model, path.removeprefix("model."))) is not None:
                    return name
    return None


def part_in(error: BaseException, model: Architecture) -> str | None:
    """Name the innermost part of the model that was at work when the error was raised."""
    paths = {id(module): path for path, module in model.named_modules()}
    result = None
    for module in _at_work(error):
        result = _name(model, paths.get(id(module), "")) or result
    return result


@contextmanager
def fixing(model: Architecture) -> Iterator[list[str]]:
    """Record, while the model is traced, the first part after which a dynamic length is restricted."""
    names: list[str] = []

    def look(path: str, module: nn.Module, inputs: tuple[object, ...], output: object) -> None:
        del module, output  # tracing may call a copy of the module, with this hook
        sizes = [size for tensor in inputs if isinstance(tensor, Tensor) for size in tensor.shape]
        if not names and any(_is_tied_down(size) for size in sizes):
            names.extend(filter(None, [_name(model, path)]))

    hooks = [
        module.register_forward_hook(partial(look, path))
        for path, module in model.named_modules()
        if isinstance(module, Component)
    ]
    try:
        yield names
    finally:
        for hook in hooks:
            hook.remove()


def _is_tied_down(size: int | torch.SymInt) -> bool:
    """Return whether a dynamic size has become a number, or tracing has made conditions for it."""
    return isinstance(size, torch.SymInt) and (size.node.maybe_as_int() is not None or bool(size.node.shape_env.guards))


def _at_work(error: BaseException | None) -> Iterator[nn.Module]:
    """Yield the modules whose methods an error passed, from the outermost to the innermost, its causes' last."""
    while error is not None:
        frame = error.__traceback__
        while frame is not None:
            module = frame.tb_frame.f_locals.get("self")
            if isinstance(module, nn.Module):
                yield module
            frame = frame.tb_next
        error = error.__cause__ or error.__context__


def _name(model: Architecture, path: str) -> str | None:
    """Return the path of a component and its choice: stack.blocks.0.mixer (model/mixer=mlstm)."""
    module = dict(model.named_modules()).get(path)
    if not isinstance(module, Component) or not path:
        return None
    kind = type(module)
    target = f"{kind.__module__}.{kind.__qualname__}"
    made = [
        f"{group}={choice.name}"
        for group in groups()
        if group.startswith("model/")
        for choice in choices(group)
        if choice.target == target
    ]
    return f"{path} ({made[0] if len(made) == 1 else kind.__name__})"
