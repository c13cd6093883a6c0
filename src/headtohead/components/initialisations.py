"""Initialisations redraw every parameter of a whole model, from the global generator.

Matrices and tables are drawn here. Parameters that a component holds itself (gains of norms, biases by distance) start
as the component's `reset_parameters` sets them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TypeVar

import torch
from torch import Tensor, nn

from headtohead.components.block import Block
from headtohead.components.component import Component
from headtohead.components.embeddings import ClassToken, SegmentEmbedding, TokenEmbedding
from headtohead.components.linear_maps import ResidualLinear, ScoreLinear
from headtohead.components.mixers.attention.softmax_attention import SoftmaxAttention
from headtohead.components.mixers.attention.softmax_cross_attention import SoftmaxCrossAttention
from headtohead.components.mixers.recurrent import torch_recurrence
from headtohead.components.stack import Stack
from headtohead.errors import UsageError
from headtohead.ranges import NotNegative, Positive

M = TypeVar("M", bound=nn.Module)
TABLES = (nn.Embedding, TokenEmbedding, SegmentEmbedding, ClassToken)
"""Modules whose `weight` lives in the space of tokens."""


@torch.no_grad()
def gpt2(model: nn.Module, *, std: NotNegative = 0.02) -> None:
    """Draw from Normal(0, std); matrices that end a branch are divided by the root of the number of branches, unless
    the residual scheme brings a scale of its own (Radford et al. 2019, https://github.com/openai/gpt-2)."""
    _redraw(model, lambda weight: nn.init.normal_(weight, std=std), lambda weight: nn.init.normal_(weight, std=std))
    for stack in _of_type(model, Stack):
        num_branches = stack.depth * (3 if stack.has_cross else 2)
        for block in stack.layers:
            if block.wiring.branch_gain == 1.0:
                for linear in _of_type(block, ResidualLinear):
                    linear.weight.div_(num_branches**0.5)
    _scale_branches(model)


@torch.no_grad()
def xavier(model: nn.Module, *, table_std: Positive | None = None) -> None:
    """Draw uniformly by fan-in and fan-out (Glorot and Bengio 2010, https://proceedings.mlr.press/v9/glorot10a.html);
    tables are normal with variance 1/D, unless their standard deviation is given."""
    _redraw(
        model,
        nn.init.xavier_uniform_,
        lambda weight: nn.init.normal_(weight, std=table_std or weight.shape[-1] ** -0.5),
    )
    _scale_branches(model)


@torch.no_grad()
def he(model: nn.Module) -> None:
    """Draw normally with variance 2/fan-in, which preserves the size of what passes through ReLUs (He et al. 2015,
    https://arxiv.org/abs/1502.01852); tables are normal with variance 1/D."""
    _redraw(
        model,
        lambda weight: nn.init.kaiming_normal_(weight, nonlinearity="relu"),
        lambda weight: nn.init.normal_(weight, std=weight.shape[-1] ** -0.5),
    )
    _scale_branches(model)


@torch.no_grad()
def t5(model: nn.Module) -> None:
    """Draw normally with variance 1/fan-in; queries such that scores have variance 1 whatever their scale; tables with
    variance 1 (Raffel et al. 2020, https://arxiv.org/abs/1910.10683). A table tied to the head has variance 1/D
    instead: the same logits as T5's division by sqrt(D)."""
    # By module, each once: a table that source and target share has one holder.
    holders = Counter(id(held) for module in model.modules() for held in module.parameters(recurse=False))

    def table(weight: Tensor) -> None:
        nn.init.normal_(weight, std=weight.shape[-1] ** -0.5 if holders[id(weight)] > 1 else 1.0)

    _redraw(model, lambda weight: nn.init.normal_(weight, std=weight[0].numel() ** -0.5), table)
    attentions: list[SoftmaxAttention | SoftmaxCrossAttention] = [
        *_of_type(model, SoftmaxAttention),
        *_of_type(model, SoftmaxCrossAttention),
    ]
    for mixer in attentions:
        mixer.query.weight.div_(mixer.scale * mixer.head_width**0.5)
    _scale_branches(model)


def _redraw(model: nn.Module, matrix: Callable[[Tensor], object], table: Callable[[Tensor], object]) -> None:
    """Draw every parameter once; one that its module cannot redraw is an error."""
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Conv1d | nn.Conv2d):
            matrix(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, TABLES):
            table(module.weight)
        elif isinstance(module, nn.RNNBase):
            torch_recurrence.start(module)
        elif isinstance(module, Component):
            module.reset_parameters()
            for weight in module.own_matrices():
                matrix(weight)
        elif held := [name for name, _ in module.named_parameters(recurse=False)]:
            raise UsageError(
                f"no initialisation knows how {type(module).__name__} starts ({', '.join(held)}): make it a Component "
                "with reset_parameters"
            )


def _scale_branches(model: nn.Module) -> None:
    """Apply the residual scheme's gain to all matrices of its branches but queries and keys."""
    for block in _of_type(model, Block):
        if block.wiring.branch_gain != 1.0:
            for linear in _of_type(block, nn.Linear):
                if not isinstance(linear, ScoreLinear):
                    linear.weight.mul_(block.wiring.branch_gain)


def _of_type(model: nn.Module, kind: type[M]) -> Iterator[M]:
    for module in model.modules():
        if isinstance(module, kind):
            yield module
