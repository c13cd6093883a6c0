"""Every field that a choice may set has a meaning, written once for all choices of its class."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from headtohead.config.compose.choices import choices, groups
from headtohead.config.schema.json_schema import json_schema
from headtohead.config.schema.key_checks import fields_of, record_fields
from headtohead.config.schema.meanings import lineage, meanings_of, record_meanings
from headtohead.config.schema.value_kinds import Either, Kind, RecordKind
from headtohead.studies.definition.study_fields import KINDS

CLASSES = sorted({(group, choice.target) for group in groups() for choice in choices(group) if choice.target})


def fields_without_meaning(group: str, target: str) -> Iterator[str]:
    """Yield the fields of a class that nothing describes, and those of the records among its fields."""
    known, meanings = fields_of(group, {"_target_": target}), meanings_of(group, target)
    for name, kind in (known.kinds if known is not None else {}).items():
        if not meanings.get(name):
            yield f"{group}: {target}.{name}"
        for record in records(kind):
            inner, theirs = record_fields(record), record_meanings(record)
            yield from (f"{record}.{field}" for field in (inner.kinds if inner else {}) if not theirs.get(field))


def records(kind: Kind) -> Iterator[str]:
    for item in kind.kinds if isinstance(kind, Either) else (kind,):
        if isinstance(item, RecordKind):
            yield item.target


@pytest.mark.slow
def test_no_field_is_without_a_meaning() -> None:
    missing = [field for group, target in CLASSES for field in fields_without_meaning(group, target)]
    assert len(CLASSES) > 150 and not missing, (
        f"say what these mean in the choice's YAML (`field: 1  # meaning`), below the dataclass field, or behind the "
        f"parameter: {', '.join(missing)}"
    )


@dataclass(frozen=True)
class Tap:
    width: int = 1
    """Channels across,
    None for any."""
    taps: int = 2  # along it
    depth: int = 1


class Pipe:
    def __init__(
        self,
        colour: str = "red",  # of the outside
        length: int = 1,  # type: ignore[unused-ignore]
        taps: int = 2,
    ) -> None: ...


@pytest.mark.parametrize(
    ("made", "expected"),
    [(Tap, {"width": "Channels across, null for any.", "taps": "along it"}), (Pipe, {"colour": "of the outside"})],
)
def test_meanings_stand_below_fields_or_behind_them(made: type, expected: dict[str, str]) -> None:
    assert record_meanings(f"{made.__module__}.{made.__name__}") == expected


def test_a_choice_that_starts_from_another_shares_its_meanings() -> None:
    start = {choice.name: [each.name for each in lineage(choice)] for choice in choices("data")}
    assert start["wikitext2"] == ["hub_corpus", "wikitext2"] and start["hub_corpus"] == ["hub_corpus"]
    pixels = meanings_of("data", "headtohead.data.sources.hub.pixel_sequences.PixelSequences")
    assert pixels["seed"] == meanings_of("data", "headtohead.data.sources.hub.hub_images.HubImages")["seed"]


@pytest.mark.slow
def test_an_editor_shows_the_meanings_of_every_class() -> None:
    by_class: dict[str, Any] = {
        one["if"]["properties"]["_target_"]["const"]: one["then"]["properties"]
        for one in json_schema(KINDS)["else"]["then"]["allOf"]
    }
    for group, target in CLASSES:
        for name, meaning in meanings_of(group, target).items():
            if name in by_class.get(target, {}):
                assert by_class[target][name].get("description", "").startswith(meaning), (target, name)
