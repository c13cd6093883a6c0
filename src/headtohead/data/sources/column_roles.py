"""Parts that columns of a table play, and which of them make which kind of data; read without importing anything."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headtohead.data.data_source import DataKind

COLUMN_ROLES: Mapping[DataKind, tuple[frozenset[str], frozenset[str]]] = {
    "questions": (frozenset({"question", "context", "answer"}), frozenset({"answer_start", "id"})),
    "tagged_text": (frozenset({"text", "tags"}), frozenset()),
    "pairs_of_text": (frozenset({"source", "target"}), frozenset()),
    "labelled_text": (frozenset({"text", "label"}), frozenset({"second_text"})),
    "scored_text": (frozenset({"text", "score"}), frozenset({"second_text"})),
    "language": (frozenset({"text"}), frozenset()),
}
"""The columns that each kind of data needs, and those that it may have besides."""


def kind_of_roles(parts: Collection[str]) -> DataKind | None:
    """Return the kind of data that these roles make together, None where they make none."""
    for kind, (needed, optional) in COLUMN_ROLES.items():
        if needed <= set(parts) <= needed | optional:
            return kind
    return None


def kind_of_fields(fields: Mapping[str, object]) -> DataKind | None:
    """Return the kind of data whose columns a configuration names; None where they are to be guessed, and where a text
    is named alone, whose label may have been forgotten."""
    known = {part for needed, optional in COLUMN_ROLES.values() for part in needed | optional}
    named = {part for part in known if fields.get(f"{part}_column") is not None}
    return None if named == {"text"} else kind_of_roles(named)
