"""Looking at a model without leaving a trace: its mode, its generators and its compiled graphs stay as they were."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import Tensor, nn

from headtohead.architectures.contracts import Architecture
from headtohead.errors import UsageError


def architecture_of(model: nn.Module) -> Architecture:
    """An architecture, also where something wraps it (DDP, torch.compile)."""
    found = next((part for part in model.modules() if isinstance(part, Architecture)), None)
    if found is None:
        raise UsageError(f"{type(model).__name__} holds no Architecture: probe a model that Head to Head has built")
    return found


def moved(inputs: Mapping[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """On the model's device, images in its number format."""
    like = next(model.parameters())
    return {
        name: tensor.to(like.device, like.dtype if tensor.is_floating_point() else None)
        for name, tensor in inputs.items()
    }


@contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """Evaluation mode and a generator to spend; afterwards all is as before."""
    training = [part for part in model.modules() if part.training]
    devices = {parameter.device for parameter in model.parameters() if parameter.device.type == "cuda"}
    with torch.random.fork_rng(devices=list(devices)):
        model.eval()
        try:
            yield
        finally:
            for part in training:
                part.training = True


def uncompiled() -> AbstractContextManager[object]:
    """A compiled graph calls no hooks; where dynamo was never imported, nothing is compiled (importing it is slow)."""
    return torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else nullcontext()
