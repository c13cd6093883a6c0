"""What every architecture refuses before it is built."""

from __future__ import annotations

from collections.abc import Sequence

from headtohead.errors import UsageError


def check_sizes(d_model: int, num_layers: int, num_heads: int, *, layers_field: str = "model.num_layers") -> None:
    """Raises ValueError by the field that holds the size; one side of a model may have a depth of its own."""
    for field, value in (("model.d_model", d_model), (layers_field, num_layers), ("model.num_heads", num_heads)):
        if value < 1:
            raise UsageError(f"{field}={value} must be at least 1.")


def required(name: str, value: int | None, what: str) -> int:
    """A number that the data or the user must give."""
    if value is None:
        raise UsageError(f"model.{name} is missing: {what}.")
    if value < 1:
        raise UsageError(f"model.{name}={value} must be at least 1.")
    return value


def checked_shape(image_shape: Sequence[int] | None) -> tuple[int, int, int]:
    if image_shape is None or len(image_shape) != 3:
        raise UsageError(
            f"model.image_shape={image_shape} must be channels, height and width: give data with images, or numbers."
        )
    channels, height, width = image_shape
    return channels, height, width
