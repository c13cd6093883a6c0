"""The page that sets mixers side by side names every mixer that can be causal in each of its tables, or says that it
has no row yet."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from contracts.choices import can_look, factory, names

PAGE = Path(__file__).parents[1] / "docs" / "mixers.md"
TABLES = ("Who can do what", "Speed and memory")


@pytest.mark.parametrize("heading", TABLES)
def test_every_causal_mixer_stands_beside_the_others(heading: str) -> None:
    (part,) = re.findall(rf"^## {heading}$(.*?)(?=^## |\Z)", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    causal = [name for name in names("mixer") if can_look(factory("mixer", name), causal=True)]
    assert len(causal) > 30
    assert not [name for name in causal if f"`{name}`" not in part]
