"""Drawn commands give the same numbers however their steps are divided, computed, stopped, resumed or read again."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
import torch

from metamorphic.attempts import LONG_WAYS, TRAIN, WAYS, Attempt, attempt, message
from metamorphic.drawing import drawn_command

MOST_REFUSED = 200
WAYS_OF_EACH = 2


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def attempted(rng: random.Random, ways: list[str]) -> Attempt:
    """Attempt commands up to the first that is not refused."""
    chosen = {name: {**WAYS, **LONG_WAYS}[name] for name in ways}
    for _ in range(MOST_REFUSED):
        result = attempt(drawn_command(rng), chosen)
        assert result.failed is None, message(result, chosen)
        if TRAIN not in result.refused:
            return result
    raise AssertionError("nearly everything that is drawn is refused")


@pytest.mark.slow
def test_a_drawn_command_gives_the_same_numbers_in_every_way_or_is_refused(draw_seed: int) -> None:
    rng = random.Random(draw_seed)
    result = attempted(rng, rng.sample(list(WAYS), WAYS_OF_EACH))
    assert len(result.held) + len(result.refused) == 1 + WAYS_OF_EACH


@pytest.mark.process
@pytest.mark.slow
def test_a_drawn_command_gives_the_same_numbers_on_two_devices_with_loaders_and_exported(draw_seed: int) -> None:
    ways = list(LONG_WAYS)
    attempted(random.Random(draw_seed), [ways[draw_seed % len(ways)]])
