"""Choose which layers learn, and how fast: some are frozen, and learning rates fall from the head to the embedding
(Howard and Ruder 2018, https://arxiv.org/abs/1801.06146)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import nn
from torch.optim import Optimizer

from headtohead.architectures.architecture import Architecture
from headtohead.components.block_parts import Norm
from headtohead.components.stack import Stack
from headtohead.errors import UsageError
from headtohead.ranges import Depth, Share

Freeze = Literal["nothing", "embedding", "body"]


@dataclass(frozen=True)
class Finetuning:
    """Fine-tuning assigns rates by depth: 0 is what comes before the first layer, then the layers, an encoder's before
    a decoder's, then the head. A table that is tied to the head counts as embedding."""

    freeze: Freeze | Depth = "nothing"
    """A number: the embedding and so many first layers; body: all but the head."""
    layer_decay: Share = 1.0
    """The learning rate of one depth over that of the next."""

    def apply(self, model: Architecture) -> None:
        """Freezes; raises ValueError where the model does not have what is to be frozen, or nothing else."""
        depths, frozen_up_to = depths_of(model), self._frozen_up_to(num_layers(model))
        if frozen_up_to < 0:
            return
        for parameter in model.parameters():
            if depths[id(parameter)] <= frozen_up_to:
                parameter.requires_grad_(False)
        if not any(parameter.requires_grad for parameter in model.parameters()):
            raise UsageError(
                f"finetuning.freeze={self.freeze} leaves nothing to train, since the head's weights are those of the "
                "embedding: set model.tie_weights=false, or freeze less"
            )
        for module in model.modules():
            if isinstance(module, Norm) and module.keeps_statistics and not _is_trainable(module):
                raise UsageError(
                    f"finetuning.freeze={self.freeze} cannot freeze model/norm=batch_norm, whose statistics keep "
                    "following the data: use another norm, or finetuning.freeze=nothing"
                )

    def scale_rates(self, optimizer: Optimizer, model: Architecture) -> None:
        """Every group of the optimizer is split by depth, each part with a learning rate of its own."""
        if self.layer_decay == 1.0:
            return
        depths, last = depths_of(model), num_layers(model) + 1
        groups = []
        for group in optimizer.param_groups:
            for depth in sorted({depths[id(parameter)] for parameter in group["params"]}):
                parameters = [parameter for parameter in group["params"] if depths[id(parameter)] == depth]
                rate = group["lr"] * self.layer_decay ** (last - depth)
                groups.append({**group, "params": parameters, "lr": rate})
        optimizer.param_groups[:] = groups

    def _frozen_up_to(self, layers: int) -> int:
        if isinstance(self.freeze, str):
            return {"nothing": -1, "embedding": 0, "body": layers}[self.freeze]
        if not 0 < self.freeze <= layers:
            raise UsageError(
                f"finetuning.freeze={self.freeze}: the model has {layers} layers, so give a number from 1 to {layers}, "
                "or nothing, embedding or body"
            )
        return self.freeze


def depths_of(model: Architecture) -> dict[int, int]:
    """Return the depth of every parameter, by its id."""
    depths: dict[int, int] = {}
    depth = 0
    for stack in _stacks(model):
        positions = list(stack.positions) if len(stack.positions) > 1 else []
        for layer, block in enumerate(stack.layers):
            depth += 1
            for module in (block, *positions[layer : layer + 1]):
                depths |= {id(parameter): depth for parameter in module.parameters()}
        if stack.final_norm is not None:
            depths |= {id(parameter): depth for parameter in stack.final_norm.parameters()}
    for name, parameter in model.named_parameters():  # what is tied goes by its first name
        depths.setdefault(id(parameter), depth + 1 if name.startswith("head.") else 0)
    return depths


def num_layers(model: Architecture) -> int:
    return sum(stack.num_layers for stack in _stacks(model))


def _stacks(model: Architecture) -> list[Stack]:
    """Return the stacks below the head, which may have one of its own."""
    return [
        module for name, module in model.named_modules() if isinstance(module, Stack) and not name.startswith("head.")
    ]


def _is_trainable(module: nn.Module) -> bool:
    return any(parameter.requires_grad for parameter in module.parameters())
