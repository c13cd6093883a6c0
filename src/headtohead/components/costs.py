"""Costs that a component declares: parameters, FLOPs of products, activations saved for the backward pass, and the size
of its decoding state."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Protocol, runtime_checkable

from torch import nn


@runtime_checkable
class ActiveEncoding(Protocol):
    """The position encoding, as far as the costs of a mixer depend on it."""

    @property
    def rotates(self) -> bool:
        """Return whether it rotates queries and keys."""

    @property
    def bias_learns(self) -> bool:
        """Return whether the bias has a gradient."""

    def bytes_of_bias(self, query: CostContext, num_queries: int, num_pairs: int) -> int:
        """Return what autograd saves to compute the bias for so many queries and pairs."""


@dataclass(frozen=True)
class CostContext:
    """The circumstances of a cost: one sequence of `length` tokens, attending to `memory_length` others."""

    length: int
    memory_length: int = 0
    bytes_per_element: int = 4
    causal: bool = False
    """Whether a token knows of those before it alone; set by the stack."""
    device: str = "cpu"
    """The type of the device that computes, since kernels differ in what they keep."""
    biased_heads: int = 0
    """The number of heads that the position encoding biases; set by the stack, with the encoding."""
    encoding: ActiveEncoding | None = None

    @property
    def explicit_attention(self) -> bool:
        """Return whether attention makes its weights: of a bias that learns a CPU's fused kernel has no gradient."""
        return self.device == "cpu" and self.encoding is not None and self.encoding.bias_learns

    @property
    def bytes_per_biased_pair(self) -> int:
        """Return what a fused kernel saves of the biases of one pair; explicit attention saves its weights instead."""
        return 0 if self.explicit_attention else self.biased_heads * self.bytes_per_element

    def bytes_of_bias(self, num_queries: int, num_pairs: int) -> int:
        """Return what autograd saves to compute the biases."""
        return 0 if self.encoding is None else self.encoding.bytes_of_bias(self, num_queries, num_pairs)


@dataclass(frozen=True)
class Costs:
    """The costs of one component for one sequence; one multiply-add is two FLOPs. Costs add up.

    `forward_flops` and `training_flops` hold matrix products and convolutions only, causal-exact; elementwise work is
    counted, not declared. `training_flops` is forward plus backward, without recomputation. `activation_bytes` is what
    autograd saves for the backward pass of one sequence. `state_elements` is what decoding must carry after `length`
    tokens.
    """

    parameters: int = 0
    active_parameters: int = 0
    forward_flops: int = 0
    training_flops: int = 0
    state_elements: int = 0
    activation_bytes: int = 0

    @classmethod
    def of(
        cls, module: nn.Module, *, forward_flops: int = 0, state_elements: int = 0, activation_bytes: int = 0
    ) -> Costs:
        """Return the costs of a trained module: all its parameters are active, and the backward pass costs twice the
        forward."""
        parameters = sum(parameter.numel() for parameter in module.parameters())
        return cls(parameters, parameters, forward_flops, 3 * forward_flops, state_elements, activation_bytes)

    def passed(self, times: int) -> Costs:
        """Return the costs of passing the component so many times: its parameters are there once."""
        once = {name: getattr(self, name) for name in ("parameters", "active_parameters")}
        return Costs(**once, **{f.name: times * getattr(self, f.name) for f in fields(self) if f.name not in once})

    def __add__(self, other: Costs) -> Costs:
        return Costs(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))
