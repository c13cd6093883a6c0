"""One layer of a perceptron."""

from __future__ import annotations

from dataclasses import replace

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from headtohead.components.contracts import Component, CostQuery, Costs
from headtohead.components.feedforwards import KEEPS_OWN_OUTPUT, Activation, activation_of
from headtohead.components.linears import InputLinear


class DenseLayer(Component):
    """act(W x + b)."""

    def __init__(
        self, num_inputs: int, num_outputs: int, *, activation: Activation, dropout: float, reads_images: bool = False
    ) -> None:
        super().__init__()
        self.linear = (InputLinear if reads_images else nn.Linear)(num_inputs, num_outputs)
        self.act = activation_of(activation)
        self.activation, self.dropout, self.reads_images = activation, dropout, reads_images

    def forward(self, x: Float[Tensor, "B E"]) -> Float[Tensor, "B D"]:
        return F.dropout(self.act(self.linear(x)), self.dropout, self.training)

    @property
    def leaves_output(self) -> bool:
        """Whether autograd keeps what comes out for this layer's sake; what reads it counts it."""
        return self.activation in KEEPS_OWN_OUTPUT and self.dropout == 0

    def costs(self, query: CostQuery) -> Costs:
        """Images need no gradient, so that backward costs one forward; dropout keeps its noise, and lets another tensor
        through than the activation keeps."""
        num_outputs, num_inputs = self.linear.weight.shape
        owns_output = self.activation in KEEPS_OWN_OUTPUT
        tensors = (0 if owns_output else 1) + (0 if self.dropout == 0 else 1 + owns_output)
        kept = num_inputs + tensors * num_outputs
        forward = 2 * num_inputs * num_outputs * query.length
        costs = Costs.of(self, forward_flops=forward, activation_bytes=kept * query.length * query.bytes_per_element)
        return replace(costs, training_flops=2 * forward) if self.reads_images else costs
