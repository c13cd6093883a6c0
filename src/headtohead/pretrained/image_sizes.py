"""Sizes of images and patches as a config.json writes them: one number for both sides, or two."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from headtohead.pretrained.model_family import Hub, InexpressibleError


def square_side(size: int | Sequence[int]) -> int:
    """Return the side of a square patch."""
    height, width = height_and_width(size)
    if height != width:
        raise InexpressibleError(
            f"its config.json has patch_size={size}, and patches of ours are square: choose another"
        )
    return height


def height_and_width(size: int | Sequence[int]) -> tuple[int, int]:
    """Return height and width."""
    height, width = (size, size) if isinstance(size, int | float) else size
    if any(type(side) is not int or side < 1 for side in (height, width)):
        raise InexpressibleError(
            f"its config.json has a size of {size}, which must be whole numbers above 0: correct it"
        )
    return height, width


def number_of_channels(hub: Hub) -> int:
    """Return the channels of the images; a file may hold null, which means nothing here."""
    channels: int | None = hub["num_channels"]
    if channels is None:
        raise InexpressibleError("its config.json has num_channels=null, which must be a whole number: correct it")
    return channels


def by_stage(hub: Hub, field: str, num_stages: int) -> list[int]:
    """Return a field that holds a whole number above 0 for each stage."""
    numbers = list(hub[field])
    if len(numbers) != num_stages or any(type(number) is not int or number < 1 for number in numbers):
        raise InexpressibleError(
            f"its config.json has {field}={numbers}, which must be a whole number above 0 for each of {num_stages} "
            "stages: correct it"
        )
    return numbers


def check_doubling(field: str, numbers: Sequence[int]) -> None:
    """Refuse numbers of which one is not twice the one before it."""
    if any(after != 2 * before for before, after in pairwise(numbers)):
        raise InexpressibleError(
            f"its config.json has {field}={list(numbers)}, and ours double from stage to stage: choose another "
            "checkpoint"
        )
