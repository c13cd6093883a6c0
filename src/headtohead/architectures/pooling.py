"""One vector per sequence: which of its tokens it is taken from, and how it is transformed before the classifier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from headtohead.components.feedforwards import ACTIVATIONS, KEEPS_OWN_OUTPUT, Activation
from headtohead.errors import UsageError

Pooling = Literal["cls", "mean", "last"]
PoolerName = Literal["none", "tanh", "gelu", "gelu_tanh", "relu"]
_ACTIVATION_OF: dict[str, Activation] = {"tanh": "tanh", "gelu": "gelu", "gelu_tanh": "gelu_tanh", "relu": "relu"}


def pool(features: Float[Tensor, "B L D"], valid: Bool[Tensor, "B L"] | None, pooling: str) -> Float[Tensor, "B D"]:
    """Return one vector per sequence: `cls` is its first real token, `last` its last."""
    if valid is None:  # a copy of one row, since autograd would keep all of the features for a view into them
        return features.mean(1) if pooling == "mean" else features[:, 0 if pooling == "cls" else -1].clone()
    if pooling == "mean":
        return (features * valid.unsqueeze(-1)).sum(1) / valid.sum(1).clamp(min=1).unsqueeze(-1)
    real = valid.long()
    index = real.argmax(1) if pooling == "cls" else real.shape[1] - 1 - real.flip(1).argmax(1)
    return features[torch.arange(len(features), device=features.device), index]


def known_pooling(pooling: str) -> str:
    if pooling not in get_args(Pooling):
        raise UsageError(f"pooling={pooling!r} is unknown: choose one of {', '.join(get_args(Pooling))}.")
    return pooling


class Pooler(nn.Module):
    """act(W x + b) of the pooled vector, with tanh as in BERT (Devlin et al. 2019,
    https://arxiv.org/abs/1810.04805)."""

    act: Callable[[Tensor], Tensor]

    def __init__(self, d_model: int, activation: Activation) -> None:
        super().__init__()
        self.dense = nn.Linear(d_model, d_model)
        self.act = ACTIVATIONS[activation]
        self.saved_elements = 0 if activation in KEEPS_OWN_OUTPUT else d_model
        """The elements that autograd saves for one vector, besides the inputs of the dense layer and of the next
        one."""

    def forward(self, pooled: Float[Tensor, "B D"]) -> Float[Tensor, "B D"]:
        return self.act(self.dense(pooled))


def make_pooler(name: str, d_model: int) -> Pooler | None:
    """Build the layer that `pooler` names; None for `none`."""
    if name not in get_args(PoolerName):
        raise UsageError(f"pooler={name!r} is unknown: choose one of {', '.join(get_args(PoolerName))}.")
    return None if name == "none" else Pooler(d_model, _ACTIVATION_OF[name])
