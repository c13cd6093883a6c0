"""One vector per sequence: which of its tokens it is taken from, how it is transformed before the classifier, and the
head that makes it an embedding, to be compared with those of other texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headtohead.architectures.architecture import Head
from headtohead.components.costs import CostContext, Costs
from headtohead.components.feedforwards import ACTIVATIONS, KEEPS_OWN_OUTPUT, Activation
from headtohead.components.linear_maps import linear_costs
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


class TextVector(Head):
    """One vector per sequence, of which nothing is read: tasks compare it with others. A `pooler` transforms it here,
    as the projection of contrastive learning does (Gao et al. 2021, https://arxiv.org/abs/2104.08821), and no
    longer where texts are embedded."""

    def __init__(self, d_model: int, *, pooling: str, pooler: str = "none") -> None:
        super().__init__()
        self.pooling, self.d_model = known_pooling(pooling), d_model
        self.pooler = make_pooler(pooler, d_model)

    def forward(
        self,
        features: Float[Tensor, "B L D"],
        valid: Bool[Tensor, "B L"] | None = None,
        token_types: Int[Tensor, "B L"] | None = None,
    ) -> Float[Tensor, "B D"]:
        del token_types
        pooled = pool(features, valid, self.pooling)
        return pooled if self.pooler is None else self.pooler(pooled)

    def cost_rows(self, query: CostContext) -> Iterator[tuple[str, str, Costs]]:
        """Yield the costs once per sequence, however long."""
        if self.pooler is not None:
            once, width = replace(query, length=1), self.d_model
            saved = Costs(activation_bytes=width * query.bytes_per_element)  # what its activation reads or writes
            yield "head.pooler", "head", linear_costs(width, width, width * width + width, once) + saved
