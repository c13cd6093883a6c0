"""Which column of a published set plays which part: by usual names, else by types; asked for where neither is plain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headtohead.data.contracts import DataError, DataKind
from headtohead.data.hub.features import is_fraction, is_label, is_text, leaves, type_of
from headtohead.data.tables.columns import Columns, kind_of, ways

Chosen = tuple[DataKind, dict[str, str]]


def chosen_columns(columns: Columns, names: Sequence[str], features: Mapping[str, Any], what: str) -> Chosen:
    """The kind of data, and the column of each part; `names` are those that the first file has."""
    for part, column in columns.given.items():
        if column not in names:
            raise DataError(f"{what} has no column {column!r}, it has {_listed(features)}: correct data.{part}_column.")
    if columns.given:
        return kind_of(columns, names, file=what)
    found = _by_names(names, what)
    if found is not None and found[0] == "labelled_text" and is_fraction(features.get(found[1]["label"])):
        return "scored_text", {("score" if part == "label" else part): name for part, name in found[1].items()}
    if found is not None and found[0] != "language":
        return found
    texts = [name for name, feature in features.items() if is_text(feature)]
    labels = [name for name, feature in features.items() if is_label(feature)]
    text = found[1]["text"] if found is not None else texts[0] if len(texts) == 1 else None
    if text is not None and len(labels) == 1:
        return "labelled_text", {"text": text, "label": labels[0]}
    if found is not None:
        return found
    if text is not None and not labels:
        return "language", {"text": text}
    example = f"; for instance data.text_column={texts[0]} data.label_column={labels[0]}" if texts and labels else ""
    raise DataError(f"{what} has the columns {_listed(features)}, which do not say what they are: {ways()}{example}.")


def _by_names(names: Sequence[str], what: str) -> Chosen | None:
    try:
        return kind_of(Columns(), names, file=what)
    except DataError:
        return None


def _listed(features: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} ({type_of(features, name)})" for name in leaves(features))
