"""Which part of a model an exporter could not take: the one with the operation it lacks, or where tracing stopped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from headtohead.architectures.contracts import Architecture
from headtohead.building.choices import choices, groups
from headtohead.components.contracts import Component


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
    found = None
    for module in _at_work(error):
        found = _name(model, paths.get(id(module), "")) or found
    return found


@contextmanager
def fixing(model: Architecture) -> Iterator[list[str]]:
    """While the model is traced, note the first part after which a length that was left open may be some only."""
    found: list[str] = []

    def look(path: str, module: nn.Module, given: tuple[object, ...], output: object) -> None:
        del module, output  # tracing may call a copy of the module, with this hook
        sizes = [size for tensor in given if isinstance(tensor, Tensor) for size in tensor.shape]
        if not found and any(_is_tied_down(size) for size in sizes):
            found.extend(filter(None, [_name(model, path)]))

    hooks = [
        module.register_forward_hook(partial(look, path))
        for path, module in model.named_modules()
        if isinstance(module, Component)
    ]
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()


def _is_tied_down(size: int | torch.SymInt) -> bool:
    """Whether an open size has become a number, or tracing has made conditions for it."""
    return isinstance(size, torch.SymInt) and (size.node.maybe_as_int() is not None or bool(size.node.shape_env.guards))


def _at_work(error: BaseException | None) -> Iterator[nn.Module]:
    """The modules whose methods an error passed, from the outermost to the innermost, its causes' last."""
    while error is not None:
        frame = error.__traceback__
        while frame is not None:
            module = frame.tb_frame.f_locals.get("self")
            if isinstance(module, nn.Module):
                yield module
            frame = frame.tb_next
        error = error.__cause__ or error.__context__


def _name(model: Architecture, path: str) -> str | None:
    """Where a component stands, and which choice it is: stack.blocks.0.mixer (model/mixer=mlstm)."""
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
