"""A number that a component refuses by itself, whatever its width and heads, is outside the range of its annotation, so
that a run is refused before its data are prepared."""

from __future__ import annotations

import pytest
import torch

from contracts.choices import factory, kind_of, names
from headtohead.config.schema.key_checks import fields_of
from headtohead.config.schema.value_kinds import MismatchError
from headtohead.errors import UsageError

SIZES = [(64, 4), (96, 6), (120, 5), (14, 2), (9, 1)]


@pytest.mark.parametrize("name", names("mixer"))
def test_a_whole_number_that_a_mixer_refuses_by_itself_is_outside_its_range(name: str) -> None:
    made = factory("mixer", name)
    known = fields_of("model/mixer", {"_target_": f"{made.func.__module__}.{made.func.__qualname__}"})
    assert known is not None
    for field, usual in made.keywords.items():
        if type(usual) is not int or field not in known.kinds:
            continue
        for number in (0, usual - 1, usual + 1, 2 * usual + 1):
            try:
                known.kinds[field].read(number)
            except MismatchError:
                continue
            assert any(_builds(name, {field: number}, *size) for size in SIZES), (name, field, number)


def _builds(name: str, fields: dict[str, int], width: int, heads: int) -> bool:
    """Return whether the mixer is made in one of its directions."""
    made = factory("mixer", name, **fields)
    rows = {"max_length": 32} if kind_of(made).needs_length else {}
    for causal in (True, False):
        try:
            with torch.device("meta"):
                made(width, num_heads=heads, causal=causal, **rows)
        except UsageError:
            continue
        return True
    return False
