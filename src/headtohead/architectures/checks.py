"""What every architecture refuses before it is built."""

from __future__ import annotations


def check_sizes(d_model: int, num_layers: int, num_heads: int) -> None:
    for name, value in (("d_model", d_model), ("num_layers", num_layers), ("num_heads", num_heads)):
        if value < 1:
            raise ValueError(f"model.{name}={value} must be at least 1.")


def required(name: str, value: int | None, what: str) -> int:
    """A number that the data or the user must give."""
    if value is None:
        raise ValueError(f"model.{name} is missing: {what}.")
    if value < 1:
        raise ValueError(f"model.{name}={value} must be at least 1.")
    return value
