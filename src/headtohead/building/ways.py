"""From what to what pairs of texts go, as far as a configuration tells: two runs are known to go the same way only
where their names mean the same in both."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_NAMES = (("source", "target"), ("source_column", "target_column"))
"""Of endings of files, or of columns."""
_OF_NUMBERS = {"to_words": ("digits", "words"), "to_digits": ("words", "digits")}
"""Directions of data=number_words; the third, both, goes any way."""
_FILES = ("_target_", "name", "subset", "folder", "path", "column_names")
"""What says in which files, or in which published set, such names are."""
_PLACES = ("folder", "path")
_LANGUAGES = """
    aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en
    eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja jv ka
    kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl
    nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su sv sw
    ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu
"""
"""ISO 639-1."""
_LONGER_TAG = re.compile(r"[a-z]{2,3}[_-]([A-Z]{2}|[A-Z][a-z]{3})")
"""With a country or a script: de_CH, eng_Latn."""


@dataclass(frozen=True)
class Way:
    """What is read, what is written, and in what such names are to be looked up."""

    source: str | None
    """None where the data tells by itself which of its columns is read."""
    target: str | None
    files: Mapping[str, Any]

    @property
    def is_of_languages(self) -> bool:
        """Names that mean the same wherever they are; de and translation.de do, source and target do not."""
        return all(name is not None and _is_language(_last(name)) for name in (self.source, self.target))

    def is_known_to_meet(self, other: Way) -> bool:
        """Whether both read the same or both write the same, so that neither goes the other's way back."""
        if self.files == other.files:
            return self.source == other.source or self.target == other.target
        if not (self.is_of_languages and other.is_of_languages):
            return False
        return _last(self.source) == _last(other.source) or _last(self.target) == _last(other.target)

    def __str__(self) -> str:
        return f"{self.source or 'the source'} to {self.target or 'the target'}"

    @property
    def back(self) -> Way:
        """The one to be wished for."""
        return Way(self.target or "the target", self.source or "the source", self.files)


def way_of(data: Mapping[str, Any]) -> Way | None:
    """Of pairs of texts; None where no field says which way they go."""
    files = {field: _found(field, data[field]) for field in _FILES if data.get(field) is not None}
    if (direction := data.get("direction")) in _OF_NUMBERS:
        return Way(*_OF_NUMBERS[direction], files)
    for source, target in _NAMES:
        if source in data and target in data:
            return Way(data[source], data[target], files)
    return None


def _found(field: str, value: Any) -> Any:
    return str(Path(value).expanduser().resolve()) if field in _PLACES and isinstance(value, str) else value


def _last(name: str | None) -> str:
    """Of columns within columns, as in translation.de."""
    return (name or "").rpartition(".")[2]


def _is_language(name: str) -> bool:
    return name in _LANGUAGES.split() or _LONGER_TAG.fullmatch(name) is not None
