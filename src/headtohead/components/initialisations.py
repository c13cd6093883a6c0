"""How the parameters of a whole model start; each choice draws every parameter anew, from the global generator."""

from __future__ import annotations

import torch
from torch import nn

from headtohead.components.contracts import Component
from headtohead.components.linears import ResidualLinear
from headtohead.components.stack import Stack


@torch.no_grad()
def gpt2(model: nn.Module, *, std: float = 0.02) -> None:
    """Normal(0, std), residual projections divided by the root of their number in the stack."""
    for module in model.modules():
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=std)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, Component):
            module.reset_parameters()
    for stack in model.modules():
        if isinstance(stack, Stack):
            for module in stack.modules():
                if isinstance(module, ResidualLinear):
                    module.weight.div_((stack.num_layers * (3 if stack.has_cross else 2)) ** 0.5)
