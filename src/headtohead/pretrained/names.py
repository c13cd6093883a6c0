"""Words that the families share: activations, and fields that are spelt in one way or another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headtohead.components.feedforwards import inner_width
from headtohead.pretrained.family import InexpressibleError

_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_accurate": "gelu_tanh",
    "gelu_python_tanh": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "sigmoid": "sigmoid",
    "tanh": "tanh",
    "relu2": "squared_relu",
}


def our_activation(name: str) -> str:
    """The activation that the hub calls by this name."""
    if name not in _ACTIVATIONS:
        known = ", ".join(_ACTIVATIONS)
        raise InexpressibleError(f"its activation {name} is none of ours: choose a checkpoint with one of {known}")
    return _ACTIVATIONS[name]


def their_activation(name: str) -> str:
    """The hub's name of an activation of ours."""
    return next(theirs for theirs, ours in _ACTIVATIONS.items() if ours == name)


def flag(value: bool) -> str:
    """As an override says it."""
    return str(value).lower()


def multiple(inner: int, width: int) -> str:
    """The inner width of a feed-forward as the multiple that gives it."""
    return f"model.feedforward.multiple={inner / width}"


def feedforward_width(model: Mapping[str, Any]) -> int:
    """The inner width that a model's configuration asks for."""
    node = model["feedforward"]
    return inner_width(model["d_model"], node["multiple"], two_thirds=node["two_thirds"])
